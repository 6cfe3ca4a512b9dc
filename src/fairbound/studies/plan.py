"""Settings that are fixed before training: the plan of a search, the lock of a run, and the kind of model.

A plan has measures, bounds, kinds of models and a tolerance.  A lock, `limits.lock`, is a JSON file with what was asked
for.  Its `sha256` is that of `content`, as JSON with sorted keys and without spaces.  So anyone can check that the
limits of a report are those that were written down first.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from fairbound._errors import InputError, argument, bad_value
from fairbound._files import json_bytes
from fairbound._model_settings import Base
from fairbound._settings import IN_PYTHON
from fairbound._study_settings import SearchChoices
from fairbound.data import Dataset
from fairbound.fairness import Measure, parse_constraint, resolve_measure
from fairbound.studies.judged import Judgement
from fairbound.studies.parts import Part, collected_warnings
from fairbound.studies.settings import StudySettings, hidden_layers, make_base

RATIOS = (0.7, 0.8, 0.9, 0.95)
DIFFERENCES = (0.15, 0.1, 0.05, 0.02)
_WITHIN = re.compile(r"\s*(accuracy|auc|log_loss)\s+(\d*\.?\d+)\s*")


@dataclass(frozen=True)
class Tolerance:
    """How much worse than the baseline a model may be: in points of accuracy or AUC, or in log loss."""

    metric: str
    amount: float

    @classmethod
    def parse(cls, text: str) -> Tolerance:
        """Read a text such as "accuracy 0.5".

        >>> Tolerance.parse("accuracy 0.5")
        Tolerance(metric='accuracy', amount=0.5)
        """
        found = _WITHIN.fullmatch(text) if isinstance(text, str) else None
        if found is None:
            raise bad_value("within", text, "accuracy, auc or log_loss and an amount, as in 'accuracy 0.5' (points)")
        return cls(found[1], float(found[2]))

    def holds(self, judged: Judgement, baseline: Judgement) -> bool:
        """Return whether a model is within the tolerance of the baseline."""
        if self.metric == "log_loss":
            ours, theirs = judged.log_loss, baseline.log_loss
            return ours is not None and theirs is not None and ours - theirs <= self.amount + 1e-12
        one, other = (getattr(each, self.metric) for each in (judged, baseline))
        if one is None or other is None or one.value is None or other.value is None:
            return False
        return bool(other.value - one.value <= self.amount / 100.0 + 1e-12)

    def __str__(self) -> str:
        return (
            f"{self.amount:g} of log loss"
            if self.metric == "log_loss"
            else f"{self.amount:g} point{'s' * (self.amount != 1)} of {self._name}"
        )

    @property
    def _name(self) -> str:
        return "AUC" if self.metric == "auc" else self.metric


@dataclass(frozen=True, repr=False)
class SearchPlan(SearchChoices):
    """Everything that is fixed before training begins.

    Parameters
    ----------
    measures : tuple of Measure
    bounds : dict of the name of a measure to its bounds
    """

    measures: Annotated[Any, IN_PYTHON] = ()
    bounds: Annotated[Any, IN_PYTHON] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.models, str):
            object.__setattr__(self, "models", (self.models,))
        Tolerance.parse(self.within)
        for kind in self.models:
            try:
                hidden_layers(kind)
            except InputError as error:
                raise error.with_facts(argument=argument("models", kind)) from None
            for measure in self.measures:
                self.settings(kind, measure)

    @property
    def tolerance(self) -> Tolerance:
        """How much worse than the baseline an alternative may be."""
        return Tolerance.parse(self.within)

    def settings(self, kind: str, measure: Measure) -> StudySettings:
        """Return the settings of one frontier."""
        side = ">=" if measure.larger_is_stricter else "<="
        bounds = self.bounds[measure.name]
        return StudySettings.build(
            parse_constraint(f"{measure.name} {side} {bounds[0]!r}"),
            bounds,
            model=kind,
            test_size=0.0,
            seed=self.seed,
            groups=self.groups,
        )

    def as_call(self) -> str:
        """Return the call of `alternatives` with this plan."""
        plan = self.as_dict()
        given = {
            "bounds": plan["bounds"],
            "models": plan["models"],
            **{name: value for name, value in self.changed().items() if name not in ("measures", "bounds", "models")},
        }
        written = ", ".join(f"{name}={value!r}" for name, value in given.items())
        return f"fairbound.alternatives(data, {plan['measures']}, {written})"

    def as_dict(self) -> dict[str, Any]:
        """Return the plan in plain values."""
        return {
            **vars(self),
            "measures": [measure.name for measure in self.measures],
            "groups": self.groups.get_params(),
            "bounds": {name: list(bounds) for name, bounds in self.bounds.items()},
            "models": list(self.models),
            "tolerance": vars(self.tolerance),
        }


def compared_measures(measures: Any) -> tuple[Measure, ...]:
    """Return the measures of a search; raise an error unless they are ratios or differences."""
    several = [measures] if isinstance(measures, str | Measure) else list(measures)
    if not several:
        raise InputError("{measures=} is empty.", "Name at least one, such as disparate_impact.")
    found = tuple(resolve_measure(measure) for measure in several)
    for measure in found:
        if measure.comparison not in ("ratio", "difference"):
            raise InputError(
                "{name!r} is neither a ratio nor a difference between groups.",
                "Name such a measure, for example disparate_impact.",
                name=measure.name,
            )
    return found


def grids(measures: tuple[Measure, ...], given: Any) -> dict[str, tuple[float, ...]]:
    """Return the bounds of each measure from loose to strict: the given ones, or four by default."""
    if given is not None and not isinstance(given, Mapping):
        if len(measures) > 1:
            raise InputError(
                "{bounds=} is one grid, but there are several measures.", "Give a mapping of measures to bounds."
            )
        given = {measures[0].name: given}
    found = {}
    for measure in measures:
        usual = RATIOS if measure.larger_is_stricter else DIFFERENCES
        chosen = usual if given is None or measure.name not in given else given[measure.name]
        found[measure.name] = tuple(sorted({float(each) for each in chosen}, reverse=not measure.larger_is_stricter))
    return found


# --- the lock ---------------------------------------------------------------------------------------------------------

LOCK_FILE = "limits.lock"


def locked(content: Any) -> dict[str, Any]:
    """Return the content with the time and its hash.

    >>> locked({"limits": ["disparate_impact >= 0.8"]})["sha256"][:12]
    '6b6d90fd8aa5'
    """
    return {
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
        "sha256": content_hash(content),
        "content": content,
    }


def content_hash(content: Any) -> str:
    """Return the SHA-256 of JSON with sorted keys and without spaces."""
    written = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(written.encode("ascii")).hexdigest()


def rows_hash(data: Dataset) -> str:
    """Return the SHA-256 of the rows themselves: label codes, groups and inputs, column by column.

    Numbers are hashed as they are in memory, in the byte order of this computer, and other values as text.
    """
    digest = hashlib.sha256()
    for role, columns in (("label", {"": data.y}), ("group", data.sensitive), ("input", data.table.columns)):
        for name, values in columns.items():
            column = np.asarray(values)
            digest.update(f"{role}\x1f{name}\x1f{column.dtype.kind}\x1f".encode("utf-8", "surrogatepass"))
            if column.dtype.kind in "biuf":
                digest.update(np.ascontiguousarray(column).tobytes())
            else:
                digest.update("\x1f".join(map(str, column.tolist())).encode("utf-8", "surrogatepass"))
            digest.update(b"\x1e")
    if data.processes is None:
        return digest.hexdigest()
    return hashlib.sha256("".join(data.processes.gather(digest.hexdigest())).encode("ascii")).hexdigest()


def trained_rows(run: Path) -> str | None:
    """Return the hash of the rows of a run, from the lock in its folder, or beside the folder of its model."""
    for folder in (run, run.resolve().parent):
        try:
            content = json.loads((folder / LOCK_FILE).read_text(encoding="utf-8"))["content"]
        except (OSError, ValueError, LookupError, TypeError):
            continue
        return content.get("rows_sha256") if isinstance(content, dict) else None
    return None


def write_lock(lock: Mapping[str, Any], folder: Path) -> None:
    """Write the lock into the folder of a run; an existing lock must have the same hash."""
    place = folder / LOCK_FILE
    if place.exists():
        if json.loads(place.read_text(encoding="utf-8"))["sha256"] != lock["sha256"]:
            raise ValueError(f"{place} has another hash: the limits were changed after they had been written.")
        return
    place.write_bytes(json_bytes(lock))


# --- the choice of a model -------------------------------------------------------------------------------------------

# The choice between a linear model and boosted trees, by their loss on rows that they have not seen.
#
# Both are cross-fitted without limits on the same folds of the training rows.  Trees are chosen if their mean log loss
# is smaller by more than the standard error of the difference.  Otherwise the linear model is chosen, because it is
# faster and easier to explain.


FEWEST_ROWS = 2_000
"""With fewer training rows, trees are not tried: their leaves would have too few rows."""

MOST_ROWS = 30_000
"""The most rows used for the choice.  More would take longer and hardly change it."""

FOLDS = 3


@dataclass(frozen=True)
class ModelChoice:
    """The chosen model, and a sentence that says why."""

    model: str
    reason: str


def choose_model(training: Part, settings: StudySettings, pos_label: str | None) -> ModelChoice:
    """Choose between "linear" and "boosted" on training rows."""
    if training.data.processes is not None:
        return ModelChoice("linear", "Model: linear. Boosted trees were not tried: they need all rows in one process.")
    rarest = min(Counter(training.data.y.tolist()).values())
    if len(training) < FEWEST_ROWS or rarest < FOLDS:
        few = f"fewer than {FEWEST_ROWS:,} training rows" if rarest >= FOLDS else "a label with very few rows"
        return ModelChoice("linear", f"Model: linear. Boosted trees were not tried, because there are {few}.")
    if len(training) > MOST_ROWS:
        data = training.data.split(MOST_ROWS / len(training), random_state=settings.seed, scale=False).test
        training = Part.of(data)
    losses = {
        name: unseen_losses(base, training, settings, pos_label)
        for name, base in (("linear", _logistic_regression()), ("boosted", make_base("boosted", settings.seed)))
    }
    weights = np.ones(len(training)) if training.weight is None else np.asarray(training.weight, dtype=np.float64)
    share = weights / weights.sum()
    linear, boosted = (float(share @ losses[name]) for name in ("linear", "boosted"))
    gain = losses["linear"] - losses["boosted"]
    error = float(np.sqrt((share**2) @ (gain - share @ gain) ** 2))
    model = "boosted" if linear - boosted > error else "linear"
    words = "boosted trees" if model == "boosted" else "linear"
    return ModelChoice(
        model,
        f"Model: {words}, chosen by {FOLDS}-fold cross-validation without limits on {len(training):,} training rows. "
        f"Log loss: linear {linear:.4f}, boosted trees {boosted:.4f}, standard error of the difference {error:.4f}.",
    )


def unseen_losses(base: Any, rows: Part, settings: StudySettings, pos_label: str | None) -> NDArray[np.float64]:
    """Return the log loss of each row, scored by a base that was not trained on it."""
    from fairbound.estimator import ConstrainedClassifier, TableEncoder, cross_fitted_scores

    trial = ConstrainedClassifier(
        base=Base(base, cv=FOLDS, ensemble=True),  # no refit on all rows
        encoder=TableEncoder(max_categories=rows.data.max_categories),
        pos_label=pos_label,
        random_state=settings.seed,
    )
    with collected_warnings():  # the chosen model is fitted to the same columns, and warns about them
        scores = cross_fitted_scores(trial, rows.inputs, rows.y, rows.weight)
    if scores.ndim == 1:  # two classes: the logit of the second
        scores = np.column_stack([np.zeros(len(scores)), scores])
    own = np.searchsorted(np.unique(rows.y), rows.y)
    total: NDArray[np.float64] = np.logaddexp.reduce(scores, axis=1)
    return total - scores[np.arange(len(own)), own]


def _logistic_regression() -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(max_iter=1000)
