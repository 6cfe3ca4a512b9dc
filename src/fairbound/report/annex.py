"""The part of the model card that answers points 2(g), 3 and 4 of Annex IV of the EU AI Act (Regulation 2024/1689).

The answers are measured figures of the summary.  What only people can say is listed as a gap, by its name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fairbound._words import count, group_text, percent
from fairbound.report import numbers, words

TITLE = "Technical documentation: Annex IV, points 2(g), 3 and 4"
PREFACE = (
    "These answers are figures that were measured. They do not say that a requirement is met. A gap names what a "
    "person has to fill in."
)


@dataclass(frozen=True)
class AnnexPoint:
    """One point: facts as pairs of a name and a text, a table if there is one, and the gaps."""

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
        "Tests of robustness and cybersecurity; none was made here.",
        "Names and signatures of the persons responsible for the tests, with the date.",
    ]
    if summary["parts"]["held_out"] is None:
        gaps.insert(0, "A test on rows that the model was not trained on; none was held out.")
    return AnnexPoint("2(g) Validation and testing", tuple(_test_log(summary)), gaps=tuple(gaps))


def _test_log(summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the data, the parts, the limits as written down, and each test with its date and outcome."""
    known = dict(numbers.reproduction_lines(summary["reproduction"]))
    main, rows = words.main_part(summary)
    for name in ("Data", "Columns used"):
        if name in known:
            yield name, known[name]
    parts = summary["parts"]
    sizes = {"training": parts["training"], "calibration": summary["calibration"], "held-out": parts["held_out"]}
    yield "Rows", ", ".join(f"{name} {count(part['rows'])}" for name, part in sizes.items() if part is not None)
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
        "3 Capabilities, limits of performance, and control",
        tuple(facts),
        (f"{rows} rows", "rows", *(numbers.words(rate) for rate in shown)),
        tuple(lines),
        (
            "The intended purpose, and the accuracy that it needs.",
            "Foreseeable unintended outcomes, and risks to health, safety and fundamental rights.",
            "Measures of human oversight (Article 14), and how deployers are helped to interpret outputs.",
            "Groups of persons that the data do not name.",
        ),
    )


def _metrics(summary: Mapping[str, Any]) -> AnnexPoint:
    facts = [("accuracy", "share of rows whose prediction equals the recorded label, beside that of the best constant")]
    measures = {limit["measure"]: limit["description"] for limit in summary["limits"]}
    facts += [(numbers.words(name), text) for name, text in measures.items()]
    facts.append(
        (
            "What they leave out",
            "they compare recorded labels and groups; they do not say why groups differ, nor whether labels are right",
        )
    )
    return AnnexPoint(
        "4 Performance metrics",
        tuple(facts),
        gaps=(
            "Why these metrics and bounds suit the intended purpose.",
            "Which other metrics were considered, and why not.",
        ),
    )
