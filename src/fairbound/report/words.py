"""The answers in words: which limits were asked for, whether they are kept, how certain that is, and the cost.

Each answer has a *tone*, "good", "open", "bad" or "plain", for its colour and its sign.  The words do not depend on it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from fairbound._words import as_level, count, factor_text, group_text, probability_text
from fairbound.evaluation import LimitCertificate, Verdict, sides_in_words
from fairbound.report import numbers

if TYPE_CHECKING:
    from fairbound.studies import LimitFacts, LimitOnPart, Summary, WorstPair

Tone = Literal["good", "open", "bad", "plain"]

SIGNS: dict[Tone, str] = {"good": "✓", "open": "?", "bad": "✗", "plain": "–"}
VERDICT_TONES: dict[Verdict, Tone] = {Verdict.PASS: "good", Verdict.FAIL: "bad", Verdict.INCONCLUSIVE: "open"}
NO_LIMIT = "No limit was asked for"
LIKELY, UNLIKELY = 0.9, 1 / 3  # a probability from the first on is called good; below the second, a break is likely
MOST_LIMITS = 4
"""Largest number of limits in a tile; the table below has all."""


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


def limit_in_words(limit: LimitFacts) -> str:
    """Return what a limit asks for: "ratio of selection rates between any two groups of race at least 0.9"."""
    known = {"at least": limit.lower, "at most": limit.upper}
    sides = " and ".join(f"{side} {numbers.short(bound)}" for side, bound in known.items() if bound is not None)
    where = " and of ".join(limit.groupings)
    if limit.comparison == "value":
        who = f"group {limit.group}" if limit.group is not None else f"every group of {where}"
        text = f"{numbers.words(limit.measure)} of {who}"
    elif limit.comparison == "covariance":
        text = f"{limit.description}, for groups of {where}, in size"
    elif limit.against == "pairwise":
        text = f"{limit.description} between any two groups of {where}"
    else:
        other = "everyone" if limit.against == "overall" else f"group {limit.against}"
        text = f"{limit.description} between each group of {where} and {other}"
    which = f", for class {', '.join(limit.classes)}," if limit.classes else ""
    return f"{text}{which} {sides}"


def answers(summary: Summary) -> list[Answer]:
    """Return the verdict, then what was asked, what holds on new rows, and what it cost."""
    found = [_interrupted(summary, _verdict(summary)), _asked(summary)]
    return [*found, *([_new_rows(summary)] if summary.limits else []), _cost(summary)]


def in_short(summary: Summary) -> list[str]:
    """Return all answers, a line for each."""
    verdict, *others = answers(summary)
    lines = [f"{each.question} {each.short}. {each.sentence}".rstrip() for each in others]
    return [f"{verdict.sign} {verdict.short}. {verdict.sentence}", *lines]


def _interrupted(summary: Summary, verdict: Answer) -> Answer:
    """Return the verdict.  If the run was interrupted, say so first, and do not call the verdict good."""
    if not summary.interrupted:
        return verdict
    short = verdict.short[:1].lower() + verdict.short[1:]
    if verdict.short == NO_LIMIT:  # the interrupt came before the limits were tried
        short = "the model is not finished"
    return replace(
        verdict,
        tone="bad" if verdict.tone == "bad" else "open",
        short=f"Interrupted: {short}",
        sentence=f"The run was interrupted. This report is about {summary.interrupted} {verdict.sentence}",
    )


def _verdict(summary: Summary) -> Answer:
    """Return the verdict, the worst news first: limits not kept, then a model no better than a constant."""
    say = partial(Answer, "In one sentence")
    limits, several = summary.limits, len(summary.limits) > 1
    subject = {1: "The limit is", 2: "Both limits are"}.get(len(limits), f"All {len(limits)} limits are")
    all_of_them = "all limits are" if several else "the limit is"
    useless = summary.useless
    broken = _in_part(summary, "training", kept=(False, None))
    if broken:
        worse = " It also predicts no better than a constant." if useless else ""
        reached = "; ".join(f"{limit.text} (reached {_value(limit, found)})" for limit, found in broken)
        return say(
            "bad",
            f"{_not_kept(len(broken), len(limits))} on the training rows",
            f"No model was found that keeps {'all limits' if several else 'it'}; this one is the nearest: "
            f"{reached}.{worse}",
        )
    if useless:
        kept = f" {subject} kept, but a constant keeps any ratio, too." if limits else ""
        return say(
            "bad",
            "No better than a constant prediction",
            f"{_usefulness(summary)}{kept} Do not use this model.",
        )
    if not limits:
        return say("plain", NO_LIMIT, "This report describes the model as it is.")
    if not summary.certificates:
        said = "No rows were held out, so nothing is known about new rows."
        return say("open", f"{subject} kept on the training rows", said)
    (rows, certificate), *others = summary.certificates.items()
    sure = f"with {as_level(certificate.confidence)} confidence"
    if certificate.passed and any(each.verdict is Verdict.FAIL for _, each in others):
        return say(
            "bad",
            f"The rows that were not trained on contradict each other; {subject.lower()} kept on the training rows",
            f"The calibration rows show {sure} that {'all limits are' if several else 'it is'} kept in the population. "
            f"The held-out rows show that {'one is' if several else 'it is'} broken. Each test is wrong for a few of a "
            "hundred draws of rows. Draw new rows.",
        )
    if certificate.passed:
        return say(
            "good",
            f"{subject} kept for new rows, {sure}, and on the training rows",
            f"The {rows} rows, which had no part in training, show it for the population that they were drawn from.",
        )
    if certificate.verdict is Verdict.FAIL:
        return say(
            "bad",
            f"{'At least one limit' if several else 'The limit'} is broken for new rows, {sure}; "
            f"{subject.lower()} kept on the training rows",
            f"The {rows} rows, which had no part in training, show {sure} that "
            f"{'at least one limit' if several else 'it'} is broken in the population that they were drawn from.",
        )
    if rows == "calibration":  # a requested confidence that was not reached is the most important fact
        return say(
            "bad",
            f"No model passed for new rows, {sure}; {subject.lower()} kept on the training rows",
            f"Nothing is claimed for new rows: the calibration rows do not show that {all_of_them} kept in the "
            "population that they were drawn from, not even by the strictest model. More rows of the smaller groups, "
            "or a looser limit, would help.",
        )
    beyond = _in_part(summary, "held-out", kept=(False,))
    if beyond:
        values = "; ".join(f"{limit.text}: {_value(limit, found)}" for limit, found in beyond)
        short = f"{_not_kept(len(beyond), len(limits))} on the held-out rows ({values}); kept on the training rows"
    else:
        inside = not _in_part(summary, "held-out", kept=(None,))
        short = f"{subject} kept " + ("among the held-out rows and " if inside else "") + "on the training rows"
    forecast = None if summary.fit is None else summary.fit.forecast
    unlikely = forecast is not None and forecast.chance < UNLIKELY
    return say(
        "bad" if beyond else "open",
        f"{short}; " + ("on new rows a break is likely" if unlikely else "for new rows it is open"),
        f"The {rows} rows do not decide at {as_level(certificate.confidence)} confidence whether {all_of_them} kept in "
        "the population that they were drawn from." + (" The distance to the limit may be chance." if beyond else ""),
    )


def _in_part(summary: Summary, part: str, kept: Sequence[bool | None]) -> list[tuple[LimitFacts, LimitOnPart]]:
    """Return the limits with such an outcome on one part, and their values there."""
    found = zip(summary.limits, summary.parts[part].limits, strict=True)
    return [(limit, each) for limit, each in found if each.after.kept in kept]


def _not_kept(broken: int, limits: int) -> str:
    if limits == 1:
        return "The limit is not kept"
    return f"None of the {limits} limits is kept" if broken == limits else f"{broken} of {limits} limits are not kept"


def _asked(summary: Summary) -> Answer:
    limits, question = summary.limits, "What was asked?"
    if not limits:
        return Answer(question, "plain", "No limit", "The model was trained for accuracy alone.")
    kept = all(limit.after.kept for limit in summary.training.limits)
    return Answer(
        question,
        "good" if kept else "bad",
        limits[0].text if len(limits) == 1 else f"{len(limits)} limits",
        f"{'Kept' if kept else 'Not kept'} on the {count(summary.training.rows)} training rows, by the model's own "
        "decisions.",
        tuple(_found(summary, "training")),
    )


def _new_rows(summary: Summary) -> Answer:
    """Return what rows show that were not trained on, and what the forecast expects without them."""
    said, sentences, tones, lines = list[str](), list[str](), list[Tone](), list[tuple[str, str]]()
    if summary.held_out is not None:
        found = [limit.after.kept for limit in summary.held_out.limits]
        tones.append("bad" if False in found else "open" if None in found else "good")
        word = {"bad": "Not kept", "open": "Undefined", "good": "Kept"}[tones[-1]]
        said.append(f"{word} among the held-out rows")
        here = [_value(*each) for each in zip(summary.limits, summary.held_out.limits, strict=True)]
        where = f"on {count(summary.held_out.rows)} held-out rows, which had no part in training."
        sentences.append(f"{here[0] if len(here) == 1 else 'Measured'} {where}")
        lines += _found(summary, "held-out")
    for rows, certificate in summary.certificates.items():
        tones.append(VERDICT_TONES.get(certificate.verdict, "plain"))
        by = f" by the {rows} rows" if len(summary.certificates) > 1 else ""
        said.append(f"{certificate.verdict.value} at {as_level(certificate.confidence)}{by}")
        lines += _certificate_lines(certificate.limits)
    forecast = None if summary.fit is None else summary.fit.forecast
    if summary.fit is not None and forecast is not None:
        holds = forecast.holds
        who = "The limit holds" if len(forecast.limits) == 1 else "All limits hold"
        if holds is not None:
            sentences.append(f"{who} on new rows with a probability of {probability_text(holds)}: an estimate.")
        if not tones:
            tones.append("open" if holds is None or holds < LIKELY else "good")
        lines += [("", line) for line in summary.fit.about_new_rows]
    worst: Tone = next((tone for tone in ("bad", "open", "good") if tone in tones), "open")
    if summary.held_out is None:
        sentences.append("No rows were held out.")
    return Answer("What holds on new rows?", worst, "; ".join(said) or "Not known", " ".join(sentences), tuple(lines))


def _found(summary: Summary, part: str) -> Iterator[tuple[str, str]]:
    """Yield each limit with its value, the value without limits, and the worst groups; not kept ones first."""
    known = [*_in_part(summary, part, kept=(False, None)), *_in_part(summary, part, kept=(True,))]
    for limit, found in known[:MOST_LIMITS]:
        was = f" (without limits {numbers.beside(found.before.value, limit.bounds)})" if found.before else ""
        worst = f", {pair_in_words(found.worst)}" if found.worst else ""
        yield limit.text, f"{_value(limit, found)}{was}{worst}"
    yield from _more(len(known))


def _more(known: int) -> Iterator[tuple[str, str]]:
    if known > MOST_LIMITS:
        yield "", f"and {known - MOST_LIMITS} more in the table below"


def _value(limit: LimitFacts, found: LimitOnPart) -> str:
    return numbers.beside(found.after.value, limit.bounds)


def pair_in_words(worst: WorstPair) -> str:
    """Return the groups that a value comes from, with their rates.

    >>> from fairbound.studies import WorstPair
    >>> pair_in_words(WorstPair("race", None, "selection_rate", (("a", 0.5), ("b", 0.75))))
    'from the selection rates of a (0.500) and b (0.750)'
    >>> pair_in_words(WorstPair("race", "high", "selection_rate", (("a", 0.5),)))
    'from the selection rate of a (0.500), class high'
    """
    named = [f"{group_text(group)} ({numbers.rate(rate)})" for group, rate in worst.groups]
    rate = numbers.words(worst.rate) + ("s" if len(named) > 1 else "")
    label = f", class {worst.label}" if worst.label is not None else ""
    return f"from the {rate} of {' and '.join(named)}{label}"


def _certificate_lines(limits: Sequence[LimitCertificate]) -> Iterator[tuple[str, str]]:
    """Yield each limit of a certificate with its verdict, its bounds, and what would decide."""
    for limit in sorted(limits, key=lambda each: each.verdict is Verdict.PASS)[:MOST_LIMITS]:
        bounds, passed = bounds_in_words(limit), limit.verdict is Verdict.PASS
        said = [limit.verdict.value, f"In the population {bounds}" if bounds else "", "" if passed else _reason(limit)]
        yield limit.limit, " ".join(f"{sentence(each).rstrip('.')}." for each in said if each)
    yield from _more(len(limits))


def _reason(limit: LimitCertificate) -> str:
    if limit.times_as_many is None:
        return sentence(limit.reason)
    return f"About {factor_text(limit.times_as_many)} times as many rows would decide at the observed rates."


def sentence(text: str) -> str:
    """Return text with a capital first letter; the rest may be names and is not changed."""
    return text[:1].upper() + text[1:]


def _usefulness(summary: Summary) -> str:
    if summary.reached is not None:
        return summary.reached.in_words
    part = summary.main.accuracy
    return (
        f"The model is right in {numbers.percent(part.after.value)} of the {summary.main_rows} rows, a constant "
        f"prediction in {numbers.percent(part.constant)}."
    )


def _cost(summary: Summary) -> Answer:
    part, there, reached = summary.main.accuracy, summary.training.accuracy.cost, summary.reached
    after, gain, said = numbers.percent(part.after.value), part.gain if reached is None else reached.gain, list[str]()
    if part.before is not None:
        said.append(f"{sentence(summary.main_rows)} rows: {numbers.percent(part.before.value)} without limits,")
        said.append(f"{after} with them.")
        said += [] if summary.held_out is None or there is None else [f"On the training rows {numbers.points(-there)}."]
    else:
        said.append(f"{sentence(summary.main_rows)} rows: {after}.")
    constant = numbers.percent(part.constant)
    said.append(f"The best constant prediction is right in {constant}: gain {numbers.points(part.gain)}.")
    if reached is not None:
        said.append(f"On the training rows, judged by {reached.objective}: {reached.compared}.")
    elif gain <= 0 and summary.limits and all(limit.after.kept for limit in summary.training.limits):
        said.append("A constant prediction keeps any ratio, so a limit that is kept in this way says little.")
    return Answer(
        "How accurate is it?" if part.cost is None else "What did it cost?",
        "plain" if gain > 0 else "bad",
        f"{after} right" if part.cost is None else f"{numbers.points(-part.cost)} of accuracy",
        " ".join(said),
    )


def unasked(summary: Summary) -> list[str]:
    """Return the measures without a limit whose disparity grew, the largest change first."""
    worse = [each for each in summary.changes if each.direction == "further apart" and not each.asked]
    worse.sort(key=lambda each: -abs(each.change or 0.0))
    return [
        f"{numbers.words(each.after.measure)} ({each.after.description}) of {each.after.grouping}"
        + (f", class {each.after.label}" if each.after.label is not None else "")
        + f": from {numbers.rate(each.before.value)} to {numbers.rate(each.after.value)}"
        for each in worse
    ]


def bounds_in_words(limit: LimitCertificate) -> str:
    """Return the bounds of one limit: the worst value that is not excluded or, if the limit is broken, the best."""
    failed = limit.verdict is Verdict.FAIL
    known = tuple(side for side in limit.bounds if (side.broken if failed else math.isfinite(side.worst)))
    return sides_in_words(replace(limit, bounds=known)).replace("-", numbers.MINUS) if known else ""
