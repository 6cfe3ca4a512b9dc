"""The model card: answers and tables of the report in Markdown; and the files of a report in a folder.

One section follows points 2(g), 3 and 4 of Annex IV of the EU AI Act (Regulation 2024/1689).  It states figures of the
summary.  Information that only people can give is listed as a gap.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairbound._files import as_utf8, begins_with, write_file
from fairbound._words import count, group_text, percent, visible
from fairbound.report import numbers, words
from fairbound.report.numbers import reproduction_lines
from fairbound.report.page import SCHEMA, caveats, certificates, check_summary, remarks, to_html, to_json, trial_lines
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
        yield "## Inputs of the model\n"
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
        seconds = "" if run["seconds"] is None else f", {run['seconds']:.1f} s in all"
        yield f"{solver}{len(run['history'])} iterations recorded{seconds}.\n"
    trials = trial_lines(summary)
    if trials:
        yield "Models tested on the calibration rows, in this order:\n"
        yield from _table(
            ("model", "accuracy, training", "test", *(limit["text"] for limit in summary["limits"]), ""),
            [
                (each.model, each.accuracy, each.test[1], *each.bounds, "returned" if each.returned else "")
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
        yield "Groups are further apart in measures without a limit:\n"
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
    """Write report.html, model-card.md and summary.json.  Files are written only after all three have been made.

    The files of an older report, recognised by its summary.json, are replaced.  Other files of these names are replaced
    only with `overwrite`.

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


# --- Annex IV ---------------------------------------------------------------------------------------------------------

TITLE = "Technical documentation: EU AI Act, Annex IV, points 2(g), 3 and 4"
MOST_GROUPS = 20
"""Largest number of groups whose sizes are listed in the log of the tests."""
PREFACE = (
    "Annex IV is that of Regulation (EU) 2024/1689. These answers are measured figures. They do not say that a "
    "requirement is met. A gap names information that a person must add."
)


@dataclass(frozen=True)
class AnnexPoint:
    """One point of Annex IV: facts as pairs of a name and a text, an optional table, and the gaps."""

    heading: str
    facts: tuple[tuple[str, str], ...]
    header: tuple[str, ...] = ()
    lines: tuple[tuple[str, ...], ...] = ()
    gaps: tuple[str, ...] = ()


def annex_points(summary: Mapping[str, Any]) -> list[AnnexPoint]:
    """Return the three points."""
    return [_testing(summary), _performance(summary), _metrics(summary)]


def _testing(summary: Mapping[str, Any]) -> AnnexPoint:
    gaps = [
        "How the rows were collected, and how well they represent the people concerned.",
        "Tests of robustness, and of the other requirements of Chapter III, Section 2; none was made here.",
        "Tests of changes that were planned beforehand (point 2(f)), if there are any.",
        "Names and signatures of the persons responsible for the tests, with the date.",
    ]
    if summary["parts"]["held_out"] is None:
        gaps.insert(0, "A test on rows that the model was not trained on; none was held out.")
    return AnnexPoint("2(g) Validation and testing", tuple(_test_log(summary)), gaps=tuple(gaps))


def _test_log(summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the data, the parts, the limits with the time of writing, and each test with its date and outcome."""
    known = dict(numbers.reproduction_lines(summary["reproduction"]))
    main, rows = words.main_part(summary)
    for name in ("Data", "Columns used"):
        if name in known:
            yield name, known[name]
    parts = summary["parts"]
    sizes = {"training": parts["training"], "calibration": summary["calibration"], "held-out": parts["held_out"]}
    yield "Rows", ", ".join(f"{name} {count(part['rows'])}" for name, part in sizes.items() if part is not None)
    for grouping in main["after"]["missing"]:
        named = [each for each in main["after"]["groups"] if each["grouping"] == grouping and not each["everyone"]]
        sizes_of = (f"{group_text(each['group'])} {count(each['rows'])}" for each in named[:MOST_GROUPS])
        yield f"{rows} rows by {grouping}".capitalize(), ", ".join(sizes_of) + (" ..." if named[MOST_GROUPS:] else "")
    yield "Limits", "; ".join(limit["text"] for limit in summary["limits"]) or "none"
    yield "Limits written down", known.get("Limits written", "not recorded")
    yield (
        "Test run",
        f"{known.get('Made', 'date not recorded')}, fairbound {known.get('fairbound', 'version not recorded')}",
    )
    accuracy = main["accuracy"]["after"]
    yield f"Accuracy, {rows} rows", _accuracy(accuracy, with_interval=rows == "held-out")
    for limit in summary["limits"]:
        for part in ("training", "held_out"):
            if limit[part] is not None:
                found = limit[part]["after"]
                kept = {True: "kept", False: "not kept", None: "undefined"}[found["kept"]]
                bounds = [side["bound"] for side in limit["sides"]]
                yield (
                    f"{limit['text']}, {part.replace('_', '-')} rows",
                    f"{numbers.beside(found['value'], bounds)}, {kept}",
                )
    certificate = main.get("certificate")
    if certificate:
        yield (
            "Certificate, held-out rows",
            f"{certificate['verdict']} at {percent(certificate['confidence'])} confidence",
        )


def _accuracy(found: Mapping[str, Any], *, with_interval: bool) -> str:
    text = numbers.percent(found["value"])
    if with_interval and found["lower"] is not None:
        text += f" ({numbers.percent(found['lower'])} to {numbers.percent(found['upper'])})"
    return text


def _performance(summary: Mapping[str, Any]) -> AnnexPoint:
    main, rows = words.main_part(summary)
    audit = main["after"]
    # With several classes, the other rates are those of one class against the rest.
    shown = ("accuracy", "true_positive_rate", "false_positive_rate") if len(audit["classes"]) == 2 else ("accuracy",)
    lines = []
    for group in audit["groups"]:
        label = next(iter(group["rates"]))
        rates = group["rates"][label]
        name = group_text(None if group["everyone"] else group["group"])
        texts = (
            numbers.estimate(rates[rate]) if rows == "held-out" else numbers.rate(rates[rate]["value"])
            for rate in shown
        )
        lines.append((f"{group['grouping']}: {name}", count(group["rows"]), *texts))
    facts = [
        ("Overall accuracy", _accuracy(main["accuracy"]["after"], with_interval=rows == "held-out")),
        ("Best constant prediction", numbers.percent(main["accuracy"]["constant"])),
        ("Input data", ", ".join(summary["reproduction"].get("columns", ())) or "not recorded"),
    ]
    return AnnexPoint(
        "3 Monitoring, functioning and control: accuracy for groups of persons",
        tuple(facts),
        (f"{rows} rows", "rows", *(numbers.words(rate) for rate in shown)),
        tuple(lines),
        (
            "The intended purpose, and the accuracy that it needs.",
            "Foreseeable unintended outcomes; risks to health, safety and fundamental rights; risks of discrimination.",
            "Measures of human oversight (Article 14), and how deployers are helped to interpret outputs.",
            "Groups of persons that the data do not name.",
        ),
    )


def _metrics(summary: Mapping[str, Any]) -> AnnexPoint:
    facts = [("accuracy", "share of rows whose prediction equals the recorded label; compared with the best constant")]
    measures = {limit["measure"]: limit["description"] for limit in summary["limits"]}
    facts += [(numbers.words(name), text) for name, text in measures.items()]
    facts.append(
        (
            "What they leave out",
            "they compare recorded labels and groups; they do not show why groups differ, or whether labels are right",
        )
    )
    return AnnexPoint(
        "4 Appropriateness of the performance metrics",
        tuple(facts),
        gaps=(
            "Why these metrics and bounds suit the intended purpose.",
            "Which other metrics were considered, and why they were not used.",
        ),
    )
