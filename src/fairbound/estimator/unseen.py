"""Limits on new rows: measure the optimism of a fit, forecast its limits, and train with a margin.

The optimism of a fit is how much worse a limit is on new rows than on the training rows, beyond chance.
To measure it, a second model is fitted to a part of the training rows, by the phases of the whole fit.  It starts from
the model without limits of the whole, which has not used the groups.  From there it finds its own model without limits
first: the whole fit stops where its decisions are as accurate as without limits, and so must the fit to the part.

Let d be the difference of c̄ between the other rows and those of the part.  For a model fitted to the part, d is its
optimism plus chance.  For the model fitted to all rows, d is chance alone.  Subtracting the two gives the optimism of a
fit to the part.  The optimism of the whole fit is smaller, by a power of the share of the rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fairbound.estimator.modules import logits
from fairbound.evaluation import Forecast, MarginResult, Optimism, RateDistribution
from fairbound.fairness import Cells, ConstraintSystem, decide, decision_indicators
from fairbound.training import (
    Effort,
    FrontierPoint,
    Phase,
    TrainingProblem,
    TrainingResult,
    choose_effort,
    choose_status,
    fit,
    is_small,
    on_other_rows,
)

MOST_ROWS = 20_000
"""The part has at most this many rows, but at least a fifth of them."""

SMALL_SHARE, LARGE_SHARE = 0.8, 0.5
"""The largest share of the rows in the part, for fits with few rows and with many.

The optimism of few rows is large, so the part must be close to the whole; that of many needs many other rows.
"""

FALL = 0.75
"""The optimism falls with the number of rows to this power: 1 for smooth measures, 2/3 for counts of decisions."""

NO_OPTIMISM = Optimism()


def rate_distribution(
    system: ConstraintSystem,
    decisions: Tensor,
    multipliers: Tensor | None = None,
    optimism: Optimism = NO_OPTIMISM,
    asked: int | None = None,
    *,
    constant: bool = False,
) -> RateDistribution:
    """Return the distribution of the rates on new rows, from the decisions about the rows of the system.

    `optimism` is that of `measure_optimism`; the limits after the first `asked` ones have no forecast.  With
    `constant`, the model decides alike for every row that there may be.
    """
    cells = system.cells
    indicators = decision_indicators(decisions, cells.outcomes)
    counts, spread = cells.sums(indicators), system.rate_spread(indicators, added=0.0 if constant else 0.5)
    rates = system.rates(counts.expand(len(system.surrogates), -1, -1)).numpy()
    price = np.zeros(len(spread)) if multipliers is None else (system.coefficients.T @ multipliers).numpy()
    way = spread.numpy() @ price  # the direction of the optimism
    size = math.sqrt(max(0.0, float(price @ way)))
    kappa = optimism.at(size)
    shift, doubt = kappa.value * way, kappa.error * way
    return RateDistribution(system, rates, shift, spread.numpy(), asked, doubt, kappa.value * size)


def is_constant(problem: TrainingProblem, module: nn.Module, Z: NDArray[np.float64], decisions: Tensor) -> bool:
    """Return whether a module decides alike for all inputs, and clearly so, which it will do on new rows as well.

    Its logits must be further from any other decision than they are from each other.
    """
    if bool((decisions != decisions[0]).any()):
        return False
    found = logits(module, Z, problem.cells.n_labels)
    width = float((found.amax(dim=0) - found.amin(dim=0)).max())
    towards = torch.ones(1, 1) if found.shape[1] == 1 else -2.0 * torch.eye(found.shape[1])[decisions[:1]]
    moved = (found + width * towards, found - width * towards)
    return all(bool((decide(each, problem.threshold) == decisions).all()) for each in moved)


def measure_optimism(
    problem: TrainingProblem,
    Z: NDArray[np.float64],
    decisions: Tensor,
    multipliers: Tensor,
    free: Tensor,
    loss_weights: Any = None,
    effort: Effort | None = None,
    objective: str = "loss",
) -> Optimism:
    """Return κ: the optimism of the limits is κ·A·Σ·Aᵀ·y.  Raise ValueError if the rows are too few to be divided.

    κ is fitted to the one number yᵀ·(optimism of c), because single rows of c are too noisy.  If the part is at most
    half of the rows, it is the mean of two parts without a row in common, because fits differ by luck as well.

    Parameters
    ----------
    problem : TrainingProblem
    Z : array of shape (n, columns)
        Inputs of the module, in the row order of the cells.
    decisions : Tensor of shape (n,)
        The decisions of the fitted model.
    multipliers : Tensor of shape (m,)
    free : Tensor
        Parameters of the model without limits.
    loss_weights, effort, objective
        Of the fit, if they were stated.
    """
    system = problem.system
    spread = torch.from_numpy(rate_distribution(system, decisions).spread)
    price = system.coefficients.T @ multipliers
    scale = float(price @ spread @ price)
    if scale <= 0.0:
        return NO_OPTIMISM  # no limit binds, so the fit had no reason to fit noise
    small = is_small(len(problem.cells), problem.n_parameters)
    parts = choose_parts(problem.cells, SMALL_SHARE if small else LARGE_SHARE)
    if bool(parts[0].all()):
        raise ValueError("none would be outside the part.")
    # The part must be fitted like the whole: a hurried fit stays near the model without limits, and has less optimism.
    # The accurate phase lowers the optimism, so the part needs it, too; only small fits are measured without it.
    whole = replace(choose_effort(len(Z), problem.n_parameters) if effort is None else effort, starts=1)
    # The part of a small fit is most of its rows, and its model without limits is near that of the whole.
    whole = replace(whole, worth=math.inf, free=_one_iteration(whole)) if small else whole
    measured, options = [], {"objective": objective, "effort": whole}
    for inside in parts:
        weights = None if loss_weights is None else np.asarray(loss_weights)[inside.numpy()]
        lost = _optimism_of_part(problem, Z, decisions, free, inside, loss_weights=weights, **options)
        share = float(inside.to(torch.float64).mean())
        measured.append(share**FALL * float(multipliers @ lost) / scale)
    return Optimism.of_parts(measured, math.sqrt(scale))


def _optimism_of_part(
    problem: TrainingProblem, Z: NDArray[np.float64], decisions: Tensor, free: Tensor, inside: Tensor, **options: Any
) -> Tensor:
    """Return the optimism in c̄ of a model that is fitted to a part of the rows."""
    part, others = problem.cells.take(inside), problem.cells.take(~inside)
    trial = on_other_rows(problem, part)
    trial.assign(free)
    fit(trial, Z[inside.numpy()], solver="quasi-newton", **options)
    refitted = decide(logits(trial.module, Z, problem.cells.n_labels), problem.threshold)

    def gap(decided: Tensor) -> Tensor:
        return _exact(problem.system, others, decided[~inside]) - _exact(problem.system, part, decided[inside])

    return torch.nan_to_num(gap(refitted) - gap(decisions), 0.0, 0.0, 0.0)


def choose_parts(cells: Cells, largest: float) -> list[Tensor]:
    """Return masks of one part or of two disjoint ones: a share of each cell, or of each label if rows are divided."""
    share = min(largest, max(0.2, MOST_ROWS / cells.n_rows))
    strata = cells.index if cells.division is None else cells.of_rows(cells.labels)
    order = torch.from_numpy(np.random.default_rng(0).permutation(len(strata)))
    order = order[torch.argsort(strata[order], stable=True)]
    counts = torch.bincount(strata)
    place = torch.arange(len(strata)) - (torch.cumsum(counts, 0) - counts)[strata[order]]
    size, whole = torch.ceil(share * counts)[strata[order]], counts[strata[order]]
    second = (place >= torch.maximum(whole - size, size)) | (whole == 1)  # a stratum of one row is in both
    chosen = [place < size, second][: 2 if share <= LARGE_SHARE else 1]
    return [cells.of_entries(each[torch.argsort(order)]) for each in chosen]


def _one_iteration(effort: Effort) -> Phase:
    """Return a phase that assesses the known model without limits."""
    return replace(effort.free, iterations=min(1, effort.free.iterations))


def _exact(system: ConstraintSystem, cells: Cells, decisions: Tensor) -> Tensor:
    """Return c̄ on some of the rows."""
    return replace(system, cells=cells).exact(cells.sums(decision_indicators(decisions, cells.outcomes)))


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
    effort = replace(effort, free=_one_iteration(effort))
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
