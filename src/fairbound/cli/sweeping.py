"""The models of a grid of bounds, each trained from its neighbour, and what is written of them."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from fairbound._files import as_utf8
from fairbound.cli.output import Output

if TYPE_CHECKING:
    from fairbound.cli.study import Study
    from fairbound.estimator import ConstrainedClassifier, FrontierModel
    from fairbound.fairness import Constraint

RATIOS = (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
DIFFERENCES = (0.3, 0.2, 0.15, 0.1, 0.075, 0.05, 0.02)


def check_bounds(measure: str, bounds: Sequence[float] | None, choose: float | None) -> list[Constraint]:
    """Return the limits of the grid, from loose to strict."""
    from fairbound._registry import lookup
    from fairbound.fairness import MEASURES, parse_constraint

    known = lookup(MEASURES, measure, "measure")
    if known.comparison == "value":
        raise ValueError(f"--measure is {measure!r}, a group's own rate; a frontier compares groups.")
    if known.comparison == "covariance" and not bounds:
        raise ValueError("A covariance has no usual grid; give --bounds, such as 0.05 0.02 0.01.")
    sign = ">=" if known.larger_is_stricter else "<="
    chosen = set(bounds or (RATIOS if known.larger_is_stricter else DIFFERENCES))
    chosen |= {choose} if choose is not None else set()
    ordered = sorted(chosen, reverse=not known.larger_is_stricter)
    return [parse_constraint(f"{measure} {sign} {bound!r}") for bound in ordered]


def _is_finished(point: FrontierModel) -> bool:
    """Tell whether a bound of an interrupted sweep was reached: any bound is kept by a constant, without training."""
    return point.result.kept and point.result.status.value != "degenerate"


class Sweeping:
    """The models of a grid of bounds; an interrupt leaves those that are finished."""

    def __init__(self, study: Study, grid: Sequence[Constraint], others: Sequence[Constraint], output: Output) -> None:
        self.study, self.grid, self.others, self.output = study, grid, others, output
        self.interrupted = False
        self.points: list[FrontierModel] = []
        self.before: ConstrainedClassifier

    def run(self) -> None:
        """Train without limits, then for each bound from its neighbour."""
        from fairbound.cli.interrupts import Interruptible
        from fairbound.cli.study import progress

        with Interruptible() as interrupt:

            def callback(name: str) -> Any:
                shown = progress(self.output, name)
                return lambda row: (shown(row), interrupt.asked(row))[1]

            with self.output.stage("Training without limits"):
                self.before, _ = self.study.fit([], callback("Training without limits"))
            name = f"Training for {len(self.grid)} bounds"
            with self.output.stage(name):
                bounds: list[Any] = [limit.bound for limit in self.grid]  # numbers: `check_bounds` has made them
                swept = self.study.frontier([self.grid[0], *self.others], bounds, callback(name))
            self.interrupted = interrupt.happened
            self.points = [point for point in swept if not self.interrupted or _is_finished(point)]
        if not self.points:
            raise KeyboardInterrupt

    def summary(self, context: typer.Context, source: str, choose: float | None) -> dict[str, Any]:
        """Return the summary, about the chosen bound."""
        from fairbound.cli.outcome import Models, summary_of
        from fairbound.study import Sweep, SweptPoint

        bounds = [point.bound for point in self.points]
        place = bounds.index(choose) if choose in bounds else len(bounds) // 2
        self.place = place
        held_out = self.study.held_out
        swept = Sweep(
            limit=self.grid[0].with_bound(bounds[place]),
            points=[
                SweptPoint(
                    point=point.as_dict(),
                    training=point.classifier.predict(self.study.training.X),
                    held_out=None if held_out is None else point.classifier.predict(held_out.X),
                )
                for point in self.points
            ],
        )
        limits = [self.grid[0].with_bound(bounds[place]), *self.others]
        models = Models(self.before, self.points[place].classifier)
        return summary_of(
            self.study, limits, models, context, source=source, frontier=swept, interrupted=self.interruption()
        )

    def interruption(self) -> str:
        """Return what an interrupt left; nothing where there was none."""
        from fairbound.fairness import shortest

        if not self.interrupted:
            return ""
        finished = ", ".join(shortest(point.bound) for point in self.points)
        return f"the {len(self.points)} of {len(self.grid)} bounds that were finished: {finished}."

    def write(
        self, folder: Path, place: Path, summary: Mapping[str, Any], read: Mapping[str, Any], *, models: bool
    ) -> dict[str, Any]:
        """Write table, plot data, models and report; return the numbers in short, and how the file was `read`."""
        from fairbound.cli.models import MODEL_FOLDER, save_model
        from fairbound.fairness import shortest
        from fairbound.report import write_report

        save_model(self.points[self.place].classifier, folder / MODEL_FOLDER)
        if models:
            for point in self.points:
                save_model(point.classifier, folder / "models" / shortest(point.bound))
        write_report(summary, folder)
        lines = [line_of(point) for point in summary["frontier"]["points"]]
        with (folder / "frontier.csv").open("w", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, list(lines[0]))
            writer.writeheader()
            writer.writerows(lines)
        found = {
            "limit": summary["frontier"]["limit"],
            "kept": all(line["training_kept"] for line in lines),
            "points": lines,
            "interrupted": self.interrupted,
            "reproduction": summary["reproduction"],
            **read,
        }
        (folder / "frontier.json").write_bytes(
            as_utf8(json.dumps(found, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
        )
        found["files"] = [str(place / name) for name in sorted(each.name for each in folder.iterdir())]
        return found


def line_of(point: Mapping[str, Any]) -> dict[str, Any]:
    """Return one point of a frontier as a line of a table."""
    line: dict[str, Any] = {"bound": point["bound"], "status": point["status"]}
    for name in ("training", "held_out"):
        part = point[name]
        if part is not None:
            line |= {
                f"{name}_value": part["value"],
                f"{name}_kept": part["kept"],
                f"{name}_lower": part["lower"],
                f"{name}_upper": part["upper"],
                f"{name}_accuracy": part["accuracy"]["value"],
                f"{name}_accuracy_lower": part["accuracy"]["lower"],
                f"{name}_accuracy_upper": part["accuracy"]["upper"],
                f"{name}_gain": part["gain"],
            }
    return line | {"loss_price": point["loss_price"], "accuracy_price": point["accuracy_price"]}
