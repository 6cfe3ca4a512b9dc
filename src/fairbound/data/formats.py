"""How the values of a column are written in a file: learnt once, from the training rows, and then applied to any rows.

    number   1234.5, 1,234.50, 1.234,50, 45,5, 18 000, $2,174, 12%, if all values of the column are written alike
    text     anything else; blanks around a value do not count

Guessing the type of a column anew in each file would make the same row mean different things beside different rows: a
file that happens to hold only the codes 01 and 02 looks like numbers.  So a model keeps the formats of its columns.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fairbound.data.labels import as_word

MISSING = ("", "?", "NA", "N/A", "NaN", "nan", "NULL", "null", "<NA>")
"""What stands for a missing value in a text file, unless the user says otherwise."""

MARKS = frozenset({
    "", "?", "-", "--", "---", ".", "n/a", "na", "n.a.", "nan", "none", "null", "nil", "missing", "unknown",
    "not available", "<na>", "#n/a",
})  # fmt: skip
"""What is missing in a column of numbers, in lower case.  In a column of text "none" or "unknown" may be a category."""

_PLAIN = re.compile(r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf(?:inity)?)", re.IGNORECASE)
_INTEGER = re.compile(r"[+-]?[0-9]+")
_PADDED = re.compile(r"[+-]?0[0-9]+")
_SIGNS = "$€£¥₹"
_SEPARATORS = {"": "", ",": ",", ".": r"\.", " ": "[ \N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}]", "'": "['’]"}
# The order decides where several fit: 1,234 alone has a separator of thousands, and not a decimal comma.
_WRITINGS = [(".", ""), (".", ","), (",", ""), (",", "."), (".", " "), (".", "'"), (",", " "), (",", "'")]
_LONGEST_INTEGER = 30  # characters, enough for 64 bits; Python refuses to read integers of more than 4,300 digits


@dataclass(frozen=True)
class ColumnFormat:
    """How one column is written.

    Attributes
    ----------
    kind : {"number", "text"}
    decimal, thousands : str
        The decimal mark of numbers, "." or ","; what separates groups of three digits, "" for nothing.
    prefix, suffix : str
        What stands before and after each number, such as "$" and "%".  12% is the number 12.
    missing : tuple of str
        What stands for a missing value.  In a column of numbers `MARKS` do, too.
    example : str
        A value as it is written in the training file.
    marks : tuple of str
        Words that count as missing because all other values of the training file are numbers.
    padded : bool
        Whether numbers have zeros in front, as codes have.

    Examples
    --------
    >>> prices = ColumnFormat.learn(["$2,174", "$18", "n/a"])
    >>> prices.read(["$1,000", "n/a"])
    array([1000.,   nan])
    >>> ColumnFormat.learn(["01", "02", "A1"]).read(["01", "02"])
    array(['01', '02'], dtype='<U2')
    """

    kind: Literal["number", "text"] = "text"
    decimal: str = "."
    thousands: str = ""
    prefix: str = ""
    suffix: str = ""
    missing: tuple[str, ...] = MISSING
    example: str = ""
    marks: tuple[str, ...] = ()
    padded: bool = False

    @classmethod
    def learn(
        cls,
        values: Iterable[str | None],
        missing: Collection[str] = MISSING,
        *,
        plain: bool = False,
        decimal: str | None = None,
    ) -> ColumnFormat:
        """Find out how a column is written.

        Parameters
        ----------
        values : iterable of str
            The values as they stand in the file; None is missing.
        missing : collection of str
            What stands for a missing value.
        plain : bool
            Whether to take for numbers only what Python does: no separators, no signs, no further marks.
        decimal : {".", ","}, optional
            The decimal mark, where it is known.
        """
        base = cls(missing=tuple(missing))
        texts = {value.strip() for value in set(values) if value is not None} - set(missing)
        numbers, tried = texts, [replace(base, kind="number")] if decimal != "," else []
        if not plain and not any(form.fits(texts) for form in tried):
            numbers = {text for text in texts if text.lower() not in MARKS}
            tried += _possible(next(iter(numbers), ""), base, decimal)
        form = next((form for form in tried if form.fits(numbers)), None)
        if form is None or (texts and not numbers):
            return replace(base, example=min(texts, default=""))
        padded = list(filter(_PADDED.fullmatch, numbers))
        # The example is a value that shows the writing: one with zeros in front, or the longest.
        longest = max(map(len, padded or numbers), default=0)
        example = max((text for text in padded or numbers if len(text) == longest), default="")
        return replace(form, example=example, marks=tuple(sorted(texts - numbers)), padded=bool(padded))

    def fits(self, texts: Iterable[str]) -> bool:
        """Tell whether all texts are numbers that are written so."""
        return all(map(self._pattern.fullmatch, texts))

    @property
    def is_plain(self) -> bool:
        """Whether numbers are written as Python writes them."""
        return (self.decimal, self.thousands, self.prefix, self.suffix) == (".", "", "", "")

    def is_known(self) -> bool:
        """Whether the parts are such as `learn` finds; those of a file may be anything."""
        return (
            self.kind in ("number", "text")
            and (self.decimal, self.thousands) in _WRITINGS
            and self.prefix in ("", *_SIGNS)
            and self.suffix in ("", "%", *_SIGNS)
        )

    def number(self, text: str) -> float | None:
        """Return the number that a text without blanks around it stands for, None if it stands for none."""
        if self.is_plain:
            return float(text) if _PLAIN.fullmatch(text) else None
        found = self._pattern.fullmatch(text)
        if found is None:
            return None
        digits = re.sub(r"[^0-9]", "", found["whole"])
        return float(f"{found['sign'] or found['inner']}{digits}.{found['fraction'] or ''}{found['power'] or ''}")

    def is_missing(self, text: str) -> bool:
        """Tell whether a text without blanks around it stands for a missing value."""
        return text in self.missing or (self.kind == "number" and text.lower() in MARKS)

    def read(
        self, values: Sequence[str | None], name: str = "", place: Callable[[int], str] | None = None
    ) -> NDArray[Any]:
        """Return the values as int64 (plain whole numbers, none missing), float64 with NaN, or text with None.

        Parameters
        ----------
        values : sequence of str
            The values as they stand in the file; None is missing.
        name : str
            The column, for messages.
        place : function of int, optional
            Says where a row is, for messages: "line 3 of loans.csv".

        Raises
        ------
        ValueError
            If a value of a column of numbers is none; the message names the value and its place.
        """
        # Columns have far fewer different values than rows, so each is looked at once.
        texts: dict[str | None, str] = {value: "" if value is None else value.strip() for value in set(values)}
        marks = frozenset(self.missing)
        absent = {value for value, text in texts.items() if value is None or text in marks}
        if self.kind == "text":
            words: dict[str | None, Any] = {**texts, **dict.fromkeys(absent)}
            # numpy's own texts lose zero characters at their end.
            cut = any(text.endswith("\0") for text in texts.values())
            return np.array([words[value] for value in values], dtype=object if absent or cut else np.str_)
        strange = {value for value, text in texts.items() if value not in absent and not self._pattern.fullmatch(text)}
        absent |= {value for value in strange if texts[value].lower() in MARKS}
        if strange - absent:
            row = next(row for row, value in enumerate(values) if value in strange and value not in absent)
            raise ValueError(self._refusal(values[row], row, name, place))
        if self.is_plain and not absent and all(map(_INTEGER.fullmatch, texts.values())):
            whole = {value: int(text) for value, text in texts.items() if len(text) <= _LONGEST_INTEGER}
            if len(whole) == len(texts) and all(-(2**63) <= number < 2**63 for number in whole.values()):
                return np.array([whole[value] for value in values], dtype=np.int64)
        read: Callable[[str], Any] = float if self.is_plain else self.number
        numbers = {value: math.nan if value in absent else read(text) for value, text in texts.items()}
        return np.array([numbers[value] for value in values], dtype=np.float64)

    def words(self, values: Sequence[str | None]) -> NDArray[np.object_]:
        """Return the values of a column of categories: text, or codes that are numbers, written in one way."""
        table: dict[str | None, str | None] = {None: None}
        for value in set(values) - {None}:
            text = value.strip()  # type: ignore[union-attr]
            number = self.number(text) if self.kind == "number" else None
            table[value] = None if self.is_missing(text) else text if number is None else as_word(number)
        return np.array([table[value] for value in values], dtype=object)

    def described(self) -> str:
        """Say how numbers are written, for messages; nothing of plain ones."""
        parts = []
        if self.decimal == ",":
            parts.append("a decimal comma")
        if self.thousands:
            parts.append({" ": "blanks", "'": "apostrophes", ",": "commas", ".": "points"}[self.thousands])
            parts[-1] += " between thousands"
        parts += [f"the sign {sign}" for sign in (self.prefix, self.suffix) if sign]
        return " and ".join(parts)

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return _PLAIN if self.is_plain else _pattern(self.decimal, self.thousands, self.prefix, self.suffix)

    def _refusal(self, value: str | None, row: int, name: str, place: Callable[[int], str] | None) -> str:
        where = f"row {row + 1}" if place is None else place(row)
        written = self.described()
        such = f" with {written}, such as {self.example!r}" if written else ""
        return (
            f"Column {name!r} has {value!r} in {where}, but training read it as numbers{such}; write a number there, "
            "or nothing where it is not known."
        )


@lru_cache
def _pattern(decimal: str, thousands: str, prefix: str, suffix: str) -> re.Pattern[str]:
    grouped = rf"[1-9][0-9]{{0,2}}(?:{_SEPARATORS[thousands]}[0-9]{{3}})+|" if thousands else ""
    before = rf"{re.escape(prefix)} ?" if prefix else ""
    after = rf"[ \N{{NO-BREAK SPACE}}]?{re.escape(suffix)}" if suffix else ""
    return re.compile(
        rf"(?P<sign>[+-]?){before}(?P<inner>[+-]?)(?P<whole>{grouped}[0-9]+)"
        rf"(?:{re.escape(decimal)}(?P<fraction>[0-9]*))?(?P<power>e[+-]?[0-9]+)?{after}",
        re.IGNORECASE,
    )


def _possible(sample: str, base: ColumnFormat, decimal: str | None) -> list[ColumnFormat]:
    """Return the ways in which numbers may be written, the sign being that of a sample."""
    bare = sample.lstrip("+-")
    prefix = bare[:1] if bare[:1] and bare[:1] in _SIGNS else ""
    suffix = bare[-1:] if bare[-1:] and bare[-1:] in _SIGNS + "%" and not prefix else ""
    return [
        replace(base, kind="number", decimal=mark, thousands=separator, prefix=prefix, suffix=suffix)
        for mark, separator in _WRITINGS
        if decimal in (None, mark)
    ]
