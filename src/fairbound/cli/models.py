"""Models on the command line: how they are named, saved and read back."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fairbound.estimator import ConstrainedClassifier

MODEL_FOLDER = "model"
"""Where in the folder of a run its model is."""

_MODEL = re.compile(r"(?:linear|mlp:\d+(?:[,x]\d+)*)")


def hidden_layers(model: str) -> tuple[int, ...]:
    """Return the widths of the hidden layers.

    >>> hidden_layers("linear"), hidden_layers("mlp:32"), hidden_layers("mlp:64,32")
    ((), (32,), (64, 32))
    """
    widths = tuple(int(width) for width in re.findall(r"\d+", model))
    if not _MODEL.fullmatch(model) or 0 in widths:
        raise ValueError(
            f"--model is {model!r}; give linear, or mlp: and the widths of hidden layers, as in mlp:32 or mlp:64,32."
        )
    return widths


def save_model(classifier: ConstrainedClassifier, path: Path) -> None:
    """Write a fitted classifier."""
    classifier.save(path)


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

    inner = folder / MODEL_FOLDER
    place = inner if inner.is_dir() else folder
    if not (place / "model.json").is_file():
        raise FileNotFoundError(f"{place} has no model.json; give the folder that train has written.")
    return load(place)
