"""The page of a monitor: for each limit the evidence against it over the rows counted, and its requirements."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fairbound._words import count
from fairbound.report import numbers
from fairbound.report.figures import evidence_picture
from fairbound.report.templating import render_page

RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def monitor_to_html(monitor: Mapping[str, Any], *, title: str = "Limits after release") -> str:
    """Return the page of a monitor.

    Parameters
    ----------
    monitor : dict
        As `fairbound.Monitor.to_dict()` makes it.
    title : str

    Raises
    ------
    ImportError
        If jinja2 is not installed.
    """
    limits = [
        {
            **limit,
            "evidence": _evidence(limit["log10_evidence"]),
            "picture": evidence_picture(monitor["history"], place, monitor["threshold"], limit["alarm"]),
            "lines": [_line(each) for each in _by_evidence(limit["requirements"])],
        }
        for place, limit in enumerate(monitor["limits"])
    ]
    return render_page(
        "monitor.html",
        what="The HTML page of a monitor",
        styles=("audit.css",),
        scripted=False,
        monitor=monitor,
        title=title,
        limits=limits,
        needed=_evidence(math.log10(monitor["threshold"])),
    )


MOST_LINES = 50


def _by_evidence(requirements: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the requirements most in doubt: by the evidence against them, then by their margins."""

    def doubt(each: Mapping[str, Any]) -> tuple[float, float]:
        margin = each.get("margin")  # pages of earlier versions have none
        return min(-each["log_evidence"], 0.0), math.inf if margin is None else margin

    return sorted(requirements, key=doubt)[:MOST_LINES]


def _line(found: Mapping[str, Any]) -> dict[str, str]:
    def rates(values: Sequence[float | None]) -> str:
        return ", ".join("–" if value is None else numbers.rate(value) for value in values)

    return {
        "text": found["text"],
        "evidence": _evidence(found["log_evidence"] / math.log(10.0)),
        "rates": rates(found["rates"]),
        "recent": rates(found["recent"]),
        "rows": ", ".join(count(rows) for rows in found["rows"]),
    }


def _evidence(power: float) -> str:
    """Return evidence in few digits, from its decimal logarithm.

    >>> _evidence(0.5), _evidence(5.0), _evidence(12.3), _evidence(-4.0)
    ('3.16', '100,000', '2.0 × 10¹²', '1.0 × 10⁻⁴')
    """
    if -2.0 <= power < 4.0:
        return f"{10.0**power:.2f}".removesuffix(".00")
    if 4.0 <= power < 7.0:
        return f"{10.0**power:,.0f}"
    whole = math.floor(power)
    return f"{10.0 ** (power - whole):.1f} × 10{str(whole).translate(RAISED)}"
