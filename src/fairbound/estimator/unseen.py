"""Limits on new rows, by cross-validation: the forecast of a fit, and its margin.

Five models are fitted like the whole one, each without a fifth of the rows of every cell, and decide the rows left out.
All these decisions, counted together, give the rates that the limits have on new rows.  They spread around the rates in
the population by chance, with the covariance of counts.

With a margin the bounds are tightened until the limits hold, by this forecast, with the wanted probability.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fairbound.estimator.modules import logits
from fairbound.evaluation import Forecast, MarginResult, RateDistribution
from fairbound.fairness import Cells, Constraint, ConstraintSystem, decide, decision_indicators
from fairbound.training import FitSeries, FrontierPoint, TrainingProblem, TrainingResult, choose_status, fit, on_rows

FOLDS = 5
"""Each fold is fitted to four fifths of the rows, so its models are nearly as good as the whole one."""

ROUNDS = 3
"""The most fits with a margin.  The first changes which pairs of groups bind; the others correct what it missed."""

NEAR_ENOUGH = 0.05
"""A forecast may miss the probability by this much before a further round."""

STOPPED, BROKEN = "the fit was stopped early.", "the limits are not even kept on the training rows."


def rate_distribution(
    system: ConstraintSystem,
    decisions: Tensor,
    left_out: Tensor | None = None,
    asked: int | None = None,
    *,
    constant: bool = False,
) -> RateDistribution:
    """Return the distribution of the rates on new rows.

    Parameters
    ----------
    system : ConstraintSystem
    decisions : Tensor of shape (n,)
        The decisions of the model about the rows of the system.
    left_out : Tensor of shape (n,), optional
        The decisions of the models that have not seen the row; by default `decisions`, for rows not trained on.
    asked : int, optional
        The limits after the first `asked` ones have no forecast.
    constant : bool
        Whether the model decides alike for every row that there may be.
    """

    def rates(decided: Tensor) -> NDArray[np.float64]:
        counts = system.cells.sums(decision_indicators(decided, system.cells.outcomes))
        return system.rates(counts.expand(len(system.surrogates), -1, -1)).numpy()

    judged = decisions if left_out is None or constant else left_out
    indicators = decision_indicators(judged, system.cells.outcomes)
    spread = system.rate_spread(indicators, added=0.0 if constant else 0.5)
    return RateDistribution(system, rates(decisions), rates(judged) - rates(decisions), spread.numpy(), asked)


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


def folds(cells: Cells) -> list[Tensor]:
    """Return a mask of the rows that each fold leaves out: a fifth of each cell, or of each label if rows are divided.

    The rows of a cell are dealt in turn, after a shuffle with a fixed seed; each cell begins with another fold.
    """
    strata = cells.index if cells.division is None else cells.of_rows(cells.labels)
    order = torch.from_numpy(np.random.default_rng(0).permutation(len(strata)))
    order = order[torch.argsort(strata[order], stable=True)]
    dealt = torch.empty(len(strata), dtype=torch.int64)
    dealt[order] = torch.arange(len(strata)) % FOLDS
    return [cells.of_entries(dealt == fold) for fold in range(FOLDS)]


class Outlook:
    """The forecast and the margin of a fit.

    Parameters
    ----------
    problem, Z, loss_weights
        The problem, inputs and weights of the fit.
    start : Tensor
        The parameters from which the fit starts, and each fold.
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
    """

    def __init__(
        self,
        problem: TrainingProblem,
        Z: NDArray[np.float64],
        loss_weights: Any,
        start: Tensor,
        asked: int | None = None,
        decisions: Callable[[], Tensor] | None = None,
    ) -> None:
        self.problem, self.Z, self.loss_weights, self.asked = problem, Z, loss_weights, asked
        self._start, self._dtype = start, problem.parameters[0].dtype
        self._known_decisions = decisions
        self.margin: MarginResult | None = None
        self.calibrated: Callable[[], Forecast] | None = None
        self._left_out: list[Tensor] | None = None
        self._reason = ""

    def forecast(self, result: TrainingResult, **options: Any) -> Forecast | None:
        """Return the forecast of a fit, whose model is in the module; None without limits.

        The options `objective` and `effort` are those of the fit.
        """
        if not self.problem.system.constraints:
            return None
        if self.calibrated is not None:
            return self.calibrated()
        if result.stopped or not result.assessment.kept:
            return Forecast(reason=STOPPED if result.stopped else BROKEN)
        if self._left_out is None and not self._reason:
            self._cross_validate([self.problem.system.constraints], **options)
        return self._distribution().forecast() if self._left_out else Forecast(reason=self._reason)

    def forecast_frontier(self, points: Sequence[FrontierPoint], **options: Any) -> list[Forecast | None]:
        """Return the forecasts of models for several bounds; each fold fits a frontier of its own."""
        systems = [point.result.assessment.system for point in points]
        self._cross_validate([system.constraints for system in systems], **options)
        found: list[Forecast | None] = []
        for place, (point, system) in enumerate(zip(points, systems, strict=True)):
            result = point.result
            if result.stopped or not result.assessment.kept:
                found.append(Forecast(reason=STOPPED if result.stopped else BROKEN))
            elif self._left_out is None:
                found.append(Forecast(reason=self._reason))
            else:
                self.problem.assign(point.parameters)
                found.append(self._distribution(system, place).forecast())
        return found

    def tighten(self, result: TrainingResult, probability: float, **options: Any) -> TrainingResult:
        """Train for tightened bounds until the limits as asked hold with the wanted probability; return the result."""
        asked, found, reserve = self.problem.system, result, np.zeros(self.problem.system.n_rows)
        if not asked.n_rows or result.stopped or not result.assessment.kept:
            return result
        of_folds = {name: options[name] for name in ("effort", "objective")}
        self._cross_validate([asked.constraints], **of_folds)
        reached, at_limits, margins = True, None, rate_distribution(asked, self.decisions(), asked=self.asked)
        for _ in range(ROUNDS):
            if self._left_out is None or found.stopped:
                break
            rates = self._distribution()
            if abs((rates.forecast().holds or 0.0) - probability) <= NEAR_ENOUGH:
                break
            # Tightened models lie within the limits; the reserve is measured from the first, which lies at them.
            at_limits = rates.rates if at_limits is None else at_limits
            rates = replace(rates, rates=at_limits)
            wanted = rates.reserve(probability)
            if float(np.abs(wanted - reserve).max()) == 0.0:
                break  # out of reach: the reserve is as large as it can be, or none is needed
            reserve, before, left_out = wanted, self.problem.current(), self._left_out
            limits = rates.with_reserve(reserve)
            stricter = self.problem.with_constraints(limits)
            self._restart()
            again = fit(stricter, self.Z, precision=torch.float64, **options)
            reached, kept = again.assessment.kept, replace(again.assessment, system=asked)
            if not kept.kept:
                self.problem.assign(before)  # the last model has less of a margin, but keeps the limits
                self._left_out = left_out
                break
            self._cross_validate([limits], **of_folds)
            status = again.status if reached else choose_status(kept, converged=False, locally_infeasible=False)
            found = replace(
                again,
                status=status,
                assessment=kept,
                conflicts=[],
                history=[*found.history, *again.history],
                seconds=found.seconds + again.seconds,
                evaluations=found.evaluations + again.evaluations,
                value_evaluations=found.value_evaluations + again.value_evaluations,
                stopped=found.stopped or again.stopped,
                solver=result.solver,
                free=result.free,
                free_parameters=result.free_parameters,
            )
        self.margin = MarginResult(probability, margins.margins(reserve), reached)
        return found

    def decisions(self) -> Tensor:
        """Return the decisions of the module about the training rows."""
        if self._known_decisions is not None:
            return self._known_decisions()
        return decide(logits(self.problem.module, self.Z, self.problem.cells.n_labels), self.problem.threshold)

    def _restart(self) -> None:
        """Give the module the parameters and the precision from which the fit started."""
        self.problem.module.to(self._dtype)
        self.problem.assign(self._start)

    def _distribution(self, system: ConstraintSystem | None = None, place: int = 0) -> RateDistribution:
        assert self._left_out is not None
        system, decisions = self.problem.system if system is None else system, self.decisions()
        same = is_constant(self.problem, self.problem.module, self.Z, decisions)
        return rate_distribution(system, decisions, self._left_out[place], self.asked, constant=same)

    def _cross_validate(self, limits: Sequence[Sequence[Constraint]], **options: Any) -> None:
        """Set the decisions about each row of models that have not seen it, for each set of limits."""
        found = [torch.zeros(len(self.problem.cells), dtype=torch.int64) for _ in limits]
        weights = None if self.loss_weights is None else np.asarray(self.loss_weights)
        self._left_out = None
        for out in folds(self.problem.cells):
            inside = (~out).numpy()
            try:
                trial = on_rows(self.problem, self.problem.cells.take(~out), self._start, self._dtype)
                trial.with_constraints(self.problem.system.constraints)
            except ValueError as error:  # a rate is undefined in a fold
                self._reason = f"the rows are too few to be divided ({getattr(error, 'problem', error)})"
                return
            series = FitSeries(
                trial,
                self.Z[inside],
                loss_weights=None if weights is None else weights[inside],
                precision=torch.float64,
                **options,
            )
            for place, each in enumerate(limits):
                series.fit(each)
                z = logits(trial.module, self.Z[out.numpy()], trial.cells.n_labels)
                found[place][out] = decide(z, trial.threshold)
        self._left_out = found
