"""Rows of files that do not fit in memory: learn their encoding, and write them encoded to a scratch folder.

    survey   one pass over all rows counts the groups and labels, and learns the encoding from the training rows
    write    one pass writes the encoded rows of a part in cell order; `MappedRows` reads them in chunks

Labels, groups and inputs have the same meaning as if `read_table` had read the file, and the encoding is the same to
the last digit.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairbound._errors import InputError, together
from fairbound._values import as_array
from fairbound.data import (
    Batches,
    CodedLabels,
    Roles,
    RowCounts,
    Stratum,
    Tell,
    ValueCodes,
    as_word,
    blocks,
    by_stratum,
    code_labels,
    find_cuts,
    is_missing,
    numbers,
    refuse_probabilities,
)
from fairbound.estimator.columns import CategoryColumn, Column, ColumnFacts, Moments, NumberColumn
from fairbound.fairness import Cells
from fairbound.training import CELL_WEIGHTS, CODES, LOSS_WEIGHTS, WIDE, MappedRows, RowLayout, RowWriter

if TYPE_CHECKING:
    from fairbound.training import Processes

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
TRAINING, HELD_OUT = 0, 1
DISK_RESERVE = 0.05
"""Share of the free disk that the scratch folder leaves free."""


class FileRows:
    """The rows of a file.  The constructor surveys them, and `write` writes them.

    Attributes
    ----------
    source : Batches
    roles : Roles
    labels : CodedLabels
        The label of each entry.
    groups : dict of str to array
        The groups of each entry, by column.
    encoded : tuple of NumberColumn and CategoryColumn
    counts : RowCounts
    test_size : float
        The share of rows that are held out at random; `seed` determines which.
    """

    def __init__(
        self,
        source: Batches,
        roles: Roles,
        tell: Tell | None = None,
        processes: Processes | None = None,
        *,
        cell_weights: bool = True,
        test_size: float = 0.0,
        seed: int = 0,
    ) -> None:
        if processes is not None:
            source = replace(source, share=(processes.rank, processes.count))
        self.source, self.roles, self.tell, self.processes = source, roles, tell, processes
        self.cell_weights, self.test_size, self.seed = cell_weights and roles.weight is not None, test_size, seed
        self.counts = RowCounts(roles.keys)
        self.lightest, self.heaviest = math.inf, 0.0
        self.cuts: dict[tuple[Any, ...], float] = {}
        with together(processes):
            refuse_probabilities(roles.sensitive, source.names)
            roles.check(source)
            self.names = roles.inputs(source.names)
            self.words = {
                name: ValueCodes(name)
                for name in self.names
                if source.formats[name].kind == "text" or name in roles.categorical
            }
        if test_size:
            self._draw()
        with together(processes):
            facts = self._survey()
        self.own = self.counts
        if processes is not None:
            facts = self._agree(facts, processes)
        with together(processes):
            self.encoded = self._encoding(facts)
            self._code_labels()

    def __len__(self) -> int:
        return int(self.counts.rows[TRAINING].sum() + self.counts.rows[HELD_OUT].sum())

    @property
    def classes(self) -> NDArray[Any]:
        """Return the labels as words, in the order of their codes."""
        return as_array(self.labels.names)

    @cached_property
    def layout(self) -> RowLayout:
        """Return how the inputs of the module are stored."""
        place = 0
        numbers: list[int] = []
        categories: list[tuple[int, int]] = []
        for column in self.encoded:
            if isinstance(column, CategoryColumn):
                categories.append((place, len(column.outputs)))
            else:
                numbers += range(place, place + len(column.outputs))
            place += len(column.outputs)
        return RowLayout(place, tuple(numbers), tuple(categories))

    def cells(self, *, groups: Any, pos_label: Any) -> tuple[Cells, Ints]:
        """Return the cells of the training rows, and the cell of each entry (−1 without rows)."""
        rows = self.counts.rows[TRAINING]
        present = np.flatnonzero(rows)
        y, weight = self.classes[self.labels.codes[present]], self.counts.weight[TRAINING][present]
        weighted = self.cell_weights
        columns = {name: values[present] for name, values in self.groups.items()} or None
        mean = np.ldexp(weight / rows[present], self.exponent) if weighted else None
        found = Cells.build(y, columns, weights=mean, groups=groups, pos_label=pos_label)
        lightest = math.ldexp(self.lightest, self.exponent) if weighted else 1.0
        counted = found.standing_for(rows[present], lightest)
        cell_of_entry = np.full(len(rows), -1, dtype=np.int64)
        cell_of_entry[present] = found.index
        if weighted:  # take the sums themselves: a mean times a count would be rounded
            totals = np.bincount(found.index, np.ldexp(weight, self.exponent), found.n_cells)
            counted = replace(counted, totals=totals)
        return counted, cell_of_entry

    @property
    def exponent(self) -> int:
        """Return the exponent of the power of two by which weights are scaled, the same as for rows in memory."""
        return 1 - math.frexp(self.heaviest)[1]

    def write(self, folder: Path, part: int, cell_of_entry: Ints, n_labels: int) -> MappedRows:
        """Write the encoded rows of a part to an empty folder, in cell order."""
        sizes = np.zeros(cell_of_entry.max() + 1, dtype=np.int64)
        np.add.at(sizes, cell_of_entry[cell_of_entry >= 0], self.own.rows[part][cell_of_entry >= 0])
        self._check_disk(folder, int(sizes.sum()))
        writer = RowWriter(
            folder,
            self.layout,
            sizes.tolist(),
            loss_weights=self.roles.weight is not None,
            cell_weights=self.cell_weights,
        )
        places = {
            column.name: _stored_codes(column, self._as_words(column.name))
            for column in self.encoded
            if isinstance(column, CategoryColumn)
        }
        said = "Writing the held-out rows" if part == HELD_OUT else "Writing the encoded rows"
        for first, table, entries, weights in self._part(part, said):
            parts: dict[str, NDArray[Any]] = {}
            numbers = [column for column in self.encoded if isinstance(column, NumberColumn)]
            if numbers:
                parts[WIDE] = np.concatenate(
                    [column.encode(self._numbers(table, column.name, first)) for column in numbers], 1
                )
            if places:
                coded = [place[self.words[name].codes(table.column(name))] for name, place in places.items()]
                parts[CODES] = np.stack(coded, axis=1)
            parts[LOSS_WEIGHTS] = parts[CELL_WEIGHTS] = np.ldexp(weights, self.exponent)[:, None]
            writer.write(cell_of_entry[entries], parts)
        return writer.rows(n_labels)

    def _draw(self) -> None:
        """Find for each combination of label and groups the number below which its rows are held out."""
        found: dict[tuple[Any, ...], Stratum] = {}
        share, done = self.test_size, 0
        with together(self.processes):
            for first, table in self.source.batches(self.roles.keys):
                entries, places = self.counts.entries(table), np.arange(first, first + table.num_rows)
                counted = self._labelled(entries, first)
                u = numbers(self.seed, places)
                keys = self.counts.combinations()
                for entry, rows in by_stratum(share, entries[counted], places[counted], u[counted]):
                    found.setdefault(keys[entry], Stratum(share)).join(rows)
                done += table.num_rows
                self._tell("Drawing the held-out rows", done)
        if self.processes is not None:
            shares, found = self.processes.gather(found), {}
            for key, rows in (item for each in shares for item in each.items()):
                found.setdefault(key, Stratum(share)).join(rows)
        with together(self.processes):
            if found:
                columns = list(zip(*found, strict=True))
                labels = self._labels(
                    self.source.distinct(self.roles.target, columns[0]),
                    np.array([each.rows for each in found.values()]),
                )
                groups = [
                    self.roles.groups(name, self.source.distinct(name, values))
                    for name, values in zip(self.roles.sensitive, columns[1:], strict=True)
                ]
                cuts = find_cuts(labels.codes, groups, list(found.values()), share)
                self.cuts = dict(zip(found, cuts.tolist(), strict=True))

    def _survey(self) -> list[ColumnFacts]:
        moments = {name: Moments() for name in self.names if name not in self.words}
        gaps = dict.fromkeys(moments, False)
        totals: dict[str, Floats] = {name: np.zeros(0) for name in self.words}
        tables = (table for _, table, _, _ in self._part(TRAINING, "Learning the encoding", count=True))
        for table in blocks(tables):
            weights = self._weights(table)
            for name, moment in moments.items():
                values = self._numbers(table, name)
                known = ~np.isnan(values) & (weights > 0)
                gaps[name] |= bool((np.isnan(values) & (weights > 0)).any())
                moment.add(values[known], weights[known])
            for name, codes in self.words.items():
                found = codes.codes(table.column(name))
                counted: Floats = np.bincount(found, weights, minlength=len(codes.places)).astype(np.float64)
                counted[: len(totals[name])] += totals[name]
                totals[name] = counted
        facts = [ColumnFacts(name, moment, missing=gaps[name]) for name, moment in moments.items()]
        for name, total in totals.items():
            words: dict[str, float] = {}
            missing = False
            for word, weight in zip(self._as_words(name), total.tolist(), strict=False):
                if word is None:
                    missing = missing or weight > 0
                elif weight > 0:
                    words[word] = words.get(word, 0.0) + weight
            facts.append(ColumnFacts(name, None, words, missing))
        return facts

    def _agree(self, facts: list[ColumnFacts], processes: Processes) -> list[ColumnFacts]:
        """Replace the entries and values of this process by those of all, in the same order in every process."""
        values = {name: codes.values for name, codes in self.words.items()}
        found = processes.gather((self.counts.listed(), values, self.lightest, self.heaviest, facts))
        entries = [each[0] for each in found]
        empty = [rank for rank, each in enumerate(entries) if not any(rows[TRAINING] for _, rows, _ in each)]
        with processes.together():
            if empty:
                raise ValueError(
                    f"{self.source.place} has no row to train on for process {empty[0]} of {processes.count}: start "
                    "fewer processes, or give more rows."
                )
        self.counts, self.own = RowCounts(self.roles.keys), RowCounts(self.roles.keys)
        nothing = [(key, [0, 0], [0.0, 0.0]) for each in entries for key, _, _ in each]
        for each in (nothing, *entries):  # in the same order everywhere
            self.counts.add_listed(each)
        for each in (nothing, entries[processes.rank]):
            self.own.add_listed(each)
        for name in self.words:
            known = dict.fromkeys(value for each in found for value in each[1][name])
            self.words[name].places = {value: place for place, value in enumerate(known)}
        self.lightest, self.heaviest = min(each[2] for each in found), max(each[3] for each in found)
        first, *others = (each[4] for each in found)
        for mine, theirs in (pair for other in others for pair in zip(first, other, strict=True)):
            mine.join(theirs)
        return first

    def _encoding(self, facts: Sequence[ColumnFacts]) -> tuple[Column, ...]:
        if not self.counts.rows[TRAINING].any():
            raise ValueError(f"{self.source.place} has no row to train on; give more rows.")
        by_name = {each.name: each for each in facts}
        for each in facts:
            if each.is_empty:
                raise InputError(
                    "Column {column!r} of {place} has no value in any training row.",
                    "Leave it out with {ignore=}.",
                    column=each.name,
                    place=self.source.place,
                )
        return tuple(by_name[name].column(self.roles.max_categories) for name in self.names)

    def _code_labels(self) -> None:
        values, rows = self.counts.column(0, self.source), self.counts.rows[TRAINING] + self.counts.rows[HELD_OUT]
        present = np.flatnonzero(rows)
        coded = self._labels(values[present], rows[present])
        codes = np.full(len(rows), -1, dtype=np.int64)
        codes[present] = coded.codes
        self.labels = CodedLabels(codes, coded.names, coded.values)
        self.groups = {
            name: self.roles.groups(name, self.counts.column(position, self.source))
            for position, name in enumerate(self.roles.sensitive, start=1)
        }

    def _labels(self, values: NDArray[Any], rows: Ints) -> CodedLabels:
        return code_labels(values, self.roles.target, self.roles.positive, self.roles.negative, rows=rows)

    def _part(self, part: int, said: str, *, count: bool = False) -> Iterator[tuple[int, Any, Ints, Floats]]:
        """Yield the rows of a part as tables, with first row, entries and weights; `count` counts both parts."""
        done = 0
        used = [*self.names, *self.roles.keys, *(() if self.roles.weight is None else (self.roles.weight,))]
        cuts = np.array([self.cuts.get(key, 0.0) for key in self.counts.combinations()])
        for first, table in self.source.batches(list(dict.fromkeys(used))):
            entries, weights = self.counts.entries(table), self._weights(table, first)
            held_out = np.zeros(table.num_rows, dtype=bool)
            if self.cuts:
                places = np.arange(first, first + table.num_rows)
                held_out = numbers(self.seed, places) < cuts[entries]
            counted = self._labelled(entries, first)
            if self.cell_weights:
                counted &= weights > 0
            if count:
                positive = weights[counted & ~held_out & (weights > 0)]
                if self.roles.weight is not None and positive.size:
                    self.lightest = min(self.lightest, float(positive.min()))
                    self.heaviest = max(self.heaviest, float(positive.max()))
                for each in (TRAINING, HELD_OUT):
                    own = counted & (held_out == each)
                    self.counts.add(entries[own], weights[own], each)
                for codes in self.words.values():  # held-out rows may have values that no training row has
                    codes.codes(table.column(codes.name))
            own = counted & (held_out == part)
            done += table.num_rows
            self._tell(said, done)
            if own.all():
                yield first, table, entries, weights
            elif own.any():
                yield first, table.filter(own), entries[own], weights[own]

    def _tell(self, said: str, done: int) -> None:
        if self.tell is not None:
            self.tell(said, done, self.source.n_rows // self.source.share[1])

    def _labelled(self, entries: Ints, first: int) -> NDArray[np.bool_]:
        """Return which rows have a label; without `drop_unlabelled`, a row without one is an error."""
        form, codes = self.source.formats[self.roles.target], self.counts.codes[0]
        absent = {
            code
            for value, code in codes.places.items()
            if value is None or (isinstance(value, str) and form.is_missing(value.strip()))
        }
        found = np.array([key[0] in absent for key in self.counts.places])[entries]
        if found.any() and not self.roles.drop_unlabelled:
            raise InputError(
                "Column {column!r} ({target=}) has no value in row {row:,}.",
                "Drop the rows without a label with {drop_unlabelled=True}.",
                column=self.roles.target,
                row=first + int(found.argmax()) + 1,
            )
        return ~found

    def _weights(self, table: Any, first: int | None = None) -> Floats:
        name = self.roles.weight
        if name is None:
            return np.ones(table.num_rows)
        found = self._numbers(table, name, first)
        wrong = ~(np.isfinite(found) & (found >= 0))
        if wrong.any():
            raise InputError(
                "Column {column!r} ({weight=}) has the value {value:g}.",
                "Give finite weights of at least 0.",
                column=name,
                value=float(found[wrong][0]),
            )
        return found

    def _numbers(self, table: Any, name: str, first: int | None = None) -> Floats:
        return self.source.numbers(name, table.column(name), first)

    def _as_words(self, name: str) -> list[str | None]:
        """Return the word of each code of a column; None if it means a missing value."""
        values = self.source.distinct(name, self.words[name].values)
        gaps = is_missing(values).tolist()
        return [None if gap else as_word(value) for value, gap in zip(values.tolist(), gaps, strict=True)]

    def _check_disk(self, folder: Path, rows: int) -> None:
        needed, free = rows * self.layout.row_bytes(), shutil.disk_usage(folder).free
        if needed > (1 - DISK_RESERVE) * free:
            raise OSError(
                f"The encoded rows need {needed / 1e6:,.0f} MB in {folder.parents[1]}, where {free / 1e6:,.0f} MB are "
                "free; write to a folder with more room (beside the output, or scratch= of Source)."
            )


def _stored_codes(column: CategoryColumn, words: Sequence[str | None]) -> NDArray[Any]:
    """Return the stored code of each word; a word without a column of its own gets the number of columns."""
    codes = column.codes(np.array([*words, None], dtype=object)[:-1])
    return np.where(codes < 0, len(column.outputs), codes)
