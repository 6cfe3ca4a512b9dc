"""Delimited text (CSV and the like), read by pyarrow as columns of text.

Blanks around column names are ignored, and empty lines are skipped.  A quoted value may contain delimiters and line
ends.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

from numpy.typing import NDArray

from fairbound._errors import InputError, InputTypeError, bad_value
from fairbound.data.arrow import import_pyarrow
from fairbound.data.batches import Batches
from fairbound.data.columns import store

BYTES_PER_CHARACTER = 50
"""Bytes of memory per byte of a text file, in a study."""

DELIMITERS = ",;\t|"
"""Delimiters that are found without being named."""

LONGEST_HEADER = 2**16
"""Characters of the first line in which the delimiter is looked for."""

_BYTE_ORDER_MARKS = {
    "utf-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
    "utf-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),
}


@dataclass(frozen=True, eq=False, kw_only=True)
class DelimitedText(Batches):
    """A text file with a line of column names.

    Attributes
    ----------
    opened : function
        Opens the file at its beginning.
    raw_names : tuple of str
        The names as they are written; if one occurs twice, as they are numbered.
    numbered : bool
        Whether a name occurs twice.
    header : bool
        Whether the first line has the names.
    comment : str, optional
        Lines that begin with this text are skipped.
    """

    opened: Callable[[], AbstractContextManager[BinaryIO]]
    raw_names: tuple[str, ...]
    numbered: bool = False
    header: bool = True
    comment: str | None = None
    is_typed: bool = False

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        delimiter: str | None = None,
        encoding: str = "utf-8",
        stream: BinaryIO | None = None,
        header: Sequence[str] | None = None,
        comment: str | None = None,
    ) -> DelimitedText:
        """Find the encoding and the names of the columns of a file, or of a stream that is already open."""
        if not isinstance(encoding, str):
            raise InputTypeError("{encoding=value} must be the name of an encoding, such as 'utf-8'.", value=encoding)
        if delimiter is not None and (not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n'):
            raise bad_value("delimiter", delimiter, "one character, for example ',' or ';'")

        # pyarrow reads ahead in a thread of its own, so two readings must not share a stream.
        content = None if stream is None else stream.read()

        def opened() -> AbstractContextManager[BinaryIO]:
            return path.open("rb") if content is None else io.BytesIO(content)

        with opened() as start:
            codec = find_codec(start.read(4096), encoding, path.name)
            first = DELIMITERS if path.suffix.lower() != ".tsv" else f"\t{DELIMITERS}"
            found = cls(
                place=path.name,
                names=tuple(header or ()),
                raw_names=tuple(header or ()),
                delimiter=delimiter or _find_delimiter(start, codec, first),
                encoding=codec,
                opened=opened,
                header=header is None,
                comment=comment,
            )
        if header is not None:
            return found
        with found._reader({}) as reader:
            raw = tuple(reader.schema.names)
        names = numbered(name.strip() for name in raw)
        check_names(names, path.name)
        twice = len(set(raw)) < len(raw)
        return replace(found, names=names, raw_names=names if twice else raw, numbered=twice)

    def size(self) -> float:
        """Return about how many bytes of memory the rows take in a study."""
        with self.opened() as stream:
            return stream.seek(0, io.SEEK_END) * BYTES_PER_CHARACTER

    def kind(self, name: str) -> Any:  # noqa: ARG002  # all columns are text
        """Return the type of text."""
        return import_pyarrow().string()

    def stored(self, columns: Sequence[str]) -> Iterator[tuple[int, Any]]:
        """Yield the text of the columns."""
        pa = import_pyarrow()
        raw = {self.raw_names[self.names.index(name)]: pa.string() for name in columns}
        first, last, is_header = 0, pa.table({}), self.numbered
        with self._reader(raw) as reader:
            for batch in reader:
                table = pa.Table.from_batches([batch]).select(list(raw)).rename_columns(list(columns))
                if is_header and table.num_rows:
                    table, is_header = table.slice(1), False
                if table.num_rows:
                    yield first, table
                first, last = first + table.num_rows, table if table.num_rows else last
        if not first:
            raise ValueError(f"{self.place} has a line of column names and no row; give at least one row.")
        # pyarrow takes all the rest of the file for the last value if its quote is never closed.
        if any("\n" in (last.column(name)[-1].as_py() or "") for name in columns):
            self._check_quotes()

    @contextmanager
    def _reader(self, kinds: dict[str, Any]) -> Iterator[Any]:
        """Open a reader of the file, and explain the errors of reading."""
        pa = import_pyarrow("Reading text files needs")
        from pyarrow import csv as text

        wrong: list[Any] = []

        def handle(row: Any) -> str:
            if not row.text.strip() or (self.comment is not None and row.text.startswith(self.comment)):
                return "skip"
            wrong.append(row)
            return "error"

        try:
            with self.opened() as stream:
                yield text.open_csv(
                    _CheckedText(stream) if self.encoding == "utf-8" else stream,
                    read_options=text.ReadOptions(
                        use_threads=False,  # only then rows are numbered in errors
                        encoding="utf8" if self.encoding == "utf-8" else self.encoding,
                        column_names=None if self.header and not self.numbered else list(self.raw_names),
                    ),
                    parse_options=text.ParseOptions(
                        delimiter=self.delimiter, newlines_in_values=True, invalid_row_handler=handle
                    ),
                    convert_options=text.ConvertOptions(
                        column_types=kinds, include_columns=list(kinds), strings_can_be_null=False
                    ),
                )
        except (pa.ArrowException, UnicodeDecodeError) as error:
            raise self._explained(error, wrong) from error

    def _explained(self, error: Exception, wrong: Sequence[Any]) -> ValueError:
        with self.opened() as stream:
            found = _undecodable(stream, self.encoding, self.place)
        if found is None and "Empty CSV" in str(error):
            return ValueError(f"{self.place} is empty; give a line of column names and at least one row.")
        if found is not None or not wrong:
            reason = str(error).splitlines()[0]
            return found or ValueError(f"{self.place} is not well formed ({reason}); look at its quotes.")
        row, fields = wrong[0], wrong[0].actual_columns
        return ValueError(
            f"Row {row.number - self.header:,} of {self.place} has {fields} {'field' if fields == 1 else 'fields'} "
            f"({row.text[:60]!r}), but there are {row.expected_columns} columns; add or remove delimiters "
            f"({self.delimiter!r}), or put quotes around a value that contains one."
        )

    def _check_quotes(self) -> None:
        with self.opened() as stream:
            quotes = sum(block.count(b'"') for block in iter(lambda: stream.read(2**20), b""))
        if quotes % 2:
            raise ValueError(f"{self.place} ends within a quoted value; look at its quotes.")


class _CheckedText(io.RawIOBase):
    """A stream of UTF-8 that raises an error where it is none; pyarrow prints some of these errors and goes on."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream, self.decoder = stream, codecs.getincrementaldecoder("utf-8")()

    def readable(self) -> bool:
        """Return True."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes."""
        block = self.stream.read(size)
        self.decoder.decode(block, final=not block)
        return block


def read_delimited(
    stream: BinaryIO,
    *,
    place: str,
    header: Sequence[str] | None = None,
    keep: Collection[str] | None = None,
    comment: str | None = None,
) -> dict[str, NDArray[Any]]:
    """Read the columns of an open text file; `header` has their names if the file has no line of names."""
    source = DelimitedText.open(Path(place), delimiter=",", stream=stream, header=header, comment=comment)
    kept = [name for name in source.names if keep is None or name in keep]
    return dict(store(source.hold(kept).learn()).columns)


def _find_delimiter(stream: BinaryIO, codec: str, candidates: str) -> str:
    """Return the delimiter that makes most columns of the first line; of several, the first candidate."""
    stream.seek(0)
    text = io.TextIOWrapper(stream, encoding=codec, errors="replace", newline="")
    while (line := text.readline(LONGEST_HEADER)).isspace():
        pass
    text.detach()
    return max(candidates, key=lambda each: len(next(csv.reader([line], delimiter=each), ())))


def find_codec(sample: bytes, encoding: str, place: str) -> str:
    """Return the name of the codec for a text that begins with `sample`."""
    try:
        codec = codecs.lookup(encoding).name.removesuffix("-sig")
        "".encode(codec)  # raises an error for codecs that are not text encodings, such as "hex"
    except (LookupError, ValueError) as error:
        raise InputError(
            "{encoding=value} is not an encoding that Python knows.",
            "Give 'utf-8', 'cp1252', 'latin-1' or another one.",
            value=encoding,
        ) from error
    family = codec[:6]
    if sample.startswith(_BYTE_ORDER_MARKS.get(family, ())) and family in _BYTE_ORDER_MARKS:
        return family  # this codec skips the mark
    wide = family in _BYTE_ORDER_MARKS
    marked = sample.startswith(_BYTE_ORDER_MARKS["utf-16"])
    if codec in _BYTE_ORDER_MARKS or (not wide and not marked and b"\0" in sample):
        # In UTF-16, one of the two bytes of an ASCII character is zero: the second one if little-endian.
        order = "le" if sample[1::2].count(0) >= sample[::2].count(0) else "be"
        what = f"has no byte-order mark, which {codec!r} needs" if wide else "has zero bytes, as text in UTF-16 has"
        raise InputError(
            "{place} {what}.",
            "Try {encoding=other}.",
            place=place,
            what=what,
            other=f"{codec if wide else 'utf-16'}-{order}",
        )
    return codec


def _undecodable(stream: BinaryIO, codec: str, place: str) -> ValueError | None:
    """Return the error that names the first line whose bytes are no text; None if there is none."""
    text, line = io.TextIOWrapper(stream, encoding=codec, newline=""), 1
    try:
        for _ in text:
            line += 1
    except UnicodeDecodeError as error:
        # The text is decoded in blocks, so all lines before this block have been counted.
        return InputError(
            "{place} is not text in the encoding {tried!r}: line {line} has the byte 0x{byte:02x}.",
            "Name the encoding of the file with {encoding=}, for example 'cp1252' or 'utf-16'.",
            place=place,
            tried=codec,
            line=line + error.object[: error.start].count(b"\n"),
            byte=error.object[error.start],
        )
    finally:
        text.detach()
    return None


def numbered(names: Iterable[str]) -> tuple[str, ...]:
    """Return names of which each occurs once: the second one of a name has a number, as pandas gives it.

    >>> numbered(["score", "age", "score"])
    ('score', 'age', 'score.1')
    """
    found: list[str] = []
    for name in names:
        later = (f"{name}.{number}" for number in count(1))
        found.append(name if name not in found else next(each for each in later if each not in found))
    return tuple(found)


def check_names(names: Sequence[str], place: str) -> None:
    """Raise an error if there is no name."""
    if not any(names):
        raise ValueError(f"{place} is empty; give a line of column names and at least one row.")
