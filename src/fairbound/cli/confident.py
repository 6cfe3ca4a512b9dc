"""The model that passes on the calibration rows: a sequence from strict to loose, stopped at the first that fails."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from fairbound.cli.study import Study
    from fairbound.confidence import CertifiedChoice
    from fairbound.estimator import ConstrainedClassifier
    from fairbound.fairness import Constraint


def choose(
    study: Study,
    before: ConstrainedClassifier,
    after: ConstrainedClassifier,
    limits: Sequence[Constraint],
    confidence: float,
    callback: Callable[[dict[str, Any]], bool],
) -> tuple[ConstrainedClassifier, CertifiedChoice]:
    """Train the sequence, and return the classifier chosen (the strictest, where none passed) and the choice itself.

    Parameters
    ----------
    study : Study
        With calibration rows.
    before, after : ConstrainedClassifier
        Without limits, where the sequence starts, and with those that are asked for.
    limits : sequence of Constraint
    confidence : float
    callback : function of one history row
    """
    import torch

    from fairbound.cli.models import with_parameters
    from fairbound.confidence import train_for_confidence
    from fairbound.fairness import Cells
    from fairbound.training import L2, TrainingProblem
    from fairbound.training.models import assign, trainable

    rows, calibration, settings = study.training, study.calibration, study.settings
    assert calibration is not None
    cells = Cells.build(rows.y, rows.sensitive, groups=settings.groups, pos_label=study.positive)  # type: ignore[arg-type]
    problem = TrainingProblem(
        copy.deepcopy(before.module_).to(torch.float64),
        "cross_entropy",
        list(limits),
        cells,
        regularizers=[L2(after.l2)] if after.l2 else [],
        threshold=after.threshold,
    )
    trial = copy.deepcopy(after)

    def predict(parameters: Tensor) -> Any:
        assign(trainable(trial.module_), parameters)
        return trial.predict(calibration.X)

    choice = train_for_confidence(
        problem,
        after.encoder_.transform(rows.X),
        predict,
        calibration.y,
        calibration.sensitive,
        confidence=confidence,
        certify_options={"groups": settings.groups, "pos_label": study.positive},
        callback=callback,
    )
    point = (choice.chosen or choice.trials[0]).point
    return with_parameters(after, point.parameters, point.result, list(limits), rows), choice
