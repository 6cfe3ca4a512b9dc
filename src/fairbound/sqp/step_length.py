"""Rules for the length of a step along d (paper, Algorithm 1, line "Set α_k based on β_k and τ_k"), and a line search.

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
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from fairbound._words import lookup
from fairbound.sqp.hessian import check_state
from fairbound.sqp.problem import Evaluation, violation
from fairbound.sqp.qp import QPSolution, solve_with_core
from fairbound.sqp.reduced_qp import Core

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
        """Update the estimates of the rule from evaluations of one batch at w and at w + `change`; by default, none."""

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
        # If L and Γ are Lipschitz constants and α ≤ 1, the merit function changes by at most −α Δq + ½ α² (τL + Γ)‖d‖².
        # This bound is least at α = Δq / ((τL + Γ)‖d‖²).  The learning rate β scales that length.
        wanted = beta * model.model_decrease / (curvature * model.step_norm**2)
        # ξ ≤ Δq / (τ‖d‖²), so this is at most `wanted` (unless ξ is at its floor).
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


# --- line search -----------------------------------------------------------------------------------------------------

# Backtracking on the ℓ1 merit function φ(w) = f(w) + ρ·v(c(w)), with a second-order correction.
#
# For a step d of the elastic QP, D = gᵀd − ρ(v(c) − v(c + Jd)) bounds the slope of φ along d from above, because v is
# convex. It is negative: D ≤ −dᵀHd, by the identity in `fairbound.sqp.qp` and |y| ≤ ρ. A length α is accepted if
#
#     φ(w + αd) ≤ φ(w) + η α D.
#
# Near a solution, the curvature of the constraints can make the full step fail this test (the Maratos effect). The
# second-order correction repairs that. From the trial point w + d, a further change d̂ − d gives, to first order,
#
#     c(w + d̂) ≈ c(w + d) + J(d̂ − d) = [c(w + d) − Jd] + Jd̂.
#
# So d̂ solves the same QP with c(w + d) − Jd in place of c, and the same H and J. If α = 1 fails, d̂ is tried at full
# length. If that fails too, the search continues along the arc w + αd + α²(d̂ − d), which starts in direction d.
#
# The search uses f and c, but no derivatives.


Values = Callable[[Tensor], tuple[float, Tensor]]


@dataclass(frozen=True)
class SearchResult:
    """Result of a search: the change of w, the length α, and whether the change includes the correction.

    If no length gave a sufficient decrease, `accepted` is False and the change is zero.
    """

    change: Tensor
    length: float
    corrected: bool
    accepted: bool

    @property
    def is_full_step(self) -> bool:
        """Return whether the first trial, the full step d without correction, was accepted."""
        return self.accepted and self.length == 1.0 and not self.corrected


@dataclass(frozen=True)
class LineSearch:
    """Constants of the line search.

    Parameters
    ----------
    sufficient : float
        η, the share of the predicted decrease that a step must reach.
    shortest : float
        Smallest length tried.
    rounding : float
        Relative accuracy of the merit values; an increase below it does not reject a step.
    correct : bool
        Whether to try the second-order correction.
    """

    sufficient: float = 1e-4
    shortest: float = 1e-10
    rounding: float = 1e-14
    correct: bool = True

    def __post_init__(self) -> None:
        for name in ("sufficient", "shortest", "rounding"):
            if not 0.0 < getattr(self, name) < 1.0:
                raise ValueError(f"LineSearch({name}={getattr(self, name)!r}): must be between 0 and 1.")

    def search(
        self,
        values: Values,
        w: Tensor,
        here: Evaluation,
        core: Core,
        solution: QPSolution,
        *,
        first: Values | None = None,
    ) -> SearchResult:
        """Search along the step of `solution`.

        Parameters
        ----------
        values : function of a point
            Returns f and c.
        w : Tensor of shape (n,)
        here : Evaluation
            At w.
        core : Core
            That of the QP.
        solution : QPSolution
        first : function of a point, optional
            Replaces `values` at w + d, the first trial.
        """
        return _Search(self, values, w, here, solution.penalty).run(core, solution, first or values)


class _Search:
    """One line search, with the merit value at its start."""

    def __init__(self, constants: LineSearch, values: Values, w: Tensor, here: Evaluation, penalty: float) -> None:
        self.constants, self.values, self.w, self.here, self.penalty = constants, values, w, here, penalty
        self.start = here.f + penalty * here.violation
        size = abs(here.f) + penalty * float(here.c.abs().sum())
        self.rounding = constants.rounding * max(size, abs(self.start))

    def merit(self, change: Tensor, values: Values) -> tuple[float, Tensor]:
        """Return φ and c at w + change; φ is inf if it is not finite."""
        f, c = values(self.w + change)
        value = f + self.penalty * violation(c, self.here.lower, self.here.upper)
        return (value if math.isfinite(value) else math.inf), c

    def run(self, core: Core, solution: QPSolution, first: Values) -> SearchResult:
        d = solution.d
        slope = solution.slope - self.penalty * (self.here.violation - solution.violation)
        slope = min(slope, 0.0)
        value, c = self.merit(d, first)
        if self._decreases_enough(value, 1.0, slope):
            return self._result(d, 1.0, corrected=False)
        correction = torch.zeros_like(d)
        if self.constants.correct and c.numel() and math.isfinite(value) and bool(torch.isfinite(c).all()):
            correction = self._correction(core, c, d)
            if bool(correction.any()):
                corrected_value, _ = self.merit(d + correction, self.values)
                if self._decreases_enough(corrected_value, 1.0, slope):
                    return self._result(d + correction, 1.0, corrected=True)
                value = min(value, corrected_value)
        length = _shorter(1.0, self.start, slope, value)
        while length >= self.constants.shortest:
            change = length * d + length**2 * correction
            value, _ = self.merit(change, self.values)
            if self._decreases_enough(value, length, slope):
                return self._result(change, length, corrected=bool(correction.any()))
            length = _shorter(length, self.start, slope, value)
        return SearchResult(torch.zeros_like(d), 0.0, corrected=False, accepted=False)

    def _decreases_enough(self, value: float, length: float, slope: float) -> bool:
        return value <= self.start + self.constants.sufficient * length * slope + self.rounding

    def _correction(self, core: Core, c: Tensor, d: Tensor) -> Tensor:
        """Return d̂ − d of the second-order correction, or zero if it is longer than d: then it is not a correction."""
        shifted = c - self.here.J.product(d)
        corrected = solve_with_core(core, self.here.g, shifted, self.here.lower, self.here.upper, penalty=self.penalty)
        correction = corrected.d - d
        if float(torch.linalg.vector_norm(correction)) > float(torch.linalg.vector_norm(d)):
            return torch.zeros_like(d)
        return correction

    def _result(self, change: Tensor, length: float, *, corrected: bool) -> SearchResult:
        return SearchResult(change, length, corrected, accepted=True)


def _shorter(length: float, start: float, slope: float, value: float) -> float:
    """Return the next length to try, between 0.1 and 0.5 of the last one.

    The merit along the step is modelled by a parabola.  It has the merit's value and slope at 0 and its value at the
    last trial: start + slope·α + (bend/length²)·α².  The minimum is at −slope·length²/(2·bend).
    """
    if not math.isfinite(value):
        return 0.1 * length
    bend = value - start - slope * length
    wanted = -slope * length**2 / (2.0 * bend) if bend > 0.0 else 0.5 * length
    return min(max(wanted, 0.1 * length), 0.5 * length)
