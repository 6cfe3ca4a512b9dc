"""Models on the command line: how they are named, saved and read back, and one with the parameters of another solve."""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from fairbound.cli.study import Part
    from fairbound.estimator import ConstrainedClassifier
    from fairbound.fairness import Constraint
    from fairbound.training import TrainingResult

MODEL_FOLDER = "model"
"""Where in the folder of a run its model is."""

_MODEL = re.compile(r"(?:linear|mlp:\d+(?:[,x]\d+)*)")


def hidden_layers(model: str) -> tuple[int, ...]:
    """Return the widths of the hidden layers.

    >>> hidden_layers("linear"), hidden_layers("mlp:32"), hidden_layers("mlp:64,32")
    ((), (32,), (64, 32))
    """
    widths = tuple(int(width) for width in re.findall(r"\d+", model))
    if not _MODEL.fullmatch(model) or 0 in widths:
        raise ValueError(
            f"--model is {model!r}; give linear, or mlp: and the widths of hidden layers, as in mlp:32 or mlp:64,32."
        )
    return widths


def with_parameters(
    classifier: ConstrainedClassifier,
    parameters: Tensor,
    result: TrainingResult,
    limits: Sequence[Constraint],
    rows: Part,
) -> ConstrainedClassifier:
    """Return a copy of a fitted classifier that has other parameters, and the record of the solve that found them.

    Parameters
    ----------
    classifier : ConstrainedClassifier
        Fitted on the same rows, with the same model and as many limits.
    parameters : Tensor
        Flat.
    result : TrainingResult
        Of the solve.
    limits : sequence of Constraint
        Those that the record speaks of; they may be looser than those of the solve.
    rows : Part
        The training rows, on which everything is counted anew from the decisions of `predict`.
    """
    from dataclasses import replace

    import numpy as np

    from fairbound.evaluation.summary_parts import Decisions, Reading, measured
    from fairbound.training.models import assign, trainable

    found = copy.deepcopy(classifier)
    assign(trainable(found.module_), parameters)
    found.constraints = list(limits)
    decided = found.predict(rows.X)
    counted = Decisions(y=rows.y, sensitive_features=rows.sensitive, after=decided)
    reading = Reading(classifier.groups, classifier.pos_label)  # type: ignore[arg-type]  # fit has checked the word
    tally, audited = reading.tally(counted, decided), reading.audit(counted, decided)
    rates = {(group.grouping, group.name): group.rates for group in audited.groups}
    accuracy = float(np.mean(decided == rows.y))
    known = found.result_
    found.result_ = replace(
        known,
        status=result.status,
        message=result.message,
        accuracy=accuracy,
        gain=accuracy - known.constant_accuracy,
        loss=result.assessment.loss,
        objective=result.assessment.objective,
        limits=tuple(
            replace(
                known.limits[position],
                limit=str(limit),
                reached=reached["value"],
                kept=reached["kept"],
                surrogate=result.assessment.measured_surrogate[position],
                price=None,
            )
            for position, limit in enumerate(limits)
            for reached in [measured(limit, tally)]
        ),
        groups=tuple(
            replace(
                group,
                rates={
                    label: {name: rates[group.grouping, _said(group.group)][label][name].value for name in named}
                    for label, named in group.rates.items()
                },
            )
            for group in known.groups
        ),
        solver=result.solver,
        seconds=result.seconds,
        history=result.history,
        notes=(),
    )
    return found


def _said(group: Any) -> str:
    return " & ".join(map(str, group)) if isinstance(group, tuple) else str(group)


def save_model(classifier: ConstrainedClassifier, path: Path) -> None:
    """Write a fitted classifier."""
    classifier.save(path)


def load_model(path: str) -> ConstrainedClassifier:
    """Read a fitted classifier back, from the folder of a run or that of the model itself; nothing in it is run."""
    folder = Path(path)
    if not folder.is_dir():
        from fairbound._names import did_you_mean

        beside = [each.name for each in folder.parent.iterdir() if each.is_dir()] if folder.parent.is_dir() else []
        raise FileNotFoundError(
            f"There is no folder {path}.{did_you_mean(folder.name, beside)} Give the folder that train has written."
        )
    from fairbound.estimator import load

    inner = folder / MODEL_FOLDER
    place = inner if inner.is_dir() else folder
    if not (place / "model.json").is_file():
        raise FileNotFoundError(f"{place} has no model.json; give the folder that train has written.")
    return load(place)
