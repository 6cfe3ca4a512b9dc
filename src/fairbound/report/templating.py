"""Templates of self-contained pages: the engine, resources, the content security policy, and parts of figures.

The template engine escapes text.  In addition, the policy of the page (a `meta` element) allows only scripts whose
digests it lists, and allows no loading.  So a script in a name that was not escaped could not run.
"""

from __future__ import annotations

import base64
import hashlib
import html
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
    """Return a remark at a vertical line (x) or a horizontal one (y), there at its left or its right end."""
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
