"""Fit a model to the rows of files that do not fit in memory.

The rows are surveyed and written to a scratch folder once (`FileRows`), and then fitted as rows in memory are: the same
problem, phases and checks.  Decisions are counted in chunks, as `predict` makes them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import torch
from sklearn.utils import check_random_state
from torch import Tensor

from fairbound._errors import together
from fairbound.estimator.fitting import Fitting
from fairbound.estimator.groups import count_missing
from fairbound.estimator.modules import first_module, logits
from fairbound.estimator.parameters import (
    ProgressPrinter,
    allow_only,
    check_frontier,
    checked_resume,
    one_callback,
    stated_effort,
    stated_solver,
)
from fairbound.estimator.prepared import CHUNK_ROWS, PreparedRows, opened_files
from fairbound.estimator.result import FitResult, FrontierModel
from fairbound.estimator.rows import Parameters, warn_if_guessed
from fairbound.estimator.small_groups import SmallGroup, settle_small_groups
from fairbound.evaluation import Forecast
from fairbound.fairness import ConstraintSystem, as_constraints, decide
from fairbound.training import (
    Assessment,
    Effort,
    FrontierPoint,
    GapSums,
    Passes,
    Processes,
    Rows,
    SweepTotals,
    fit,
    gap_sums_of_rows,
    resumed,
)

if TYPE_CHECKING:
    from fairbound.estimator.shards import PreparedShard

NEED_ALL_ROWS: dict[str, tuple[Any, ...]] = {
    "base": (None,),
    "confidence": (None,),
    "margin": (None,),
    "early_stopping": (False,),
    "warm_start": (False,),
}
"""Parameters that need all rows in the memory of one process, and the values that do not."""

REFUSED: dict[str, tuple[Any, ...]] = NEED_ALL_ROWS | {
    "preprocessing": ("auto",),
    "sensitive_columns": (None,),
    "missing_groups": ("ignore",),
    "constraint_weight": ("same", "none"),
}
"""The same for rows of files, with the parameters that need rows of a table."""


def check_parameters(params: Parameters) -> None:
    """Reject parameters that need all rows in memory."""
    allow_only(
        params,
        REFUSED,
        "{name}={value!r} needs all rows in memory, but files are read in parts.",
        "Leave it out, or read the rows with read_table and call fit.",
    )


class FileFitting(Fitting):
    """The state of one fit to prepared rows."""

    def __init__(self, params: Parameters, prepared: PreparedRows | PreparedShard, passes: Passes) -> None:
        self.params, self.prepared, self.passes = params, prepared, passes
        self.constraints = as_constraints(params.constraints)
        cells = prepared.cells
        if params.pos_label is None and not prepared.positive_is_stated:
            warn_if_guessed(cells.classes, self.constraints, who=type(params).__name__, stacklevel=4)
        self.small: tuple[SmallGroup, ...] = ()
        self.missing = count_missing(cells)
        if self.constraints:
            with together(passes.processes):
                policy = params.small_groups, params.min_group_size
                cells, self.small = settle_small_groups(cells, self.constraints, *policy)
        self.cells = cells
        seed = int(check_random_state(params.random_state).randint(2**31 - 1))
        self.encoder = prepared.encoder(params)
        self.input_names = prepared.input_names(self.encoder)
        self.base, self.n_inputs = None, prepared.n_inputs
        self.Z, self.loss_weights = prepared.training, None  # the rows have their weights
        self.generator = torch.Generator().manual_seed(seed)
        self.module = first_module(
            params.module,
            params.hidden,
            shape=(len(cells), self.n_inputs),
            n_labels=cells.n_labels,
            seed=seed,
            generator=self.generator,
        )
        if passes.processes is not None:
            # In single precision the sums would depend on how the rows are divided.
            self.module.to(torch.float64)
        self.problem = self._pose(self.constraints)
        self.classes = prepared.classes
        self._add_floors()

    def train(self) -> FitResult:
        """Train, count the decisions, and return the record."""
        progress = ProgressPrinter(int(self.params.verbose))
        result = fit(
            self.problem,
            self.Z,
            solver=stated_solver(self.params),
            effort=self._effort(),
            generator=self.generator,
            objective="accuracy" if self.params.objective == "accuracy" else "loss",
            callback=one_callback(self.params.callbacks, progress),
        )
        progress.close()
        record, facts = self._finish(result)
        forecast = Forecast(reason=self.prepared.no_forecast) if self.constraints else None
        record = replace(record, forecast=forecast, notes=(*record.notes, self.prepared.note))
        facts.warn(record, type(self.params).__name__, stacklevel=4)
        return record

    def _effort(self, default: Effort | None = None) -> Effort | None:
        return stated_effort(self.params, len(self.cells), self.problem.n_parameters) or default

    def _logits(self, rows: Rows) -> Iterator[tuple[Any, Tensor]]:
        """Yield each chunk with its logits, computed as `predict` does."""
        for chunk in rows.in_double().chunks(CHUNK_ROWS):
            yield chunk, logits(self.module, chunk.X.numpy(), self.cells.n_labels)

    def _totals(self) -> SweepTotals:
        rows, cells = self.prepared.counted, self.cells
        totals = SweepTotals(
            self.problem.loss, (), cells.outcomes, rows, threshold=self.problem.threshold, n_parameters=0
        )
        self._decided_rows = torch.zeros(cells.n_labels, dtype=torch.int64)
        for chunk, z in self._logits(rows):
            decisions = decide(z, self.problem.threshold)
            totals.add_decisions(chunk, decisions)
            self._decided_rows += torch.bincount(decisions, minlength=cells.n_labels)
        totals.flat.copy_(self.passes.sum(totals.flat))
        self._decided_rows = self.passes.sum(self._decided_rows)
        return totals

    def _count(self, assessment: Assessment, decisions: Tensor | None = None) -> Assessment:
        assert decisions is None, "there is no base, whose decisions would be counted"
        rows, sweep = self.prepared.counted, self._totals().sweep(gradients=False)
        if self.params.class_weight is not None:  # training compared accuracies by the weights of the classes
            assessment = replace(assessment, constant_accuracy=float(rows.class_weights.max()))
        return replace(assessment, accuracy=sweep.accuracy, counts=self.problem.exact(rows, sweep))

    def _forecasts(self, points: Sequence[FrontierPoint], effort: Effort) -> Sequence[Forecast | None]:  # noqa: ARG002
        return [Forecast(reason=self.prepared.no_forecast) for _ in points]

    def _decided(self) -> Tensor:
        return self._decided_rows

    def _gap_sums(self, system: ConstraintSystem) -> GapSums:
        first, second = gap_sums_of_rows(system, self.prepared.training, self._logits(self.prepared.training))
        return self.passes.sum(first), self.passes.sum(second)


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
        processes = Processes.present() if estimator.distributed == "auto" else None
        with together(processes):
            estimator._validate_params()
            check_parameters(estimator)
        with opened_files(source, target, sensitive, estimator, scratch, reading, processes=processes) as prepared:
            return self.fit_prepared(prepared, resume)

    def fit_prepared(self, prepared: PreparedRows, resume: str | os.PathLike[str] | Passes | None = None) -> Self:
        """Train on rows that have been prepared, for this fit or for several."""
        estimator: Any = self
        check_parameters(estimator)
        with resumed(checked_resume(estimator, resume), prepared.rows.processes) as passes:
            fitting = FileFitting(estimator, prepared, passes)
            found = fitting.train()
        estimator._adopt(prepared.inputs, None, fitting, found)
        return self

    def frontier_prepared(
        self, prepared: PreparedRows, bounds: Sequence[float], resume: str | os.PathLike[str] | Passes | None = None
    ) -> tuple[FrontierModel, ...]:
        """Train a classifier for each of several bounds of the first limit, on rows that have been prepared."""
        estimator: Any = self
        check_parameters(estimator)
        check_frontier(estimator)
        with resumed(checked_resume(estimator, resume), prepared.rows.processes) as passes:
            found = FileFitting(estimator, prepared, passes).frontier(bounds, 0)
        models: tuple[FrontierModel, ...] = estimator._adopt_frontier(prepared.inputs, None, found)
        return models
