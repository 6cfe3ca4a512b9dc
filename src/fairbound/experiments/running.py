"""Runs in parallel processes, each on one core, with the results kept as they come.

Through joblib, so that a larger study goes to a cluster by `with joblib.parallel_config(backend="dask"):` around it.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from fairbound.experiments.outcomes import Outcome
from fairbound.experiments.performing import perform
from fairbound.experiments.runs import Run
from fairbound.experiments.store import Results


@dataclass(frozen=True)
class Progress:
    """How far the runs are: how many are done of how many, the last one, and the seconds that remain, by estimate."""

    done: int
    total: int
    last: Outcome | None
    remaining: float | None


def complete(
    runs: Sequence[Run],
    results: Results,
    *,
    jobs: int = 1,
    data_dir: str | None = None,
    limit: int | None = None,
    report: Callable[[Progress], None] | None = None,
) -> None:
    """Perform the runs that have no outcome yet; an interrupt keeps those that are finished.

    Parameters
    ----------
    runs : sequence of Run
    results : Results
    jobs : int
        Processes; -1 is one for each core.
    data_dir : str, optional
        The folder with the data files.
    limit : int, optional
        Rows of each part, for a quick look.
    report : function of Progress, optional
    """
    # At hand wherever scikit-learn is.
    from joblib import Parallel, delayed, effective_n_jobs

    # The longest first: no process is left alone with a long one at the end.
    missing = sorted(results.missing(runs), key=lambda run: -run.cost)
    if not missing:
        return
    started, waiting, processes = time.perf_counter(), dict.fromkeys(missing), effective_n_jobs(jobs)
    if report is not None:
        report(Progress(0, len(missing), None, _remaining(waiting, results, processes, 0.0, [])))
    finished: list[Run] = []
    outcomes = Parallel(n_jobs=jobs, return_as="generator_unordered")(
        delayed(perform)(run, data_dir, limit) for run in missing
    )
    with _ended(outcomes):
        for outcome in outcomes:
            results.add(outcome)
            del waiting[outcome.run]
            finished.append(outcome.run)
            if report is not None:
                elapsed = time.perf_counter() - started
                remaining = _remaining(waiting, results, processes, elapsed, finished)
                report(Progress(len(finished), len(missing), outcome, remaining))


@contextmanager
def _ended(outcomes: Generator[Outcome]) -> Iterator[None]:
    """End the processes, also on an interrupt."""
    try:
        yield
    finally:
        with warnings.catch_warnings():
            # joblib warns that what was under way is lost, which an interrupt means.
            warnings.filterwarnings("ignore", "[0-9]+ tasks", UserWarning)
            outcomes.close()


def _remaining(
    waiting: dict[Run, None], results: Results, processes: int, elapsed: float, finished: list[Run]
) -> float | None:
    """Seconds, from runs of the same kind where there are any, else from the cost of all that are finished."""
    spent: dict[tuple[str, str, bool], list[float]] = {}
    for outcome in results:
        spent.setdefault(_kind(outcome.run), []).append(outcome.seconds / outcome.run.cost)
    done = sum(run.cost for run in finished)
    if not done and any(_kind(run) not in spent for run in waiting):
        return None
    total = 0.0
    for run in waiting:
        rates = spent.get(_kind(run))
        total += run.cost * (sum(rates) / len(rates) if rates else elapsed * processes / done)
    return total / processes


def _kind(run: Run) -> tuple[str, str, bool]:
    return run.dataset, run.solver, run.batches
