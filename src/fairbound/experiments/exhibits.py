"""The parts of an exhibit: figures in one style, and tables, written as CSV with exact numbers or as Markdown.

matplotlib's global state is not used, so that the user's own settings stay unchanged.
"""

from __future__ import annotations

import csv
import io
import math
import textwrap
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from fairbound._errors import missing_extra
from fairbound._escapes import for_spreadsheet, visible
from fairbound._files import write_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLORS = {"smoothed_step": "#0b6e99", "sigmoid": "#c1541d", "covariance": "#5c7a29"}
"""Colours that colour-blind readers can distinguish, and that differ in lightness in print."""

INK, QUIET, GRID = "#1f2933", "#7b8794", "#e4e7eb"

HOLLOW: dict[str, Any] = {"color": QUIET, "markersize": 8, "fillstyle": "none"}
"""Larger hollow marks, so that both are visible where they coincide with others."""


@contextmanager
def style() -> Iterator[None]:
    """Apply the style to all drawing inside this context, and nowhere else."""
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise missing_extra("The figures need", "matplotlib", "paper") from error
    with as_file(files("fairbound.experiments") / "templates" / "figures.mplstyle") as path, mpl.rc_context(fname=path):
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
    label = "short of the limit"
    axes.fill_between([low, high], [0, 0], [low, high], color=QUIET, alpha=0.13, linewidth=0, label=label)


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
    return "10" + str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")) if exponent else "1"


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


Value = str | float | int | bool | None
Row = TypeVar("Row")


@dataclass(frozen=True)
class ResultTable:
    """A title, headings, the format of each column's numbers (such as ".2f"; empty for text), and rows of values."""

    title: str
    headings: tuple[str, ...]
    forms: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]

    def column(self, heading: str) -> list[Any]:
        """Return the values of a column."""
        return [row[self.headings.index(heading)] for row in self.rows]

    def written(self) -> list[list[str]]:
        """Return the rows as text."""
        return [[_written(*cell) for cell in zip(row, self.forms, strict=True)] for row in self.rows]

    def to_csv(self, *, exact: bool = False) -> str:
        """Return headings and values at full precision.

        Unless `exact`, text that a spreadsheet would run as a formula is escaped.
        """
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        for row in (self.headings, *self.rows):
            writer.writerow(["" if value is None else value if exact else for_spreadsheet(value) for value in row])
        return text.getvalue()

    def to_markdown(self) -> str:
        """Return a Markdown table with numbers aligned to the right."""
        lines = [self.headings, ["---:" if form else "---" for form in self.forms], *self.written()]
        return "".join("| " + " | ".join(visible(c).replace("|", r"\|") for c in line) + " |\n" for line in lines)


def _written(value: Value, form: str) -> str:
    if value is None or isinstance(value, bool):
        return {None: "", True: "yes", False: "no"}[value]
    return value if isinstance(value, str) else format(value, form)


def table(title: str, rows: Iterable[Row], *columns: tuple[str, str, Callable[[Row], Value]]) -> ResultTable:
    """Build a table from rows of any kind, and columns: a heading, the format of numbers, and a function of a row."""
    headings, forms, values = zip(*columns, strict=True)
    return ResultTable(title, headings, forms, tuple(tuple(value(row) for value in values) for row in rows))
