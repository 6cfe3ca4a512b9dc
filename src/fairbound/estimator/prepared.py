"""Encoded rows of files in a scratch folder, ready for one fit or several, and counts of their decisions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fairbound._errors import InputError, together
from fairbound._files import draft_beside
from fairbound._values import as_array, distinct
from fairbound.data import Batches, Roles, Source, Tell, as_word, make_frame
from fairbound.estimator.columns import Column, ColumnFacts, Floats, learn_names
from fairbound.estimator.encoder import TableEncoder, stated_encoder
from fairbound.estimator.file_rows import HELD_OUT, TRAINING, FileRows
from fairbound.estimator.inputs import Inputs, read_inputs
from fairbound.estimator.modules import logits
from fairbound.estimator.parameters import Parameters, class_weights
from fairbound.estimator.rows import stated_positive
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


class HeldOutRows(FileRows):
    """The rows of a file of held-out rows, encoded as the training rows are."""

    def __init__(self, source: Batches, like: FileRows) -> None:
        self.like = like
        source.check(dict.fromkeys(like.names, "an input"))
        for name in like.names:
            if name not in like.words and source.formats[name].kind == "text":
                raise InputError(
                    "Column {column!r} has text in {place}, but numbers in {training}.",
                    "Give numbers there, too.",
                    column=name,
                    place=source.place,
                    training=like.source.place,
                )
        further = [name for name in like.roles.inputs(source.names) if name not in like.names]
        ignore, words = (*like.roles.ignore, *further), tuple(like.words)
        roles = replace(like.roles, ignore=ignore, categorical=words)
        super().__init__(source, roles, like.tell, like.processes, cell_weights=like.cell_weights)

    def _code_labels(self) -> None:
        values = self.counts.column(0, self.source)[self.counts.rows[TRAINING] > 0]
        words = list(dict.fromkeys(as_word(value) for value in values.tolist()))
        if len(words) < 2:
            raise ValueError(f"All rows of {self.source.place} have the same label; give rows of at least two.")
        if self.roles.positive is None:
            self._refuse_unknown(words, [each.value for each in self.like.labels.values])
        super()._code_labels()
        self._refuse_unknown(self.classes.tolist(), self.like.classes.tolist())

    def _refuse_unknown(self, words: Sequence[str], known: Sequence[str]) -> None:
        unknown = [word for word in words if word not in known]
        if unknown:
            raise InputError(
                "{place} has the label {unknown!r}, but the labels of {training} are {known}.",
                "Give rows with these labels.",
                place=self.source.place,
                unknown=unknown[0],
                training=self.like.source.place,
                known=", ".join(known),
            )

    def _encoding(self, facts: Sequence[ColumnFacts]) -> tuple[Column, ...]:  # noqa: ARG002  # those of like
        return self.like.encoded


class PreparedRows:
    """The encoded rows of files in a scratch folder, ready for one fit or several; `prepared_rows` makes them.

    Attributes
    ----------
    parts : tuple of Rows
        The training rows, and the held-out rows if there are any.
    training, counted : Rows
        The training rows, with weights of the classes in the loss if they are stated, and without them.
    sizes : tuple of int
        The number of rows of each part, in all processes.
    """

    def __init__(self, rows: FileRows, folder: Path, params: Parameters, held_out: FileRows | None = None) -> None:
        self.rows, self.folder = rows, folder
        self.sources = (rows, held_out or rows)
        positive = rows.labels.names[1] if len(rows.labels.names) == 2 else None
        self.pos_label = stated_positive(params.pos_label, positive, is_stated=self.positive_is_stated)
        self.cells, cell_of_entry = rows.cells(groups=params.groups.combine, pos_label=self.pos_label)
        with together(rows.processes):
            own = rows.write(self._fresh("training"), TRAINING, cell_of_entry, self.cells.n_labels)
        self.training = self.counted = self._shared(own, rows, TRAINING, self.cells.sizes, self.cells.n_labels)
        factors = class_weights(params.loss.class_weight, self.cells)
        if len({*factors.tolist()}) > 1:
            own, by_entry = replace(own, class_factors=tuple(factors.tolist())), factors[cell_of_entry % len(factors)]
            self.training = self._shared(own, rows, TRAINING, self.cells.sizes, self.cells.n_labels, by_entry)
        self.parts: tuple[Rows, ...] = (self.counted,)
        other, part = self.sources[HELD_OUT], HELD_OUT if held_out is None else TRAINING
        entries = np.arange(len(other.counts.rows[part]))  # no sums over cells are needed: each entry is a cell
        if other.counts.rows[part].any():
            with together(rows.processes):
                written = other.write(self._fresh("held_out"), part, entries, 1)
            self.parts += (self._shared(written, other, part, torch.from_numpy(other.counts.rows[part]), 1),)
        self.sizes = tuple(sum(each.sizes) for each in self.parts)
        some_entry = np.zeros(self.cells.n_cells, dtype=np.int64)
        some_entry[cell_of_entry[cell_of_entry >= 0]] = np.flatnonzero(cell_of_entry >= 0)
        self.entry_of_cell = (some_entry, entries)

    def _shared(
        self,
        own: MappedRows,
        source: FileRows,
        part: int,
        sizes: torch.Tensor,
        n_labels: int,
        factors: Floats | float = 1.0,
    ) -> Rows:
        """Return the rows together with facts about the rows of all processes, such as the `sizes` of cells.

        `factors` multiply the weights in the loss, one for each entry.
        """
        if source.processes is None:
            return own
        total = float((source.own.weight[part] * factors).sum())
        weight = math.ldexp(total, source.exponent if source.roles.weight else 0)
        return SharedRows.build(own.in_double(), weight, sizes, n_labels, source.processes)

    def decided(self, part: int, classifiers: Sequence[Any]) -> DecidedEntries:
        """Decide the rows of a part by some fitted classifiers, and count equal combinations."""
        rows, classes = self.parts[part], self.cells.classes
        weighted = self.rows.roles.weight is not None
        counted: list[tuple[NDArray[np.int64], Floats]] = []  # the combinations of a chunk, and sums of weights
        heaviest = 0.0
        for chunk in rows.in_double().chunks(CHUNK_ROWS):
            segments = np.concatenate([np.full(stop - start, segment) for segment, start, stop in chunk.slices])
            known, place = distinct(segments)
            found = known[:, None]  # a segment and the decisions of each classifier so far
            for each in classifiers:
                z = logits(each.module_, chunk.X.numpy(), len(classes))
                known, place = distinct(place * len(classes) + decide(z, each.threshold_).numpy())
                found = np.column_stack([found[known // len(classes)], known % len(classes)])
            weights = chunk.cell_weights.numpy()
            heaviest = max(heaviest, float(weights.max()))
            sums = [np.bincount(place, weights**power) for power in range(3 if weighted else 1)]
            counted.append((found, np.stack(sums)))
        if self.rows.processes is not None:
            gathered = self.rows.processes.gather((counted, heaviest))
            counted, heaviest = [each for own, _ in gathered for each in own], max(each for _, each in gathered)
        found, place = np.unique(np.concatenate([keys for keys, _ in counted]), axis=0, return_inverse=True)
        totals = np.zeros((3 if weighted else 1, len(found)))
        for total, each in zip(totals, np.concatenate([sums for _, sums in counted], axis=1), strict=True):
            np.add.at(total, place.reshape(-1), each)
        decisions = [as_array(classes)[column] for column in found[:, 1:].T]
        entry, source = self.entry_of_cell[part][rows.cell_of_segment.numpy()[found[:, 0]]], self.sources[part]
        mean = (totals / totals[0])[1:]
        return DecidedEntries(
            y=source.classes[source.labels.codes[entry]],
            groups={name: values[entry] for name, values in source.groups.items()},
            decisions=tuple(decisions),
            weight=mean[0] if weighted else None,
            repeats=Repeats(totals[0].astype(np.int64), mean[1] if weighted else None, heaviest),
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
        return self.rows.roles.positive is not None

    @property
    def note(self) -> str:
        """Return a sentence on how the rows were read."""
        place, processes = self.rows.source.place, self.rows.processes
        shared = "" if processes is None or processes.count == 1 else f" {processes.count} processes shared the fit."
        return f"The rows were read from {place} in parts and streamed from a scratch folder in every pass.{shared}"

    no_forecast = NO_FORECAST

    def input_names(self, encoder: TableEncoder) -> list[str]:
        """Return the names of the inputs of the module."""
        return [str(name) for name in encoder.get_feature_names_out()]

    def encoder(self, params: Parameters) -> TableEncoder:
        """Return an encoder with the encoding of these rows."""
        found = stated_encoder(params)
        found.columns_ = self.rows.encoded
        learn_names(found, self.inputs)
        return found


@contextmanager
def prepared_rows(
    source: Source,
    roles: Roles,
    params: Parameters,
    *,
    held_out: Source | None = None,
    tell: Tell | None = None,
    processes: Processes | None = None,
    **drawn: Any,
) -> Iterator[PreparedRows]:
    """Survey the rows, and write them encoded to a scratch folder, which is removed at the end.

    The rows of another source may be held out, or a share of these at random (`test_size` and `seed`).
    """
    if not roles.sensitive and len(as_constraints(params.constraints)):
        raise InputError("The limits compare groups, but no column of groups is named.", "Give {sensitive=}.")
    drawn["cell_weights"] = params.groups.weight == "same"
    with ExitStack() as opened:
        with together(processes):
            found = opened.enter_context(source.opened(roles, tell))
        rows, other = FileRows(found, roles, tell, processes, **drawn), None
        if held_out is not None:
            with together(processes):
                likewise = replace(roles, categorical=tuple(rows.words))
                found = opened.enter_context(held_out.opened(likewise, tell, rows.source.formats))
            other = HeldOutRows(found, rows)
        draft = opened.enter_context(draft_beside(source.folder / "rows", "the encoded rows"))
        yield PreparedRows(rows, draft, params, other)
