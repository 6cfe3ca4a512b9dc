"""The model card: the same answers and tables in Markdown, for a repository or a review; and the folder of a report."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fairbound._drafts import write_file
from fairbound._files import as_utf8, begins_with
from fairbound._text import visible
from fairbound.report import numbers, words
from fairbound.report.annex import PREFACE, TITLE, annex_points
from fairbound.report.limits import caveats, certificates, remarks, trial_lines
from fairbound.report.numbers import reproduction_lines
from fairbound.report.page import to_html
from fairbound.report.schema import SCHEMA, check_summary, to_json
from fairbound.report.tables import RateTable, count_tables, model_view, rate_tables
from fairbound.report.tradeoff import tradeoff


def to_markdown(summary: Mapping[str, Any]) -> str:
    """Return the model card of a summary."""
    check_summary(summary)
    return "\n".join(_lines(summary)).rstrip() + "\n"


def _lines(summary: Mapping[str, Any]) -> Iterator[str]:
    names = dict(zip(summary["classes"], summary["class_names"], strict=True))
    yield f"# Model card: {escaped(summary['title'])}\n"
    verdict, *answers = words.answers(summary)
    yield f"**{escaped(verdict.short)}.** {escaped(verdict.sentence)}\n"
    for limit in summary["limits"]:
        yield f"- Asked for: {escaped(words.limit_in_words(limit))} (`{_code(limit['text'])}`)"
    for text in words.conflicts(summary):
        yield f"- Hard to keep together with the others: `{_code(text)}`"
    for answer in answers:
        yield f"- {escaped(answer.question)} **{escaped(answer.short)}.** {escaped(answer.sentence)}"
        for limit_text, reached in answer.lines:
            yield f"  - {f'`{_code(limit_text)}`: ' if limit_text else ''}{escaped(reached)}"
    for rows, certificate in certificates(summary):
        yield f"- {rows.capitalize()} rows: {escaped(certificate['claim'])}"
    yield "\n## What it predicts\n"
    yield f"Predicts {escaped(summary['target'])}" + (
        f"; being selected means the prediction “{escaped(summary['class_names'][1])}”.\n"
        if len(names) == 2
        else f", one of: {', '.join(escaped(name) for name in names.values())}.\n"
    )
    main, rows = words.main_part(summary)
    yield f"## By group ({rows} rows)\n"
    audits = {"before": main["before"], "after": main["after"]}
    for table in rate_tables(audits, names, with_interval=rows == "held-out"):
        yield from _rates(table)
    for counts in count_tables(audits, names):
        header = (f"{counts.grouping}: counts", "rows", *counts.header)
        yield from _table(
            header,
            [
                (name, total, *(after if before is None else f"{before} → {after}" for before, after in cells))
                for name, _, total, cells in counts.lines
            ],
        )
    yield from _measures(summary)
    if summary["frontier"]:
        yield "## Trade-off\n"
        found = tradeoff(summary, names)
        yield from _table(found.header, found.overview)
    model = model_view(summary.get("model"), names)
    if model:
        yield "## What the model goes by\n"
        yield f"{escaped(model.says)}\n"
        header = ("input", *(("class",) if model.several else ()), model.heading.lower())
        yield from _table(
            header,
            [(each.name, *((each.label,) if model.several else ()), each.value) for each in model.lines],
        )
        yield f"{escaped(model.caveat)}\n"
    if summary["run"]:
        yield "## Training\n"
        run = summary["run"]
        yield f"Status: {escaped(run['status'])}. {escaped(run['message'])}\n"
        solver = f"Solver: {escaped(run['solver'])}, " if run["solver"] else ""
        seconds = "" if run["seconds"] is None else f", {run['seconds']:.1f} s"
        yield f"{solver}{len(run['history'])} iterations recorded{seconds}.\n"
    trials = trial_lines(summary)
    if trials:
        yield "Models tested on the calibration rows, in this order:\n"
        yield from _table(
            ("trained for", "accuracy, training", "test", *(limit["text"] for limit in summary["limits"]), ""),
            [
                (each.trained_for, each.accuracy, each.test[1], *each.bounds, "returned" if each.returned else "")
                for each in trials
            ],
        )
    yield from _annex(summary)
    yield "## What the numbers do not say\n"
    yield from (f"- {escaped(text)}" for text in caveats(summary))
    left_out = remarks(summary)
    if left_out:
        yield "\n## Data\n"
        yield from (f"- {escaped(text)}" for text in left_out)
    yield "\n## How to repeat this\n"
    for name, text in reproduction_lines(summary["reproduction"]):
        yield f"- {escaped(name)}: `{_code(text)}`" if name == "Command" else f"- {escaped(name)}: {escaped(text)}"


def _annex(summary: Mapping[str, Any]) -> Iterator[str]:
    yield f"## {TITLE}\n"
    yield f"{PREFACE}\n"
    for point in annex_points(summary):
        yield f"### {point.heading}\n"
        yield from (f"- {escaped(name)}: {escaped(text)}" for name, text in point.facts)
        yield ""
        if point.lines:
            yield from _table(point.header, point.lines)
        yield from (f"- **Gap**, for a person to fill in: {escaped(gap)}" for gap in point.gaps)
        yield ""


def _rates(table: RateTable) -> Iterator[str]:
    label = "" if table.label is None else f", class {table.label}"
    header = (f"{table.grouping}{label}", "rows", *(numbers.words(rate) for rate, _ in table.rates))
    lines = []
    for line in table.lines:
        texts = [[m.text + (f" ({m.interval})" if m.interval else "") for m in marks] for marks in line.cells]
        lines.append((line.name, line.rows, *(" → ".join(each) for each in texts)))
    yield from _table(header, lines)


def _measures(summary: Mapping[str, Any]) -> Iterator[str]:
    if not summary["changes"]:
        return
    _, rows = words.main_part(summary)
    yield f"## Which measures moved ({rows} rows)\n"
    moved = words.unasked(summary)
    if moved:
        yield "Further apart although nobody asked:\n"
        yield from (f"- {escaped(text)}" for text in moved)
        yield ""
    shown = numbers.estimate if rows == "held-out" else lambda found: numbers.rate(found["value"])
    yield from _table(
        ("measure", "groups", "without limits", "with limits", "change", ""),
        [
            (
                numbers.words(each["measure"]),
                each["grouping"] + (f", class {each['label']}" if each["label"] is not None else ""),
                shown(each["before"]),
                shown(each["after"]),
                numbers.signed(each["change"]),
                (each["direction"] or "") + (" (asked for)" if each["asked"] else ""),
            )
            for each in summary["changes"]
        ],
    )


def _table(header: Sequence[str], lines: Iterable[Sequence[str]]) -> Iterator[str]:
    yield "| " + " | ".join(map(escaped, header)) + " |"
    yield "| --- |" + " ---: |" * (len(header) - 1)
    yield from ("| " + " | ".join(map(escaped, line)) + " |" for line in lines)
    yield ""


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


# --- files -----------------------------------------------------------------------------------------------------------

# Write the three formats of a report into a folder.


NAMES = {"json": "summary.json", "html": "report.html", "markdown": "model-card.md"}


def write_report(
    summary: Mapping[str, Any], folder: str | os.PathLike[str], *, overwrite: bool = False
) -> dict[str, Path]:
    """Write report.html, model-card.md and summary.json.  Nothing is written before all three are made.

    The files of an older report are replaced; a report is recognised by its summary.json.  Other files of these names
    are replaced only with `overwrite`.

    Returns
    -------
    dict
        The paths by "html", "markdown" and "json".
    """
    folder = Path(folder)
    written = {"json": to_json(summary), "html": to_html(summary), "markdown": to_markdown(summary)}
    foreign = [name for name in NAMES.values() if (folder / name).exists()]
    if foreign and not overwrite and not holds_summary(folder):
        raise FileExistsError(
            f"{folder / foreign[0]} exists and does not belong to a report of fairbound: give another folder, or "
            "overwrite=True to replace it."
        )
    for kind, text in written.items():  # the summary first: a report is recognised by it
        write_file(folder / NAMES[kind], as_utf8(text))
    return {kind: folder / name for kind, name in NAMES.items()}


def holds_summary(folder: Path) -> bool:
    """Return whether a folder has a summary of fairbound."""
    return begins_with(folder / NAMES["json"], f'"schema": "{SCHEMA}"'.encode())
