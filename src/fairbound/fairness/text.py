"""Limits in words: read from text, one or several, and named for tables.

>>> parse_constraint("demographic_parity <= 0.05")
DemographicParity(0.05)
>>> parse_constraint("selection_rate[female] >= 0.3")
Constraint((0.3, None), measure='selection_rate', group='female')
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

from fairbound._registry import lookup
from fairbound.fairness.constraints import CONSTRAINTS, Constraint
from fairbound.fairness.measures import MEASURES

_NUMBER = r"[-+]?(?:inf|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?%?)"
_TEXT = re.compile(
    rf"""^\s*(?:(?P<low>{_NUMBER})\s*<=?\s*)?      # 0.1 <=
    (?P<name>\w+)\s*                               # selection_rate
    (?:\((?P<columns>[^()]+)\))?\s*                # (sex)
    (?:\[(?P<group>[^\[\]]+)\])?\s*                # [female]
    (?:(?P<sign><=?|>=?)\s*(?P<bound>{_NUMBER}))?\s*
    (?:against\s+(?P<against>.+?))?\s*            # against overall
    (?:for\s+class(?:es)?\s+(?P<classes>.+?))?\s*$  # for class high""",
    re.VERBOSE,
)


def parse_constraint(text: str) -> Constraint:
    """Read a limit such as "disparate_impact >= 0.8", "demographic_parity(sex) <= 0.05 against overall".

    A rate of a group is `rate[group]`, as in "selection_rate[female] >= 0.3" or "0.1 <= selection_rate <= 0.4".
    A limit in one direction has an infinite side: "0.8 <= disparate_impact <= inf against white".  With several classes
    some of them can be named: "demographic_parity <= 0.1 for class high".
    """
    match = _TEXT.match(text)
    if match is None or match["bound"] is None:
        raise ValueError(f'Cannot read the limit {text!r}. Write it like "disparate_impact >= 0.8".')
    measure = lookup(MEASURES, match["name"], "measure")
    bound = _read(match["bound"])
    at_least = match["sign"].startswith(">")
    options: dict[str, Any] = {}
    if match["columns"]:
        options["columns"] = tuple(column.strip() for column in match["columns"].split(","))
    if match["group"]:
        options["group"] = match["group"].strip()
    if match["classes"]:
        options["classes"] = tuple(label.strip() for label in match["classes"].split(","))
    if match["against"] == "overall":
        options["against"] = "overall"
    elif match["against"] not in (None, "pairwise"):
        options["reference"] = match["against"]
    kind = CONSTRAINTS.get(measure.name, Constraint)
    if kind is Constraint:
        options["measure"] = measure.name
    if match["low"] is not None:
        if at_least:
            raise ValueError(f'Cannot read the limit {text!r}: write two sides as "0.1 <= {measure.name} <= 0.4".')
        low = _read(match["low"])
        return kind((None if low == -math.inf else low, None if bound == math.inf else bound), **options)
    if measure.comparison == "value":
        return kind((bound, None) if at_least else (None, bound), **options)
    if at_least != measure.larger_is_stricter:
        sign = ">=" if measure.larger_is_stricter else "<="
        stricter = "larger" if measure.larger_is_stricter else "smaller"
        raise ValueError(
            f"{text!r}: {measure.name} is a {measure.comparison}, where {stricter} is stricter; "
            f"write {measure.name} {sign} {bound:g}."
        )
    return kind(bound, **options)


def _read(number: str) -> float:
    return float(number.removesuffix("%")) / (100.0 if number.endswith("%") else 1.0)


def as_constraints(constraints: Constraint | str | Iterable[Constraint | str] | None) -> tuple[Constraint, ...]:
    """One or several limits, as objects or as text, as a tuple; None is none."""
    if constraints is None:
        return ()
    if isinstance(constraints, Constraint | str) or not isinstance(constraints, Iterable):
        constraints = (constraints,)
    result = []
    for constraint in constraints:
        if isinstance(constraint, str):
            constraint = parse_constraint(constraint)
        if not isinstance(constraint, Constraint):
            raise TypeError(
                f"{constraint!r} is not a constraint: give for example DisparateImpact(0.8) or "
                '"disparate_impact >= 0.8".'
            )
        result.append(constraint)
    return tuple(result)


def distinct_texts(constraints: Iterable[Constraint]) -> list[str]:
    """Return each limit in words, with a number where the same words stand for several: names of columns.

    >>> limit = parse_constraint("disparate_impact >= 0.8")
    >>> distinct_texts([limit, limit])
    ['disparate_impact >= 0.8', 'disparate_impact >= 0.8 (2)']
    """
    seen: Counter[str] = Counter()
    texts = []
    for constraint in constraints:
        text = str(constraint)
        seen[text] += 1
        texts.append(text if seen[text] == 1 else f"{text} ({seen[text]})")
    return texts
