"""A study of files that do not fit in memory: rows are streamed, and decisions are counted as they are made.

Models, summary and report have the same form as in a study in memory, and the held-out rows are the same.  Base models,
`confidence` and `margin` raise an error.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fairbound._errors import InputError, argument
from fairbound._json import as_json
from fairbound._model_settings import Callback
from fairbound._values import as_array
from fairbound.data import (
    Column,
    ColumnFormat,
    LabelValue,
    SuspectedLeak,
    Table,
    Taken,
    as_word,
    column_schema,
    find_leaks,
    make_frame,
    taken_for,
)
from fairbound.fairness import Constraint
from fairbound.studies.judged import SHOWN, coefficients, shuffled_importances
from fairbound.studies.measured import Decisions, SweptPoint
from fairbound.studies.parts import (
    check_limited_groups,
    collected_warnings,
    column_remarks,
    small_group_notes,
    table_backend,
)
from fairbound.studies.plan import locked
from fairbound.studies.running import Study
from fairbound.studies.settings import BASES, StudySettings

if TYPE_CHECKING:
    from fairbound.estimator import ConstrainedClassifier, DecidedEntries, FrontierModel, PreparedRows

SAMPLE_ROWS = 20_000
"""Number of first rows that remarks about columns are based on."""


@dataclass(frozen=True, eq=False)
class StreamedData:
    """Facts about the rows of files, with the attributes of a `Dataset`."""

    prepared: PreparedRows = field(repr=False)
    path: str
    notes: Sequence[str] = ()

    @property
    def name(self) -> str:
        """Return the name of the file or folder."""
        return Path(self.path).stem

    @property
    def target(self) -> str:
        """Return the column of the label."""
        return self.prepared.rows.roles.target

    @property
    def target_names(self) -> tuple[str, ...]:
        """Return words for the label codes."""
        return self.prepared.rows.labels.names

    @property
    def label_values(self) -> tuple[LabelValue, ...]:
        """Return each value of the label, its number of rows, and its code."""
        return self.prepared.rows.labels.values

    @property
    def sensitive(self) -> dict[str, Any]:
        """Return the groups of each entry, by column."""
        return self.prepared.rows.groups

    @property
    def formats(self) -> Mapping[str, ColumnFormat]:
        """Return the formats of all columns."""
        return self.prepared.rows.source.formats

    @property
    def schema(self) -> dict[str, Column]:
        """Return the kind of each input."""
        return {column.name: column for column in self.sample.schema}

    @property
    def max_categories(self) -> int:
        """Return the most categories of one column."""
        return self.prepared.rows.roles.max_categories

    @property
    def categorical(self) -> tuple[str, ...]:
        """Return the inputs that are categories."""
        return self.sample.categorical

    @property
    def description(self) -> str:
        """Return where the rows come from."""
        return f"Read from {Path(self.path).name} in parts; the label is {self.target}."

    def __len__(self) -> int:
        return len(self.prepared.rows)

    @cached_property
    def head(self) -> Any:
        """Return the first rows as a pyarrow table."""
        return self.prepared.rows.source.head(SAMPLE_ROWS)

    @cached_property
    def sample(self) -> Table:
        """Return the inputs of the first rows."""
        rows = self.prepared.rows
        columns = {name: rows.source.values(name, self.head.column(name)) for name in rows.names}
        schema = tuple(
            column_schema(name, values, name in rows.words, rows.roles.max_categories)
            for name, values in columns.items()
        )
        return Table(schema, columns, {name: self.formats[name] for name in columns})

    @cached_property
    def sample_labels(self) -> Any:
        """Return the label codes of the first rows, −1 without a label."""
        rows = self.prepared.rows
        codes = {each.value: each.code for each in self.label_values}
        values = rows.source.values(self.target, self.head.column(self.target))
        return np.array([codes.get(as_word(value), -1) for value in values.tolist()])

    def taken(self) -> tuple[Taken, ...]:
        """Return how the columns of the first rows were interpreted, where that is not obvious."""
        return taken_for(self.sample)

    def suspected_leaks(self) -> list[SuspectedLeak]:
        """Return the inputs that predict the label of the first rows almost without error."""
        known = np.flatnonzero(self.sample_labels >= 0)
        return find_leaks(self.sample.take(known), self.sample_labels[known])


class StreamedStudy(Study):
    """A study of prepared rows."""

    streamed: StreamedData

    def __init__(self, prepared: PreparedRows, settings: StudySettings, source: str) -> None:
        from fairbound.training import Passes

        check_streamed(settings)
        data: Any = StreamedData(prepared, source)
        check_limited_groups(settings.limits, data, settings.groups.combine)
        self.prepared, self.data, self.streamed = prepared, data, data
        self.settings = replace(settings, model="linear") if settings.model == "auto" else settings
        self.training: Any = range(prepared.sizes[0])
        self.held_out: Any = range(prepared.sizes[1]) if len(prepared.sizes) > 1 else None
        self.calibration, self.passes = None, Passes(None, prepared.rows.processes)
        self._begin(settings, streamed_lock(data, settings))
        seen = f"Remarks about columns are from the first {min(SAMPLE_ROWS, len(data)):,} rows."
        self._remarks = [seen]
        if settings.model == "auto":
            self._remarks.append("Model: linear, because the choice of a model needs the rows in memory.")
        self._remarks += column_remarks(data)

    def _fit(self, limits: Sequence[Constraint], callback: Callback | None) -> ConstrainedClassifier:
        with collected_warnings() as self._warnings:
            fitted = self._classifier(limits, callback, None).fit(self.prepared, resume=self.passes)
        self._release(fitted)
        return fitted

    def _trace(self, callback: Callback | None) -> tuple[FrontierModel, ...]:
        with collected_warnings():  # the records of the models say the same
            classifier = self._classifier(self.settings.limits, callback, None)
            found = classifier.frontier(self.prepared, None, self.settings.bounds, resume=self.passes)
        self._warnings = []
        for each in found:
            self._release(each.classifier)
        return found

    @cached_property
    def _decided(self) -> list[tuple[DecidedEntries, dict[int, Any]]]:
        """Return, for each part, the counted entries and the decisions of each model (by `id`)."""
        swept = [point.classifier for point in self.frontier]
        models = {id(each): each for each in (self.before, self.after, *swept) if each is not None}
        found = [self.prepared.decided(part, list(models.values())) for part in range(len(self.prepared.parts))]
        return [(each, dict(zip(models, each.decisions, strict=True))) for each in found]

    def _decisions(self, part: Any) -> Decisions | None:
        if part is None:
            return None
        found, decided = self._decided[0 if part is self.training else 1]
        return Decisions(
            y=found.y,
            sensitive_features=found.groups,
            before=None if self.before is None else decided[id(self.before)],
            after=decided[id(self.after)],
            sample_weight=found.weight,
            repeats=found.repeats,
        )

    def _swept(self, point: FrontierModel) -> SweptPoint:
        training, *held_out = (decided[id(point.classifier)] for _, decided in self._decided)
        return SweptPoint(point=point.as_dict(), training=training, held_out=held_out[0] if held_out else None)

    def _explain(self, *_: Any) -> dict[str, Any]:
        if not self.settings.hidden:
            inputs, kind, rows = coefficients(self.after, self.prepared.spread()), "coefficients", "training"
        else:
            known = np.flatnonzero(self.streamed.sample_labels >= 0)
            frame = make_frame(self.streamed.sample.take(known).show(), table_backend())
            labels = as_array(self.data.target_names)[self.streamed.sample_labels[known]]
            classes = self.after.classes_.tolist()
            found = shuffled_importances(self.after.predict_proba, frame, labels, classes, seed=self.settings.seed)
            inputs = [{"name": name, "label": None, "value": each} for name, each in found.items()]
            kind, rows = "importances", "first"
        inputs.sort(key=lambda each: -abs(each["value"]))
        return {"kind": kind, "rows": rows, "total": len(inputs), "inputs": inputs[:SHOWN]}

    def _notes(self) -> list[str]:
        return [
            *self._remarks,
            *(text for text in self._warnings if self.result.message not in text),
            *small_group_notes(self.result),
            *self.result.notes,
            self.data.description,
        ]


def check_streamed(settings: StudySettings) -> None:
    """Raise an error for settings that need all rows in memory."""
    refused = {
        "model": settings.model if settings.model in BASES else None,
        "confidence": settings.confidence,
        "margin": settings.margin,
    }
    for name, value in refused.items():
        if value is not None:
            raise InputError(
                "{setting} needs all rows in memory, which would take more memory than allowed.",
                "Leave it out, or allow more with {memory=}.",
                setting=argument(name, value),
            )


def streamed_lock(data: StreamedData, settings: StudySettings) -> dict[str, Any]:
    """Return the lock of a study of files, which has the hash of the files in place of that of the rows."""
    digest = hashlib.sha256()
    path = Path(data.path)
    for each in sorted(path.rglob("*.parquet")) if path.is_dir() else [path]:
        with each.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    content = {each.name: getattr(settings, each.name) for each in fields(settings)}
    content |= {"limits": [str(limit) for limit in settings.limits], "bounds": list(settings.bounds)}
    content |= {"rows": len(data)}
    return locked(as_json({**content, "files_sha256": digest.hexdigest()}))
