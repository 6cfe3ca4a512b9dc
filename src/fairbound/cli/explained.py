"""What a model goes by, for its report: coefficients of a linear model, importances of the columns of a network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairbound.cli.study import Study
    from fairbound.estimator import ConstrainedClassifier

SHOWN = 20
"""Inputs in a report."""


def explain(study: Study, classifier: ConstrainedClassifier) -> dict[str, Any]:
    """Return the inputs that matter most: of a linear model by coefficient, of others by the loss of a shuffle."""
    found = _coefficients(study, classifier) if not study.settings.hidden else _importances(study, classifier)
    found["inputs"].sort(key=lambda each: -abs(each["value"]))
    found["inputs"] = found["inputs"][:SHOWN]
    return found


def _coefficients(study: Study, classifier: ConstrainedClassifier) -> dict[str, Any]:
    """Return logits per standard deviation of each encoded column: for two classes those of the positive one."""
    import numpy as np
    from torch import nn

    (layer,) = (each for each in classifier.module_.modules() if isinstance(each, nn.Linear))
    spread = np.asarray(classifier.encoder_.transform(study.training.X)).std(axis=0)
    # The columns of numbers are scaled by the encoder; `coef_` is in the units of the file.
    weights = layer.weight.detach().numpy() * spread
    labels = [None] if len(classifier.classes_) == 2 else [str(label) for label in classifier.classes_]
    inputs = [
        {"name": name, "label": label, "value": float(value)}
        for label, line in zip(labels, weights, strict=True)
        for name, value in zip(classifier.encoded_names_, line, strict=True)
    ]
    return {"kind": "coefficients", "rows": "training", "total": len(inputs), "inputs": inputs}


def _importances(study: Study, classifier: ConstrainedClassifier) -> dict[str, Any]:
    from fairbound.evaluation import shuffled_importances

    part, rows = (study.held_out, "held-out") if study.held_out is not None else (study.training, "training")
    found = shuffled_importances(
        classifier.predict_proba, part.X, part.y, classifier.classes_.tolist(), seed=study.settings.seed
    )
    inputs = [{"name": name, "label": None, "value": value} for name, value in found.items()]
    return {"kind": "importances", "rows": rows, "total": len(inputs), "inputs": inputs}
