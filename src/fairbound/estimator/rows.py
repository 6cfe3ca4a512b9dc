"""The rows of a fit: check them, and those that are not trained on."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_regressor

from fairbound._errors import InputError, Message, argument, together
from fairbound._sharing import gathered, joined, rows_before
from fairbound._weights import scale_weights
from fairbound.estimator.correction import read_base_score
from fairbound.estimator.groups import LISTED, MISSING, known_groups, name_missing, read_groups
from fairbound.estimator.inputs import Inputs, read_inputs
from fairbound.estimator.objectives import Objective
from fairbound.estimator.parameters import Parameters
from fairbound.estimator.strata import check_names_of_groups, places_before, read_strata
from fairbound.estimator.targets import read_labels, read_numbers, read_weights
from fairbound.fairness import ARRAY_NAME, Constraint, Division

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Data:
    """Checked rows: the inputs without the group columns, labels, groups and weights.

    `base_weights` are the sample weights as given, because a base may depend on their unit.  `positions` are the row
    numbers in X, of which some rows may have been removed.  `gains` are those of both decisions, (n, 2), if
    the objective is a profit.  `first` is the number of rows of X in the processes before this one.
    """

    inputs: Inputs
    y: NDArray[Any]
    groups: dict[str, NDArray[Any]] | None
    loss_weights: Floats
    cell_weights: Floats
    group_columns: tuple[int, ...]
    left_columns: tuple[int, ...]
    base_weights: Floats
    positions: NDArray[np.intp]
    base_score: Floats | None = None
    gains: Floats | None = None
    first: int = 0

    def take(self, rows: NDArray[np.intp]) -> Data:
        """Return some of the rows."""
        groups = None if self.groups is None else {name: values[rows] for name, values in self.groups.items()}
        columns = "y", "loss_weights", "cell_weights", "base_weights", "positions", "base_score", "gains"
        given = {name: getattr(self, name) for name in columns}
        taken: dict[str, Any] = {name: None if values is None else values[rows] for name, values in given.items()}
        return replace(self, inputs=self.inputs.take(rows), groups=groups, **taken)

    def divide(self, division: Division) -> Data:
        """Return the entries of rows that are divided among groups, each with its share of the weights."""
        entries = self.take(division.rows)
        loss, limits = (each * division.shares for each in (entries.loss_weights, entries.cell_weights))
        return replace(entries, loss_weights=loss, cell_weights=limits)

    def agreed(self, n_rows: int, processes: Any) -> Data:
        """Return the rows as all processes see them: weights scaled by the heaviest row of all, groups in one order.

        `n_rows` is the number of rows of X in this process.
        """
        given = gathered([*(self.groups or {})], processes)
        for rank, names in enumerate(given):
            if sorted(names) != sorted(given[0]):
                raise InputError(
                    "Process {rank} has groups of {theirs}, process 0 of {first}.",
                    "Give all processes the same sensitive columns.",
                    rank=rank,
                    theirs=", ".join(names) or "no column",
                    first=", ".join(given[0]) or "no column",
                )
        return replace(
            self,
            groups=self.groups and {name: self.groups[name] for name in given[0]},
            loss_weights=scale_weights(self.loss_weights, processes),
            cell_weights=scale_weights(self.cell_weights, processes),
            first=rows_before(n_rows, processes),
        )

    def joined(self, processes: Any) -> Data:
        """Return the rows of all processes, for what needs them in one."""
        if processes is None:
            return self
        columns = "y", "base_weights", "loss_weights", "cell_weights"
        own: dict[str, Any] = {name: joined(getattr(self, name), processes) for name in columns}
        places = joined(self.first + self.positions, processes)
        return replace(self, inputs=self.inputs.joined(processes), groups=None, positions=places, **own)


def read_data(
    params: Parameters,
    inputs: Inputs,
    y: Any,
    sensitive_features: Any,
    sample_weight: Any,
    constraint_weight: Any,
    base_score: Any = None,
    *,
    further: bool = False,
    scale: bool = True,
) -> Data:
    """Read the rows of a fit; remove those that count neither in the loss nor in a limit.

    With `further`, the rows are not trained on, so they need no gains, unless early stopping judges by them.  Without
    `scale`, weights are as given (`Data.agreed`).
    """
    name = type(params).__name__
    labels = (read_numbers if is_regressor(params) else read_labels)(y, inputs.n_rows, name)
    names = _as_names(sensitive_features, inputs)
    columns = group_columns(params, inputs, names)
    groups = _read_groups(params, inputs, columns, None if names else sensitive_features)
    if not params.groups.as_input and not further:
        _warn_of_inputs(groups or {}, inputs, columns)
    if groups is None and need_groups(params.constraints):
        raise InputError(
            "{name} has limits that compare groups, but no groups.",
            "Pass {sensitive_features=} to fit, or name the columns of X that hold the groups in {sensitive_columns=}.",
            name=name,
        )
    base_weights = read_weights(sample_weight, inputs.n_rows, "sample_weight", scale=False)
    loss_weights = scale_weights(base_weights) if scale else base_weights
    stated = params.groups.weight if constraint_weight is None else constraint_weight
    if isinstance(stated, str):
        cell_weights = loss_weights if stated == "same" else np.ones(inputs.n_rows)
    else:
        cell_weights = read_weights(stated, inputs.n_rows, "constraint_weight", scale=scale)
    objective = Objective.of(params.objective)
    before = places_before(params.constraints, inputs)
    left = tuple(dict.fromkeys((*(() if params.groups.as_input else columns), *objective.places(inputs), *before)))
    scores = (
        None
        if base_score is None
        else read_base_score(base_score, inputs.n_rows, own=params.base.classifier is not None)
    )
    data = Data(
        inputs.without(left),
        labels,
        groups,
        loss_weights,
        cell_weights,
        columns,
        left,
        base_weights,
        np.arange(inputs.n_rows),
        scores,
        None if further and not params.training.early_stopping else objective.read_gains(inputs),
    )
    counted = np.flatnonzero((loss_weights > 0) | (cell_weights > 0))
    if len(counted) == inputs.n_rows:
        return data
    if params.groups.small == "error" and params.constraints:
        _check_weightless(groups or {}, counted)
    return data.take(counted)


def need_groups(constraints: Sequence[Constraint]) -> bool:
    """Return whether a limit is about groups, not about everyone."""
    return not all(each.concerns_everyone(grouped=False) for each in constraints)


def _check_weightless(groups: dict[str, NDArray[Any]], counted: NDArray[np.intp]) -> None:
    """Raise an error for a group whose rows all have weight 0, because the limits would silently ignore it."""
    for column, values in groups.items():
        gone = set(known_groups(values)) - set(known_groups(values[counted]))
        if gone:
            raise ValueError(
                f"Every row of the group {min(gone, key=str)!r} in {column!r} has weight 0, so it cannot be limited: "
                "give its rows weights, or mark their group as missing."
            )


def read_further(
    params: Parameters, inputs: Inputs, training: Data, sensitive_features: Any, processes: Any, name: str, rows: Any
) -> Data:
    """Read rows that are not trained on, given as (X, y) or (X, y, groups) under a name such as "eval_set".

    If the training rows have base scores, these rows need them, too: (X, y, groups, base_score).  Each of several
    processes has its own such rows.
    """
    with together(processes):
        data = _read_further(params, inputs, training, sensitive_features, name, rows)
    known: dict[str, set[Any]] = {}
    own = {column: {*known_groups(values)} for column, values in (training.groups or {}).items()}
    for theirs in gathered(own, processes):
        known = {column: known.get(column, set()) | values for column, values in theirs.items()}
    with together(processes):
        return replace(data, groups=_coded_alike(name, data.groups, known or None))


def _read_further(
    params: Parameters, inputs: Inputs, training: Data, sensitive_features: Any, name: str, rows: Any
) -> Data:
    if training.base_score is not None and params.base.classifier is None:
        if not isinstance(rows, list | tuple) or len(rows) != 4:
            raise ValueError(f"{name} must be a tuple (X, y, groups, base_score), since fit has base_score=.")
    elif not isinstance(rows, list | tuple) or len(rows) not in (2, 3):
        raise ValueError(f"{name} must be a tuple (X, y) or (X, y, groups).")
    there = read_inputs(rows[0])
    if there.names != inputs.names or there.n_columns != inputs.n_columns:
        raise ValueError(f"{name} must have the same columns as X, in the same order.")
    groups = rows[2] if len(rows) > 2 else None
    if groups is None and training.group_columns and params.sensitive_columns is None:
        groups = sensitive_features  # the names of the columns
    if groups is None and not training.group_columns and need_groups(params.constraints):
        raise ValueError(f"{name} needs groups, too: give {name}=(X, y, groups).")
    scores = rows[3] if len(rows) > 3 else None
    return read_data(params, there, rows[1], groups, None, constraint_weight="none", base_score=scores, further=True)


def _coded_alike(
    name: str, groups: dict[str, NDArray[Any]] | None, known: dict[str, set[Any]] | None
) -> dict[str, NDArray[Any]] | None:
    """Raise an error for group columns or groups that no training row has; usually these are coded differently."""
    if groups is None or known is None:
        return groups
    if len(groups) == len(known) == 1 and ARRAY_NAME in (*groups, *known):  # one of them is an array without a name
        groups = dict(zip(known, groups.values(), strict=True))
    if set(groups) != set(known):
        raise ValueError(
            f"{name} has the group columns {', '.join(map(repr, groups))}, but the training rows have "
            f"{', '.join(map(repr, known))}: give the same."
        )
    for column, values in groups.items():
        there, here = set(known_groups(values)) - {MISSING}, known[column]
        if there - here:
            raise ValueError(
                f"{name} has the group {min(there - here, key=str)!r} in {column!r}, which no training row has "
                f"({', '.join(sorted(map(repr, here))[:LISTED])}): use the same codes, or mark it as missing."
            )
    return groups


def group_columns(params: Parameters, inputs: Inputs, names: Sequence[str]) -> tuple[int, ...]:
    """Return the positions of the columns of X that hold groups: those of `sensitive_columns` and those of `names`."""
    columns = inputs.positions(params.sensitive_columns, argument("sensitive_columns"))
    if params.sensitive_columns is not None and not columns:
        raise InputError("{sensitive_columns=} names no column.", "Name at least one, or leave it out.")
    columns += inputs.positions(names, argument("sensitive_features"))
    if params.groups.as_input and not columns:
        raise InputError(
            "{groups.as_input=True} needs the groups among the columns of X.",
            "Name them in {sensitive_columns=}.",
        )
    if len(set(columns)) == inputs.n_columns and not params.groups.as_input:
        raise ValueError("All columns of X are groups, so nothing is left to predict from.")
    return tuple(dict.fromkeys(columns))


def _as_names(sensitive_features: Any, inputs: Inputs) -> list[str]:
    """Return the names of columns that are given in place of one group per row, if they are."""
    if isinstance(sensitive_features, str):
        return [sensitive_features]
    named = (
        isinstance(sensitive_features, list | tuple)
        and len(sensitive_features) != inputs.n_rows
        and all(isinstance(name, str) for name in sensitive_features)
    )
    return list(sensitive_features) if named else []


def _warn_of_inputs(groups: dict[str, NDArray[Any]], inputs: Inputs, columns: Sequence[int]) -> None:
    """Warn if a column of X has the name of a sensitive column that was given beside X, so is an input, too."""
    names = inputs.names or ()
    twice = [name for place, name in enumerate(names) if name in groups and place not in columns]
    if twice:
        message = Message(
            "Column {column!r} of X is an input of the model, and the limits have groups of that name: predict needs "
            "it. Leave it out of X, or name it with {sensitive_columns=}, which keeps it out of the model.",
            column=twice[0],
        )
        warnings.warn(UserWarning(message), stacklevel=5)


def _read_groups(
    params: Parameters, inputs: Inputs, columns: Sequence[int], sensitive_features: Any
) -> dict[str, NDArray[Any]] | None:
    groups = read_groups(inputs.named_values(columns), inputs.n_rows) if columns else {}
    if sensitive_features is not None:
        groups |= read_groups(sensitive_features, inputs.n_rows)
    check_names_of_groups(params.constraints, groups)
    groups = name_missing(groups) if params.groups.missing == "group" else groups
    return groups | read_strata(params.constraints, inputs, groups) or None
