"""Encoded rows of files in a scratch folder, ready for one fit or several, and counts of their decisions."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fairbound._errors import InputError, argument
from fairbound._files import draft_beside
from fairbound._values import as_array
from fairbound.data import MISSING, TableFile, TableStream, make_frame, typed_copy
from fairbound.estimator.encoder import TableEncoder
from fairbound.estimator.file_rows import HELD_OUT, TRAINING, FileColumns, FileRows, Tell
from fairbound.estimator.inputs import Floats, Inputs, read_inputs
from fairbound.estimator.modules import logits
from fairbound.estimator.names import learn_names
from fairbound.estimator.rows import Parameters
from fairbound.evaluation import Repeats
from fairbound.fairness import as_constraints, decide
from fairbound.training import MappedRows, Processes, Rows, SharedRows

CHUNK_ROWS = 2**16
"""Rows that are decided at once."""

NO_FORECAST = "the rows were read from files in parts, and a forecast needs them in memory."


@dataclass(frozen=True, eq=False)
class DecidedEntries:
    """The combinations of label, groups and decisions that occur, and the number of rows of each.

    `decisions` has an array for each classifier, in the words of the label.
    """

    y: NDArray[Any]
    groups: dict[str, NDArray[Any]]
    decisions: tuple[NDArray[Any], ...]
    weight: Floats | None
    repeats: Repeats


class PreparedRows:
    """The encoded rows of files in a scratch folder, ready for one fit or several; `prepared_rows` makes them."""

    def __init__(self, rows: FileRows, folder: Path, params: Parameters) -> None:
        self.rows, self.folder = rows, folder
        self.pos_label = rows.labels.names[1] if len(rows.labels.names) == 2 else None
        self.cells, cell_of_entry = rows.cells(groups=params.groups, pos_label=self.pos_label)
        parts = [rows.write(self._fresh("training"), TRAINING, cell_of_entry, self.cells.n_labels)]
        entries = np.arange(len(cell_of_entry))
        if rows.counts.rows[HELD_OUT].any():  # no sums over cells are needed: each entry is a cell
            parts.append(rows.write(self._fresh("held_out"), HELD_OUT, entries, 1))
        self.parts: tuple[Rows, ...] = tuple(map(self._shared, range(2), parts))
        some_entry = np.zeros(self.cells.n_cells, dtype=np.int64)
        some_entry[cell_of_entry[cell_of_entry >= 0]] = entries[cell_of_entry >= 0]
        self.entry_of_cell = (some_entry, entries)

    def _shared(self, part: int, own: MappedRows) -> Rows:
        """Return the rows of a part; if several processes share the fit, with the facts about the rows of all."""
        rows = self.rows
        if rows.processes is None:
            return own
        weight = float(np.ldexp(rows.own.weight[part].sum(), rows.exponent if rows.columns.weight else 0))
        sizes = self.cells.sizes if part == TRAINING else torch.from_numpy(rows.counts.rows[HELD_OUT])
        n_labels = self.cells.n_labels if part == TRAINING else 1
        return SharedRows.build(own.in_double(), weight, sizes, n_labels, rows.processes)

    @property
    def training(self) -> Rows:
        """Return the training rows."""
        return self.parts[TRAINING]

    def decided(self, part: int, classifiers: Sequence[Any]) -> DecidedEntries:
        """Decide the rows of a part by some fitted classifiers, and count equal combinations."""
        rows, classes = self.parts[part], self.cells.classes
        size = len(classes) ** len(classifiers)
        weighted = self.rows.columns.weight is not None
        sums = np.zeros((3 if weighted else 1, rows.n_segments * size))
        heaviest = 0.0
        for chunk in rows.in_double().chunks(CHUNK_ROWS):
            code = np.concatenate([np.full(stop - start, segment) for segment, start, stop in chunk.slices])
            for each in classifiers:
                z = logits(each.module_, chunk.X.numpy(), len(classes))
                code = code * len(classes) + decide(z, each.threshold_).numpy()
            weights = chunk.cell_weights.numpy()
            heaviest = max(heaviest, float(weights.max()))
            for power, total in enumerate(sums):
                total += np.bincount(code, weights**power, minlength=len(total))
        if self.rows.processes is not None:
            sums = self.rows.processes.sum(torch.from_numpy(sums)).numpy()
            heaviest = max(self.rows.processes.gather(heaviest))
        found = np.flatnonzero(sums[0])
        rest, decisions = found, []
        for _ in classifiers:
            rest, last = np.divmod(rest, len(classes))
            decisions.append(as_array(classes)[last])
        entry = self.entry_of_cell[part][rows.cell_of_segment.numpy()[rest]]
        mean = (sums[:, found] / sums[0, found])[1:]
        return DecidedEntries(
            y=self.rows.classes[self.rows.labels.codes[entry]],
            groups={name: values[entry] for name, values in self.rows.groups.items()},
            decisions=tuple(reversed(decisions)),
            weight=mean[0] if weighted else None,
            repeats=Repeats(sums[0, found].astype(np.int64), mean[1] if weighted else None, heaviest),
        )

    def spread(self) -> Floats:
        """Return the standard deviation of each input of the module over the training rows."""
        first, second = np.zeros((2, self.rows.layout.width))
        for chunk in self.training.in_double().chunks(CHUNK_ROWS):
            X = chunk.X.numpy()
            first, second = first + X.sum(axis=0), second + (X * X).sum(axis=0)
        if self.rows.processes is not None:
            first, second = self.rows.processes.sum(torch.from_numpy(np.stack([first, second]))).numpy()
        mean = first / len(self.cells)
        return np.sqrt(np.maximum(second / len(self.cells) - mean**2, 0.0))

    def _fresh(self, name: str) -> Path:
        folder = self.folder / name
        folder.mkdir()
        return folder

    @property
    def inputs(self) -> Inputs:
        """Return one row of zeros that has the names of the input columns."""
        return read_inputs(make_frame({name: np.zeros(1) for name in self.rows.names}, "pyarrow"))

    @property
    def classes(self) -> NDArray[Any]:
        """Return the labels in order."""
        found: NDArray[Any] = np.sort(self.rows.classes)
        return found

    @property
    def n_inputs(self) -> int:
        """Return the number of inputs of the module."""
        return self.rows.layout.width

    @property
    def positive_is_stated(self) -> bool:
        """Return whether the positive values of the label were named."""
        return self.rows.columns.positive is not None

    @property
    def note(self) -> str:
        """Return how the rows were read."""
        place, processes = self.rows.stream.place, self.rows.processes
        shared = "" if processes is None or processes.count == 1 else f" {processes.count} processes shared the fit."
        return f"The rows were read from {place} in parts and streamed from a scratch folder in every pass.{shared}"

    no_forecast = NO_FORECAST

    def input_names(self, encoder: TableEncoder) -> list[str]:
        """Return the names of the inputs of the module."""
        return [str(name) for name in encoder.get_feature_names_out()]

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
    processes: Processes | None = None,
) -> Iterator[PreparedRows]:
    """Survey the files, and write the encoded rows to a scratch folder, which is removed at the end.

    The folder is in `scratch`, by default the system's folder for temporary files.  Folders of killed runs are removed
    at the start.
    """
    if processes is not None:
        stream = replace(stream, share=(processes.rank, processes.count))
    rows = FileRows(stream, columns, tell, processes)
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
    *,
    test_size: float = 0.0,
    seed: int = 0,
    tell: Tell | None = None,
    processes: Processes | None = None,
) -> Iterator[PreparedRows]:
    """Open the files of a fit with the options of `read_table`, and prepare their rows; a share may be held out."""
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
        test_size=test_size,
        seed=seed,
        **columns,
    )
    if not described.sensitive and len(as_constraints(params.constraints)):
        raise InputError("The limits are between groups, but no column of groups is named.", "Give {sensitive=}.")
    place = Path(tempfile.gettempdir() if scratch is None else scratch)
    with (
        opened_stream(source, place, described, tell=tell, **options) as stream,
        prepared_rows(stream, described, params, scratch=place, tell=tell, processes=processes) as prepared,
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
