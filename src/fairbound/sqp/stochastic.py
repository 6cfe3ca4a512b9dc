"""`StochasticSQP`: the paper's Algorithms 1 and 2 as a `torch.optim.Optimizer`.

One iteration at w_k uses one evaluation (f, g, c, J), whose f and g may be stochastic:

    1. choose H_k                                                   `hessian`
    2. solve the elastic QP for d and y; raise ρ if necessary       `qp`
    3. update merit parameter τ, model reduction Δq, ratio ξ        `problem`
    4. choose the step length α from β, τ, ξ, Δq                    `step_length`
    5. w_{k+1} = w_k + α d
    6. cut the learning rate β if the merit stops falling           see below

The convergence theory assumes deterministic *constraints*: evaluate them on all rows, or on a fixed subset.  It does
not cover constraints that are evaluated on changing batches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from fairbound.sqp.hessian import ExponentialAverage, Hessian, resolve_hessian
from fairbound.sqp.problem import Evaluation, lowered, model_reduction, trial_merit_parameter, trial_ratio_parameter
from fairbound.sqp.qp import QPSolution, Steering, steered_step
from fairbound.sqp.solution import StepRecord, kkt_residuals
from fairbound.sqp.step_length import FixedStep, StepLength, StepModel, resolve_step_length


class StochasticSQP(torch.optim.Optimizer):
    """Stochastic sequential quadratic programming.

    Parameters
    ----------
    params : iterable of Tensor
        Parameters, float32 or float64, in one group.
    lr : float
        β: the step length of the rule "fixed", a factor of the step length of "adaptive".
    hessian : str or Hessian, optional
        H of the QP: "identity", "adagrad", "exponential" or an instance.  By default `ExponentialAverage(damping=1.0,
        corrected=True)`.  Where gradients are small, it is close to the identity, which suits a mean loss.  Where they
        are large, it is close to their root mean square.
    step_length : str or StepLength
        "adaptive", "fixed" or an instance.
    learning_rate_cut : LearningRateCut, optional
        Algorithm 2 of the paper; None leaves the learning rate to the caller and to torch's schedulers.
    penalty : float
        Initial ρ.
    steering : Steering, optional
        Constants of the rule that raises ρ.
    merit_parameter, ratio_parameter : float
        Initial τ and ξ.
    sigma : float
        Share of the reduction of the violation that the model reduction must contain, in (0, 1).
    decrease : float
        When τ or ξ falls, it falls by at least this fraction.

    Examples
    --------
    Minimise (w − 2)² subject to w ≤ 1.

    >>> w = torch.zeros(1, dtype=torch.float64)
    >>> def closure():
    ...     f, g = float((w - 2) ** 2), 2 * (w - 2)
    ...     return Evaluation(f, g, c=w, J=torch.ones(1, 1), lower=-w.new_ones(1) * torch.inf, upper=w.new_ones(1))
    >>> optimizer = StochasticSQP([w])
    >>> records = [optimizer.step(closure) for _ in range(20)]
    >>> w
    tensor([1.], dtype=torch.float64)
    >>> records[-1].multipliers
    tensor([2.], dtype=torch.float64)
    """

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 1.0,
        *,
        hessian: str | Hessian | None = None,
        step_length: str | StepLength = "adaptive",
        learning_rate_cut: LearningRateCut | None = None,
        penalty: float = 1.0,
        steering: Steering | None = None,
        merit_parameter: float = 1.0,
        ratio_parameter: float = 1.0,
        sigma: float = 0.1,
        decrease: float = 0.01,
    ) -> None:
        for name, value in (
            ("lr", lr),
            ("penalty", penalty),
            ("merit_parameter", merit_parameter),
            ("ratio_parameter", ratio_parameter),
        ):
            if not 0.0 < value < math.inf:
                raise ValueError(f"StochasticSQP({name}={value!r}): must be a finite number above 0.")
        for name, value in (("sigma", sigma), ("decrease", decrease)):
            if not 0.0 < value < 1.0:
                raise ValueError(f"StochasticSQP({name}={value!r}): must be between 0 and 1.")
        super().__init__(params, {"lr": lr})
        self.hessian = ExponentialAverage(damping=1.0, corrected=True) if hessian is None else resolve_hessian(hessian)
        self.step_length = resolve_step_length(step_length)
        self.learning_rate_cut = learning_rate_cut
        self.steering = steering if steering is not None else Steering()
        self.sigma = sigma
        self.decrease = decrease
        self._numbers = {
            "iteration": 0,
            "penalty": penalty,
            "merit_parameter": merit_parameter,
            "ratio_parameter": ratio_parameter,
        }

    @classmethod
    def from_paper(cls, params: Iterable[Tensor], lr: float = 0.5, **options: Any) -> StochasticSQP:
        """Return an optimiser with the constants of the paper's experiments.

        H = diag √(EMA₀.₉₉₉(g²) + 100), the step length is fixed at the learning rate 0.5, and Algorithm 2 uses the
        merit parameter 0.01.  The QPs of the paper had hard rows.  So the initial penalty is so large that it does not
        bind.
        """
        settings: dict[str, Any] = {
            "hessian": ExponentialAverage(decay=0.999, damping=100.0, corrected=False),
            "step_length": FixedStep(),
            "learning_rate_cut": LearningRateCut(merit_parameter=0.01, count_in_warmup=True),
            "penalty": 1e6,
        }
        return cls(params, lr, **{**settings, **options})

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Accept the first group only: one QP couples all parameters."""
        if self.param_groups:
            raise ValueError(
                "StochasticSQP takes one parameter group, because one QP couples all parameters; "
                "pass all parameters in a single list."
            )
        super().add_param_group(param_group)
        for parameter in self.param_groups[0]["params"]:
            if parameter.dtype not in (torch.float32, torch.float64):
                raise TypeError(
                    f"StochasticSQP: a parameter has the type {parameter.dtype}; float32 and float64 are supported."
                )

    @torch.no_grad()
    def step(self, closure: Callable[[], Evaluation]) -> StepRecord:  # type: ignore[override]
        """Take one step.

        Parameters
        ----------
        closure : callable
            Returns the `Evaluation` at the current parameters.  For Lipschitz estimates it is called a second time at
            slightly displaced parameters, and must then use the same batch.
        """
        evaluation = self._evaluate(closure)
        self.hessian.update(evaluation.g)
        steered = steered_step(evaluation, self.hessian, self._numbers["penalty"], self.steering)
        solution = steered.solution
        self._numbers["penalty"] = steered.penalty
        model = self._model(evaluation, solution)
        iteration = int(self._numbers["iteration"])
        self._observe_displaced(closure, evaluation, solution.d, iteration)
        step_length = self.step_length.choose(model)
        self._move(step_length * solution.d)
        self._numbers["iteration"] = iteration + 1
        group = self.param_groups[0]
        if self.learning_rate_cut is not None:
            group["lr"] = self.learning_rate_cut.update(
                evaluation.f, evaluation.violation, group["lr"], model.merit_parameter
            )
        return StepRecord(
            iteration=iteration,
            f=evaluation.f,
            violation=evaluation.violation,
            kkt=kkt_residuals(evaluation, solution.y),
            penalty=steered.penalty,
            merit_parameter=model.merit_parameter,
            ratio_parameter=model.ratio_parameter,
            step_length=step_length,
            learning_rate=model.learning_rate,
            step_norm=model.step_norm,
            elastic=solution.elastic,
            locally_infeasible=steered.locally_infeasible,
            multipliers=solution.y,
        )

    def _evaluate(self, closure: Callable[[], Evaluation]) -> Evaluation:
        if closure is None:
            raise TypeError("StochasticSQP.step needs a closure that returns the Evaluation at the current parameters.")
        with torch.enable_grad():
            evaluation = closure()
        if not isinstance(evaluation, Evaluation):
            kind = type(evaluation).__name__
            raise TypeError(f"StochasticSQP.step: the closure must return an Evaluation, got {kind}.")
        size = sum(parameter.numel() for parameter in self.param_groups[0]["params"])
        if evaluation.g.numel() != size:
            raise ValueError(
                f"StochasticSQP.step: the gradient has {evaluation.g.numel()} entries, the parameters have {size}; "
                "evaluate with the same parameters in the same order."
            )
        return evaluation

    def _model(self, evaluation: Evaluation, solution: QPSolution) -> StepModel:
        """Update τ and ξ, and return the input of the rule for the step length."""
        numbers = self._numbers
        reduction = evaluation.violation - solution.violation
        trial = trial_merit_parameter(solution.slope, solution.curvature, reduction, self.sigma, solution.penalty)
        tau = lowered(numbers["merit_parameter"], trial, self.decrease, floor=1e-12)
        decrease = model_reduction(tau, solution.slope, solution.curvature, reduction)
        step_norm = float(torch.linalg.vector_norm(solution.d))
        ratio = lowered(
            numbers["ratio_parameter"], trial_ratio_parameter(tau, decrease, step_norm), self.decrease, floor=1e-12
        )
        numbers["merit_parameter"], numbers["ratio_parameter"] = tau, ratio
        return StepModel(float(self.param_groups[0]["lr"]), tau, ratio, decrease, step_norm)

    def _observe_displaced(
        self, closure: Callable[[], Evaluation], evaluation: Evaluation, d: Tensor, iteration: int
    ) -> None:
        """Show the step-length rule a second point, if it asks for one, and restore the parameters."""
        distance = self.step_length.displacement(iteration)
        norm = float(torch.linalg.vector_norm(d))
        if distance == 0.0 or norm == 0.0:
            return
        parameters = self.param_groups[0]["params"]
        saved = [parameter.detach().clone() for parameter in parameters]
        try:
            self._move(min(distance / norm, 1.0) * d)
            # Parameters may be float32, so the change that they made differs from the intended one by rounding.
            change = [(p - q).double().reshape(-1) for p, q in zip(parameters, saved, strict=True)]
            self.step_length.observe(evaluation, self._evaluate(closure), torch.cat(change).to(d.device))
        finally:
            for parameter, value in zip(parameters, saved, strict=True):
                parameter.copy_(value)

    def _move(self, change: Tensor) -> None:
        """Add a flat float64 vector to the parameters."""
        start = 0
        for parameter in self.param_groups[0]["params"]:
            part = change[start : start + parameter.numel()].view_as(parameter)
            parameter.add_(part.to(parameter))
            start += parameter.numel()

    def __getstate__(self) -> dict[str, Any]:
        # The base class pickles and copies only its own attributes; add ours.
        names = ("hessian", "step_length", "learning_rate_cut", "steering", "sigma", "decrease", "_numbers")
        return {**super().__getstate__(), **{name: getattr(self, name) for name in names}}

    def state_dict(self) -> dict[str, Any]:
        """Return the full state, so that a resumed run takes the same steps as an uninterrupted one."""
        cut = self.learning_rate_cut
        self.state["sqp"] = {  # type: ignore[index]
            "numbers": dict(self._numbers),
            "hessian": self.hessian.state_dict(),
            "step_length": self.step_length.state_dict(),
            "learning_rate_cut": None if cut is None else cut.state_dict(),
        }
        return super().state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state that `state_dict` returned; this optimiser must have the same options."""
        super().load_state_dict(state_dict)
        saved = self.state.get("sqp")  # type: ignore[call-overload]
        if saved is None:
            raise ValueError("StochasticSQP.load_state_dict: this state was saved by another optimiser.")
        if (saved["learning_rate_cut"] is None) != (self.learning_rate_cut is None):
            raise ValueError(
                "StochasticSQP.load_state_dict: one of the two optimisers cuts its learning rate and the other does "
                "not; build both with the same learning_rate_cut."
            )
        self._numbers = dict(saved["numbers"])
        self.hessian.load_state_dict(saved["hessian"])
        self.step_length.load_state_dict(saved["step_length"])
        if self.learning_rate_cut is not None:
            self.learning_rate_cut.load_state_dict(saved["learning_rate_cut"])


# --- learning rate ---------------------------------------------------------------------------------------------------

# The learning-rate cut of the paper's Algorithm 2 ("Learning Rate Adjustment Strategy").
#
# Let φ_k = τ f(w_k) + v(c(w_k)) be the merit values, and φ̄_k = η φ_k + (1 − η) φ̄_{k−1}, φ̄_0 = φ_0, their moving
# average. While the merit falls, the average is above the current value. If it is not, the merit has stopped falling,
# and the learning rate is divided by a factor. But there is no cut in the first iterations, nor soon after another cut:
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
