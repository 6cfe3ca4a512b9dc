"""The HTML as text: what is in it, what is escaped, and that nothing points outside."""

from __future__ import annotations

import base64
import builtins
import hashlib
import html
import itertools
import json
import re
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from tests.report.example import (
    HOSTILE,
    edited,
    fit_result,
    frontier_point,
    hostile_summary,
    large_summary,
    law_summary,
)

from fairbound._escapes import visible
from fairbound._json import as_record, plain
from fairbound.evaluation import certify
from fairbound.report import to_document, to_html, to_markdown
from fairbound.report.drawing import Chart, Scale, Series
from fairbound.report.figures import MOST_ROWS, history_pictures, phases, steps
from fairbound.report.tables import Axis
from fairbound.report.templating import escaped
from fairbound.report.tradeoff import tradeoff
from fairbound.studies import Decisions, Summary, SweptPoint, summarize

ROWS = Decisions(
    y=[0, 1, 1, 0, 1, 0, 1, 0],
    sensitive_features={"side": ["a"] * 4 + ["b"] * 4},
    before=[0, 1, 1, 0, 0, 0, 0, 0],
    after=[0, 1, 1, 1, 1, 0, 0, 0],
)


class Reader(HTMLParser):
    """Collects tags with their attributes, the visible text, and the scripts."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.scripts: list[str] = []
        self._inside: str | None = None
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self._inside = tag
            if tag == "script":
                self.scripts.append("")

    def handle_endtag(self, tag):
        if tag == self._inside:
            self._inside = None

    def handle_data(self, data):
        if self._inside == "script":
            self.scripts[-1] += data
        elif self._inside is None:
            self.text += data + " "

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def law() -> Reader:
    return Reader(to_html(law_summary()))


def test_the_page_says_what_the_summary_holds(law):
    text = " ".join(law.text.split())
    summary = law_summary()
    assert "Passing the bar exam" in text
    assert "disparate_impact >= 0.9" in text
    for group in summary.held_out.after.groups:
        assert group.name in text
        for name in ("selection_rate", "true_positive_rate", "false_positive_rate"):
            estimate = group.rates["1"][name]
            assert f"{estimate.value:.3f} {estimate.lower:.3f} to {estimate.upper:.3f}" in text
    assert summary.reproduction["command"] in text
    assert summary.reproduction["data"]["sha256"] in text
    assert "What the numbers do not say" in text
    assert summary.fit.message in text


def test_the_page_has_the_scores_of_held_out_rows(law):
    scores = law_summary().held_out.after.scores
    for group in scores.groups:
        assert f"{group.auc.value:.3f} ({group.auc.lower:.3f} to {group.auc.upper:.3f})" in law.text
    drawn = {each.get("id") for each in law.all("figure")}
    assert {"reliability-1", "distribution-1", "selection-1", "measures-1"} <= drawn
    assert "Scores by group" not in to_html(summarize([], ROWS, ROWS))


def test_nothing_points_outside(law):
    for tag, attributes in law.tags:
        for name in ("src", "href", "action", "data", "srcset", "poster"):
            target = attributes.get(name)
            assert target is None or target.startswith("#"), (tag, name, target)
    style = to_html(law_summary()).split("<style>")[1].split("</style>")[0]
    assert "url(" not in style
    assert "@import" not in style


def test_the_policy_allows_its_own_scripts_and_nothing_else(law):
    (policy,) = [each["content"] for each in law.all("meta") if each.get("http-equiv") == "Content-Security-Policy"]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    allowed = rules["script-src"].split()
    kinds = [each.get("type") for each in law.all("script")]
    programs = [script for script, kind in zip(law.scripts, kinds, strict=True) if kind is None]
    digests = [base64.b64encode(hashlib.sha256(program.encode()).digest()).decode() for program in programs]
    assert allowed == [f"'sha256-{digest}'" for digest in digests]
    assert len(programs) == 1


def test_the_page_is_built_for_everyone(law):
    assert law.all("html") == [{"lang": "en"}]
    assert len(law.all("h1")) == 1
    levels = [int(tag[1]) for tag, _ in law.tags if re.fullmatch(r"h[1-6]", tag)]
    assert all(b - a <= 1 for a, b in itertools.pairwise(levels))
    assert all(each.get("scope") in ("col", "row", "rowgroup") for each in law.all("th"))
    ids = [attributes["id"] for _, attributes in law.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    targets = [each["href"][1:] for each in law.all("a")]
    assert set(targets) <= set(ids)
    labels = [each["for"] for each in law.all("label")]
    assert labels == ["point"]
    for _, attributes in law.tags:
        if attributes.get("role") in ("img", "region"):
            assert attributes["aria-label"]
        for other in (attributes.get("aria-labelledby") or "").split():
            assert other in ids


def test_no_class_is_written_with_escaped_quotes(law):
    classes = [each["class"] for tag in ("tr", "th", "td", "details") for each in law.all(tag) if each.get("class")]
    assert "everyone" in classes
    assert not any('"' in name for name in classes)


def test_the_data_of_the_script_are_those_of_the_points(law):
    data = [
        json.loads(script)
        for script, attributes in zip(law.scripts, law.all("script"), strict=True)
        if attributes.get("id") == "points-data"
    ]
    (found,) = data
    points = law_summary().frontier
    assert [point["text"] for point in found["points"]] == [point.text for point in points]
    rates = ("selection_rate", "true_positive_rate", "false_positive_rate", "accuracy")
    for point, shown in zip(points, found["points"], strict=True):
        cells = iter(shown["cells"])
        for held_out, training in zip(point.held_out.groups, point.training.groups, strict=True):
            for rate in rates:
                text, _, also, at, start, stop = next(cells)
                assert text == f"{held_out.rates['1'][rate].value:.3f}"
                assert also == f"{training.rates['1'][rate].value:.3f}"
                assert 0 <= start <= at <= stop <= 100


def test_names_that_look_like_programs_are_text():
    html = to_html(hostile_summary())
    page = Reader(html)
    assert [each.get("type") for each in page.all("script")] == ["application/json", None]
    assert not page.all("img")
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    assert all(each["href"].startswith("#") for each in page.all("a"))
    shown = " ".join(page.text.split())
    for name in HOSTILE:
        assert " ".join(visible(name).split()) in shown


def renamed(value, old: str, new: str):
    """Return a summary in which a name is another one, wherever it stands."""
    if isinstance(value, dict):
        return {renamed(key, old, new): renamed(entry, old, new) for key, entry in value.items()}
    if isinstance(value, list):
        return [renamed(entry, old, new) for entry in value]
    return value.replace(old, new) if isinstance(value, str) else value


@settings(max_examples=40)
@given(name=st.text(max_size=40))
def test_any_name_is_text(name):
    summary, tags = _named_summary()
    renamed_summary = as_record(renamed(plain(summary), "NAME", name), Summary)
    assert [tag for tag, _ in Reader(to_html(renamed_summary)).tags] == tags


@cache
def _named_summary() -> tuple[Summary, list[str]]:
    rows = replace(ROWS, sensitive_features={"NAME": ["NAME 1"] * 4 + ["NAME 2"] * 4})
    summary = summarize("disparate_impact >= 0.1", rows, rows, title="NAME", target="NAME", notes=["about NAME"])
    return summary, [tag for tag, _ in Reader(to_html(summary)).tags]


def test_a_page_without_figures_is_small():
    html = to_html(summarize((), replace(ROWS, before=None)))
    assert len(html) < 60_000
    assert "No limit was asked for" in html
    assert "trade-off" not in Reader(html).text.lower()


@pytest.mark.parametrize("limits", [(), "disparate_impact >= 0.3", ["covariance <= 0.2", "selection_rate[a] >= 0.5"]])
@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("held_out", [True, False])
def test_every_combination_of_pieces(limits, before, held_out):
    rows = ROWS if before else replace(ROWS, before=None)
    points = [SweptPoint(point=frontier_point(0.2), training=rows.after, held_out=rows.after if held_out else None)]
    summary = summarize(
        limits,
        rows,
        rows if held_out else None,
        result=fit_result(
            iterations=[{"phase": "free", "loss": 0.5}],
            certificate=certify(rows.y, rows.after, rows.sensitive_features, limits) if limits else None,
        ),
        frontier=points if limits else None,
    )
    text = Reader(to_html(summary)).text
    assert ("not known" in text) == bool(limits)  # the price of a point without prices
    assert ("calibration" in text) == bool(limits)


@pytest.mark.parametrize(
    ("bound", "says"), [(0.2, "nothing: this model keeps it already"), (0.3, "0.10 points of accuracy")]
)
def test_tightening_a_bound_that_the_model_exceeds_costs_nothing(bound, says):
    """The price of a frontier's point is that of its own bound, also if a stricter model has taken its place."""
    groups, decided = ["a"] * 20 + ["b"] * 20, [1] * 10 + [0] * 10 + [1] * 3 + [0] * 17
    rows = Decisions(y=[0, 1] * 20, sensitive_features={"side": groups}, after=decided)
    point = frontier_point(bound, 0.2, 0.1)
    summary = summarize(
        "disparate_impact >= 0.2",
        rows,
        None,
        result=fit_result(iterations=[{"phase": "free", "loss": 0.5}]),
        frontier=[SweptPoint(point=point, training=rows.after, held_out=None)],
    )
    assert summary.frontier[0].training.value == pytest.approx(0.3)
    readout = tradeoff(summary).readouts[0]["The next 0.01 costs"]
    assert readout.startswith(says)
    assert says in Reader(to_html(summary)).text


def test_an_interval_that_begins_at_zero_is_within_the_picture():
    with edited(law_summary()) as values:
        values["frontier"][0]["held_out"]["lower"] = 0.0
    assert tradeoff(values.summary).figure.x.low < 0.0


def test_the_models_that_were_tested_on_calibration_rows():
    assert "How the model was chosen" not in to_html(law_summary())
    trials = [
        {
            "strictness": 0.5,
            "accuracy": 0.875,
            "passed": True,
            "returned": True,
            "bounds": ["at least 0.9111"],
            "confidence": 0.975,
        },
        {
            "strictness": 0.0,
            "accuracy": 0.885,
            "passed": False,
            "returned": False,
            "bounds": ["at least 0.8222"],
            "confidence": 0.975,
        },
    ]
    with edited(law_summary()) as values:
        values["fit"] |= {"trials": trials, "certificate": values["held_out"]["certificate"] | {"rows": 1234}}
    text, claim = to_html(values.summary), values.summary.fit.claim
    assert html.escape(claim) in text
    for words in ("1,234 calibration rows", "How the model was chosen", "50% stricter", "at least 0.8222"):
        assert words in text
    assert text.index("87.50%") < text.index("<strong>returned</strong>") < text.index("88.50%")
    assert "no pass" in text
    card = to_markdown(values.summary)
    assert f"- Calibration rows: {escaped(claim)}" in card
    assert f"Test of the limits on the calibration rows: {escaped(claim)}" in to_document(values.summary, "california")
    assert "| 50% stricter | 87.50% | ✓ passes | at least 0.9111 | returned |" in card


def test_several_classes_and_undefined_rates():
    generator = np.random.default_rng(0)
    y = np.array(["low", "middle", "high"] * 20)
    rows = Decisions(
        y=y,
        sensitive_features={"side": ["a"] * 30 + ["b"] * 29 + ["c"]},
        before=y,
        after=generator.permutation(y),
    )
    text = " ".join(Reader(to_html(summarize("demographic_parity <= 0.5", rows, rows))).text.split())
    assert "Rates by side, class middle" in text
    assert "undefined" in text
    assert "Right" in text


@pytest.mark.slow
def test_a_large_run_stays_usable():
    html = to_html(large_summary())
    small = to_html(law_summary())
    assert len(small) < 250_000
    assert len(html) < 1_500_000
    page = Reader(html)
    assert len(page.tags) < 40_000
    assert page.text.count("group 07 of people") >= 6


def test_a_long_history_is_thinned_and_says_so():
    history = [{"epoch": step, "loss": 1.0, "step_length": 1.0} for step in range(5 * MOST_ROWS)]
    text = Reader(to_html(summarize((), ROWS, result=fit_result(iterations=history)))).text
    assert "1,000 of 5,000 iterations, evenly spaced (all are in the JSON)" in " ".join(text.split())


def test_a_history_without_limits_has_no_empty_panel():
    """Nothing is violated without limits: no empty picture, and no words about violations."""
    history = [{"phase": "free", "loss": 1.0 / (step + 1), "step_length": 1.0} for step in range(5)]
    summary = summarize((), ROWS, result=fit_result(iterations=history))
    assert list(history_pictures(steps(summary.fit.iterations))) == ["loss", "step length"]
    assert "Violations below" not in Reader(to_html(summary)).text


def test_the_history_is_drawn_with_zero_at_the_foot_and_no_step_not_at_all():
    history = steps(
        [
            {"phase": "coarse", "loss": 0.5, "error": 0.2, "surrogate_violation": 0.1, "step_length": 1.0},
            {"phase": "exact", "loss": 0.4, "exact_violation": 0.0, "step_length": 0.0, "locally_infeasible": True},
        ]
    )
    found = {each.name: each for picture in history_pictures(history).values() for each in picture.series}
    assert found["loss"].y == [0.5, 0.4]
    assert found["violation by surrogate"].y == [0.1, None]
    assert found["violation by decisions"].y == [None, 1e-5]
    assert found["step length"].y == [1.0, None]
    for picture in history_pictures(history).values():
        assert len({(each.color, each.dash) for each in picture.series}) == len(picture.series)
    lines = [(name, [each["loss"] for each in found]) for name, found in phases(history)]
    assert lines == [("coarse", [0.5]), ("exact", [0.4])]


def test_the_frontier_has_all_points_whiskers_and_the_limit():
    picture = tradeoff(law_summary()).figure
    points = law_summary().frontier
    training, held_out, *_ = picture.series
    assert list(training.x) == [point.training.value for point in points]
    assert not training.across
    assert list(held_out.across) == [(point.held_out.lower, point.held_out.upper) for point in points]
    for low, high in held_out.across:
        assert picture.x.low <= low < high <= picture.x.high
    assert picture.rules[0].x == 0.9
    assert points[picture.chosen].bound == 0.9


def test_marks_are_drawn_where_their_values_are():
    """The left end of the axes is their least value, the upper end the largest, and a gap interrupts a line."""
    series = Series(
        x=[0.0, 0.5, None, 1.0], y=[0.0, 1.0, 0.5, 2.0], color="after", symbol="circle", up=[(0.0, 1.0)] * 4
    )
    picture = Chart(Scale(0.0, 1.0), Scale(0.0, 2.0), [series])
    left, top, right, bottom = picture.frame
    first, second, third, last = picture.marks(series)
    assert (first.x, first.y, last.x, last.y) == (left, bottom, right, top)
    assert (second.x, second.y) == ((left + right) / 2, (top + bottom) / 2)
    assert third is None
    assert second.whisker == f"M0,{(bottom - top) / 2}V0.0"
    assert list(picture.lines(series)) == [
        f"{first.x},{first.y} {second.x},{second.y}",
        f"{last.x},{last.y}",
    ]


def test_no_room_is_wasted_on_a_constant_far_below():
    picture = tradeoff(large_summary()).figure
    assert len(picture.rules) == 1
    assert picture.y.low > 0.6


@given(low=st.floats(-1e3, 1e3), span=st.floats(1e-3, 1e3))
def test_an_axis_has_a_few_round_ticks(low, span):
    found = Scale(low, low + span).ticks()
    assert 2 <= len(found) <= 7
    assert all(low - 1e-6 * span <= tick <= low + span * (1 + 1e-6) for tick in found)


@given(values=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=20))
def test_an_axis_holds_its_values(values):
    axis = Axis.around(values)
    for value in values:
        assert -1e-6 <= axis.place(value) <= 100 + 1e-6
    assert axis.high - axis.low <= max(values) - min(values) + 0.1 + 1e-9


def test_labels_are_written_as_the_user_writes_them():
    rows = Decisions(y=["No", "NHS yes"] * 20, sensitive_features=["a", "b"] * 20, after=["No", "NHS yes"] * 20)
    text = to_html(summarize((), rows))
    for header in ("Label: No<", "Label: NHS yes<", "True positives<"):
        assert header in text


def test_a_missing_library_is_named_with_its_pip_line(monkeypatch):
    real = builtins.__import__

    def fake(name, *arguments, **options):
        if name.split(".")[0] == "jinja2":
            raise ModuleNotFoundError("No module named jinja2", name="jinja2")
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", fake)
    with pytest.raises(ImportError, match=r'report needs jinja2.*pip install "\.\[cli\]"'):
        to_html(law_summary())
