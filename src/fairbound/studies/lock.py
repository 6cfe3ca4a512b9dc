"""The lock of a run, `limits.lock`: a JSON file with what was asked for, written before training.

Its `sha256` is that of `content`, as JSON with sorted keys and without spaces.  So anyone can check that the limits of
a report are those that were written down first.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from fairbound._files import json_bytes
from fairbound.data import Dataset

LOCK_FILE = "limits.lock"


def locked(content: Any) -> dict[str, Any]:
    """Return the content with the time and its hash.

    >>> locked({"limits": ["disparate_impact >= 0.8"]})["sha256"][:12]
    '6b6d90fd8aa5'
    """
    return {
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
        "sha256": content_hash(content),
        "content": content,
    }


def content_hash(content: Any) -> str:
    """Return the SHA-256 of JSON with sorted keys and without spaces."""
    written = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(written.encode("ascii")).hexdigest()


def rows_hash(data: Dataset) -> str:
    """Return the SHA-256 of the rows themselves: label codes, groups and inputs, column by column.

    Numbers are hashed as they are in memory, in the byte order of this computer, and other values as text.
    """
    digest = hashlib.sha256()
    for role, columns in (("label", {"": data.y}), ("group", data.sensitive), ("input", data.table.columns)):
        for name, values in columns.items():
            column = np.asarray(values)
            digest.update(f"{role}\x1f{name}\x1f{column.dtype.kind}\x1f".encode("utf-8", "surrogatepass"))
            if column.dtype.kind in "biuf":
                digest.update(np.ascontiguousarray(column).tobytes())
            else:
                digest.update("\x1f".join(map(str, column.tolist())).encode("utf-8", "surrogatepass"))
            digest.update(b"\x1e")
    if data.processes is None:
        return digest.hexdigest()
    return hashlib.sha256("".join(data.processes.gather(digest.hexdigest())).encode("ascii")).hexdigest()


def trained_rows(run: Path) -> str | None:
    """Return the hash of the rows of a run, from the lock in its folder, or beside the folder of its model."""
    for folder in (run, run.resolve().parent):
        try:
            content = json.loads((folder / LOCK_FILE).read_text(encoding="utf-8"))["content"]
        except (OSError, ValueError, LookupError, TypeError):
            continue
        return content.get("rows_sha256") if isinstance(content, dict) else None
    return None


def write_lock(lock: Mapping[str, Any], folder: Path) -> None:
    """Write the lock into the folder of a run; an existing lock must have the same hash."""
    place = folder / LOCK_FILE
    if place.exists():
        if json.loads(place.read_text(encoding="utf-8"))["sha256"] != lock["sha256"]:
            raise ValueError(f"{place} has another hash: the limits were changed after they had been written.")
        return
    place.write_bytes(json_bytes(lock))
