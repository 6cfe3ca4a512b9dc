"""Templates of self-contained pages and of the model card: the engines, resources, the content security policy.

The template engine escapes text.  In addition, the policy of the page (a `meta` element) allows only scripts whose
digests it lists, and loads nothing.  So even if a name with a script were not escaped, the script could not run.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any

from fairbound._errors import missing_extra
from fairbound._escapes import visible
from fairbound._words import as_level, count, group_text, p_text
from fairbound.report import numbers, words

PACKAGE = "fairbound.report"
TEMPLATES = resources.files(PACKAGE) / "templates"


class RawHtml(str):
    """Text that is HTML already."""

    def __html__(self) -> str:  # asked for by the template engine
        return str(self)


@cache
def environment(package: str) -> Any:
    """Return the template engine for a package's folder `templates`; its pages may extend base.html of the report."""
    import jinja2

    return jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader(each) for each in dict.fromkeys((package, PACKAGE))]),
        autoescape=True,
        finalize=_harmless,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def template_engine(*, markdown: bool = False) -> Any:
    """Return the engine with filters for numbers, limits and verdicts, for pages or for Markdown."""
    engine = environment(PACKAGE)
    if markdown:
        from markupsafe import Markup

        def written(value: Any) -> Any:
            return value if isinstance(value, Markup) else Markup(escaped(value))

        engine = engine.overlay(finalize=written)
        engine.filters = {**engine.filters, "code": lambda text: Markup(f"`{_code(text)}`")}
    names = (
        "about",
        "accuracy",
        "beside",
        "estimate",
        "fixed",
        "interval",
        "percent",
        "points",
        "rate",
        "short",
        "signed",
    )
    engine.filters |= {name: getattr(numbers, name) for name in (*names, "significant", "words")}
    engine.filters |= {"count": count, "sure": as_level, "limit": words.limit_in_words, "group": group_text}
    engine.filters |= {
        "p": p_text,
        "bounds": words.bounds_in_words,
        "pair": words.pair_in_words,
        "sentence": words.sentence,
    }
    engine.filters |= {"tone": lambda verdict: words.VERDICT_TONES.get(verdict, "plain")}
    engine.globals |= {"SIGNS": words.SIGNS, "percents": numbers.percent}
    return engine


def render_card(template: str, **context: Any) -> str:
    """Return a page in Markdown."""
    try:
        engine = template_engine(markdown=True)
    except ImportError as error:
        raise missing_extra("The model card needs", str(error.name), "cli") from None
    text = str(engine.get_template(template).render(**context))
    return re.sub(r"\n{3,}", "\n\n", re.sub(r" +\n", "\n", text)).strip() + "\n"


def escaped(text: object) -> str:
    r"""Escape Markdown, HTML and addresses in a text.

    >>> print(escaped("<b>a|b</b> *c*"))
    &lt;b&gt;a\|b&lt;/b&gt; \*c\*
    """
    flat = re.sub(r"([\\`*_\[\]|~!#$])", r"\\\1", _flat(text).replace("&", "&amp;"))
    for mark, entity in (("<", "&lt;"), (">", "&gt;"), ("://", "&#58;//"), ("www.", "www&#46;"), ("@", "&#64;")):
        flat = flat.replace(mark, entity)
    return flat


def _code(text: object) -> str:
    """Return text for a code span, without backticks, which would end it."""
    return _flat(text).replace("`", "'").replace("|", "\\|")


def _flat(text: object) -> str:
    """Return text on one line, without invisible characters."""
    return visible(" ".join(str(text).split()))


def render_page(
    template: str,
    *,
    what: str,
    styles: Sequence[str] = (),
    scripted: bool = True,
    **context: Any,
) -> str:
    """Return a page of this package.

    Parameters
    ----------
    template : str
        A file of the folder `templates`, which extends base.html.
    what : str
        The page in words, for the message if jinja2 is not installed.
    styles : sequence of str
        Style sheets besides page.css.
    scripted : bool
        Whether the page has pictures or a slider, which use its script.
    **context
        The variables of the template.
    """
    try:
        import jinja2  # noqa: F401 - named where it is missing
        from markupsafe import Markup
    except ImportError as error:
        raise missing_extra(f"{what} needs", str(error.name), "cli") from None
    return (
        template_engine()
        .get_template(template)
        .render(
            **context,
            policy=policy(scripts := [resource("page.js")] if scripted else []),
            scripts=list(map(Markup, scripts)),
            style=Markup("".join(map(resource, ("page.css", *styles)))),
        )
    )


def _harmless(value: Any) -> Any:
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
