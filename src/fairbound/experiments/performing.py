"""One run, from the data to its outcome: the paper's program, or the fast solver, on the paper's rows."""

from __future__ import annotations

import hashlib
import sys
import time
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

import fairbound
from fairbound.data import Dataset, Split, load_dataset
from fairbound.experiments.outcomes import Grid, Outcome, Part
from fairbound.experiments.protocol import BATCH_SIZE, NETWORKS
from fairbound.experiments.runs import Run
from fairbound.fairness import KEPT_TOLERANCE, SURROGATES, Cells, Constraint, Covariance, DisparateImpact, Surrogate
from fairbound.sqp import StochasticSQP
from fairbound.training import (
    L2,
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
"""Weight of the ℓ2 term of the fast solver, as by default in the estimator; the paper's program has none."""


@lru_cache(maxsize=3)
def load_rows(name: str, data_dir: str | None = None, limit: int | None = None) -> Split:
    """The rows of the paper's protocol; with a limit, the first so many of each part, for a quick look."""
    split = load_dataset(name, protocol="paper", data_dir=data_dir)
    if limit is None:
        return split
    return Split(*(part.take(range(min(limit, len(part)))) for part in (split.train, split.test)))


def fingerprint(split: Split) -> str:
    """A short name for the numbers that a run sees."""
    digest = hashlib.sha256()
    for part in (split.train, split.test):
        for array in (part.X, part.y, *(part.sensitive[name] for name in sorted(part.sensitive))):
            digest.update(array.tobytes())
    return digest.hexdigest()[:12]


def perform(run: Run, data_dir: str | None = None, limit: int | None = None) -> Outcome:
    """Train as the run says, on one core, and look at both parts."""
    split = load_rows(run.dataset, data_dir, limit)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        _forget_peak()
        started, worked = time.perf_counter(), time.process_time()
        problem, result = (_run_paper if run.solver == "paper" else _run_fast)(run, split.train)
        seconds, processor_seconds = time.perf_counter() - started, time.process_time() - worked
        peak = _peak_megabytes()
        seen, unseen = (_look(run, problem.module, part) for part in (split.train, split.test))
    finally:
        torch.set_num_threads(threads)
    return Outcome(
        run,
        seen,
        unseen,
        kept=all(seen.violation(measure, bound) <= KEPT_TOLERANCE for measure, bound in run.limits),
        status=result.status.value if run.solver == "fast" else choose_status(result.final, False, False).value,
        seconds=seconds,
        processor_seconds=processor_seconds,
        peak_megabytes=peak,
        version=fairbound.__version__,
        history=_history(result) if run.solver == "paper" else {},
    )


def make_problem(run: Run, rows: Dataset) -> TrainingProblem:
    """The paper's network with the run's limits and penalty."""
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


def _run_paper(run: Run, rows: Dataset) -> tuple[TrainingProblem, TrainingResult]:
    """The paper's program: its constants, its epochs, and its last iterate."""
    problem = make_problem(run, rows)
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
    return problem, result


def _run_fast(run: Run, rows: Dataset) -> tuple[TrainingProblem, TrainingResult]:
    problem = make_problem(run, rows)
    return problem, fit(problem, rows.X, solver="stochastic" if run.batches else "auto")


def _constraint(run: Run, measure: str, bound: float) -> Constraint:
    if measure == "covariance":
        # Made of its own linear surrogate; beyond 0.25 there is nothing to limit, and a constraint refuses to try.
        return Covariance(min(bound, 0.25))
    return Constraint(bound, measure=measure, surrogate=_surrogate(run))


def _surrogate(run: Run) -> Surrogate:
    # A covariance run has no surrogate of the step; what it does is looked at through the paper's own.
    name, scale = ("smoothed_step", 50.0) if run.surrogate == "covariance" else (run.surrogate, run.scale)
    return SURROGATES[name](scale=scale)


def _look(run: Run, module: torch.nn.Module, rows: Dataset) -> Part:
    """Sums over the cells of some rows."""
    cells = Cells.build(rows.y, rows.sensitive)
    surrogate = _surrogate(run)
    problem = TrainingProblem(
        module, "binary_cross_entropy", [DisparateImpact(None, surrogate=surrogate), Covariance(None)], cells
    )
    found = assess_now(problem, problem.rows(rows.X))
    sums = {each.surrogate.name: found.sums[index] for index, each in enumerate(problem.system.surrogates)}
    (grouping,) = cells.groupings
    first, second = map(str, grouping.groups)
    return Part(
        (first, second),
        _grid(cells.totals),
        _grid(found.counts[:, 0]),
        _grid(sums[surrogate.name]),
        _grid(sums["linear"]),
        found.loss,
    )


def _grid(sums: torch.Tensor) -> Grid:
    (a, b), (c, d) = sums.reshape(2, 2).tolist()
    return (a, b), (c, d)


def _history(result: TrainingResult) -> dict[str, list[float]]:
    names = ("accuracy", "loss", "exact_violation", "surrogate_violation")
    return {name: [round(row[name], 6) for row in result.history] for name in names}


def _forget_peak() -> None:
    """Let the largest memory be counted anew, where the system can (Linux); elsewhere it is that of the process."""
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

    # macOS counts bytes here.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
