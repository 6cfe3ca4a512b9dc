"""The training problem as the whole-pass solver sees it: a function of a flat vector, with limits that may be moved.

Limits move for two reasons.  A *ramp* leads from where the model stands to the limit in a number of evaluations, so
that the solver follows a good branch instead of leaping; a *shift* makes up for the gap c̄ − c between what the
surrogate says and what the decisions do.  Every evaluation also tells the exact measures, from the logits it has
anyway: whoever watches sees each point with its assessment.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from fairbound.sqp import Evaluation
from fairbound.training.assessment import Assessment, assess
from fairbound.training.problem import TrainingProblem
from fairbound.training.rows import Rows

Watch = Callable[[Tensor, Assessment], None]


class MovingLimits:
    """A `Problem` over all rows whose limits are ramped and shifted.

    Parameters
    ----------
    problem : TrainingProblem
    rows : Rows
        All rows.
    ramp : int
        Evaluations over which rows that are violated at the first one are tightened to their limits.
    shift : Tensor of shape (m,), optional
        Added to both bounds.
    watch : function of (w, assessment), optional
        Called at every evaluation.
    """

    def __init__(
        self,
        problem: TrainingProblem,
        rows: Rows,
        *,
        ramp: int = 0,
        shift: Tensor | None = None,
        watch: Watch | None = None,
    ) -> None:
        self.problem, self.rows, self.ramp, self.watch = problem, rows, ramp, watch
        moved = torch.zeros_like(problem.system.lower) if shift is None else shift
        self.lower, self.upper = problem.system.lower + moved, problem.system.upper + moved
        self.evaluations, self.value_evaluations = 0, 0
        self.first: Tensor | None = None

    def initial_point(self) -> Tensor:
        """Where the module stands."""
        return self.problem.current()

    def evaluate(self, w: Tensor) -> Evaluation:
        """Values and derivatives at w, with the limits as they are now."""
        self.problem.assign(w)
        evaluation, sweep = self.problem.evaluate_with_sweep(self.rows)
        if self.watch is not None:
            self.watch(w, assess(self.problem, self.rows, sweep, evaluation.f))
        if self.first is None:
            self.first = evaluation.c
        self.evaluations += 1
        left = max(0.0, 1.0 - self.evaluations / self.ramp) if self.ramp else 0.0
        upper = self.upper + left * (self.first - self.upper).clamp(min=0.0)
        lower = self.lower - left * (self.lower - self.first).clamp(min=0.0)
        return Evaluation(evaluation.f, evaluation.g, evaluation.c, evaluation.J, lower, upper)

    def values(self, w: Tensor) -> tuple[float, Tensor]:
        """f and c at w."""
        self.problem.assign(w)
        self.value_evaluations += 1
        return self.problem.values(self.rows)
