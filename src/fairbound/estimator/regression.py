"""The fit of a regression: the mechanism of a classifier, with other functions of a row in place of decisions.

All rows have one label, so a cell is a group.  Targets are centred and scaled for the fit: limits in the unit of y
become limits in standard deviations, and the record of the fit has the unit of y again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from fairbound.estimator.base_result import BaseResult
from fairbound.estimator.chosen_encoder import encode, encoded_names, fitted_encoder, warn_of_scales
from fairbound.estimator.correction import pose
from fairbound.estimator.cross_fitting import cross_fit
from fairbound.estimator.messages import FitFacts, has_run_out
from fairbound.estimator.models import (
    first_model,
    logits,
    model_inputs,
    new_generator,
    try_model,
    use_double,
)
from fairbound.estimator.monotone import check_slope, keep_signs
from fairbound.estimator.objectives import Reached
from fairbound.estimator.parameters import Parameters, ProgressPrinter, one_callback, stated_probability
from fairbound.estimator.reached import GroupResult, LimitResult
from fairbound.estimator.result import FitResult
from fairbound.estimator.rows import Data
from fairbound.estimator.scores import BaseScores
from fairbound.estimator.small_groups import settle_small_groups
from fairbound.estimator.unseen import ScoresOutlook, exact_losses
from fairbound.fairness import Cells, Constraint, ConstraintSystem, regression_loss, resolve_measure
from fairbound.sqp import Status
from fairbound.training import (
    Effort,
    Passes,
    TrainingProblem,
    TrainingResult,
    as_model,
    fit,
    loss_price,
)

Floats = NDArray[np.float64]

ONLY = "prediction"
"""The one label of all rows."""

QUANTILES = "Quantiles are those of the predictions without limits, and then fixed values"


@dataclass(frozen=True)
class Unit:
    """The centre and the scale of the targets: y = centre + scale · z; `degree` is that of the loss in y."""

    centre: float
    scale: float
    degree: int

    def of(self, limit: Constraint) -> float:
        """Return the unit of the bound of a limit."""
        power = {"decision": 0, "prediction": 1, "loss": self.degree}[resolve_measure(limit.measure).of]
        return self.scale**power

    def standard(self, limit: Constraint) -> Constraint:
        """Return a limit in standard deviations."""
        unit = self.of(limit)
        bound, at = limit.bound, limit.at
        if isinstance(bound, tuple):
            low, high = (None if side is None else side / unit for side in bound)
            bound = low, high
        elif bound is not None:
            bound = bound / unit
        if at is not None:
            at = tuple(each if isinstance(each, str) else (each - self.centre) / self.scale for each in at)
        return replace(limit, bound=bound, at=at)


class RegressionFitting:
    """The state of the fit of a regression.  The estimator `params` is not changed."""

    def __init__(self, params: Parameters, data: Data) -> None:
        self.params, self.loss = params, regression_loss(params.loss.function)
        cells = Cells.unlabelled(
            len(data.y), (ONLY,), data.groups, weights=data.cell_weights, groups=params.groups.combine
        )
        self.missing = {grouping.name: cells.missing_rows(grouping) for grouping in cells.groupings}
        cells, self.small = settle_small_groups(cells, params.constraints, params.groups.small, params.groups.min_size)
        seed = int(check_random_state(params.random_state).randint(2**31 - 1))
        self.encoder = fitted_encoder(params, data)
        Z: Any = encode(self.encoder, data.inputs)
        self.input_names = encoded_names(self.encoder, data.inputs, Z.shape[1])
        warn_of_scales(self.encoder, Z, self.input_names, stacklevel=3)
        self.base: BaseScores | None = None
        if params.base.classifier is not None:
            scores, fitted, _ = cross_fit(params, data, cells, self.encoder, seed, stacklevel=4)
            self.base = BaseScores(scores, fitted, flipped=False).monotone_as_base(params, self.encoder, data.inputs)
            Z = self.base.join(Z)
            self.input_names = self.base.names(self.input_names, (ONLY, ONLY))
        if cells.division is not None:
            Z, data = Z[cells.division.rows], data.divide(cells.division)
        self.data, y = data, data.y
        centre = self.loss.constant(y, data.loss_weights)
        spread = float(np.sqrt(np.average(np.square(y - centre), weights=data.loss_weights)))
        self.unit = Unit(centre, spread or 1.0, self.loss.degree)
        self.cells = replace(cells, targets=(y - centre) / self.unit.scale)
        self.generator = new_generator(params, seed)
        self.model = first_model(
            params.module,
            params.hidden,
            shape=Z.shape,
            n_labels=1,
            seed=seed,
            generator=self.generator,
            n_scores=0 if self.base is None else 1,
        )
        keep_signs(self.model, params, 1, self.base, self.encoder, data.inputs)
        self.Z = model_inputs(self.model, Z)
        try_model(self.model, self.Z)
        self.start = as_model(self.model).current()
        self.constraints = params.constraints
        if any(isinstance(value, str) for limit in self.constraints for value in limit.at or ()):
            self._fit(self._pose(()))
            predicted = self.unit.centre + self.unit.scale * logits(self.model, self.Z, 1)[:, 0]
            self.constraints = tuple(limit.at_quantiles(predicted) for limit in self.constraints)

    def _pose(self, constraints: Sequence[Constraint]) -> TrainingProblem:
        limits = [self.unit.standard(each) for each in constraints]
        given = self.params, self.model, limits, self.cells, self.base, self.Z.shape[1]
        return pose(*given, loss=self.loss, passes=Passes())

    def _fit(self, problem: TrainingProblem, callback: Any = None) -> TrainingResult:
        result = fit(
            problem,
            self.Z,
            loss_weights=self.data.loss_weights,
            generator=self.generator,
            precision=np.float64,
            objective="loss",
            effort=self.params.training,
            callback=callback,
        )
        use_double(self.model)
        if self.base is not None:
            check_slope(self.model, self.base.monotone)
        return result

    def run(self) -> FitResult:
        """Train, and return the record of the predictions for the training rows."""
        problem, params = self._pose(self.constraints), self.params
        progress = ProgressPrinter(int(params.verbose))
        callback = one_callback(params.callbacks, progress)
        result = self._fit(problem, callback)
        effort: Effort = replace(params.training, epochs=0)
        outlook = ScoresOutlook(problem, self.Z, self.data.loss_weights, self.start, objective="loss", effort=effort)
        probability = stated_probability(params.margin)
        if probability is not None:
            result = outlook.tighten(result, probability, callback=callback)
        progress.close()
        record, facts = self._record(problem, result)
        forecast = outlook.forecast(result) if params.training.forecast else None
        record = replace(record, forecast=self._in_unit(forecast), margin=self._in_unit(outlook.margin))
        facts.warn(record, stacklevel=4)
        return record

    def _in_unit(self, found: Any) -> Any:
        """Return a forecast, or a margin, in the unit of y."""
        if found is None:
            return None
        known, limits = {str(self.unit.standard(limit)): limit for limit in self.constraints}, []
        for each in found.limits:
            limit, names = known[each.limit], {"expected", "lower", "upper", "least", "most"} & set(vars(each))
            scaled = {name: self.unit.of(limit) * getattr(each, name) for name in names}
            limits.append(replace(each, limit=str(limit), **scaled))
        return replace(found, limits=tuple(limits))

    def _record(self, problem: TrainingProblem, result: TrainingResult) -> tuple[FitResult, FitFacts]:
        """Judge the predictions, computed as `predict` does; return the record, and the facts for its messages."""
        unit, y, weights = self.unit, self.cells.targets, self.data.loss_weights
        z, system = logits(self.model, self.Z, 1), problem.system
        measured: list[float] = []
        if system.constraints:
            measured = system.measured(system.sums_of(z, y, self.loss))
        loss_unit = unit.scale**unit.degree

        def mean_loss(found: Floats) -> float:
            return loss_unit * float(np.average(exact_losses(self.loss, found, y), weights=weights))

        loss, constant = mean_loss(z), mean_loss(np.zeros_like(z))
        gain = 1.0 - loss / (constant or 1.0)
        stated_rows = ConstraintSystem.build(self.constraints, self.cells).rows
        named = {row.text: stated.text for row, stated in zip(system.rows, stated_rows, strict=True)}
        result = replace(
            result,
            conflicts=tuple(named[each] for each in result.conflicts),
            iterations=[self._row_in_unit(row, system.texts) for row in result.iterations],
        )
        limits = []
        found = zip(self.constraints, system.constraints, measured, strict=True)
        for place, (stated, limit, value) in enumerate(found):
            price = None
            if result.multipliers is not None and limit.bound is not None and not isinstance(limit.bound, tuple):
                price = loss_price(result.assessment, place, result.multipliers) * loss_unit / unit.of(stated) + 0.0
            there = value * unit.of(stated)
            limits.append(LimitResult(str(stated), there, there, limit.keeps(value), price))
        status = result.status
        if all(each.kept for each in limits) and gain <= 1e-9:
            status = Status.DEGENERATE
        free = None if result.free is None else loss_unit * result.free.loss
        reached = Reached(f"{self.params.loss.function} loss", loss, constant, free, constant - loss)
        assessment = replace(result.assessment, accuracy=gain, constant_accuracy=0.0)
        rows = np.array([self.cells.n_rows])
        facts = FitFacts(
            self.constraints, (ONLY,), rows, rows, result.stopped, has_run_out(result.iterations, self.params.training)
        )
        stated_at = "; ".join(str(limit) for limit in self.constraints if limit.at is not None)
        record = FitResult(
            **{**result.facts(), "status": status, "least_loss": None},
            message=facts.message(replace(result, status=status, assessment=assessment), reached),
            rows=self.cells.n_rows,
            accuracy=gain,
            constant_accuracy=0.0,
            gain=gain,
            loss=loss,
            objective=loss_unit * result.assessment.objective,
            limits=tuple(limits),
            groups=tuple(self._groups(z, y)),
            small_groups=self.small,
            missing=self.missing,
            notes=() if self.constraints == self.params.constraints else (f"{QUANTILES}: {stated_at}.",),
            base=None if self.base is None else self._base_result(system, y),
            reached=reached,
            task="regression",
        )
        return record, facts

    def _row_in_unit(self, row: dict[str, Any], texts: Sequence[str]) -> dict[str, Any]:
        """Return a row of the history with the limits in the unit of y."""
        found = dict(row)
        for stated, text in zip(self.constraints, texts, strict=True):
            for prefix in ("", "violation of ", "multiplier of "):
                if f"{prefix}{text}" in found:
                    value = found.pop(f"{prefix}{text}")
                    found[f"{prefix}{stated}"] = value if prefix[:1] == "m" else value * self.unit.of(stated)
        return found

    def _base_result(self, system: ConstraintSystem, y: Any) -> BaseResult | None:
        """Compare with the base alone."""
        assert self.base is not None
        assert self.base.fitted is not None
        alone = (self.base.fitted.scale.unit * self.base.training - self.unit.centre) / self.unit.scale
        alone = self.cells.of_entries(alone)
        given = exact_losses(self.loss, alone, y), exact_losses(self.loss, 0.0 * alone, y)
        loss, constant = (float(np.average(each, weights=self.data.loss_weights)) for each in given)
        measured = system.measured(system.sums_of(alone, y, self.loss)) if system.constraints else ()
        units = [self.unit.of(limit) for limit in self.constraints]
        reached = tuple(value * unit for value, unit in zip(measured, units, strict=True))
        return BaseResult(self.base.name, self.base.scored, 1.0 - loss / constant, reached, None, {})

    def _groups(self, z: Floats, y: Any) -> list[GroupResult]:
        """Return the mean target, the mean prediction and the mean loss of each group."""
        cells, unit = self.cells, self.unit
        means = [unit.centre + unit.scale * each for each in (y, z[:, 0])]
        values = np.stack([*means, unit.scale**unit.degree * exact_losses(self.loss, z, y)], axis=1)
        names = "mean_target", "mean_prediction", "loss"
        sums = cells.sums(values)
        found = []
        for grouping in cells.groupings:
            member = grouping.membership[:-1]
            means = member @ sums / (member @ cells.totals)[:, None]
            sizes = cells.group_sizes(grouping, weightless=True)
            for group, size, row in zip(grouping.groups, sizes, means.tolist(), strict=True):
                found.append(GroupResult(grouping.name, group, size, {ONLY: dict(zip(names, row, strict=True))}))
        return found
