"""The training problem on all rows, as a `Problem` for `QuasiNewtonSQP`; and the scales of its surrogates.

Options change the objective or the constraints.  None of them needs more than the one sweep over the rows:

exact values     The solver gets the values c̄ of the decisions, but the *derivatives* of the surrogate.  c̄ jumps by one
                 row at a time, which is small compared with a step of the solver.  So the solver reaches the limit
                 itself, and there is no gap between surrogate and exact measure to correct afterwards.
error objective  Minimise the smoothed share of wrong decisions.  It is linear in the cell sums S,
                 Σ_k (N_k − S_k)[label 1] + S_k[label 0], so its gradient is a combination of the ∇S already computed.
loss limit       With the error objective, add the constraint loss ≤ limit, so that probabilities stay meaningful.
anchor           Minimise ½·NEARNESS·‖w − anchor‖² instead of the loss, to find the nearest point within the limits.

`watch` is called at every evaluation with derivatives.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from fairbound.fairness import ConstraintSystem, DecisionSurrogate
from fairbound.sqp import Evaluation, Jacobian
from fairbound.training.assessment import Assessment, assess, history_columns
from fairbound.training.passes import Slices
from fairbound.training.problem import TrainingProblem
from fairbound.training.rows import MatrixRows, Rows
from fairbound.training.sweep import Sweep, ordered_values

Watch = Callable[[Tensor, Assessment], None]

NEARNESS = 1e-4
"""Weight of the squared distance from an anchor.  It is tiny, so that the solver never prefers nearness to a limit."""


@dataclass
class WholePassProblem:
    """A `Problem` on all rows.

    Parameters
    ----------
    problem : TrainingProblem
    rows : Rows
        All rows.
    exact : bool
        Whether the solver gets c̄ instead of c.
    margin : float or Tensor of shape (m,)
        Distance by which each bound is tightened.  Half the weight of a row makes up for the jumps of c̄.
    error : DecisionSurrogate, optional
        Minimise the share of wrong decisions, smoothed by this surrogate, instead of the loss.
    loss_limit : float, optional
        With `error`: the largest allowed objective (loss and regularisers).
    anchor : Tensor, optional
        Minimise the distance from this point instead of the loss.
    watch : function of (w, assessment), optional
        Called at every evaluation with derivatives.
    judged_by : ConstraintSystem, optional
        The limits by which models are assessed.  They are the first ones of `problem`, which may have more for a while.
    """

    problem: TrainingProblem
    rows: Rows
    exact: bool = False
    margin: Tensor | float = 0.0
    error: DecisionSurrogate | None = None
    loss_limit: float | None = None
    anchor: Tensor | None = None
    watch: Watch | None = None
    judged_by: ConstraintSystem | None = None
    evaluations: int = field(default=0, init=False)
    value_evaluations: int = field(default=0, init=False)
    # The last two points and their assessments: a solver evaluates the next point before it records the present one.
    _found: deque[tuple[Tensor, Assessment, float | None]] = field(
        default_factory=lambda: deque(maxlen=2), init=False, repr=False
    )

    def initial_point(self) -> Tensor:
        """Return the current parameters of the module."""
        return self.problem.current()

    def evaluate(self, w: Tensor) -> Evaluation:
        """Return values and derivatives at w."""
        self.evaluations += 1
        self.problem.assign(w)
        plain, sweep = self.problem.evaluate_with_sweep(self.rows)
        found = assess(self.problem, self.rows, sweep, plain.f)
        error, error_gradient = (None, None) if self.error is None else self._error(sweep)
        judged = found if self.judged_by is None else found.under(self.judged_by)
        self._found.append((w, judged, error))
        if self.watch is not None:
            self.watch(w, judged)
        lower, upper = self.problem.system.lower + self.margin, self.problem.system.upper - self.margin
        # If the margin is more than half of the interval, both bounds move to its midpoint and do not cross.
        lower, upper = torch.minimum(lower, 0.5 * (lower + upper)), torch.maximum(upper, 0.5 * (lower + upper))
        c, J = (found.exact if self.exact else plain.c), plain.J
        if self.anchor is not None:
            return Evaluation(self._distance(w), NEARNESS * (w - self.anchor), c, J, lower, upper)
        if error is None or error_gradient is None:
            return Evaluation(plain.f, plain.g, c, J, lower, upper)
        if self.loss_limit is None:
            return Evaluation(error, error_gradient, c, J, lower, upper)
        rows = torch.block_diag(J.rows, torch.ones(1, 1, dtype=torch.float64))
        return Evaluation(
            error,
            error_gradient,
            torch.cat([c, c.new_tensor([plain.f])]),
            Jacobian(rows, torch.cat([J.basis, plain.g[None]])),
            torch.cat([lower, lower.new_tensor([-torch.inf])]),
            torch.cat([upper, upper.new_tensor([self.loss_limit])]),
        )

    def values(self, w: Tensor) -> tuple[float, Tensor]:
        """Return f and c at w, without derivatives."""
        self.value_evaluations += 1
        self.problem.assign(w)
        sweep = self.problem.sweep(self.rows, gradients=False)
        value, _ = self.problem.regularize(self.rows, sweep)
        objective = sweep.loss + value
        c = self.problem.constraint_values(self.rows, sweep, exact=self.exact)
        if self.anchor is not None:
            return self._distance(w), c
        if self.error is None:
            return objective, c
        if self.loss_limit is not None:
            c = torch.cat([c, c.new_tensor([objective])])
        return self._error(sweep)[0], c

    def history_columns(self, w: Tensor, multipliers: Tensor) -> dict[str, Any]:
        """Return the columns of the history at w, which must be one of the last two points evaluated."""
        found, error = next((found, error) for point, found, error in self._found if torch.equal(point, w))
        return {"error": error, **history_columns(found, multipliers)}

    def _distance(self, w: Tensor) -> float:
        assert self.anchor is not None
        return 0.5 * NEARNESS * float((w - self.anchor).square().sum())

    def _error(self, sweep: Sweep) -> tuple[float, Tensor]:
        """Return the smoothed share of wrong decisions and its gradient, from the cell sums.

        It is (offset + Σ wrong · S) / total.  With two classes S_k is the smoothed number of rows decided positive: a
        row of label 0 is wrong if decided positive (+S), one of label 1 if not (N − S).  With more classes, S_ko is the
        number of rows decided for class o, and N − S_k,label rows are wrong.
        """
        assert self.error is not None
        cells, position = self.problem.cells, self.problem.surrogates.index(self.error)
        labels = self.rows.cell_of_segment % cells.n_labels
        wrong = torch.zeros(len(labels), len(cells.outcomes), dtype=torch.float64)
        if cells.n_labels == 2:
            wrong[:, 0] = 1.0 - 2.0 * labels
            offset = float(cells.totals[1::2].sum())
        else:
            wrong[torch.arange(len(labels)), labels] = -1.0
            offset = float(cells.totals.sum())
        total = float(cells.totals.sum())
        value = (offset + float((wrong * sweep.sums[position]).sum())) / total
        if sweep.sum_gradients is None:
            return value, torch.zeros(0, dtype=torch.float64)
        return value, torch.einsum("qo,qon->n", wrong, sweep.sum_gradients[position]) / total


def half_row_margin(problem: TrainingProblem) -> Tensor:
    """Return half of the change that the decision of the lightest row can make in each constraint value of c̄."""
    return 0.5 * problem.system.change_by_a_row


# --- scales ----------------------------------------------------------------------------------------------------------

# The homotopy in the scale of the surrogates: from a small scale, where many rows have a slope, to the full scale.
#
# A surrogate φ(scale · t) has a slope only on a band of margins t of width about 1/scale.  With few rows, or a model
# whose probabilities are near 0 and 1, almost no row lies in the band at full scale.  Then the Jacobian is noise from
# a few rows.  So the first scale is chosen from the margins of the free model, such that half of the rows of every
# cell lie in the band.  It is then increased step by step, each solve started from the last solution.


BAND_SHARE = 0.5
"""Share of the rows of every cell that lie in the band at the first scale."""

SMALLEST_FIRST_FRACTION = 0.02
"""Least fraction of the full scale to start with.  At a full scale of 50 the band then holds all probabilities."""


def scale_fractions(first: float, sharpening: float) -> list[float]:
    """Return fractions of the full scale from `first` to 1, each at most `sharpening` times the last.

    >>> [round(fraction, 3) for fraction in scale_fractions(0.1, 2.5)]
    [0.1, 0.215, 0.464, 1.0]
    """
    if first >= 1.0:
        return [1.0]
    count = math.ceil(math.log(1.0 / first) / math.log(sharpening) - 1e-9)
    return [first ** (1.0 - position / count) for position in range(count + 1)]


def band_fraction(problem: TrainingProblem, rows: Rows, count: float = math.inf) -> float:
    """Return the fraction of the full scale at which enough rows of every cell lie in the band of each surrogate.

    Enough means `count` rows, or half of the cell if that is less.  A surrogate has a slope where |scale · t| ≤ ½.  So
    the margins |t| ≤ width lie in the band if scale = ½ / width.
    """
    places = [max(int(min(count, BAND_SHARE * size)), 1) for size in rows.sizes]
    fraction = 1.0
    for each in problem.system.surrogates:
        if each.surrogate.bounded:
            find = partial(_widths, problem, rows, each, places)
            width = float(problem.recorded(rows, find, "widths", each, places).max())
            if width > 0.0:
                fraction = min(fraction, 0.5 / (width * each.surrogate.scale))
    return max(fraction, SMALLEST_FIRST_FRACTION)


def _widths(problem: TrainingProblem, rows: Rows, surrogate: DecisionSurrogate, places: Sequence[int]) -> Tensor:
    """Return from each segment the distance from a change of the decision that has a given place."""
    passes: Callable[[], Iterable[tuple[Tensor, Slices]]] = partial(problem.distances, rows, surrogate)
    if isinstance(rows, MatrixRows):  # their inputs are in memory, so there is room for a number for each row
        distances = list(passes())
        passes = lambda: distances  # noqa: E731
    return ordered_values(passes, places, problem.passes.sum)


def at_scale(problem: TrainingProblem, fraction: float, *extra_surrogates: DecisionSurrogate) -> TrainingProblem:
    """Return the problem with its bounded surrogates at a fraction of their scale, and with further surrogates."""
    if fraction == 1.0 and not extra_surrogates:
        return problem
    system = problem.system if fraction == 1.0 else problem.system.rescaled(fraction)
    return problem.with_system(system, extra_surrogates)
