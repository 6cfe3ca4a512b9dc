"""A fit with `confidence=`: hold out calibration rows, and test a sequence of models on them.

The calibration rows are used for the test only.  Neither the encoder nor the parameters nor the order of the models
depends on them.  `fairbound.estimator.confidence` has the sequence and the claim.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fairbound._errors import InputError
from fairbound.data import as_seed, draw_parts
from fairbound.estimator.confidence import STRICTNESS, CertifiedChoice, ModelSequence, train_for_confidence
from fairbound.estimator.modules import logits
from fairbound.estimator.parameters import Parameters
from fairbound.estimator.reached import TrialResult
from fairbound.estimator.result import FitResult
from fairbound.estimator.rows import Data
from fairbound.estimator.unseen import is_constant, rate_distribution
from fairbound.evaluation import Certificate, Forecast, certify, sides_in_words
from fairbound.fairness import Cells, ConstraintSystem, decide, is_divided
from fairbound.sqp import Status
from fairbound.training import (
    TrainingProblem,
    TrainingResult,
    assign,
    choose_status,
    on_rows,
    trainable,
)

TRIED = (0.97, 0.75, 0.5, 0.25)
"""The strictness of the models that are tried on training rows, to place the second start; strictest first."""

MIDDLE = 0.3
"""The second start if no model could be tried, or none kept its limits."""

HELD_OUT = 0.3
"""Share of the training rows on which they are tried."""


def check_testable(data: Data) -> None:
    """Raise an error for rows that `confidence=` cannot test limits on."""
    divided = [column for column, values in (data.groups or {}).items() if is_divided(values)]
    if divided:
        raise InputError(
            "{confidence=} tests limits on groups that are known, but {column!r} has probabilities of groups.",
            "Use {margin=}, and certify the decisions about held-out rows afterwards.",
            column=divided[0],
        )
    if data.cell_weights.min() < data.cell_weights.max():
        raise InputError(
            "{confidence=} certifies rates of rows that count equally, but the rows have different weights in the "
            "limits.",
            "Use {groups.weight='none'}, or leave out {confidence=}.",
        )


def set_apart(
    params: Parameters, data: Data, calibration_set: Any, read: Callable[[str, Any], Data]
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
    """
    if params.confidence is None:
        if calibration_set is not None:
            raise InputError("{calibration_set=} needs {confidence=}.", "Give both, or neither.")
        return data, None
    check_testable(data)
    if calibration_set is None:
        return hold_back(params, data)
    return data, read("calibration_set", calibration_set)


def hold_back(params: Parameters, data: Data) -> tuple[Data, Data]:
    """Return the rows to train on and those for calibration, with the same shares of labels and groups."""
    share = float(params.confidence.calibration_size)
    Cells.build(data.y, data.groups)  # raises the usual error if all labels are the same
    try:
        rows = _divide(data, share, params)
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


def _divide(data: Data, share: float, params: Parameters) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return two parts of the rows, the second with this share, both with the same shares of labels and groups."""
    codes = np.unique(data.y, return_inverse=True)[1].astype(np.int64)
    columns = list((data.groups or {}).values())
    return draw_parts(codes, columns, share, as_seed(params.random_state), data.positions)


def predictor(
    module: nn.Module, problem: TrainingProblem, inputs: NDArray[np.float64], labels: np.dtype[Any]
) -> Callable[[Tensor], NDArray[Any]]:
    """Return a function from flat parameters to the labels that `predict` would decide for, of type `labels`."""
    trial, classes = copy.deepcopy(module).to("cpu", torch.float64), np.array(problem.cells.classes, dtype=labels)

    def predict(parameters: Tensor) -> NDArray[Any]:
        assign(trainable(trial), parameters)
        return classes[decide(logits(trial, inputs, len(classes)), problem.threshold).numpy()]

    return predict


NOT_TRIED = (
    "The second start is the middle of the sequence: the training rows are too few to try models on a part of them, "
    "because a label or a group would have no row there."
)
"""The remark of a fit whose second start was not chosen by training rows."""


def place_start(
    problem: TrainingProblem,
    Z: NDArray[np.float64],
    data: Data,
    params: Parameters,
    loss_weights: Any = None,
    **options: Any,
) -> float | None:
    """Return the strictness at which a model is likeliest to pass, as far as training rows show it.

    Models are trained on 70% of the training rows and tried on the others.  None means that the rows are too few to be
    divided.
    """
    try:
        train, held_out = _divide(data, HELD_OUT, params)
        there, here = data.take(train), data.take(held_out)
        cells = Cells.build(
            there.y, there.groups, weights=there.cell_weights, groups=params.groups.combine, pos_label=params.pos_label
        )
        trial = on_rows(problem, cells, problem.current(), problem.parameters[0].dtype)
    except ValueError:  # a label or a group has no row in one of the parts
        return None
    predict = predictor(trial.module, trial, Z[held_out], here.y.dtype)
    limits = [limit for limit in problem.system.constraints if limit.bound is not None]
    positive = problem.cells.classes[1] if problem.cells.n_labels == 2 else None
    weights = None if loss_weights is None else np.asarray(loss_weights)[train]
    sequence = ModelSequence(trial, Z[train], STRICTNESS, loss_weights=weights, **options)
    rooms: dict[float, float] = {}
    for share in TRIED:
        point = sequence.at(share)
        if point.result.assessment.kept:
            tested = certify(
                here.y,
                predict(point.parameters),
                here.groups,
                limits,
                confidence=float(params.confidence.level),
                groups=params.groups.combine,
                pos_label=positive,
            )
            rooms[share] = _room(tested)
    return max(rooms, key=lambda share: rooms[share], default=MIDDLE)


def _room(certificate: Certificate) -> float:
    """Return how far the bounds lie within their limits, at the worst of them."""
    return min(
        side.worst - side.limit if side.side == "at least" else side.limit - side.worst
        for limit in certificate.limits
        for side in limit.bounds
    )


def choose(
    problem: TrainingProblem,
    Z: NDArray[np.float64],
    predict: Callable[[Tensor], NDArray[Any]],
    data: Data,
    calibration: Data,
    params: Parameters,
    **options: Any,
) -> tuple[TrainingResult, CertifiedChoice]:
    """Train the sequence, test it, and leave the chosen model in the problem's module.

    The result refers to the requested limits.  A model that was trained for stricter limits is not optimal for them, so
    its status is never "converged".
    """
    start = time.perf_counter()
    placed: list[float | None] = []

    def starts() -> tuple[float, ...]:
        chosen = {name: options[name] for name in ("effort", "objective", "loss_weights")}
        placed.append(place_start(problem, Z, data, params, **chosen))
        return STRICTNESS[-1], MIDDLE if placed[-1] is None else placed[-1]

    choice = train_for_confidence(
        problem,
        Z,
        predict,
        calibration.y,
        calibration.groups,
        confidence=float(params.confidence.level),
        starts=starts,
        certify_options={"groups": params.groups.combine},
        **options,
    )
    choice = replace(choice, note=NOT_TRIED if placed == [None] else "")
    taken = choice.chosen or choice.trials[0]
    result = taken.point.result
    assessment = replace(result.assessment, system=problem.system)
    if taken.strictness and assessment.kept:
        # Its least loss and its residuals are those of a fit under other limits.
        status = choose_status(assessment, False, False)
        result = replace(result, status=status, conflicts=[], kkt=None, least_loss=None)
    return replace(result, assessment=assessment, seconds=time.perf_counter() - start), choice


def forecast_rows(
    problem: TrainingProblem, module: nn.Module, inputs: NDArray[np.float64], data: Data, params: Parameters
) -> Forecast:
    """Return the forecast from calibration rows.  They had no part in training, so there is no optimism."""
    decisions = decide(logits(module, inputs, problem.cells.n_labels), problem.threshold)
    same = is_constant(problem, module, inputs, decisions)
    try:
        cells = Cells.build(data.y, data.groups, groups=params.groups.combine, pos_label=params.pos_label)
        system = ConstraintSystem.build(problem.system.constraints, cells, threshold=problem.threshold)
    except ValueError as error:
        return Forecast(rows="calibration", reason=str(error))
    return rate_distribution(system, decisions, constant=same).forecast(rows="calibration")


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
        notes=(*record.notes, *([choice.note] if choice.note else ())),
        limits=tuple(
            each if taken is not None and not taken.strictness else replace(each, price=None) for each in record.limits
        ),
        certificate=choice.certificate,
        trials=tuple(
            TrialResult(
                trial.strictness,
                trial.point.result.assessment.accuracy,
                trial.passed,
                trial is taken,
                tuple(sides_in_words(limit) for limit in trial.certificate.limits),
                trial.certificate.confidence,
            )
            for trial in choice.trials
        ),
    )
