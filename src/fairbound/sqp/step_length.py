"""Rules for the length of a step along d (paper, Algorithm 1, line "Set α_k based on β_k and τ_k").

    fixed      α = β, the learning rate (what the paper's experiments ran)
    adaptive   α = β Δq / ((τL + Γ)‖d‖²), projected on [α_min, α_min + θβ²] with α_min = βξτ / (τL + Γ), and at most 1

The adaptive rule is that of Berahas, Curtis, Robinson and Zhou (SIAM J. Optim. 31(2), 2021): Δq is the reduction of
the model of the merit function, τ the merit parameter, ξ the ratio parameter.  L and Γ estimate the curvature of the
objective and of the constraints along the step, u = d/‖d‖:

    L = |uᵀ(g(w + hu) − g(w))| / h,     Γ = Σ_j |uᵀ(∇c_j(w + hu) − ∇c_j(w))| / h

Both evaluations use the same batch.  With different batches, the difference would mostly be noise, divided by a small
h. The norm of the whole difference, in place of its part along u, would be an upper bound, but far too large:
surrogates have kinks with a width of 1e-4, in other directions than the step.  For the same reason h is not tiny: it is
as long as a usual step, but no longer than d.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from fairbound.sqp.problem import Array, Evaluation

_FLOOR = 1e-12  # least Lipschitz estimate; that of a linear function is 0, and we divide by it


@dataclass(frozen=True)
class StepModel:
    """Input of a rule: learning rate β, merit parameter τ, ratio parameter ξ, model reduction Δq, and ‖d‖."""

    learning_rate: float
    merit_parameter: float
    ratio_parameter: float
    model_decrease: float
    step_norm: float


class StepLength(ABC):
    """Base class of the rules for the step length."""

    def displacement(self, iteration: int) -> float:  # noqa: ARG002  (rules without estimates never ask)
        """Return the distance h of a second evaluation in this iteration, or 0 if none is needed."""
        return 0.0

    def observe(self, here: Evaluation, there: Evaluation, change: Array) -> None:  # noqa: B027
        """Update the estimates of the rule from evaluations of one batch at w and at w + `change`; by default, none."""

    @abstractmethod
    def choose(self, model: StepModel) -> float:
        """Return the step length α."""


class FixedStep(StepLength):
    """α = β, the learning rate.

    Examples
    --------
    >>> FixedStep().choose(StepModel(0.5, 1.0, 1.0, 1.0, 1.0))
    0.5
    """

    def choose(self, model: StepModel) -> float:
        """Return the learning rate."""
        return model.learning_rate


class AdaptiveStep(StepLength):
    """α from the reduction of the merit model and Lipschitz estimates, at most 1.

    Parameters
    ----------
    every : int
        Iterations between two estimates of L and Γ; each costs one more evaluation.
    displacement : float
        Largest distance h of the second point; it is never further away than ‖d‖.
    width : float
        θ of the projection interval.

    Examples
    --------
    >>> rule = AdaptiveStep()
    >>> rule.lipschitz_objective, rule.lipschitz_constraints = 3.0, 1.0
    >>> rule.choose(StepModel(1.0, 1.0, 0.1, model_decrease=2.0, step_norm=1.0))
    0.5
    """

    def __init__(self, every: int = 10, displacement: float = 0.1, width: float = 1e4) -> None:
        if not (isinstance(every, int) and every >= 1):
            raise ValueError(f"AdaptiveStep(every={every!r}): must be a whole number of at least 1.")
        for name, value in (("displacement", displacement), ("width", width)):
            if not 0.0 < value < math.inf:
                raise ValueError(f"AdaptiveStep({name}={value!r}): must be a finite number above 0.")
        self.every = every
        self.width = width
        self._displacement = displacement
        self.lipschitz_objective = _FLOOR
        self.lipschitz_constraints = _FLOOR

    def displacement(self, iteration: int) -> float:
        """Return h in every `every`-th iteration, else 0."""
        return self._displacement if iteration % self.every == 0 else 0.0

    def observe(self, here: Evaluation, there: Evaluation, change: Array) -> None:
        """Estimate L and Γ from the points w and w + `change`."""
        distance = float(np.linalg.norm(change))
        if not distance > 0.0:
            return
        along = change / distance
        curvature = float((there.g - here.g) @ along)
        bending = there.J.product(along) - here.J.product(along)
        self.lipschitz_objective = max(abs(curvature) / distance, _FLOOR)
        self.lipschitz_constraints = max(float(np.abs(bending).sum()) / distance, _FLOOR)

    def choose(self, model: StepModel) -> float:
        """Return the projected step length; 1 for a zero step, and 0 if the model predicts no decrease."""
        if model.step_norm == 0.0:
            return 1.0
        if model.model_decrease <= 0.0:
            return 0.0
        beta = model.learning_rate
        curvature = model.merit_parameter * self.lipschitz_objective + self.lipschitz_constraints
        # If L and Γ are Lipschitz constants and α ≤ 1, the merit function changes by at most −α Δq + ½ α² (τL + Γ)‖d‖².
        # This bound is least at α = Δq / ((τL + Γ)‖d‖²).  The learning rate β scales that length.
        wanted = beta * model.model_decrease / (curvature * model.step_norm**2)
        # ξ ≤ Δq / (τ‖d‖²), so this is at most `wanted` (unless ξ is at its floor).
        least = beta * model.ratio_parameter * model.merit_parameter / curvature
        return min(1.0, max(least, min(wanted, least + self.width * beta**2)))
