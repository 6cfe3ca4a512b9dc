"""Limits: text is read as what it says or refused, and what is read says itself again in words."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import hypothesis
import numpy as np
from hypothesis import strategies as st
from tests.fuzz import generators as draw
from tests.fuzz.harness import Refused, attempt, cases, expect

from fairbound import Constraint, rate_limit
from fairbound.fairness import CONSTRAINTS, MEASURES, parse_constraint

NAMES = (
    "female",
    "White",
    "age group",
    "x1",
    "Ä",
    "A\u0308",
    "1",
    "1.0",
    "non-white",
    "a & b",
    "ﬁ",
    "o'neil",
    "20-30",
    "🙂",
)
BLANKS = (" ", "  ", "\t", " \n ", "\u00a0")
INSERTED = (
    "<", ">", "=", "<=", "=>", "==", "(", ")", "[", "]", ",", "%", "%%", "against ", "for class ", "overall",
    "e5", "inf", "nan",
    "-", "+", ".", "0", "9" * 50, "1e999", "1e-999", " " * 60, "\t", "\n", "\x00", "\x1b[0m", "\u2264",
    "\u2265", "١", "½", "_", "\u00a0",
    "disparate_impact", "selection_rate", '"', "'", "{}", "%s", "\ud800", "\u202e", "against", "class",
    "0.8 <= ", " <= 0.4",
)  # fmt: skip


def written(rng: np.random.Generator) -> tuple[str, str]:
    """Return a name as it stands in a limit, in quotes where it needs them, and the name."""
    if draw.chance(rng, 0.6):
        name = draw.pick(rng, NAMES)
        return name, name
    name = draw.pick(rng, [word for word in draw.WORDS if word.strip()])
    return json.dumps(name, ensure_ascii=bool(rng.integers(2))), name


def number(rng: np.random.Generator, largest: float = 1.0) -> tuple[str, float]:
    """Return a number as people write it, and its value."""
    value = round(float(rng.random()) * largest, int(rng.integers(0, 5)))
    texts = {f"{value:g}": value, repr(value): value, f"{value:.6f}": float(f"{value:.6f}")}
    texts[f"{value:e}"] = float(f"{value:e}")
    texts[f"{100 * value:.4f}%"] = float(f"{100 * value:.4f}") / 100.0
    if value == 0.5:
        texts[".5"] = 0.5
    text = draw.pick(rng, list(texts))
    return text, texts[text]


@cases("limit-text", few=500, many=20_000)
def test_a_limit_in_words_is_read_as_what_it_says(cases):
    cases.run(one_text)


def one_text(rng: np.random.Generator) -> None:
    name = draw.pick(rng, list(MEASURES))
    measure = MEASURES[name]
    wanted: dict[str, Any] = {"against": "pairwise", "reference": None, "group": None, "columns": None, "classes": None}
    before, after = "", ""
    if draw.chance(rng, 0.4):
        texts, wanted["columns"] = zip(*(written(rng) for _ in range(rng.integers(1, 3))), strict=True)
        before += f"({', '.join(texts)})"
    if measure.comparison == "value" and draw.chance(rng, 0.5):
        said, wanted["group"] = written(rng)
        before += f"[{said}]"
    if measure.comparison in ("ratio", "difference") and draw.chance(rng, 0.5):
        if measure.overall and draw.chance(rng, 0.3):
            said = wanted["against"] = "overall"
        else:
            said, wanted["reference"] = written(rng)
        after += f" against {said}"
    if draw.chance(rng, 0.3):
        texts, wanted["classes"] = zip(*(written(rng) for _ in range(rng.integers(1, 3))), strict=True)
        after += f" for {draw.pick(rng, ['class', 'classes'])} {', '.join(texts)}"
    largest = 0.25 if measure.comparison == "covariance" else 1.0
    bounds = sorted((number(rng, largest) for _ in range(2)), key=lambda each: each[1])
    directed = wanted["against"] == "overall" or wanted["reference"] is not None
    two_sided = measure.comparison in ("value", "covariance") or directed
    if two_sided and bounds[1][1] > 0 and draw.chance(rng, 0.4):
        (low, least), (high, most) = bounds
        text, wanted["bound"] = f"{low} <= {name}{before} <= {high}{after}", (least, most)
    else:
        said, value = bounds[0]
        at_least = measure.comparison == "ratio" or (measure.comparison == "value" and draw.chance(rng, 0.5))
        text = f"{name}{before} {'>=' if at_least else '<='} {said}{after}"
        wanted["bound"] = value if measure.comparison != "value" else (value, None) if at_least else (None, value)
    if draw.chance(rng, 0.3):
        text = "  " + re.sub(r" (?=[<>=]|against|for)|(?<=[<>=,]) ", lambda _: draw.pick(rng, BLANKS), text) + "\n"
    found = attempt(parse_constraint, text)
    expect(not isinstance(found, Refused), "refused", text, found)
    expect(found.name == name, text, "is", found.name)
    for field, value in wanted.items():
        expect(getattr(found, field) == value, text, "has", field, getattr(found, field), "and not", value)
    expect(parse_constraint(str(found)) == found, text, "is said as", str(found))


@cases("limit-mangled", few=800, many=18_000)
def test_mangled_text_is_refused_or_says_itself_again(cases):
    cases.run(one_mangled)


def one_mangled(rng: np.random.Generator) -> None:
    rows = draw.draw_rows(rng, most=13)
    text = str(draw.draw_limit(rng, rows, list(rows.columns)))
    for _ in range(int(rng.integers(1, 4))):
        place = int(rng.integers(len(text) + 1))
        end = min(len(text), place + int(rng.integers(0, 4)))
        inserted = draw.pick(rng, INSERTED) if draw.chance(rng, 0.7) else ""
        if draw.chance(rng, 0.02):
            inserted *= 2000
        text = text[:place] + inserted + text[end:]
    read_and_say(text)


def read_and_say(text: str) -> None:
    found = attempt(parse_constraint, text)
    if isinstance(found, Refused):
        expect(len(found.sentence) < 3000, "a sentence of", len(found.sentence), "letters for", len(text))
        return
    again = attempt(parse_constraint, str(found))
    expect(again == found, ascii(text), "is read as", repr(found), "and said as", str(found))


@hypothesis.given(
    st.text(max_size=60)
    | st.lists(st.sampled_from([*MEASURES, *NAMES, *INSERTED, "0.8", ">= 0.8", "<= 0.1"]), max_size=8).map(" ".join)
)
def test_any_text_is_refused_or_says_itself_again(text):
    read_and_say(text)


@cases("limit-object", few=400, many=10_000)
def test_limits_made_of_anything_are_refused_or_can_be_said(cases):
    cases.run(one_object)


def one_object(rng: np.random.Generator) -> None:
    odd: list[Any] = [
        None, True, False, 0, 1, -1, 0.8, 1e308, -0.0, math.nan, math.inf, -math.inf, "0.8", b"x", (0.1,
        0.2), (0.2, 0.1), (None, None),
        (0.1,), (1, 2, 3), [0.1, 0.2], {}, [], "", "overall", "pairwise", "x", 10**400, 1 + 1j,
        np.float32(0.3), np.array(0.3),
        np.array([0.1, 0.2]), object(), ("a", "b"), ["a", None], {"a"}, lambda: 0, (math.nan, 1), (-math.inf,
        math.inf), (0, 0), int,
        [[]], ([],), (b"x",), (None,), ("",), np.int64(1),
    ]  # fmt: skip
    options: dict[str, Any] = {}
    for name in ("against", "reference", "group", "columns", "classes", "surrogate", "margin"):
        if draw.chance(rng, 0.15):
            options[name] = draw.pick(rng, odd)
    bound = draw.pick(rng, odd) if draw.chance(rng, 0.6) else 0.2
    kind = draw.pick(rng, ["named", "named", "measure", "rate"])
    if kind == "named":
        found = attempt(draw.pick(rng, list(CONSTRAINTS.values())), bound, **options)
    elif kind == "measure":
        name = draw.pick(rng, [*MEASURES, *odd])
        found = attempt(Constraint, draw.pick(rng, [bound, (bound, None)]), measure=name, **options)
    else:
        name = draw.pick(rng, [*list(MEASURES)[-9:], *odd])
        found = attempt(rate_limit, name, lower=bound, upper=draw.pick(rng, odd), **options)
    if isinstance(found, Refused):
        return
    str(found), repr(found), hash(found)
    lower, upper = found.limits
    expect(lower <= upper, repr(found), "has the bounds", lower, upper)
