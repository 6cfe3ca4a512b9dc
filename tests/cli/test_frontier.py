"""`fairbound frontier`."""

from __future__ import annotations

import csv
import json

import pytest
from tests.cli.helpers import LOAN_COLUMNS, LOANS, interrupt_when, loan_rows, write_csv
from tests.refusals import says

from fairbound.cli.output import load_model
from fairbound.estimator.fitting import Fitting

BOUNDS = ["--bounds", 0.6, 0.7, 0.8]


def test_the_frontier_of_a_file(fairbound, loans, tmp_path):
    found = fairbound("frontier", loans, *LOANS, *BOUNDS, "--choose", 0.7, "--out", "run")
    assert found.code == 0
    assert "points for the next 0.01" in found.stdout
    run = tmp_path / "run"
    assert {each.name for each in run.iterdir()} == {
        "frontier.csv", "limits.lock", "model", "model-card.md", "models", "report.html",
        "summary.json",
    }  # fmt: skip
    with (run / "frontier.csv").open(encoding="utf-8", newline="") as stream:
        lines = list(csv.DictReader(stream))
    assert [float(line["bound"]) for line in lines] == [0.6, 0.7, 0.8]
    for line in lines:
        assert line["training_kept"] == "True"
        assert float(line["training_value"]) >= float(line["bound"]) - 1e-12
    assert (
        json.loads((run / "summary.json").read_text(encoding="utf-8"))["limits"][0]["text"] == "disparate_impact >= 0.7"
    )
    assert {each.name for each in (run / "models").iterdir()} == {"0.6", "0.7", "0.8"}


def test_each_model_has_the_record_of_its_own_bound(fairbound, loans, tmp_path):
    fairbound("frontier", loans, *LOANS, *BOUNDS, "--out", "run", "--quiet")
    points = json.loads((tmp_path / "run" / "summary.json").read_text(encoding="utf-8"))["frontier"]
    for point in points:
        result = load_model(str(tmp_path / "run" / "models" / f"{point['bound']:g}")).result_
        assert result.limits[0].limit == f"disparate_impact >= {point['bound']:g}"
        assert result.limits[0].reached == point["training"]["value"]
        assert result.accuracy == point["training"]["accuracy"]["value"]
        assert result.kept
        rates = {group.group: group.rates["1"]["selection_rate"] for group in result.groups}
        assert rates["female"] / rates["male"] == pytest.approx(point["training"]["value"], abs=1e-12)


def test_bounds_that_agree_in_six_digits_have_folders_of_their_own(fairbound, loans, tmp_path):
    bounds = ["0.6", "0.60000001", "0.60000002"]
    found = fairbound("frontier", loans, *LOANS, "--bounds", *bounds, "--out", "run", "--quiet")
    assert found.code == 0
    assert sorted(each.name for each in (tmp_path / "run" / "models").iterdir()) == bounds
    for bound in bounds:
        limit = load_model(str(tmp_path / "run" / "models" / bound)).result_.limits[0]
        assert limit.limit == f"disparate_impact >= {bound}"


def test_one_fit_for_each_bound(fairbound, loans, monkeypatch):
    fits = []

    def counted(name):
        whole = getattr(Fitting, name)

        def call(self, *arguments, **options):
            fits.append(name)
            return whole(self, *arguments, **options)

        return call

    for name in ("run", "frontier"):
        monkeypatch.setattr(Fitting, name, counted(name))
    fairbound("frontier", loans, *LOANS, *BOUNDS, "--model", "linear", "--out", "run", "--quiet")
    assert fits == ["run", "frontier"]  # without limits, and all bounds in one go


@pytest.mark.parametrize("small_groups", ["warn", "merge"])
def test_groups_of_few_rows(fairbound, tmp_path, small_groups):
    rows = [(*row[:3], f"few {place}" if place < 9 else row[3], row[4]) for place, row in enumerate(loan_rows(600))]
    table = write_csv(tmp_path / "few.csv", LOAN_COLUMNS, rows)
    found = fairbound(
        "frontier", table, *LOANS, "--bounds", 0.5, 0.8, "--small-groups", small_groups, "--json", "--out", "run"
    )  # fmt: skip
    points = json.loads(found.stdout)["frontier"]
    for point in points:
        limit = load_model(str(tmp_path / "run" / "models" / f"{point['bound']:g}")).result_.limits[0]
        assert (limit.reached, limit.kept) == (point["training"]["value"], point["training"]["kept"])
    assert (found.code == 0) == all(point["training"]["kept"] for point in points)


def test_the_default_grid_and_differences(fairbound, loans):
    found = fairbound(
        "frontier", loans, *LOANS, "--measure", "equal_opportunity", "--bounds", 0.05, 0.1, "--no-models", "--json",
        "--out", "run",
    )  # fmt: skip
    points = json.loads(found.stdout)["frontier"]
    assert [point["bound"] for point in points] == [0.1, 0.05]  # from loose to strict
    assert not any(name.endswith("models") for name in json.loads(found.stdout)["files"])


def test_another_limit_holds_at_every_bound(fairbound, loans, tmp_path):
    found = fairbound(
        "frontier", loans, *LOANS, "--bounds", 0.6, 0.8, "--require", "selection_rate <= 0.5", "--out", "run", "--json"
    )  # fmt: skip
    assert found.code == 0
    for bound in ("0.6", "0.8"):
        result = load_model(str(tmp_path / "run" / "models" / bound)).result_
        assert [limit.kept for limit in result.limits] == [True, True]


def test_an_interrupt_leaves_the_finished_bounds(fairbound, loans, monkeypatch, tmp_path):
    interrupt_when(monkeypatch, "Training for 3 bounds: exact")
    found = fairbound("frontier", loans, *LOANS, "--bounds", 0.4, 0.8, 0.9, "--out", "run", "--json")
    assert found.code == 130
    finished = json.loads(found.stdout)["frontier"]
    assert 0 < len(finished) < 3
    assert all(point["training"]["kept"] for point in finished)
    assert says(found.stderr, f"Interrupted: run has the {len(finished)} of 3 bounds", "finished: 0.4")
    assert len(list((tmp_path / "run" / "models").iterdir())) == len(finished)
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert f"The run was interrupted. This report is about the {len(finished)} of 3 bounds" in page
    written = json.loads((tmp_path / "run" / "summary.json").read_text(encoding="utf-8"))
    assert written["interrupted"]
    assert written["label"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--measure", "disparate_impct"], "Did you mean 'disparate_impact'?"),
        (["--measure", "selection_rate"], "a group's own rate; a frontier compares groups"),
        (["--measure", "covariance"], "Give --bounds"),
        (["--bounds", "1.5"], "must lie between 0 and 1"),
    ],
)
def test_bad_options_are_one_sentence(fairbound, loans, tmp_path, arguments, words):
    refused = fairbound("frontier", loans, *LOANS, *arguments, "--out", "run", "--quiet")
    assert refused.code == 2
    assert words in refused.sentence
    assert not (tmp_path / "run").exists()


def test_what_is_written_is_what_is_said_to_be(fairbound, loans, tmp_path):
    found = fairbound(
        "frontier", loans, *LOANS, "--measure", "disparate_impact", "--bounds", 0.8, "--no-models", "--out", "run"
    )  # fmt: skip
    last = found.stdout.splitlines()[-1]
    assert "model (of disparate_impact >= 0.8)," in last
    named = (
        last.replace(" (of disparate_impact >= 0.8)", "").removeprefix("Written to run: ").removesuffix(".").split(", ")
    )
    assert set(named) == {each.name for each in (tmp_path / "run").iterdir()}
