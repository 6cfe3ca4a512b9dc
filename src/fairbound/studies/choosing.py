"""The choice between a linear model and boosted trees, by their loss on rows that they have not seen.

Both are cross-fitted without limits on the same folds of the training rows.  Trees are chosen if their mean log loss is
smaller by more than the standard error of the difference.  So a linear model, which is quicker and easier to read, is
kept unless trees are clearly better.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairbound.studies.explained import collected_warnings
from fairbound.studies.parts import Part
from fairbound.studies.settings import StudySettings, make_base

Watch = Callable[[dict[str, Any]], bool | None]

FEWEST_ROWS = 2_000
"""Below this number of training rows, trees are not tried: their leaves need rows."""

MOST_ROWS = 30_000
"""Most rows of the trial.  More would hardly change the choice, and take longer."""

FOLDS = 3


@dataclass(frozen=True)
class ModelChoice:
    """The chosen model, and a sentence that says why."""

    model: str
    reason: str


def choose_model(training: Part, settings: StudySettings, pos_label: str | None, callback: Watch) -> ModelChoice:
    """Choose between "linear" and "boosted" on training rows."""
    rarest = min(Counter(training.data.y.tolist()).values())
    if len(training) < FEWEST_ROWS or rarest < FOLDS:
        few = f"fewer than {FEWEST_ROWS:,} training rows" if rarest >= FOLDS else "a label with very few rows"
        return ModelChoice("linear", f"Model: linear. Boosted trees were not tried, because there are {few}.")
    if len(training) > MOST_ROWS:
        data = training.data.split(MOST_ROWS / len(training), random_state=settings.seed, scale=False).test
        training = Part.of(data)
    losses = {
        name: unseen_losses(base, training, settings, pos_label, callback)
        for name, base in (("linear", _logistic_regression()), ("boosted", make_base("boosted", settings.seed)))
    }
    weights = np.ones(len(training)) if training.weight is None else np.asarray(training.weight, dtype=np.float64)
    share = weights / weights.sum()
    linear, boosted = (float(share @ losses[name]) for name in ("linear", "boosted"))
    gain = losses["linear"] - losses["boosted"]
    error = float(np.sqrt((share**2) @ (gain - share @ gain) ** 2))
    model = "boosted" if linear - boosted > error else "linear"
    words = "boosted trees" if model == "boosted" else "linear"
    return ModelChoice(
        model,
        f"Model: {words}, chosen by {FOLDS}-fold cross-validation without limits on {len(training):,} training rows. "
        f"Log loss: linear {linear:.4f}, boosted trees {boosted:.4f}, standard error of the difference {error:.4f}.",
    )


def unseen_losses(
    base: Any, rows: Part, settings: StudySettings, pos_label: str | None, callback: Watch
) -> NDArray[np.float64]:
    """Return the log loss of each row, by a base that has not seen it."""
    from fairbound.estimator import ConstrainedClassifier

    trial = ConstrainedClassifier(
        base=base,
        cv=FOLDS,
        ensemble=True,  # no refit on all rows
        pos_label=pos_label,
        max_categories=settings.max_categories,
        random_state=settings.seed,
        callbacks=[callback],
    )
    with collected_warnings():  # the chosen model is fitted to the same columns, and warns about them
        trial.fit(rows.inputs, rows.y, sample_weight=rows.weight)
    scores = trial.base_score_
    assert scores is not None
    if scores.ndim == 1:  # two classes: the logit of the second
        scores = np.column_stack([np.zeros(len(scores)), scores])
    own = np.searchsorted(trial.classes_, rows.y)
    total: NDArray[np.float64] = np.logaddexp.reduce(scores, axis=1)
    return total - scores[np.arange(len(own)), own]


def _logistic_regression() -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(max_iter=1000)
