"""The training problem as the whole-pass solver sees it: a function of a flat vector.

Four choices beside the plain problem, all from the one sweep over the rows that is made anyway:

exact values     The solver is given c̄, the exact measures of the decisions, with the *slopes* of the surrogate.  c̄
                 moves in steps of one row, far below those of the solver, so it is steered to the limit itself: there
                 is no gap between surrogate and truth left to correct, in either direction.
error objective  The smoothed share of wrong decisions is linear in the cell sums S,
                 Σ_k (N_k − S_k)[label 1] + S_k[label 0], so its gradient is a combination of the ∇S at hand.
loss limit       With that objective, the loss becomes one more row: loss ≤ limit, so that probabilities keep their
                 meaning.
anchor           The objective ½·NEARNESS·‖w − anchor‖² in place of the loss: the nearest point within the limits,
                 where nothing pulls out of them.

Whoever watches sees each point with its assessment.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from fairbound.fairness import Step
from fairbound.sqp import Evaluation, Jacobian
from fairbound.training.assessment import Assessment, assess
from fairbound.training.problem import TrainingProblem
from fairbound.training.rows import Rows
from fairbound.training.sweep import Sweep

Watch = Callable[[Tensor, Assessment], None]

NEARNESS = 1e-4
"""Weight of the distance from an anchor: a move by 1 counts as a violation of half of this, next to nothing."""


@dataclass
class WholePass:
    """A `Problem` over all rows.

    Parameters
    ----------
    problem : TrainingProblem
    rows : Rows
        All rows.
    exact : bool
        Give the solver c̄ for c.
    margin : float or Tensor of shape (m,)
        How far inside its bounds each row is aimed at; half a row's weight makes up for the steps of c̄.
    error : Step, optional
        Minimise the share of wrong decisions, smoothed by this step, in place of the loss.
    loss_limit : float, optional
        With `error`: the largest objective (loss and regularisers) allowed.
    anchor : Tensor, optional
        Minimise the distance from this point in place of the loss.
    watch : function of (w, assessment), optional
        Called at every evaluation.
    """

    problem: TrainingProblem
    rows: Rows
    exact: bool = False
    margin: Tensor | float = 0.0
    error: Step | None = None
    loss_limit: float | None = None
    anchor: Tensor | None = None
    watch: Watch | None = None
    evaluations: int = field(default=0, init=False)
    value_evaluations: int = field(default=0, init=False)
    last: Assessment | None = field(default=None, init=False, repr=False)
    last_error: float | None = field(default=None, init=False)

    def initial_point(self) -> Tensor:
        """Where the module stands."""
        return self.problem.current()

    def evaluate(self, w: Tensor) -> Evaluation:
        """Values and derivatives at w."""
        self.evaluations += 1
        self.problem.assign(w)
        plain, sweep = self.problem.evaluate_with_sweep(self.rows)
        self.last = found = assess(self.problem, self.rows, sweep, plain.f)
        if self.watch is not None:
            self.watch(w, found)
        lower, upper = self.problem.system.lower + self.margin, self.problem.system.upper - self.margin
        # Equal or nearly equal bounds have no inside to aim at.
        lower, upper = torch.minimum(lower, 0.5 * (lower + upper)), torch.maximum(upper, 0.5 * (lower + upper))
        c, J = (found.exact if self.exact else plain.c), plain.J
        if self.anchor is not None:
            return Evaluation(self._distance(w), NEARNESS * (w - self.anchor), c, J, lower, upper)
        if self.error is None:
            return Evaluation(plain.f, plain.g, c, J, lower, upper)
        f, g = self._error(sweep)
        self.last_error = f
        if self.loss_limit is None:
            return Evaluation(f, g, c, J, lower, upper)
        rows = torch.block_diag(J.rows, torch.ones(1, 1, dtype=torch.float64))
        return Evaluation(
            f,
            g,
            torch.cat([c, c.new_tensor([plain.f])]),
            Jacobian(rows, torch.cat([J.basis, plain.g[None]])),
            torch.cat([lower, lower.new_tensor([-torch.inf])]),
            torch.cat([upper, upper.new_tensor([self.loss_limit])]),
        )

    def values(self, w: Tensor) -> tuple[float, Tensor]:
        """f and c at w, without derivatives."""
        self.value_evaluations += 1
        self.problem.assign(w)
        sweep = self.problem.sweep(self.rows, gradients=False)
        value, _ = self.problem.regularize(self.rows, sweep)
        objective = sweep.loss + value
        found = assess(self.problem, self.rows, sweep, objective)
        c = found.exact if self.exact else found.surrogate
        if self.anchor is not None:
            return self._distance(w), c
        if self.error is None:
            return objective, c
        if self.loss_limit is not None:
            c = torch.cat([c, c.new_tensor([objective])])
        return self._error(sweep)[0], c

    def seen(self) -> dict[str, Any]:
        """What the last point evaluated does, in the columns of a history, whatever is minimised here.

        Without limits there is no violation.
        """
        found = self.last
        assert found is not None, "asked after an evaluation"
        limited = self.problem.system.n_rows > 0
        return {
            "loss": found.loss,
            "error": self.last_error,
            "accuracy": found.accuracy,
            "surrogate_violation": found.surrogate_violation if limited else None,
            "exact_violation": found.exact_violation if limited else None,
            "kept": found.kept if limited else None,
        }

    def _distance(self, w: Tensor) -> float:
        assert self.anchor is not None
        return 0.5 * NEARNESS * float((w - self.anchor).square().sum())

    def _error(self, sweep: Sweep) -> tuple[float, Tensor]:
        """Smoothed share of wrong decisions and its gradient, from the cell sums."""
        assert self.error is not None
        cells, position = self.problem.cells, self.problem.steps.index(self.error)
        labels = self.rows.cell_of_segment % cells.n_labels
        wrong = torch.zeros(len(labels), len(cells.outcomes), dtype=torch.float64)
        if cells.n_labels == 2:
            wrong[:, 0] = 1.0 - 2.0 * labels
            always = float(cells.totals[1::2].sum())
        else:
            wrong[torch.arange(len(labels)), labels] = -1.0
            always = float(cells.totals.sum())
        total = float(cells.totals.sum())
        value = (always + float((wrong * sweep.sums[position]).sum())) / total
        if sweep.sum_gradients is None:
            return value, torch.zeros(0, dtype=torch.float64)
        return value, torch.einsum("qo,qon->n", wrong, sweep.sum_gradients[position]) / total
