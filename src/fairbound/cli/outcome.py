"""What a study has found: the summary that the report is made of, its numbers in short, and tables for people."""

from __future__ import annotations

import hashlib
import platform
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from fairbound.cli.explained import explain
from fairbound.cli.inputs import is_known_dataset
from fairbound.cli.scattered import scattered_columns
from fairbound.cli.study import Part, Study

if TYPE_CHECKING:
    from fairbound.estimator import ConstrainedClassifier, FitResult
    from fairbound.fairness import Constraint
    from fairbound.study import Sweep

CONFIDENCE = 0.95
"""Of intervals and verdicts where none is asked for."""

RATES = ("selection_rate", "true_positive_rate", "false_positive_rate")
LIBRARIES = ("torch", "numpy", "scikit-learn", "daqp")


@dataclass(frozen=True)
class Models:
    """The model without limits, and the one with them; without any limit there is only the second."""

    before: ConstrainedClassifier | None
    after: ConstrainedClassifier
    notes: tuple[str, ...] = ()


def summary_of(
    study: Study,
    limits: Sequence[Constraint],
    models: Models,
    context: typer.Context,
    *,
    source: str,
    confidence: float | None = None,
    frontier: Sweep | None = None,
    interrupted: str = "",
) -> dict[str, Any]:
    """Return the summary of a study; `interrupted` says what an interrupt left."""
    from fairbound.study import Decisions, Run, summarize

    result = models.after.result_

    def decided(part: Part | None) -> Decisions | None:
        if part is None:
            return None
        return Decisions(
            y=part.y,
            sensitive_features=part.sensitive,
            before=None if models.before is None else models.before.predict(part.X),
            after=models.after.predict(part.X),
            sample_weight=part.weight,
        )

    training = decided(study.training)
    assert training is not None
    data = study.whole
    return summarize(
        limits,
        training,
        decided(study.held_out),
        target=data.target,
        run=Run.of(result, interrupted=interrupted),
        model=explain(study, models.after),
        frontier=frontier,
        calibration=_calibration(result),
        reproduction={
            "command": repeated(context),
            "version": _version("fairbound"),
            "seed": study.settings.seed,
            "created": _now(),
            "model": study.settings.model,
            "data": {"name": Path(source).name, "sha256": _checksum(source), "rows": len(data)},
            "columns": list(data.schema),
            "libraries": {"python": platform.python_version(), **{name: _version(name) for name in LIBRARIES}},
        },
        notes=[
            *study.remarks,
            *models.notes,
            *_small_groups(result),
            *result.notes,
            *([] if is_known_dataset(source) else scattered_columns(study.training, models.after)),
            data.description,
        ],
        confidence=CONFIDENCE if confidence is None else confidence,
        groups=study.settings.groups,  # type: ignore[arg-type]  # one of three words, as checked
        pos_label=study.positive,
        settle=models.after.settle_groups,
    )


def _small_groups(result: FitResult) -> list[str]:
    """Return a sentence for each column of groups of which some were too small for the limits."""
    from fairbound._words import as_text

    fates: dict[tuple[str, str], list[str]] = {}
    for each in result.small_groups:
        fates.setdefault((each.grouping, each.fate), []).append(f"{as_text(each.group)} ({each.rows:,} rows)")
    return [
        f"{grouping}: {'merged into one group' if fate == 'merged' else 'left out of the limits'}, since each has few "
        f"training rows: {', '.join(groups)}."
        for (grouping, fate), groups in fates.items()
    ]


def _calibration(result: FitResult) -> dict[str, Any] | None:
    """Return the certificate by which the model was chosen, with the claim of that choice and the models tested."""
    if result.certificate is None:
        return None
    trials = [asdict(trial) for trial in result.trials]
    return {**result.certificate.to_dict(), "claim": result.claim, "trials": trials}


def repeated(context: typer.Context) -> str:
    """Return the command that was given."""
    return shlex.join([*context.command_path.split(), *context.meta.get("arguments", [])])


def in_short(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers that decide, without the pages."""
    parts = {name: part for name, part in summary["parts"].items() if part is not None}
    held_out = summary["parts"]["held_out"]
    return {
        "status": summary["run"]["status"],
        "message": summary["run"]["message"],
        "conflicts": summary["run"]["conflicts"],
        "kept": is_kept(summary),
        "limits": [
            {key: limit[key] for key in ("text", "measure", "loss_price", "training", "held_out")}
            for limit in summary["limits"]
        ],
        "certificate": None if held_out is None else _verdicts(held_out["certificate"]),
        "calibration": _verdicts(summary["calibration"]),
        "accuracy": {name: part["accuracy"] for name, part in parts.items()},
        "groups": {
            name: {model: rates_by_group(part, model) for model in ("before", "after") if part[model] is not None}
            for name, part in parts.items()
        },
        "rows": {name: part["rows"] for name, part in parts.items()},
        "seconds": summary["run"]["seconds"],
        "interrupted": bool(summary["run"]["interrupted"]),
        "reproduction": summary["reproduction"],
        "notes": summary["notes"],
    }


def is_kept(summary: Mapping[str, Any]) -> bool:
    """Tell whether the limits are kept on the training rows, pass where that was asked for, and are not refuted.

    The measured value on held-out rows scatters around the limit, so it alone decides nothing; a FAIL there does.
    """
    held_out = summary["parts"]["held_out"]
    certificate = None if held_out is None else held_out["certificate"]
    return (
        all(limit["training"]["after"]["kept"] for limit in summary["limits"])
        and (summary["calibration"] is None or summary["calibration"]["verdict"] == "PASS")
        and (certificate is None or certificate["verdict"] != "FAIL")
    )


def rates_by_group(part: Mapping[str, Any], model: str = "after") -> list[dict[str, Any]]:
    """Return the rates of each group; with several classes those of each class."""
    return [
        {
            "grouping": group["grouping"],
            "group": group["group"],
            "everyone": group["everyone"],
            "rows": group["rows"],
            "rates": {
                rate.replace("_", " ") + (f" of {label}" if len(group["rates"]) > 1 else ""): rates[rate]["value"]
                for label, rates in group["rates"].items()
                for rate in RATES
            },
        }
        for group in part[model]["groups"]
    ]


def _verdicts(certificate: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if certificate is None:
        return None
    return {
        "verdict": certificate["verdict"],
        "confidence": certificate["confidence"],
        "rows": certificate["rows"],
        "limits": [
            {key: limit[key] for key in ("limit", "verdict", "value", "bounds", "reason")}
            for limit in certificate["limits"]
        ],
    }


def _version(name: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    if name == "fairbound":
        from fairbound import __version__

        return __version__
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _now() -> str:
    from datetime import UTC, datetime

    return datetime.now(UTC).isoformat(timespec="seconds")


def _checksum(source: str) -> str | None:
    """Return the SHA-256 of the file, or the known one of a known data set."""
    path = Path(source)
    if path.is_file():
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    from fairbound.data import DATASETS

    return DATASETS[source].file.sha256 if source in DATASETS else None
