"""Explanations for the report: the most important inputs of a model, and notes on its columns and groups."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from fairbound._errors import ForecastWarning, LimitWarning, Message, SmallGroupWarning
from fairbound._words import as_text
from fairbound.data import is_missing
from fairbound.studies.parts import Part
from fairbound.studies.settings import StudySettings

if TYPE_CHECKING:
    from fairbound.estimator import ConstrainedClassifier, FitResult


SHOWN = 20
"""The number of inputs in a report."""
MOVED = 5
"""The number of columns of a correction in a note."""


def explain(
    classifier: ConstrainedClassifier, training: Part, held_out: Part | None, settings: StudySettings
) -> dict[str, Any]:
    """Return the most important inputs.

    For a linear model they have the largest coefficients.  For other models the loss rises most when they are shuffled.
    """
    inputs: list[dict[str, Any]]
    if settings.hidden or classifier.result_.base is not None:
        part, rows = (held_out, "held-out") if held_out is not None else (training, "training")
        found = shuffled_importances(
            classifier.predict_proba, part.X, part.y, classifier.classes_.tolist(), seed=settings.seed
        )
        kind, inputs = "importances", [{"name": name, "label": None, "value": each} for name, each in found.items()]
    else:
        kind, inputs, rows = "coefficients", coefficients(classifier, _spread(classifier, training)), "training"
    inputs.sort(key=lambda each: -abs(each["value"]))
    return {"kind": kind, "rows": rows, "total": len(inputs), "inputs": inputs[:SHOWN]}


def _spread(classifier: ConstrainedClassifier, training: Part) -> NDArray[np.float64]:
    return np.asarray(classifier.encoder_.transform(training.inputs)).std(axis=0)


def coefficients(classifier: ConstrainedClassifier, spread: NDArray[np.float64]) -> list[dict[str, Any]]:
    """Return logits per standard deviation of each encoded column: for two classes those of the positive one."""
    from torch import nn

    (layer,) = (each for each in classifier.module_.modules() if isinstance(each, nn.Linear))
    # The encoder scales numbers, so the weights of the layer are per standard deviation; `coef_` has the file's units.
    weights = layer.weight.detach().numpy() * spread
    labels = [None] if len(classifier.classes_) == 2 else [str(label) for label in classifier.classes_]
    return [
        {"name": name, "label": label, "value": float(value)}
        for label, line in zip(labels, weights, strict=True)
        for name, value in zip(classifier.encoded_names_, line, strict=True)
    ]


def scattered_columns(rows: Part, classifier: ConstrainedClassifier) -> list[str]:
    """Return a sentence for each column in which most training rows are encoded as "(other)".

    Such columns are usually not meant as inputs: identifiers, dates, names.
    """
    said: list[str] = []
    for column in classifier.encoder_.columns_:
        if not getattr(column, "other", False):  # a column of numbers has no such field
            continue
        values = rows.data.table.columns[column.name]
        sizes = Counter(values[~is_missing(values)].tolist())
        told = sum(size for _, size in sizes.most_common(len(column.words)))
        if 2 * told < sizes.total():
            said.append(
                Message(
                    "Column {name!r} has {values:,} different values in {rows:,} training rows; the model tells "
                    "{known} of them apart, in {told:,} rows. Leave out an identifier with {ignore=column}; make "
                    "numbers of dates, and fewer categories of codes.",
                    name=column.name,
                    values=len(sizes),
                    rows=sizes.total(),
                    known=len(column.words),
                    told=told,
                    column=[column.name],
                )
            )
    return said


def base_notes(result: FitResult) -> list[str]:
    """Return notes on the base of a model: its scores, its own accuracy and measures, and the correction."""
    base = result.base
    if base is None:
        return []
    alone = [f"{limit.limit}: {value:.3f}" for limit, value in zip(result.limits, base.reached, strict=True)]
    reached = f" ({'; '.join(alone)})" if alone else ""
    columns = ", ".join(f"{name} ({size:.2f})" for name, size in list(base.moved.items())[:MOVED])
    return [
        f"The model corrects a base, {base.name}. {base.scored}",
        f"The base alone has an accuracy of {base.accuracy:.1%} on the training rows{reached}.",
        f"The model decides {base.changed:.1%} of the training rows otherwise than the base alone.",
        f"The correction moves the logits most by these columns (mean change): {columns}.",
    ]


def small_group_notes(result: FitResult) -> list[str]:
    """Return a sentence for each sensitive column with groups that were too small for the limits."""
    fates: dict[tuple[str, str], list[str]] = {}
    for each in result.small_groups:
        fates.setdefault((each.grouping, each.fate), []).append(f"{as_text(each.group)} ({each.rows:,} rows)")
    return [
        f"{grouping}: {'merged into one group' if fate == 'merged' else 'left out of the limits'}, since each has few "
        f"training rows: {', '.join(groups)}."
        for (grouping, fate), groups in fates.items()
    ]


@contextmanager
def collected_warnings() -> Iterator[list[str]]:
    """Collect the warnings of a fit about its limits; show others, except for forecasts, which its record has."""
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", LimitWarning)
        yield texts
    for each in caught:
        if issubclass(each.category, ForecastWarning):
            continue  # the record of the fit has the forecast
        if not issubclass(each.category, LimitWarning):
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
        elif not issubclass(each.category, SmallGroupWarning):  # the record of the fit names small groups, too
            texts.append(str(each.message))


# --- importance ------------------------------------------------------------------------------------------------------

# Permutation importance: the increase of the loss when a column of the inputs is shuffled.
#
# Columns with the same information share their importance.  Importance says nothing about what causes the label.


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
    """
    rng = np.random.default_rng(seed)
    labels = np.asarray(y)
    table = nw.from_native(X, eager_only=True)
    if len(labels) > MOST_ROWS:
        rows = np.sort(rng.choice(len(labels), MOST_ROWS, replace=False))
        table, labels = table[rows.tolist()], labels[rows]
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
