"""What repeats a run, as lines of a name and a text, in the order in which a reader wants them."""

from __future__ import annotations

from collections.abc import Mapping
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
    """Return the known lines first, then whatever else there is.

    >>> reproduction_lines({"seed": 0, "data": {"name": "loans.csv", "rows": 1200}, "note": "a trial"})
    [('Seed', '0'), ('Data', 'name loans.csv, rows 1,200'), ('note', 'a trial')]
    """
    known = [key for key in NAMES if key in reproduction]
    others = [key for key in reproduction if key not in NAMES]
    return [(NAMES.get(key, str(key)), _text(reproduction[key])) for key in known + others]


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(
            f"{key} {f'{entry:,}' if isinstance(entry, int) else _text(entry)}" for key, entry in value.items()
        )
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value))
    return "not given" if value is None else str(value)
