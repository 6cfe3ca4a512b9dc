"""A user's file, CSV or Parquet: what stands in it, and the columns that are made of it.

Training learns the format of each column (`TableFile.learn`).  Later files are read by these formats (`read_by`): the
same row has the same meaning whatever other rows are in its file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from fairbound._errors import InputTypeError, bad_value
from fairbound._words import did_you_mean
from fairbound.data.delimited import Texts, decoded, read_records, read_texts
from fairbound.data.formats import MISSING, ColumnFormat
from fairbound.data.parquet import MAGIC, column_values, read_arrow
from fairbound.data.table import Columns, no_column

NOT_TEXT = {
    b"PK\x03\x04": "a zip archive or an Excel workbook",
    b"\x1f\x8b": "compressed (gzip)",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook",
}
"""How files begin that people take for a CSV file, and what they are."""

_EXACT_DIGITS = 15  # of a whole number that is held as a float, which it is beside missing values


@dataclass(frozen=True, eq=False)
class TableFile:
    """A file with columns.  Make it with `open`.

    Attributes
    ----------
    path : Path
    is_parquet : bool
    delimiter, encoding : str
        Of a text file.
    """

    path: Path
    is_parquet: bool
    delimiter: str
    encoding: str

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, delimiter: str | None = None, encoding: str = "utf-8") -> TableFile:
        """Look at a file: that it is there, and of which kind it is.

        Parameters
        ----------
        path : path
        delimiter : str, optional
            Of a text file; by default a tab for `.tsv` and a comma otherwise.
        encoding : str
            Of a text file.
        """
        if not isinstance(path, str | os.PathLike):
            raise InputTypeError("{path=value} must be the path of a file.", value=path)
        if not isinstance(encoding, str):
            raise InputTypeError("{encoding=value} must be the name of an encoding, such as 'utf-8'.", value=encoding)
        path = Path(path)
        if path.is_dir():
            raise IsADirectoryError(f"{path} is a folder; give the path of a file.")
        if not path.is_file():
            beside = [each.name for each in path.parent.iterdir()] if path.parent.is_dir() else []
            raise FileNotFoundError(f"There is no file {path}.{did_you_mean(path.name, beside)}")
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
        """Name of the file in messages."""
        return self.path.name

    @cached_property
    def arrow(self) -> Any:
        """The whole content of a Parquet file, as a table of pyarrow."""
        with self.path.open("rb") as stream:
            return read_arrow(stream, place=self.place)

    @cached_property
    def names(self) -> list[str]:
        """The names of all columns."""
        if self.is_parquet:
            return list(self.arrow.column_names)
        with self.path.open("rb") as stream, decoded(stream, self.encoding, self.place) as text:
            records = read_records(text, place=self.place, delimiter=self.delimiter)
            return next(record.fields for record in records if record.kind)

    def check_column(self, name: str, role: str) -> None:
        """Refuse a name that is none of the columns; `role` says who needs it, such as an argument."""
        if name not in self.names:
            raise no_column(self.place, name, self.names, role)

    def read_texts(self, keep: Collection[str] | None = None) -> Texts:
        """Return the values of a text file as they are written."""
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
        """Return the columns, and how each is written.

        Parameters
        ----------
        ignore : collection of str
            Columns that are not read.
        words : collection of str
            Columns of labels, groups and other categories.  They are numbers only if all values are written as Python
            writes them: "$5", "1,5", "unknown" and "01" are words there.
        missing : collection of str
            What stands for a missing value.
        decimal : {".", ","}, optional
            The decimal mark of all numbers; found out by default.
        formats : mapping of str to ColumnFormat, optional
            Columns whose format is known, from the training file.
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
            columns = {name: column_values(table.column(name), name, self.place) for name in table.column_names}
            # A type says what is text, and a null what is missing: nothing is guessed, and an empty text is missing.
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
        """Return columns that are read by the formats of training; those of categories as words.

        Numbers of a Parquet file are numbers, whatever the format: only text needs one.
        """
        found: Columns = {}
        texts = None if self.is_parquet else self.read_texts(keep=formats)
        for name, form in formats.items():
            if texts is not None:
                values: Sequence[str | None] = texts.columns[name]
                where = self.line(texts)
            else:
                typed = column_values(self.arrow.column(name), name, self.place)
                if typed.dtype.kind in "if":
                    found[name] = typed
                    continue
                values, where = typed.tolist(), self.row
            found[name] = form.words(values) if name in categories else form.read(values, name, where)
        return found

    def line(self, texts: Texts) -> Callable[[int], str]:
        """Return a function that says where a row of a text file is."""
        return lambda row: f"line {texts.lines[row]:,} of {self.place}"

    def row(self, row: int) -> str:
        """Say where a row of a Parquet file is."""
        return f"row {row + 1:,} of {self.place}"


def _learn_codes(values: Sequence[str | None], missing: Collection[str]) -> ColumnFormat:
    """Codes that are written as numbers are numbers, unless something is lost by it: 01 is not 1."""
    found = ColumnFormat.learn(values, missing, plain=True)
    long = any(value is not None and len(value.strip()) > _EXACT_DIGITS for value in set(values))
    return replace(found, kind="text") if found.padded or long else found


def _format_of(values: NDArray[Any], text: ColumnFormat) -> ColumnFormat:
    """Return the format of a column that has a type."""
    return ColumnFormat("number") if values.dtype.kind in "if" else text
