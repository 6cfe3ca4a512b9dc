"""Fit a model to the rows of several processes: each has its own rows.

The processes agree on labels, groups, their numbers of rows, and the encoding of the columns; none sees the rows of
another.  Everything is a sum over chunks.  Decisions are counted in chunks, too, as `predict` makes them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from fairbound._errors import InputError, together
from fairbound._values import as_array
from fairbound.estimator.chosen_encoder import encode, encoded_names, fitted_encoder
from fairbound.estimator.encoder import TableEncoder
from fairbound.estimator.fitting import Fitting
from fairbound.estimator.groups import count_missing
from fairbound.estimator.inputs import read_inputs
from fairbound.estimator.models import first_model, logits, new_generator, use_double
from fairbound.estimator.objectives import Objective, Stakes
from fairbound.estimator.parameters import (
    Parameters,
    ProgressPrinter,
    check_shared,
    checked,
    checked_resume,
    class_weights,
    one_callback,
)
from fairbound.estimator.result import FitResult
from fairbound.estimator.rows import Data, read_data
from fairbound.estimator.small_groups import SmallGroup, settle_small_groups
from fairbound.estimator.targets import warn_if_guessed
from fairbound.evaluation import Forecast
from fairbound.fairness import Cells, ConstraintSystem, as_constraints, decide, is_divided, refuse_contradictions
from fairbound.training import (
    Assessment,
    GapSums,
    MatrixRows,
    Passes,
    Rows,
    SweepTotals,
    fit,
    gap_sums_of_rows,
    resumed,
)

if TYPE_CHECKING:
    from fairbound.training import Processes, SharedRows

Floats = NDArray[np.float64]

CHUNK_ROWS = 2**16
"""Rows that are decided at once."""


class SharedFitting(Fitting):
    """The state of one fit to the rows of all processes."""

    def __init__(self, params: Parameters, prepared: PreparedShard, passes: Passes) -> None:
        self.params, self.prepared, self.passes = params, prepared, passes
        self.constraints = as_constraints(params.constraints)
        refuse_contradictions(self.constraints)
        cells = prepared.cells
        if params.pos_label is None:
            warn_if_guessed(cells.classes, self.constraints, who=type(params).__name__, stacklevel=4)
        self.small: tuple[SmallGroup, ...] = ()
        self.missing = count_missing(cells)
        if self.constraints:
            with together(passes.processes):
                policy = params.groups.small, params.groups.min_size
                cells, self.small = settle_small_groups(cells, self.constraints, *policy)
        self.cells = cells
        seed = int(check_random_state(params.random_state).randint(2**31 - 1))
        if passes.processes is not None:
            seed = passes.processes.gather(seed)[0]
        self.encoder = prepared.encoder(params)
        self.input_names = prepared.input_names(self.encoder)
        self.base, self.n_inputs = None, prepared.n_inputs
        self.objective, self.stakes = prepared.objective, prepared.stakes
        self.Z, self.loss_weights = prepared.training, None  # the rows have their weights
        self.generator = new_generator(params, seed)
        self.model = first_model(
            params.module,
            params.hidden,
            shape=(len(cells), self.n_inputs),
            n_labels=cells.n_labels,
            seed=seed,
            generator=self.generator,
        )
        use_double(self.model)  # in single precision the sums would depend on how the rows are divided
        self.problem = self._pose(self.constraints)
        self.classes = prepared.classes
        self._add_floors()

    def train(self) -> FitResult:
        """Train, count the decisions, and return the record."""
        progress = ProgressPrinter(int(self.params.verbose))
        result = fit(
            self.problem,
            self.Z,
            effort=self._effort(),
            generator=self.generator,
            objective=self.objective.of_training,
            precision=np.float64,
            callback=one_callback(self.params.callbacks, progress),
        )
        progress.close()
        record, facts = self._finish(result)
        forecast = Forecast(reason=self.prepared.no_forecast) if self.constraints else None
        record = replace(record, forecast=forecast, notes=(*record.notes, self.prepared.note))
        facts.warn(record, stacklevel=4)
        return record

    def _logits(self, rows: Rows) -> Iterator[tuple[Any, Floats]]:
        """Yield each chunk with its logits, computed as `predict` does."""
        for chunk in rows.in_double().chunks(CHUNK_ROWS):
            yield chunk, logits(self.model, chunk.X, self.cells.n_labels)

    def _totals(self) -> SweepTotals:
        rows, cells = self.prepared.counted, self.cells
        totals = SweepTotals(
            self.problem.loss, (), cells.outcomes, rows, threshold=self.problem.threshold, n_parameters=0
        )
        self._decided_rows = np.zeros(cells.n_labels, dtype=np.int64)
        for chunk, z in self._logits(rows):
            decisions = decide(z, self.problem.threshold)
            totals.add_decisions(chunk, decisions)
            self._decided_rows += np.bincount(decisions, minlength=cells.n_labels)
        totals.flat[:] = self.passes.sum(totals.flat)
        self._decided_rows = self.passes.sum(self._decided_rows)
        return totals

    def _count(self, assessment: Assessment, decisions: NDArray[np.int64] | None = None) -> Assessment:
        assert decisions is None, "there is no base, whose decisions would be counted"
        rows, sweep = self.prepared.counted, self._totals().sweep(gradients=False)
        if self._weighs_classes:
            assessment = replace(assessment, constant_accuracy=float(rows.class_weights.max()))
        return replace(assessment, accuracy=sweep.accuracy, counts=self.problem.exact(rows, sweep))

    def _decided(self) -> NDArray[np.int64]:
        return self._decided_rows

    def _gap_sums(self, system: ConstraintSystem) -> GapSums:
        first, second = gap_sums_of_rows(system, self.prepared.training, self._logits(self.prepared.training))
        return self.passes.sum(first), self.passes.sum(second)


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
    started = time.perf_counter()
    with processes.together():
        params = checked(estimator)
        check_shared(params, given)
        inputs = read_inputs(X)
        data = read_data(params, inputs, y, sensitive_features, sample_weight, None)
        divided = [name for name, values in (data.groups or {}).items() if is_divided(values)]
        if divided:
            raise InputError(
                "The groups of {column!r} are probabilities, but these need a fit in one process.",
                "Give one group for each row, or use {training.distributed='off'} for the rows of this process alone.",
                column=divided[0],
            )
    prepared = PreparedShard(params, data, processes)
    with resumed(checked_resume(params, resume), processes) as passes:
        fitting = SharedFitting(params, prepared, passes)
        result = fitting.train()
    return estimator._adopt(inputs, data, fitting, replace(result, seconds=time.perf_counter() - started))


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
            weights=data.cell_weights,
            counts=None,
            lightest=None,
        )
        # Double precision, so that the sums do not depend on the division of the rows.
        rows = MatrixRows.build(Z, own, loss_weights=data.loss_weights, dtype=np.float64)
        self.training = self.counted = self._shared(rows, data.loss_weights)
        self.objective = Objective.of(params.objective)
        self.objective.check(self.cells.n_labels, params.loss.class_weight)
        factors, self.stakes = class_weights(params.loss.class_weight, self.cells), None
        if self.objective.has_stakes:
            of_classes = self.counted.class_weights
            factors = self.objective.factors(of_classes)
            self.stakes = Stakes(own.labels, data.loss_weights * factors[own.labels], *self.objective.ends(of_classes))
        if len({*factors.tolist()}) > 1:
            weights = data.loss_weights * factors[own.labels]
            weighted = (weights / weights.sum())[rows.positions]
            self.training = self._shared(replace(rows, loss_weights=weighted), weights)

    def _shared(self, rows: MatrixRows, weights: NDArray[np.float64]) -> SharedRows:
        from fairbound.training import SharedRows

        return SharedRows.build(rows, float(weights.sum()), self.cells.sizes, self.cells.n_labels, self.processes)

    @property
    def note(self) -> str:
        """Return how the rows were divided."""
        return f"{self.processes.count} processes shared the fit, each with its own rows."

    def input_names(self, encoder: Any) -> list[str]:
        """Return the names of the inputs of the model."""
        return encoded_names(encoder, self.data.inputs, self.n_inputs)

    def encoder(self, params: Parameters) -> Any:  # noqa: ARG002  # the form of `PreparedRows`
        """Return the encoder that all processes have agreed on."""
        return self._encoder

    def _agreed_encoder(self, params: Parameters) -> Any:
        with self.processes.together():  # before any exchange: the others would wait for a process that has failed
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
    counted = Cells.build(
        y, groups or None, weights=weight / rows, groups=params.groups.combine, pos_label=params.pos_label
    )
    cells = counted.standing_for(rows.astype(np.int64), float(least.min()))
    totals = np.asarray(np.bincount(counted.index, weight, counted.n_cells), dtype=np.float64)
    place = dict(zip(entries, counted.index.tolist(), strict=True))
    return replace(cells, totals=totals), np.array([place[key] for key in keys], dtype=np.int64)


def _plain(column: Any) -> list[Any]:
    """Return Python values with None for missing ones: None equals None in another process, but NaN never does."""
    return [None if value != value else value for value in as_array(column).tolist()]
