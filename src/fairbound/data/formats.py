"""The format of a column in a file: learnt from the training rows, and then used to read any other rows.

    number   1234.5, 1,234.50, 1.234,50, 45,5, 18 000, $2,174, 12%, if all values of the column have the same format
    text     anything else; blanks around a value are ignored

If types were inferred from each file, the meaning of a row could depend on the other rows of its file: a column of
codes that happens to have only 01 and 02 looks like numbers.  So a model stores the formats of its columns.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property, lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fairbound.data.labels import as_word

MISSING = ("", "?", "NA", "N/A", "NaN", "nan", "NULL", "null", "<NA>")
"""Texts that mean a missing value in a text file, by default."""

MARKS = frozenset({
    "", "?", "-", "--", "---", ".", "n/a", "na", "n.a.", "nan", "none", "null", "nil", "missing", "unknown",
    "not available", "<na>", "#n/a",
})  # fmt: skip
"""Texts that mean a missing value in a column of numbers, in lower case.  In text columns they may be categories."""

_PLAIN = re.compile(r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf(?:inity)?)", re.IGNORECASE)
_INTEGER = re.compile(r"[+-]?[0-9]+")
_PADDED = re.compile(r"[+-]?0[0-9]+")
_SIGNS = "$€£¥₹"
_SEPARATORS = {"": "", ",": ",", ".": r"\.", " ": "[ \N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}]", "'": "['’]"}
# (decimal mark, separator of thousands).  If several fit, the first one counts: 1,234 has a separator of thousands.
_WRITINGS = [(".", ""), (".", ","), (",", ""), (",", "."), (".", " "), (".", "'"), (",", " "), (",", "'")]
EXACT_DIGITS = 15  # digits of a whole number that a float holds exactly; beside missing values, numbers are floats
EPOCH = date(1970, 1, 1).toordinal()
_LONGEST_INTEGER = 30  # characters, enough for 64 bits; Python does not parse integers of more than 4,300 digits


@dataclass(frozen=True)
class ColumnFormat:
    """The format of one column.

    Attributes
    ----------
    kind : {"number", "text"}
    decimal, thousands : str
        The decimal mark, "." or ","; and the separator of groups of three digits, "" for none.
    prefix, suffix : str
        Text before and after each number, such as "$" and "%".  12% is the number 12.
    missing : tuple of str
        Texts that mean a missing value.  In a column of numbers, the texts in `MARKS` also mean a missing value.
    example : str
        A value of the training file, as written there.
    marks : tuple of str
        Words that count as missing because all other values of the training file are numbers.
    padded : bool
        Whether some numbers have leading zeros, as codes have.
    dates : bool
        Whether the numbers are dates, 2024-01-31 or 31.1.2024, as days since 1970-01-01; a time of day is dropped.

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
    dates: bool = False

    @classmethod
    def learn(
        cls,
        values: Iterable[str | None],
        missing: Collection[str] = MISSING,
        *,
        codes: bool = False,
        decimal: str | None = None,
    ) -> ColumnFormat:
        """Infer the format of a column from all its values; parameters as for `FormatLearner`."""
        learner, texts = FormatLearner(missing, codes=codes, decimal=decimal), set(values)
        learner.add(texts)
        if learner.undecided:
            learner.add_again(texts)
        return learner.result()

    def fits(self, texts: Iterable[str]) -> bool:
        """Return whether all texts are numbers in this format."""
        return all(map(self._matches, texts))

    @property
    def is_plain(self) -> bool:
        """Return whether numbers are written as Python writes them."""
        return (self.decimal, self.thousands, self.prefix, self.suffix) == (".", "", "", "") and not self.dates

    def is_known(self) -> bool:
        """Return whether the fields have values that `learn` can return; fields read from a file may have others."""
        return (
            self.kind in ("number", "text")
            and (self.decimal, self.thousands) in _WRITINGS
            and self.prefix in ("", *_SIGNS)
            and self.suffix in ("", "%", *_SIGNS)
        )

    def number(self, text: str) -> float | None:
        """Return the number that a text without surrounding blanks means; None if it is not a number."""
        if self.dates:
            return _day(text)
        if self.is_plain:
            return float(text) if _PLAIN.fullmatch(text) else None
        found = self._pattern.fullmatch(text)
        if found is None:
            return None
        digits = re.sub(r"[^0-9]", "", found["whole"])
        return float(f"{found['sign'] or found['inner']}{digits}.{found['fraction'] or ''}{found['power'] or ''}")

    def is_missing(self, text: str) -> bool:
        """Return whether a text without surrounding blanks means a missing value."""
        return text in self.missing or (self.kind == "number" and text.lower() in MARKS)

    def read(
        self, values: Sequence[str | None], name: str = "", place: Callable[[int], str] | None = None
    ) -> NDArray[Any]:
        """Return the values as int64 (plain whole numbers, none missing), float64 with NaN, or text with None.

        Parameters
        ----------
        values : sequence of str
            The values as written in the file; None means missing.
        name : str
            Name of the column in error messages.
        place : function of int, optional
            Returns where a row is, for error messages: "line 3 of loans.csv".

        Raises
        ------
        ValueError
            If a column of numbers has a value that is not a number; the message has the value and its place.
        """
        # Columns have far fewer distinct values than rows, so each distinct value is parsed once.
        texts: dict[str | None, str] = {value: "" if value is None else value.strip() for value in set(values)}
        marks = frozenset(self.missing)
        absent = {value for value, text in texts.items() if value is None or text in marks}
        if self.kind == "text":
            words: dict[str | None, Any] = {**texts, **dict.fromkeys(absent)}
            found = [words[value] for value in values]
            return np.array(found, dtype=object) if absent else np.asarray(found)
        strange = {value for value, text in texts.items() if value not in absent and not self._matches(text)}
        absent |= {value for value in strange if texts[value].lower() in MARKS}
        if strange - absent:
            row = next(row for row, value in enumerate(values) if value in strange and value not in absent)
            raise ValueError(self._not_a_number(values[row], row, name, place))
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
        """Return a description of the format of numbers for messages; empty if they are plain."""
        parts = ["dates (2024-01-31 or 31.1.2024)"] if self.dates else []
        if self.decimal == ",":
            parts.append("a decimal comma")
        if self.thousands:
            parts.append({" ": "blanks", "'": "apostrophes", ",": "commas", ".": "points"}[self.thousands])
            parts[-1] += " between thousands"
        parts += [f"the sign {sign}" for sign in (self.prefix, self.suffix) if sign]
        return " and ".join(parts)

    def _matches(self, text: str) -> bool:
        return _day(text) is not None if self.dates else self._pattern.fullmatch(text) is not None

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return _PLAIN if self.is_plain else _pattern(self.decimal, self.thousands, self.prefix, self.suffix)

    def _not_a_number(self, value: str | None, row: int, name: str, place: Callable[[int], str] | None) -> str:
        where = f"row {row + 1}" if place is None else place(row)
        written = self.described()
        such = f" with {written}" + (f", such as {self.example!r}" if self.example else "") if written else ""
        if self.dates:
            return (
                f"Column {name!r} has {value!r} in {where}, and is read as {written}; write a date, or leave it empty."
            )
        return (
            f"Column {name!r} has {value!r} in {where}, but the training file has numbers there{such}; write a number, "
            "or leave the field empty if it is not known."
        )


_DATES = (
    re.compile(r"(?P<year>\d{4})([-/.]?)(?P<month>\d\d)\2(?P<day>\d\d)(?:[T ].*)?"),
    re.compile(r"(?P<day>\d{1,2})\.(?P<month>\d{1,2})\.(?P<year>\d{4})(?:[T ].*)?"),
)


def _day(text: str) -> float | None:
    """Return a date as days since 1970-01-01; None if it is none.

    >>> _day("1970-01-31"), _day("1.2.1970"), _day("1970-02-30"), _day("1/2/1970")
    (30.0, 31.0, None, None)
    """
    found = next((found for each in _DATES if (found := each.fullmatch(text))), None)
    try:
        return (
            None if found is None else float(date(*map(int, found.group("year", "month", "day"))).toordinal() - EPOCH)
        )
    except ValueError:
        return None


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


def _candidate_formats(sample: str, base: ColumnFormat, decimal: str | None) -> list[ColumnFormat]:
    """Return the formats that numbers may have, with the currency or percent sign of a sample."""
    bare = sample.lstrip("+-")
    prefix = bare[:1] if bare[:1] and bare[:1] in _SIGNS else ""
    suffix = bare[-1:] if bare[-1:] and bare[-1:] in _SIGNS + "%" and not prefix else ""
    return [
        replace(base, kind="number", decimal=mark, thousands=separator, prefix=prefix, suffix=suffix)
        for mark, separator in _WRITINGS
        if decimal in (None, mark)
    ]


class FormatLearner:
    """Infers the format of a column from parts of its values.

    A first pass over all values (`add`) suffices for numbers as Python writes them.  If `undecided`, a second pass
    (`add_again`) tests the other formats.

    Parameters
    ----------
    missing : collection of str
        Texts that mean a missing value.
    codes : bool
        Whether the column has labels, groups or categories.  They are numbers only if all are written as Python writes
        them, without `MARKS`, and nothing is lost: 01 is not 1.
    decimal : {".", ","}, optional
        The decimal mark, if known.
    """

    def __init__(self, missing: Collection[str] = MISSING, *, codes: bool = False, decimal: str | None = None) -> None:
        self.base, self.codes, self.decimal = ColumnFormat(missing=tuple(missing)), codes, decimal
        self.is_plain = decimal != ","
        self.least = ""  # the first text in alphabetical order
        self.longest, self.padded = "", ""  # examples of numbers, and of those with leading zeros
        self.marks: set[str] = set()
        self.survivors: list[ColumnFormat] | None = None

    def _texts(self, values: Iterable[str | None]) -> set[str]:
        return {value.strip() for value in values if value is not None} - set(self.base.missing)

    def add(self, values: Collection[str | None]) -> None:
        """Process distinct values in the first pass."""
        texts = self._texts(values)
        if not texts:
            return
        first = min(texts)
        self.least = first if not self.least else min(self.least, first)
        self.is_plain = self.is_plain and replace(self.base, kind="number").fits(texts)
        if self.is_plain:
            self._show(texts)

    def _show(self, numbers: Collection[str]) -> None:
        """Choose examples: the longest number, and the longest one with leading zeros."""
        for name, texts in (("longest", numbers), ("padded", list(filter(_PADDED.fullmatch, numbers)))):
            setattr(self, name, max((*texts, getattr(self, name)), key=lambda text: (len(text), text)))

    @property
    def undecided(self) -> bool:
        """Return whether the values must be seen again."""
        return not self.is_plain and not self.codes and bool(self.least)

    def add_again(self, values: Collection[str | None]) -> None:
        """Process distinct values in the second pass."""
        texts = self._texts(values)
        numbers = {text for text in texts if text.lower() not in MARKS}
        self.marks |= texts - numbers
        if not numbers:
            return
        if self.survivors is None:
            self.longest = self.padded = ""
            tried = [] if self.decimal == "," else [replace(self.base, kind="number")]
            self.survivors = [*tried, *_candidate_formats(next(iter(numbers)), self.base, self.decimal)]
        self.survivors = [form for form in self.survivors if form.fits(numbers)]
        if self.survivors:
            self._show(numbers)

    def result(self) -> ColumnFormat:
        """Return the format."""
        if self.is_plain:
            form = replace(self.base, kind="number")
            if self.codes and (self.padded or len(self.longest) > EXACT_DIGITS):
                form = self.base
        elif self.survivors and not self.codes:
            form = self.survivors[0]
        elif not self.least and not self.codes:  # there is no value
            form = _candidate_formats("", self.base, self.decimal)[0]
        else:
            return replace(self.base, example=self.least)
        marks = tuple(sorted(self.marks)) if not self.is_plain else ()
        return replace(form, example=self.padded or self.longest, marks=marks, padded=bool(self.padded))
