"""The gallery from made-up outcomes, in a real browser: nothing is trained here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import pytest
from tests.browser import Visit, colours
from tests.experiments.made_up import outcome, part

from fairbound.experiments.claims import Check
from fairbound.experiments.gallery import conditions
from fairbound.experiments.items import ITEMS
from fairbound.experiments.protocol import SEEDS
from fairbound.experiments.reproduction import Request, planned, reproduce, write_gallery
from fairbound.experiments.runs import Results

pytestmark = pytest.mark.slow  # a browser, and runs for its pages

REQUEST = Request(tuple(ITEMS), ("law",), epochs=10, limit=300)
COMMAND = "fairbound reproduce all --dataset law --out 'a <b> folder'"
HOSTILE = "<script>window.hacked = 1</script>"


def invented(run):
    """Limits are reached but for a gap without scaling; penalties answer, but go back where they are strongest."""
    ratio, accuracy = 0.6, 0.8
    if run.penalty is not None:
        ratio = 0.7 if run.penalty < 1e-3 else 1 - 0.4 * run.penalty / (1 + run.penalty)
        accuracy = 0.72
    elif run.limits and run.limits[0][0] == "covariance":
        ratio = 1 - 0.4 * min(1.0, 4 * run.limits[0][1])
    elif run.limits:
        ratio = max(0.6, run.limits[0][1]) + (0.05 if run.scale == 1 else 0.0)
        accuracy = 0.8 - 0.1 * (ratio - 0.6) + (run.seed % 7) * 1e-4
    return outcome(run, part(accuracy, min(ratio, 1.0), surrogate_ratio=0.97 * ratio))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    out = tmp_path_factory.mktemp("paper")
    results = Results(out / "results.jsonl")
    while missing := results.missing(planned(REQUEST, results)):
        for run in missing:
            results.add(invented(run))
    made = reproduce(REQUEST, out, report=lambda *_: pytest.fail("nothing is trained here"), command=COMMAND)
    assert made.trained == 0
    return made


@pytest.fixture(scope="module")
def hostile(made, tmp_path_factory):
    """The same with claims, figures and reasons that look like programs."""
    folder = tmp_path_factory.mktemp("hostile")
    check = Check(f"A claim {HOSTILE}", False, f"figures {HOSTILE}", f"because {HOSTILE}")
    exhibits = [replace(exhibit, checks=(*exhibit.checks, check)) for exhibit in made.exhibits]
    changed = replace(made, out=folder, exhibits=exhibits)
    return write_gallery(changed, HOSTILE)


def visit(chromium, path, **options):
    return Visit(chromium, path, viewport={"width": 1280, "height": 900}, **options)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_loads_without_complaint_and_asks_for_nothing(chromium, made, scheme):
    path = made.out / "gallery.html"
    visited = visit(chromium, path, color_scheme=scheme)
    with visited as page:
        assert visited.complaints == []
        assert visited.requests == [path.as_uri()]
        assert page.get_by_role("heading", level=1).text_content() == "The paper, reproduced"
        assert page.locator(".command").text_content() == COMMAND


def test_every_item_has_a_section_and_a_place_in_the_contents(chromium, made):
    with visit(chromium, made.out / "gallery.html") as page:
        found = page.eval_on_selector_all("main > section", "all => all.map(each => each.id)")
        assert found == ["short", "verdicts", *ITEMS, "limits"]
        assert page.eval_on_selector_all("nav a", "all => all.map(each => each.hash.slice(1))") == found
        page.get_by_role("navigation").get_by_role("link", name="Table 2").click()
        page.wait_for_selector("nav a[href='#table-2'][aria-current]")


def test_chips_say_what_the_verdicts_say(chromium, made):
    expected = {}
    for verdict in made.verdicts:
        expected.setdefault(verdict.claim, {})[verdict.solver] = verdict.word
    # The invented outcomes are made to have claims of every kind.
    assert {word for words in expected.values() for word in words.values()} == {
        "holds", "holds in part", "does not hold",
    }  # fmt: skip
    with visit(chromium, made.out / "gallery.html") as page:
        rows = page.locator(".verdicts tbody tr")
        assert rows.count() == len(expected)
        for row, (claim, words) in zip(rows.all(), expected.items(), strict=True):
            assert row.locator("th").text_content() == claim
            chips = [text.split(maxsplit=1)[1] for text in row.locator(".chip").all_text_contents()]
            assert chips == [words[solver] for solver in ("paper", "fast", "") if solver in words]
            (target,) = set(row.locator("th a").evaluate_all("all => all.map(each => each.hash)"))
            assert page.locator(target).get_by_text(claim, exact=True).count() == 1


def test_checks_are_all_there_the_failing_ones_first(chromium, made):
    with visit(chromium, made.out / "gallery.html") as page:
        shown = page.locator(".checks li").count()
        assert shown == sum(len(exhibit.checks) for exhibit in made.exhibits)
        for found in page.locator(".judgement").all():
            kinds = found.locator("li").evaluate_all("all => all.map(each => each.className)")
            assert kinds == sorted(kinds)  # "failed" comes before "held"
        # What fails is seen without opening anything.
        assert all(check.is_visible() for check in page.locator(".failed").all())
        assert not any(check.is_visible() for check in page.locator(".held").all())


def test_figures_are_on_the_page_and_not_blank(chromium, made):
    with visit(chromium, made.out / "gallery.html") as page:
        figures = page.locator("figure img").all()
        assert len(figures) == sum(bool(exhibit.figures) for exhibit in made.exhibits)
        for figure in figures:
            assert figure.evaluate("picture => picture.naturalWidth") > 100
            assert colours(figure.screenshot()) > 50


def test_links_lead_to_files(chromium, made):
    with visit(chromium, made.out / "gallery.html") as page:
        found = page.eval_on_selector_all("a", "all => all.map(each => each.getAttribute('href'))")
    files = {unquote(address) for address in found if not address.startswith("#")}
    assert all((made.out / name).is_file() for name in files)
    written = {str(path.relative_to(made.out)) for kind in ("figures", "tables") for path in made.out.glob(f"{kind}/*")}
    assert files == written | {"results.jsonl", "verdicts.json"}
    assert {address[1:] for address in found if address.startswith("#")} <= {"short", "verdicts", "limits", *ITEMS}


@pytest.mark.parametrize("width", [390, 768])
def test_nothing_sticks_out_of_the_page(chromium, made, width):
    with Visit(chromium, made.out / "gallery.html", viewport={"width": width, "height": 800}) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        # Wide tables and figures scroll within themselves, and the keyboard can reach them.
        assert page.locator(".scroll:not([tabindex='0'])").count() == 0


def test_on_paper_the_checks_are_open(chromium, made):
    with visit(chromium, made.out / "gallery.html") as page:
        folded = page.locator("details.on-paper:not([open])").count()
        assert folded > 0
        page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        page.emulate_media(media="print")
        assert page.locator("details.on-paper:not([open])").count() == 0
        assert not page.locator("nav").is_visible()
        page.evaluate("window.dispatchEvent(new Event('afterprint'))")
        assert page.locator("details.on-paper:not([open])").count() == folded


def test_what_looks_like_a_program_is_shown(chromium, hostile):
    visited = visit(chromium, hostile)
    with visited as page:
        assert visited.complaints == []
        assert page.evaluate("window.hacked") is None
        assert page.locator(".verdicts").get_by_text(f"A claim {HOSTILE}").count() == 1
        assert page.locator("#figure-2 .checks").get_by_text(f"figures {HOSTILE}").count() == 2
        assert page.locator("#figure-2 .because").get_by_text(f"because {HOSTILE}").count() >= 2
        assert page.locator(".command").text_content() == HOSTILE


def test_a_quick_look_says_that_it_is_one(made):
    page = Path(made.out / "gallery.html").read_text(encoding="utf-8")
    assert "only the first 300 rows" in page
    assert "10 epochs in place of the paper’s 500" in page
    assert conditions(Request(("table-2",), seeds=SEEDS)) == []
    assert len(conditions(Request(("table-2",), part="test", batches=True, seeds=(1, 2)))) == 3
