"""Limits on new rows, by cross-validation: the forecast of a fit, and its margin.

Five models are fitted like the whole one, each without a fifth of the rows of every cell, and decide the rows left out.
All these decisions, counted together, give the rates that the limits have on new rows.  They spread around the rates in
the population by chance, with the covariance of counts.

With a margin, a stricter model is fitted as well.  On the straight line between the two, the first model is taken whose
limits hold, by this forecast, with the wanted probability.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache, cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from fairbound._mapped import map_rows
from fairbound._sharing import gathered, joined, rows_before
from fairbound.estimator.models import logits, plain_model
from fairbound.evaluation import Forecast, MarginResult, RateDistribution, with_reserve
from fairbound.fairness import Cells, Constraint, ConstraintSystem, decide
from fairbound.training import Assessment, Effort, FitSeries, TrainingProblem, TrainingResult, on_rows

Decisions = NDArray[np.int64]

FOLDS = 5
"""Each fold is fitted to four fifths of the rows, so its models are nearly as good as the whole one."""

TOLD = 0.5
"""The share of what the folds lose that the whole model is expected to lose.

It has more rows than they have, and what they lose is known with an error.  That error and the error of the forecast
add up: a sample with little disparity by chance makes both large.  Half was nearest to the truth, among 0.4 to 1.
"""

STEPS = 32
"""The models on the line from the fit to the stricter one."""

TRIES = 3
"""The stricter models that are tried, each with half the reserve of the last, if no model keeps it."""

WORTH_IT = 0.5
"""A margin is dropped if its limits are more likely to break than to hold, although more was asked for."""

STOPPED, BROKEN = "the fit was stopped early.", "the limits are not even kept on the training rows."


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

    The rates of the whole model change by `TOLD` of what those of the folds change by.  The five folds show that change
    five times, and how sure it is.  The covariance of counts and that of the sum of the five add up.

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
    cells = system.cells
    counts = cells.decided(decisions)
    rates, spread = system.decided_rates(counts), system.rate_spread(judged, added=0.0 if constant else 0.5)
    shift = np.zeros_like(rates)
    if judged is not decisions:
        changed = np.flatnonzero(judged != decisions)  # few: other rows change no count

        def change(rows: NDArray[np.intp]) -> NDArray[np.float64]:
            part = cells.take(rows)
            return system.decided_rates(counts + part.decided(judged[rows]) - part.decided(decisions[rows])) - rates

        parts = [change(changed[out[changed]]) for out in outs]
        shift, spread = TOLD * change(changed), spread + FOLDS * np.cov(parts, rowvar=False)
    accuracy = cells.share(judged == cells.labels)
    return RateDistribution(system, rates, shift, spread, asked, accuracy)


def is_constant(problem: TrainingProblem, model: Any, Z: NDArray[np.float64], decisions: Decisions) -> bool:
    """Return whether a model decides alike for all inputs, and clearly so, which it will do on new rows as well.

    Its logits must be further from any other decision than they are from each other.
    """
    processes = problem.cells.processes
    decided = np.unique(np.concatenate(gathered(np.unique(decisions), processes)))
    if len(decided) > 1:
        return False
    found = logits(model, Z, problem.cells.n_labels)
    low, high = zip(*gathered((found.min(axis=0), found.max(axis=0)), processes), strict=True)
    width = float((np.max(high, axis=0) - np.min(low, axis=0)).max())
    towards = np.ones((1, 1)) if found.shape[1] == 1 else -2.0 * np.eye(found.shape[1])[decided]
    moved = (found + width * towards, found - width * towards)
    same = all(bool((decide(each, problem.threshold) == decisions).all()) for each in moved)
    return all(gathered(same, processes))


def folds(cells: Cells) -> list[NDArray[np.bool_]]:
    """Return a mask of the rows that each fold leaves out: a fifth of each cell, or of each label if rows are divided.

    The rows of a cell, in all processes, are dealt in turn, after a shuffle with a fixed seed; each cell begins with
    another fold.
    """
    own = cells.index if cells.division is None else cells.of_rows(cells.labels)
    strata = joined(own.astype(np.min_scalar_type(cells.n_cells)), cells.processes)
    order = np.random.default_rng(0).permutation(len(strata))
    order = order[np.argsort(strata[order], kind="stable")]
    dealt = np.empty(len(strata), dtype=np.int8)
    dealt[order] = np.arange(len(strata)) % FOLDS
    first = rows_before(len(own), cells.processes)
    here = dealt[first : first + len(own)]
    return [cells.of_entries(here == fold) for fold in range(FOLDS)]


Series = tuple[NDArray[np.bool_], FitSeries]
"""The rows that a fold leaves out, as a mask, and the fits to the other rows."""

Line = tuple[NDArray[np.bool_], FitSeries, NDArray[np.float64], NDArray[np.float64]]
"""The rows that a fold leaves out, its fits, and the parameters of its model and of its stricter one."""


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

    kind: ClassVar[Any] = np.int64  # of what `decide` returns

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
            Z = self.Z[inside] if issparse(self.Z) else map_rows(self.Z, np.flatnonzero(inside))
            yield out, FitSeries(trial, Z, **own, **self.options)

    def decide(self, problem: TrainingProblem, out: NDArray[np.bool_]) -> Decisions:
        """Return the decisions of the model of a fold about the rows that it leaves out."""
        return decide(logits(plain_model(problem), self.Z[out], problem.cells.n_labels), problem.threshold)

    def left_out(self, series: Iterable[Series], limits: Sequence[Sequence[Constraint]]) -> list[Decisions]:
        """Return the decisions about each row of models that have not seen it, for each set of limits."""
        found = [np.zeros(len(self.problem.cells), dtype=self.kind) for _ in limits]
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

    def tighten(self, result: TrainingResult, probability: float, **watching: Any) -> TrainingResult:
        """Give the limits room, until they hold on new rows with the wanted probability; return the result.

        A stricter model is fitted, and one in each fold.  The models on the straight line from the fit to it, in the
        space of parameters, are forecast by those at the same place on the lines of the folds.  The loosest model that
        has the probability is taken.  `watching` are the callback and the judge of the fit.
        """
        asked = self.problem.system
        if not (asked.n_rows and result.assessment.kept and self._trials) or result.stopped:
            return result
        series = [(out, each, each.fit(asked.constraints).parameters) for out, each in self.series(result)]
        plain, chance = self._along([(out, each, loose, loose) for out, each, loose in series], 0.0)
        self._present, none = plain, MarginResult(probability, plain.margins(np.zeros(asked.n_rows)), chance)
        self.margin = none
        if chance >= probability:
            return result
        whole, reserve = self._continued(result, watching), plain.reserve()

        def usable(found: Assessment) -> bool:
            return found.kept and (result.assessment.degenerate or not found.degenerate)

        for _ in range(TRIES):
            limits = with_reserve(asked, reserve)
            strict = whole.fit(limits)
            if strict.stopped or usable(strict.assessment):
                break
            reserve = 0.5 * reserve
        spent: dict[str, Any] = {
            "iterations": [*result.iterations, *strict.iterations],
            "seconds": result.seconds + strict.seconds,
            "passes": result.passes + strict.passes,
            "value_passes": result.value_passes + strict.value_passes,
        }
        unchanged = replace(result, stopped=strict.stopped, **spent)
        self.problem.assign(result.parameters)
        if strict.stopped or not usable(strict.assessment):
            self.margin = replace(none, dropped=True)
            return unchanged
        lines = [(out, each, loose, each.fit(limits).parameters) for out, each, loose in series]

        @cache
        def at(step: int) -> tuple[TrainingResult, RateDistribution, float]:
            return whole.between(result, strict, step / STEPS), *self._along(lines, step / STEPS)

        _, last, most = at(STEPS)
        if most < min(probability, max(WORTH_IT, chance)):
            self.problem.assign(result.parameters)
            self.margin = replace(none, most=most, cost=plain.accuracy - last.accuracy, dropped=True)
            return unchanged
        few, many = 0, STEPS
        while many - few > 1:
            middle = (few + many) // 2
            few, many = (few, middle) if at(middle)[2] >= min(probability, most) else (middle, many)
        while many < STEPS and not usable(at(many)[0].assessment):
            many += 1
        model, self._present, _ = at(many)
        self.problem.assign(model.parameters)
        margins = plain.margins(many / STEPS * reserve)
        self.margin = MarginResult(probability, margins, most, plain.accuracy - self._present.accuracy)
        return replace(model, **spent)

    def _along(self, lines: Sequence[Line], share: float) -> tuple[RateDistribution, float]:
        """Return the rates of the model in the problem on new rows, by the models at this share of the folds' lines.

        The second value is the probability that all limits hold.
        """
        decided = np.zeros(len(self.problem.cells), dtype=self.kind)
        for out, each, loose, strict in lines:
            each.problem.assign(each.along(loose, strict, share))
            decided[out] = self.decide(each.problem, out)
        rates = self._rates(self.problem.system, decided)
        return rates, rates.forecast().chance

    def _continued(self, result: TrainingResult, watching: dict[str, Any]) -> FitSeries:
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
            neighbour=present,
            **{**self.options, **watching, "effort": effort},
        )
        model.set_precision(np.float64)
        self.problem.assign(present)
        return series

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


class ScoresOutlook(Outlook):
    """The forecast and the margin where limits are about scores, from the scores of the rows left out."""

    kind: ClassVar[Any] = np.float64

    def decide(self, problem: TrainingProblem, out: NDArray[np.bool_]) -> Any:
        """Return the scores of the model of a fold for the rows that it leaves out."""
        return logits(plain_model(problem), self.Z[out], problem.cells.n_labels)[:, 0]

    def _rates(self, system: ConstraintSystem, left_out: Any) -> RateDistribution:
        cells, loss, judged = system.cells, self.problem.loss, left_out[:, None]
        y = cells.labels if cells.targets is None else cells.targets
        z = logits(plain_model(self.problem), self.Z, cells.n_labels)

        def rates(found: NDArray[np.float64]) -> NDArray[np.float64]:
            return system.decided_rates(system.sums_of(found, y, loss))

        whole = rates(z)
        parts = [rates(np.where(out[:, None], judged, z)) - whole for out, _ in self._trials]
        spread = system.spread_of_means(judged, y, loss) + FOLDS * np.cov(parts, rowvar=False)
        both = np.stack([exact_losses(loss, each, y) for each in (judged, 0.0 * judged)])
        own, constant = cells.total(both @ cells.weights).tolist()
        removed = 1.0 - own / (constant or 1.0)
        return RateDistribution(system, whole, TOLD * (rates(judged) - whole), spread, self.asked, removed)


def exact_losses(loss: Any, z: NDArray[np.float64], y: Any) -> NDArray[np.float64]:
    """Return the loss of each row, as limits are judged by it."""
    found: NDArray[np.float64] = getattr(loss, "exact", loss.values)(z, y)
    return found
