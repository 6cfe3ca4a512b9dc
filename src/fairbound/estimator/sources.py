"""Fit to the rows of a source: they are read as a table, and then fitted as any table is.

Rows that do not fit in memory are columns in files; so are their encoded rows.  In several processes, each reads its
share.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fairbound._errors import InputError, argument, together
from fairbound.data import (
    ArrowTable,
    Batches,
    ColumnFormat,
    Dataset,
    Roles,
    Source,
    as_word,
    column_values,
    import_pyarrow,
    is_stream,
    make_frame,
    read_rows,
    stream_batches,
)
from fairbound.estimator.encoder import TableEncoder
from fairbound.estimator.inputs import Inputs, share_inputs
from fairbound.estimator.parameters import Parameters, checked, present_processes
from fairbound.estimator.rows import need_groups

PARTS = ("eval_set", "calibration_set")
COLUMNS = ("constraint_weight", "base_score")
"""Arguments that may name columns of the source."""


class SourceReader:
    """Reads sources for an estimator, all as the first one.

    Parameters
    ----------
    params : Parameters
    y, sensitive_features, sample_weight
        Names of columns.
    """

    def __init__(self, params: Parameters, y: Any, sensitive_features: Any, sample_weight: Any) -> None:
        self.params, self.target, self.weight = params, y, sample_weight
        stated = [each for each in (params.sensitive_columns, sensitive_features) if each is not None]
        self.sensitive = stated[0] if len(stated) == 1 else [name for each in stated for name in _names(each)]
        self.processes = present_processes(params)
        self.first: Dataset | None = None

    def read(self, source: Source, further: Sequence[str]) -> tuple[Dataset, Inputs, Any, dict[str, Any]]:
        """Return the rows, the inputs and the labels as `fit` takes them, and further columns."""
        with together(self.processes):
            if isinstance(self.sensitive, list | tuple) and not self.sensitive and need_groups(self.params.constraints):
                raise InputError("The limits compare groups, but no column of groups is named.", "Give {sensitive=}.")
            roles = Roles(
                source=source,
                target=self.target,
                sensitive=self.sensitive,
                weight=self.weight,
                sensitive_as_input=self.params.groups.as_input,
                max_categories=_max_categories(self.params),
            )
        data, columns = read_rows(roles, further=further, like=self.first, processes=self.processes)
        self.first = self.first or data
        inputs = share_inputs(data.frame(backend="pyarrow"), data.table.folder)
        return data, inputs, data.labels(), columns

    def part(self, name: str, rows: Any) -> Any:
        """Return (X, y, groups, base_score) of further rows; a source may be given alone, with names as in `fit`."""
        X, *given = rows if isinstance(rows, list | tuple) else (rows,)
        source = Source.of(X, *given[:1])
        if source is None:
            raise InputError("{name} must be rows of a source, as X is.", name=argument(name))
        scores = _names(given[2] if len(given) > 2 else None)
        data, inputs, y, columns = self.read(source, scores)
        return inputs, y, data.sensitive or None, *([_values(columns, scores)] if scores else [])


def from_source(
    estimator: Any, method: str, X: Any, y: Any, sensitive_features: Any, sample_weight: Any, **given: Any
) -> tuple[Any, Any]:
    """Read a source, and call a method of a copy of the estimator with its rows; return the copy and the result.

    `given` are further arguments of the method.
    """
    processes, source = present_processes(estimator), Source.of(X, y)
    assert source is not None
    with together(processes):
        reader = SourceReader(checked(estimator), y, sensitive_features, sample_weight)
        named = {name: _names(given.get(name)) for name in COLUMNS}
    data, inputs, labels, columns = reader.read(source, [each for names in named.values() for each in names])
    found = copy.copy(estimator)
    found.sensitive_columns, found.groups = (
        None,
        replace(reader.params.groups, as_input=False),
    )  # the groups are given by themselves
    with together(reader.processes):
        own = str(data.target_names[1]) if len(data.target_names) == 2 else None
        positive = own if estimator.pos_label is None else as_word(estimator.pos_label)
        classes: dict[Any, Any] = dict(zip(data.target_names, data.classes.tolist(), strict=True))
        found.pos_label = classes.get(positive, positive)
        given |= {name: _values(columns, names) for name, names in named.items() if names}
        given |= {name: reader.part(name, given[name]) for name in PARTS if given.get(name) is not None}
    groups, weight, formats = data.sensitive or None, data.weight, data.formats
    formats = {name: form for name, form in formats.items() if name in data.schema}
    del data, columns, reader  # what the fit does not need must not take memory meanwhile
    result = getattr(found, method)(inputs, labels, sensitive_features=groups, sample_weight=weight, **given)
    for each in (found,) if method == "fit" else (point.classifier for point in result):
        each.formats_, each.by_name_ = formats, True  # its columns have been named one by one
    return found, result


def _max_categories(params: Parameters) -> int:
    """Return the most categories of a column, for the remarks about columns."""
    found: int = getattr(params.encoder, "max_categories", TableEncoder().max_categories)
    return found


def _names(given: Any) -> list[str]:
    """Return the names of columns that are given in place of values."""
    return [given] if isinstance(given, str) else [] if given is None else [str(each) for each in given]


def _values(columns: dict[str, Any], names: Sequence[str]) -> Any:
    found = [columns[name] for name in names]
    return found[0] if len(found) == 1 else np.column_stack(found)


def new_tables(model: Any, source: Source) -> Iterator[tuple[int, Any]]:
    """Yield the inputs of a model in tables, each with the number of its first row; columns are read as in training.

    A stream is read as it comes, and not stored.
    """
    if not is_stream(source.data):
        parts: Iterable[Batches] = [source.open()]
    else:
        parts = (ArrowTable.of(import_pyarrow().table(each), "the stream") for each in stream_batches(source.data))
    first = 0
    for opened in parts:
        rows = as_trained(model, opened)
        for _, table in rows.stored(list(rows.formats)):
            yield first, make_frame(new_inputs(rows, table, first), "pyarrow")
            first += table.num_rows


def as_trained(model: Any, rows: Batches) -> Batches:
    """Return rows with the column formats of a model; raise an error for columns that they lack."""
    formats, categories = _formats(model)
    rows.check(dict.fromkeys(formats, "the model needs it"))
    return replace(rows, formats=formats, codes=frozenset(categories))


def new_inputs(rows: Batches, table: Any, first: int = 0) -> dict[str, Any]:
    """Return the inputs of the model in a batch: numbers, and words for categories."""
    found = {}
    for name, form in rows.formats.items():
        values = column_values(table.column(name), codes=True) if name in rows.codes else None
        if values is not None:
            found[name] = values if values.dtype.kind in "if" else form.words(values.tolist())
        else:
            found[name] = rows.values(name, table.column(name), first)
    return found


def _formats(model: Any) -> tuple[dict[str, ColumnFormat], list[str]]:
    """Return the column formats of a model, and which columns are categories.

    A model that was not trained on a file has no formats: numbers are then plain, and text is unchanged.
    """
    if not hasattr(model, "feature_names_in_"):
        raise ValueError(
            "The model was trained on an array without column names, so its inputs cannot be found in a file; train it "
            "on a table."
        )
    encoder, left = model.encoder_, model.left_columns_
    names = [str(name) for place, name in enumerate(model.feature_names_in_) if place not in left]
    learnt = {} if encoder is None else {column.name: column for column in encoder.columns_}
    words = {name: getattr(learnt.get(name), "words", None) for name in names}
    formats = {}
    for name, known in words.items():
        kind: Any = "number" if known is None or _are_numbers(known) else "text"
        formats[name] = model.formats_.get(name, ColumnFormat(kind))
    return formats, [name for name, known in words.items() if known is not None]


def _are_numbers(words: Sequence[str]) -> bool:
    """Return whether categories are codes that were read as numbers."""
    numbers = [ColumnFormat("number").number(word) for word in words]
    return all(number is not None and as_word(number) == word for number, word in zip(numbers, words, strict=True))
