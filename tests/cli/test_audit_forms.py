"""`fairbound audit` without labels, with scores, with tests of selection rates, and as tables of Local Law 144."""

from __future__ import annotations

import csv
import json

import pytest
from tests.cli.helpers import write_csv
from tests.refusals import says

HIRED = ["--prediction", "hired", "--sensitive", "sex"]


@pytest.fixture
def people(tmp_path):
    """100 people: 20 of 40 women and 40 of 50 men are hired, and 5 of 10 whose sex is not known."""
    rows = []
    for sex, n, hired in (("f", 40, 20), ("m", 50, 40), ("", 10, 5)):
        for place in range(n):
            race = "abcd"[place % 4] if place else "rare"
            rows.append((sex, race, "yes" if place < hired else "no", place % 7, int(place % 3 == 0)))
    return write_csv(tmp_path / "people.csv", ("sex", "race", "hired", "score", "stayed"), rows)


def test_selections_need_no_target(fairbound, people):
    found = fairbound("audit", people, *HIRED, "--json")
    assert found.code == 0
    content = json.loads(found.stdout)
    assert content["labelled"] is False
    (ratio,) = [each["value"] for each in content["measures"] if each["measure"] == "disparate_impact"]
    assert ratio == 0.5 / 0.8
    limited = fairbound("audit", people, *HIRED, "--require", "disparate_impact >= 0.8")
    assert limited.code == 1
    assert "NOT KEPT" in limited.stdout
    assert fairbound("certify", people, *HIRED, "--require", "disparate_impact >= 0.3").code == 0


def test_a_measure_of_labels_needs_the_target(fairbound, people):
    for command in ("audit", "certify"):
        found = fairbound(command, people, *HIRED, "--require", "equal_opportunity <= 0.1")
        assert found.code == 2
        assert says(found.stderr, "equal_opportunity", "--target")


def test_decisions_or_scores_are_needed(fairbound, people):
    found = fairbound("audit", people, "--sensitive", "sex")
    assert found.code == 2
    assert says(found.stderr, "--prediction", "--score")


def test_a_decision_of_unusual_words_is_named(fairbound, tmp_path):
    path = write_csv(tmp_path / "x.csv", ("d", "g"), [("in", "a"), ("out", "a"), ("in", "b"), ("out", "b")])
    given = ["--prediction", "d", "--sensitive", "g", "--json"]
    found = fairbound("audit", path, *given)
    assert found.code == 2
    assert says(found.stderr, "'in', 'out'", "--positive-decision")
    named = fairbound("audit", path, *given, "--positive-decision", "in")
    assert json.loads(named.stdout)["classes"] == ["out", "in"]
    assert fairbound("audit", path, *given, "--positive", "in").stdout == named.stdout


def test_tests_of_selection_rates_are_printed_when_asked_for(fairbound, people):
    found = fairbound("audit", people, *HIRED, "--significance")
    assert says(found.stdout, "selection rates beside m (0.800)", "0.625", "selections missing", "12.0")
    assert "beside m" not in fairbound("audit", people, *HIRED).stdout


def test_a_reference_group_is_named(fairbound, people, tmp_path):
    page = tmp_path / "audit.html"
    named = fairbound("audit", people, *HIRED, "race", "--reference", "f", "race=c", "--out", page)
    assert says(named.stdout, "selection rates beside f (0.500)", "1.600", "beside c")
    assert says(page.read_text(), "beside f (0.500)", "beside c")
    tests = json.loads(fairbound("audit", people, *HIRED, "--reference", "sex=f", "--json").stdout)["significance"]
    assert [(test["group"], test["reference"]) for test in tests] == [("m", "f")]
    wrong = fairbound("audit", people, *HIRED, "--reference", "x")
    assert wrong.code == 2
    assert says(wrong.stderr, "'x'", "f, m")


@pytest.mark.parametrize("ending", [".csv", ".html"])
def test_the_tables_are_written_in_the_form_of_the_ending(fairbound, people, tmp_path, ending):
    out = tmp_path / f"tables{ending}"
    facts = ["--audit-date", "2026-03-31", "--distribution-date", "2026-01-01", "--source", "our own", "--explanation"]
    given = [*HIRED, "race", "--format", "ll144", *facts, "all jobs", "--small-category-note", "few", "--out", str(out)]
    found = fairbound("audit", people, *given)
    assert (found.code, found.stderr) == (0, "")
    text = out.read_text(encoding="utf-8")
    for fact in ("2026-03-31", "2026-01-01", "our own", "all jobs", "few"):
        assert fact in text
    assert "0.625" in text
    if ending == ".csv":
        lines = {(line["table"], line["category"]): line for line in csv.DictReader(text.splitlines())}
        assert lines["sex", "f"]["impact_ratio"] == "0.625"
        assert lines["sex", "(unknown)"]["applicants"] == "10"
        assert ("sex & race", "f & a") in lines


def test_the_tables_of_scores(fairbound, people):
    found = fairbound("audit", people, "--score", "score", "--sensitive", "sex", "--format", "ll144", "--json")
    tables = json.loads(found.stdout)["ll144"]
    assert (tables["kind"], tables["median"]) == ("scoring", 3)
    assert fairbound("audit", people, "--score", "sex", "--sensitive", "sex").code == 2


def test_scores_with_labels_have_auc_and_calibration(fairbound, people):
    found = fairbound("audit", people, "--target", "stayed", "--score", "score", "--sensitive", "sex")
    assert says(found.stdout, "AUC", "not probabilities")


def test_a_word_for_unknown_can_be_named(fairbound, people):
    found = fairbound("audit", people, *HIRED, "--missing", "m", "--format", "ll144", "--json")
    (table,) = json.loads(found.stdout)["ll144"]["tables"]
    assert table["unknown"] == 60


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        (["--format", "ll144", "--out", "x.pdf"], ["x.pdf", ".csv"]),
        (["--audit-date", "2026-03-31"], ["--audit-date", "--format ll144"]),
        (["--format", "ll145"], ["'ll145'", "ll144"]),
        (["--format", "ll144", "--audit-date", "yesterday"], ["--audit-date", "yesterday"]),
        (["--format", "ll144", "--groups", "intersection", "--sensitive", "race"], ["--groups"]),
        (["--threshold", "3"], ["--threshold", "--prediction"]),
    ],
)
def test_what_does_not_go_together_is_refused(fairbound, people, given, parts):
    found = fairbound("audit", people, *HIRED, *given)
    assert found.code == 2
    assert says(found.stderr, *parts)


def test_a_score_that_is_missing_names_the_row(fairbound, tmp_path):
    path = write_csv(tmp_path / "x.csv", ("s", "g"), [(1, "a"), ("", "a"), (2, "b")])
    found = fairbound("audit", path, "--score", "s", "--sensitive", "g")
    assert says(found.stderr, "'s'", "--score", "row 2")
