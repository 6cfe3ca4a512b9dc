"""The model over a base: v · base score + correction, its penalty, and the scores that a user gives.

    logit(x) = v · s(x) + h(x)          h is linear or a small network in the encoded columns; training starts at
                                        v = 1, h = 0

The inputs of the module are the encoded columns, then the scores: one for two classes, otherwise one per class.  A
linear correction is one linear layer of all inputs.  If h is a network, the scores bypass it.

A base returns probabilities or margins.  Both become scores on the scale of logits:

    probability p   log p/(1 − p); with several classes log p_k − mean log p.  p = 0 is replaced by half the least p > 0
    margin m        m / standard deviation.  The sign stays the same, and v = 1 is a sensible start
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairbound.estimator.groups import smallest_sample
from fairbound.estimator.models import on_device
from fairbound.fairness import Cells, Constraint
from fairbound.training import L2, LinearModel, LinearTerm, TrainingProblem, as_regularizers

if TYPE_CHECKING:
    from fairbound.estimator.parameters import Parameters
    from fairbound.estimator.scores import BaseScores


Floats = NDArray[np.float64]

PROBABILITY_TOLERANCE = 1e-6
"""How far from 1 the sums of rows of probabilities may be."""

LEAST_CLIP, MOST_CLIP = 1e-6, 1e-2
"""Range of the distance from 0 and 1 to which extreme probabilities are clipped."""


@dataclass(frozen=True)
class ScoreScale:
    """The conversion of a base's outputs to scores.

    Attributes
    ----------
    probabilities : bool
        Whether the outputs are probabilities; otherwise they are margins.
    unit : float
        For probabilities the least distance from 0 and 1, for margins their standard deviation.
    """

    probabilities: bool
    unit: float

    @classmethod
    def learn(cls, outputs: Floats, probabilities: bool) -> ScoreScale:
        """Learn the scale from the outputs for the training rows."""
        if not probabilities:
            return cls(False, float(outputs.std()) or 1.0)
        distance = np.minimum(outputs, 1.0 - outputs)
        if distance.min() > 0:  # no probability is exactly 0 or 1, so clipping is only for overflow
            return cls(True, LEAST_CLIP)
        least = distance[distance > 0].min(initial=1.0)
        return cls(True, float(np.clip(0.5 * least, LEAST_CLIP, MOST_CLIP)))

    def __call__(self, outputs: Floats) -> Floats:
        """Return scores of outputs."""
        if not self.probabilities:
            return outputs / self.unit
        p = np.clip(outputs, self.unit, 1.0 - self.unit)
        if outputs.shape[1] == 1:
            return np.log(p) - np.log1p(-p)
        logs = np.log(p)
        return logs - logs.mean(axis=1, keepdims=True)


def correction_weights(model: Any, n_columns: int) -> Floats:
    """Return 1 for each parameter that is a weight of the columns in the correction, else 0.

    So v and the biases get 0.  In a linear correction, the few weights of group posteriors get 0, too.
    """
    if isinstance(model, LinearModel):
        weight = np.zeros((model.n_outputs, model.n_inputs))
        weight[:, :n_columns] = 1.0
        return np.concatenate([weight.reshape(-1), np.zeros(model.n_outputs)])
    of_columns = (
        (name.endswith("weight") and not name.startswith("score."), each) for name, each in model.named_parameters()
    )
    return np.concatenate([np.full(each.numel(), float(counts)) for counts, each in of_columns])


def score_names(classes: Sequence[Hashable]) -> list[str]:
    """Names of the scores among the inputs of the module."""
    return ["base score"] if len(classes) == 2 else [f"base score of {label}" for label in classes]


def read_base_score(given: Any, n_rows: int, *, own: bool = False) -> Floats:
    """Return scores that the user gives for a fit or for new rows, one row for each row of X.

    A single column holds logits.  If all numbers lie between 0 and 1, they are probably probabilities, which is an
    error, unless these are the scores that a fitted base has given itself (`own`).
    """
    try:
        scores = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"base_score= must hold numbers: one per row, or one per row and class: {error}.") from error
    if scores.ndim not in (1, 2) or len(scores) != n_rows:
        raise ValueError(f"base_score= has shape {scores.shape}, but X has {n_rows} rows: give a score for each row.")
    if not np.isfinite(scores).all():
        row = int(np.argwhere(~np.isfinite(scores))[0][0])
        raise ValueError(f"base_score= has NaN or infinity in row {row}: give finite numbers.")
    if not own and scores.size == n_rows and np.ptp(scores) > 0 and scores.min() >= 0 and scores.max() <= 1:
        raise ValueError(
            "base_score= has one column with numbers from 0 to 1 only. They look like probabilities, but a single "
            "column must hold logits: give both columns of predict_proba, or logits."
        )
    return scores


def orient_scores(scores: Floats, n_labels: int, *, flipped: bool) -> Floats:
    """Return the scores as inputs of the module, from logits of shape (n,) or one column per class.

    Parameters
    ----------
    scores : array of shape (n,) or (n, classes)
        Two classes: logits of the second class, or the probabilities of both.  More classes: logits, or
        probabilities.  Rows that are not negative and sum to 1 are probabilities.
    n_labels : int
    flipped : bool
        Whether the first of two classes is the positive one.
    """
    wide = scores.reshape(len(scores), -1)
    probabilities = bool((wide >= 0).all() and (np.abs(wide.sum(axis=1) - 1.0) <= PROBABILITY_TOLERANCE).all())
    if wide.shape[1] == n_labels and (probabilities or n_labels > 2):
        if probabilities:
            wide = np.log(np.clip(wide, 1e-6, 1.0))
            wide = wide - wide.mean(axis=1, keepdims=True)
        if n_labels > 2:
            return wide
        found = wide[:, 1:] - wide[:, :1]
    elif wide.shape[1] == 1 and n_labels == 2:
        found = wide
    else:
        kinds = "logits of shape (n,) or" if n_labels == 2 else "logits or"
        raise ValueError(
            f"base_score= has {wide.shape[1]} columns that are not probabilities of {n_labels} classes: give {kinds} "
            f"probabilities of shape (n, {n_labels})."
        )
    return -found if flipped else found


LEAST_SHARE = 0.01
"""Share of the rows below which a group does not decide the penalty of a correction.  (Measured: docs/solver.md.)"""


def prior_precisions(model: Any) -> Floats:
    """Return one number per parameter: 1 for a weight of a linear model, and for a weight of a network its fan-in.

    Weights of variance 1 / fan-in keep the size of the activations from layer to layer, as in every usual
    initialisation.  Biases have no prior, hence 0.
    """
    if isinstance(model, LinearModel):
        return np.repeat([1.0, 0.0], [model.n_inputs * model.n_outputs, model.n_outputs])
    tensors = [each for each in model.parameters() if each.requires_grad]
    network = sum(each.ndim > 1 for each in tensors) > 1
    fans = [each.numel() // each.shape[0] if each.ndim > 1 else 0 for each in tensors]
    sizes = [float(fan if network else min(fan, 1)) for fan in fans]
    return np.repeat(sizes, [each.numel() for each in tensors])


def penalties(
    l2: float | str,
    model: Any,
    n_inputs: int,
    base: BaseScores | None,
    constraints: Sequence[Constraint],
    cells: Cells,
) -> list[L2 | LinearTerm]:
    """Return the penalty of the parameters.  With a base it is on the correction only; add the term of a given base.

    The automatic weight is 1 / n: mean loss + ½‖w‖²/n, times n, is the negative log-posterior of n rows if each
    coefficient is normal with standard deviation 1 a priori, as in scikit-learn's LogisticRegression.  A correction
    must be reliable for the smallest group, so there n is the number of rows of that group; but at least 1% of all
    rows, or a group of thirty rows would hold back the correction of all.

    Rows count by their weight.
    """
    if base is None and l2 == "auto":
        return [L2(cells.row_weight / float(cells.totals.sum()), prior_precisions(model))]
    if base is None:
        return [L2(float(l2))] if l2 else []
    rows = float(cells.totals.sum()) / cells.row_weight
    weight = 1.0 / max(smallest_sample(constraints, cells), LEAST_SHARE * rows) if l2 == "auto" else float(l2)
    if not weight:
        return [*base.held]
    return [L2(weight, correction_weights(model, n_inputs - base.n_others)), *base.held]


def pose(
    params: Parameters,
    model: Any,
    constraints: Sequence[Constraint],
    cells: Cells,
    base: BaseScores | None,
    n_inputs: int,
    *,
    loss: Any = None,
    **options: Any,
) -> TrainingProblem:
    """Return the problem of training a model under limits, with its penalties; `loss` replaces the stated function."""
    stated = params.loss
    return TrainingProblem(
        on_device(model, params.training.device),
        stated.function if loss is None else loss,
        constraints,
        cells,
        regularizers=[
            *penalties(stated.l2, model, n_inputs, base, constraints, cells),
            *as_regularizers(stated.regularizers),
        ],
        **options,
    )
