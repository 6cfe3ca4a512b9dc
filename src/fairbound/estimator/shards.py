"""The rows of this process, in a fit that several processes share.

Each process gives its own rows to `fit`.  The processes agree on labels, groups, their numbers of rows, and the
encoding of the columns; none sees the rows of another.  Then they train as for rows of files: everything is a sum over
chunks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fairbound._errors import InputError
from fairbound._values import as_array
from fairbound.estimator.encoder import TableEncoder, encode, encoded_names, fitted_encoder
from fairbound.estimator.file_fits import NEED_ALL_ROWS, FileFitting
from fairbound.estimator.inputs import read_inputs
from fairbound.estimator.parameters import allow_only, checked_resume, class_weights
from fairbound.estimator.rows import Data, Parameters, read_data
from fairbound.fairness import Cells, is_divided
from fairbound.training import MatrixRows, Processes, SharedRows, resumed


def check_shared(params: Parameters, **given: Any) -> None:
    """Reject parameters and arguments of `fit` that need all rows in one process."""
    allow_only(
        params,
        NEED_ALL_ROWS,
        "{name}={value!r} needs all rows in one process, but this fit is shared by several.",
        "Leave it out, or fit in one process with {distributed='off'}.",
    )
    if not (isinstance(params.constraint_weight, str) and given.pop("constraint_weight", None) is None):
        raise InputError(
            "{constraint_weight=} with an array is for a fit in one process.", "Use 'same' or 'none', or leave it out."
        )
    if not isinstance(params.random_state, int | np.integer):
        raise InputError(
            "{random_state=value} draws another seed in every process.", "Give a number.", value=params.random_state
        )
    if not (params.preprocessing is None or isinstance(params.preprocessing, str)):
        raise InputError(
            "{preprocessing=} with a transformer learns from the rows of one process, but this fit is shared by "
            "several.",
            "Use {preprocessing='auto'}, or transform the rows before the fit and use {preprocessing=None}.",
        )
    for name, value in given.items():
        if value is not None:
            raise InputError("{name}= is for a fit in one process.", "Leave it out.", name=name)


def fit_shared(
    estimator: Any,
    processes: Processes,
    X: Any,
    y: Any,
    sensitive_features: Any,
    sample_weight: Any,
    resume: Any,
    given: Mapping[str, Any],
) -> Any:
    """Fit the estimator to the rows of all processes.  Each process passes its own rows; all get the same model."""
    with processes.together():
        estimator._validate_params()
        check_shared(estimator, **given)
        inputs = read_inputs(X)
        data = read_data(estimator, inputs, y, sensitive_features, sample_weight, None)
        divided = [name for name, values in (data.groups or {}).items() if is_divided(values)]
        if divided:
            raise InputError(
                "The groups of {column!r} are probabilities, which are for a fit in one process.",
                "Give one group for each row, or use {distributed='off'} for the rows of this process alone.",
                column=divided[0],
            )
    prepared = PreparedShard(estimator, data, processes)
    with resumed(checked_resume(estimator, resume), processes) as passes:
        fitting = FileFitting(estimator, prepared, passes)
        return estimator._adopt(inputs, data, fitting, fitting.train())


class PreparedShard:
    """The rows of this process, with the labels, cells and encoding that all processes share.

    Parameters
    ----------
    params : Parameters
    data : Data
        The rows of this process.
    processes : Processes
    """

    no_forecast = "the rows are in several processes, and a forecast needs them in one."

    def __init__(self, params: Parameters, data: Data, processes: Processes) -> None:
        data = with_agreed_weights(params, data, processes)
        self.data, self.processes = data, processes
        self.classes: NDArray[Any] = np.unique(np.concatenate(processes.gather(np.unique(data.y))))
        self.cells, index = shared_cells(params, data, processes)
        self._encoder = self._agreed_encoder(params)
        with processes.together():
            Z = encode(self._encoder, data.inputs)
        self.n_inputs = Z.shape[1]
        own = replace(
            self.cells,
            index=index,
            labels=index % self.cells.n_labels,
            weights=torch.from_numpy(data.cell_weights),
            counts=None,
            lightest=None,
        )
        # Double precision, so that the sums do not depend on the division of the rows.
        rows = MatrixRows.build(Z, own, loss_weights=data.loss_weights, dtype=torch.float64)
        self.training = self.counted = self._shared(rows, data.loss_weights)
        factors = class_weights(params, self.cells)
        if len({*factors.tolist()}) > 1:
            weights = data.loss_weights * factors[own.labels]
            weighted = torch.from_numpy(weights / weights.sum())[rows.positions]
            self.training = self._shared(replace(rows, loss_weights=weighted), weights)

    def _shared(self, rows: MatrixRows, weights: NDArray[np.float64]) -> SharedRows:
        return SharedRows.build(rows, float(weights.sum()), self.cells.sizes, self.cells.n_labels, self.processes)

    @property
    def note(self) -> str:
        """Return how the rows were divided."""
        return f"{self.processes.count} processes shared the fit, each with its own rows."

    positive_is_stated = False

    def input_names(self, encoder: Any) -> list[str]:
        """Return the names of the inputs of the module."""
        return encoded_names(encoder, self.data.inputs, self.n_inputs)

    def encoder(self, params: Parameters) -> Any:  # noqa: ARG002  # the form of `PreparedRows`
        """Return the encoder that all processes have agreed on."""
        return self._encoder

    def _agreed_encoder(self, params: Parameters) -> Any:
        with self.processes.together():  # before anything is exchanged, for which a process that fails would not come
            encoder = fitted_encoder(params, self.data)
            learnt = None if encoder is None else encoder.learn(self.data.inputs, self.data.loss_weights)
        if encoder is None:
            return None
        assert isinstance(encoder, TableEncoder)
        facts, *others = self.processes.gather(learnt)
        for other in others:
            if len(other) != len(facts):
                raise ValueError(
                    f"One process has {len(facts)} columns, another {len(other)}: give all of them the same columns."
                )
            for mine, theirs in zip(facts, other, strict=True):
                mine.join(theirs)
        encoder.columns_ = tuple(each.column(encoder.max_categories, scale=encoder.scale) for each in facts)
        return encoder


def with_agreed_weights(params: Parameters, data: Data, processes: Processes) -> Data:
    """Return the rows with scaled weights.

    `read_weights` scales by a power of two that depends on the heaviest row, so all processes take the heaviest of all.
    """
    heaviest = max(processes.gather(float(data.base_weights.max())))
    weights = np.ldexp(data.base_weights, 1 - math.frexp(heaviest)[1])
    in_limits = weights if params.constraint_weight == "same" else np.ones(len(weights))
    return replace(data, loss_weights=weights, cell_weights=in_limits)


def shared_cells(params: Parameters, data: Data, processes: Processes) -> tuple[Cells, torch.Tensor]:
    """Return the cells of the rows of all processes, and the cell of each row of this one."""
    given = processes.gather(list(data.groups or {}))
    names = given[0]
    for rank, theirs in enumerate(given):
        if sorted(theirs) != sorted(names):
            raise InputError(
                "Process {rank} has groups of {theirs}, process 0 of {first}.",
                "Give all processes the same sensitive columns.",
                rank=rank,
                theirs=", ".join(theirs) or "no column",
                first=", ".join(names) or "no column",
            )
    columns = [as_array(data.y), *((data.groups or {})[name] for name in names)]
    keys = list(zip(*(_plain(column) for column in columns), strict=True))
    own: dict[tuple[Any, ...], list[float]] = {}
    for key, weight in zip(keys, data.cell_weights.tolist(), strict=True):
        found = own.setdefault(key, [0, 0.0, np.inf])
        found[0], found[1] = found[0] + 1, found[1] + weight
        found[2] = min(found[2], weight) if weight > 0 else found[2]
    everywhere: dict[tuple[Any, ...], list[float]] = {}
    for entries in processes.gather(own):
        for key, (rows, weight, least) in entries.items():
            found = everywhere.setdefault(key, [0, 0.0, np.inf])
            found[:] = [found[0] + rows, found[1] + weight, min(found[2], least)]
    entries = list(everywhere)
    rows, weight, least = (np.array(each) for each in zip(*everywhere.values(), strict=True))
    groups = {name: as_array([key[place] for key in entries]) for place, name in enumerate(names, start=1)}
    y = as_array([key[0] for key in entries])
    counted = Cells.build(y, groups or None, weights=weight / rows, groups=params.groups, pos_label=params.pos_label)
    cells = counted.standing_for(rows.astype(np.int64), float(least.min()))
    totals = torch.from_numpy(np.bincount(counted.index.numpy(), weight, minlength=counted.n_cells))
    place = dict(zip(entries, counted.index.tolist(), strict=True))
    return replace(cells, totals=totals), torch.tensor([place[key] for key in keys], dtype=torch.int64)


def _plain(column: Any) -> list[Any]:
    """Return Python values with None for missing ones: None equals None in another process, but NaN never does."""
    return [None if value != value else value for value in as_array(column).tolist()]
