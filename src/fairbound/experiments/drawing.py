"""The look of the figures, in one place: matplotlib without its global state, so that nothing of the user's changes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLORS = {"smoothed_step": "#0b6e99", "sigmoid": "#c1541d", "covariance": "#5c7a29"}
"""Told apart by people who do not see all colours, and in print by lightness."""

INK, QUIET, GRID = "#1f2933", "#7b8794", "#e4e7eb"

STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.size": 9.5,
    "axes.edgecolor": QUIET,
    "axes.labelcolor": INK,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "lines.linewidth": 1.6,
    "lines.markersize": 5,
    "svg.fonttype": "none",
    "svg.hashsalt": "fairbound",
}


@contextmanager
def style() -> Iterator[None]:
    """Draw within this: the style holds inside and nowhere else."""
    import matplotlib as mpl

    with mpl.rc_context(STYLE):
        yield


def panels(
    title: str, columns: int, rows: int = 1, *, width: float = 3.6, height: float = 3.0
) -> tuple[Figure, list[Axes]]:
    """A figure with a title and a grid of panels, row by row."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * columns, height * rows + 0.4), layout="constrained")
    figure.suptitle(title, x=0.01, ha="left", fontsize=11.5, fontweight="bold")
    grid = figure.subplots(rows, columns, squeeze=False)
    return figure, [axes for row in grid for axes in row]


def mark_printed(axes: Axes, x: float, y: float, *, label: str | None = None) -> None:
    """A value that the paper prints."""
    axes.plot([x], [y], marker="x", color=INK, linestyle="none", markersize=7, label=label, zorder=5)


def save(figure: Figure, path: Path) -> list[Path]:
    """Write PNG and SVG beside each other, the same bytes every time; return their paths."""
    figure.savefig(path.with_suffix(".png"), dpi=130, metadata={"Software": None})
    figure.savefig(path.with_suffix(".svg"), metadata={"Date": None, "Creator": None})
    return [path.with_suffix(".png"), path.with_suffix(".svg")]
