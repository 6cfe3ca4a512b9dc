"""`StochasticSQP`: the paper's Algorithms 1 and 2 as a `torch.optim.Optimizer`.

One iteration at w_k uses one evaluation (f, g, c, J), whose f and g may be stochastic:

    1. choose H_k                                                   `diagonal`
    2. solve the elastic QP for d and y; raise ρ if necessary       `qp`, `steering`
    3. update merit parameter τ, model reduction Δq, ratio ξ        `merit`
    4. choose the step length α from β, τ, ξ, Δq                    `step_length`
    5. w_{k+1} = w_k + α d
    6. cut the learning rate β if the merit stops falling           `learning_rate`

This is the only module of the room that imports torch: the parameters are tensors, and all else is numpy.

The convergence theory assumes deterministic *constraints*: evaluate them on all rows, or on a fixed subset.  It does
not cover constraints that are evaluated on changing batches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairbound.sqp.diagonal import ExponentialAverage, Hessian
from fairbound.sqp.learning_rate import LearningRateCut
from fairbound.sqp.merit import lowered, model_reduction, trial_merit_parameter, trial_ratio_parameter
from fairbound.sqp.optimality import kkt_residuals
from fairbound.sqp.problem import Array, Evaluation
from fairbound.sqp.qp import QPSolution
from fairbound.sqp.solution import StepRecord
from fairbound.sqp.steering import steered_step
from fairbound.sqp.step_length import AdaptiveStep, FixedStep, StepLength, StepModel


class StochasticSQP(torch.optim.Optimizer):
    """Stochastic sequential quadratic programming.

    Parameters
    ----------
    params : iterable of Tensor
        Parameters, float32 or float64, in one group.
    lr : float
        β: the step length of `FixedStep`, a factor of that of `AdaptiveStep`.
    hessian : Hessian, optional
        H of the QP: `Identity`, `Adagrad` or `ExponentialAverage`.  By default `ExponentialAverage(damping=1.0,
        corrected=True)`.  Where gradients are small, it is close to the identity, which suits a mean loss.  Where they
        are large, it is close to their root mean square.
    step_length : StepLength, optional
        `AdaptiveStep` by default, or `FixedStep`.
    learning_rate_cut : LearningRateCut, optional
        Algorithm 2 of the paper; None leaves the learning rate to the caller and to torch's schedulers.
    penalty : float
        Initial ρ.
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
    ...     return Evaluation(f=(w - 2) ** 2, g=2 * (w - 2), c=w, J=[[1.0]], lower=[-math.inf], upper=[1.0])
    >>> optimizer = StochasticSQP([w])
    >>> records = [optimizer.step(closure) for _ in range(20)]
    >>> w
    tensor([1.], dtype=torch.float64)
    >>> records[-1].multipliers
    array([2.])
    """

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 1.0,
        *,
        hessian: Hessian | None = None,
        step_length: StepLength | None = None,
        learning_rate_cut: LearningRateCut | None = None,
        penalty: float = 1.0,
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
        self.hessian = ExponentialAverage(damping=1.0, corrected=True) if hessian is None else hessian
        self.step_length = AdaptiveStep() if step_length is None else step_length
        self.learning_rate_cut = learning_rate_cut
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
        steered = steered_step(evaluation, self.hessian, self._numbers["penalty"])
        solution = steered.solution
        self._numbers["penalty"] = solution.penalty
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
            penalty=solution.penalty,
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
        if evaluation.g.size != size:
            raise ValueError(
                f"StochasticSQP.step: the gradient has {evaluation.g.size} entries, the parameters have {size}; "
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
        step_norm = float(np.linalg.norm(solution.d))
        ratio = lowered(
            numbers["ratio_parameter"], trial_ratio_parameter(tau, decrease, step_norm), self.decrease, floor=1e-12
        )
        numbers["merit_parameter"], numbers["ratio_parameter"] = tau, ratio
        return StepModel(float(self.param_groups[0]["lr"]), tau, ratio, decrease, step_norm)

    def _observe_displaced(
        self, closure: Callable[[], Evaluation], evaluation: Evaluation, d: Array, iteration: int
    ) -> None:
        """Show the step-length rule a second point, if it asks for one, and restore the parameters."""
        distance = self.step_length.displacement(iteration)
        norm = float(np.linalg.norm(d))
        if distance == 0.0 or norm == 0.0:
            return
        parameters = self.param_groups[0]["params"]
        saved = [parameter.detach().clone() for parameter in parameters]
        try:
            self._move(min(distance / norm, 1.0) * d)
            # Parameters may be float32, so the change that they made differs from the intended one by rounding.
            change = [(p - q).double().reshape(-1) for p, q in zip(parameters, saved, strict=True)]
            self.step_length.observe(evaluation, self._evaluate(closure), torch.cat(change).numpy(force=True))
        finally:
            for parameter, value in zip(parameters, saved, strict=True):
                parameter.copy_(value)

    def _move(self, change: Array) -> None:
        """Add a flat vector to the parameters."""
        parameters = self.param_groups[0]["params"]
        parts = torch.from_numpy(change).split([parameter.numel() for parameter in parameters])
        for parameter, part in zip(parameters, parts, strict=True):
            parameter.add_(part.view_as(parameter).to(parameter))

    def __getstate__(self) -> dict[str, Any]:
        # The base class pickles and copies only its own attributes; add ours.
        names = ("hessian", "step_length", "learning_rate_cut", "sigma", "decrease", "_numbers")
        return {**super().__getstate__(), **{name: getattr(self, name) for name in names}}

    def _strategies(self) -> dict[str, dict[str, Any]]:
        """Return the attributes of each strategy, by its kind."""
        held = (self.hessian, self.step_length, self.learning_rate_cut)
        return {type(each).__name__: vars(each) for each in held if each is not None}

    def state_dict(self) -> dict[str, Any]:
        """Return the full state, so that a resumed run takes the same steps as an uninterrupted one."""
        # Tensors, since `torch.load` reads no arrays unless it trusts the file.
        strategies = {
            kind: {
                name: torch.tensor(value) if isinstance(value, np.ndarray) else value for name, value in held.items()
            }
            for kind, held in self._strategies().items()
        }
        self.state["sqp"] = {"numbers": dict(self._numbers), "strategies": strategies}  # type: ignore[index]
        return super().state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state that `state_dict` returned; this optimiser must have the same options."""
        super().load_state_dict(state_dict)
        saved = self.state.get("sqp")  # type: ignore[call-overload]
        own = self._strategies()
        if saved is None or list(saved["strategies"]) != list(own):
            kinds = "another optimiser" if saved is None else f"one with {list(saved['strategies'])}"
            raise ValueError(
                f"StochasticSQP.load_state_dict: this state was saved by {kinds}, and this one has {list(own)}; build "
                "both with the same options."
            )
        self._numbers = dict(saved["numbers"])
        for kind, held in own.items():
            found = saved["strategies"][kind].items()
            held.update((name, value.numpy() if isinstance(value, Tensor) else value) for name, value in found)
