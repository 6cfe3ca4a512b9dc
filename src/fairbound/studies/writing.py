"""The folder of a study: the model, its numbers in short, the summary, the report and the model card.

    model/           the model with the limits
    metrics.json     the numbers in short
    summary.json     everything; report.html and model-card.md are made of it

With a frontier, frontier.json and frontier.csv take the place of metrics.json, and models/ has a model for each bound.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairbound._drafts import CONTENT, draft_beside
from fairbound._files import as_utf8
from fairbound.fairness import shortest
from fairbound.studies.first_look import columns_taken, label_values
from fairbound.studies.tables import frontier_lines, metrics_of

if TYPE_CHECKING:
    from fairbound.studies.running import Study

MODEL_FOLDER = "model"
"""Where in the folder of a study its model is."""


def write_study(study: Study, place: Path, *, overwrite: bool, models: bool) -> dict[str, Any]:
    """Write everything to a folder that appears at `place` when it is complete; return the numbers in short."""
    from fairbound.report import holds_summary

    taken = place.exists() or place.is_symlink()
    if taken and not (overwrite and place.is_dir() and holds_summary(place)):
        remedy = "it holds no study, so it is not replaced" if overwrite else "overwrite=True replaces a study"
        raise FileExistsError(f"{place} exists already; {remedy}. Give another folder, or remove it first.")
    with draft_beside(place) as draft:
        folder = draft.folder / CONTENT
        folder.mkdir()
        found = write_files(study, folder, place, models=models)
        draft.publish(folder, place, replace=taken)
    return found


def write_files(study: Study, folder: Path, place: Path, *, models: bool = True) -> dict[str, Any]:
    """Write everything into an empty folder that will stand at `place`; return the numbers in short."""
    from fairbound.report import write_report

    study.after.save(folder / MODEL_FOLDER)
    if models:
        for point in study.frontier:
            point.classifier.save(folder / "models" / shortest(point.bound))
    write_report(study.summary, folder)
    read = {"label": label_values(study.data), "taken": columns_taken(study.data, study.name_of)}
    if study.frontier:
        return _write_frontier(study.summary, read, folder, place)
    found = {**metrics_of(study.summary), **read}
    found["files"] = _files(folder, place, "metrics.json")
    _write_json(folder / "metrics.json", found)
    return found


def _write_frontier(summary: Mapping[str, Any], read: Mapping[str, Any], folder: Path, place: Path) -> dict[str, Any]:
    lines = frontier_lines(summary["frontier"])
    with (folder / "frontier.csv").open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(lines[0]))
        writer.writeheader()
        writer.writerows(lines)
    found = {
        "limit": summary["frontier"]["limit"],
        "kept": all(line["training_kept"] for line in lines),
        "points": lines,
        "interrupted": bool(summary["run"]["interrupted"]),
        "reproduction": summary["reproduction"],
        **read,
    }
    _write_json(folder / "frontier.json", found)
    return {**found, "files": _files(folder, place)}


def _files(folder: Path, place: Path, *further: str) -> list[str]:
    return [str(place / name) for name in sorted([*(each.name for each in folder.iterdir()), *further])]


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_bytes(as_utf8(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"))
