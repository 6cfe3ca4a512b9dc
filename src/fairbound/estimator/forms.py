"""The inputs of a correction, chosen by cross-validation under the limits: `correction="best"`.

Each form is fitted five times, without a fifth of the rows, which it then decides.  Forms miss the limits there by
different amounts.  So they are compared where the line from the base to the corrected decisions meets the limits:

    value = a + (a₀ − a) · s / (s − s₀)          a: accuracy, s: worst excess over a limit; a₀, s₀ those of the base

The first form is taken whose value is within one standard error of the best one, so the columns alone are preferred to
estimates of the group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairbound.estimator.base_result import FormResult
from fairbound.estimator.correction import penalties
from fairbound.estimator.models import starting_linear
from fairbound.estimator.unseen import Outlook
from fairbound.fairness import Cells, Constraint, ConstraintSystem, Quota, decide
from fairbound.training import Passes, TrainingProblem, probability_at

if TYPE_CHECKING:
    from fairbound.estimator.parameters import Parameters
    from fairbound.estimator.scores import BaseScores

Floats = NDArray[np.float64]

FORMS = ("columns", "groups", "both")
"""The values of `correction=`, the simplest first."""


def choose_form(
    params: Parameters,
    base: BaseScores,
    Z: Any,
    cells: Cells,
    constraints: Sequence[Constraint],
    weights: Floats,
    quota: Quota | None = None,
    *,
    passes: Passes,
) -> BaseScores:
    """Return the base with the inputs that do best on rows left out, and with the record of all forms.

    Parameters
    ----------
    params : Parameters
    base : BaseScores
        With estimates of the group.
    Z : array of shape (n, columns)
        The encoded columns.
    cells : Cells
    constraints : sequence of Constraint
    weights : array of shape (n,)
        The weights of the rows in the loss; with an objective, their stakes.
    quota : Quota, optional
        Sets the threshold.
    passes : Passes
    """
    effort = replace(params.training, epochs=0)
    n_scores, threshold = base.training.shape[1], float(params.threshold)
    forms, records, rights = [base.with_inputs(form) for form in FORMS], [], []
    targets = cells.labels if cells.targets is None else cells.targets
    for name, each in zip(FORMS, forms, strict=True):
        inputs = each.join(Z)
        model = starting_linear(inputs.shape[1], cells.n_labels, n_scores)
        penalty = penalties(params.loss.l2, model, inputs.shape[1], each, constraints, cells)
        shared: dict[str, Any] = {"regularizers": penalty, "passes": passes}
        posed = partial(TrainingProblem, model, params.loss.function, constraints, cells, **shared)
        problem, limits = posed(threshold=threshold), tuple(constraints)
        if quota is not None:  # the model is still the base alone
            problem = posed(threshold=probability_at(problem, inputs, quota.share))
            limits += (quota,)
        outlook = Outlook(problem, inputs, weights, problem.current(), effort=effort)
        decided = outlook.left_out(outlook.series(), [limits])[0]
        alone, found = (
            _judge(chosen, problem.system, targets, weights)
            for chosen in (decide(base.training, problem.threshold), decided)
        )
        rights.append(decided == targets)
        value = found.accuracy
        if alone.excess > max(found.excess, 0.0):  # else no line leads from the base to the limits
            value += (alone.accuracy - value) * found.excess / (found.excess - alone.excess)
        records.append(FormResult(name, found.accuracy, found.measured, value))
    best = int(np.argmax([each.value for each in records]))
    for place, record in enumerate(records):
        differs = rights[best].astype(float) - rights[place]
        squares, weight, rows = cells.total(np.array([weights @ differs**2, weights.sum(), len(weights)])).tolist()
        error = float(np.sqrt(squares / weight / rows))
        if record.value >= records[best].value - error:
            return replace(forms[place], forms=tuple(records))
    raise AssertionError("the best form is within its own standard error")


class _Judged(NamedTuple):
    accuracy: float
    excess: float
    measured: tuple[float, ...]


def _judge(
    decided: NDArray[np.int64], system: ConstraintSystem, targets: NDArray[np.int64], weights: Floats
) -> _Judged:
    """Return the accuracy of decisions, their worst excess over a limit (negative if there is room), and measures."""
    cells = system.cells
    counts = cells.decided(decided)
    smoothed = np.zeros((len(system.surrogates), len(counts), len(cells.outcomes)))  # only decisions are compared
    found = system.judge(smoothed, counts)
    excess = np.maximum(found.exact - system.upper, system.lower - found.exact)
    return _Judged(cells.share(decided == targets, weights), float(excess.max()), tuple(found.measured))
