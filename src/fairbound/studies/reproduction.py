"""The facts needed to repeat a study: the call, the version, the seed, the data with their checksum, the libraries."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from fairbound._json import plain
from fairbound._version import __version__
from fairbound.data import DATASETS, Dataset
from fairbound.studies.lock import locked, rows_hash
from fairbound.studies.parts import is_known
from fairbound.studies.settings import StudySettings

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
