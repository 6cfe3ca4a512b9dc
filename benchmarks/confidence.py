"""The cost and the benefit of `confidence=`: whether limits are kept on 695,670 held-out rows, and at what accuracy.

Data: ACSIncome, all states 2018 (765,670 rows).  Each draw takes 50,000 rows for training and 20,000 for calibration;
the remaining rows stand for the population.  The limits are on the ratio of selection rates by sex.  There are three
models for each draw and ratio:

    plain       trained under the limit itself on the training rows
    plain, all  the same on training and calibration rows together, which it may use since it certifies nothing
    certified   `ConstrainedClassifier(confidence=0.95)`, tested on the calibration rows

`--results` names a file with one line of JSON for each model; an interrupted run continues from it.  `--out` writes the
tables as Markdown, `--figure` the figure of docs/confidence.md.  The data file is needed: see `load_dataset`.  One core
is enough; on a busy machine OMP_NUM_THREADS=1 is faster than more threads.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from fairbound import ConstrainedClassifier, Dataset, DisparateImpact, LimitWarning, load_dataset

TRAINING, CALIBRATION = 50_000, 20_000
KINDS = ("plain", "plain, all", "certified")


@dataclass(frozen=True)
class Outcome:
    """One model of one draw, measured on the population; ratio and accuracy are None if no model was certified."""

    kind: str
    bound: float
    draw: int
    hidden: tuple[int, ...]
    ratio: float | None
    accuracy: float | None
    strictness: float | None
    seconds: float

    @property
    def key(self) -> tuple[Any, ...]:
        """Return the key of the model: its kind and its draw."""
        return self.kind, self.bound, self.draw, self.hidden

    @property
    def broken(self) -> bool:
        """Return whether a model was returned that breaks its limit in the population."""
        return self.ratio is not None and self.ratio < self.bound


class Draw:
    """One division of the rows into training, calibration and population."""

    def __init__(self, data: Dataset, number: int) -> None:
        order = np.random.default_rng(number).permutation(len(data))
        self.data, self.sex, self.number = data, data.groups("sex"), number
        self.training, self.calibration = order[:TRAINING], order[TRAINING : TRAINING + CALIBRATION]
        self.truth = np.sort(order[TRAINING + CALIBRATION :])

    def rows(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
        """Return inputs, labels and groups of some rows."""
        return self.data.X[rows], self.data.y[rows], {"sex": self.sex[rows]}

    def train(self, kind: str, bound: float, hidden: Sequence[int]) -> ConstrainedClassifier:
        """Train one of the three models."""
        whole = np.concatenate([self.training, self.calibration])
        X, y, groups = self.rows(whole if kind == "plain, all" else self.training)
        clf = ConstrainedClassifier(DisparateImpact(bound), hidden=hidden)
        if kind != "certified":
            return clf.fit(X, y, sensitive_features=groups)
        clf.set_params(confidence=0.95)
        return clf.fit(X, y, sensitive_features=groups, calibration_set=self.rows(self.calibration))

    def judge(self, kind: str, bound: float, hidden: Sequence[int]) -> Outcome:
        """Train one of the three models, and measure it on the population."""
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LimitWarning)  # what it warns of is what is counted here
            clf = self.train(kind, bound, hidden)
        seconds = time.perf_counter() - start
        returned = [trial.strictness for trial in clf.result_.trials if trial.returned]
        ratio = accuracy = None
        if returned or kind != "certified":
            X, y, groups = self.rows(self.truth)
            decided = clf.predict(X)
            rates = [float(decided[groups["sex"] == group].mean()) for group in ("female", "male")]
            ratio, accuracy = min(rates) / max(rates), float((decided == y).mean())
        strictness = returned[0] if returned else None
        return Outcome(kind, bound, self.number, tuple(hidden), ratio, accuracy, strictness, seconds)


def read_results(path: Path | None) -> dict[tuple[Any, ...], Outcome]:
    """Return the outcomes of an earlier run."""
    if path is None or not path.exists():
        return {}
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    found = [Outcome(**{**record, "hidden": tuple(record["hidden"])}) for record in records]
    return {outcome.key: outcome for outcome in found}


def summarise(outcomes: Sequence[Outcome], bound: float) -> list[list[str]]:
    """Return one row of the table for each kind of model."""
    chosen = {kind: [each for each in outcomes if (each.kind, each.bound) == (kind, bound)] for kind in KINDS}
    plain = {each.draw: each.accuracy for each in chosen["plain"]}
    rows = []
    for kind, draws in chosen.items():
        returned = [each for each in draws if each.ratio is not None]
        ratios, accuracies = [each.ratio for each in returned], [each.accuracy for each in returned]
        costs = [100.0 * (plain[each.draw] - each.accuracy) for each in returned]
        rows.append(
            [
                f"{bound:g}",
                kind,
                f"{sum(each.broken for each in draws)} of {len(draws)}",
                f"{len(draws) - len(returned)}",
                f"{min(ratios):.4f} to {max(ratios):.4f}" if returned else "-",
                f"{statistics.mean(ratios):.4f}" if returned else "-",
                f"{100 * statistics.mean(accuracies):.2f}%" if returned else "-",
                f"{statistics.mean(costs):.2f}" if returned and kind != "plain" else "-",
                f"{statistics.median(each.seconds for each in draws):.1f} s",
            ]
        )
    return rows


HEADINGS = [
    "limit",
    "model",
    "breaks the limit on the truth",
    "none returned",
    "ratio on the truth",
    "mean ratio",
    "accuracy on the truth",
    "points below plain",
    "seconds (median)",
]


def as_markdown(rows: Sequence[Sequence[str]]) -> str:
    """Return the table as Markdown."""
    lines = [HEADINGS, ["---"] * len(HEADINGS), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def draw_figure(outcomes: Sequence[Outcome], path: Path) -> None:
    """Plot the ratios in the population, one dot for each draw, against the limits."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    bounds = sorted({each.bound for each in outcomes})
    figure, axes = plt.subplots(1, len(bounds), figsize=(3.6 * len(bounds), 2.6), squeeze=False, layout="constrained")
    for axis, bound in zip(axes[0], bounds, strict=True):
        axis.axhspan(0.0, bound, color="0.92", zorder=0)
        axis.axhline(bound, color="0.3", linewidth=1.0)
        for position, kind in enumerate(KINDS):
            ratios = sorted(
                each.ratio for each in outcomes if (each.kind, each.bound) == (kind, bound) and each.ratio is not None
            )
            spots = position + np.linspace(-0.25, 0.25, len(ratios))
            colors = ["#c44e52" if ratio < bound else "#4c72b0" for ratio in ratios]
            axis.scatter(spots, ratios, c=colors, s=14, zorder=2)
        found = [each.ratio for each in outcomes if each.bound == bound and each.ratio is not None]
        axis.set_ylim(min([*found, bound]) - 0.01, max(found) + 0.01)
        axis.set_xticks(range(len(KINDS)), KINDS)
        axis.set_title(f"limit: ratio at least {bound:g}", fontsize=10)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0][0].set_ylabel("ratio on the truth")
    figure.savefig(path, dpi=120)
    plt.close(figure)


def arguments() -> Any:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--ratios", type=float, nargs="+", default=[0.8, 0.9])
    parser.add_argument("--hidden", type=int, nargs="*", default=[], help="widths of hidden layers; none is linear")
    parser.add_argument("--results", type=Path, help="JSON lines to go on from, and to add to")
    parser.add_argument("--out", type=Path, help="write the table as Markdown")
    parser.add_argument("--figure", type=Path, help="write the picture (needs matplotlib)")
    return parser.parse_args()


def main() -> None:
    """Run the draws and print the table."""
    options, console = arguments(), Console()
    try:
        data = load_dataset("acsincome_us")
    except FileNotFoundError as error:
        console.print(f"Skipped: {error}", highlight=False)
        return
    known = read_results(options.results)
    for number in track(range(options.draws), "Draws", console=console):
        draw = Draw(data, number)
        for bound in options.ratios:
            for kind in KINDS:
                if (kind, bound, number, tuple(options.hidden)) not in known:
                    outcome = draw.judge(kind, bound, options.hidden)
                    known[outcome.key] = outcome
                    if options.results is not None:
                        with options.results.open("a", encoding="utf-8") as stream:
                            stream.write(json.dumps(asdict(outcome)) + "\n")
    outcomes = [
        each
        for each in known.values()
        if each.hidden == tuple(options.hidden) and each.draw < options.draws and each.bound in options.ratios
    ]
    rows = [row for bound in options.ratios for row in summarise(outcomes, bound)]
    model = f"hidden layers {tuple(options.hidden)}" if options.hidden else "linear model"
    truth = len(data) - TRAINING - CALIBRATION
    table = Table(title=f"{options.draws} draws, {model}; truth: {truth:,} rows", title_justify="left")
    for heading in HEADINGS:
        table.add_column(heading, justify="left" if heading == "model" else "right")
    for row in rows:
        table.add_row(*row)
    console.print(table)
    if options.out is not None:
        options.out.write_text(as_markdown(rows), encoding="utf-8")
    if options.figure is not None:
        draw_figure(outcomes, options.figure)


if __name__ == "__main__":
    main()
