"""Figures within a page: matplotlib's SVG made smaller, with the page's own font and colours.

Colours become the page's variables, so that a figure follows it into the dark and onto paper.  Several figures share
one page, so only the names that a figure refers to stay, each with the figure's own prefix.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fairbound.experiments.drawing import COLORS, GRID, INK, QUIET

if TYPE_CHECKING:
    from markupsafe import Markup

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
