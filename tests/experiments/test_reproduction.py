"""One figure and one table on Law from end to end, at reduced size: real runs, real files."""

import csv
import json
from xml.etree import ElementTree as ET

import pytest
from PIL import Image

from fairbound.experiments.reproduction import Request, planned, reproduce
from fairbound.experiments.runs import Results

pytestmark = pytest.mark.slow  # the runs take two minutes

QUICK = Request(("figure-3", "table-2"), ("law",), epochs=30, limit=3000)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return reproduce(QUICK, tmp_path_factory.mktemp("paper"), command="fairbound reproduce figure-3 table-2")


def test_figures_are_pictures(made):
    for solver in ("paper", "fast"):
        with Image.open(made.out / "figures" / f"figure-3-law-{solver}.png") as picture:
            assert picture.width > 800
            assert len(picture.convert("RGB").getcolors(2**24)) > 50  # not blank
        root = ET.parse(made.out / "figures" / f"figure-3-law-{solver}.svg").getroot()
        assert root.tag.endswith("svg")


def test_tables_hold_what_the_runs_gave(made):
    with (made.out / "tables" / "table-2-law-fast.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["whose"] for row in rows] == ["ours", "printed"] * 3
    both = next(row for row in rows if row["limits"] == "both")
    (exhibit,) = [e for e in made.exhibits if e.item.name == "table-2" and e.evidence.solver == "fast"]
    outcome = exhibit.outcomes[-1]
    assert float(both["accuracy, %"]) == 100 * outcome.train.accuracy
    assert float(both["c̄ DI"]) == outcome.train.violation("disparate_impact", 0.8)
    assert outcome.kept
    assert float(rows[1]["accuracy, %"]) == 90.095


def test_verdicts_are_written(made):
    stored = json.loads((made.out / "verdicts.json").read_text(encoding="utf-8"))
    assert {(v["claim"], v["solver"]): v["verdict"] for v in stored} == {
        (v.claim, v.solver): v.word for v in made.verdicts
    }
    assert {"claim", "solver", "verdict", "checks"} == set(stored[0])


def test_the_gallery_is_there(made):
    page = (made.out / "gallery.html").read_text(encoding="utf-8")
    assert "fairbound reproduce figure-3 table-2" in page
    assert "Scaled surrogates match the ratio demanded." in page


def test_a_second_time_nothing_is_trained_and_the_tables_are_the_same(made):
    before = (made.out / "tables" / "figure-3-law-paper.csv").read_text(encoding="utf-8")
    size = (made.out / "results.jsonl").stat().st_size
    reproduce(QUICK, made.out, report=lambda *_: pytest.fail("nothing was missing"))
    assert (made.out / "results.jsonl").stat().st_size == size
    assert (made.out / "tables" / "figure-3-law-paper.csv").read_text(encoding="utf-8") == before


def test_other_rows_are_reported_from_the_same_runs(made):
    request = Request(("table-2",), ("law",), epochs=30, limit=3000, part="test")
    assert not Results(made.out / "results.jsonl").missing(planned(request, made.results))
    again = reproduce(request, made.out)
    assert (made.out / "tables" / "table-2-law-paper-test.csv").exists()
    assert (made.out / "gallery-test.html").exists()
    assert "Figure 3" in (made.out / "gallery.html").read_text(encoding="utf-8")  # the first page stays
    (paper, _) = again.exhibits
    ours = paper.table.rows[0]
    assert ours[2] == 100 * paper.outcomes[0].test.accuracy


def test_an_unknown_item_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"Unknown item 'figure-9'. Did you mean 'figure-"):
        reproduce(Request(("figure-9",)), tmp_path)


def test_items_share_their_runs():
    request = Request(("figure-3", "figure-4", "table-3"), ("law",), limit=3000)
    runs = planned(request, Results())
    # 25 of figures 3 and 4 (8 ratios of 2 surrogates, 8 covariances, none), and 24 penalties, for two solvers.
    assert len(set(runs)) == 2 * (25 + 24)
