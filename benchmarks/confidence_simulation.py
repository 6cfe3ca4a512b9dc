"""Simulate the claims of `confidence=` with the population *at* the limit, where errors are most frequent.

    sequence   rules that all break the limit by almost nothing are tested in order on the same 1,000 rows: the share of
               draws in which one of them is returned, if testing stops at the first failure, and if it continues
    bounds     the share of draws in which the bound of the certificate holds, for few and many rows; for the ratio in
    one
               direction, because few rows certify both directions only if the groups are nearly equal

Each share has an exact binomial 95% interval.  `--figure` writes the figure of docs/new_rows.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy import stats

from fairbound import DisparateImpact, certify

LIMIT = 0.8
JUST_BROKEN = LIMIT - 1e-9
NUMBERS = (1, 2, 3, 4, 6, 8)
SIZES = (25, 50, 100, 250, 500, 1000)
RATES = (0.5, 0.1)


@dataclass(frozen=True)
class Share:
    """The number of draws in which something happened."""

    times: int
    draws: int

    @property
    def value(self) -> float:
        """Return the share."""
        return self.times / self.draws

    @property
    def interval(self) -> tuple[float, float]:
        """Return the exact binomial 95% interval."""
        found = stats.binomtest(self.times, self.draws).proportion_ci(0.95)
        return float(found.low), float(found.high)

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.value:.2%} ({low:.2%} to {high:.2%})"


def passes(rng: np.random.Generator, rules: int, rows: int = 1000) -> list[bool]:
    """Return whether each of several rules passes; each selects half of group a, and ratio times half of group b."""
    group, y = rng.integers(2, size=rows), np.arange(rows) % 2
    chances = np.where(group == 0, 0.5, 0.5 * JUST_BROKEN)
    decisions = (rng.random((rules, rows)) < chances).astype(int)
    return [certify(y, decision, group, DisparateImpact(LIMIT)).passed for decision in decisions]


def sequence(draws: int, seed: int = 0) -> Iterator[tuple[int, Share, Share]]:
    """Return, for each number of rules, how often a wrong one is returned, if testing stops or continues."""
    rng = np.random.default_rng(seed)
    passed = np.array([passes(rng, max(NUMBERS)) for _ in range(draws)])
    for number in NUMBERS:
        # The first rule that is tested decides alone: where it fails, nothing is returned.
        yield number, Share(int(passed[:, 0].sum()), draws), Share(int(passed[:, :number].any(axis=1).sum()), draws)


def bounds(rate: float, draws: int, seed: int = 1) -> Iterator[tuple[int, Share]]:
    """Return, for each number of rows in each of two groups, how often the ratio is at least the 95% bound."""
    rng = np.random.default_rng(seed)
    for rows in SIZES:
        group, y = np.repeat([0, 1], rows), np.arange(2 * rows) % 2
        chances = np.where(group == 0, rate, LIMIT * rate)
        held = 0
        for _ in range(draws):
            decision = (rng.random(2 * rows) < chances).astype(int)
            (side,) = certify(y, decision, group, DisparateImpact((LIMIT, None), reference=0)).limits[0].bounds
            held += side.worst <= LIMIT
        yield rows, Share(held, draws)


def draw_figure(tested: Sequence[tuple[int, Share, Share]], covered: dict[float, Any], path: Path) -> None:
    """Plot two panels: the errors of a sequence, and the coverage of the bound."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(8.2, 3.0), layout="constrained")

    def line(axis: Any, places: Sequence[int], shares: Sequence[Share], **style: Any) -> None:
        values = np.array([share.value for share in shares])
        errors = np.abs(np.array([share.interval for share in shares]).T - values)
        axis.errorbar(places, 100 * values, 100 * errors, marker="o", markersize=4, capsize=2, linewidth=1.2, **style)

    numbers = [number for number, *_ in tested]
    line(left, numbers, [stop for _, stop, _ in tested], label="stop at the first failure", color="#4c72b0")
    line(left, numbers, [on for *_, on in tested], label="skip failures and go on", color="#c44e52")
    left.axhline(5, color="0.3", linewidth=1.0, linestyle="--")
    left.set(xlabel="rules at the limit", ylabel="% of draws", title="a wrong model is returned", ylim=(0, None))
    for (rate, found), color in zip(covered.items(), ("#4c72b0", "#55a868"), strict=True):
        places, shares = zip(*found, strict=True)
        line(right, places, shares, label=f"selection rates {rate:g} and {LIMIT * rate:g}", color=color)
    right.axhline(95, color="0.3", linewidth=1.0, linestyle="--")
    right.set(xlabel="rows in each group", ylabel="% of draws", title="the bound holds", ylim=(90, 100.5), xscale="log")
    right.set_xticks(SIZES, [f"{size:,}" for size in SIZES], minor=False)
    right.minorticks_off()
    for axis in (left, right):
        axis.title.set_fontsize(10)
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    """Simulate, and print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--figure", type=Path, help="write the picture (needs matplotlib)")
    options, console = parser.parse_args(), Console()
    tested = list(sequence(options.draws))
    table = Table(title=f"A wrong model is returned, at 95% confidence; {options.draws:,} draws", title_justify="left")
    for heading in ("rules at the limit", "stop at the first failure", "skip failures and go on"):
        table.add_column(heading, justify="right")
    for number, stopping, going_on in tested:
        table.add_row(str(number), str(stopping), str(going_on))
    console.print(table)
    covered = {rate: list(bounds(rate, options.draws)) for rate in RATES}
    table = Table(title="The bound at 95% holds", title_justify="left")
    for heading in ("rows in each group", *(f"rates {rate:g} and {LIMIT * rate:g}" for rate in RATES)):
        table.add_column(heading, justify="right")
    for position, rows in enumerate(SIZES):
        table.add_row(f"{rows:,}", *(str(found[position][1]) for found in covered.values()))
    console.print(table)
    if options.figure is not None:
        draw_figure(tested, covered, options.figure)


if __name__ == "__main__":
    main()
