"""The facts needed to repeat a run, as lines of a name and a text, the most important first."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

NAMES = {
    "command": "Command",
    "version": "fairbound",
    "seed": "Seed",
    "created": "Made",
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


def _data(value: Any) -> str:
    """Return the source of the rows, their number, and the checksum of the file."""
    if not isinstance(value, Mapping) or not {"name", "rows"} <= set(value):
        return _text(value)
    others = {key: entry for key, entry in value.items() if key not in ("name", "rows", "sha256")}
    said = [_text(value["name"]), f"{value['rows']:,} rows"]
    said += [f"SHA-256 {value['sha256']}"] if value.get("sha256") else []
    return ", ".join([*said, *([_text(others)] if others else [])])


def _time(value: Any) -> str:
    """Return a time in the form of ISO 8601 for readers; any other text as it is.

    >>> _time("2026-01-31T12:05:10+00:00"), _time("last week")
    ('2026-01-31 12:05 UTC', 'last week')
    """
    found = re.fullmatch(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d)(?::\d\d)?\+00:00", str(value))
    return f"{found[1]} {found[2]} UTC" if found else _text(value)


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(
            f"{key} {f'{entry:,}' if isinstance(entry, int) else _text(entry)}" for key, entry in value.items()
        )
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value))
    return "not given" if value is None else str(value)


SPECIAL: dict[str, Callable[[Any], str]] = {"data": _data, "created": _time}
"""Lines that need more than a name and a value."""
