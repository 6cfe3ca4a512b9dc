"""Read a user's file, CSV or Parquet.

Training learns the format of each column (`TableFile.learn`).  Later files are read with these formats (`read_by`), so
that a row has the same meaning whatever other rows are in its file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from fairbound._errors import InputError, InputTypeError, argument, bad_value, missing_extra
from fairbound._files import existing_file
from fairbound._values import as_array
from fairbound.data.delimited import Texts, decoded, read_records, read_texts
from fairbound.data.formats import MISSING, ColumnFormat
from fairbound.data.table import Columns, no_column

# --- parquet ---------------------------------------------------------------------------------------------------------

# Read Parquet files into columns of the same types as text files: int64, float64 with NaN, or text with None.


MAGIC = b"PAR1"  # the first bytes of every such file
TEXTS = ("string", "large_string", "string_view")


def read_parquet(stream: BinaryIO, *, place: str, ignore: Collection[str] = ()) -> Columns:
    """Read the columns of a Parquet file, except those in `ignore`.

    Raises
    ------
    ImportError
        If pyarrow is not installed.
    ValueError
        If the file is damaged, has no row, two columns of the same name, or a column that is neither numbers nor text.
    """
    table = read_arrow(stream, place=place, ignore=ignore)
    return {name: column_values(table.column(name), name, place) for name in table.column_names}


def read_arrow(stream: BinaryIO, *, place: str, ignore: Collection[str] = ()) -> Any:
    """Read a Parquet file as a pyarrow table, with its types and metadata."""
    try:
        import pyarrow as pa  # an optional dependency, needed for this format only
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise missing_extra("Reading Parquet files needs", "pyarrow", "data") from error
    try:
        with ParquetFile(stream) as file:
            names = file.schema_arrow.names
            twice = [name for name in names if names.count(name) > 1]
            unknown = [name for name in ignore if name not in names]
            kept = [name for name in names if name not in ignore]
            table: Any = None if twice or unknown else file.read(kept)
            if table is not None and table.column_names != kept:  # pyarrow also selects "a.b" for the name "a"
                table = file.read().select(kept)
        if table is not None:
            table.validate(full=True)  # damaged pages may contain invalid text, or codes outside their dictionary
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise unreadable_parquet(place, error) from error
    if twice:
        raise ValueError(f"Two columns of {place} are named {twice[0]!r}; give each its own name.")
    if unknown:
        raise no_column(place, unknown[0], names, argument("ignore"))
    if not table.num_rows:
        raise ValueError(f"{place} has no row; give at least one.")
    return table


def unreadable_parquet(place: str, error: Exception) -> ValueError:
    """Return the error of a file that pyarrow cannot read."""
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return ValueError(f"{place} is not a Parquet file that can be read ({reason}); write it again.")


def unsupported_type(name: str, place: str, kind: Any) -> InputError:
    """Return the error of a column that has neither numbers nor text."""
    return InputError(
        "Column {column!r} of {place} has the type {kind}.",
        "Give numbers or text, or leave it out with {ignore=}.",
        column=name,
        place=place,
        kind=kind,
    )


def column_values(column: Any, name: str, place: str, *, codes: bool = False) -> NDArray[Any]:
    """Return a pyarrow column as numbers or text.

    Whole numbers are int64 if all fit and none is missing; other numbers are floats.  Codes of labels, groups and
    categories must stay apart: if a float would round one of them, all are text.
    """
    import pyarrow as pa

    types = pa.types
    kind = column.type
    if types.is_dictionary(kind):
        kind = kind.value_type
        column = column.cast(kind)
    if not is_supported(kind):
        raise unsupported_type(name, place, kind)
    if types.is_boolean(kind) or str(kind) in TEXTS:
        texts = [None if value is None else str(value) for value in column.to_pylist()]
        return np.array(texts, dtype=object) if column.null_count else as_array(texts)
    if is_whole(kind) and not column.null_count:
        try:
            return np.asarray(column.cast(pa.int64()).to_numpy(), dtype=np.int64)
        except pa.ArrowInvalid:  # a number of more than 64 bits
            pass
    # `safe=False`: integers beyond 53 bits are rounded, as in text files.
    numbers = np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)
    exact = 10.0**EXACT_DIGITS / 10.0 ** (kind.scale if types.is_decimal(kind) else 0)
    if codes and not types.is_floating(kind) and (np.abs(numbers) >= exact).any():
        return np.array(
            [
                None if each is None else format(each, "f" if types.is_decimal(kind) else "d")
                for each in column.to_pylist()
            ],
            dtype=object,
        )
    return numbers


def is_supported(kind: Any) -> bool:
    """Return whether a pyarrow type is numbers or text."""
    from pyarrow import types

    kind = kind.value_type if types.is_dictionary(kind) else kind
    tests = (types.is_integer, types.is_floating, types.is_null, types.is_decimal, types.is_boolean)
    return str(kind) in TEXTS or any(test(kind) for test in tests)


def is_whole(kind: Any) -> bool:
    """Return whether a pyarrow type has whole numbers only."""
    from pyarrow import types

    return types.is_integer(kind) or (types.is_decimal(kind) and kind.scale == 0)


def plain_type(kind: Any) -> Any:
    """Return the type of the values of a dictionary column; return any other type unchanged."""
    from pyarrow import types

    return kind.value_type if types.is_dictionary(kind) else kind


def common_type(kinds: Sequence[Any]) -> Any:
    """Return the type of all files if they agree, else a type that holds all values; None if there is none."""
    import pyarrow as pa

    if all(kind == kinds[0] for kind in kinds):
        return kinds[0]
    plain = {kind for kind in map(plain_type, kinds) if not pa.types.is_null(kind)}
    if len(plain) == 1:
        return plain.pop()
    if all(str(kind) in TEXTS for kind in plain):
        return pa.large_string()
    if not all(is_supported(kind) and not is_text(kind) for kind in plain):
        return None
    if not all(map(is_whole, plain)):
        return pa.float64()
    narrow = all(pa.types.is_integer(kind) and not pa.types.is_uint64(kind) for kind in plain)
    return pa.int64() if narrow else pa.decimal256(76, 0)


def is_text(kind: Any) -> bool:
    """Return whether a pyarrow type is text or truth values, which are read as words."""
    return kind is not None and str(plain_type(kind)) in ("bool", *TEXTS)


# --- files of either kind --------------------------------------------------------------------------------------------


NOT_TEXT = {
    b"PK\x03\x04": "a zip archive or an Excel workbook",
    b"\x1f\x8b": "compressed (gzip)",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook",
}
"""First bytes of files that are often mistaken for CSV files, and what they are."""

EXACT_DIGITS = 15  # digits of a whole number that a float holds exactly; beside missing values, numbers are floats


@dataclass(frozen=True, eq=False)
class TableFile:
    """A file with columns; create it with `TableFile.open`.

    Attributes
    ----------
    path : Path
    is_parquet : bool
    delimiter, encoding : str
        Delimiter and encoding of a text file.
    """

    path: Path
    is_parquet: bool
    delimiter: str
    encoding: str

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, delimiter: str | None = None, encoding: str = "utf-8") -> TableFile:
        """Check that a file exists, and find out whether it is text or Parquet.

        Parameters
        ----------
        path : path
        delimiter : str, optional
            Delimiter of a text file; by default a tab for `.tsv`, else a comma.
        encoding : str
            Encoding of a text file.
        """
        if not isinstance(path, str | os.PathLike):
            raise InputTypeError("{path=value} must be the path of a file.", value=path)
        if not isinstance(encoding, str):
            raise InputTypeError("{encoding=value} must be the name of an encoding, such as 'utf-8'.", value=encoding)
        path = existing_file(path)
        if delimiter is None:
            delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
        if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n':
            raise bad_value("delimiter", delimiter, "one character, for example ',' or ';'")
        with path.open("rb") as stream:
            start = stream.read(4)
        for beginning, what in NOT_TEXT.items():
            if start.startswith(beginning):
                raise ValueError(f"{path.name} is {what}; give a text file (CSV) or a Parquet file.")
        return cls(path, start == MAGIC, delimiter, encoding)

    @property
    def place(self) -> str:
        """Return the name of the file for messages."""
        return self.path.name

    @cached_property
    def arrow(self) -> Any:
        """Return the content of a Parquet file as a pyarrow table."""
        with self.path.open("rb") as stream:
            return read_arrow(stream, place=self.place)

    @cached_property
    def names(self) -> list[str]:
        """Return the names of all columns."""
        if self.is_parquet:
            return list(self.arrow.column_names)
        with self.path.open("rb") as stream, decoded(stream, self.encoding, self.place) as text:
            records = read_records(text, place=self.place, delimiter=self.delimiter)
            return next(fields for _, kind, fields, _ in records if kind)

    def check_column(self, name: str, role: str) -> None:
        """Raise an error if a name is not a column; `role` says what names it, such as an argument."""
        if name not in self.names:
            raise no_column(self.place, name, self.names, role)

    def read_texts(self, keep: Collection[str] | None = None) -> Texts:
        """Return the values of a text file as text."""
        with self.path.open("rb") as stream:
            return read_texts(stream, place=self.place, delimiter=self.delimiter, encoding=self.encoding, keep=keep)

    def learn(
        self,
        *,
        ignore: Collection[str] = (),
        words: Collection[str] = (),
        missing: Collection[str] = MISSING,
        decimal: str | None = None,
        formats: Mapping[str, ColumnFormat] | None = None,
    ) -> tuple[Columns, dict[str, ColumnFormat]]:
        """Return the columns and their formats.

        Parameters
        ----------
        ignore : collection of str
            Columns that are not read.
        words : collection of str
            Columns of labels, groups and other categories.  They are numbers only if all values are written as Python
            writes them: "$5", "1,5", "unknown" and "01" are words there.
        missing : collection of str
            Texts that mean a missing value.
        decimal : {".", ","}, optional
            The decimal mark of all numbers; by default it is inferred.
        formats : mapping of str to ColumnFormat, optional
            Known formats, from the training file.
        """
        known = {} if formats is None else formats

        def learnt(name: str, values: Sequence[str | None]) -> ColumnFormat:
            if name in known:
                return known[name]
            if name in words:
                return _learn_codes(values, missing)
            return ColumnFormat.learn(values, missing, decimal=decimal)

        if self.is_parquet:
            with self.path.open("rb") as stream:
                table = read_arrow(stream, place=self.place, ignore=ignore)
            columns = {
                name: column_values(table.column(name), name, self.place, codes=name in words)
                for name in table.column_names
            }
            # Parquet has types and nulls, so nothing is inferred; only an empty text also counts as missing.
            marks = ("",) if tuple(missing) == MISSING else tuple(missing)
            found = {
                name: known.get(name, _format_of(values, replace(ColumnFormat(), missing=marks)))
                for name, values in columns.items()
            }
            read = {
                name: values if values.dtype.kind in "if" else found[name].read(values.tolist(), name, self.row)
                for name, values in columns.items()
            }
            return read, found
        texts = self.read_texts(keep=[name for name in self.names if name not in ignore])
        found = {name: learnt(name, values) for name, values in texts.columns.items()}
        where = self.line(texts)
        return {name: found[name].read(values, name, where) for name, values in texts.columns.items()}, found

    def read_by(self, formats: Mapping[str, ColumnFormat], categories: Collection[str] = ()) -> Columns:
        """Return the columns, read with the formats of training; columns in `categories` are returned as words.

        Only text needs a format: columns of numbers in a Parquet file are returned unchanged.
        """
        found: Columns = {}
        texts = None if self.is_parquet else self.read_texts(keep=formats)
        for name, form in formats.items():
            if texts is not None:
                values: Sequence[str | None] = texts.columns[name]
                where = self.line(texts)
            else:
                typed = column_values(self.arrow.column(name), name, self.place, codes=name in categories)
                if typed.dtype.kind in "if":
                    found[name] = typed
                    continue
                values, where = typed.tolist(), self.row
            found[name] = form.words(values) if name in categories else form.read(values, name, where)
        return found

    def line(self, texts: Texts) -> Callable[[int], str]:
        """Return a function that returns the line of a row of a text file, for messages."""
        return lambda row: f"line {texts.lines[row]:,} of {self.place}"

    def row(self, row: int) -> str:
        """Return the position of a row of a Parquet file, for messages."""
        return f"row {row + 1:,} of {self.place}"


def _learn_codes(values: Sequence[str | None], missing: Collection[str]) -> ColumnFormat:
    """Return the format of a column of codes: numbers, unless that would lose something (01 is not 1)."""
    found = ColumnFormat.learn(values, missing, plain=True)
    long = any(value is not None and len(value.strip()) > EXACT_DIGITS for value in set(values))
    return replace(found, kind="text") if found.padded or long else found


def _format_of(values: NDArray[Any], text: ColumnFormat) -> ColumnFormat:
    """Return the format of a typed column: number, or `text`."""
    return ColumnFormat("number") if values.dtype.kind in "if" else text
