"""Fit to the rows of a source: they are read as a table, and then fitted as any table is.

Rows that do not fit in memory are columns in files; so are their encoded rows.  In several processes, each reads its
share.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fairbound._errors import InputError, argument, together
from fairbound.data import Dataset, Roles, Source, as_word, read_rows
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
    groups, weight = data.sensitive or None, data.weight
    del data, columns, reader  # what the fit does not need must not take memory meanwhile
    result = getattr(found, method)(inputs, labels, sensitive_features=groups, sample_weight=weight, **given)
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
