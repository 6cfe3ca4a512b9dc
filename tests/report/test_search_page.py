"""The page of a search for alternatives: its numbers, in a browser, narrow, on paper, and with hostile names."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.browser import Visit, colours
from tests.report.example import HOSTILE

import fairbound
from fairbound import alternatives, load_dataset
from fairbound.report import search_to_html


@pytest.fixture(scope="module")
def found():
    law = fairbound.studies.with_sensitive(load_dataset("law"), None).take(np.arange(0, 20_000, 10))
    return alternatives(law, bounds=[0.85, 0.95], models=["linear"], choosing_size=0.3, final_size=0.3)


@pytest.fixture(scope="module")
def hostile(found):
    candidates = tuple(replace(each, kind=f"{each.kind} {HOSTILE[1]}") for each in found.candidates)
    data = {**found.log["data"], "name": HOSTILE[0]}
    return replace(found, baseline=HOSTILE[0], candidates=candidates, log={**found.log, "data": data})


def test_the_page_has_the_numbers(found):
    page = search_to_html(found)
    for each in found.candidates:
        assert f"{each.judged.accuracy.value:.2%}" in page
        assert f"{each.judged.measures['disparate_impact'].value:.3f}" in page
    assert found.sentence in page
    assert found.log["lock"]["sha256"] in page
    assert found.log["lock"]["content"]["rows_sha256"] in page


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", ["found", "hostile"])
def test_it_is_drawn_and_nothing_sticks_out(chromium, request, tmp_path, width, name):
    path = tmp_path / "search.html"
    path.write_text(search_to_html(request.getfixturevalue(name)), encoding="utf-8")
    visit = Visit(chromium, path, viewport={"width": width, "height": 800})
    with visit as page:
        picture = page.locator(".picture")
        assert picture.count() == 1
        assert colours(picture.screenshot()) > 20
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.locator(".scroll:not([tabindex='0'])").count() == 0
        assert page.evaluate("window.hacked") is None
        assert visit.complaints == []
        assert visit.requests == [path.as_uri()]


def test_on_paper_and_without_scripts(chromium, found, tmp_path):
    path = tmp_path / "search.html"
    path.write_text(search_to_html(found), encoding="utf-8")
    with Visit(chromium, path, color_scheme="dark") as page:
        page.emulate_media(media="print")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert len(page.pdf(format="A4")) > 20_000
    with Visit(chromium, path, java_script_enabled=False) as page:
        text = page.locator("main").inner_text()
        assert found.sentence in text
        assert page.locator(".picture").is_visible()


def test_a_search_without_a_choice_has_a_page(found):
    page = search_to_html(replace(found, chosen=None, final=None))
    assert "on final rows" not in page[: page.index("<script")]
