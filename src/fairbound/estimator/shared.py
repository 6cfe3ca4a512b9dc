"""What several processes agree on before a fit: the weights, the cells, and the encoding of the columns.

Each process has its own rows, and none sees the rows of another.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairbound._errors import InputError, Message, argument
from fairbound.estimator.parameters import Parameters
from fairbound.estimator.rows import Data
from fairbound.fairness import Cells, is_divided
from fairbound.training import MatrixRows

if TYPE_CHECKING:
    from fairbound.training import Processes, SharedRows

NO_FORECAST = "the rows are in several processes, and a forecast needs them in one. So does a margin: there is none."


def check_shared(params: Parameters, data: Data, given: Mapping[str, Any]) -> None:
    """Raise an error for a parameter, an argument of `fit`, or groups that need all rows in one process."""
    needs: dict[str, Any] = {
        "base": params.base.classifier is not None,
        "confidence": params.confidence is not None,
        "margin": params.margin is not None,
        "training.early_stopping": params.training.early_stopping,
        "training.warm_start": params.training.warm_start,
        "encoder": not (params.encoder is None or type(params.encoder).__name__ in ("str", "TableEncoder")),
        **{name: value is not None for name, value in given.items()},
    }
    found = [argument(name) for name, stated in needs.items() if stated]
    divided = [name for name, values in (data.groups or {}).items() if is_divided(values)]
    found += [Message("The column {column!r} of probabilities of groups", column=name) for name in divided]
    if found:
        raise InputError(
            "{setting} needs all rows in one process, but several processes share this fit.",
            "Leave it out, or fit in one process with {training.distributed='off'}.",
            setting=found[0],
        )


def shared_rows(
    Z: Any, cells: Cells, own: Cells, loss_weights: NDArray[np.float64], processes: Processes
) -> SharedRows:
    """Return the encoded rows of this process, with its `own` cells, as a part of those of all."""
    from fairbound.training import SharedRows

    rows = MatrixRows.build(Z, own, loss_weights=loss_weights, dtype=None)
    return SharedRows.build(rows, float(loss_weights.sum()), cells.sizes, cells.n_labels, processes)


def joined_classes(data: Data, processes: Processes | None) -> NDArray[Any]:
    """Return the sorted labels of all processes, in their original type."""
    own = np.unique(data.y)
    return own if processes is None else np.unique(np.concatenate(processes.gather(own)))


def with_cells(params: Parameters, data: Data, processes: Processes | None) -> tuple[Data, Cells, Cells | None]:
    """Return the rows, the cells of all processes and, if there are several, those of this one's rows."""
    if processes is None:
        cells = Cells.build(
            data.y, data.groups, weights=data.cell_weights, groups=params.groups.combine, pos_label=params.pos_label
        )
        return data, cells, None
    data = with_agreed_weights(params, data, processes)
    cells, index = shared_cells(params, data, processes)
    labels = index % cells.n_labels
    own = replace(cells, index=index, labels=labels, weights=data.cell_weights, counts=None, lightest=None)
    return data, cells, own


def with_agreed_weights(params: Parameters, data: Data, processes: Processes) -> Data:
    """Return the rows with scaled weights.

    `read_weights` scales by a power of two that depends on the heaviest row.  So all processes use the heaviest row of
    all processes.
    """
    heaviest = max(processes.gather(float(data.base_weights.max())))
    weights = np.ldexp(data.base_weights, 1 - math.frexp(heaviest)[1])
    in_limits = weights if params.groups.weight == "same" else np.ones(len(weights))
    return replace(data, loss_weights=weights, cell_weights=in_limits)


def shared_cells(params: Parameters, data: Data, processes: Processes) -> tuple[Cells, NDArray[np.int64]]:
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
    columns = [np.asarray(data.y), *((data.groups or {})[name] for name in names)]
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
    groups = {name: np.asarray([key[place] for key in entries]) for place, name in enumerate(names, start=1)}
    y = np.asarray([key[0] for key in entries])
    counted = Cells.build(
        y, groups or None, weights=weight / rows, groups=params.groups.combine, pos_label=params.pos_label
    )
    cells = counted.standing_for(rows.astype(np.int64), float(least.min()))
    totals = np.asarray(np.bincount(counted.index, weight, counted.n_cells), dtype=np.float64)
    place = dict(zip(entries, counted.index.tolist(), strict=True))
    return replace(cells, totals=totals), np.array([place[key] for key in keys], dtype=np.int64)


def _plain(column: Any) -> list[Any]:
    """Return Python values with None for missing ones: None equals None in another process, but NaN never does."""
    return [None if value != value else value for value in np.asarray(column).tolist()]
