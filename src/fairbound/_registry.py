"""Look up a name in a registry; the error for an unknown name lists the known ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from fairbound._words import did_you_mean

Entry = TypeVar("Entry")


def lookup(registry: Mapping[str, Entry], name: object, kind: str) -> Entry:
    """Return `registry[name]`; an unknown name raises a sentence with the nearest and all known names."""
    if isinstance(name, str) and name in registry:
        return registry[name]
    raise ValueError(f"Unknown {kind} {name!r}.{did_you_mean(name, registry)} Known: {', '.join(sorted(registry))}.")
