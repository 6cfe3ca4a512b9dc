"""The page of an audit: complete in itself, with the numbers of the audit, readable on a narrow screen."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tests.browser import Visit
from tests.report.example import HOSTILE

from fairbound import audit
from fairbound.report import audit_to_html


@pytest.fixture(scope="module")
def found():
    rng = np.random.default_rng(0)
    groups = {"sex": rng.choice(["female", "male"], 600), "region": rng.choice(["north", "south", "islands"], 600)}
    return audit(rng.integers(0, 2, 600), rng.integers(0, 2, 600), groups, groups="both")


def page_of(found, **options):
    return audit_to_html(found.to_dict(), notes=found.notes, **options)


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
