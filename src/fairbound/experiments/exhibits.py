"""The parts of an exhibit: figures in one style, also as elements of a page, and tables.

matplotlib's global state is not used, so that the user's own settings stay unchanged.  Tables are written as CSV with
exact numbers, or as Markdown and HTML with rounded ones.
"""

from __future__ import annotations

import csv
import io
import math
import re
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairbound._errors import missing_extra
from fairbound._files import write_file
from fairbound._words import for_spreadsheet, visible

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLORS = {"smoothed_step": "#0b6e99", "sigmoid": "#c1541d", "covariance": "#5c7a29"}
"""Colours that colour-blind readers can distinguish, and that differ in lightness in print."""

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
    """Apply the style to all drawing inside this context, and nowhere else."""
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise missing_extra("The figures need", "matplotlib", "paper") from error
    with mpl.rc_context(STYLE):
        yield


def panels(
    title: str, columns: int, rows: int = 1, *, width: float = 3.1, height: float = 2.7, share_rows: bool = True
) -> tuple[Figure, list[Axes]]:
    """Return a figure with a title and a grid of panels, row by row; the panels of a row share a vertical scale."""
    from matplotlib.figure import Figure

    # 0.6 inches for the title above the panels and the legend below them.
    figure = Figure(figsize=(width * columns, height * rows + 0.6), layout="constrained")
    # One inch holds about eleven letters of the title.
    lines = textwrap.fill(title, int(11 * width * columns))
    figure.suptitle(lines, x=0.01, ha="left", fontsize=10.5, fontweight="bold")
    grid = figure.subplots(rows, columns, squeeze=False, sharey="row" if share_rows else False)
    return figure, [axes for row in grid for axes in row]


def legend(figure: Figure, *axes: Axes) -> None:
    """Draw one legend below all panels, with each label once."""
    found: dict[str, Any] = {}
    for each in axes:
        for handle, label in zip(*each.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    # Width of the widest entry in inches: 0.6 for its line and gaps, and an average width per letter.
    entry = 0.6 + 0.062 * max(map(len, found))
    columns = max(1, min(len(found), int(figure.get_figwidth() / entry)))
    # Rows of equal length where possible: six entries in rows of at most five become three and three.
    columns = -(-len(found) // -(-len(found) // columns))
    figure.legend(list(found.values()), list(found), loc="outside lower center", ncols=columns)


def missed(axes: Axes, low: float, high: float) -> None:
    """Shade the area in which an achieved ratio is below the demanded one."""
    axes.plot([low, high], [low, high], color=QUIET, linewidth=1, linestyle=":")
    axes.fill_between(
        [low, high], [0, 0], [low, high], color=QUIET, alpha=0.13, linewidth=0, label="short of the limit"
    )


def decades(axes: Axes) -> None:
    """Use a logarithmic horizontal scale, from loose on the left to strict on the right."""
    from matplotlib.ticker import LogLocator

    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(numticks=12))
    axes.xaxis.set_major_formatter(lambda value, _: _power(value))
    axes.minorticks_off()
    axes.invert_xaxis()


def _power(value: float) -> str:
    """Return a power of ten in plain characters, which every font has.

    >>> _power(0.001), _power(100.0), _power(1.0)
    ('10⁻³', '10²', '1')
    """
    exponent = round(math.log10(value))
    if exponent == 0:
        return "1"
    return "10" + str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def mark_printed(axes: Axes, x: float, y: float, *, label: str | None = None) -> None:
    """Mark a value that the paper prints."""
    axes.plot([x], [y], marker="x", color=INK, linestyle="none", markersize=7, label=label, zorder=5)


def save(figure: Figure, path: Path) -> list[Path]:
    """Write the figure as PNG and SVG, with the same bytes every time; return their paths."""
    options: dict[str, dict[str, Any]] = {
        "png": {"dpi": 130, "metadata": {"Software": None}},
        "svg": {"metadata": {"Date": None, "Creator": None}},
    }
    for form, chosen in options.items():
        drawn = io.BytesIO()
        figure.savefig(drawn, format=form, **chosen)
        write_file(path.with_suffix(f".{form}"), drawn.getvalue())
    return [path.with_suffix(f".{form}") for form in options]


# --- figures within a page -------------------------------------------------------------------------------------------

# A page contains matplotlib's SVG, made smaller, with the font and colours of the page.
#
# Colours become CSS variables, so that a figure follows the page's dark mode and print style.  Several figures share
# one page.  So an id is removed unless the figure refers to it, and the others get a prefix of the figure.


VARIABLES = {
    INK: "--text",
    QUIET: "--quiet",
    GRID: "--grid",
    "#ffffff": "--card",
    **{color: f"--{name.replace('_', '-')}" for name, color in COLORS.items()},
}
"""The colours above, and their names in the style sheet of the page."""

WIDE = 520.0
"""A figure wider than this, in points, takes the whole width of the page."""

_TAG = re.compile(r"<[^>]+>")
_NUMBER = re.compile(r"-?\d+\.\d{3,}")
_REFERENCE = re.compile(r'url\(#([^)]+)\)|href="#([^"]+)"')


def width_of(svg: str) -> float:
    """Return the width of a figure in points."""
    found = re.search(r'viewBox="0 0 ([\d.]+) ', svg)
    if found is None:
        raise ValueError("The SVG is not a figure of matplotlib: it has no viewBox that begins at 0 0.")
    return float(found[1])


def embed(svg: str, prefix: str, label: str) -> Markup:
    """Return the SVG element for a page.

    Parameters
    ----------
    svg : str
        The content of an SVG file from matplotlib.
    prefix : str
        The prefix of its ids, different for every figure of a page.
    label : str
        A description for screen readers.
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
    """Return a tag with rounded numbers, prefixed ids, CSS variables for colours, and no font of its own."""

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


# --- tables -----------------------------------------------------------------------------------------------------------

Value = str | float | int | bool | None


@dataclass(frozen=True)
class Column:
    """A heading, and the format specification of its numbers, such as ".2f"."""

    heading: str
    form: str = ""

    def write(self, value: Value) -> str:
        """Return a value as text; empty for None."""
        if value is None:
            return ""
        if isinstance(value, bool):
            return "yes" if value else "no"
        return value if isinstance(value, str) else format(value, self.form)


Columns = Sequence[Column | str]


@dataclass(frozen=True)
class ResultTable:
    """A title, columns and rows of plain values."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Value, ...], ...]

    @classmethod
    def build(cls, title: str, columns: Columns, rows: Sequence[Sequence[Value]]) -> ResultTable:
        """Build a table.  A column of text may be given by its heading alone."""
        made = tuple(Column(column) if isinstance(column, str) else column for column in columns)
        for row in rows:
            if len(row) != len(made):
                raise ValueError(f"{title}: a row has {len(row)} values for {len(made)} columns.")
        return cls(title, made, tuple(map(tuple, rows)))

    def written(self) -> list[list[str]]:
        """Return the rows as text."""
        return [[column.write(value) for column, value in zip(self.columns, row, strict=True)] for row in self.rows]

    def to_csv(self, *, exact: bool = False) -> str:
        """Return headings and values at full precision.

        Unless `exact`, text that a spreadsheet would run as a formula is escaped.
        """
        cell = (lambda value: value) if exact else for_spreadsheet
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([cell(column.heading) for column in self.columns])
        writer.writerows([["" if value is None else cell(value) for value in row] for row in self.rows])
        return text.getvalue()

    def to_markdown(self) -> str:
        """Return a Markdown table with numbers aligned to the right."""
        lines = [
            [column.heading for column in self.columns],
            ["---:" if column.form else "---" for column in self.columns],
            *self.written(),
        ]
        return (
            "\n".join("| " + " | ".join(visible(cell).replace("|", r"\|") for cell in line) + " |" for line in lines)
            + "\n"
        )
