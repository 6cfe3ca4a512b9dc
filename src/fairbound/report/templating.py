"""Templates of self-contained pages: the engine, resources, and the content security policy.

Text is escaped by the template engine.  Beside that, the page's own policy (a `meta` element) lets only the scripts run
whose digests it lists, and lets nothing be loaded: a name that slipped through could do nothing.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any

from fairbound._text import visible


@cache
def environment(package: str) -> Any:
    """Return the template engine for a package's folder `templates`; it compiles each template once."""
    import jinja2

    return jinja2.Environment(
        loader=jinja2.PackageLoader(package),
        autoescape=True,
        finalize=_shown,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _shown(value: Any) -> Any:
    """Return the text that a template prints, with control characters as escapes."""
    return visible(value, keep="\n\t") if type(value) is str else value


def resource(name: str, package: str = "fairbound.report") -> str:
    """Return the text of a file in a package's folder `templates`."""
    return (resources.files(package) / "templates" / name).read_text(encoding="utf-8")


def policy(scripts: Sequence[str]) -> str:
    """Return the policy of a page that runs these scripts and loads nothing."""
    digests = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"
    return f"default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:; script-src {allowed}"
