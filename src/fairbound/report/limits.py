"""The table of each limit: on each part its value before and after, whether it is kept, and the verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fairbound._words import count
from fairbound.report import numbers
from fairbound.report.words import SIGNS, VERDICT_TONES, Tone, bounds_in_words, pair_in_words


@dataclass(frozen=True)
class LimitLine:
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
    lines: tuple[LimitLine, ...]
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
    held_out = summary["parts"]["held_out"]
    needed = () if held_out is None else tuple(_needed(held_out["certificate"], place))
    return LimitTable(limit["text"], price, tuple(lines), needed)


@dataclass(frozen=True)
class TrialLine:
    """One model that was tested on the calibration rows."""

    trained_for: str
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
            ("good", f"{SIGNS['good']} passes") if trial["passed"] else ("open", f"{SIGNS['open']} no pass: stop"),
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


def _line(rows: str, found: Mapping[str, Any], bounds: list[float], certificate: Mapping[str, Any] | None) -> LimitLine:
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
    return LimitLine(
        rows,
        "–" if before is None else numbers.beside(before["value"], bounds),
        numbers.beside(after["value"], bounds),
        kept[after["kept"]],
        verdict,
        "" if certificate is None else bounds_in_words(certificate),
        pair_in_words(found["worst"]) if found.get("worst") else "",
    )
