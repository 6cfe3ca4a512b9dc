"""Check the summary from which reports are made, and write it as JSON.

`fairbound.studies` makes this dictionary, and docs/report.md documents it.  Reports use nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairbound._files import UnfitFileError, read_json

SCHEMA = "fairbound.summary"
VERSION = 1
LARGEST = 2**28
"""Largest size of a summary.json in bytes.  Those of real runs have less than a million."""
KEYS = (
    "title",
    "target",
    "classes",
    "class_names",
    "confidence",
    "limits",
    "parts",
    "changes",
    "run",
    "frontier",
    "calibration",
    "reproduction",
    "notes",
)
FURTHER = ("model",)
"""Keys that summaries of earlier versions lack."""


def check_summary(summary: Mapping[str, Any]) -> None:
    """Reject anything but a summary of the version that this package reads."""
    if not isinstance(summary, Mapping) or summary.get("schema") != SCHEMA:
        found = summary.get("schema") if isinstance(summary, Mapping) else type(summary).__name__
        raise ValueError(f"This is not a summary: its schema is {found!r}, not {SCHEMA!r}. Make one with summarize().")
    if summary.get("version") != VERSION:
        raise ValueError(
            f"The summary has version {summary.get('version')!r}, but this fairbound reads version {VERSION}: "
            "make the report with the version of fairbound that made the summary, or run again."
        )
    missing = [key for key in KEYS if key not in summary]
    if missing:
        raise ValueError(f"The summary lacks {', '.join(missing)}; it may have been cut off. Make it again.")


def to_json(summary: Mapping[str, Any], indent: int | None = 2) -> str:
    """Return the summary as JSON."""
    check_summary(summary)
    return json.dumps(summary, indent=indent, allow_nan=False, ensure_ascii=False) + "\n"


def read_summary(path: str | Path) -> dict[str, Any]:
    """Return the summary in a JSON file."""
    try:
        summary = read_json(path, LARGEST)
    except UnfitFileError as error:
        raise ValueError(f"{path} is not a summary: {error}. Give the summary.json of a run.") from None
    check_summary(summary)
    return summary
