"""What a confidence costs, and what it buys: limits kept on 695,670 rows that nobody trained on.

ACSIncome, all states 2018 (765,670 rows).  In each draw 50,000 rows train and 20,000 calibrate; the remaining rows are
the truth.  Limits on the ratio of selection rates by sex.  Three models for each draw and ratio:

    plain       trained under the limit itself on the training rows
    plain, all  the same on training and calibration rows together, which it may use since it certifies nothing
    certified   chosen by `train_for_confidence` at 95%

`--out` writes the tables as Markdown, `--figure` the picture of docs/confidence.md.  Needs the file of the data: see
`load_dataset`.  One core suffices, and on a busy machine OMP_NUM_THREADS=1 is faster than many.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table

from fairbound import L2, Cells, Dataset, DisparateImpact, TrainingProblem, fit, load_dataset, make_model
from fairbound.confidence import CertifiedChoice, train_for_confidence
from fairbound.fairness import decide

TRAINING, CALIBRATION, CHUNK = 50_000, 20_000, 2**16
KINDS = ("plain", "plain, all", "certified")


@dataclass(frozen=True)
class Outcome:
    """One model of one draw, on the truth; ratio and accuracy are None where no model was certified."""

    kind: str
    bound: float
    draw: int
    ratio: float | None
    accuracy: float | None
    strictness: float | None
    seconds: float

    @property
    def broken(self) -> bool:
        """Whether a model was returned that breaks its limit on the truth."""
        return self.ratio is not None and self.ratio < self.bound


class Draw:
    """One division of the rows into training, calibration and truth, with columns scaled by the training rows."""

    def __init__(self, data: Dataset, seed: int) -> None:
        order = np.random.default_rng(seed).permutation(len(data))
        self.training, self.calibration = order[:TRAINING], order[TRAINING : TRAINING + CALIBRATION]
        self.truth = np.sort(order[TRAINING + CALIBRATION :])
        self.data, self.sex = data, data.groups("sex")
        inputs = data.X[self.training]
        spread = inputs.std(axis=0)
        self.mean, self.spread = inputs.mean(axis=0), np.where(spread > 0, spread, 1.0)

    def inputs(self, rows: np.ndarray) -> np.ndarray:
        """Scaled inputs."""
        return (self.data.X[rows] - self.mean) / self.spread

    def problem(self, rows: np.ndarray, bound: float, hidden: Sequence[int]) -> TrainingProblem:
        """The limit on some rows, with a new model."""
        module = make_model(self.data.X.shape[1], hidden=hidden, generator=torch.Generator().manual_seed(0))
        cells = Cells.build(self.data.y[rows], {"sex": self.sex[rows]})
        return TrainingProblem(module, "binary_cross_entropy", DisparateImpact(bound), cells, regularizers=[L2(1e-5)])

    def decisions(self, problem: TrainingProblem, rows: np.ndarray) -> np.ndarray:
        """What the problem's module decides."""
        with torch.no_grad():
            parts = [
                decide(problem.module(torch.from_numpy(self.inputs(part))), problem.threshold)
                for part in np.array_split(rows, -(-len(rows) // CHUNK))
            ]
        return torch.cat(parts).numpy()

    def judge(self, problem: TrainingProblem) -> tuple[float, float]:
        """Return the ratio of selection rates and the accuracy on the truth."""
        decided, sex = self.decisions(problem, self.truth), self.sex[self.truth]
        rates = [float(decided[sex == group].mean()) for group in ("female", "male")]
        return min(rates) / max(rates), float((decided == self.data.y[self.truth]).mean())

    def plain(self, kind: str, bound: float, hidden: Sequence[int]) -> tuple[TrainingProblem, float]:
        """Train under the limit itself; return the problem and the seconds."""
        rows = self.training if kind == "plain" else np.concatenate([self.training, self.calibration])
        start, problem = time.perf_counter(), self.problem(rows, bound, hidden)
        fit(problem, self.inputs(rows))
        return problem, time.perf_counter() - start

    def certified(self, bound: float, hidden: Sequence[int]) -> tuple[TrainingProblem, CertifiedChoice, float]:
        """Train for a confidence; return the problem, the choice and the seconds."""
        start, problem = time.perf_counter(), self.problem(self.training, bound, hidden)

        def predict(parameters: torch.Tensor) -> np.ndarray:
            problem.assign(parameters)
            return self.decisions(problem, self.calibration)

        labels, groups = self.data.y[self.calibration], {"sex": self.sex[self.calibration]}
        choice = train_for_confidence(problem, self.inputs(self.training), predict, labels, groups)
        return problem, choice, time.perf_counter() - start


def run(draw: Draw, number: int, bound: float, hidden: Sequence[int]) -> list[Outcome]:
    """All three models of one draw."""
    found = []
    for kind in ("plain", "plain, all"):
        problem, seconds = draw.plain(kind, bound, hidden)
        found.append(Outcome(kind, bound, number, *draw.judge(problem), 0.0, seconds))
    problem, choice, seconds = draw.certified(bound, hidden)
    if choice.chosen is None:
        return [*found, Outcome("certified", bound, number, None, None, None, seconds)]
    return [*found, Outcome("certified", bound, number, *draw.judge(problem), choice.chosen.strictness, seconds)]


def summarise(outcomes: Sequence[Outcome], bound: float) -> list[list[str]]:
    """One row of words for each kind of model."""
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
    """The table as Markdown."""
    lines = [HEADINGS, ["---"] * len(HEADINGS), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def draw_figure(outcomes: Sequence[Outcome], path: Path) -> None:
    """Ratios on the truth, one dot for each draw, beside the limits."""
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
    outcomes = []
    for number in track(range(options.draws), "Draws", console=console):
        draw = Draw(data, number)
        for bound in options.ratios:
            outcomes += run(draw, number, bound, options.hidden)
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
