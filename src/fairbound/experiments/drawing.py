"""The look of the figures, in one place: matplotlib without its global state, so that nothing of the user's changes."""

from __future__ import annotations

import io
import math
import re
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairbound._drafts import write_file
from fairbound._extras import missing_extra

if TYPE_CHECKING:
    from markupsafe import Markup
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


# --- embedding -------------------------------------------------------------------------------------------------------

# Figures within a page: matplotlib's SVG made smaller, with the page's own font and colours.
#
# Colours become the page's variables, so that a figure follows it into the dark and onto paper.  Several figures
# share one page, so only the names that a figure refers to stay, each with the figure's own prefix.


VARIABLES = {
    INK: "--text",
    QUIET: "--quiet",
    GRID: "--grid",
    "#ffffff": "--card",
    **{color: f"--{name.replace('_', '-')}" for name, color in COLORS.items()},
}
"""The colours of `drawing`, and what they are called in the page's style."""

WIDE = 520.0
"""Points: a wider figure needs the whole width of the page."""

_TAG = re.compile(r"<[^>]+>")
_NUMBER = re.compile(r"-?\d+\.\d{3,}")
_REFERENCE = re.compile(r'url\(#([^)]+)\)|href="#([^"]+)"')


def width_of(svg: str) -> float:
    """Return the width of a figure in points."""
    found = re.search(r'viewBox="0 0 ([\d.]+) ', svg)
    if found is None:
        raise ValueError("This is no figure of matplotlib: its SVG has no viewBox that begins at 0 0.")
    return float(found[1])


def embed(svg: str, prefix: str, label: str) -> Markup:
    """Return the element for a page.

    Parameters
    ----------
    svg : str
        A whole file, as matplotlib writes it.
    prefix : str
        What sets its names apart from those of other figures.
    label : str
        What it shows, for those who do not see it.
    """
    from markupsafe import Markup, escape

    width_of(svg)
    text = svg[svg.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", text, flags=re.DOTALL)
    referred = {first or second for first, second in _REFERENCE.findall(text)}
    text = _TAG.sub(lambda tag: _tidy(tag[0], prefix, referred), text)
    text = re.sub(r">\s+<", "><", text).replace("<defs></defs>", "").strip()
    text = re.sub(r"<svg [^>]*?(viewBox=\"[^\"]+\")[^>]*>", r"<svg \1 LABEL>", text, count=1)
    return Markup(text.replace("LABEL", f'role="img" aria-label="{escape(label)}"', 1))


def _tidy(tag: str, prefix: str, referred: set[str]) -> str:
    """One tag with short numbers, our names, and no font and colours of its own."""

    def name(found: re.Match[str]) -> str:
        return f' id="{prefix}-{found[1]}"' if found[1] in referred else ""

    tag = " ".join(tag.split())
    tag = re.sub(r' id="([^"]*)"', name, tag)
    tag = _REFERENCE.sub(
        lambda found: f"url(#{prefix}-{found[1]})" if found[1] else f'href="#{prefix}-{found[2]}"', tag
    )
    tag = tag.replace("xlink:href", "href")
    tag = re.sub(r"font-family: [^;\"]*;? ?", "", tag)
    tag = re.sub(r' transform="rotate\(-?0 [^"]*"', "", tag)
    tag = _NUMBER.sub(lambda number: f"{float(number[0]):.2f}".rstrip("0").rstrip("."), tag)
    for color, variable in VARIABLES.items():
        tag = tag.replace(color, f"var({variable})")
    return tag
