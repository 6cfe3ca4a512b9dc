"""The look of the figures, in one place: matplotlib without its global state, so that nothing of the user's changes."""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairbound._drafts import write_file
from fairbound._extras import missing_extra

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
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise missing_extra("The figures need", "matplotlib", "paper") from error
    with mpl.rc_context(STYLE):
        yield


def panels(
    title: str, columns: int, rows: int = 1, *, width: float = 3.1, height: float = 2.7, share_rows: bool = True
) -> tuple[Figure, list[Axes]]:
    """A figure with a title and a grid of panels, row by row, the panels of a row on one vertical scale."""
    from matplotlib.figure import Figure

    # Above the panels the title, below them the legend.
    figure = Figure(figsize=(width * columns, height * rows + 0.6), layout="constrained")
    # About eleven of its letters to an inch.
    lines = textwrap.fill(title, int(11 * width * columns))
    figure.suptitle(lines, x=0.01, ha="left", fontsize=10.5, fontweight="bold")
    grid = figure.subplots(rows, columns, squeeze=False, sharey="row" if share_rows else False)
    return figure, [axes for row in grid for axes in row]


def legend(figure: Figure, *axes: Axes) -> None:
    """One legend below all panels, where it can hide nothing; each label once."""
    found: dict[str, Any] = {}
    for each in axes:
        for handle, label in zip(*each.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    # Inches of the widest entry: its line and gaps, and its letters on average.
    entry = 0.6 + 0.062 * max(map(len, found))
    columns = max(1, min(len(found), int(figure.get_figwidth() / entry)))
    # As even as can be: four and two rather than five and one.
    columns = -(-len(found) // -(-len(found) // columns))
    figure.legend(list(found.values()), list(found), loc="outside lower center", ncols=columns)


def missed(axes: Axes, low: float, high: float) -> None:
    """Shade where a ratio achieved would fall short of the one demanded."""
    axes.plot([low, high], [low, high], color=QUIET, linewidth=1, linestyle=":")
    axes.fill_between(
        [low, high], [0, 0], [low, high], color=QUIET, alpha=0.13, linewidth=0, label="short of the limit"
    )


def decades(axes: Axes) -> None:
    """A horizontal scale by powers of ten, from loose on the left to strict on the right."""
    from matplotlib.ticker import LogLocator

    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(numticks=12))
    axes.xaxis.set_major_formatter(lambda value, _: _power(value))
    axes.minorticks_off()
    axes.invert_xaxis()


def _power(value: float) -> str:
    """A power of ten in plain characters, which every font and every SVG has.

    >>> _power(0.001), _power(100.0), _power(1.0)
    ('10⁻³', '10²', '1')
    """
    exponent = round(math.log10(value))
    if exponent == 0:
        return "1"
    return "10" + str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def mark_printed(axes: Axes, x: float, y: float, *, label: str | None = None) -> None:
    """A value that the paper prints."""
    axes.plot([x], [y], marker="x", color=INK, linestyle="none", markersize=7, label=label, zorder=5)


def save(figure: Figure, path: Path) -> list[Path]:
    """Write PNG and SVG beside each other, the same bytes every time; return their paths."""
    options: dict[str, dict[str, Any]] = {
        "png": {"dpi": 130, "metadata": {"Software": None}},
        "svg": {"metadata": {"Date": None, "Creator": None}},
    }
    for form, chosen in options.items():
        drawn = io.BytesIO()
        figure.savefig(drawn, format=form, **chosen)
        write_file(path.with_suffix(f".{form}"), drawn.getvalue())
    return [path.with_suffix(f".{form}") for form in options]
