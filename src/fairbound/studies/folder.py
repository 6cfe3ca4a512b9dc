"""The folder of a study.

    limits.lock      the limits and settings with their hash, from before training
    model/           the model with the limits
    summary.json     everything that was found; report.html and model-card.md are made from it

With a frontier, frontier.csv has its table, and models/ a model for each bound.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING

from fairbound._files import fresh_folder
from fairbound.fairness import shortest
from fairbound.studies.lock import write_lock
from fairbound.studies.summary import PointSummary, holds_summary

if TYPE_CHECKING:
    from fairbound.studies.running import Study

MODEL_FOLDER = "model"
"""Where in the folder of a study its model is."""
STUDY_FILES = (
    *("summary.json", "report.html", "model-card.md", "frontier.csv", "limits.lock"),
    f"{MODEL_FOLDER}/model.json",
    "models/*/model.json",
)
"""What a study writes; other files in its folder belong to the user, and stay when a study is replaced."""


def write_study(study: Study, place: Path, *, overwrite: bool, models: bool) -> None:
    """Write everything to a folder, which appears at `place` when it is complete."""
    taken = place.exists() or place.is_symlink()
    if taken and not (overwrite and place.is_dir() and holds_summary(place)):
        remedy = "it is not a study, so it is not replaced" if overwrite else "overwrite=True replaces a study"
        raise FileExistsError(f"{place} exists already; {remedy}. Give another folder, or remove it first.")
    with fresh_folder(place, replace=taken, ours=STUDY_FILES) as folder:
        write_files(study, folder, models=models)


def write_files(study: Study, folder: Path, *, models: bool = True) -> list[str]:
    """Write everything into a folder, which may have the lock already; return the names in it."""
    from fairbound.report import write_report

    write_lock(study.lock, folder)
    study.after.save(folder / MODEL_FOLDER)
    if models:
        for point in study.frontier:
            point.classifier.save(folder / "models" / shortest(point.bound))
    write_report(study.summary, folder)
    if study.frontier:
        lines = list(map(_line, study.summary.frontier))
        with (folder / "frontier.csv").open("w", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, list(lines[0]))
            writer.writeheader()
            writer.writerows(lines)
    return sorted(each.name for each in folder.iterdir())


def _line(point: PointSummary) -> dict[str, object]:
    """Return a point of the frontier as a line of numbers."""
    line: dict[str, object] = {"bound": point.bound, "status": point.status}
    for name, part in (("training", point.training), ("held_out", point.held_out)):
        if part is not None:
            line |= {f"{name}_{key}": getattr(part, key) for key in ("value", "kept", "lower", "upper")}
            line[f"{name}_accuracy"] = part.accuracy.value
            line |= {f"{name}_accuracy_{end}": getattr(part.accuracy, end) for end in ("lower", "upper")}
            line[f"{name}_gain"] = part.gain
    return line | {"loss_price": point.loss_price, "accuracy_price": point.accuracy_price}
