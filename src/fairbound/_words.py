"""Values as text, with the same wording in the whole package: names, groups, lists and numbers.

Names are looked up in a registry, with an offer of the nearest one.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any, TypeVar

ALIKE = 0.65
"""Two names are near if this share of their letters agrees, as `difflib` counts; two of three is more."""

SHORTEST = 3
"""Least number of letters of a beginning; shorter ones would be near to too many names."""

EVERYONE = "everyone"
"""The name of all rows whose group is known."""

_SHOWN = 20  # values in a list

_LONGEST = 60  # characters of one of them


def as_text(value: Any) -> str:
    """Return a label or a group as text; the values of an intersection are joined.

    >>> as_text(("female", 3)), as_text(True)
    ('female & 3', 'True')
    """
    return " & ".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


def quoted(group: Hashable) -> str:
    """Return a group as a message shows it: a value as Python writes it, the values of an intersection joined.

    >>> quoted("female"), quoted(("female", 3))
    ("'female'", 'female & 3')
    """
    return as_text(group) if isinstance(group, tuple) else repr(group)


def group_text(group: Hashable) -> str:
    """Return a group as text for people.  None becomes "everyone"; a group with that very name is put in quotes.

    >>> group_text(("female", 3)), group_text(None), group_text("everyone")
    ('female & 3', 'everyone', "'everyone'")
    """
    if group is None:
        return EVERYONE
    text = as_text(group)
    return repr(text) if text.strip("'\"") == EVERYONE else text


def listed(values: Iterable[Any], most: int = _SHOWN) -> str:
    """Return values for a message: only the first of many values, and only the beginning of a long text.

    >>> listed(["sex", "x" * 100, 3])
    "'sex', 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…', 3"
    >>> listed("abc", most=2)
    "'a', 'b', …"
    """
    known = list(values)
    shown = [
        repr(f"{value[:_LONGEST]}…" if isinstance(value, str) and len(value) > _LONGEST else value)
        for value in known[:most]
    ]
    return ", ".join(shown) + (", …" if len(known) > most else "")


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return " Did you mean …?" if a known name is near, else nothing.

    A known name is near if it begins with the given name, or if most letters agree; case and separators do not count.

    >>> did_you_mean("Sexx", ["sex", "race"]), did_you_mean("equal odds", ["equalized_odds", "equal_opportunity"])
    (" Did you mean 'sex'?", " Did you mean 'equalized_odds'?")
    >>> did_you_mean("adult", ["law", "dutch"])
    ''
    """
    wanted, plain = _plain(str(name)), {_plain(each): each for each in known}
    longer = [each for each in plain if len(wanted) >= SHORTEST and each.startswith(wanted)]
    near = get_close_matches(wanted, longer or plain, 1, 0.0 if longer else ALIKE)
    return f" Did you mean {plain[near[0]]!r}?" if near else ""


def names_in_one(name: object, known: Iterable[str]) -> list[str]:
    """Split a text with commas or blanks into known names; return an empty list if it is not such a text.

    >>> names_in_one("sex, race", ["age", "race", "sex"]), names_in_one("sex,rac", ["race", "sex"])
    (['sex', 'race'], [])
    >>> names_in_one("sex race", ["age", "race", "sex"])
    ['sex', 'race']
    """
    text, names = str(name).replace(";", ","), set(known)
    for parts in ([part.strip() for part in text.split(",")], text.replace(",", " ").split()):
        if len(parts) > 1 and set(parts) <= names:
            return parts
    return []


def _plain(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter not in " _-")


def number(value: float | None, digits: int = 3) -> str:
    """Return a number with few digits; a dash for None."""
    if value is None or math.isnan(value):
        return "-"
    if abs(value) >= 1e4 and math.isfinite(value):
        return f"{value:,.0f}"
    return f"{value:.{digits}f}" if math.isfinite(value) else str(value)


def beside(value: float, bounds: Iterable[float], digits: int = 4) -> str:
    """Return a number with few digits, or with more if needed to show on which side of each bound it lies.

    >>> beside(0.90054, [0.9]), beside(0.899999, [0.9]), beside(0.79997, [0.8], 3), beside(0.8, [0.8], 3)
    ('0.9005', '0.899999', '0.79997', '0.800')
    """
    known = list(bounds)
    for each in range(digits, 13):
        shown = float(f"{value:.{each}f}")
        if all((shown < bound) == (value < bound) and (shown > bound) == (value > bound) for bound in known):
            return number(value, each)
    return number(value, digits)  # the difference is only rounding


def factor_text(value: float) -> str:
    """Return a rough factor in two digits.

    >>> factor_text(1.23), factor_text(18.2), factor_text(233.5), factor_text(12345.0)
    ('1.2', '18', '230', '12,000')
    """
    return f"{value:.1f}" if value < 10 else f"{float(f'{value:.2g}'):,.0f}"


def at_least(value: float) -> str:
    """Return a lower bound in four digits, rounded down so that it remains a lower bound.

    >>> at_least(0.79999), at_least(0.8), at_least(1 - 0.9)
    ('0.7999', '0.8000', '0.1000')
    """
    return number(math.floor(1e4 * value + 1e-6) / 1e4 if math.isfinite(1e4 * value) else value, 4)


def at_most(value: float) -> str:
    """Return an upper bound in four digits, rounded up so that it remains an upper bound.

    >>> at_most(0.80001), at_most(0.1 + 0.2)
    ('0.8001', '0.3000')
    """
    return number(math.ceil(1e4 * value - 1e-6) / 1e4 if math.isfinite(1e4 * value) else value, 4)


def count(value: float) -> str:
    """Return a count, or a sum of weights, with commas."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.{0 if value.is_integer() else 1}f}"


def as_level(confidence: float) -> str:
    """Return a confidence in percent, as in 95% and 99.9%.

    >>> as_level(0.95), as_level(0.999)
    ('95%', '99.9%')
    """
    return f"{round(100.0 * confidence, 6):g}%"


def probability_text(probability: float) -> str:
    """Return a simulated probability as text.  A simulation cannot distinguish 0 and 100% from values near them.

    >>> probability_text(0.263), probability_text(0.001), probability_text(1.0)
    ('26%', 'under 1%', 'over 99%')
    """
    if probability < 0.01:
        return "under 1%"
    return "over 99%" if probability > 0.99 else f"{100 * probability:.0f}%"


def p_text(p: float) -> str:
    """Return a p-value with few digits.

    >>> p_text(0.0314), p_text(0.00001)
    ('0.031', '< 0.001')
    """
    return "< 0.001" if p < 0.001 else number(p)


Entry = TypeVar("Entry")


def lookup(registry: Mapping[str, Entry], name: object, kind: str) -> Entry:
    """Return `registry[name]`; the error for an unknown name suggests the nearest one, and lists all."""
    if isinstance(name, str) and name in registry:
        return registry[name]
    raise ValueError(f"Unknown {kind} {name!r}.{did_you_mean(name, registry)} Known: {', '.join(sorted(registry))}.")


def duration(seconds: float) -> str:
    """Return a duration in suitable units.

    >>> [duration(seconds).replace("\N{NO-BREAK SPACE}", " ") for seconds in (0.36, 42.4, 754, 28260)]
    ['0.4 s', '42 s', '12 min 34 s', '7 h 51 min']
    """
    minutes, rest = divmod(round(seconds), 60)
    if seconds < 10:
        text = f"{seconds:.1f} s"
    elif minutes < 60:
        text = f"{minutes} min {rest} s" if minutes else f"{rest} s"
    else:
        text = f"{minutes // 60} h {minutes % 60} min"
    return text.replace(" ", "\N{NO-BREAK SPACE}")
