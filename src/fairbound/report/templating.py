"""Templates of self-contained pages: the engine, resources, the content security policy; and their figures.

The template engine escapes text.  In addition, the policy of the page (a `meta` element) allows only scripts whose
digests it lists, and loads nothing.  So even if a name with a script were not escaped, the script could not run.
"""

from __future__ import annotations

import base64
import hashlib
import html
import math
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any

from fairbound._errors import missing_extra
from fairbound._words import count, percent, visible
from fairbound.report import numbers, words

Figure = dict[str, Any]
PACKAGE = "fairbound.report"


@cache
def environment(package: str) -> Any:
    """Return the template engine for a package's folder `templates`; its pages may extend base.html of the report."""
    import jinja2

    return jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader(each) for each in dict.fromkeys((package, PACKAGE))]),
        autoescape=True,
        finalize=_shown,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def template_engine() -> Any:
    """Return the template engine with filters for numbers and limits."""
    engine = environment(PACKAGE)
    names = ("beside", "interval", "percent", "rate", "short", "signed", "significant", "words")
    engine.filters |= {name: getattr(numbers, name) for name in names}
    engine.filters |= {"count": count, "sure": percent, "limit": words.limit_in_words}
    return engine


def render_page(
    template: str,
    *,
    what: str,
    figures: Mapping[str, Figure] | None = None,
    styles: Sequence[str] = (),
    scripted: bool = False,
    **context: Any,
) -> str:
    """Return a page of this package.

    Parameters
    ----------
    template : str
        A file of the folder `templates`, which extends base.html.
    what : str
        The page in words, for the message if jinja2 or plotly is not installed.
    figures : mapping of str to figure, optional
        By the id of the element that each is drawn in.
    styles : sequence of str
        Style sheets besides page.css.
    scripted : bool
        Whether the page needs its script even without figures.
    **context
        The variables of the template.
    """
    try:
        import jinja2  # noqa: F401 - named where it is missing
        from markupsafe import Markup

        scripts = [resource("page.js")] if figures or scripted else []
        if figures:
            from plotly.offline import get_plotlyjs

            scripts.insert(0, get_plotlyjs())
    except ImportError as error:
        raise missing_extra(f"{what} needs", str(error.name), "cli") from None
    return (
        template_engine()
        .get_template(template)
        .render(
            **context,
            figures=figures or {},
            policy=policy(scripts),
            scripts=[Markup(script) for script in scripts],
            style=Markup("".join(map(resource, ("page.css", *styles)))),
        )
    )


def _shown(value: Any) -> Any:
    """Return the text that a template prints, with control characters as escapes."""
    return visible(value, keep="\n\t") if type(value) is str else value


def resource(name: str, package: str = PACKAGE) -> str:
    """Return the text of a file in a package's folder `templates`."""
    return (resources.files(package) / "templates" / name).read_text(encoding="utf-8")


def policy(scripts: Sequence[str]) -> str:
    """Return the policy of a page that runs these scripts and loads nothing."""
    digests = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"
    return f"default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:; script-src {allowed}"


# --- figures ---------------------------------------------------------------------------------------------------------

# Functions that the interactive figures share; they return plain descriptions for plotly.js.
#
# Colours are names of the page's style, "var(--after)".  The page's script fills them in, so that a figure follows
# light, dark and print styles.  Text is escaped before it goes in, because plotly.js reads tags in it.


AXIS: Figure = {
    "gridcolor": "var(--grid)",
    "zeroline": False,
    "linecolor": "var(--line)",
    "ticks": "outside",
    "automargin": True,
}


def base(height: int) -> Figure:
    """Return the layout of a figure of the given height."""
    return {
        "height": height,
        "margin": {"l": 64, "r": 16, "t": 36, "b": 52},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": "var(--text)", "size": 12, "family": "var(--font)"},
        "legend": {"orientation": "h", "x": 0, "y": 1.04, "yanchor": "bottom", "bgcolor": "rgba(0,0,0,0)"},
        "hoverlabel": {"bgcolor": "var(--card)", "bordercolor": "var(--line)", "font": {"color": "var(--text)"}},
        "dragmode": False,
    }


def line(*, x: float | None = None, y: float | None = None, dash: str) -> Figure:
    """Return a line across the whole figure."""
    along = {"xref": "x", "yref": "paper", "x0": x, "x1": x, "y0": 0, "y1": 1}
    if y is not None:
        along = {"xref": "paper", "yref": "y", "x0": 0, "x1": 1, "y0": y, "y1": y}
    return {"type": "line", **along, "line": {"color": "var(--muted)", "width": 1.2, "dash": dash}}


def note(text: str, *, x: float | None = None, y: float | None = None, side: str, at_end: bool = False) -> Figure:
    """Return a remark at a vertical line (x), or at the left or right end of a horizontal one (y)."""
    where = {"xref": "x", "yref": "paper", "x": x, "y": 0.0, "xanchor": "right", "yanchor": "bottom", "textangle": -90}
    if side == "y":
        where = {"xref": "paper", "yref": "y", "y": y, "yanchor": "bottom", **_end(at_end)}
    return {**where, "text": text, "showarrow": False, "font": {"size": 11, "color": "var(--muted)"}}


def _end(right: bool) -> Figure:
    return {"x": 1.0, "xanchor": "right"} if right else {"x": 0.0, "xanchor": "left"}


def digits(value: float | None) -> float | None:
    """Round to six significant digits: more than a figure shows, and the file stays small."""
    return None if value is None else float(f"{value:.6g}")


def escaped(text: str) -> str:
    """Escape text for plotly.js, which reads tags."""
    return html.escape(visible(text), quote=False)


# --- the history of training -----------------------------------------------------------------------------------------

# A figure, and a line for each phase; a long history is thinned.

History = Sequence[Mapping[str, Any]]

LOWEST = 1e-5
"""Smaller violations are drawn at this value, because a logarithmic axis has no zero."""

TITLES = {"y": "loss", "y2": "violation", "y3": "step length"}
"""The panels from the top, by axis; a panel without a line is left out."""

MOST_ROWS = 1000
"""Largest number of rows of the history on a page; a longer history is thinned evenly.  The JSON has all rows."""


def history_figure(history: History) -> Figure:
    """Return a figure of loss, violations and step length over the iterations."""
    steps = [row["step"] for row in history]
    lines = [
        ("loss", "loss", "y", "var(--text)", "solid"),
        ("error", "smoothed share of wrong decisions", "y", "var(--text)", "dot"),
        ("surrogate_violation", "violation by surrogate", "y2", "var(--before)", "dot"),
        ("exact_violation", "violation by decisions", "y2", "var(--after)", "solid"),
        ("step_length", "step length", "y3", "var(--faint)", "solid"),
    ]
    few = len(history) <= 120
    traces: list[Figure] = []
    for key, name, axis, colour, dash in lines:
        values = [digits(row[key]) for row in history]
        if key == "step_length":  # the last row of a solve has no step
            values = [value or None for value in values]
        if all(value is None for value in values):
            continue
        drawn = [None if value is None else max(value, LOWEST) for value in values] if axis != "y" else values
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers" if few else "lines",
                "name": name,
                "x": steps,
                "y": drawn,
                "customdata": [numbers.significant(value) for value in values],
                "text": [escaped(_state(row)) for row in history],
                "hovertemplate": "iteration %{x}%{text}<br>" + name + " %{customdata}<extra></extra>",
                "xaxis": "x",
                "yaxis": axis,
                "line": {"color": colour, "width": 1.8, "dash": dash},
                "marker": {"color": colour, "size": 5},
            }
        )
    bands, names = _phases(history)
    panels = [axis for axis in TITLES if any(trace["yaxis"] == axis for trace in traces)]
    return {
        "data": traces,
        "layout": {
            **base(80 + 180 * len(panels)),
            "xaxis": {
                **AXIS,
                "title": {"text": "iteration"},
                "anchor": panels[-1] if panels else "y",
                "range": [steps[0] - 0.5, steps[-1] + 0.5],
            },
            **{
                axis.replace("y", "yaxis"): _panel(axis, place, len(panels), traces)
                for place, axis in enumerate(panels)
            },
            "shapes": bands,
            "annotations": names,
            "hovermode": "closest",
        },
    }


def _panel(axis: str, place: int, count: int, traces: Sequence[Figure]) -> Figure:
    """Return the axis of one of `count` panels, from the top."""
    gap = 0.08
    height = (1.0 - gap * (count - 1)) / count
    top = 1.0 - place * (height + gap)
    found = {**AXIS, "title": {"text": TITLES[axis]}, "domain": [max(top - height, 0.0), top]}
    if axis == "y":
        return found
    return {**found, "type": "log", "tickformat": "~g", "dtick": 1, "range": _decades(traces, axis)}


def _state(row: Mapping[str, Any]) -> str:
    said = [f"phase {row['phase']}"] if row["phase"] else []
    said += [flag.replace("_", " ") for flag in row["flags"]]
    if row["kept"] is not None:
        said.append("limits kept" if row["kept"] else "limits not kept")
    return f" ({', '.join(said)})" if said else ""


def _decades(traces: Sequence[Figure], axis: str) -> list[float]:
    """Return the range of a logarithmic axis, in exponents."""
    known = [value for trace in traces if trace["yaxis"] == axis for value in trace["y"] if value] or [LOWEST, 1.0]
    return [math.floor(math.log10(min(known)) + 1e-9) - 0.25, math.ceil(math.log10(max(known)) - 1e-9) + 0.25]


def _phases(history: History) -> tuple[list[Figure], list[Figure]]:
    bands, names = [], []
    if {row["phase"] for row in history} == {None}:
        return [], []
    for number, (name, first, last) in enumerate(phases(history)):
        start, stop = history[first]["step"] - 0.5, history[last]["step"] + 0.5
        if number % 2:
            bands.append(
                {
                    "type": "rect",
                    "xref": "x",
                    "yref": "paper",
                    "x0": start,
                    "x1": stop,
                    "y0": 0,
                    "y1": 1,
                    "fillcolor": "var(--band)",
                    "line": {"width": 0},
                    "layer": "below",
                }
            )
        if stop - start >= 0.05 * len(history):
            note = {"xref": "x", "yref": "paper", "x": 0.5 * (start + stop), "y": 1.0, "yanchor": "bottom"}
            names.append({**note, "text": escaped(name[:12]), "showarrow": False, "font": {"size": 11}})
    return bands, names


def phases(history: History) -> list[tuple[str, int, int]]:
    """Return the phases in order, each with the positions of its first and last row."""
    found: list[tuple[str, int, int]] = []
    for place, row in enumerate(history):
        name = row["phase"] or ""
        if found and found[-1][0] == name:
            found[-1] = (name, found[-1][1], place)
        else:
            found.append((name, place, place))
    return found


def thinned(history: History, most: int = MOST_ROWS) -> list[Mapping[str, Any]]:
    """Return at most `most` rows, evenly spaced, including the first and the last.

    >>> [row["step"] for row in thinned([{"step": step} for step in range(10)], most=4)]
    [0, 3, 6, 9]
    """
    if len(history) <= most:
        return list(history)
    return [history[round(place * (len(history) - 1) / (most - 1))] for place in range(most)]


def phase_lines(history: History, does: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return a line for each phase: what it does, its iterations, and loss and violation at its start and end."""
    lines = []
    for name, first, last in phases(history):
        rows = history[first : last + 1]
        violation = rows[-1]["exact_violation"]
        lines.append(
            {
                "name": name,
                "does": does.get(name, ""),
                "iterations": rows[-1]["step"] - rows[0]["step"] + 1,
                "first": rows[0]["loss"],
                "last": rows[-1]["loss"],
                "violation": rows[-1]["surrogate_violation"] if violation is None else violation,
            }
        )
    return lines
