"""Rules for the length of a step along d (paper, Algorithm 1, line "Set α_k based on β_k and τ_k"), and for cuts of β.

    fixed      α = β, the learning rate (what the paper's experiments ran)
    adaptive   α = β Δq / ((τL + Γ)‖d‖²), projected on [α_min, α_min + θβ²] with α_min = βξτ / (τL + Γ), and at most 1

The adaptive rule is that of Berahas, Curtis, Robinson and Zhou (SIAM J. Optim. 31(2), 2021): Δq is the reduction of
the model of the merit function, τ the merit parameter, ξ the ratio parameter.  L and Γ estimate the curvature of the
objective and of the constraints along the step, u = d/‖d‖:

    L = |uᵀ(g(w + hu) − g(w))| / h,     Γ = Σ_j |uᵀ(∇c_j(w + hu) − ∇c_j(w))| / h

Both evaluations use the same batch.  With different batches, the difference would be dominated by noise divided by h.
Norms of the whole differences are upper bounds of L and Γ, but far too large: surrogates have kinks of a width of 1e-4,
in other directions than the step.  For the same reason h is as long as a usual step, but no longer than d itself.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from fairbound._words import lookup
from fairbound.sqp.hessian import check_state
from fairbound.sqp.problem import Evaluation

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

    name: ClassVar[str]

    def displacement(self, iteration: int) -> float:  # noqa: ARG002  (rules without estimates never ask)
        """Return the distance h of a second evaluation in this iteration, or 0 if none is needed."""
        return 0.0

    def observe(self, here: Evaluation, there: Evaluation, change: Tensor) -> None:  # noqa: B027
        """Update the estimates from evaluations of one batch at w and at w + `change`; by default there are none."""

    @abstractmethod
    def choose(self, model: StepModel) -> float:
        """Return the step length α."""

    def state_dict(self) -> dict[str, Any]:
        """Return the mutable state as numbers."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that `state_dict` returned."""
        check_state(self, state, "another rule for the step length")


class FixedStep(StepLength):
    """α = β, the learning rate.

    Examples
    --------
    >>> FixedStep().choose(StepModel(0.5, 1.0, 1.0, 1.0, 1.0))
    0.5
    """

    name = "fixed"

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

    name = "adaptive"

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

    def observe(self, here: Evaluation, there: Evaluation, change: Tensor) -> None:
        """Estimate L and Γ from the points w and w + `change`."""
        distance = float(torch.linalg.vector_norm(change))
        if not distance > 0.0:
            return
        along = change / distance
        curvature = float((there.g - here.g) @ along)
        bending = there.J.rows @ (there.J.basis @ along) - here.J.rows @ (here.J.basis @ along)
        self.lipschitz_objective = max(abs(curvature) / distance, _FLOOR)
        self.lipschitz_constraints = max(float(bending.abs().sum()) / distance, _FLOOR)

    def choose(self, model: StepModel) -> float:
        """Return the projected step length; 1 for a zero step, and 0 if the model predicts no decrease."""
        if model.step_norm == 0.0:
            return 1.0
        if model.model_decrease <= 0.0:
            return 0.0
        beta = model.learning_rate
        curvature = model.merit_parameter * self.lipschitz_objective + self.lipschitz_constraints
        wanted = beta * model.model_decrease / (curvature * model.step_norm**2)
        least = beta * model.ratio_parameter * model.merit_parameter / curvature
        return min(1.0, max(least, min(wanted, least + self.width * beta**2)))

    def state_dict(self) -> dict[str, Any]:
        """Return the two estimates."""
        return {
            "lipschitz_objective": self.lipschitz_objective,
            "lipschitz_constraints": self.lipschitz_constraints,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the two estimates."""
        super().load_state_dict(state)
        self.lipschitz_objective = float(state["lipschitz_objective"])
        self.lipschitz_constraints = float(state["lipschitz_constraints"])


STEP_LENGTHS: dict[str, type[StepLength]] = {kind.name: kind for kind in (FixedStep, AdaptiveStep)}


def resolve_step_length(step_length: str | StepLength) -> StepLength:
    """Return a rule from its name in `STEP_LENGTHS`, with default parameters, or the instance itself."""
    if isinstance(step_length, StepLength):
        return step_length
    return lookup(STEP_LENGTHS, step_length, "step length")()


# --- learning rate ---------------------------------------------------------------------------------------------------

# The learning-rate cut of the paper's Algorithm 2 ("Learning Rate Adjustment Strategy").
#
# Let φ_k = τ f(w_k) + v(c(w_k)) be the merit values, and φ̄_k = η φ_k + (1 − η) φ̄_{k−1}, φ̄_0 = φ_0, their moving
# average. An average that does not exceed the current value means that the merit has stopped falling.  Then the
# learning rate is divided by a factor, but not before a minimum number of iterations, and not too soon after the last
# cut:
#
#     if k ≥ warmup and rate ≥ smallest:
#         if φ̄_k ≤ φ_k and since ≥ interval:  rate ← rate / factor,  since ← 0
#         since ← since + 1
#
# The paper uses the same letters for other things; here its δ_k is `since`, its γ is `factor`, and its α is `rate`.


class LearningRateCut:
    """Algorithm 2 of the paper: divide the learning rate when the merit function stops falling.

    Parameters
    ----------
    smallest : float
        A learning rate below this is not cut again.
    warmup : int
        Iterations before the first cut (k_min).
    interval : int
        Iterations between cuts (Δk).
    factor : float
        Divisor of a cut (γ).
    weight : float
        Weight η of the current value in the moving average.
    merit_parameter : float, optional
        τ of the merit value.  None takes the optimiser's own; the paper's experiments fixed it at 0.01.
    count_in_warmup : bool
        Whether iterations before `warmup` count towards `interval`.  The paper's text counts from `warmup` on; the
        program that ran its experiments counted from the start.

    Examples
    --------
    >>> cut = LearningRateCut(warmup=0, interval=0)
    >>> [cut.update(value, 0.0, rate, 1.0) for value, rate in [(1.0, 0.5), (0.5, 0.05), (2.0, 0.05)]]
    [0.05, 0.05, 0.005]
    """

    def __init__(
        self,
        *,
        smallest: float = 1e-7,
        warmup: int = 200,
        interval: int = 5,
        factor: float = 10.0,
        weight: float = 0.85,
        merit_parameter: float | None = None,
        count_in_warmup: bool = False,
    ) -> None:
        for name, number in (("warmup", warmup), ("interval", interval)):
            if not (isinstance(number, int) and number >= 0):
                raise ValueError(f"LearningRateCut({name}={number!r}): must be a whole number of at least 0.")
        if not factor > 1.0:
            raise ValueError(f"LearningRateCut(factor={factor!r}): must be above 1, for example 10.")
        if not 0.0 < weight <= 1.0:
            raise ValueError(f"LearningRateCut(weight={weight!r}): must be above 0 and at most 1, for example 0.85.")
        if not smallest >= 0.0:
            raise ValueError(f"LearningRateCut(smallest={smallest!r}): must be at least 0, for example 1e-7.")
        if merit_parameter is not None and not 0.0 < merit_parameter < math.inf:
            raise ValueError(
                f"LearningRateCut(merit_parameter={merit_parameter!r}): must be a finite number above 0, or None."
            )
        self.smallest = smallest
        self.warmup = warmup
        self.interval = interval
        self.factor = factor
        self.weight = weight
        self.merit_parameter = merit_parameter
        self.count_in_warmup = count_in_warmup
        self._iteration = 0
        self._since = 0
        self._average = math.nan

    def update(self, f: float, violation: float, learning_rate: float, merit_parameter: float) -> float:
        """Return the learning rate of the next iteration.

        Parameters
        ----------
        f, violation : float
            Objective and violation at the point of this iteration.
        learning_rate : float
            Learning rate of this iteration.
        merit_parameter : float
            The optimiser's τ, used unless this object has its own.
        """
        tau = merit_parameter if self.merit_parameter is None else self.merit_parameter
        merit = tau * f + violation
        if self._iteration == 0:
            self._average = merit
        else:
            self._average = self.weight * merit + (1.0 - self.weight) * self._average
        active = self._iteration >= self.warmup and learning_rate >= self.smallest
        if active and self._average <= merit and self._since >= self.interval:
            learning_rate = learning_rate / self.factor
            self._since = 0
        if active or self.count_in_warmup:
            self._since += 1
        self._iteration += 1
        return learning_rate

    def state_dict(self) -> dict[str, Any]:
        """Return the counters and the moving average."""
        return {"iteration": self._iteration, "since": self._since, "average": self._average}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that `state_dict` returned."""
        self._iteration = int(state["iteration"])
        self._since = int(state["since"])
        self._average = float(state["average"])
