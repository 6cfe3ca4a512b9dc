"""Numbers for readers, with few digits and never rounded to the other side of a limit; and the facts of a run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fairbound import _words

MINUS = "−"


def rate(value: float | None) -> str:
    """Return a rate or measure with three digits; a dash if there is none.

    >>> rate(0.12345), rate(-0.5), rate(None)
    ('0.123', '−0.500', '–')
    """
    return "–" if value is None else f"{value:.3f}".replace("-", MINUS)


def estimate(found: Any) -> str:
    """Return a value with its interval, if it has one.

    >>> from fairbound.evaluation import Estimate
    >>> estimate(Estimate(0.5, 0.25, 0.75)), estimate(Estimate(0.5)), estimate(Estimate())
    ('0.500 (0.250 to 0.750)', '0.500', 'undefined')
    """
    if found.value is None:
        return "undefined"
    return rate(found.value) + ("" if found.lower is None else f" ({interval(found)})")


def interval(found: Any, write: Callable[[float | None], str] = rate) -> str:
    """Return the two ends of an interval."""
    return "" if found.lower is None else f"{write(found.lower)} to {write(found.upper)}"


def accuracy(found: Any) -> str:
    """Return an accuracy in percent with its interval, if it has one.

    >>> from fairbound.evaluation import Estimate
    >>> accuracy(Estimate(0.5, 0.25, 0.75))
    '50.00% (25.00% to 75.00%)'
    """
    return percent(found.value) + ("" if found.lower is None else f" ({interval(found, percent)})")


def beside(value: float | None, bounds: Sequence[float], digits: int = 4) -> str:
    """Return a value with four digits, or with as many as show on which side of each bound it lies.

    >>> beside(0.90054, [0.9]), beside(0.899999, [0.9]), beside(0.9, [0.9])
    ('0.9005', '0.899999', '0.9000')
    """
    if value is None:
        return "undefined"
    return _words.beside(value, bounds, digits).replace("-", MINUS)


def short(value: float) -> str:
    """Return a bound as the user wrote it.

    >>> short(0.8), short(1e-4)
    ('0.8', '0.0001')
    """
    return f"{value:.10g}".replace("-", MINUS) if abs(value) >= 1e-4 or value == 0 else f"{value:g}"


def percent(value: float | None, digits: int = 2) -> str:
    """Return a share in percent.

    >>> percent(0.89881), percent(None)
    ('89.88%', '–')
    """
    return "–" if value is None else f"{100.0 * value:.{digits}f}%"


def points(value: float | None) -> str:
    """Return a difference of two shares in percentage points, with its sign.

    >>> points(0.00172), points(-0.0105), points(0.00001)
    ('+0.17 points', '−1.05 points', '0.00 points')
    """
    if value is None:
        return "–"
    text = f"{100.0 * value:+.2f}".replace("-", MINUS)
    return f"{'0.00' if text[1:] == '0.00' else text} points"


def signed(value: float | None) -> str:
    """Return a change with its sign.

    >>> signed(0.0123), signed(-0.0001)
    ('+0.012', '0.000')
    """
    if value is None:
        return "–"
    text = f"{value:+.3f}".replace("-", MINUS)
    return "0.000" if text[1:] == "0.000" else text


def fixed(value: float, places: int) -> str:
    """Return a number with so many decimal places.

    >>> fixed(-1.25, 1)
    '−1.2'
    """
    return f"{value:.{places}f}".replace("-", MINUS)


def significant(value: float | None) -> str:
    """Return a number of any size.

    >>> significant(0.24598123), significant(1.23e-7), significant(0.0), significant(None)
    ('0.246', '1.23e-07', '0', '–')
    """
    return "–" if value is None else f"{value:.4g}".replace("-0.", f"{MINUS}0.")


def about(value: float) -> str:
    """Return a number with two significant digits, for uses in which only its size matters.

    >>> about(0.00051832), about(0.0), about(-1.25e-6)
    ('0.00052', '0', '−0.0000013')
    """
    digits = 1 - math.floor(math.log10(abs(value))) if value else 0
    return f"{value:.{max(0, digits)}f}".replace("-", MINUS)


def words(name: str) -> str:
    """Return the name of a measure or rate as words.

    >>> words("disparate_impact"), words("true_positive_rate")
    ('disparate impact', 'true-positive rate')
    """
    return name.replace("_", " ").replace("true positive", "true-positive").replace("false positive", "false-positive")


NAMES = {
    "command": "Command",
    "version": "fairbound",
    "seed": "Seed",
    "created": "Made",
    "lock": "Limits written",
    "model": "Model",
    "data": "Data",
    "columns": "Columns used",
    "libraries": "Libraries",
}


def reproduction_lines(reproduction: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the known lines first, then all others.

    >>> reproduction_lines({"seed": 0, "data": {"name": "loans.csv", "rows": 1200}, "note": "a trial"})
    [('Seed', '0'), ('Data', 'loans.csv, 1,200 rows'), ('note', 'a trial')]
    """
    known = [key for key in NAMES if key in reproduction]
    others = [key for key in reproduction if key not in NAMES]
    return [(NAMES.get(key, str(key)), SPECIAL.get(key, _text)(reproduction[key])) for key in known + others]


def _data(value: Mapping[str, Any]) -> str:
    """Return the source of the rows, their number, and the checksum of the file."""
    checksum = f", SHA-256 {value['sha256']}" if value.get("sha256") else ""
    return f"{value['name']}, {value['rows']:,} rows{checksum}"


def _time(value: str) -> str:
    """Return a time in the form of ISO 8601 for readers.

    >>> _time("2026-01-31T12:05:10+00:00")
    '2026-01-31 12:05 UTC'
    """
    return f"{value[:16].replace('T', ' ')} UTC" if value.endswith("+00:00") else value


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_text(entry)}" for key, entry in value.items())
    return ", ".join(map(_text, value)) if isinstance(value, list | tuple) else str(value)


def _lock(value: Mapping[str, str]) -> str:
    """Return when the limits were written down, and their hash."""
    return f"{_time(value['written'])}, before training; SHA-256 {value['sha256']} (limits.lock)"


SPECIAL: dict[str, Callable[[Any], str]] = {"data": _data, "created": _time, "lock": _lock}
"""Lines that need more than a name and a value."""
