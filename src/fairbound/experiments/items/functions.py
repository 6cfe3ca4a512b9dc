"""Figure 1: the surrogates, without and with scaling."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from fairbound.experiments.drawing import COLORS, INK, QUIET, legend, panels
from fairbound.experiments.plans import Evidence
from fairbound.experiments.protocol import SURROGATES, WORDS
from fairbound.experiments.sections import Check
from fairbound.experiments.tables import Column, Columns, ResultTable, Value
from fairbound.fairness import SURROGATES as KINDS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN_SCALE = 10.0
"""The scale of the paper's right panel."""


def distance(name: str, scale: float) -> float:
    """Return the mean of |φ(scale·t) − 1{t > 0}| over margins t of a probability, from −½ to ½."""
    margins = (torch.arange(2000, dtype=torch.float64) + 0.5) / 2000 - 0.5
    return float((KINDS[name](scale=scale).value(margins) - (margins > 0).double()).abs().mean())


def draw(_: Evidence) -> Figure:
    """Both panels."""
    figure, (left, right) = panels("Surrogates of the step function", 2)
    t = torch.linspace(-1.5, 1.5, 601, dtype=torch.float64)
    for axes, scale, title in ((left, 1.0, "as they are"), (right, SHOWN_SCALE, f"scaled by {SHOWN_SCALE:g}")):
        axes.set_title(title)
        axes.plot(t, (t > 0).double(), color=INK, linewidth=1.2, label="step")
        if scale == 1.0:
            axes.plot(t, t, color=QUIET, linestyle="--", label="linear")
        for name in SURROGATES:
            axes.plot(t, KINDS[name](scale=scale).value(t), color=COLORS[name], label=WORDS[name])
        axes.set_ylim(-0.35, 1.35)
        axes.set_xlabel("margin t")
    left.set_ylabel("φ(t)")
    legend(figure, left)
    return figure


def tabulate(_: Evidence) -> list[ResultTable]:
    """Return the mean distance of each surrogate from the step."""
    rows: list[list[Value]] = [
        [WORDS[name], scale, distance(name, scale)] for name in SURROGATES for scale in (1.0, SHOWN_SCALE, 50.0)
    ]
    columns: Columns = ["surrogate", Column("scale", "g"), Column("mean distance from the step", ".4f")]
    return [ResultTable.build("Distance from the step over margins of −½ to ½", columns, rows)]


def check(_: Evidence) -> list[Check]:
    """Check that scaling brings the surrogates closer to the step."""
    found = []
    for name in SURROGATES:
        plain, scaled = distance(name, 1.0), distance(name, SHOWN_SCALE)
        figures = f"{WORDS[name]}: mean distance from the step {plain:.3f} as it is, {scaled:.3f} scaled by 10."
        found.append(Check("Scaling brings the surrogates closer to the step.", scaled < plain, figures))
    return found
