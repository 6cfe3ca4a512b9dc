"""Limits on new rows, by cross-validation: the forecast of a fit, and its margin.

Five models are fitted like the whole one, each without a fifth of the rows of every cell, and decide the rows left out.
All these decisions, counted together, give the rates that the limits have on new rows.  They spread around the rates in
the population by chance, with the covariance of counts.

With a margin the bounds are tightened until the limits hold, by this forecast, with the wanted probability.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairbound.estimator.models import logits, plain_model
from fairbound.evaluation import Forecast, MarginResult, RateDistribution, with_reserve
from fairbound.fairness import Cells, Constraint, ConstraintSystem, decide, decision_indicators
from fairbound.training import (
    Effort,
    FitSeries,
    TrainingProblem,
    TrainingResult,
    choose_status,
    on_rows,
)

Decisions = NDArray[np.int64]

FOLDS = 5
"""Each fold is fitted to four fifths of the rows, so its models are nearly as good as the whole one."""

ROUNDS = 3
"""The most fits with a margin.  The first changes which pairs of groups bind; the others correct what it missed."""

NEAR_ENOUGH = 0.05
"""A forecast may miss the probability by this much before a further round."""

STOPPED, BROKEN = "the fit was stopped early.", "the limits are not even kept on the training rows."


def exact_rates(system: ConstraintSystem, decisions: Decisions) -> NDArray[np.float64]:
    """Return the rates of decisions about the rows of a system."""
    counts = system.cells.sums(decision_indicators(decisions, system.cells.outcomes))
    return system.decided_rates(counts)


def rate_distribution(
    system: ConstraintSystem,
    decisions: Decisions,
    left_out: Decisions | None = None,
    outs: Sequence[NDArray[np.bool_]] = (),
    asked: int | None = None,
    *,
    constant: bool = False,
) -> RateDistribution:
    """Return the distribution of the rates on new rows.

    What a fit owes to the chance of its rows is inversely proportional to their number.  So the rates of the whole
    model fall by four fifths of what those of the folds, fitted to four fifths of the rows, fall by.  The five folds
    show that shift five times, and how sure it is.

    Parameters
    ----------
    system : ConstraintSystem
    decisions : array of shape (n,)
        The decisions of the model about the rows of the system.
    left_out : array of shape (n,), optional
        The decisions of the models that have not seen the row; None for rows not trained on.
    outs : sequence of arrays of shape (n,)
        For each fold, a mask of the rows that it leaves out.
    asked : int, optional
        The limits after the first `asked` ones have no forecast.
    constant : bool
        Whether the model decides alike for every row that there may be.
    """
    judged = decisions if left_out is None or constant else left_out
    rates = exact_rates(system, decisions)
    indicators = decision_indicators(judged, system.cells.outcomes)
    spread = system.rate_spread(indicators, added=0.0 if constant else 0.5)
    shift = (1 - 1 / FOLDS) * (exact_rates(system, judged) - rates)
    if judged is not decisions:
        parts = [exact_rates(system, np.where(out, judged, decisions)) - rates for out in outs]
        spread = spread + (1 - 1 / FOLDS) ** 2 * FOLDS * np.cov(parts, rowvar=False)
    return RateDistribution(system, rates, shift, spread, asked)


def is_constant(problem: TrainingProblem, model: Any, Z: NDArray[np.float64], decisions: Decisions) -> bool:
    """Return whether a model decides alike for all inputs, and clearly so, which it will do on new rows as well.

    Its logits must be further from any other decision than they are from each other.
    """
    if bool((decisions != decisions[0]).any()):
        return False
    found = logits(model, Z, problem.cells.n_labels)
    width = float(np.ptp(found, axis=0).max())
    towards = np.ones((1, 1)) if found.shape[1] == 1 else -2.0 * np.eye(found.shape[1])[decisions[:1]]
    moved = (found + width * towards, found - width * towards)
    return all(bool((decide(each, problem.threshold) == decisions).all()) for each in moved)


def folds(cells: Cells) -> list[NDArray[np.bool_]]:
    """Return a mask of the rows that each fold leaves out: a fifth of each cell, or of each label if rows are divided.

    The rows of a cell are dealt in turn, after a shuffle with a fixed seed; each cell begins with another fold.
    """
    strata = cells.index if cells.division is None else cells.of_rows(cells.labels)
    order = np.random.default_rng(0).permutation(len(strata))
    order = order[np.argsort(strata[order], kind="stable")]
    dealt = np.empty(len(strata), dtype=np.int64)
    dealt[order] = np.arange(len(strata)) % FOLDS
    return [cells.of_entries(dealt == fold) for fold in range(FOLDS)]


Series = tuple[NDArray[np.bool_], FitSeries]
"""The rows that a fold leaves out, as a mask, and the fits to the other rows."""


class Outlook:
    """The forecast and the margin of a fit.

    Parameters
    ----------
    problem, Z, loss_weights
        The problem, inputs and weights of the fit.
    start : array
        The parameters from which the fit starts, and each fold.
    asked : int, optional
        Only the first `asked` limits get a forecast and a margin; by default all.
    decisions : function, optional
        Returns the decisions of the model about the training rows, if somebody computes them anyway.
    options
        The objective and the effort of the fit.

    Attributes
    ----------
    margin : MarginResult or None
        Set by `tighten`.
    too_few : str
        Why the rows cannot be divided into folds; empty if they can.
    """

    def __init__(
        self,
        problem: TrainingProblem,
        Z: NDArray[np.float64],
        loss_weights: Any,
        start: NDArray[np.float64],
        asked: int | None = None,
        decisions: Callable[[], Decisions] | None = None,
        **options: Any,
    ) -> None:
        self.problem, self.Z, self.asked, self.options = problem, Z, asked, options
        self.weights = None if loss_weights is None else np.asarray(loss_weights)
        self._start, self._dtype, self._known_decisions = start, problem.model.dtype, decisions
        self.margin: MarginResult | None = None
        self._present: RateDistribution | None = None
        self.too_few = ""

    @cached_property
    def _trials(self) -> list[tuple[NDArray[np.bool_], TrainingProblem]]:
        """Return the rows that each fold leaves out, and the problem for the others; none if a rate is undefined."""
        try:
            return [
                (out, on_rows(self.problem, self.problem.cells.take(~out), self._start, self._dtype))
                for out in folds(self.problem.cells)
            ]
        except ValueError as error:
            self.too_few = f"the rows are too few to be divided ({getattr(error, 'problem', error)})"
            return []

    def series(self, near: TrainingResult | None = None) -> Iterator[Series]:
        """Yield the fits of each fold, which begin without limits; linear ones near the models of a fit, if given.

        Networks begin anew, since they would keep what they have learnt of the rows left out.
        """
        near = None if self.problem.model.linear is None else near
        for out, trial in self._trials:
            inside = ~out
            weights = None if self.weights is None else self.weights[inside]
            own: dict[str, Any] = {"loss_weights": weights, "precision": np.float64, "priced": False}
            if near is not None and near.free_parameters is not None:
                trial.assign(near.free_parameters)
                own["neighbour"] = near.parameters
            yield out, FitSeries(trial, self.Z[inside], **own, **self.options)

    def decide(self, problem: TrainingProblem, out: NDArray[np.bool_]) -> Decisions:
        """Return the decisions of the model of a fold about the rows that it leaves out."""
        return decide(logits(plain_model(problem), self.Z[out], problem.cells.n_labels), problem.threshold)

    def left_out(self, series: Iterable[Series], limits: Sequence[Sequence[Constraint]]) -> list[Decisions]:
        """Return the decisions about each row of models that have not seen it, for each set of limits."""
        found = [np.zeros(len(self.problem.cells), dtype=np.int64) for _ in limits]
        for out, each in series:
            for decisions, constraints in zip(found, limits, strict=True):
                each.fit(constraints)
                decisions[out] = self.decide(each.problem, out)
        return found

    def forecast(self, result: TrainingResult) -> Forecast | None:
        """Return the forecast of a fit, whose model is in the problem; None without limits."""
        if not self.problem.system.constraints or self.asked == 0:
            return None
        if self._present is not None and result.assessment.kept and not result.stopped:
            return self._present.forecast()
        return self.forecast_all([result])[0]

    def forecast_all(self, results: Sequence[TrainingResult]) -> list[Forecast]:
        """Return the forecast of the model of each result.

        For the models of a frontier, each fold fits a frontier of its own.
        """
        found = [Forecast(reason=STOPPED if each.stopped else BROKEN) for each in results]
        told = [place for place, each in enumerate(results) if each.assessment.kept and not each.stopped]
        limits = [results[place].assessment.system.constraints for place in told]
        for place, decisions in zip(
            told, self.left_out(self.series(results[told[0]]), limits) if told else (), strict=True
        ):
            system = results[place].assessment.system
            self.problem.assign(results[place].parameters)
            found[place] = Forecast(reason=self.too_few) if self.too_few else self._rates(system, decisions).forecast()
        return found

    def tighten(self, result: TrainingResult, probability: float, callback: Any = None) -> TrainingResult:
        """Train for tightened bounds until the limits as asked hold with the wanted probability; return the result.

        All fits start from the last model.  The models of the folds differ by chance, so the shift from training rows
        to new rows is the mean of those of all rounds.  A margin that makes the limits less likely to hold is dropped.
        """
        asked = self.problem.system
        if not (asked.n_rows and result.assessment.kept and self._trials) or result.stopped:
            return result
        series = list(self.series(result))
        decided = self.left_out(series, [asked.constraints])[0]
        plain = self._present = self._rates(asked, decided)
        accuracy, shifts, reserve = self._accuracy(decided), [plain.shift], np.zeros(asked.n_rows)
        whole, found, reached, given, share = None, result, True, probability, 1.0
        without = self.problem.current()
        for _ in range(ROUNDS):
            holds = self._present.forecast().holds or 0.0
            if found.stopped or abs(holds - probability) <= NEAR_ENOUGH or given < probability - NEAR_ENOUGH:
                break  # near enough, or out of reach: the reserve is as large as it can be
            # Tightened models lie within the limits; the reserve is measured from the first, which lies at them.
            wanted, given = replace(plain, shift=np.mean(shifts, axis=0)).reserve(probability)
            wanted = reserve + share * (wanted - reserve)
            if np.array_equal(wanted, reserve):
                break  # none is needed
            limits, before = with_reserve(asked, wanted), self.problem.current()
            whole = whole or self._continued(result, callback)
            again = whole.fit(limits)
            kept = replace(again.assessment, system=asked)
            reached = again.assessment.kept and share == 1.0
            if again.stopped or not kept.kept or (kept.degenerate and not found.assessment.degenerate):
                self.problem.assign(before)  # the last model has less of a margin, but keeps the limits; try half of it
                found, reached, given, share = replace(found, stopped=again.stopped), False, probability, 0.5 * share
                continue
            reserve, decided = wanted, self.left_out(series, [limits])[0]
            self._present = self._rates(asked, decided)
            shifts.append(self._present.shift)
            found = replace(
                again,
                status=again.status if reached else choose_status(kept, converged=False, locally_infeasible=False),
                assessment=kept,
                conflicts=(),
                iterations=[*found.iterations, *again.iterations],
                seconds=found.seconds + again.seconds,
                passes=found.passes + again.passes,
                value_passes=found.value_passes + again.value_passes,
                solver=result.solver,
            )
        cost = accuracy - self._accuracy(decided)
        if self._present.forecast().chance < plain.forecast().chance:
            self.problem.assign(without)
            self._present, found, reserve, cost = plain, result, np.zeros_like(reserve), 0.0
        self.margin = MarginResult(probability, plain.margins(reserve), reached, cost)
        return found

    def _continued(self, result: TrainingResult, callback: Any) -> FitSeries:
        """Return further fits of the whole model, from the model without limits that the fit has found."""
        present, model = self.problem.current(), self.problem.model
        model.set_precision(self._dtype)
        self.problem.assign(self._start if result.free_parameters is None else result.free_parameters)
        effort = replace(self.options.get("effort") or Effort(), free=False)
        series = FitSeries(
            self.problem,
            self.Z,
            loss_weights=self.weights,
            precision=np.float64,
            callback=callback,
            neighbour=present,
            **{**self.options, "effort": effort},
        )
        model.set_precision(np.float64)
        self.problem.assign(present)
        return series

    def _accuracy(self, decided: Decisions) -> float:
        cells = self.problem.cells
        return float(cells.weights @ (decided == cells.labels) / cells.weights.sum())

    def _rates(self, system: ConstraintSystem, left_out: Decisions) -> RateDistribution:
        if self._known_decisions is not None:
            decisions = self._known_decisions()
        else:
            decisions = decide(
                logits(plain_model(self.problem), self.Z, self.problem.cells.n_labels), self.problem.threshold
            )
        same = is_constant(self.problem, plain_model(self.problem), self.Z, decisions)
        outs = [out for out, _ in self._trials]
        return rate_distribution(system, decisions, left_out, outs, self.asked, constant=same)
