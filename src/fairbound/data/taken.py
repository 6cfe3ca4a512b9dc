"""How `read_table` interpreted the columns of a file, where that is not obvious.

It must decide whether 08001 is a quantity, whether 1,234 has a decimal comma, and whether n/a is a category.  Each such
decision is reported, with the option that changes it.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fairbound.data.formats import ColumnFormat
from fairbound.data.labels import as_word
from fairbound.data.names import name_words
from fairbound.data.schema import Categorical, Column, is_missing
from fairbound.data.table import Table

FEWEST_ROWS = 20
"""With fewer rows, all values may differ although the column is not an identifier."""

_NUMBERS = ColumnFormat("number")
_IDENTIFIERS = frozenset({"id", "ids", "identifier", "uuid", "key", "ssn", "account", "passport", "serial"})
_AREAS = frozenset({"zip", "zipcode", "postcode", "postalcode", "postal", "plz", "fips"})
_CODES = frozenset({
    "code", "codes", "type", "class", "category", "region", "district", "state", "county", "occupation", "industry",
    "race", "ethnicity", "marital", "status", "year", "month", "weekday",
})  # fmt: skip
_DATE = re.compile(r"\d{4}([-/.])\d{1,2}\1\d{1,2}(\D|$)|\d{1,2}([-/. ])(\d{1,2}|[A-Za-z]{3,9})\3(\d{4}|\d\d)(\D|$)")
"""The beginning of a date: 2024-01-31, 2024/1/31, 31.1.2024, 1/31/24, 31 Jan 2024; a time may follow."""


@dataclass(frozen=True)
class Taken:
    """How one column was interpreted.

    Attributes
    ----------
    column : str
    kind : {"number", "category"}
    remark : str
        Why the interpretation is not obvious.
    example : str
        A value of the file, and its interpretation.
    option : str
        The option of `read_table` that changes the interpretation.
    value : str or int
        The value for that option.
    """

    column: str
    kind: Literal["number", "category"]
    remark: str
    example: str
    option: str
    value: str | int


def taken_for(table: Table) -> tuple[Taken, ...]:
    """Return how the inputs of a file were interpreted, for columns where that is not obvious."""
    found = []
    for column in table.schema:
        form, values = table.formats.get(column.name), table.columns[column.name]
        known = values[~is_missing(values)]
        if form is None or not len(known):
            continue
        found.append(_category(column, form, known) if column.categorical else _number(column.name, form, known))
    return tuple(each for each in found if each is not None)


def _number(name: str, form: ColumnFormat, values: NDArray[Any]) -> Taken | None:
    remarks, option = [], "categorical"
    example = f"{form.example!r}" if form.example else ""
    if not form.is_plain:
        remarks.append(f"with {form.described()}")
    if form.marks:
        remarks.append(f"{', '.join(map(repr, form.marks[:3]))} {'is' if len(form.marks) == 1 else 'are'} missing")
    words = name_words(name)
    whole = bool((values == np.round(values)).all())
    distinct = len(np.unique(values))
    if whole and float(np.abs(values.astype(np.float64)).max()) > 2**53:
        remarks.append("rounded to 53 bits: an identifier?")
        option = "ignore"
    elif whole and _is_identifier(words, values, distinct):
        remarks.append("every value differs: an identifier?")
        option = "ignore"
    elif form.padded or words & _AREAS:
        remarks.append("a code?")
    elif whole and 3 <= distinct <= 50 and words & _CODES:
        remarks.append(f"{distinct} values: a code?")
    if not remarks:
        return None
    if form.example and (not form.is_plain or form.padded):
        example += f" is {as_word(form.number(form.example))}"
    return Taken(name, "number", ", ".join(remarks), example or as_word(values[0]), option, name)


def _category(column: Column, form: ColumnFormat, values: NDArray[Any]) -> Taken | None:
    if form.kind == "number" or form.padded or not isinstance(column, Categorical):
        return None  # the user has declared these codes as categories
    counted = Counter(values.tolist())
    others = [word for word in counted if _NUMBERS.number(str(word)) is None]
    rows = sum(counted[word] for word in others)
    name, distinct = column.name, len(counted)
    if 0 < rows <= 0.2 * len(values):
        shown = max(others, key=lambda word: counted[word])
        remark = f"{len(values) - rows:,} of {len(values):,} values are numbers, but not all"
        return Taken(name, "category", remark, repr(shown), "missing", str(shown))
    if distinct > 2 and all(_DATE.match(str(word)) for word in counted):
        remark = f"{distinct:,} dates, read as words: make days of them, or leave them out"
        option = "dates" if ColumnFormat("number", dates=True).fits(map(str, counted)) else "ignore"
        return Taken(name, "category", remark, repr(str(values[0])), option, name)
    if len(values) >= FEWEST_ROWS and distinct >= 0.9 * len(values):
        remark = f"{distinct:,} different values: a name or an identifier?"
        return Taken(name, "category", remark, repr(str(values[0])), "ignore", name)
    if column.rest is not None:
        rare = repr(min(counted, key=lambda word: (counted[word], str(word))))
        remark = f"{distinct:,} different values, the rarest share one column"
        return Taken(name, "category", remark, rare, "max_categories", distinct + 1)
    return None


def _is_identifier(words: set[str], values: NDArray[Any], distinct: int) -> bool:
    """Return whether whole numbers look like identifiers: all differ, and the name, density or size suggests it."""
    if len(values) < FEWEST_ROWS or distinct < 0.99 * len(values):
        return False
    low, high = int(values.min()), int(values.max())
    return bool(words & _IDENTIFIERS) or high - low < 2 * len(values) or low >= 10**8
