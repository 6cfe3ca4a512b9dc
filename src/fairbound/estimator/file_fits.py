"""Fit a model to the rows of files that do not fit in memory.

The rows are surveyed and written to a scratch folder once (`FileRows`), and then fitted as rows in memory are: the same
problem, phases and checks.  Decisions are counted in chunks, as `predict` makes them.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from sklearn.utils import check_random_state
from torch import Tensor

from fairbound._errors import InputError, argument
from fairbound._files import draft_beside
from fairbound._progress import ProgressPrinter
from fairbound.data import MISSING, TableFile, TableStream, make_frame, typed_copy
from fairbound.estimator.encoder import TableEncoder
from fairbound.estimator.file_rows import HELD_OUT, TRAINING, FileColumns, FileRows, Tell
from fairbound.estimator.fitting import Fitting
from fairbound.estimator.groups import count_missing
from fairbound.estimator.inputs import Inputs, read_inputs
from fairbound.estimator.modules import first_module, logits
from fairbound.estimator.names import learn_names
from fairbound.estimator.parameters import checked_resume, stated_effort, stated_solver
from fairbound.estimator.result import FitResult
from fairbound.estimator.rows import Parameters, warn_if_guessed
from fairbound.estimator.small_groups import SmallGroup, settle_small_groups
from fairbound.evaluation import Forecast
from fairbound.fairness import ConstraintSystem, as_constraints, decide
from fairbound.training import (
    Assessment,
    Effort,
    GapSums,
    MappedRows,
    Passes,
    SweepTotals,
    fit,
    gap_sums_of_rows,
    resumed,
)

CHUNK_ROWS = 2**16
"""Rows whose decisions are counted at once."""

NO_FORECAST = "the rows were read from files in parts, and a forecast needs them in memory."

REFUSED: dict[str, tuple[Any, ...]] = {
    "base": (None,),
    "confidence": (None,),
    "margin": (None,),
    "early_stopping": (False,),
    "class_weight": (None,),
    "no_group_worse": (False,),
    "warm_start": (False,),
    "preprocessing": ("auto",),
    "sensitive_columns": (None,),
    "missing_groups": ("ignore",),
    "constraint_weight": ("same", "none"),
}
"""Parameters that need all rows in memory, and the values that do not."""


def check_parameters(params: Parameters) -> None:
    """Reject parameters that need all rows in memory."""
    for name, allowed in REFUSED.items():
        value = getattr(params, name)
        if not any(value is each or (isinstance(value, str) and value == each) for each in allowed):
            raise InputError(
                "{name}={value!r} needs all rows in memory, but files are read in parts.",
                "Leave it out, or read the rows with read_table and call fit.",
                name=name,
                value=value,
            )


class PreparedRows:
    """The encoded rows of files in a scratch folder, ready for one fit or several; `prepared_rows` makes them."""

    def __init__(self, rows: FileRows, folder: Path, params: Parameters) -> None:
        self.rows, self.folder = rows, folder
        self.pos_label = rows.labels.names[1] if len(rows.labels.names) == 2 else None
        self.cells, self.cell_of_entry = rows.cells(TRAINING, groups=params.groups, pos_label=self.pos_label)
        self.training = rows.write(self._fresh("training"), TRAINING, self.cells, self.cell_of_entry)
        self.held_out: MappedRows | None = None
        if rows.columns.test_size and rows.counts.rows[HELD_OUT].any():
            self.held_out_cells, of_entry = rows.cells(HELD_OUT, groups=params.groups, pos_label=self.pos_label)
            self.held_out = rows.write(self._fresh("held_out"), HELD_OUT, self.held_out_cells, of_entry)

    def _fresh(self, name: str) -> Path:
        folder = self.folder / name
        folder.mkdir()
        return folder

    @property
    def inputs(self) -> Inputs:
        """Return a row without values that has the columns of the inputs, for their names."""
        return read_inputs(make_frame({name: np.zeros(1) for name in self.rows.names}, "pyarrow"))

    def encoder(self, params: Parameters) -> TableEncoder:
        """Return an encoder with the encoding of these rows."""
        found = TableEncoder(categorical=params.categorical, max_categories=params.max_categories)
        found.columns_ = self.rows.encoded
        learn_names(found, self.inputs)
        return found


@contextmanager
def prepared_rows(
    stream: TableStream,
    columns: FileColumns,
    params: Parameters,
    *,
    scratch: Path | None = None,
    tell: Tell | None = None,
) -> Iterator[PreparedRows]:
    """Survey the files, and write the encoded rows to a scratch folder, which is removed at the end.

    The folder is in `scratch`, by default the system's folder for temporary files.  What a killed run has left there is
    removed at the start.
    """
    rows = FileRows(stream, columns, tell)
    with draft_beside((scratch or Path(tempfile.gettempdir())) / "rows", "the encoded rows") as draft:
        yield PreparedRows(rows, draft.folder, params)


@contextmanager
def opened_files(
    source: str | os.PathLike[str],
    target: str,
    sensitive: str | Sequence[str],
    params: Parameters,
    scratch: str | os.PathLike[str] | None,
    reading: Mapping[str, Any],
) -> Iterator[PreparedRows]:
    """Open the files of a fit with the options of `read_table`, and prepare their rows."""
    options, columns = dict(reading), {}
    for name in ("positive", "negative", "weight", "sensitive_as_input", "drop_unlabelled", "bands"):
        if options.get(name) is not None:
            columns[name] = options[name]
        options.pop(name, None)
    for name in ("categorical", "ignore"):
        columns[name] = _names(options.pop(name, ()))
    if params.categorical is not None:
        columns["categorical"] = (*columns["categorical"], *_names(params.categorical))
    described = FileColumns(
        target=target,
        sensitive=_names(sensitive),
        max_categories=params.max_categories,
        cell_weights=params.constraint_weight == "same",
        **columns,
    )
    if not described.sensitive and len(as_constraints(params.constraints)):
        raise InputError("The limits are between groups, but no column of groups is named.", "Give {sensitive=}.")
    place = Path(tempfile.gettempdir() if scratch is None else scratch)
    with (
        opened_stream(source, place, described, **options) as stream,
        prepared_rows(stream, described, params, scratch=place) as prepared,
    ):
        yield prepared


def _names(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


@contextmanager
def opened_stream(
    source: str | os.PathLike[str],
    scratch: Path,
    columns: FileColumns,
    *,
    missing: Sequence[str] = MISSING,
    decimal: str | None = None,
    delimiter: str | None = None,
    encoding: str = "utf-8",
    tell: Tell | None = None,
) -> Iterator[TableStream]:
    """Open Parquet files, or make a typed copy of a CSV file in a scratch folder, which is removed at the end."""
    path = Path(source)
    if path.is_dir():
        yield TableStream.open(path, missing=missing)
        return
    file = TableFile.open(path, delimiter=delimiter, encoding=encoding)
    if file.is_parquet:
        yield TableStream.open(path, missing=missing)
        return
    read = 0

    def progress(rows: int) -> None:
        nonlocal read
        read += rows
        if tell is not None:
            tell("Reading the file", read, 0)

    for name in columns.ignore:
        file.check_column(name, argument("ignore"))
    with draft_beside(scratch / "typed", "the typed copy") as draft:
        folder = draft.folder / "typed"
        folder.mkdir()
        words = {*columns.keys, *columns.categorical}
        yield typed_copy(
            file, folder, words=words, ignore=columns.ignore, missing=missing, decimal=decimal, progress=progress
        )


class FileFitting(Fitting):
    """The state of one fit to prepared rows."""

    def __init__(self, params: Parameters, prepared: PreparedRows, passes: Passes) -> None:
        self.params, self.prepared, self.passes = params, prepared, passes
        self.constraints = as_constraints(params.constraints)
        cells = prepared.cells
        if params.pos_label is None and prepared.rows.columns.positive is None:
            warn_if_guessed(cells.classes, self.constraints, who=type(params).__name__, stacklevel=4)
        self.small: tuple[SmallGroup, ...] = ()
        self.missing = count_missing(cells)
        if self.constraints:
            cells, self.small = settle_small_groups(cells, self.constraints, params.small_groups, params.min_group_size)
        self.cells = cells
        seed = int(check_random_state(params.random_state).randint(2**31 - 1))
        self.encoder = prepared.encoder(params)
        self.input_names = [str(name) for name in self.encoder.get_feature_names_out()]
        self.base, self.floors = None, ()
        self.n_inputs = prepared.rows.layout.width
        self.generator = torch.Generator().manual_seed(seed)
        self.module = first_module(
            params.module,
            params.hidden,
            shape=(len(cells), self.n_inputs),
            n_labels=cells.n_labels,
            seed=seed,
            generator=self.generator,
        )
        self.problem = self._pose(self.constraints)
        self.classes = np.sort(prepared.rows.classes)

    def train(self) -> FitResult:
        """Train, count the decisions, and return the record."""
        progress = ProgressPrinter(int(self.params.verbose))
        result = fit(
            self.problem,
            self.prepared.training,
            solver=stated_solver(self.params),
            effort=self._effort(),
            generator=self.generator,
            objective="accuracy" if self.params.objective == "accuracy" else "loss",
            callback=self._callback(progress, None, None),
        )
        progress.close()
        record, facts = self._finish(result)
        files = self.prepared.rows.stream
        note = f"The rows were read from {files.place} in parts and streamed from a scratch folder in every pass."
        record = replace(
            record,
            forecast=Forecast(reason=NO_FORECAST) if self.constraints else None,
            notes=(*record.notes, note),
        )
        facts.warn(record, type(self.params).__name__, stacklevel=4)
        return record

    def _effort(self, default: Effort | None = None) -> Effort | None:
        return stated_effort(self.params, len(self.cells), self.problem.n_parameters) or default

    def _logits(self, rows: MappedRows) -> Iterator[tuple[Any, Tensor]]:
        """Yield each chunk with its logits, computed as `predict` does."""
        for chunk in rows.in_double().chunks(CHUNK_ROWS):
            yield chunk, logits(self.module, chunk.X.numpy(), self.cells.n_labels)

    def _totals(self) -> SweepTotals:
        rows, cells = self.prepared.training, self.cells
        totals = SweepTotals(
            self.problem.loss, (), cells.outcomes, rows, threshold=self.problem.threshold, n_parameters=0
        )
        self._decided_rows = torch.zeros(cells.n_labels, dtype=torch.int64)
        for chunk, z in self._logits(rows):
            decisions = decide(z, self.problem.threshold)
            totals.add_decisions(chunk, decisions)
            self._decided_rows += torch.bincount(decisions, minlength=cells.n_labels)
        return totals

    def _count(self, assessment: Assessment, decisions: Tensor | None = None) -> Assessment:
        assert decisions is None, "there is no base, whose decisions would be counted"
        sweep = self._totals().sweep(gradients=False)
        counts = self.problem.exact(self.prepared.training, sweep)
        return replace(assessment, accuracy=sweep.accuracy, counts=counts)

    def _decided(self) -> Tensor:
        return self._decided_rows

    def _gap_sums(self, system: ConstraintSystem) -> GapSums:
        return gap_sums_of_rows(system, self.prepared.training, self._logits(self.prepared.training))


class FitsFiles:
    """The method of a classifier that takes files."""

    def fit_files(
        self,
        source: str | os.PathLike[str],
        *,
        target: str,
        sensitive: str | Sequence[str] = (),
        scratch: str | os.PathLike[str] | None = None,
        resume: str | os.PathLike[str] | Passes | None = None,
        **reading: Any,
    ) -> Self:
        """Train under the limits on files that need not fit in memory.

        The rows are read in parts, encoded into a scratch folder on disk, and read from there in every pass.  The
        result is that of `fit` on the rows of `read_table`: `fit(data.frame(), labels, sensitive_features=
        data.sensitive)`, where the labels are words.  Memory does not grow with the number of rows.

        Parameters
        ----------
        source : path
            A Parquet file, a folder of Parquet files, or a CSV file; needs pyarrow.
        target : str
            Column of the label.
        sensitive : str or sequence of str
            Sensitive columns.
        scratch : path, optional
            Where the scratch folder is made; by default the system's folder for temporary files.  It needs 12 bytes
            for each number of each row, and is removed at the end.
        resume : path, optional
            As for `fit`.
        **reading
            `positive`, `negative`, `weight`, `bands`, `categorical`, `ignore`, `sensitive_as_input`,
            `drop_unlabelled`, `missing`, `decimal`, `delimiter` and `encoding`, as for `read_table`.

        Raises
        ------
        ValueError
            Also for parameters that need all rows in memory, such as `base`, `confidence` and `margin`.
        """
        estimator: Any = self
        estimator._validate_params()
        check_parameters(estimator)
        with opened_files(source, target, sensitive, estimator, scratch, reading) as prepared:
            with resumed(checked_resume(estimator, resume)) as passes:
                fitting = FileFitting(estimator, prepared, passes)
                found = fitting.train()
            estimator._adopt(prepared.inputs, None, fitting, found)
        return self
