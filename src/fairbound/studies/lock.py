"""What is needed to repeat and to check a run: the call, versions, checksums, and its lock.

The lock, `limits.lock`, is a JSON file with what was asked for, written before training.

Its `sha256` is that of `content`, as JSON with sorted keys and without spaces.  So anyone can check that the limits of
a report are those that were written down first.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from fairbound._files import json_bytes
from fairbound._json import plain
from fairbound._version import __version__
from fairbound.data import DATASETS, Dataset
from fairbound.studies.parts import is_known
from fairbound.studies.settings import StudySettings

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


LIBRARIES = ("numpy", "scipy", "scikit-learn", "daqp", "torch")


def study_lock(data: Dataset, settings: StudySettings) -> dict[str, Any]:
    """Return the lock of a study: its limits, settings and rows with their hash, made before training begins."""
    stated = {each.name: getattr(settings, each.name) for each in fields(settings)}
    content = {
        **stated,
        "limits": [str(limit) for limit in settings.limits],
        "bounds": list(settings.bounds),
        "rows": data.n_rows,
        "rows_sha256": rows_hash(data),
    }
    return locked(plain(content))


def reproduction_of(
    data: Dataset, settings: StudySettings, command: str, lock: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the facts needed to repeat a study."""
    return {
        **({} if lock is None else {"lock": {name: lock[name] for name in ("written", "sha256")}}),
        "command": command,
        "version": __version__,
        "seed": settings.seed,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "model": settings.model,
        "data": {
            "name": data.name if data.path is None else Path(data.path).name,
            "sha256": _checksum(data),
            "rows": data.n_rows,
        },
        "columns": list(data.schema),
        "libraries": {"python": platform.python_version(), **{name: _version(name) for name in LIBRARIES}},
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _checksum(data: Dataset) -> str | None:
    """Return the SHA-256 of the file, or the known one of a known data set."""
    if data.path is not None and Path(data.path).is_file():
        with Path(data.path).open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    return DATASETS[data.name].file.sha256 if is_known(data) else None
