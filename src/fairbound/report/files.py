"""Write the three formats of a report into a folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairbound._drafts import write_file
from fairbound._files import as_utf8, begins_with
from fairbound.report.card import to_markdown
from fairbound.report.page import to_html
from fairbound.report.schema import SCHEMA, to_json

NAMES = {"json": "summary.json", "html": "report.html", "markdown": "model-card.md"}


def write_report(
    summary: Mapping[str, Any], folder: str | os.PathLike[str], *, overwrite: bool = False
) -> dict[str, Path]:
    """Write report.html, model-card.md and summary.json.  Nothing is written before all three are made.

    The files of an older report are replaced; a report is recognised by its summary.json.  Other files of these names
    are replaced only with `overwrite`.

    Returns
    -------
    dict
        The paths by "html", "markdown" and "json".
    """
    folder = Path(folder)
    written = {"json": to_json(summary), "html": to_html(summary), "markdown": to_markdown(summary)}
    foreign = [name for name in NAMES.values() if (folder / name).exists()]
    if foreign and not overwrite and not holds_summary(folder):
        raise FileExistsError(
            f"{folder / foreign[0]} exists and does not belong to a report of fairbound: give another folder, or "
            "overwrite=True to replace it."
        )
    for kind, text in written.items():  # the summary first: a report is recognised by it
        write_file(folder / NAMES[kind], as_utf8(text))
    return {kind: folder / name for kind, name in NAMES.items()}


def holds_summary(folder: Path) -> bool:
    """Return whether a folder has a summary of fairbound."""
    return begins_with(folder / NAMES["json"], f'"schema": "{SCHEMA}"'.encode())
