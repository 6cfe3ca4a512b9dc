"""False alarms and delays of the monitor, by simulation.

    python benchmarks/monitor.py [--streams 2000] [--rows 10000]

The limit is disparate_impact >= 0.8 between two groups, at 95% confidence.  Both of its requirements are watched, as
`fairbound.Monitor` does.

* At the limit: streams whose ratio is exactly 0.8, with a look after each row.  The share with any alarm must be at
  most 5%.
* Delay: streams whose ratio is 0.75, a drop of 0.05 below the limit, in batches of 100 rows, from the first row or
  after 20,000 rows during which the ratio was 0.85.  The table has the rows until the alarm, counted from the drop.
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy import stats

from fairbound.evaluation.e_processes import EProcesses

RATIO, ALPHA = 0.8, 0.05


class Streams:
    """Many streams side by side, each with both requirements of the limit."""

    def __init__(self, streams: int, seed: int) -> None:
        self.rng, self.n = np.random.default_rng(seed), streams
        self.processes = EProcesses.start(np.full(2 * streams, RATIO), np.zeros(2 * streams))
        self.waiting = np.zeros((2 * streams, 4))
        self.alarm_at = np.full(streams, np.inf)
        self.rows = 0

    def add(self, rows: int, share: float, rate: float, ratio: float) -> None:
        """Add rows to each stream; the first group has that share of them, and `ratio` times the rate of the second.

        The rows are one block if both groups are among them, which is how a monitor divides a single row; for larger
        batches a monitor divides them further, which only lets it choose its stakes more often.
        """
        first = self.rng.binomial(rows, share, self.n)
        counts = [first, self.rng.binomial(first, ratio * rate)]
        counts += [rows - first, self.rng.binomial(rows - first, rate)]
        new = np.stack(counts, axis=1).astype(float)
        self.waiting += np.concatenate([new, new[:, [2, 3, 0, 1]]])
        done = self.processes.is_complete(self.waiting)
        self.processes.play(np.where(done[:, None], self.waiting, 0.0))
        self.waiting[done] = 0.0
        self.rows += rows
        both = np.logaddexp(*self.processes.log_evidence.reshape(2, -1)) - np.log(2.0)
        self.alarm_at = np.where((both >= -np.log(ALPHA)) & np.isinf(self.alarm_at), self.rows, self.alarm_at)


def at_the_limit(streams: int, rows: int, share: float, rate: float) -> None:
    """Print the share of streams with an alarm."""
    found = Streams(streams, seed=1)
    for _ in range(rows):
        found.add(1, share, rate, RATIO)
    alarms = int(np.isfinite(found.alarm_at).sum())
    highest = stats.binomtest(alarms, streams).proportion_ci(0.95, method="exact").high
    print(
        f"| {rate:.2f} | {share:.0%} | {streams:,} | {rows:,} | {alarms} | {alarms / streams:.2%} | {highest:.2%} |",
        flush=True,
    )


def delay(streams: int, before: int, share: float, rate: float, most: int = 400_000) -> None:
    """Print the median and the 90% quantile of the rows from the drop to the alarm."""
    found = Streams(streams, seed=2)
    while found.rows < before:
        found.add(100, share, rate, 0.85)
    early = int(np.isfinite(found.alarm_at).sum())
    found.alarm_at[:] = np.inf
    while found.rows < before + most and not np.isfinite(found.alarm_at).all():
        found.add(100, share, rate, 0.75)
    median, most_of_them = np.quantile(found.alarm_at - before, [0.5, 0.9])
    print(
        f"| {rate:.2f} | {share:.0%} | {before:,} | {median:,.0f} | {most_of_them:,.0f} | {early} of {streams} |",
        flush=True,
    )


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--streams", type=int, default=2000)
    parser.add_argument("--rows", type=int, default=10_000)
    given = parser.parse_args()
    print("| rate of the second group | share of the first | streams | rows | alarms | share | 95% upper bound |")
    print("|---|---|---|---|---|---|---|")
    at_the_limit(given.streams, given.rows, 0.5, 0.5)
    for share, rate in ((0.1, 0.5), (0.5, 0.1), (0.5, 0.9)):
        at_the_limit(given.streams, given.rows // 4, share, rate)
    print("\n| rate of the second group | share of the first | rows before the drop | median | 90% | alarms before |")
    print("|---|---|---|---|---|---|")
    for before, share, rate in (
        (0, 0.5, 0.3),
        (0, 0.5, 0.5),
        (0, 0.5, 0.7),
        (0, 0.2, 0.5),
        (20_000, 0.5, 0.5),
    ):
        delay(300, before, share, rate)


if __name__ == "__main__":
    main()
