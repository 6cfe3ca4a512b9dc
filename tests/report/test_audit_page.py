"""The page of an audit: complete in itself, with the numbers of the audit, readable on a narrow screen."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tests.browser import Visit, colours
from tests.report.example import HOSTILE

from fairbound import audit
from fairbound._escapes import visible
from fairbound.report import audit_to_html
from fairbound.report.figures import score_pictures


@pytest.fixture(scope="module")
def found():
    rng = np.random.default_rng(0)
    groups = {"sex": rng.choice(["female", "male"], 600), "region": rng.choice(["north", "south", "islands"], 600)}
    return audit(rng.integers(0, 2, 600), rng.integers(0, 2, 600), groups, groups="both")


def page_of(found, **options):
    return audit_to_html(found, **options)


def test_the_page_has_the_numbers_of_the_audit(found):
    page = page_of(
        found, limits=[{"limit": "disparate_impact >= 0.8", "value": 0.79996, "kept": False, "bounds": [0.8]}]
    )
    for group in found.groups:
        rate = group.rate("selection_rate")
        assert f"{rate.value:.3f} " in page
        assert f"{rate.lower:.3f} to {rate.upper:.3f}" in page
    assert f"<strong>{found.measure('equalized_odds', 'sex').value:.3f}</strong>" in page
    assert "0.79996" in page  # and not rounded to the bound
    assert "✗ not kept" in page
    assert all(note in page for note in found.notes)


def test_it_asks_for_nothing_and_runs_nothing(found):
    page = page_of(found)
    assert "default-src &#39;none&#39;" in page
    assert not re.search(r"<script|src=|href=|url\(", page)


def test_names_of_users_are_text():
    groups = [HOSTILE[place % len(HOSTILE)] for place in range(100)]
    found = audit([0, 1] * 50, [0, 1, 1, 1] * 25, {HOSTILE[0]: groups, "\x1b": groups}, measures=["disparate_impact"])
    page = page_of(found, title=HOSTILE[1])
    assert "<script" not in page
    assert "<img" not in page
    assert "\\u2028" in page
    assert "\x1b" not in page


def test_several_classes_have_a_table_each():
    found = audit(["a", "b", "c"] * 30, ["a", "b", "b"] * 30, ["x", "y"] * 45)
    assert page_of(found).count("Selection rate, class ") == 3


@pytest.mark.parametrize("width", [390, 500, 1280])
def test_nothing_sticks_out_of_the_page(chromium, found, tmp_path, width):
    (tmp_path / "audit.html").write_text(page_of(found), encoding="utf-8")
    visit = Visit(chromium, tmp_path / "audit.html", viewport={"width": width, "height": 800})
    with visit as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        sides = "all => all.map(each => each.getBoundingClientRect().right)"
        assert max(page.eval_on_selector_all("main table:not(.dense), .strip", sides)) <= width
        assert visit.complaints == []
        assert len(visit.requests) == 1


@pytest.fixture(scope="module")
def scored():
    rng = np.random.default_rng(1)
    sex = rng.choice(["female", "male", HOSTILE[0]], 900, p=[0.5, 0.4, 0.1])
    score = rng.beta(2 + (sex == "male"), 3)
    return audit((rng.random(900) < score).astype(int), None, {"sex": sex}, score=score)


def test_the_page_has_the_tests_of_selection_rates(found):
    page = page_of(found)
    for test in found.significance().tests:
        assert f">{test.ratio:.3f}</span>" in page
        assert f"{test.lower:.3f} to {test.upper:.3f}" in page
        assert f"{test.selected} of {test.rows}" in page
    assert page.count("How much chance may explain") == 3


def test_weighted_rows_have_no_tests():
    weighted = audit(None, [0, 1] * 20, ["a", "b"] * 20, sample_weight=[1, 1, 2, 2] * 10)
    assert "How much chance" not in page_of(weighted)


def test_an_audit_without_labels_has_a_page():
    page = page_of(audit(None, [0, 1, 1, 1] * 20, ["a", "b"] * 40))
    assert "Selection rate" in page
    assert "True-positive" not in page
    assert "Decision: 1" in page


def test_the_table_of_scores_has_the_numbers(scored):
    page = page_of(scored)
    for group in scored.scores.groups:
        assert f"{group.auc.value:.3f} ({group.auc.lower:.3f} to {group.auc.upper:.3f})" in page
        assert f"{group.calibration_error:.3f}" in page


PICTURES = ("reliability-1", "distribution-1", "selection-1", "measures-1")


@pytest.mark.parametrize("width", [390, 1280])
def test_scores_are_drawn(chromium, scored, tmp_path, width):
    (tmp_path / "audit.html").write_text(page_of(scored), encoding="utf-8")
    visit = Visit(chromium, tmp_path / "audit.html", viewport={"width": width, "height": 800})
    with visit as page:
        for name in PICTURES:
            assert page.locator(f"#{name} .picture").count() == (3 if name == "reliability-1" else 1)
            assert colours(page.locator(f"#{name}").screenshot()) > 30
            box = page.locator(f"#{name}").bounding_box()
            assert 0 <= box["x"] <= box["x"] + box["width"] <= width
        assert page.locator("#distribution-1 .keys button").all_text_contents()[0] == visible(HOSTILE[0])
        assert page.locator("#reliability-1 .whose").all_text_contents()[0] == visible(HOSTILE[0])
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate("window.hacked") is None
        assert visit.complaints == []
        assert len(visit.requests) == 1


def test_a_name_shows_or_hides_a_curve_and_the_pointer_reads_it(chromium, scored, tmp_path):
    (tmp_path / "audit.html").write_text(page_of(scored), encoding="utf-8")
    with Visit(chromium, tmp_path / "audit.html", viewport={"width": 1280, "height": 800}) as page:
        figure = page.locator("#measures-1")
        button, curve = figure.get_by_role("button", name="equal impact"), figure.locator("[data-name='equal impact']")
        assert not curve.is_visible()
        button.click()
        assert curve.is_visible()
        assert button.get_attribute("aria-pressed") == "true"
        curves = scored.scores.curve("sex")
        place = len(curves.thresholds) // 2
        figure.locator(".picture").hover()
        said = figure.locator(".said-at").text_content()
        assert "equal impact" in said
        read = float(said.split("equal impact ")[1].split(",")[0])
        across = float(said.split(":")[0])
        near = min(range(len(curves.thresholds)), key=lambda at: abs(curves.thresholds[at] - across))
        assert 0 < near <= 2 * place
        assert read == pytest.approx(curves.measures["equal_impact"][near], abs=0.02)


def test_scores_on_paper_and_without_scripts(chromium, scored, tmp_path):
    (tmp_path / "audit.html").write_text(page_of(scored), encoding="utf-8")
    with Visit(chromium, tmp_path / "audit.html", java_script_enabled=False) as page:
        page.emulate_media(media="print")
        for name in PICTURES:
            assert page.locator(f"#{name} .picture").first.is_visible()
        assert f"{scored.scores.group('male').auc.value:.3f}" in page.locator("main").inner_text()
        assert len(page.pdf()) > 20_000


def test_many_groups_are_drawn_as_the_largest_ones():
    rng = np.random.default_rng(2)
    many = audit(None, None, rng.choice(list("abcdefghij"), 500), score=rng.random(500))
    (view,) = score_pictures(many.scores)
    assert (view.shown, view.left_out) == (6, 4)
    assert "6 largest" in page_of(many)
    assert len(view.figures["distribution-1"].pictures[""].series) == 6
    assert "reliability-1" not in view.figures  # there are no labels
