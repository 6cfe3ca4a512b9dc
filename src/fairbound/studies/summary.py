"""The summary of a run, as a dictionary for JSON.  The report, the model card and other programs read it.

    schema, version        "fairbound.summary" and VERSION; an incompatible change raises the version
    title, target          words
    classes, class_names   the labels as text, and words for them; of two classes the second is the positive one
    confidence             confidence level of all intervals and verdicts
    limits                 for each limit its text, facts of the measure, bounds, and the price in loss; and for each
                           part the value before and after, and whether it is kept
    parts                  "training" and "held_out" (or None): rows, accuracy, the audits before and after, and on
                           held-out rows the certificate
    changes                each measure before and after, on the held-out rows (else the training rows), and the
                           direction of the change
    run                    status, message, solver, seconds, conflicts, the finished part after an interrupt, and the
                           history with the same columns for both solvers; or None
    frontier               the limit whose bounds vary and its points, each with its groups on both parts; or None
    calibration            the certificate by which the model was chosen; or None
    model                  coefficients or importances of the model's inputs; or None
    reproduction, notes    as given

"Before" is the model without limits, "after" the one with them.  Rates, measures and intervals are those of `audit`,
verdicts those of `certify`.  Accuracy is over all rows, including those without a known group.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fairbound._json import as_json
from fairbound._version import __version__
from fairbound._words import as_text
from fairbound.data import DATASETS, Dataset
from fairbound.evaluation import MeasureAudit
from fairbound.fairness import Cells, Combine, Constraint, as_constraints, resolve_measure
from fairbound.studies.measured import Decisions, MeasuredPart, Reading, SweptPoint, summarize_frontier, uniform_history
from fairbound.studies.parts import is_known
from fairbound.studies.plan import locked, rows_hash
from fairbound.studies.settings import StudySettings

if TYPE_CHECKING:
    from fairbound.estimator import FitResult


SCHEMA = "fairbound.summary"
VERSION = 1
UNCHANGED = 0.005
"""A measure that moved by less than half a point is called unchanged."""


def summarize(
    limits: Constraint | str | Iterable[Constraint | str],
    training: Decisions,
    held_out: Decisions | None = None,
    *,
    title: str = "",
    target: str = "label",
    class_names: Mapping[Hashable, str] | None = None,
    result: FitResult | None = None,
    frontier: Sequence[SweptPoint] | None = None,
    model: Mapping[str, Any] | None = None,
    reproduction: Mapping[str, Any] | None = None,
    notes: Sequence[str] = (),
    confidence: float = 0.95,
    groups: Combine = "each",
    pos_label: Hashable | None = None,
    settle: Callable[[Cells], Cells] | None = None,
    interrupted: str = "",
) -> dict[str, Any]:
    """Return the summary of a run.

    Parameters
    ----------
    limits : Constraint, str, or several of them
        The limits of the model "after"; none if it was trained without limits.
    training, held_out : Decisions
    title : str
        By default made from `target`.
    target : str
        The name of the label.
    class_names : mapping of label to str, optional
        Words for the labels.
    result : FitResult, optional
        The record of the fit of the model "after": history, prices, and the certificate of the calibration rows.  The
        certificate of the held-out rows is computed here.
    frontier : sequence of SweptPoint, optional
        Models for several bounds of the first limit, from loose to strict.
    model : mapping, optional
        The inputs of the model: `kind` ("coefficients" or "importances"), `total` (the number of inputs), and `inputs`,
        the largest values, each with `name`, `value` and, with several classes, `label`.
    reproduction : mapping, optional
        The facts needed to repeat the run.  The report formats `command`, `version`, `seed`, `created`, `model`, `data`
        (a mapping with `name`, `sha256`, `rows`), `columns` and `libraries`, and shows all other entries as text.
    notes : sequence of str
        Sentences about the data, such as which groups were left out.
    confidence : float
    groups : {"each", "intersection", "both"}
    pos_label : label, optional
    settle : function of Cells, optional
        Returns the cells with the groups of the limits.  Give `ConstrainedClassifier.settle_groups` of a model that
        merged small groups or left them out.
    interrupted : str
        If training was interrupted: the finished part, as the end of the sentence "The folder has ...".

    Examples
    --------
    >>> rows = Decisions(y=[0, 1] * 50, sensitive_features=["a"] * 50 + ["b"] * 50, after=[0, 1] * 50)
    >>> summary = summarize("disparate_impact >= 0.8", rows)
    >>> summary["limits"][0]["training"]["after"]
    {'value': 1.0, 'kept': True}
    """
    constraints = as_constraints(limits)
    _check(constraints, training, held_out, result)
    calibration = None if result is None else _calibration(result)
    classes = tuple(dict.fromkeys(np.asarray(training.y).tolist()))
    reading = Reading(groups, pos_label, confidence, classes, settle)
    parts = {"training": MeasuredPart("training", training, constraints, reading)}
    if held_out is not None:
        parts["held_out"] = MeasuredPart("held_out", held_out, constraints, reading)
    main = parts["training"] if held_out is None else parts["held_out"]
    described: dict[str, Any] = {"training": parts["training"].to_dict(), "held_out": None}
    if held_out is not None:
        certificate = None
        if constraints:
            certificate = parts["held_out"].certificate().to_dict()
        described["held_out"] = {**parts["held_out"].to_dict(), "certificate": certificate}
    reached = result.limits if result is not None and result.limits else (None,) * len(constraints)
    labels = [as_text(label) for label in main.after.classes]
    words = {as_text(label): name for label, name in (class_names or {}).items()}
    return as_json(
        {
            "schema": SCHEMA,
            "version": VERSION,
            "title": title or f"Predicting {target}",
            "target": target,
            "classes": labels,
            "class_names": [words.get(label, label) for label in labels],
            "confidence": confidence,
            "limits": [
                {
                    **_facts(limit),
                    "groupings": main.groupings[position],
                    "loss_price": None if found is None else found.price,
                    "gap": None if found is None else found.gap,
                    "gap_bound": None if found is None else found.gap_bound,
                    "training": parts["training"].limits[position],
                    "held_out": None if held_out is None else parts["held_out"].limits[position],
                    "calibration": None if calibration is None else _at(limit, calibration["limits"][position]),
                }
                for position, (limit, found) in enumerate(zip(constraints, reached, strict=True))
            ],
            "parts": described,
            "changes": list(_changes(main, constraints)),
            "run": None if result is None else _run(result, interrupted),
            "frontier": None if frontier is None else summarize_frontier(constraints, frontier, parts),
            "calibration": calibration,
            "model": model,
            "reproduction": reproduction or {},
            "notes": list(notes),
        }
    )


def _check(
    constraints: tuple[Constraint, ...],
    training: Decisions,
    held_out: Decisions | None,
    result: FitResult | None,
) -> None:
    for limit in constraints:
        if limit.bound is None:
            raise ValueError(f"{limit.name} has bound=None, so it limits nothing: leave it out of the limits.")
    if held_out is not None and (held_out.before is None) != (training.before is None):
        raise ValueError("Decisions before are given for one part only: give them for both parts, or for neither.")
    if result is None:
        return
    for name, found in (
        ("result", result.limits),
        ("The certificate of result", getattr(result.certificate, "limits", ())),
    ):
        if found and len(found) != len(constraints):
            raise ValueError(
                f"{name} is about {len(found)} limits, but there are {len(constraints)}; give the result of a fit "
                "under the same limits."
            )


def _run(result: FitResult, interrupted: str) -> dict[str, Any]:
    """Return the facts about a fit for the entry "run" of a summary."""
    return {
        "status": result.status.value,
        "message": result.message,
        "solver": result.solver,
        "seconds": result.seconds,
        "conflicts": result.conflicts,
        "loss_prices": [limit.price for limit in result.limits],
        "history": uniform_history(result.iterations),
        "phases": result.phases,
        "interrupted": interrupted,
        "forecast": None if result.forecast is None else asdict(result.forecast),
        "margin": None if result.margin is None else asdict(result.margin),
        "new_rows": result.about_new_rows,
    }


def _calibration(result: FitResult) -> dict[str, Any] | None:
    """Return the certificate by which the model was chosen, with the claim of that choice and the models tested."""
    if result.certificate is None:
        return None
    return {**result.certificate.to_dict(), "claim": result.claim, "trials": [asdict(trial) for trial in result.trials]}


def _at(limit: Constraint, certificate: Mapping[str, Any]) -> dict[str, Any]:
    """Return the value of a limit on the rows of a certificate, and whether it is kept there."""
    value = certificate["value"]
    return {"value": value, "kept": None if value is None else limit.keeps(value)}


def _facts(limit: Constraint) -> dict[str, Any]:
    """Return what a limit asks for, in plain values."""
    measure = resolve_measure(limit.measure)
    against = limit.against if limit.reference is None else as_text(limit.reference)
    lower, upper = limit.limits
    if not isinstance(limit.bound, tuple):  # one number: a ratio from below, the size of a difference from above
        lower, upper = (lower, np.inf) if measure.larger_is_stricter else (-np.inf, upper)
    sides = {"at least": lower, "at most": upper}
    return {
        "text": str(limit),
        "measure": measure.name,
        "description": measure.description,
        "comparison": measure.comparison,
        "sides": [{"side": side, "bound": float(bound)} for side, bound in sides.items() if np.isfinite(bound)],
        "against": against,
        "group": None if limit.group is None else as_text(limit.group),
        "classes": None if limit.classes is None else [as_text(label) for label in limit.classes],
    }


def _changes(part: MeasuredPart, constraints: tuple[Constraint, ...]) -> Iterator[dict[str, Any]]:
    """Yield each measure of the audits before and after; nothing without a model before."""
    before = part.audits["before"]
    if before is None:
        return
    asked = {
        (limit.name, grouping)
        for limit, groupings in zip(constraints, part.groupings, strict=True)
        for grouping in groupings
    }
    for old, new in zip(before.measures, part.after.measures, strict=True):
        assert (old.measure, old.grouping, old.label) == (new.measure, new.grouping, new.label)
        yield {
            "part": part.name,
            "measure": new.measure,
            "description": new.description,
            "grouping": new.grouping,
            "label": None if new.label is None else as_text(new.label),
            "before": _estimate(old),
            "after": _estimate(new),
            "asked": (new.measure, new.grouping) in asked,
            **_direction(old, new),
        }


def _estimate(found: MeasureAudit) -> dict[str, Any]:
    return {"value": found.value, "lower": found.lower, "upper": found.upper}


def _direction(old: MeasureAudit, new: MeasureAudit) -> dict[str, Any]:
    """Return whether the groups came closer to each other, and whether the two intervals do not overlap."""
    if old.value is None or new.value is None:
        return {"change": None, "direction": None, "intervals_apart": None}
    change = new.value - old.value
    nearer = change if resolve_measure(new.measure).larger_is_stricter else -change
    apart = None
    if old.lower is not None and old.upper is not None and new.lower is not None and new.upper is not None:
        apart = old.upper < new.lower or new.upper < old.lower
    direction = "unchanged" if abs(change) < UNCHANGED else ("nearer" if nearer > 0 else "further apart")
    return {"change": change, "direction": direction, "intervals_apart": apart}


# --- reproduction ----------------------------------------------------------------------------------------------------

# The facts needed to repeat a study: the call, the version, the seed, the data with their checksum, the libraries.


LIBRARIES = ("torch", "numpy", "scikit-learn", "daqp")


def study_lock(data: Dataset, settings: StudySettings) -> dict[str, Any]:
    """Return the lock of a study: its limits, settings and rows with their hash, made before training begins."""
    stated = {each.name: getattr(settings, each.name) for each in fields(settings)}
    content = {
        **stated,
        "limits": [str(limit) for limit in settings.limits],
        "bounds": list(settings.bounds),
        "rows": data.n_rows,
        "rows_sha256": rows_hash(data),
    }
    return locked(as_json(content))


def reproduction_of(
    data: Dataset, settings: StudySettings, command: str, lock: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the facts needed to repeat a study."""
    return {
        **({} if lock is None else {"lock": {name: lock[name] for name in ("written", "sha256")}}),
        "command": command,
        "version": __version__,
        "seed": settings.seed,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "model": settings.model,
        "data": {
            "name": data.name if data.path is None else Path(data.path).name,
            "sha256": _checksum(data),
            "rows": data.n_rows,
        },
        "columns": list(data.schema),
        "libraries": {"python": platform.python_version(), **{name: _version(name) for name in LIBRARIES}},
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _checksum(data: Dataset) -> str | None:
    """Return the SHA-256 of the file, or the known one of a known data set."""
    if data.path is not None and Path(data.path).is_file():
        with Path(data.path).open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    return DATASETS[data.name].file.sha256 if is_known(data) else None
