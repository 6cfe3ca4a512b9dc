"""The choice between a linear model and boosted trees, by their loss on rows that they have not seen.

Both are cross-fitted without limits on the same folds of the training rows.  Trees are chosen if their mean log loss
is smaller by more than the standard error of the difference.  Otherwise the linear model is chosen, because it is
faster and easier to explain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairbound._model_settings import Base
from fairbound._sharing import gathered, joined
from fairbound.studies.fit_notes import collected_warnings
from fairbound.studies.parts import Part
from fairbound.studies.settings import StudySettings, make_base

if TYPE_CHECKING:
    from fairbound.estimator import ConstrainedClassifier, Inputs

FEWEST_ROWS = 2_000
"""With fewer training rows, trees are not tried: their leaves would have too few rows."""

MOST_ROWS = 30_000
"""The most rows used for the choice.  More would take longer and hardly change it."""

FOLDS = 3


@dataclass(frozen=True)
class ModelChoice:
    """The chosen model, and a sentence that says why."""

    model: str
    reason: str


def choose_model(training: Part, settings: StudySettings, pos_label: str | None) -> ModelChoice:
    """Choose between "linear" and "boosted" on training rows."""
    from sklearn.linear_model import LogisticRegression

    from fairbound.estimator import ConstrainedClassifier, TableEncoder

    processes, rows = training.data.processes, training.data.n_rows
    rarest = min(sum((Counter(each) for each in gathered(training.data.y.tolist(), processes)), Counter()).values())
    if rows < FEWEST_ROWS or rarest < FOLDS:
        few = f"fewer than {FEWEST_ROWS:,} training rows" if rarest >= FOLDS else "a label with very few rows"
        return ModelChoice("linear", f"Model: linear. Boosted trees were not tried, because there are {few}.")
    if rows > MOST_ROWS:
        training = Part.of(training.data.split(MOST_ROWS / rows, random_state=settings.seed, scale=False).test)
    weight = None if training.weight is None else joined(np.asarray(training.weight), processes)
    y, inputs = joined(np.asarray(training.y), processes), training.inputs.joined(processes)
    encoder = TableEncoder(max_categories=training.data.max_categories)
    tried = {"linear": LogisticRegression(max_iter=1000), "boosted": make_base("boosted", settings.seed)}

    def choose() -> ModelChoice:
        return _by_losses(
            {
                name: unseen_losses(
                    ConstrainedClassifier(
                        base=Base(base, cv=FOLDS, ensemble=True),  # no refit on all rows
                        encoder=encoder,
                        pos_label=pos_label,
                        random_state=settings.seed,
                    ),
                    inputs,
                    y,
                    weight,
                )
                for name, base in tried.items()
            },
            weight,
        )

    found: ModelChoice = choose() if processes is None else processes.first(choose)
    return found


def _by_losses(losses: Mapping[str, NDArray[np.float64]], weight: Any) -> ModelChoice:
    weights = np.ones(len(losses["linear"])) if weight is None else np.asarray(weight, dtype=np.float64)
    share = weights / weights.sum()
    linear, boosted = (float(share @ losses[name]) for name in ("linear", "boosted"))
    gain = losses["linear"] - losses["boosted"]
    error = float(np.sqrt((share**2) @ (gain - share @ gain) ** 2))
    model = "boosted" if linear - boosted > error else "linear"
    words = "boosted trees" if model == "boosted" else "linear"
    return ModelChoice(
        model,
        f"Model: {words}, chosen by {FOLDS}-fold cross-validation without limits on {len(weights):,} training rows. "
        f"Log loss: linear {linear:.4f}, boosted trees {boosted:.4f}, standard error of the difference {error:.4f}.",
    )


def unseen_losses(trial: ConstrainedClassifier, inputs: Inputs, y: NDArray[Any], weight: Any) -> NDArray[np.float64]:
    """Return the log loss of each row, scored by the base of a classifier that was not trained on it."""
    from fairbound.estimator import cross_fitted_scores

    with collected_warnings():  # the chosen model is fitted to the same columns, and warns about them
        scores = cross_fitted_scores(trial, inputs, y, weight)
    if scores.ndim == 1:  # two classes: the logit of the second
        scores = np.column_stack([np.zeros(len(scores)), scores])
    own = np.searchsorted(np.unique(y), y)
    total: NDArray[np.float64] = np.logaddexp.reduce(scores, axis=1)
    return total - scores[np.arange(len(own)), own]
