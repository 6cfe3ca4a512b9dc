"""The report of a study as one HTML file, which loads nothing from a network, and its model card in Markdown."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairbound._files import as_utf8, write_file
from fairbound._words import lookup
from fairbound.report import words
from fairbound.report.caveats import caveats, remarks
from fairbound.report.figures import history_pictures, phases, score_pictures, steps
from fairbound.report.numbers import reproduction_lines
from fairbound.report.tables import count_tables, rate_tables
from fairbound.report.templating import TEMPLATES, render_card, render_page
from fairbound.report.tradeoff import tradeoff

if TYPE_CHECKING:
    from fairbound.studies import ModelInputs, Summary

NAMES = {"json": "summary.json", "html": "report.html", "markdown": "model-card.md"}


def to_html(summary: Summary) -> str:
    """Return the report of a summary, which `fairbound.studies` makes, and `read_summary` reads.

    Raises
    ------
    ImportError
        If jinja2 is not installed.
    """
    history = steps(summary.fit.iterations) if summary.fit else []
    return render_page(
        "page.html",
        what="The HTML report",
        scores=score_pictures(summary.main.after.scores),
        tradeoff=tradeoff(summary),
        history=history,
        history_pictures=history_pictures(history) if history else {},
        phases=phases(history),
        **_context(summary),
    )


def to_markdown(summary: Summary) -> str:
    """Return the model card of a summary.

    One section follows points 2(g), 3 and 4 of Annex IV of the EU AI Act (Regulation 2024/1689).  It states figures of
    the summary.  Information that only people can give is listed as a gap.
    """
    return render_card("card.md", tradeoff=tradeoff(summary), **_context(summary))


DOCUMENTS = tuple(sorted(each.name[:-3] for each in (TEMPLATES / "documents").iterdir() if each.name != "document.md"))
"""The kinds of documents; each is a template."""


def to_document(summary: Summary, kind: str, *, search: Mapping[str, Any] | None = None) -> str:
    """Return a document that a rule asks for, in Markdown: what the run knows is filled in, the rest is named as a gap.

    Parameters
    ----------
    summary : Summary
    kind : {"annex-iv", "california", "colorado", "model-risk", "new-jersey"}
    search : dict, optional
        A search for alternatives, as `Alternatives.to_dict()` returns it.
    """
    lookup(dict.fromkeys(DOCUMENTS), kind, "kind of document")
    digest = hashlib.sha256(as_utf8(summary.to_json())).hexdigest()
    context = {"search": search, "digest": digest, "fit": summary.fit, "tradeoff": tradeoff(summary)}
    searched = {} if search is None else dict(reproduction_lines({"data": search["data"]}))
    return render_card(f"documents/{kind}.md", searched=searched, **context, **_context(summary))


def _context(summary: Summary) -> dict[str, Any]:
    verdict, *answers = words.answers(summary)
    parts = summary.parts
    return {
        "summary": summary,
        "verdict": verdict,
        "answers": answers,
        "unasked": words.unasked(summary),
        "caveats": caveats(summary),
        "remarks": remarks(summary),
        "model": inputs_in_words(summary.model, summary.class_names[-1]) if summary.model else "",
        "reproduction": dict(reproduction_lines(summary.reproduction)),
        "rate_tables": rate_tables,
        "count_tables": count_tables,
        "views": {rows: {model: each.groups for model, each in part.audits.items()} for rows, part in parts.items()},
    }


def inputs_in_words(model: ModelInputs, positive: str) -> str:
    """Return what the table of inputs shows."""
    noun, first = ("coefficient", "largest") if model.kind == "coefficients" else ("column", "most important")
    shown, total = len(model.inputs), model.total
    which = f"The only {noun}" if total == 1 else f"{'All' if shown == total else f'{shown} of'} {total:,} {noun}s"
    which += "" if total == 1 else f", the {first} first"
    if model.kind == "importances":
        return (
            f"{which}. Each number is the increase of the loss on {model.rows} rows if the values of the column are "
            "shuffled, so that they no longer belong to their rows."
        )
    what = "the class" if any(each.label is not None for each in model.inputs) else f"“{positive}”"
    return (
        f"{which}. Each number is the change of the log-odds of {what} if the input rises by one standard deviation "
        "and all others stay the same. A number above zero makes that prediction more likely."
    )


def write_report(summary: Summary, folder: str | os.PathLike[str], *, overwrite: bool = False) -> dict[str, Path]:
    """Write report.html, model-card.md and summary.json.  Files are written only after all three have been made.

    The files of an older report, recognised by its summary.json, are replaced.  Other files of these names are replaced
    only with `overwrite`.

    Returns
    -------
    dict
        The paths by "html", "markdown" and "json".
    """
    from fairbound.studies import holds_summary

    folder = Path(folder)
    written = {"json": summary.to_json(), "html": to_html(summary), "markdown": to_markdown(summary)}
    foreign = [name for name in NAMES.values() if (folder / name).exists()]
    if foreign and not overwrite and not holds_summary(folder):
        raise FileExistsError(
            f"{folder / foreign[0]} exists and does not belong to a report of fairbound: give another folder, or "
            "overwrite=True to replace it."
        )
    for kind, text in written.items():  # the summary first: a report is recognised by it
        write_file(folder / NAMES[kind], as_utf8(text))
    return {kind: folder / name for kind, name in NAMES.items()}
