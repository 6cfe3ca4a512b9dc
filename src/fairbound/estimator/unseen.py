"""Limits on new rows: forecast the limits of a fit, and train with a margin.

A forecast is the distribution of the rates on new rows (`fairbound.evaluation.RateDistribution`).  It follows from the
decisions about the training rows, and from the measured optimism of the fit (`optimism`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from fairbound.estimator.modules import logits
from fairbound.estimator.optimism import NO_OPTIMISM, is_constant, measure_optimism, one_iteration, rate_distribution
from fairbound.estimator.rows import Data, Parameters
from fairbound.evaluation import Forecast, MarginResult, Optimism
from fairbound.fairness import Cells, ConstraintSystem, decide
from fairbound.training import FrontierPoint, TrainingProblem, TrainingResult, choose_effort, choose_status, fit

STOPPED, BROKEN = "the fit was stopped early.", "the limits are not even kept on the training rows."


class Outlook:
    """The forecast and the margin of a fit.  Its optimism is measured once, at the limits as asked.

    Parameters
    ----------
    problem, Z, loss_weights
        The problem, inputs and weights of the fit.
    asked : int, optional
        Only the first `asked` limits get a forecast and a margin; by default all.
    decisions : function, optional
        Returns the decisions of the module about the training rows, if somebody computes them anyway.

    Attributes
    ----------
    margin : MarginResult or None
        Set by `tighten`.
    calibrated : function, optional
        Returns the forecast from calibration rows, which is better than one from the training rows.
    reason : str
        Why there is no forecast.
    """

    def __init__(
        self,
        problem: TrainingProblem,
        Z: NDArray[np.float64],
        loss_weights: Any,
        asked: int | None = None,
        decisions: Callable[[], Tensor] | None = None,
    ) -> None:
        self.problem, self.Z, self.loss_weights, self.asked = problem, Z, loss_weights, asked
        self._known_decisions = decisions
        self.margin: MarginResult | None = None
        self.calibrated: Callable[[], Forecast] | None = None
        self._multipliers: Tensor | None = None
        self._optimism, self.reason = NO_OPTIMISM, ""

    def tighten(self, result: TrainingResult, probability: float | None, **options: Any) -> TrainingResult:
        """Measure the optimism of a fit; with a probability, train again with a margin.  Return the last result."""
        self._measure(result, **{name: options[name] for name in ("effort", "objective") if name in options})
        if probability is not None and not self.reason and self.problem.system.n_rows:
            result, self.margin = train_with_margin(
                self.problem, self.Z, result, self._optimism, probability, self.decisions, self.asked, **options
            )
            self._multipliers = result.multipliers
        return result

    def forecast(self, decisions: Tensor) -> Forecast | None:
        """Return the forecast of the model that has these decisions about the training rows; None without limits."""
        if not self.problem.system.constraints:
            return None
        if self.calibrated is not None:
            return self.calibrated()
        if self.reason or self._multipliers is None:
            return Forecast(reason=self.reason)
        system, same = self.problem.system, is_constant(self.problem, self.problem.module, self.Z, decisions)
        found = rate_distribution(system, decisions, self._multipliers, self._optimism, self.asked, constant=same)
        return found.forecast()

    def share_optimism(self, measured: Outlook, multipliers: Tensor | None) -> None:
        """Take the optimism that was measured for another model; without multipliers of its own, those as well."""
        self._optimism, self.reason = measured._optimism, measured.reason
        self._multipliers = measured._multipliers if multipliers is None else multipliers

    def decisions(self) -> Tensor:
        """Return the decisions of the module about the training rows."""
        if self._known_decisions is not None:
            return self._known_decisions()
        return decide(logits(self.problem.module, self.Z, self.problem.cells.n_labels), self.problem.threshold)

    def _measure(self, result: TrainingResult, **options: Any) -> None:
        if not self.problem.system.n_rows:
            return
        self._multipliers = result.multipliers
        if result.stopped:
            self.reason = STOPPED
        elif not result.assessment.kept:
            self.reason = BROKEN
        elif result.multipliers is None or result.free_parameters is None:
            self.reason = "the fit has no model without limits to compare with."
        elif bool(result.multipliers.any()):  # else no limit binds, and the fit had no reason to use chance
            try:
                self._optimism = measure_optimism(
                    self.problem,
                    self.Z,
                    self.decisions(),
                    result.multipliers,
                    result.free_parameters,
                    self.loss_weights,
                    **options,
                )
            except ValueError as error:  # a rate is undefined in a part of the rows
                self.reason = f"the rows are too few to be divided ({getattr(error, 'problem', error)})"


def forecast_frontier(
    problem: TrainingProblem,
    Z: NDArray[np.float64],
    loss_weights: Any,
    points: Sequence[FrontierPoint],
    asked: int | None = None,
    **options: Any,
) -> list[Forecast | None]:
    """Return the forecasts of models for several bounds, which share one κ, measured at the strictest that binds.

    A model that ends some rows away from its bound has no multipliers, and takes those of a looser one.
    """
    systems, prices = [p.result.assessment.system for p in points], [p.result.multipliers for p in points]
    outlooks = [Outlook(problem.with_constraints(each.constraints), Z, loss_weights, asked) for each in systems]
    usable = [i for i, p in enumerate(points) if p.result.assessment.kept and not p.result.stopped] or [len(points) - 1]
    strictest = max((i for i in usable if (y := prices[i]) is not None and y.any()), default=usable[-1])
    problem.assign(points[strictest].parameters)
    (measured := outlooks[strictest]).tighten(points[strictest].result, None, **options)
    found: list[Forecast | None] = []
    for index, (outlook, price) in enumerate(zip(outlooks, prices, strict=True)):
        problem.assign(points[index].parameters)
        borrows = index > strictest and len(systems[index].rows) == len(systems[strictest].rows)
        outlook.share_optimism(measured, None if borrows else price)
        if price is None:
            outlook.reason = "the model was trained for a stricter bound."
        elif points[index].result.stopped or not points[index].result.assessment.kept:
            outlook.reason = STOPPED if points[index].result.stopped else BROKEN
        found.append(outlook.forecast(outlook.decisions()))
    return found


def forecast_rows(
    problem: TrainingProblem, module: nn.Module, inputs: NDArray[np.float64], data: Data, params: Parameters
) -> Forecast:
    """Return the forecast from calibration rows.  They had no part in training, so there is no optimism."""
    decisions = decide(logits(module, inputs, problem.cells.n_labels), problem.threshold)
    same = is_constant(problem, module, inputs, decisions)
    try:
        cells = Cells.build(data.y, data.groups, groups=params.groups, pos_label=params.pos_label)
        system = ConstraintSystem.build(problem.system.constraints, cells, threshold=problem.threshold)
    except ValueError as error:
        return Forecast(rows="calibration", reason=str(error))
    return rate_distribution(system, decisions, constant=same).forecast(rows="calibration")


# --- margins ---------------------------------------------------------------------------------------------------------

ROUNDS = 2
"""The most fits with a margin.  A second one is needed because the first changes which pairs of groups bind."""

NEAR_ENOUGH = 0.03
"""A forecast may miss the probability by this much before a second round."""


def train_with_margin(
    problem: TrainingProblem,
    Z: NDArray[np.float64],
    result: TrainingResult,
    optimism: Optimism,
    probability: float,
    decide_rows: Callable[[], Tensor],
    asked_limits: int | None = None,
    **options: Any,
) -> tuple[TrainingResult, MarginResult]:
    """Train for tightened bounds, from the model without limits; the module of the problem holds the new model.

    The result refers to the limits as asked.  To go on from the model that keeps them would train it for longer than
    the fit whose optimism was measured.

    Parameters
    ----------
    problem, Z
        The problem and inputs of the fit.
    result : TrainingResult
        The result of the fit under the limits as asked.
    optimism : Optimism
    probability : float
        The probability with which the limits should hold on new rows.
    decide_rows : function
        Returns the decisions of the module about the training rows.
    asked_limits : int, optional
        Only the first `asked_limits` limits get a margin; by default all.
    options
        For `fit`: loss_weights, objective, effort, callback.
    """
    asked, found, reserve = problem.system, result, np.zeros(problem.system.n_rows)
    reached = True
    assert result.free_parameters is not None
    # The model without limits is known.  One iteration assesses it, so that the phases end as those of the fit did.
    effort = options.pop("effort", None) or choose_effort(len(Z), problem.n_parameters)
    effort = replace(effort, free=one_iteration(effort))
    for _ in range(ROUNDS):
        same = is_constant(problem, problem.module, Z, decided := decide_rows())
        rates = rate_distribution(asked, decided, found.multipliers, optimism, asked_limits, constant=same)
        if (rates.forecast().holds or 0.0) >= probability - NEAR_ENOUGH:
            break
        reserve, before = np.maximum(reserve, rates.reserve(probability)), problem.current()
        stricter = problem.with_constraints(rates.with_reserve(reserve))
        stricter.assign(result.free_parameters)
        again = fit(stricter, Z, solver="quasi-newton", effort=effort, **options)
        reached, assessment = again.assessment.kept, replace(again.assessment, system=asked)
        status = again.status if reached else choose_status(assessment, converged=False, locally_infeasible=False)
        if lost := found.assessment.kept and not assessment.kept:
            problem.assign(before)  # the last model has less of a margin, but keeps the limits
        found = replace(
            found if lost else again,
            status=found.status if lost else status,
            assessment=found.assessment if lost else assessment,
            conflicts=[] if lost or assessment.kept else again.conflicts,
            history=[*found.history, *again.history],
            seconds=found.seconds + again.seconds,
            evaluations=found.evaluations + again.evaluations,
            value_evaluations=found.value_evaluations + again.value_evaluations,
            stopped=found.stopped or again.stopped,
            solver=result.solver,
            free=result.free,
            free_parameters=result.free_parameters,
        )
        if lost or found.stopped:
            break
    limits = rate_distribution(asked, decide_rows(), asked=asked_limits).margins(reserve)
    return found, MarginResult(probability, limits, reached)
