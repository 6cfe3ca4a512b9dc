"""Pictures as SVG: lines and marks on two axes.

Python places them, and the template draws them and escapes all text.  Colours are names in the style sheet, so that a
picture follows the light, the dark and the print style.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

SERIES = ("seriesa", "seriesb", "seriesc", "seriesd", "seriese", "seriesf")
DASHES = ("", "7 4", "2 3", "7 3 2 3", "12 4", "12 3 2 3")
SYMBOLS = {
    "circle": "M-5,0a5,5 0 1,0 10,0a5,5 0 1,0 -10,0z",
    "diamond": "M0,-6.5L6.5,0L0,6.5L-6.5,0z",
    "square": "M-4.5,-4.5h9v9h-9z",
    "triangle": "M0,-6L6,5h-12z",
    "plus": "M-1.7,-6h3.4v4.3h4.3v3.4h-4.3v4.3h-3.4v-4.3h-4.3v-3.4h4.3z",
    "bar": "M-6,-2.5h12v5h-12z",
    "cross": "M-5,-5L5,5M5,-5L-5,5",
}
LEFT, RIGHT, TOP, BOTTOM = 72, 14, 42, 50
"""The room around the axes."""

Value = float | None
Ends = tuple[Value, Value]


@dataclass(frozen=True)
class Scale:
    """One axis: its range, its title, the format of its numbers, and whether it counts powers of ten."""

    low: float
    high: float
    title: str = ""
    form: str = "g"
    log: bool = False

    @classmethod
    def around(cls, values: Iterable[Value], title: str = "", form: str = "g", room: float = 0.06) -> Scale:
        """Return the scale that has all values, and some room beyond them.

        >>> Scale.around([1e17]).ticks()[0] < 1e17
        True
        """
        known = [value for value in values if value is not None and math.isfinite(value)] or [0.0, 1.0]
        spare = room * (max(known) - min(known)) or 0.01 * max(1.0, abs(max(known)))
        return cls(min(known) - spare, max(known) + spare, title, form)

    @classmethod
    def powers(cls, values: Iterable[Value], title: str) -> Scale:
        """Return a logarithmic scale that has all positive values."""
        known = [math.log10(value) for value in values if value] or [0.0]
        low, high = math.floor(min(known) + 1e-9), math.ceil(max(known) - 1e-9)
        return cls(10.0**low, 10.0 ** max(high, low + 1), title, log=True)

    def share(self, value: float) -> float:
        """Return where on the axis a value is, from 0 to 1; values beyond an end are drawn there."""
        low, high = self.low, self.high
        if self.log:
            low, high, value = (math.log10(max(each, 1e-300)) for each in (low, high, value))
        return min(max((value - low) / (high - low), 0.0), 1.0)

    def ticks(self) -> list[float]:
        """Return round numbers on the axis.

        >>> Scale(0.78, 1.02).ticks(), Scale(1e-5, 1.0, log=True).ticks()
        ([0.8, 0.85, 0.9, 0.95, 1.0], [1e-05, 0.001, 0.1])
        """
        if self.log:
            low, high = round(math.log10(self.low)), round(math.log10(self.high))
            return [float(f"1e{power}") for power in range(low, high + 1, 1 + (high - low) // 5)]
        power = 10.0 ** math.floor(math.log10((self.high - self.low) / 4))
        step = next(each * power for each in (1, 2, 2.5, 5, 10) if (self.high - self.low) / (each * power) <= 5.5)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [float(f"{place * step:.10g}") for place in range(first, last + 1)]

    def text(self, value: float) -> str:
        """Return a value as the axis shows it."""
        return f"{value:{self.form}}"


class Mark(NamedTuple):
    """A mark in the coordinates of the picture, with the words that a pointer shows and the path of its interval."""

    x: float
    y: float
    tip: str
    hollow: bool
    whisker: str


@dataclass(frozen=True, kw_only=True)
class Series:
    """Points that belong together: a line, marks, or both.

    Attributes
    ----------
    name : str
        The words of the legend; without them it has no entry.
    x, y : sequence of numbers
        A point of which one is None is left out, and interrupts the line.
    color : str
        A colour of the style sheet.
    dash : str or None
        The dashes of the line; None without a line.
    symbol : str
        A name of `SYMBOLS`; empty without marks.
    hollow : sequence of bool
        Which marks are not filled; by default none.
    tips : sequence of str
    across, up : sequence of pairs
        The ends of the interval of each mark.
    shown : bool
        Whether it is visible before its name is clicked.
    """

    name: str = ""
    x: Sequence[Value]
    y: Sequence[Value]
    color: str
    dash: str | None = ""
    symbol: str = ""
    hollow: Sequence[bool] = ()
    tips: Sequence[str] = ()
    across: Sequence[Ends] = ()
    up: Sequence[Ends] = ()
    shown: bool = True

    @property
    def mark(self) -> str:
        """The path of its mark."""
        return SYMBOLS[self.symbol] if self.symbol else ""


@dataclass(frozen=True)
class Rule:
    """A line across the picture, at a value of one axis or, without any, the diagonal; and what it means."""

    text: str = ""
    x: Value = None
    y: Value = None
    dash: str = "6 4"


@dataclass(frozen=True)
class Chart:
    """Series on two axes, in a rectangle of the given size."""

    x: Scale
    y: Scale
    series: Sequence[Series]
    rules: Sequence[Rule] = ()
    width: int = 440
    height: int = 290
    chosen: int | None = None  # the place of the mark with a ring
    crowded: bool = field(default=False)  # only the chosen mark has its interval then

    @property
    def frame(self) -> tuple[int, int, int, int]:
        """The left, top, right and bottom of the axes."""
        return LEFT, TOP, self.width - RIGHT, self.height - BOTTOM

    def across(self, value: float) -> float:
        """Return the horizontal place of a value."""
        left, _, right, _ = self.frame
        return round(left + (right - left) * self.x.share(value), 1)

    def up(self, value: float) -> float:
        """Return the vertical place of a value."""
        _, top, _, bottom = self.frame
        return round(bottom - (bottom - top) * self.y.share(value), 1)

    def lines(self, series: Series) -> Iterator[str]:
        """Yield the pieces of a line."""
        piece: list[str] = []
        for x, y in (*zip(series.x, series.y, strict=True), (None, None)) if series.dash is not None else ():
            if x is not None and y is not None and math.isfinite(y):
                piece.append(f"{self.across(x)},{self.up(y)}")
            elif piece:
                yield " ".join(piece)
                piece = []

    def marks(self, series: Series) -> Iterator[Mark | None]:
        """Yield the marks; None for a point that is left out."""
        for place, (x, y) in enumerate(zip(series.x, series.y, strict=True)) if series.symbol else ():
            if x is None or y is None or not math.isfinite(y):
                yield None
                continue
            across, up = self.across(x), self.up(y)
            ends = [
                f"M{round(self.across(low) - across, 1)},0H{round(self.across(high) - across, 1)}"
                for low, high in series.across[place : place + 1]
                if low is not None and high is not None
            ]
            ends += [
                f"M0,{round(self.up(low) - up, 1)}V{round(self.up(high) - up, 1)}"
                for low, high in series.up[place : place + 1]
                if low is not None and high is not None
            ]
            tip = series.tips[place] if series.tips else ""
            yield Mark(across, up, tip, bool(series.hollow) and series.hollow[place], "".join(ends))
