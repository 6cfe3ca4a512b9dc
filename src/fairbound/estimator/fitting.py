"""One fit: from the user's rows to a trained model and the record of its decisions.

cells      assign rows to (group, label), and apply the policy for small groups
encode     convert the inputs to numbers, with an encoding learnt from the training rows
train      train a model under the limits
confirm    count the decisions of `predict`; a limit that rounding has broken there is repaired or reported
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from fairbound._errors import InputError, argument, together, two_classes_only
from fairbound._journal import digest
from fairbound._sharing import gathered
from fairbound.estimator.base_result import BaseResult
from fairbound.estimator.certified import Certification, forecast_rows, with_certificate
from fairbound.estimator.chosen_encoder import encode, encoded_names, fitted_encoder, warn_of_scales
from fairbound.estimator.correction import pose
from fairbound.estimator.forms import choose_form
from fairbound.estimator.further_limits import floors_in_words, floors_of, lifted_rate, quota_in_words, quota_of
from fairbound.estimator.messages import FitFacts, erased_classes, has_run_out
from fairbound.estimator.models import (
    copied_model,
    first_model,
    logits,
    model_inputs,
    new_generator,
    try_model,
    use_double,
)
from fairbound.estimator.monotone import check_slope, keep_signs
from fairbound.estimator.objectives import Objective, Stakes
from fairbound.estimator.parameters import Parameters, ProgressPrinter, class_weights, one_callback, stated_probability
from fairbound.estimator.reached import group_results, limit_results
from fairbound.estimator.result import FitResult
from fairbound.estimator.rows import Data
from fairbound.estimator.scores import fit_scores, moved_columns
from fairbound.estimator.small_groups import SmallGroup, settle_small_groups
from fairbound.estimator.targets import warn_if_guessed
from fairbound.estimator.unseen import Outlook, ScoresOutlook
from fairbound.estimator.watched import Watched, count_labels, validation_loss, watched_columns
from fairbound.evaluation import Forecast, Tally
from fairbound.fairness import Cells, Constraint, decide
from fairbound.training import (
    Assessment,
    Effort,
    FrontierPoint,
    Passes,
    TrainingProblem,
    TrainingResult,
    as_model,
    choose_status,
    fit,
    frontier,
    gap_sums,
    probability_at,
    rates_on_a_handful,
)

Floats = NDArray[np.float64]


class Fitting:
    """The state of one fit.  The estimator `params` is not changed.

    For a warm start, `encoder` and `model` are those of the last fit.
    """

    def __init__(self, params: Parameters, data: Data, passes: Passes, encoder: Any = None, model: Any = None) -> None:
        self.params, self.passes, self.threshold = params, passes, float(params.threshold)
        processes = passes.processes
        self.data, self.classes = data, np.unique(np.concatenate(gathered(np.unique(data.y), processes)))
        cells = Cells.build(
            data.y,
            data.groups,
            weights=data.cell_weights,
            groups=params.groups.combine,
            pos_label=params.pos_label,
            processes=processes,
        )
        self.constraints = params.constraints
        if params.pos_label is None:
            warn_if_guessed(cells.classes, self.constraints, who=type(params).__name__, stacklevel=3)
        self.small: tuple[SmallGroup, ...] = ()
        # Before small groups are left out: their groups are known.
        self.missing = {grouping.name: cells.missing_rows(grouping) for grouping in cells.groupings}
        if self.constraints:
            with together(processes):
                cells, self.small = settle_small_groups(
                    cells, self.constraints, params.groups.small, params.groups.min_size
                )
        self.cells = cells
        seed = gathered(int(check_random_state(params.random_state).randint(2**31 - 1)), processes)[0]
        self.encoder = encoder if model is not None else fitted_encoder(params, data, processes)
        with together(processes):
            self.Z: Any = encode(self.encoder, data.inputs)
        self.input_names = encoded_names(self.encoder, data.inputs, self.Z.shape[1])
        warn_of_scales(self.encoder, self.Z, self.input_names, stacklevel=3)
        self.base = fit_scores(params, data, cells, self.encoder, seed, stacklevel=3)
        self.data = data if cells.division is None else data.divide(cells.division)
        self.objective = Objective.of(params.objective)
        self.objective.check(cells.n_labels, params.loss.class_weight)
        self.loss_weights, self.stakes = self._weighed(cells.labels, self.data)
        if self.stakes is not None:
            self.cells = replace(self.cells, targets=self.stakes.targets)
        self.quota = quota_of(params.select, self.cells)
        if self.base is not None:
            if params.base.correction == "best" and self.base.posteriors:
                given = self.cells, self.constraints, self.loss_weights, self.quota
                self.base = choose_form(params, self.base, self.Z, *given, passes=passes)
            self.Z = self.base.join(self.Z)
            self.input_names = self.base.names(self.input_names, cells.classes)
        if cells.division is not None:
            self.Z = self.Z[cells.division.rows]
        self.n_inputs = self.Z.shape[1]
        self._known: tuple[bytes, Floats, NDArray[np.int64]] | None = None  # parameters, logits, decisions
        self.generator = new_generator(params, seed)
        self.model = (
            copied_model(model, params.training.solver)
            if model is not None
            else first_model(
                params.module,
                params.hidden,
                shape=(int(cells.sizes.sum()), self.n_inputs),
                n_labels=cells.n_labels,
                seed=seed,
                generator=self.generator,
                n_scores=0 if self.base is None else self.base.training.shape[1],
            )
        )
        keep_signs(self.model, params, cells.n_labels, self.base, self.encoder, data.inputs)
        self.Z = model_inputs(self.model, self.Z)
        self.rows: dict[str, Any] = {"X": self.Z, "loss_weights": self.loss_weights}
        if processes is not None:
            use_double(self.model)  # in single precision the sums would depend on how the rows are divided
        if self.base is not None and not len(params.hidden) and self._stays:
            self.base = self.base.holding(self._pose(()), self.Z, self.loss_weights)
        self.problem = self._pose(self.constraints)
        try_model(self.model, self.Z)
        self.start = self.problem.current()
        self._add_floors()
        self._add_quota()

    def _weighed(self, labels: NDArray[np.int64], rows: Data) -> tuple[Floats, Stakes | None]:
        """Return the weights of rows in the loss, and what they have at stake."""
        weighting, weights = self.params.loss.class_weight, rows.loss_weights
        if weighting is not None:
            weights = weights * class_weights(weighting, self.cells)[labels]
        if not self.objective.has_stakes:
            return weights, None
        stakes = self.objective.stakes(labels, weights, rows.gains, self.cells.n_labels, self.cells.total)
        return stakes.weights, stakes

    def _add_quota(self) -> None:
        """With `select`, let the threshold follow the quota; it comes after the limits, and is none of them."""
        if self.quota is not None:
            free = self._pose(())
            fit(free, **self.rows, effort=self._effort(), generator=self.generator)
            self.threshold = probability_at(free, free.rows(self.Z), self.quota.share)
            self.constraints += (self.quota,)
            self.problem = self._pose(self.constraints)

    def _pose(self, constraints: tuple[Constraint, ...]) -> TrainingProblem:
        """Return the problem of training the model under these limits."""
        given = self.params, self.model, constraints, self.cells, self.base, self.n_inputs
        return pose(*given, threshold=self.threshold, passes=self.passes)

    def _add_floors(self) -> None:
        """With `no_group_worse`: train without limits, make that model's rates lower limits, and start from it."""
        lifted = lifted_rate(self.params.groups.no_group_worse)
        self.floors: tuple[Constraint, ...] = ()
        if lifted is None or not self.constraints:
            return
        if self.cells.n_labels != 2:  # with more classes, a rate can only rise at the cost of another one
            stated = argument("groups.no_group_worse", self.params.groups.no_group_worse)
            raise two_classes_only(stated, self.cells.n_labels, "Limit the rates that matter from below instead.")
        options: dict[str, Any] = {"effort": self._effort(), "generator": self.generator}
        free = fit(self._pose(()), **self.rows, **options)
        use_double(self.model)
        self.floors = floors_of(self._count(free.assessment).counts, self.cells, lifted)
        self.constraints += self.floors
        self.problem = self._pose(self.constraints)

    def run(self, validation: Data | None = None, calibration: Data | None = None) -> FitResult:
        """Train, count the decisions, and return the record.  With calibration rows, train for `confidence`."""
        watched, columns, judge = None, None, None
        if validation is not None:
            watched = Watched.build(self.constraints, self._tally(validation), self._numbers(validation))
            columns, cells = partial(watched_columns, self.problem, watched), watched.tally.cells
            self.passes.others = digest(watched.inputs, cells.index, cells.weights, validation.loss_weights)
            if self.params.training.early_stopping:
                labels = cells.of_rows(cells.labels)
                weights, stakes = self._weighed(labels, validation)
                targets = labels if stakes is None else stakes.targets
                judge = partial(validation_loss, self.problem, watched.inputs, targets, weights, cells.total)
        progress = ProgressPrinter(int(self.params.verbose))
        options: dict[str, Any] = {
            "objective": self.objective.of_training,
            "effort": self._effort(),
            "callback": one_callback(self.params.callbacks, progress, columns),
            "judge": judge,
        }
        asked = len(self.params.constraints)
        known = self.decisions if self.params.training.device is None else None  # the fit counts these decisions anyway
        of_folds = {"objective": self.objective.of_training, "effort": replace(self._effort(), epochs=0)}
        scores = not self.problem.system.counts_decisions
        if scores and (validation is not None or calibration is not None or not self.problem.system.has_means):
            raise InputError(
                "{limits}: not all of these are about decisions.",
                "Limit means, losses and selection rates only, without {eval_set=} and {confidence=}.",
                limits=", ".join(self.problem.system.texts),
            )
        kind = ScoresOutlook if scores else Outlook
        outlook = kind(self.problem, self.Z, self.loss_weights, self.start, asked, known, **of_folds)
        choice, calibrated = None, None
        if calibration is None:
            result = fit(self.problem, **self.rows, generator=self.generator, precision=np.float64, **options)
            probability = stated_probability(self.params.margin)
            if probability is not None:
                result = outlook.tighten(result, probability, callback=options["callback"], judge=judge)
        else:
            inputs, tally = self._numbers(calibration), self._tally(calibration)
            calibrated = partial(forecast_rows, self.problem, self.model, inputs, tally, self.params.constraints)
            certification = Certification(self.params, self.problem, tally)
            result, choice = certification.choose(outlook, inputs, generator=self.generator, **options)
        progress.close()
        record, facts = self._finish(result, watched)
        if choice is not None:
            record = with_certificate(record, choice)
        forecast = None
        if self.params.training.forecast:
            forecast = outlook.forecast(result) if calibrated is None else calibrated()
        record = replace(record, forecast=forecast, margin=outlook.margin)
        facts.warn(record, stacklevel=4)
        return record

    def frontier(self, bounds: Sequence[float], position: int) -> list[tuple[FrontierPoint, Fitting, FitResult]]:
        """Train for several bounds of one limit; return the fit and the record of each, from loose to strict."""
        progress = ProgressPrinter(int(self.params.verbose))
        options = {"objective": self.objective.of_training, "effort": self._effort()}
        points = frontier(
            self.problem,
            bounds=bounds,
            position=position,
            **self.rows,
            precision=np.float64,
            generator=self.generator,
            callback=one_callback(self.params.callbacks, progress),
            **options,
        )
        progress.close()
        found = []
        for point, forecast in zip(points, self._forecasts(points.points, **options), strict=True):
            fitting = copy.copy(self)
            fitting.constraints = point.result.assessment.system.constraints
            fitting.model = copy.deepcopy(self.model)
            as_model(fitting.model).assign(point.result.parameters)
            record, _ = fitting._finish(point.result)
            found.append((point, fitting, replace(record, forecast=forecast)))
        return found

    def _forecasts(self, points: Sequence[FrontierPoint], **options: Any) -> Sequence[Forecast | None]:
        if not self.params.training.forecast:
            return [None] * len(points)
        asked = len(self.params.constraints)
        options["effort"] = replace(options["effort"], epochs=0)
        outlook = Outlook(self.problem, self.Z, self.loss_weights, self.start, asked, **options)
        return outlook.forecast_all([each.result for each in points])

    def _finish(
        self,
        result: TrainingResult,
        watched: Watched | None = None,
    ) -> tuple[FitResult, FitFacts]:
        """Count the decisions of the trained model; return the record, and the facts for its messages."""
        use_double(self.model)
        if self.base is not None:
            check_slope(self.model, self.base.monotone)
        reached = None
        if self.stakes is not None:
            reached = self.stakes.reached(self.objective.text, result.assessment, result.free)
        if self._weighs_classes and result.free is not None:
            result = replace(result, free=replace(result.free, accuracy=result.free.counted_accuracy))
        assessment, notes = self._confirm(result)
        if assessment.kept != result.assessment.kept:
            status = choose_status(assessment, converged=False, locally_infeasible=False)
            result = replace(result, status=status, conflicts=())
        there = None
        if watched is not None:
            there = decide(logits(self.model, watched.inputs, self.cells.n_labels), self.problem.threshold)
        facts = self._facts(result, assessment)
        notes = [*notes, *facts.notes(), *([floors_in_words(self.floors)] if self.floors else [])]
        if self.passes.processes is not None:
            notes.append(f"{self.passes.processes.count} processes shared the fit, each with its own rows.")
        if self.quota is not None:
            notes.append(quota_in_words(self.quota, self.cells, assessment))
        said = facts.message(replace(result, assessment=assessment), reached)
        record = self._record(result, assessment, watched, there, notes, said)
        return replace(record, reached=reached), facts

    @property
    def _weighs_classes(self) -> bool:
        """Whether the accuracies of training have other weights than those of the rows, which are then counted."""
        return self.params.loss.class_weight is not None or self.stakes is not None

    def _effort(self) -> Effort:
        """Return the stated effort; the correction of a given base is not trained without limits."""
        stated = self.params.training
        return replace(stated, free=False) if self._stays else stated

    @property
    def _stays(self) -> bool:
        """Whether only limits may change the decisions of the base."""
        return self.base is not None and not self.objective.has_stakes and self.base.stays(float(self.params.threshold))

    def _numbers(self, data: Data) -> Floats:
        """Return the inputs of the model for rows that are not trained on."""
        Z = model_inputs(self.model, encode(self.encoder, data.inputs))
        return Z if self.base is None else self.base.join_new(Z, data.inputs, data.base_score)

    def decisions(self) -> NDArray[np.int64]:
        """Return the class indices of the training rows, computed as `predict` does."""
        return self._outputs()[1]

    def _outputs(self) -> tuple[Floats, NDArray[np.int64]]:
        """Return the logits of the training rows and the decisions, computed as `predict` does; the last are kept."""
        w = as_model(self.model).digest()
        if self._known is None or self._known[0] != w:
            z = logits(self.model, self.Z, self.cells.n_labels)
            self._known = w, z, decide(z, self.problem.threshold)
        return self._known[1:]

    def _tally(self, data: Data) -> Tally:
        """Return a tally of rows that are not trained on."""
        return count_labels(
            data.y,
            data.groups,
            classes=self.classes,
            weights=data.cell_weights,
            combine=self.params.groups.combine,
            pos_label=self.cells.classes[1] if self.cells.n_labels == 2 else None,
            small=self.small,
            processes=self.passes.processes,
        )

    def _confirm(self, result: TrainingResult) -> tuple[Assessment, list[str]]:
        """Count the decisions of `predict`; add a note if rounding has broken a limit there."""
        found = self._count(result.assessment)
        broken = result.assessment.kept and not found.kept
        note = "Training kept every limit, but rounding in predict changes a decision and breaks a limit."
        return found, [note] if broken else []

    def _count(self, assessment: Assessment, decisions: NDArray[np.int64] | None = None) -> Assessment:
        decisions = self.decisions() if decisions is None else decisions
        cells, weights, right = self.cells, self.data.loss_weights, decisions == self.cells.labels
        if self._weighs_classes:
            of_classes = cells.total(np.bincount(cells.labels, weights, cells.n_labels))
            assessment = replace(assessment, constant_accuracy=float(of_classes.max() / of_classes.sum()))
        if assessment.exact_sums is not None:
            given = self._outputs()[0], cells.labels, self.problem.loss
            assessment = replace(assessment, exact_sums=assessment.system.sums_of(*given))
        return replace(
            assessment,
            accuracy=cells.share(right, weights),
            counts=cells.decided(decisions),
        )

    def _facts(self, result: TrainingResult, assessment: Assessment) -> FitFacts:
        cells = self.cells
        decided, labelled = cells.rows_by_class(self.decisions()), cells.rows_by_class(cells.labels)
        free = None if result.free is None else result.free.counts
        return FitFacts(
            constraints=self.constraints,
            classes=self.cells.classes,
            decided=decided,
            labelled=labelled,
            erased=erased_classes(decided, labelled, free),
            stopped=result.stopped,
            ran_out=has_run_out(result.iterations, self.params.training),
            handfuls=tuple(rates_on_a_handful(assessment, result.free)),
        )

    def _record(
        self,
        result: TrainingResult,
        assessment: Assessment,
        watched: Watched | None,
        there: NDArray[np.int64] | None,
        notes: Sequence[str],
        message: str,
    ) -> FitResult:
        measured = None if watched is None or there is None else dict(enumerate(watched.measured(there)))
        functions = assessment.system.functions(self.problem.loss)
        surrogates, gaps = gap_sums(functions, self.cells, self._outputs()[0])
        return FitResult(
            **result.facts(),
            message=message,
            rows=self.cells.n_rows,
            pos_label=self.cells.classes[1] if self.cells.n_labels == 2 else None,
            accuracy=assessment.accuracy,
            constant_accuracy=assessment.constant_accuracy,
            gain=assessment.gain,
            loss=assessment.loss,
            objective=assessment.objective,
            limits=limit_results(result, assessment, measured, (surrogates, gaps)),
            groups=group_results(self.cells, assessment),
            small_groups=self.small,
            missing=self.missing,
            eval_rows=None if watched is None else watched.n_rows,
            eval_accuracy=None if watched is None or there is None else watched.accuracy(there),
            notes=tuple(notes),
            base=None if self.base is None else self._base_result(assessment),
        )

    def _base_result(self, assessment: Assessment) -> BaseResult:
        """Compare the decisions with those of the base alone."""
        assert self.base is not None
        alone = self.cells.of_entries(decide(self.base.training, self.problem.threshold))
        moved = self.cells.share(alone != self.decisions(), self.data.loss_weights)
        columns = moved_columns(self.model, self.Z, self.base, self.input_names, self.encoder, self.cells.processes)
        return self.base.result(self._count(assessment, alone), moved, columns)
