"""Perform runs in parallel processes, one core each, and store every result as soon as its run is finished.

joblib starts the processes.  To use a cluster, call it inside `with joblib.parallel_config(backend="dask"):`.
"""

from __future__ import annotations

import hashlib
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import fairbound
from fairbound.data import Dataset, Split, load_dataset
from fairbound.experiments.protocol import BATCH_SIZE, NETWORKS, Run
from fairbound.experiments.runs import CellSums, Grid, Outcome, Results
from fairbound.fairness import SURROGATES, Cells, Constraint, Covariance, DisparateImpact, Surrogate
from fairbound.sqp import StochasticSQP
from fairbound.training import (
    L2,
    Effort,
    FullBatch,
    SquaredMeasure,
    StratifiedBatches,
    TrainingProblem,
    TrainingResult,
    assess_now,
    choose_status,
    fit,
    make_model,
    train,
)

REGULARITY = 1e-5
"""Weight of the ℓ2 term of the fast solver, the estimator's default.  The paper's program has no such term."""


@lru_cache(maxsize=3)
def load_rows(name: str, data_dir: str | None = None, limit: int | None = None) -> Split:
    """Return the rows of the paper's protocol; with a `limit`, only the first rows of each part."""
    split = load_dataset(name, protocol="paper", data_dir=data_dir)
    if limit is None:
        return split
    return Split(*(part.take(range(min(limit, len(part)))) for part in (split.train, split.test)))


def fingerprint(split: Split) -> str:
    """Return a short hash of the inputs, labels and groups of a run."""
    digest = hashlib.sha256()
    for part in (split.train, split.test):
        for array in (part.X, part.y, *(part.sensitive[name] for name in sorted(part.sensitive))):
            digest.update(array.tobytes())
    return digest.hexdigest()[:12]


def perform(run: Run, data_dir: str | None = None, limit: int | None = None) -> Outcome:
    """Train according to the run, on one core, and measure the training and the test rows."""
    split = load_rows(run.dataset, data_dir, limit)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        _forget_peak()
        started, worked = time.perf_counter(), time.process_time()
        problem = make_problem(run, split.train)
        if run.solver == "paper":
            result = _run_paper(run, problem, split.train)
        else:
            result = fit(problem, split.train.X, effort=Effort(epochs=20 if run.batches else "auto"))
        seconds, processor_seconds = time.perf_counter() - started, time.process_time() - worked
        peak = _peak_megabytes()
        seen, unseen = (_look(run, problem.module, part) for part in (split.train, split.test))
    finally:
        torch.set_num_threads(threads)
    return Outcome(
        run,
        seen,
        unseen,
        kept=all(_constraint(run, measure, bound).keeps(seen.reached(measure)) for measure, bound in run.limits),
        status=result.status.value
        if run.solver == "fast"
        else choose_status(result.final or result.assessment, False, False).value,
        seconds=seconds,
        processor_seconds=processor_seconds,
        peak_megabytes=peak,
        version=fairbound.__version__,
        history=_history(result) if run.solver == "paper" else {},
    )


def make_problem(run: Run, rows: Dataset) -> TrainingProblem:
    """Return the training problem of a run: the paper's network, with the run's limits and penalty."""
    generator = torch.Generator().manual_seed(run.seed)
    module = make_model(rows.X.shape[1], hidden=NETWORKS[run.dataset], generator=generator)
    constraints = [_constraint(run, measure, bound) for measure, bound in run.limits]
    regularizers: list[Any] = [L2(REGULARITY)] if run.solver == "fast" else []
    if run.penalty is not None:
        covariance = run.surrogate == "covariance"
        measure = "covariance" if covariance else "demographic_parity"
        regularizers.append(
            SquaredMeasure(measure, weight=1 / run.penalty, surrogate=None if covariance else _surrogate(run))
        )
    return TrainingProblem(
        module, "binary_cross_entropy", constraints, Cells.build(rows.y, rows.sensitive), regularizers=regularizers
    )


def _run_paper(run: Run, problem: TrainingProblem, rows: Dataset) -> TrainingResult:
    """Train as the paper's program does, with its constants and epochs, up to the last iterate."""
    all_rows = problem.rows(rows.X)
    batches: FullBatch | StratifiedBatches = FullBatch(all_rows)
    if run.batches:
        generator = torch.Generator().manual_seed(run.seed)
        batches = StratifiedBatches(all_rows, min(BATCH_SIZE, len(all_rows)), generator=generator)
    last = {}

    def remember(_: dict[str, Any]) -> None:
        last["parameters"] = problem.current()

    optimizer = StochasticSQP.from_paper(problem.parameters)
    result = train(problem, batches, optimizer, epochs=run.epochs, tolerance=0.0, callback=remember)
    problem.assign(last["parameters"])
    return result


def _constraint(run: Run, measure: str, bound: float) -> Constraint:
    if measure == "covariance":
        # A covariance is at most 0.25 in size, and `Covariance` rejects larger bounds.
        return Covariance(min(bound, 0.25))
    return Constraint(bound, measure=measure, surrogate=_surrogate(run))


def _surrogate(run: Run) -> Surrogate:
    # A run with a limit on the covariance has no surrogate of the step: it is measured with the paper's surrogate.
    name, scale = ("smoothed_step", 50.0) if run.surrogate == "covariance" else (run.surrogate, run.scale)
    return SURROGATES[name](scale=scale)


def _look(run: Run, module: torch.nn.Module, rows: Dataset) -> CellSums:
    """Return the sums over the cells of the given rows."""
    cells = Cells.build(rows.y, rows.sensitive)
    surrogate = _surrogate(run)
    problem = TrainingProblem(
        module, "binary_cross_entropy", [DisparateImpact(None, surrogate=surrogate), Covariance(None)], cells
    )
    found = assess_now(problem, problem.rows(rows.X))
    functions = enumerate(problem.system.surrogates)
    sums = {each.surrogate.name: found.sums[index] for index, each in functions if each.surrogate}
    (grouping,) = cells.groupings
    first, second = map(str, grouping.groups)
    return CellSums(
        (first, second),
        _grid(cells.totals),
        _grid(found.counts[:, 0]),
        _grid(sums[surrogate.name]),
        _grid(sums["linear"]),
        found.loss,
    )


def _grid(sums: NDArray[np.float64]) -> Grid:
    (a, b), (c, d) = sums.reshape(2, 2).tolist()
    return (a, b), (c, d)


def _history(result: TrainingResult) -> dict[str, list[float]]:
    names = ("accuracy", "loss", "exact_violation", "surrogate_violation")
    return {name: [round(row[name], 6) for row in result.iterations] for name in names}


def _forget_peak() -> None:
    """Reset the peak memory of the process on Linux; other systems report the peak since the process started."""
    if sys.platform == "linux":
        # Containers may mount it read-only.
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def _peak_megabytes() -> float:
    if sys.platform == "linux":
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return float(line.split()[1]) / 1024
    import resource

    # macOS reports bytes here.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


Report = Callable[[int, int], None]
"""Called after each run with the numbers of finished runs and of all."""


def complete(
    runs: Sequence[Run],
    results: Results,
    *,
    jobs: int = 1,
    data_dir: str | None = None,
    limit: int | None = None,
    report: Report | None = None,
) -> None:
    """Perform the runs that have no outcome yet.  After an interrupt, finished runs are kept.

    Parameters
    ----------
    runs : sequence of Run
    results : Results
    jobs : int
        The number of processes; -1 means one per core.
    data_dir : str, optional
        The folder with the data files.
    limit : int, optional
        The number of rows of each part, for a quick look.
    report : function of two numbers, optional
        See `Report`.
    """
    # scikit-learn depends on joblib, so it is always installed.
    from joblib import Parallel, delayed

    # The longest runs first, so that no process works alone on a long run at the end.
    missing = sorted(results.missing(runs), key=lambda run: -run.cost)
    outcomes = Parallel(n_jobs=jobs, return_as="generator_unordered")(
        delayed(perform)(run, data_dir, limit) for run in missing
    )
    try:
        for finished, outcome in enumerate(outcomes, start=1):
            results.add(outcome)
            if report is not None:
                report(finished, len(missing))
    finally:
        with warnings.catch_warnings():
            # joblib warns that unfinished tasks are lost.  After an interrupt this is expected.
            warnings.filterwarnings("ignore", "[0-9]+ tasks", UserWarning)
            outcomes.close()
