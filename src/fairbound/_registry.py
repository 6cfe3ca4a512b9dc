"""Look a name up in a registry, with an error that names what is known."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import TypeVar

Entry = TypeVar("Entry")


def lookup(registry: Mapping[str, Entry], name: object, kind: str) -> Entry:
    """Return `registry[name]`; an unknown name raises a sentence with the nearest and all known names."""
    if isinstance(name, str) and name in registry:
        return registry[name]
    nearest = difflib.get_close_matches(str(name), registry, n=1)
    hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
    raise ValueError(f"Unknown {kind} {name!r}.{hint} Known: {', '.join(sorted(registry))}.")
