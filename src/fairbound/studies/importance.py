"""The most important inputs of a model: by its coefficients or, if it is not linear, by permutation importance.

That is the increase of the loss if a column of the inputs is shuffled.  Columns with the same information share their
importance.  Importance says nothing about what causes the label.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from fairbound._sharing import gathered, joined, rows_before
from fairbound.studies.parts import Part
from fairbound.studies.settings import StudySettings
from fairbound.studies.summary import ModelInput, ModelInputs

if TYPE_CHECKING:
    from fairbound.estimator import ConstrainedClassifier

Floats = NDArray[np.float64]

SHOWN = 20
"""The number of inputs in a report."""

MOST_ROWS = 2000
"""Largest number of rows used; more would take longer and hardly change the result."""

SHUFFLES = 3


def shuffled_importances(
    predict_proba: Callable[[Any], NDArray[np.float64]],
    X: Any,
    y: Any,
    classes: Sequence[Any],
    *,
    seed: int = 0,
    processes: Any = None,
) -> dict[str, float]:
    """Return the increase of the mean log loss when a column is shuffled, for each column of a table.

    Parameters
    ----------
    predict_proba : function of a table
        Returns the probabilities of the classes, in their order.
    X : table
        Rows, preferably held out from training.
    y : sequence of labels
    classes : sequence of labels
    seed : int
        Seed of the shuffles, and of the sample if there are more than `MOST_ROWS` rows.
    processes : Processes, optional
        Those that share the rows; all get the same result.
    """
    rng = np.random.default_rng(seed)
    labels = np.asarray(y)
    table = nw.from_native(X, eager_only=True)
    first, count = rows_before(len(labels), processes), sum(gathered(len(labels), processes))
    if count > MOST_ROWS:
        rows = np.sort(rng.choice(count, MOST_ROWS, replace=False)) - first
        rows = rows[(rows >= 0) & (rows < len(labels))]
        table, labels = table[rows.tolist()], labels[rows]
    table = nw.concat([nw.from_native(each, eager_only=True) for each in gathered(table.to_native(), processes)])
    labels = joined(labels, processes)
    places = {label: place for place, label in enumerate(np.asarray(classes).tolist())}
    codes = np.array([places[label] for label in labels.tolist()])

    def loss(part: Any) -> float:
        found = predict_proba(part.to_native())[np.arange(len(codes)), codes]
        return float(-np.log(np.clip(found, 1e-12, 1.0)).mean())

    start = loss(table)
    rises = {}
    for name in table.columns:
        shuffled = [table[name][rng.permutation(len(codes)).tolist()] for _ in range(SHUFFLES)]
        rises[name] = float(np.mean([loss(table.with_columns(each.alias(name))) for each in shuffled])) - start
    return rises


def explain(
    classifier: ConstrainedClassifier, training: Part, held_out: Part | None, settings: StudySettings
) -> ModelInputs:
    """Return the most important inputs.

    For a linear model they have the largest coefficients.  For other models the loss rises most when they are shuffled.
    """
    if settings.hidden or classifier.result_.base is not None:
        part, rows = (held_out, "held-out") if held_out is not None else (training, "training")
        found = shuffled_importances(
            classifier.predict_proba,
            part.X,
            part.y,
            classifier.classes_.tolist(),
            seed=settings.seed,
            processes=part.data.processes,
        )
        return importances(found, rows)
    return coefficients(classifier, _spread(classifier, training))


def importances(found: Mapping[str, float], rows: str) -> ModelInputs:
    """Return the inputs of the largest importances."""
    inputs = sorted((ModelInput(*each) for each in found.items()), key=lambda each: -abs(each.value))
    return ModelInputs("importances", rows, len(inputs), tuple(inputs[:SHOWN]))


def _spread(classifier: ConstrainedClassifier, training: Part) -> NDArray[np.float64]:
    """Return the standard deviation of each encoded column over the training rows of all processes."""
    inputs = training.inputs.without(classifier.left_columns_)
    Z, processes = classifier.encoder_.transform(inputs), training.data.processes

    def mean_of(function: Callable[[Floats], Floats]) -> Floats:
        found = sum(function(Z[rows]).sum(axis=0) for rows in training.inputs.blocks())
        every = [(found, len(Z))] if processes is None else processes.gather((found, len(Z)))
        return np.asarray(sum(each for each, _ in every) / sum(rows for _, rows in every))

    mean = mean_of(lambda rows: rows)
    return np.sqrt(mean_of(lambda rows: (rows - mean) ** 2))


def coefficients(classifier: ConstrainedClassifier, spread: NDArray[np.float64]) -> ModelInputs:
    """Return logits per standard deviation of each encoded column: for two classes those of the positive one."""
    weights = (-classifier.coef_ if classifier._flipped else classifier.coef_) * spread
    labels = [None] if len(classifier.classes_) == 2 else [str(label) for label in classifier.classes_]
    inputs = [
        ModelInput(name, float(value), label)
        for label, line in zip(labels, weights, strict=True)
        for name, value in zip(classifier.encoded_names_, line, strict=True)
    ]
    inputs.sort(key=lambda each: -abs(each.value))
    return ModelInputs("coefficients", "training", len(inputs), tuple(inputs[:SHOWN]))
