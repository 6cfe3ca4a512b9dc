"""A fit with `confidence=`: hold out calibration rows, and test a sequence of models on them.

The calibration rows are used for the test only.  Neither the encoder nor the parameters nor the order of the models
depends on them.  `fairbound.estimator.confidence` has the sequence and the claim.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairbound._errors import InputError
from fairbound.data import as_seed, draw_parts
from fairbound.estimator.confidence import STRICTNESS, CertifiedChoice, ModelSequence, choose_in_order
from fairbound.estimator.models import logits, plain_model
from fairbound.estimator.parameters import Parameters
from fairbound.estimator.reached import TrialResult
from fairbound.estimator.result import FitResult
from fairbound.estimator.rows import Data
from fairbound.estimator.unseen import Outlook, is_constant, rate_distribution
from fairbound.evaluation import (
    Certificate,
    Forecast,
    Tally,
    certify_tally,
    refusal,
    room_within,
    sides_in_words,
    with_reserve,
)
from fairbound.fairness import Constraint, ConstraintSystem, decide
from fairbound.sqp import Status
from fairbound.training import FitSeries, TrainingProblem, TrainingResult, choose_status

TRIED = (0.97, 0.75, 0.5, 0.25)
"""The strictness of the models that are tried on training rows, to place the second start; the last if none can be."""


def set_apart(
    params: Parameters, data: Data, calibration_set: Any, read: Callable[[str, Any], Data], processes: Any = None
) -> tuple[Data, Data | None]:
    """Return the rows to train on and, if `confidence` is set, the calibration rows.

    Parameters
    ----------
    params : Parameters
    data : Data
    calibration_set : tuple (X, y) or (X, y, groups), or None
        Rows of the user; None holds back a share of the training rows.
    read : function of (name, tuple)
        Reads rows that come besides the training rows.
    processes : Processes, optional
        Those that share the rows.
    """
    if params.confidence is None:
        if calibration_set is not None:
            raise InputError("{calibration_set=} needs {confidence=}.", "Give both, or neither.")
        return data, None
    if calibration_set is None:
        return hold_back(params, data, processes)
    return data, read("calibration_set", calibration_set)


def hold_back(params: Parameters, data: Data, processes: Any = None) -> tuple[Data, Data]:
    """Return the rows to train on and those for calibration, with the same shares of labels and groups."""
    share = float(params.confidence.calibration_size)
    columns, seed = list((data.groups or {}).values()), as_seed(params.random_state)
    try:
        rows = draw_parts(data.y, columns, share, seed, data.first + data.positions, processes=processes)
    except ValueError as error:
        raise InputError(
            "{confidence.calibration_size=share} is the share of the rows to hold back, and {rows} rows are too few to "
            "have every label and group in both parts.",
            "Give more rows, or merge groups.",
            share=share,
            rows=len(data.y),
        ) from error
    training, calibration = (data.take(part) for part in rows)
    return training, calibration


class Certification:
    """A fit with `confidence=`: the limits that are certified, and the rows that they are tested on.

    Parameters
    ----------
    params : Parameters
    problem : TrainingProblem
    calibration : Tally
        The calibration rows.
    """

    def __init__(self, params: Parameters, problem: TrainingProblem, calibration: Tally) -> None:
        self.confidence, self.problem, self.calibration = float(params.confidence.level), problem, calibration
        self.asked = len(params.constraints)
        self.limits = [limit for limit in params.constraints if limit.bound is not None]
        self.training = Tally.of(problem.cells, problem.cells.of_rows(problem.cells.labels))
        self._check_rows()
        self._check_limits()
        self.systems = {tally: tally.compile_all(self.limits) for tally in (self.training, calibration)}

    def test(self, rows: Tally, decisions: NDArray[np.int64], share: float = 1.0) -> Certificate:
        """Return the certificate of decisions about the rows of a tally, at a share of the level."""
        confidence = self.confidence if share == 1.0 else 1.0 - share * (1.0 - self.confidence)
        return certify_tally(rows.recount(decisions), self.limits, confidence, systems=self.systems[rows])

    def choose(
        self, outlook: Outlook, inputs: NDArray[np.float64], **options: Any
    ) -> tuple[TrainingResult, CertifiedChoice]:
        """Train the sequence, test it, and leave the chosen model in the problem.

        The result refers to the requested limits.  A model that was trained for stricter limits is not optimal for
        them, so its status is never "converged".

        Parameters
        ----------
        outlook : Outlook
            The folds of the fit.
        inputs : array
            The inputs of the calibration rows.
        options
            Those of the fits.
        """
        start, problem = time.perf_counter(), self.problem
        starts = {STRICTNESS[-1], self._place_start(outlook)}
        series = FitSeries(problem, outlook.Z, loss_weights=outlook.weights, precision=np.float64, **options)
        sequence = ModelSequence(series, self._tightened(series, outlook.Z))

        def test(parameters: NDArray[np.float64], share: float) -> Certificate:
            problem.assign(parameters)
            found = logits(plain_model(problem), inputs, problem.cells.n_labels)
            return self.test(self.calibration, decide(found, problem.threshold), share)

        choice = choose_in_order(sequence.at, test, starts)
        taken = choice.chosen or choice.trials[0]
        result = taken.result
        problem.assign(result.parameters)
        assessment = replace(result.assessment, system=problem.system)
        if taken.strictness and assessment.kept:
            # Its least loss and its residuals are those of a fit under other limits.
            status = choose_status(assessment, False, False)
            result = replace(result, status=status, conflicts=(), kkt_residual=None, least_loss=None)
        return replace(result, assessment=assessment, seconds=time.perf_counter() - start), choice

    def _tightened(self, series: FitSeries, Z: NDArray[np.float64]) -> Callable[[float], list[Constraint]]:
        """Return a function from a strictness to the limits, tightened by that share of the way to equal rates.

        The way is that of the model without limits, which the series has just found.
        """
        system = self.problem.system
        found = logits(plain_model(series.problem), Z, system.cells.n_labels)
        room = room_within(system, system.rates_of(decide(found, self.problem.threshold)), self.asked)
        return lambda share: with_reserve(system, share * room)

    def _place_start(self, outlook: Outlook) -> float:
        """Return the strictness at which a model is likeliest to pass, by cross-validation on the training rows."""
        cells = self.problem.cells
        decided = {share: np.zeros(len(cells), dtype=np.int64) for share in TRIED}
        tightened: Callable[[float], list[Constraint]] | None = None
        for out, series in outlook.series():
            tightened = tightened or self._tightened(series, outlook.Z)  # the same for all folds
            sequence = ModelSequence(series, tightened)
            for share in list(decided):
                result = sequence.at(share)
                if not result.assessment.kept:
                    del decided[share]
                    continue
                series.problem.assign(result.parameters)
                decided[share][out] = outlook.decide(series.problem, out)
        if outlook.too_few:
            return TRIED[-1]
        rooms = {share: _room(self.test(self.training, cells.of_rows(each))) for share, each in decided.items()}
        return max(rooms, key=lambda share: rooms[share], default=TRIED[-1])

    def _check_rows(self) -> None:
        """Reject calibration rows without a label or a group: it has no rate, so the limits would pass without it."""
        found = self.calibration.cells
        counts = found.sizes.reshape(-1, found.n_labels).sum(axis=0)
        lacking = [label for label, rows in zip(found.classes, counts.tolist(), strict=True) if not rows]
        if lacking:
            raise ValueError(f"No calibration row has the label {lacking[0]!r}: hold more rows back.")
        for comparison in self.problem.system.comparisons:
            grouping = comparison.block.grouping
            absent = [group for group in grouping.groups if group not in found.grouping(grouping.name).groups]
            if absent and self.problem.system.constraints[comparison.constraint].bound is not None:
                raise ValueError(
                    f"No calibration row is of group {absent[0]!r} of {grouping.name!r}, so nothing can be certified "
                    "of it: hold more rows back, or merge it with another group."
                )

    def _check_limits(self) -> None:
        """Reject limits that no number of rows could certify."""
        for tally in (self.training, self.calibration):
            for limit in self.limits:
                if reason := refusal(limit, tally, tally.bounded):
                    remedy = "Use {groups.weight='none'}, or leave out {confidence=}." if tally.weighted else ""
                    raise InputError("{limit} cannot be certified: {reason}", remedy, limit=limit, reason=reason)
        system = self.problem.system
        room = room_within(system, np.full(system.coefficients.shape[1], 0.5))
        for row, way in zip(system.rows, room, strict=True):
            if way == 0.0 and row.constraint < self.asked:
                raise ValueError(
                    f"{system.constraints[row.constraint]} cannot be certified: it leaves no room, and no number of "
                    "rows shows that a population lies on a limit exactly. Loosen its bound."
                )


def _room(certificate: Certificate) -> float:
    """Return how far the bounds lie within their limits, at the worst of them."""
    return min(
        side.worst - side.limit if side.side == "at least" else side.limit - side.worst
        for limit in certificate.limits
        for side in limit.bounds
    )


def forecast_rows(
    problem: TrainingProblem, model: Any, inputs: NDArray[np.float64], rows: Tally, limits: Sequence[Constraint]
) -> Forecast:
    """Return the forecast from calibration rows.  They had no part in training, so there is no optimism."""
    decisions = decide(logits(model, inputs, problem.cells.n_labels), problem.threshold)
    same = is_constant(problem, model, inputs, decisions)
    try:
        system = ConstraintSystem.build(limits, rows.cells, threshold=problem.threshold)
    except ValueError as error:
        return Forecast(rows="calibration", reason=str(error))
    return rate_distribution(system, rows.cells.of_entries(decisions), constant=same).forecast(rows="calibration")


def with_certificate(record: FitResult, choice: CertifiedChoice) -> FitResult:
    """Add the certificate and the trials to the record; its message begins with them."""
    taken, message = choice.chosen, record.message
    if taken is None:
        bounds = "; ".join(f"{each.limit} ({sides_in_words(each)})" for each in choice.certificate.limits)
        message = f"{choice.claim} Its bounds: {bounds}. {message}"
    elif record.status in (Status.CONVERGED, Status.FEASIBLE):
        count = sum(trial.passed for trial in choice.trials)
        which = (
            f"{100 * taken.strictness:g}% stricter than asked"
            if taken.strictness
            else "the one for the limits as asked"
        )
        message = (
            "All limits are kept on the training rows, and pass on the calibration rows: the loosest of "
            f"{count} model{'s' if count > 1 else ''} that did, {which}."
        )
    return replace(
        record,
        message=message,
        limits=tuple(
            each if taken is not None and not taken.strictness else replace(each, price=None) for each in record.limits
        ),
        certificate=choice.certificate,
        trials=tuple(
            TrialResult(
                trial.strictness,
                trial.result.assessment.accuracy,
                trial.passed,
                trial is taken,
                tuple(sides_in_words(limit) for limit in trial.certificate.limits),
                trial.certificate.confidence,
            )
            for trial in choice.trials
        ),
    )
