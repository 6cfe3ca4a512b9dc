"""Text with delimiters (CSV and its relatives) into columns, with the standard library and numpy alone.

A column is numbers when every value that is not missing is written as one: integers without a missing value are int64,
all other numbers float64 with NaN for missing ones. Otherwise it is text, with None for missing values. Blanks around
a value do not count, lines without any value are skipped, and a quoted value may hold delimiters and line ends.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterator, Sequence
from operator import itemgetter
from typing import Any, BinaryIO, TextIO

import numpy as np
from numpy.typing import NDArray

from fairbound.data.table import Columns

MISSING = ("", "?", "NA", "N/A", "NaN", "nan", "NULL", "null", "<NA>")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf(?:inity)?)", re.IGNORECASE)
_DELIMITERS = {";": "';'", "\t": "'\\t'", "|": "'|'", ",": "','"}


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
        The text; a byte-order mark at its beginning is skipped.
    place : str
        Name of the file in messages.
    delimiter : str
        One character.
    encoding : str
        Encoding of the text.
    missing : collection of str
        What stands for a missing value.
    header : sequence of str, optional
        Names of the columns, for files without a line of them.
    keep : collection of str, optional
        The only columns to keep; the others are not even stored. By default all.
    comment : str, optional
        Lines that begin with it are skipped.

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
    # "utf-8-sig" is UTF-8 whose byte-order mark, if there is one, does not become part of the first name.
    codec = "utf-8-sig" if encoding.lower().replace("_", "-") in ("utf-8", "utf8") else encoding
    try:
        text = io.TextIOWrapper(stream, encoding=codec, newline="")
    except LookupError as error:
        raise ValueError(
            f"encoding is {encoding!r}, which is none; give 'utf-8', 'cp1252', 'latin-1' or so."
        ) from error
    try:
        names, kept, rows = _read(_lines(text, place, delimiter, comment), place, delimiter, header, keep)
    finally:
        text.detach()  # the stream is the caller's to close
    blank = frozenset(missing)
    columns = zip(*rows, strict=True)
    return {names[position]: infer(column, blank) for position, column in zip(kept, columns, strict=True)}


def infer(values: Sequence[str], missing: Collection[str] = MISSING) -> NDArray[Any]:
    """Return text values as int64, float64 or text (see above).

    Examples
    --------
    >>> infer(["1", "2"]), infer(["1", ""]), infer(["1", "x"])
    (array([1, 2]), array([ 1., nan]), array(['1', 'x'], dtype='<U1'))
    """
    # Columns have far fewer different values than rows, so each is looked at once.
    stripped = {value: value.strip() for value in set(values)}
    absent = {value for value, text in stripped.items() if text in missing}
    present = {value: text for value, text in stripped.items() if value not in absent}
    if all(map(_NUMBER.fullmatch, present.values())):
        if not absent and all(map(_INTEGER.fullmatch, present.values())):
            integers = {value: int(text) for value, text in present.items()}
            if all(-(2**63) <= number < 2**63 for number in integers.values()):
                return np.array([integers[value] for value in values], dtype=np.int64)
        numbers = {value: float(text) for value, text in present.items()} | dict.fromkeys(absent, float("nan"))
        return np.array([numbers[value] for value in values], dtype=np.float64)
    if not absent:
        return np.array([stripped[value] for value in values])
    words: dict[str, str | None] = {**present, **dict.fromkeys(absent)}
    return np.array([words[value] for value in values], dtype=object)


def _read(
    lines: Iterator[tuple[int, list[str]]],
    place: str,
    delimiter: str,
    header: Sequence[str] | None,
    keep: Collection[str] | None,
) -> tuple[list[str], list[int], list[tuple[str, ...]]]:
    """Return the names of all columns, the positions of those to keep, and the rows of these."""
    first = header or next((row for _, row in lines if not _is_blank(row)), [])
    names = [name.strip() for name in first]
    _check_names(names, place)
    kept = [position for position, name in enumerate(names) if keep is None or name in keep]
    pick = itemgetter(*kept) if len(kept) > 1 else lambda row: tuple(row[position] for position in kept)
    rows = []
    for line, row in lines:
        if len(names) > 1 and _is_blank(row):
            continue
        if len(row) != len(names):
            raise ValueError(
                f"Line {line} of {place} has {len(row)} {'field' if len(row) == 1 else 'fields'}, but there are "
                f"{len(names)} columns; add or remove delimiters ({delimiter!r}), or put quotes around a value that "
                "contains one."
            )
        rows.append(pick(row))
    if not rows:
        raise ValueError(f"{place} has a line of column names and no row; give at least one row.")
    return names, kept, rows


def _lines(text: TextIO, place: str, delimiter: str, comment: str | None) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the first line of each record, and its fields; lines of nothing are left out."""
    reader = csv.reader(text, delimiter=delimiter, skipinitialspace=True, strict=True)
    line = 1
    try:
        for row in reader:
            if row and not (comment is not None and row[0].startswith(comment)):
                yield line, row
            line = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(f"Line {line} of {place} is not well formed ({error}); look at its quotes.") from error
    except UnicodeDecodeError as error:
        # The text is decoded in blocks, and all lines before this block have been read.
        line = reader.line_num + 1 + error.object[: error.start].count(b"\n")
        encoding = "utf-8" if text.encoding == "utf-8-sig" else text.encoding
        raise ValueError(
            f"{place} is not text in the encoding {encoding!r}: line {line} has the byte "
            f"0x{error.object[error.start]:02x}, which does not belong there; name the encoding of the file with "
            "encoding=, for example 'cp1252' or 'utf-16'."
        ) from error


def _is_blank(row: list[str]) -> bool:
    """Tell whether a line holds nothing but blanks."""
    return len(row) == 1 and not row[0].strip()


def _check_names(names: list[str], place: str) -> None:
    if not any(names):
        raise ValueError(f"{place} is empty; give a line of column names and at least one row.")
    if len(names) == 1:
        other = [shown for delimiter, shown in _DELIMITERS.items() if delimiter in names[0]]
        if other:
            raise ValueError(
                f"{place} has a single column, {names[0][:60]!r}; if its values are separated by {other[0]}, "
                f"give delimiter={other[0]}."
            )
    for position, name in enumerate(names):
        first = names.index(name)
        if first != position:
            raise ValueError(
                f"Columns {first + 1} and {position + 1} of {place} are both named {name!r}; give each its own name."
            )
