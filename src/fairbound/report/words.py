"""The answers in words: what was asked for, whether it is kept, how sure that is, and what it cost.

Each answer has a *tone*, "good", "open", "bad" or "plain", for its colour and its sign; the words say the same without.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from fairbound.report import numbers

Tone = Literal["good", "open", "bad", "plain"]
Summary = Mapping[str, Any]

SIGNS: dict[Tone, str] = {"good": "✓", "open": "?", "bad": "✗", "plain": "–"}
VERDICT_TONES: dict[str, Tone] = {"PASS": "good", "FAIL": "bad", "INCONCLUSIVE": "open", "NOT CERTIFIABLE": "plain"}


@dataclass(frozen=True)
class Answer:
    """A question of the reader with its short answer and a sentence."""

    question: str
    tone: Tone
    short: str
    sentence: str

    @property
    def sign(self) -> str:
        """A sign for the tone, so that it does not hang on colour."""
        return SIGNS[self.tone]


def limit_in_words(limit: Mapping[str, Any]) -> str:
    """Return what a limit asks for: "ratio of selection rates between any two groups of race at least 0.9"."""
    sides = " and ".join(f"{side['side']} {numbers.short(side['bound'])}" for side in limit["sides"])
    where = " and of ".join(limit["groupings"])
    if limit["comparison"] == "value":
        who = f"group {limit['group']}" if limit["group"] is not None else f"every group of {where}"
        text = f"{numbers.words(limit['measure'])} of {who}"
    elif limit["comparison"] == "covariance":
        text = f"{limit['description']}, for groups of {where}, in size"
    elif limit["against"] == "pairwise":
        text = f"{limit['description']} between any two groups of {where}"
    else:
        other = "everyone" if limit["against"] == "overall" else f"group {limit['against']}"
        text = f"{limit['description']} between each group of {where} and {other}"
    which = f", for class {', '.join(limit['classes'])}," if limit["classes"] else ""
    return f"{text}{which} {sides}"


def answers(summary: Summary) -> list[Answer]:
    """Return the answers that stand at the top of a report, the verdict first."""
    found = [_verdict(summary)]
    if summary["limits"]:
        found.append(_training(summary))
        found.append(_held_out(summary))
        found += _confidence(summary)
    found += _cost(summary)
    found.append(_gain(summary))
    return found


def _verdict(summary: Summary) -> Answer:
    limits, several = summary["limits"], len(summary["limits"]) > 1
    subject = {1: "The limit is", 2: "Both limits are"}.get(len(limits), f"All {len(limits)} limits are")
    question = "In one sentence"
    if not limits:
        return Answer(question, "plain", "No limit was asked for", "This report describes the model as it is.")
    broken = [limit for limit in limits if not limit["training"]["after"]["kept"]]
    if broken:
        which = f"{len(broken)} of {len(limits)} limits are" if several else "The limit is"
        message = (summary["run"] or {}).get("message") or ""
        return Answer(question, "bad", f"{which} not kept on the training rows", message)
    certificate, rows = _deciding(summary)
    if certificate is None:
        return Answer(
            question,
            "open",
            f"{subject} kept on the training rows",
            "No rows were held out, so nothing is known about new rows.",
        )
    sure = f"with {numbers.confidence(certificate['confidence'])} confidence"
    held_out = summary["parts"]["held_out"]
    if certificate["verdict"] == "PASS" and held_out is not None and held_out["certificate"]["verdict"] == "FAIL":
        return Answer(
            question,
            "bad",
            f"{subject} kept on the training rows; the others contradict each other",
            f"The calibration rows show {sure} that {'all limits are' if several else 'it is'} kept in the population, "
            f"the held-out rows that {'one is' if several else 'it is'} broken: each errs in a few of a hundred draws. "
            "Draw new rows.",
        )
    if certificate["verdict"] == "PASS":
        return Answer(
            question,
            "good",
            f"{subject} kept on the training rows and, {sure}, for new rows",
            f"The {rows} rows, which had no part in training, show it for the population that they were drawn from.",
        )
    if certificate["verdict"] == "FAIL":
        return Answer(
            question,
            "bad",
            f"{subject} kept on the training rows, but not for new rows",
            f"The {rows} rows, which had no part in training, show {sure} that "
            f"{'at least one limit' if several else 'it'} is broken in the population that they were drawn from.",
        )
    if summary["calibration"] is not None:
        # A confidence was asked for, and not reached: that comes first, in the colour of what it is.
        return Answer(
            question,
            "bad",
            f"{subject} kept on the training rows, but no model passed {sure}",
            f"Nothing is claimed for new rows: the calibration rows do not show that "
            f"{'all limits are' if several else 'the limit is'} kept in the population that they were drawn from, not "
            "even by the strictest model. More rows of the smaller groups, or a looser limit, would help.",
        )
    measured = [limit["held_out"] for limit in limits if limit["held_out"]]
    inside = all(each["after"]["kept"] for each in measured) if measured else None
    among = {True: " and among the held-out rows", False: "", None: ""}[inside]
    beyond = (
        " The held-out rows lie beyond the limit, but not so far that chance cannot explain it."
        if inside is False
        else ""
    )
    return Answer(
        question,
        "open",
        f"{subject} kept on the training rows{among}; for new rows it is open",
        f"The {rows} rows do not decide at {numbers.confidence(certificate['confidence'])} confidence whether "
        f"{'all limits are' if several else 'the limit is'} kept in the population that they were drawn from.{beyond}",
    )


def _deciding(summary: Summary) -> tuple[Mapping[str, Any] | None, str]:
    """Return the certificate that carries the claim: that of the calibration rows where the model was chosen by it."""
    if summary["calibration"] is not None:
        return summary["calibration"], "calibration"
    held_out = summary["parts"]["held_out"]
    return (None if held_out is None else held_out["certificate"]), "held-out"


def _training(summary: Summary) -> Answer:
    limits = summary["limits"]
    kept = all(limit["training"]["after"]["kept"] for limit in limits)
    rows = numbers.count(summary["parts"]["training"]["rows"])
    return Answer(
        "Kept on the training rows?",
        "good" if kept else "bad",
        "Yes" if kept else "No",
        f"{_values(summary, 'training')}, from the model's own decisions on {rows} rows.",
    )


def _held_out(summary: Summary) -> Answer:
    part = summary["parts"]["held_out"]
    question = "Kept among the held-out rows?"
    if part is None:
        return Answer(question, "open", "Not known", "No rows were held out.")
    found = [limit["held_out"]["after"]["kept"] for limit in summary["limits"]]
    rows = numbers.count(part["rows"])
    if None in found and False not in found:
        return Answer(question, "open", "Undefined", f"{_values(summary, 'held_out')} on {rows} rows.")
    kept = all(found)
    return Answer(
        question,
        "good" if kept else "bad",
        "Yes" if kept else "No",
        f"{_values(summary, 'held_out')}, on {rows} rows that had no part in training.",
    )


def _values(summary: Summary, part: str) -> str:
    several = len(summary["limits"]) > 1
    texts = []
    for limit in summary["limits"]:
        bounds = [side["bound"] for side in limit["sides"]]
        after, before = limit[part]["after"], limit[part]["before"]
        name = f"{numbers.words(limit['measure'])} " if several else ""
        was = f" (without limits {numbers.beside(before['value'], bounds)})" if before else ""
        texts.append(f"{name}{numbers.beside(after['value'], bounds)}{was}")
    text = "; ".join(texts)
    return sentence(text if several else f"{numbers.words(summary['limits'][0]['measure'])} {text}")


def _confidence(summary: Summary) -> Iterator[Answer]:
    held_out = summary["parts"]["held_out"]
    found = {"calibration": summary["calibration"], "held-out": held_out["certificate"] if held_out else None}
    for rows, certificate in found.items():
        if certificate is None:
            continue
        sure = numbers.confidence(certificate["confidence"])
        what = " and ".join(
            f"{side['side']} "
            + (numbers.at_least(side["worst"]) if side["side"] == "at least" else numbers.at_most(side["worst"]))
            for limit in certificate["limits"]
            for side in limit["bounds"]
            if side["worst"] is not None
        )
        reasons = " ".join(_reason(limit) for limit in certificate["limits"] if limit["verdict"] != "PASS")
        bound = (
            f"With {sure} confidence each: {what}."
            if len(certificate["limits"]) > 1
            else f"With {sure} confidence {what}."
        )
        yield Answer(
            f"How sure for new rows (by the {rows} rows)?",
            VERDICT_TONES.get(certificate["verdict"], "plain"),
            f"{certificate['verdict']} at {sure}",
            " ".join(text for text in (bound if what else "", reasons) if text),
        )


def _reason(limit: Mapping[str, Any]) -> str:
    if limit["times_as_many"] is None:
        return sentence(limit["reason"])
    times = limit["times_as_many"]
    many = f"{times:.1f}" if times < 10 else f"{float(f'{times:.2g}'):,.0f}"
    return f"About {many} times as many rows would decide at the observed rates."


def sentence(text: str) -> str:
    """Return text with a capital at its start; what follows may be names and stays as it is."""
    return text[:1].upper() + text[1:]


def _cost(summary: Summary) -> Iterator[Answer]:
    part, rows = main_part(summary)
    accuracy = part["accuracy"]
    if accuracy["cost"] is None:
        return
    cost = accuracy["cost"]
    other = ""
    if summary["parts"]["held_out"] is not None:
        other = f" On the training rows {numbers.points(-summary['parts']['training']['accuracy']['cost'])}."
    yield Answer(
        "What did it cost in accuracy?",
        "plain",
        numbers.points(-cost),
        f"{sentence(rows)} rows: {numbers.percent(accuracy['before']['value'])} without limits, "
        f"{numbers.percent(accuracy['after']['value'])} with them.{other}",
    )


def _gain(summary: Summary) -> Answer:
    part, rows = main_part(summary)
    accuracy = part["accuracy"]
    good = accuracy["gain"] > 0
    return Answer(
        "Better than a constant prediction?",
        "good" if good else "bad",
        numbers.points(accuracy["gain"]),
        f"The best constant prediction is right in {numbers.percent(accuracy['constant'])} of the {rows} rows, "
        f"this model in {numbers.percent(accuracy['after']['value'])}."
        + ("" if good else " A constant prediction keeps any ratio, so keeping the limit this way means little."),
    )


def main_part(summary: Summary) -> tuple[Mapping[str, Any], str]:
    """Return the part that the report speaks of first, and its name in words."""
    held_out = summary["parts"]["held_out"]
    return (held_out, "held-out") if held_out is not None else (summary["parts"]["training"], "training")


def unasked(summary: Summary) -> list[str]:
    """Say which measures nobody asked for moved the groups further apart, largest first."""
    worse = [each for each in summary["changes"] if each["direction"] == "further apart" and not each["asked"]]
    worse.sort(key=lambda each: -abs(each["change"]))
    return [
        f"{numbers.words(each['measure'])} ({each['description']}) of {each['grouping']}"
        + (f", class {each['label']}" if each["label"] is not None else "")
        + f": from {numbers.rate(each['before']['value'])} to {numbers.rate(each['after']['value'])}"
        for each in worse
    ]
