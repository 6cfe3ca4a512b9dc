"""The three formats as files of a folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairbound.report.card import to_markdown
from fairbound.report.page import to_html
from fairbound.report.schema import to_json


def write_report(summary: Mapping[str, Any], folder: str | Path) -> dict[str, Path]:
    """Write report.html, model-card.md and summary.json; everything is made before anything is written.

    Returns
    -------
    dict
        The paths by "html", "markdown" and "json".
    """
    folder = Path(folder)
    written = {
        "html": (folder / "report.html", to_html(summary)),
        "markdown": (folder / "model-card.md", to_markdown(summary)),
        "json": (folder / "summary.json", to_json(summary)),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in written.values():
        # A file appears under its name only when it is whole.
        unfinished = path.with_name(f".{path.name}.unfinished")
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(path)
    return {kind: path for kind, (path, _) in written.items()}
