"""The report as one HTML file, which loads nothing from a network; the check of its summary; limits and caveats.

`fairbound.studies` makes the summary, a dictionary, and docs/report.md documents it.  Reports use nothing else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairbound._files import UnfitFileError, read_json
from fairbound._words import count, group_text
from fairbound.report import numbers, words
from fairbound.report.audit import score_views, significance_tables
from fairbound.report.numbers import reproduction_lines
from fairbound.report.tables import count_tables, model_view, rate_tables
from fairbound.report.templating import history_figure, phase_lines, render_page, thinned
from fairbound.report.tradeoff import tradeoff
from fairbound.report.words import SIGNS, VERDICT_TONES, Tone, bounds_in_words, pair_in_words, sentence


def to_html(summary: Mapping[str, Any]) -> str:
    """Return the report of a summary.

    Parameters
    ----------
    summary : dict
        As `fairbound.studies.summarize` makes it, or `read_summary` reads it.

    Raises
    ------
    ImportError
        If jinja2 or plotly is not installed.
    """
    check_summary(summary)
    return render_page("page.html", what="The HTML report", scripted=True, **page_context(summary))


def page_context(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variables of the template, in the order of the page."""
    verdict, *answers = words.answers(summary)
    main, main_rows = words.main_part(summary)
    names = dict(zip(summary["classes"], summary["class_names"], strict=True))
    history = thinned(summary["run"]["history"]) if summary["run"] else []
    found = tradeoff(summary, names) if summary["frontier"] else None
    scores = score_views(main["after"])
    return {
        "summary": summary,
        "created": day(summary["reproduction"].get("created")),
        "verdict": verdict,
        "conflicts": words.conflicts(summary),
        "answers": answers,
        "limits": limit_tables(summary),
        "main": main,
        "main_rows": main_rows,
        "parts": [_part(name, part, names) for name, part in _shown(summary)],
        "scores": scores,
        "unasked": words.unasked(summary),
        "sizes": _sizes(summary),
        "certificates": certificates(summary),
        "trials": trial_lines(summary),
        "tradeoff": found,
        "history": history,
        "phases": phase_lines(history, (summary["run"] or {}).get("phases", {})),
        "figures": {
            **{name: figure for view in scores for name, (_, _, figure) in view.figures.items()},
            **({"frontier": found.figure} if found else {}),
            **({"history": history_figure(history)} if history else {}),
        },
        "caveats": caveats(summary),
        "remarks": remarks(summary),
        "most_remarks": MOST_REMARKS,
        "model": model_view(summary.get("model"), names),
        "reproduction": reproduction_lines(summary["reproduction"]),
    }


def day(created: object) -> str:
    """Return the day of a time in the form of ISO 8601; any other text as it is.

    >>> day("2026-01-31T12:00:00+00:00"), day("last week"), day(None)
    ('2026-01-31', 'last week', '')
    """
    text = "" if created is None else str(created)
    return text[:10] if re.match(r"\d{4}-\d\d-\d\dT", text) else text


def _shown(summary: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the parts, held-out rows first."""
    parts = [("held-out", summary["parts"]["held_out"]), ("training", summary["parts"]["training"])]
    return [(name, part) for name, part in parts if part is not None]


def _sizes(summary: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Return the number of rows of each part, in the order of their use."""
    parts = {
        "training": summary["parts"]["training"],
        "calibration": summary["calibration"],
        "held-out": summary["parts"]["held_out"],
    }
    return [(name, part["rows"]) for name, part in parts.items() if part is not None]


def _part(name: str, part: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    audits = {"before": part["before"], "after": part["after"]}
    return {
        "name": name,
        "rows": part["rows"],
        "rates": rate_tables(audits, names, with_interval=name == "held-out"),
        "counts": count_tables(audits, names),
        "tests": significance_tables(part["after"]) if name == "held-out" else [],
        "weighted": part["after"]["weighted"],
    }


# --- the summary ------------------------------------------------------------------------------------------------------

SCHEMA = "fairbound.summary"
VERSION = 1
LARGEST = 2**28
"""Largest size of a summary.json in bytes.  Those of real runs have less than a million."""
KEYS = (
    "title",
    "target",
    "classes",
    "class_names",
    "confidence",
    "limits",
    "parts",
    "changes",
    "run",
    "frontier",
    "calibration",
    "reproduction",
    "notes",
)
FURTHER = ("model",)
"""Keys that summaries of earlier versions lack."""


def check_summary(summary: Mapping[str, Any]) -> None:
    """Raise an error unless this is a summary of the version that this package reads."""
    if not isinstance(summary, Mapping) or summary.get("schema") != SCHEMA:
        found = summary.get("schema") if isinstance(summary, Mapping) else type(summary).__name__
        raise ValueError(f"This is not a summary: its schema is {found!r}, not {SCHEMA!r}. Make one with summarize().")
    if summary.get("version") != VERSION:
        raise ValueError(
            f"The summary has version {summary.get('version')!r}, but this fairbound reads version {VERSION}: "
            "make the report with the version of fairbound that made the summary, or run again."
        )
    missing = [key for key in KEYS if key not in summary]
    if missing:
        raise ValueError(f"The summary lacks {', '.join(missing)}; it may have been cut off. Make it again.")


def to_json(summary: Mapping[str, Any], indent: int | None = 2) -> str:
    """Return the summary as JSON."""
    check_summary(summary)
    return json.dumps(summary, indent=indent, allow_nan=False, ensure_ascii=False) + "\n"


def read_summary(path: str | Path) -> dict[str, Any]:
    """Return the summary in a JSON file."""
    try:
        summary = read_json(path, LARGEST)
    except UnfitFileError as error:
        raise ValueError(f"{path} is not a summary: {error}. Give the summary.json of a run.") from None
    check_summary(summary)
    return summary


# --- limits ----------------------------------------------------------------------------------------------------------

# The table of each limit (on each part its value before and after, whether it is kept, the verdict), and caveats.


@dataclass(frozen=True)
class LimitOnPart:
    """One limit on one part of the rows."""

    rows: str
    before: str
    after: str
    kept: tuple[Tone, str]
    verdict: tuple[Tone, str] | None
    sure: str
    worst: str


@dataclass(frozen=True)
class LimitTable:
    """One limit: its text, price and lines, and for each group its rows and the rows that would decide."""

    text: str
    price: str
    lines: tuple[LimitOnPart, ...]
    needed: tuple[tuple[str, str, str, str], ...]


def limit_tables(summary: Mapping[str, Any]) -> list[LimitTable]:
    """Return the tables of the limits, with lines for training, calibration and held-out rows in this order."""
    return [_limit(summary, place, limit) for place, limit in enumerate(summary["limits"])]


def certificates(summary: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the certificates of the summary, each with the name of its rows."""
    held_out = summary["parts"]["held_out"]
    found = [("calibration", summary["calibration"]), ("held-out", held_out and held_out["certificate"])]
    return [(rows, certificate) for rows, certificate in found if certificate]


def _limit(summary: Mapping[str, Any], place: int, limit: Mapping[str, Any]) -> LimitTable:
    bounds = [side["bound"] for side in limit["sides"]]
    lines = [_line("training", limit["training"], bounds, None)]
    if summary["calibration"] is not None:
        found = summary["calibration"]["limits"][place]
        after = limit.get("calibration") or {"value": found["value"], "kept": None}
        lines.append(_line("calibration", {"before": None, "after": after}, bounds, found))
    if limit["held_out"] is not None:
        certificate = summary["parts"]["held_out"]["certificate"]
        lines.append(_line("held-out", limit["held_out"], bounds, certificate["limits"][place]))
    price = ""
    if limit["loss_price"] is not None:
        price = f"tightening it by 0.01 costs about {numbers.about(0.01 * limit['loss_price'])} of loss"
    if limit.get("gap") is not None:  # summaries of earlier versions have none
        bound = "" if limit["gap_bound"] is None else f", at most {numbers.about(limit['gap_bound'])} by Theorem 1"
        gap = f"surrogate and decisions differ by {numbers.about(limit['gap'])}{bound}"
        price = f"{price}; {gap}" if price else gap
    held_out = summary["parts"]["held_out"]
    needed = () if held_out is None else tuple(_needed(held_out["certificate"], place))
    return LimitTable(limit["text"], price, tuple(lines), needed)


@dataclass(frozen=True)
class TrialLine:
    """One model that was tested on the calibration rows."""

    model: str
    accuracy: str
    test: tuple[Tone, str]
    bounds: tuple[str, ...]
    returned: bool


def trial_lines(summary: Mapping[str, Any]) -> list[TrialLine]:
    """Return the models that were tested, in the order of the tests; empty if the summary has none."""
    return [
        TrialLine(
            f"{100 * trial['strictness']:g}% stricter" if trial["strictness"] else "as asked",
            numbers.percent(trial["accuracy"]),
            ("good", f"{SIGNS['good']} passes") if trial["passed"] else ("open", f"{SIGNS['open']} no pass"),
            tuple(trial["bounds"]),
            trial["returned"],
        )
        for trial in (summary["calibration"] or {}).get("trials", ())
    ]


def _needed(certificate: Mapping[str, Any], place: int) -> Iterator[tuple[str, str, str, str]]:
    for grouping, groups in (certificate["limits"][place]["rows_needed"] or {}).items():
        for group, rows in groups.items():
            here = certificate["group_rows"][grouping][group]
            yield grouping, group, count(here), count(rows)


def _line(
    rows: str, found: Mapping[str, Any], bounds: list[float], certificate: Mapping[str, Any] | None
) -> LimitOnPart:
    before, after = found["before"], found["after"]
    kept: dict[bool | None, tuple[Tone, str]] = {
        True: ("good", f"{SIGNS['good']} kept"),
        False: ("bad", f"{SIGNS['bad']} not kept"),
        None: ("plain", "–"),
    }
    verdict: tuple[Tone, str] | None = None
    if certificate is not None:
        tone = VERDICT_TONES.get(certificate["verdict"], "plain")
        verdict = (tone, f"{SIGNS[tone]} {certificate['verdict']}")
    return LimitOnPart(
        rows,
        "–" if before is None else numbers.beside(before["value"], bounds),
        numbers.beside(after["value"], bounds),
        kept[after["kept"]],
        verdict,
        "" if certificate is None else bounds_in_words(certificate),
        pair_in_words(found["worst"]) if found.get("worst") else "",
    )


# --- caveats ---------------------------------------------------------------------------------------------------------

# The section "What the numbers do not say", and remarks on rows and groups that were left out.


FEW_ROWS = 30
MOST_REMARKS = 5
"""The number of notes that a page shows; the others are folded."""

LABELS = (
    "The measures compare groups by recorded labels. A label can itself be the outcome of unequal treatment, and no "
    "measure here can show why two groups differ."
)
OTHERS = (
    "A limit on one measure says nothing about other measures, nor about groups without a limit, such as combinations "
    "of columns, or groups that no column records."
)
FITTED = (
    "The model was fitted to the training rows, so limits are kept there by construction. Intervals are given for "
    "held-out rows only."
)
NOT_HELD_OUT = "No rows were held out: nothing here is about rows that the model has not seen."
POPULATION = (
    "Intervals and verdicts are about the population that the held-out rows were drawn from, at the time when they "
    "were drawn. They are not about another year, another place, or other applicants. They assume independent rows. "
    "Intervals "
    "are not simultaneous: of a hundred intervals, about {} may not contain the true value."
)
LOOKED_AT = (
    "The certificate is valid only if the held-out rows were not used to choose the model, the limit or the threshold. "
    "If you change the model after a look at these rows, they are no longer held out."
)
PICKED = (
    "If you choose a point of the trade-off by its held-out numbers, these rows are no longer held out: certify the "
    "choice on new ones."
)
JUDGED = (
    "A number within a limit does not make a decision right or lawful. This report measures disparities; it does not "
    "judge them."
)


def caveats(summary: Mapping[str, Any]) -> list[str]:
    """Return the caveats that apply to a summary."""
    found = [LABELS, OTHERS, FITTED]
    if summary["parts"]["held_out"] is None:
        found.append(NOT_HELD_OUT)
    else:
        found.append(POPULATION.format(f"{100.0 * (1.0 - summary['confidence']):.3g}"))
        found += [LOOKED_AT] if summary["limits"] else []
        found += [PICKED] if summary["frontier"] is not None else []
    return [*found, JUDGED]


def remarks(summary: Mapping[str, Any]) -> list[str]:
    """Return remarks on rows without a group, undefined rates, small groups, and the given notes."""
    found = [str(note) for note in summary["notes"] if str(note).strip()]
    for name, part in summary["parts"].items():
        if part is not None:
            found += _remarks(name.replace("_", "-"), part["after"])
    return list(dict.fromkeys(found))


def _remarks(rows: str, audit: Mapping[str, Any]) -> Iterator[str]:
    if audit.get("probable"):
        yield f"{sentence(rows)} rows count in each group with their probability; counts are sums of probabilities."
    elif audit["weighted"]:
        yield f"{sentence(rows)} rows are weighted: counts are sums of weights."
    for grouping, missing in audit["missing"].items():
        if missing:
            yield (
                f"{count(missing)} {rows} {'row has' if missing == 1 else 'rows have'} no known {grouping}, or "
                f"one that the limits leave out: counted in the accuracy, and in no rate of {grouping}."
            )
    nothing: dict[tuple[str, str], list[str]] = {}
    for each in audit["undefined"]:
        rate = numbers.words(each["rate"]) + (f" of class {each['label']}" if each["label"] is not None else "")
        nothing.setdefault((each["grouping"], rate), []).append(group_text(each["group"]))
    alike: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (grouping, rate), groups in nothing.items():
        alike.setdefault((grouping, tuple(groups)), []).append(rate)
    for (grouping, names), rates in alike.items():
        yield (
            f"{sentence(', '.join(rates))}: undefined on the {rows} rows for {len(names)} "
            f"group{'s' if len(names) > 1 else ''} of {grouping}, so measures of these rates leave them out: "
            f"{', '.join(names)}."
        )
    few = [
        f"{group_text(each['group'])} ({count(each['rows'])})"
        for each in audit["groups"]
        if not each["everyone"] and each["rows"] < FEW_ROWS
    ]
    if few:
        yield f"Fewer than {FEW_ROWS} {rows} rows: {', '.join(few)}. Read the intervals there, not the values."
