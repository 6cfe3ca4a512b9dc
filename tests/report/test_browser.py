"""The report in a real browser: Debian's Chromium, driven by playwright."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.browser import Visit, colours, wait_until
from tests.report.example import HOSTILE, hostile_summary, large_summary, law_summary

from fairbound._escapes import visible
from fairbound.report import to_html
from fairbound.report.tradeoff import tradeoff

SUMMARIES = {"law": law_summary, "hostile": hostile_summary, "large": large_summary}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("reports")
    found = {}
    for name, summary in SUMMARIES.items():
        found[name] = folder / f"{name}.html"
        found[name].write_text(to_html(summary()), encoding="utf-8")
    return found


def cells(page: Any) -> list[list[str]]:
    """Return the numbers in the tables of the chosen point."""
    return page.eval_on_selector_all(
        "#chosen-groups [data-cell]",
        "found => found.map(cell => ['.text', '.interval', '.also'].map(name => cell.querySelector(name).textContent))",
    )


def readouts(page: Any) -> list[str]:
    return page.locator("#readouts dd").all_text_contents()


@pytest.mark.parametrize(
    ("name", "scheme"), [("law", "light"), ("law", "dark"), ("hostile", "light"), ("large", "light")]
)
def test_it_loads_without_complaint_and_asks_for_nothing(chromium, files, name, scheme):
    visit = Visit(chromium, files[name], color_scheme=scheme, viewport={"width": 1280, "height": 900})
    with visit as page:
        assert visit.complaints == []
        assert visit.requests == [files[name].as_uri()]
        assert colours(page.screenshot()) > 100  # text alone has many shades
        page.locator("#training details").evaluate_all("folds => folds.forEach(fold => { fold.open = true; })")
        for figure in ("#frontier", "#training"):
            assert colours(page.locator(figure).locator(".picture").first.screenshot()) > 50
        assert page.evaluate("window.hacked") is None


@pytest.mark.parametrize(("name", "width"), [("law", 768), ("law", 390), ("hostile", 390), ("large", 390)])
def test_nothing_sticks_out_of_the_page(chromium, files, name, width):
    with Visit(chromium, files[name], viewport={"width": width, "height": 800}) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        # Wide tables scroll within themselves, and the keyboard can reach them.
        assert page.locator(".scroll:not([tabindex='0'])").count() == 0


@pytest.mark.parametrize("width", [1440, 390])
def test_no_label_of_an_axis_covers_another(chromium, files, width):
    with Visit(chromium, files["law"], viewport={"width": width, "height": 800}) as page:
        page.locator("details").evaluate_all("folds => folds.forEach(fold => { fold.open = true; })")
        covered = page.evaluate(
            """() => [...document.querySelectorAll('.picture')].flatMap(picture => {
                const labels = [...picture.querySelectorAll('text:not(.said)')].map(label => [
                    label.textContent, label.getBoundingClientRect()]);
                return labels.flatMap(([one, a], place) => labels.slice(place + 1).filter(([_, b]) =>
                    a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom).map(each => one));
            })"""
        )
        assert covered == []


@pytest.mark.parametrize("width", [1440, 800, 390])
def test_tiles_leave_no_hole(chromium, files, width):
    """The tiles of a row end at one height, and none has room for more than half of its text again."""
    with Visit(chromium, files["law"], viewport={"width": width, "height": 800}) as page:
        boxes = page.locator(".tile").evaluate_all(
            "found => found.map(tile => [tile.getBoundingClientRect(), tile.lastElementChild.getBoundingClientRect()])"
            ".map(([tile, text]) => [tile.top, tile.bottom, text.bottom])"
        )
        assert len(boxes) == 3
        for top in {box[0] for box in boxes}:
            row = [box for box in boxes if box[0] == top]
            assert len({box[1] for box in row}) == 1
            assert row[0][1] - max(box[2] for box in row) <= 20
        assert max(bottom - text for _, bottom, text in boxes) <= 130


@pytest.mark.parametrize("width", [360, pytest.param(500, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["law", "hostile"])
def test_tables_are_cards_on_a_phone(chromium, files, name, width):
    with Visit(chromium, files[name], viewport={"width": width, "height": 800}) as page:
        for box in page.locator(".scroll:has(table.stack):visible").all():
            assert box.evaluate("box => box.scrollWidth <= box.clientWidth + 1")  # nothing to scroll to
        line = page.locator("#groups table.rates tbody tr").first
        assert line.evaluate("line => getComputedStyle(line).display") == "block"
        label = line.locator("td").nth(1).evaluate("cell => getComputedStyle(cell, '::before').content")
        assert label == '"selection rate"'
    with Visit(chromium, files[name], viewport={"width": 1200, "height": 800}) as page:
        line = page.locator("#groups table.rates tbody tr").first
        assert line.evaluate("line => getComputedStyle(line).display") == "table-row"


@pytest.mark.parametrize("name", ["law", "large"])
def test_the_slider_moves_the_tables(chromium, files, name):
    summary = SUMMARIES[name]()
    points, found = summary.frontier, tradeoff(summary)
    expected = [
        (list(lines.values()), [list(cell[:3]) for cell in cells])
        for lines, cells in zip(found.readouts, found.cells, strict=True)
    ]
    visit = Visit(chromium, files[name])
    with visit as page:
        slider = page.get_by_role("slider", name="Bound")
        chosen = int(slider.input_value())
        assert (readouts(page), cells(page)) == expected[chosen]
        slider.focus()
        page.keyboard.press("ArrowRight")
        assert (readouts(page), cells(page)) == expected[chosen + 1] != expected[chosen]
        assert slider.get_attribute("aria-valuetext") == points[chosen + 1].text
        assert page.locator("#point-text").text_content() == points[chosen + 1].text
        page.keyboard.press("Home")
        assert (readouts(page), cells(page)) == expected[0]
        page.keyboard.press("End")
        assert (readouts(page), cells(page)) == expected[-1]
        assert visit.complaints == []


def test_marks_on_the_strips_move_with_the_numbers(chromium, files):
    with Visit(chromium, files["law"]) as page:
        dot = page.locator("#chosen-groups .dot").first
        slider = page.get_by_role("slider", name="Bound")
        slider.focus()
        page.keyboard.press("Home")
        first = dot.bounding_box()["x"]
        page.keyboard.press("End")
        # The smaller group is selected more often the stricter the ratio.
        assert dot.bounding_box()["x"] > first + 20


def test_a_click_on_a_mark_chooses_its_point(chromium, files):
    with Visit(chromium, files["law"], viewport={"width": 1280, "height": 900}) as page:
        last = law_summary().frontier[-1]
        page.locator("#frontier .series").first.locator(".mark").last.click()
        wait_until(page, "text => document.getElementById('point-text').textContent === text", last.text)
        assert page.get_by_role("slider", name="Bound").input_value() == str(len(law_summary().frontier) - 1)


def test_the_ring_is_around_the_chosen_point(chromium, files):
    with Visit(chromium, files["law"]) as page:
        slider = page.get_by_role("slider", name="Bound")
        slider.focus()
        page.keyboard.press("Home")
        assert page.locator("#frontier .chosen").evaluate_all("all => all.map(each => each.dataset.point)") == ["0"] * 2
        assert page.locator("#frontier .chosen .ring").first.is_visible()


def test_dark_is_dark_and_figures_follow(chromium, files):
    def look(page: Any) -> list[str]:
        return [
            page.evaluate("getComputedStyle(document.body).backgroundColor"),
            page.evaluate("getComputedStyle(document.querySelector('#frontier .picture text')).fill"),
        ]

    with Visit(chromium, files["law"], color_scheme="light") as page:
        light = look(page)
        page.emulate_media(color_scheme="dark")
        dark = look(page)
    assert light == ["rgb(246, 247, 249)", "rgb(28, 36, 48)"]
    assert dark == ["rgb(18, 22, 28)", "rgb(230, 234, 240)"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground(chromium, files, scheme):
    with Visit(chromium, files["law"], color_scheme=scheme) as page:
        style = page.evaluate(
            "[...'text muted good open bad link before after'.split(' '), 'card', 'goodbg', 'openbg', 'badbg'].map("
            "name => [name, getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim()])"
        )
    colour = dict(style)
    for name in ("text", "muted", "good", "open", "bad", "link", "before", "after"):
        assert contrast(colour[name], colour["card"]) >= 4.5, name  # level AA of the accessibility guidelines
    for tone in ("good", "open", "bad"):
        assert contrast(colour[tone], colour[f"{tone}bg"]) >= 4.5, tone
        assert contrast(colour["text"], colour[f"{tone}bg"]) >= 4.5, tone


def contrast(first: str, second: str) -> float:
    """Return the contrast ratio of two colours, (L₁ + 0.05) / (L₂ + 0.05) of their relative luminances."""

    def luminance(colour: str) -> float:
        parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_names_that_look_like_programs_are_shown(chromium, files):
    with Visit(chromium, files["hostile"]) as page:
        assert page.get_by_role("heading", level=1).text_content() == HOSTILE[0]
        assert page.title() == f"{HOSTILE[0]}: report"
        headers = [" ".join(text.split()) for text in page.locator("#chosen-groups tbody th").all_text_contents()]
        assert headers == [*sorted(" ".join(visible(name).split()) for name in HOSTILE), "everyone"]


def test_what_assistive_technology_finds(chromium, files):
    with Visit(chromium, files["law"]) as page:
        headings = page.get_by_role("heading", level=2).all_text_contents()
        assert headings[0] == "In short"
        assert "Scores by group" in headings
        assert len(headings) == 7
        assert page.get_by_role("region", name="Rates by race, held-out rows").count() == 1
        assert page.get_by_role("columnheader", name="Selection rate").count() >= 1
        assert page.get_by_role("rowheader", name="Non-White").count() >= 2
        assert page.get_by_role("img", name="Accuracy against disparate_impact").count() == 1
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the report"


def test_without_scripts_the_numbers_are_there(chromium, files):
    with Visit(chromium, files["law"], java_script_enabled=False) as page:
        found = tradeoff(law_summary())
        assert readouts(page) == list(found.readouts[found.chosen].values())
        assert page.locator("#frontier .chosen").count() == 2


def test_on_paper(chromium, files):
    with Visit(chromium, files["law"], color_scheme="dark") as page:
        page.emulate_media(media="print")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert not page.locator("nav").is_visible()
        page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        assert (
            page.locator("#tradeoff details").get_by_text("disparate_impact >= 0.98").is_visible()
        )  # the table of all points is open
        page.evaluate("window.dispatchEvent(new Event('afterprint'))")
        assert len(page.pdf(format="A4")) > 20_000


def test_the_browser_is_there_in_ci():
    # Guards the guard: with CI set, a missing browser fails and does not skip.
    if os.environ.get("CI"):
        assert shutil.which("chromium")
