"""The answers in words: which limits were asked for, whether they are kept, how certain that is, and the cost.

Each answer has a *tone*, "good", "open", "bad" or "plain", for its colour and its sign.  The words do not depend on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from fairbound._words import count, factor_text, group_text, percent, probability_text
from fairbound.report import numbers

Tone = Literal["good", "open", "bad", "plain"]
Summary = Mapping[str, Any]

SIGNS: dict[Tone, str] = {"good": "✓", "open": "?", "bad": "✗", "plain": "–"}
VERDICT_TONES: dict[str, Tone] = {"PASS": "good", "FAIL": "bad", "INCONCLUSIVE": "open", "NOT CERTIFIABLE": "plain"}
NO_LIMIT = "No limit was asked for"
LIKELY, UNLIKELY = 0.9, 1 / 3  # a probability from the first on is called good; below the second, a break is likely


@dataclass(frozen=True)
class Answer:
    """A question of the reader with its short answer, a sentence, and lines about single limits: text and finding."""

    question: str
    tone: Tone
    short: str
    sentence: str
    lines: tuple[tuple[str, str], ...] = ()

    @property
    def sign(self) -> str:
        """A sign for the tone, which does not depend on colour."""
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
    found = [_interrupted(summary, _verdict(summary))]
    if summary["limits"]:
        found.append(_training(summary))
        found.append(_held_out(summary))
        found += _forecast(summary)
        found += _confidence(summary)
    found += _cost(summary)
    found.append(_gain(summary))
    return found


def headline(summary: Summary) -> str:
    """Return the verdict, which says first what holds on rows that were not trained on."""
    verdict = answers(summary)[0]
    return f"{verdict.short}. {verdict.sentence}"


def conflicts(summary: Summary) -> list[str]:
    """Return the comparisons that conflict, if no model was found that keeps every limit."""
    return list((summary["run"] or {}).get("conflicts") or ())


def _interrupted(summary: Summary, verdict: Answer) -> Answer:
    """Return the verdict.  If the run was interrupted, say so first, and do not call the verdict good."""
    left = (summary["run"] or {}).get("interrupted")
    if not left:
        return verdict
    short = verdict.short[:1].lower() + verdict.short[1:]
    if verdict.short == NO_LIMIT:  # the interrupt came before the limits were tried
        short = "the model is not finished"
    return replace(
        verdict,
        tone="bad" if verdict.tone == "bad" else "open",
        short=f"Interrupted: {short}",
        sentence=f"The run was interrupted. This report is about {left} {verdict.sentence}",
    )


def _verdict(summary: Summary) -> Answer:
    """Return the verdict, the worst news first: limits not kept, then a model no better than a constant."""
    limits, several = summary["limits"], len(summary["limits"]) > 1
    subject = {1: "The limit is", 2: "Both limits are"}.get(len(limits), f"All {len(limits)} limits are")
    question = "In one sentence"
    broken = [limit for limit in limits if not limit["training"]["after"]["kept"]]
    part, part_rows = main_part(summary)
    useless = part["accuracy"]["gain"] <= 0
    if broken:
        reached = "; ".join(f"{limit['text']} (reached {_value(limit, 'training')})" for limit in broken)
        worse = " It also predicts no better than a constant." if useless else ""
        return Answer(
            question,
            "bad",
            f"{_not_kept(broken, limits)} on the training rows",
            f"No model was found that keeps {'all limits' if several else 'it'}; this one is the nearest: "
            f"{reached}.{worse}",
        )
    if useless:
        accuracy, kept = part["accuracy"], f" {subject} kept, but a constant keeps any ratio, too." if limits else ""
        return Answer(
            question,
            "bad",
            "No better than a constant prediction",
            f"The model is right in {numbers.percent(accuracy['after']['value'])} of the {part_rows} rows, a constant "
            f"prediction in {numbers.percent(accuracy['constant'])}.{kept} Do not use this model.",
        )
    if not limits:
        return Answer(question, "plain", NO_LIMIT, "This report describes the model as it is.")
    certificate, rows = _deciding(summary)
    if certificate is None:
        return Answer(
            question,
            "open",
            f"{subject} kept on the training rows",
            "No rows were held out, so nothing is known about new rows.",
        )
    sure = f"with {percent(certificate['confidence'])} confidence"
    held_out = summary["parts"]["held_out"]
    if certificate["verdict"] == "PASS" and held_out is not None and held_out["certificate"]["verdict"] == "FAIL":
        return Answer(
            question,
            "bad",
            f"The rows that were not trained on contradict each other; {subject.lower()} kept on the training rows",
            f"The calibration rows show {sure} that {'all limits are' if several else 'it is'} kept in the population. "
            f"The held-out rows show that {'one is' if several else 'it is'} broken. Each test is wrong for a few of a "
            "hundred draws of rows. Draw new rows.",
        )
    if certificate["verdict"] == "PASS":
        return Answer(
            question,
            "good",
            f"{subject} kept for new rows, {sure}, and on the training rows",
            f"The {rows} rows, which had no part in training, show it for the population that they were drawn from.",
        )
    if certificate["verdict"] == "FAIL":
        return Answer(
            question,
            "bad",
            f"{'At least one limit' if several else 'The limit'} is broken for new rows, {sure}; "
            f"{subject.lower()} kept on the training rows",
            f"The {rows} rows, which had no part in training, show {sure} that "
            f"{'at least one limit' if several else 'it'} is broken in the population that they were drawn from.",
        )
    if summary["calibration"] is not None:
        # A requested confidence that was not reached is the most important fact.
        return Answer(
            question,
            "bad",
            f"No model passed for new rows, {sure}; {subject.lower()} kept on the training rows",
            f"Nothing is claimed for new rows: the calibration rows do not show that "
            f"{'all limits are' if several else 'the limit is'} kept in the population that they were drawn from, not "
            "even by the strictest model. More rows of the smaller groups, or a looser limit, would help.",
        )
    measured = [limit["held_out"] for limit in limits if limit["held_out"]]
    inside = all(each["after"]["kept"] for each in measured) if measured else None
    beyond = [limit for limit in limits if limit["held_out"] and limit["held_out"]["after"]["kept"] is False]
    if beyond:
        values = "; ".join(f"{limit['text']}: {_value(limit, 'held_out')}" for limit in beyond)
        short = f"{_not_kept(beyond, limits)} on the held-out rows ({values}); kept on the training rows"
    else:
        short = f"{subject} kept " + ("among the held-out rows and " if inside else "") + "on the training rows"
    forecast = (summary["run"] or {}).get("forecast") or {}
    unlikely = forecast.get("holds") is not None and forecast["holds"] < UNLIKELY
    return Answer(
        question,
        "bad" if beyond else "open",
        f"{short}; " + ("on new rows a break is likely" if unlikely else "for new rows it is open"),
        f"The {rows} rows do not decide at {percent(certificate['confidence'])} confidence whether "
        f"{'all limits are' if several else 'the limit is'} kept in the population that they were drawn from."
        + (" The distance to the limit may be chance." if beyond else ""),
    )


def _not_kept(broken: Sequence[Any], limits: Sequence[Any]) -> str:
    if len(limits) == 1:
        return "The limit is not kept"
    if len(broken) == len(limits):
        return f"None of the {len(limits)} limits is kept"
    return f"{len(broken)} of {len(limits)} limits are not kept"


def _deciding(summary: Summary) -> tuple[Mapping[str, Any] | None, str]:
    """Return the certificate behind the claim: that of the calibration rows, if the model was chosen by them."""
    if summary["calibration"] is not None:
        return summary["calibration"], "calibration"
    held_out = summary["parts"]["held_out"]
    return (None if held_out is None else held_out["certificate"]), "held-out"


def _training(summary: Summary) -> Answer:
    kept = all(limit["training"]["after"]["kept"] for limit in summary["limits"])
    rows = count(summary["parts"]["training"]["rows"])
    return Answer(
        "Kept on the training rows?",
        "good" if kept else "bad",
        "Yes" if kept else "No",
        f"From the model's own decisions on {rows} rows.",
        tuple(_found(summary, "training")),
    )


def _held_out(summary: Summary) -> Answer:
    part = summary["parts"]["held_out"]
    question = "Kept among the held-out rows?"
    if part is None:
        return Answer(question, "open", "Not known", "No rows were held out.")
    found = [limit["held_out"]["after"]["kept"] for limit in summary["limits"]]
    undefined = None in found and False not in found
    return Answer(
        question,
        "open" if undefined else "good" if all(found) else "bad",
        "Undefined" if undefined else "Yes" if all(found) else "No",
        f"On {count(part['rows'])} rows that had no part in training.",
        tuple(_found(summary, "held_out")),
    )


MOST_LIMITS = 4
"""Largest number of limits in a tile; the table below has all."""


def _found(summary: Summary, part: str) -> Iterator[tuple[str, str]]:
    """Yield each limit with its value, the value without limits, and the worst groups with their rates."""
    limits = sorted(summary["limits"], key=lambda limit: limit[part]["after"]["kept"] is True)  # not kept ones first
    for limit in limits[:MOST_LIMITS]:
        before = limit[part]["before"]
        bounds = [side["bound"] for side in limit["sides"]]
        was = f" (without limits {numbers.beside(before['value'], bounds)})" if before else ""
        worst = limit[part].get("worst")
        yield limit["text"], f"{_value(limit, part)}{was}{', ' + pair_in_words(worst) if worst else ''}"
    if len(limits) > MOST_LIMITS:
        yield "", f"and {len(limits) - MOST_LIMITS} more in the table below"


def _value(limit: Mapping[str, Any], part: str) -> str:
    return numbers.beside(limit[part]["after"]["value"], [side["bound"] for side in limit["sides"]])


def pair_in_words(worst: Mapping[str, Any]) -> str:
    """Return the groups that a value comes from, with their rates.

    >>> groups = [{"group": "a", "everyone": False, "value": 0.5}, {"group": "b", "everyone": False, "value": 0.75}]
    >>> pair_in_words({"grouping": "race", "label": None, "rate": "selection_rate", "groups": groups})
    'from the selection rates of a (0.500) and b (0.750)'
    >>> pair_in_words({"grouping": "race", "label": "high", "rate": "selection_rate", "groups": groups[:1]})
    'from the selection rate of a (0.500), class high'
    """
    named = [
        f"{group_text(None if each['everyone'] else each['group'])} ({numbers.rate(each['value'])})"
        for each in worst["groups"]
    ]
    rate = numbers.words(worst["rate"]) + ("s" if len(named) > 1 else "")
    label = f", class {worst['label']}" if worst["label"] is not None else ""
    return f"from the {rate} of {' and '.join(named)}{label}"


def _forecast(summary: Summary) -> Iterator[Answer]:
    """Yield what to expect on new rows, judged without held-out rows; summaries of earlier versions have none."""
    run = summary["run"] or {}
    forecast, lines = run.get("forecast"), run.get("new_rows") or ()
    if forecast is not None:
        holds = forecast["holds"]
        who = "The limit holds" if len(forecast["limits"]) == 1 else "All limits hold"
        yield Answer(
            f"What to expect on new rows (by the {forecast['rows']} rows)?",
            "open" if holds is None or 0.5 <= holds < LIKELY else "good" if holds >= LIKELY else "bad",
            "No forecast" if holds is None else f"{who} with a probability of {probability_text(holds)}",
            "An estimate, not a guarantee: chance and the optimism of the fit are added to the values reached.",
            tuple(("", line) for line in lines),
        )


def _confidence(summary: Summary) -> Iterator[Answer]:
    held_out = summary["parts"]["held_out"]
    found = {"calibration": summary["calibration"], "held-out": held_out["certificate"] if held_out else None}
    for rows, certificate in found.items():
        if certificate is None:
            continue
        sure = percent(certificate["confidence"])
        several = len(certificate["limits"]) > 1
        yield Answer(
            f"How sure for new rows (by the {rows} rows)?",
            VERDICT_TONES.get(certificate["verdict"], "plain"),
            f"{certificate['verdict']} at {sure}",
            f"At {sure} confidence{', for each limit separately' if several else ''}:",
            tuple(_certificate_lines(certificate["limits"])),
        )


def _certificate_lines(limits: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield each limit of a certificate with its verdict, its bounds, and what would decide."""
    for limit in sorted(limits, key=lambda each: each["verdict"] == "PASS")[:MOST_LIMITS]:
        bounds = bounds_in_words(limit)
        said = [f"In the population {bounds}" if bounds else "", "" if limit["verdict"] == "PASS" else _reason(limit)]
        yield (
            limit["limit"],
            " ".join(f"{sentence(each).rstrip('.')}." for each in [limit["verdict"], *said] if each),
        )
    if len(limits) > MOST_LIMITS:
        yield "", f"and {len(limits) - MOST_LIMITS} more in the table below"


def _reason(limit: Mapping[str, Any]) -> str:
    if limit["times_as_many"] is None:
        return sentence(limit["reason"])
    return f"About {factor_text(limit['times_as_many'])} times as many rows would decide at the observed rates."


def sentence(text: str) -> str:
    """Return text with a capital first letter; the rest may be names and is not changed."""
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
        "How did the accuracy change?",
        "plain",
        numbers.points(-cost),
        f"{sentence(rows)} rows: {numbers.percent(accuracy['before']['value'])} without limits, "
        f"{numbers.percent(accuracy['after']['value'])} with them.{other}",
    )


def _gain(summary: Summary) -> Answer:
    part, rows = main_part(summary)
    accuracy = part["accuracy"]
    good = accuracy["gain"] > 0
    idle = not good and bool(summary["limits"])
    idle = idle and all(limit["training"]["after"]["kept"] for limit in summary["limits"])
    return Answer(
        "Better than a constant prediction?",
        "good" if good else "bad",
        numbers.points(accuracy["gain"]),
        f"The best constant prediction is right in {numbers.percent(accuracy['constant'])} of the {rows} rows, "
        f"this model in {numbers.percent(accuracy['after']['value'])}."
        + (" A constant prediction keeps any ratio, so a limit that is kept in this way says little." if idle else ""),
    )


def main_part(summary: Summary) -> tuple[Mapping[str, Any], str]:
    """Return the main part of the report, and its name."""
    held_out = summary["parts"]["held_out"]
    return (held_out, "held-out") if held_out is not None else (summary["parts"]["training"], "training")


def unasked(summary: Summary) -> list[str]:
    """Return the measures without a limit whose disparity grew, the largest change first."""
    worse = [each for each in summary["changes"] if each["direction"] == "further apart" and not each["asked"]]
    worse.sort(key=lambda each: -abs(each["change"]))
    return [
        f"{numbers.words(each['measure'])} ({each['description']}) of {each['grouping']}"
        + (f", class {each['label']}" if each["label"] is not None else "")
        + f": from {numbers.rate(each['before']['value'])} to {numbers.rate(each['after']['value'])}"
        for each in worse
    ]


def bounds_in_words(certificate: Mapping[str, Any]) -> str:
    """Return the bounds of one limit: the worst value that is not excluded or, if the limit is broken, the best.

    >>> side = {"side": "at least", "limit": 0.8, "worst": 0.76543, "best": 0.9}
    >>> bounds_in_words({"verdict": "INCONCLUSIVE", "bounds": [side]})
    'at least 0.7654'
    >>> bounds_in_words({"verdict": "FAIL", "bounds": [side | {"best": 0.78}]})
    'at most 0.7800'
    """
    said = []
    for side in certificate["bounds"]:
        least = side["side"] == "at least"
        if certificate["verdict"] == "FAIL":
            broken = side["best"] is not None and (
                side["best"] < side["limit"] if least else side["best"] > side["limit"]
            )
            if broken:
                said.append(
                    f"at most {numbers.at_most(side['best'])}"
                    if least
                    else f"at least {numbers.at_least(side['best'])}"
                )
        elif side["worst"] is not None:
            said.append(
                f"at least {numbers.at_least(side['worst'])}" if least else f"at most {numbers.at_most(side['worst'])}"
            )
    return " and ".join(said)
