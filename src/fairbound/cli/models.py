"""Models that commands have written, read back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fairbound.estimator import ConstrainedClassifier


def load_model(path: str) -> ConstrainedClassifier:
    """Read a fitted classifier back, from the folder of a run or that of the model itself; nothing in it is run."""
    folder = Path(path)
    if not folder.is_dir():
        from fairbound._words import did_you_mean

        beside = [each.name for each in folder.parent.iterdir() if each.is_dir()] if folder.parent.is_dir() else []
        raise FileNotFoundError(
            f"There is no folder {path}.{did_you_mean(folder.name, beside)} Give the folder that train has written."
        )
    from fairbound import load
    from fairbound.studies import MODEL_FOLDER

    inner = folder / MODEL_FOLDER
    place = inner if inner.is_dir() else folder
    if not (place / "model.json").is_file():
        raise FileNotFoundError(f"{place} has no model.json; give the folder that train has written.")
    return load(place)
