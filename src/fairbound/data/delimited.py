"""Read delimited text (CSV and the like) into columns, with the standard library and numpy only.

A column has numbers if every value that is not missing is written as a number. Integers without missing values are
int64; all other numbers are float64, with NaN for missing values. Any other column is text, with None for missing
values. Blanks around a value are ignored, empty lines are skipped, and a quoted value may contain delimiters and line
ends.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, BinaryIO, NamedTuple, TextIO

from numpy.typing import NDArray

from fairbound._errors import InputError
from fairbound.data.formats import MISSING, ColumnFormat
from fairbound.data.table import Columns

_DELIMITERS = ";\t|,"
_BYTE_ORDER_MARKS = {
    "utf-8": [(codecs.BOM_UTF8, "utf-8")],
    "utf-16": [(codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")],
    "utf-32": [(codecs.BOM_UTF32_LE, "utf-32-le"), (codecs.BOM_UTF32_BE, "utf-32-be")],
}


def read_delimited(
    stream: BinaryIO,
    *,
    place: str,
    delimiter: str = ",",
    encoding: str = "utf-8",
    missing: Collection[str] = MISSING,
    header: Sequence[str] | None = None,
    keep: Collection[str] | None = None,
    comment: str | None = None,
) -> Columns:
    """Read the columns of a text file.

    Parameters
    ----------
    stream : binary file
        The text; a byte-order mark at its start is skipped.
    place : str
        Name of the file in error messages.
    delimiter : str
        One character.
    encoding : str
        Encoding of the text.
    missing : collection of str
        Texts that mean a missing value.
    header : sequence of str, optional
        Names of the columns, for files without a line of names.
    keep : collection of str, optional
        Columns to keep; by default all.
    comment : str, optional
        Lines that begin with this text are skipped.

    Returns
    -------
    dict of str to array
        The columns in the order of the file.

    Raises
    ------
    ValueError
        If the file has no row, a line with too many or too few fields, two columns of the same name, or is not text of
        the given encoding; the message names the line or the columns.
    """
    texts = read_texts(
        stream, place=place, delimiter=delimiter, encoding=encoding, header=header, keep=keep, comment=comment
    )
    return {name: infer(values, missing) for name, values in texts.columns.items()}


def infer(values: Sequence[str], missing: Collection[str] = MISSING) -> NDArray[Any]:
    """Return text values as int64, float64 or text, as the docstring of this module describes.

    Examples
    --------
    >>> infer(["1", "2"]), infer(["1", ""]), infer(["1", "x"])
    (array([1, 2]), array([ 1., nan]), array(['1', 'x'], dtype='<U1'))
    """
    return ColumnFormat.learn(values, missing, plain=True).read(values)


@dataclass(frozen=True, eq=False)
class Texts:
    """The values of a file as text.

    Attributes
    ----------
    names : list of str
        All columns of the file.
    columns : dict of str to tuple of str
        The columns that were kept.
    lines : list of int
        Number of the line on which each row begins.
    """

    names: list[str]
    columns: dict[str, tuple[str, ...]]
    lines: list[int]


def read_texts(
    stream: BinaryIO,
    *,
    place: str,
    delimiter: str = ",",
    encoding: str = "utf-8",
    header: Sequence[str] | None = None,
    keep: Collection[str] | None = None,
    comment: str | None = None,
) -> Texts:
    """Read the columns of a text file without interpreting their values; parameters as for `read_delimited`."""
    with decoded(stream, encoding, place) as text:
        records = read_records(text, place=place, delimiter=delimiter, header=header, comment=comment, raw=False)
        names = next(fields for _, kind, fields, _ in records if kind) if header is None else list(header)
        kept = [position for position, name in enumerate(names) if keep is None or name in keep]
        pick = itemgetter(*kept) if len(kept) > 1 else lambda row: tuple(row[position] for position in kept)
        lines, rows = [], []
        for line, kind, fields, _ in records:
            if kind == "row":
                lines.append(line)
                rows.append(pick(fields))
    columns = zip(*rows, strict=True)
    return Texts(names, {names[position]: values for position, values in zip(kept, columns, strict=True)}, lines)


class Record(NamedTuple):
    """One record of a text file: its first line, its kind, its fields, and its text with the line end."""

    line: int
    kind: str  # "names", "row", or "" for an empty line or a comment
    fields: list[str]
    raw: str


def read_records(
    text: TextIO,
    *,
    place: str,
    delimiter: str,
    header: Sequence[str] | None = None,
    comment: str | None = None,
    raw: bool = True,
) -> Iterator[tuple[int, str, list[str], str]]:
    """Yield the values of a `Record` for each record of a text file, also for empty lines and comments.

    Blanks around column names are removed.  Without `raw`, the text of the records is empty, which is faster.
    """
    names = None if header is None else list(header)
    rows = 0
    for line, fields, written in _parse_lines(text, place, delimiter, raw):
        kind = "row"
        if not fields or (comment is not None and fields[0].startswith(comment)):
            kind = ""
        elif len(fields) == 1 and not fields[0].strip() and (names is None or len(names) > 1):
            kind = ""  # blanks only
        elif names is None:
            kind, fields = "names", [name.strip() for name in fields]
            _check_names(fields, place)
            names = fields
        elif len(fields) != len(names):
            raise ValueError(
                f"Line {line} of {place} has {len(fields)} {'field' if len(fields) == 1 else 'fields'}, but there are "
                f"{len(names)} columns; add or remove delimiters ({delimiter!r}), or put quotes around a value that "
                "contains one."
            )
        rows += kind == "row"
        yield line, kind, fields, written
    if names is None:
        _check_names([], place)
    if not rows:
        raise ValueError(f"{place} has a line of column names and no row; give at least one row.")


def exact_fields(record: Record, delimiter: str) -> list[str]:
    """Return the fields of a record with their leading blanks, which the parser skips."""
    if not record.raw.startswith(" ") and f"{delimiter} " not in record.raw:
        return record.fields
    field = re.compile(rf' *"((?:[^"]|"")*)"|([^{re.escape(delimiter)}]*)')
    text, found, start = record.raw.rstrip("\r\n"), [], 0
    while start <= len(text):
        match = field.match(text, start)
        assert match is not None  # the second alternative matches anything
        found.append(match[2] if match[1] is None else match[1].replace('""', '"'))
        start = match.end() + len(delimiter)
    return found


def find_encoding(stream: BinaryIO, encoding: str, place: str) -> tuple[str, bytes]:
    """Return the name of the codec and the byte-order mark; afterwards the stream is positioned after the mark."""
    try:
        codec = codecs.lookup(encoding).name.removesuffix("-sig")
        "".encode(codec)  # raises an error for codecs that are not text encodings, such as "hex"
    except (LookupError, ValueError) as error:
        raise InputError(
            "{encoding=value} is not an encoding that Python knows.",
            "Give 'utf-8', 'cp1252', 'latin-1' or another one.",
            value=encoding,
        ) from error
    sample = stream.read(4096)
    mark = b""
    for family, known in _BYTE_ORDER_MARKS.items():
        for bytes_, name in known:
            if codec in (family, name) and sample.startswith(bytes_):
                codec, mark = name, bytes_
    stream.seek(len(mark) - len(sample), io.SEEK_CUR)
    wide = codec.startswith(("utf-16", "utf-32"))
    marked = sample.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    if codec in ("utf-16", "utf-32") or (not wide and not marked and b"\0" in sample):
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
    return codec, mark


@contextmanager
def decoded(stream: BinaryIO, encoding: str, place: str) -> Iterator[TextIO]:
    """Return the decoded text of a stream without its byte-order mark; the caller closes the stream."""
    codec, _ = find_encoding(stream, encoding, place)
    text = io.TextIOWrapper(stream, encoding=codec, newline="")
    try:
        yield text
    finally:
        text.detach()


def _parse_lines(text: TextIO, place: str, delimiter: str, raw: bool) -> Iterator[tuple[int, list[str], str]]:
    """Yield the number of the first line of each record, its fields, and its text, which is empty without `raw`."""
    taken: list[str] = []  # lines that the parser has read since the last record

    def lines() -> Iterator[str]:
        for each in text:
            taken.append(each)
            yield each

    reader = csv.reader(lines() if raw else text, delimiter=delimiter, skipinitialspace=True, strict=True)
    line = 1
    try:
        for fields in reader:
            written = taken[0] if len(taken) == 1 else "".join(taken)
            taken.clear()
            yield line, fields, written
            line = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(f"Line {line} of {place} is not well formed ({error}); look at its quotes.") from error
    except UnicodeDecodeError as error:
        # The text is decoded in blocks, so all lines before this block have been counted.
        line = reader.line_num + 1 + error.object[: error.start].count(b"\n")
        raise InputError(
            "{place} is not text in the encoding {tried!r}: line {line} has the byte 0x{byte:02x}.",
            "Name the encoding of the file with {encoding=}, for example 'cp1252' or 'utf-16'.",
            place=place,
            tried=text.encoding,
            line=line,
            byte=error.object[error.start],
        ) from error


def _check_names(names: list[str], place: str) -> None:
    if not any(names):
        raise ValueError(f"{place} is empty; give a line of column names and at least one row.")
    if len(names) == 1:
        other = [delimiter for delimiter in _DELIMITERS if delimiter in names[0]]
        if other:
            raise InputError(
                "{place} has a single column, {name!r}.",
                "If its values are separated by {other!r}, give {delimiter=other}.",
                place=place,
                name=names[0][:60],
                other=other[0],
            )
    for position, name in enumerate(names):
        first = names.index(name)
        if first != position:
            raise ValueError(
                f"Columns {first + 1} and {position + 1} of {place} are both named {name!r}; give each its own name."
            )
