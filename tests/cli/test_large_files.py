"""Commands on files that are larger than the memory allowed: they stream, with the same result."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli.helpers import LIMIT, LOAN_COLUMNS, LOANS, loan_rows, write_csv
from tests.refusals import says

TINY = ("--memory", "1KB")


@pytest.fixture
def parquet(tmp_path):
    """Return a folder with the loans in two Parquet files."""
    columns = dict(zip(LOAN_COLUMNS, zip(*loan_rows(1500), strict=True), strict=True))
    table = pa.table({name: list(values) for name, values in columns.items()})
    folder = tmp_path / "loans"
    folder.mkdir()
    pq.write_table(table.slice(0, 700), folder / "1.parquet")
    pq.write_table(table.slice(700), folder / "2.parquet")
    pq.write_table(table, tmp_path / "loans.parquet")
    return folder


def test_a_streamed_run_has_the_model_and_the_numbers_of_one_in_memory(fairbound, loans, parquet, tmp_path):
    loose = "disparate_impact >= 0.4"  # the model without limits keeps it, so the fit is short
    options = ("train", loans, *LOANS, "--require", loose, "--test", 0, "--model", "linear")
    assert fairbound(*options, "--out", "kept").code == 0
    found = fairbound(*options, "--out", "streamed", *TINY)
    assert found.code == 0
    kept, streamed = (tmp_path / name for name in ("kept", "streamed"))
    weights = [json.loads((each / "model" / "model.json").read_text())["data"] for each in (kept, streamed)]
    assert weights[0] == weights[1]
    first, second = (json.loads((each / "summary.json").read_text("utf-8")) for each in (kept, streamed))
    assert second["training"] == first["training"]
    for each in (first, second):
        for name in ("reproduction", "fit"):
            del each[name]
    assert second == first
    decided = [
        fairbound("predict", name, loans, "--out", f"{name}.csv").code == 0 and (tmp_path / f"{name}.csv").read_bytes()
        for name in ("kept", "streamed")
    ]
    assert decided[0] == decided[1]
    assert fairbound("predict", "kept", loans, "--out", "parts.csv", "--probability", *TINY).code == 0
    assert fairbound("predict", "kept", loans, "--out", "whole.csv", "--probability").code == 0
    assert (tmp_path / "parts.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
    assert fairbound("predict", "kept", parquet, "--out", "parts.parquet").code == 0
    assert fairbound("predict", "kept", tmp_path / "loans.parquet", "--out", "whole.parquet").code == 0
    assert pq.read_table(tmp_path / "parts.parquet").equals(pq.read_table(tmp_path / "whole.parquet"))
    assert fairbound("predict", "kept", parquet, "--out", "folder.csv").code == 0
    assert fairbound("predict", "kept", tmp_path / "loans.parquet", "--out", "file.csv").code == 0
    assert (tmp_path / "folder.csv").read_bytes() == (tmp_path / "file.csv").read_bytes()
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith(".")] == []


def test_a_folder_of_files_with_held_out_rows_and_a_network(fairbound, parquet, tmp_path):
    found = fairbound("train", parquet, *LOANS, "--require", LIMIT, "--model", "mlp:3", "--out", "run", "--json")
    assert found.code in (0, 1), found.stderr
    metrics = json.loads((tmp_path / "run" / "summary.json").read_text("utf-8"))
    assert [metrics[part]["after"]["rows"] for part in ("training", "held_out")] == [1200, 300]
    assert (tmp_path / "run" / "report.html").stat().st_size > 10_000


def test_a_streamed_frontier_has_the_points_of_one_in_memory(fairbound, loans, tmp_path):
    options = ("frontier", loans, *LOANS, "--bounds", 0.3, 0.5, "--test", 0, "--model", "linear")
    codes = [fairbound(*options, "--out", "kept").code, fairbound(*options, "--out", "streamed", *TINY).code]
    assert codes[0] == codes[1]
    kept, streamed = (
        json.loads((tmp_path / name / "summary.json").read_text("utf-8")) for name in ("kept", "streamed")
    )
    assert len(kept["frontier"]) == 2
    assert streamed["frontier"] == kept["frontier"]
    names = sorted(each.name for each in (tmp_path / "kept" / "models").iterdir())
    for name in names:
        one, other = (tmp_path / run / "models" / name / "model.json" for run in ("kept", "streamed"))
        assert json.loads(one.read_text())["data"] == json.loads(other.read_text())["data"]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_held_out_rows_of_another_file(fairbound, loans, parquet, tmp_path, kind):
    """The encoding is that of the training rows, also if the other file has other values and other columns."""
    rows = loan_rows(300)[150:]
    test = write_csv(tmp_path / "test.csv", LOAN_COLUMNS, rows)
    if kind == "parquet":
        columns = dict(zip(LOAN_COLUMNS, map(list, zip(*rows, strict=True)), strict=True))
        columns["income"] = [float(value) if value else None for value in columns["income"]]
        test = tmp_path / "test.parquet"
        pq.write_table(pa.table({"further": list(range(len(rows))), **columns}), test)
    options = ("train", loans, *LOANS, "--model", "linear", "--test", test, "--class-weight", "balanced")
    assert fairbound(*options, "--out", "streamed", *TINY).code == 0
    assert fairbound(*options, "--out", "kept").code == 0
    kept, streamed = (
        json.loads((tmp_path / name / "summary.json").read_text("utf-8")) for name in ("kept", "streamed")
    )
    assert (streamed["training"], streamed["held_out"]) == (kept["training"], kept["held_out"])
    assert streamed["held_out"]["after"]["rows"] == 150


@pytest.mark.parametrize(
    ("rows", "parts"),
    [
        ([(number, "x", *rest) for number, _, *rest in loan_rows(30)], ("'income'", "'x'")),
        ([row for row in loan_rows(30) if row[-1] == 1], ("test.csv", "same label")),
        ([(*row[:-1], 2 * row[-1]) for row in loan_rows(30)], ("'approved'", "'2'", "'0', '1'")),
    ],
)
def test_a_file_of_held_out_rows_that_does_not_fit(fairbound, loans, tmp_path, rows, parts):
    test = write_csv(tmp_path / "test.csv", LOAN_COLUMNS, rows)
    found = fairbound("train", loans, *LOANS, "--test", test, "--out", "run", *TINY)
    assert found.code == 2
    assert says(found.stderr, *parts)


@pytest.mark.parametrize(
    "further",
    [
        ("--model", "boosted"),
        ("--confidence", 0.9),
        ("--margin", "auto"),
        ("--sensitive", "sex=f,m"),
        ("--sensitive", "income", "--bands", "income", "2200,2600", "--drop-unlabelled"),
        ("--model", "mlp:2", "--small-groups", "merge"),
    ],
    ids=str,
)
def test_every_option_gives_the_same_run_on_rows_in_files(fairbound, tmp_path, further):
    rows = [(*row, 0.25 + 0.5 * (row[-2] == "f"), 0.75 - 0.5 * (row[-2] == "f")) for row in loan_rows(800)]
    table = write_csv(tmp_path / "rows.csv", (*LOAN_COLUMNS, "f", "m"), rows)
    options = ("train", table, *LOANS, "--require", "disparate_impact >= 0.5", *further)
    codes = [fairbound(*options, "--out", name, *how).code for name, how in (("kept", ()), ("files", TINY))]
    assert codes[0] == codes[1] in (0, 1)
    first, second = (json.loads((tmp_path / each / "summary.json").read_text("utf-8")) for each in ("kept", "files"))
    for each in (first, second):
        for name in ("seconds", "created", "written", "command"):
            for part in (each["fit"], each["reproduction"], each["reproduction"]["lock"]):
                part.pop(name, None)
    assert second == first
    one, other = (json.loads((tmp_path / each / "model" / "model.json").read_text()) for each in ("kept", "files"))
    assert "boosted" in further or one["data"] == other["data"]


def test_a_size_that_is_none_is_refused(fairbound, loans):
    found = fairbound("train", loans, *LOANS, "--out", "run", "--memory", "much")
    assert found.code == 2
    assert says(found.stderr, "--memory", "'much'", "2GB")


def test_a_killed_run_leaves_no_scratch_folder_for_long(fairbound, loans, tmp_path):
    lost = write_csv(tmp_path / "lost.csv", LOAN_COLUMNS, [*loan_rows(40), *[("x",) * len(LOAN_COLUMNS)]])
    found = fairbound("train", lost, "--target", "approved", "--sensitive", "sex", "--out", "run", *TINY)
    assert found.code == 2
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith(".")] == []
    assert not (tmp_path / "run").exists()


@pytest.fixture
def decided(tmp_path):
    """Return a file of decisions, and a folder with the same rows in two Parquet files."""
    rows = [
        (sex, label, int(label if row % 4 else row % 3 == 0)) for row, (*_, sex, label) in enumerate(loan_rows(900))
    ]
    rows = [("" if row % 7 == 0 else sex, *rest) for row, (sex, *rest) in enumerate(rows)]
    file = write_csv(tmp_path / "decided.csv", ("sex", "label", "decision"), rows)
    table = pa.table(
        {name: list(values) for name, values in zip(("sex", "label", "decision"), zip(*rows, strict=True), strict=True)}
    )
    folder = tmp_path / "decided"
    folder.mkdir()
    pq.write_table(table.slice(0, 500), folder / "1.parquet")
    pq.write_table(table.slice(500), folder / "2.parquet")
    return file, folder


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("target", [("--target", "label"), ()])
def test_audits_and_certificates_are_those_of_all_rows(fairbound, decided, place, target):
    options = (*target, "--prediction", "decision", "--sensitive", "sex", "--json")
    kept, streamed = fairbound("audit", decided[0], *options), fairbound("audit", decided[place], *options, *TINY)
    assert kept.code == streamed.code == 0, streamed.stderr
    assert json.loads(streamed.stdout) == json.loads(kept.stdout)
    if target:
        options = (*options, "--require", "disparate_impact >= 0.5")
        first, second = (
            fairbound("certify", decided[0], *options),
            fairbound("certify", decided[place], *options, *TINY),
        )
        assert first.code == second.code
        assert json.loads(first.stdout) == json.loads(second.stdout)


def test_a_weighted_audit_in_parts(fairbound, decided, tmp_path):
    """Sums of weights are added in another order, so their last digits differ; rows of weight 0 do not count."""
    header, *rows = [line.split(",") for line in decided[0].read_text().splitlines()]
    weights = [(row % 5) / 3 for row in range(len(rows))]
    lines = [(*row, weight) for row, weight in zip(rows, weights, strict=True)]
    file = write_csv(tmp_path / "weighted.csv", (*header, "w"), lines)
    options = ("audit", file, "--target", "label", "--prediction", "decision", "--sensitive", "sex", "--json")
    kept = fairbound(*options, "--weight", "w")
    streamed = fairbound(*options, "--weight", "w", *TINY)
    assert kept.code == streamed.code == 0, streamed.stderr
    assert_close(json.loads(streamed.stdout), json.loads(kept.stdout))
    assert json.loads(kept.stdout) != json.loads(fairbound(*options).stdout)  # so the weights say something


@pytest.fixture
def weighted(decided, tmp_path):
    """Return a function that writes the decided rows with weights, to a file and to a folder of two files."""
    header, *rows = [line.split(",") for line in decided[0].read_text().splitlines()]

    def write(weights):
        lines = [(*row, weight) for row, weight in zip(rows, weights, strict=True)]
        folder = tmp_path / "weighted"
        folder.mkdir()
        for part, some in enumerate((lines[:500], lines[500:])):
            columns = {name: list(values) for name, values in zip((*header, "w"), zip(*some, strict=True), strict=True)}
            pq.write_table(pa.table(columns), folder / f"{part}.parquet")
        return write_csv(tmp_path / "weighted.csv", (*header, "w"), lines), folder

    return write


JUDGED = ("--target", "label", "--prediction", "decision", "--sensitive", "sex", "--weight", "w")


@pytest.mark.parametrize("one", [1.0, 0.1])
def test_weights_of_0_and_1_are_the_rows_of_weight_1_however_they_are_read(fairbound, weighted, one):
    """A block may have weight 0 throughout; and the bounds are those of the rows that count, exact and certifiable."""
    file, folder = weighted([one * (row >= 500 and row % 3 > 0) for row in range(900)])
    for command in (("audit",), ("certify", "--require", "disparate_impact >= 0.1")):
        kept = fairbound(command[0], file, *JUDGED, *command[1:], "--json")
        streamed = fairbound(command[0], folder, *JUDGED, *command[1:], "--json", *TINY)
        assert (kept.code, streamed.code) == (0, 0), streamed.stderr
        assert_close(json.loads(streamed.stdout), json.loads(kept.stdout))
    assert json.loads(kept.stdout)["limits"][0]["verdict"] == "PASS"


@pytest.mark.parametrize(
    ("weights", "parts"),
    [
        ([0.0] * 900, ("'w' (--weight)", "zero in every row")),
        ([1.0] * 700 + [-2.0] + [1.0] * 199, ("'w' (--weight)", "-2 in row 701")),
        ([1.0] * 400 + [1e-30] * 500, ("'w' (--weight)", "from 1e-30 to 1")),
    ],
)
def test_weights_in_parts_are_refused_as_those_in_memory(fairbound, weighted, weights, parts):
    file, folder = weighted(weights)
    kept, streamed = fairbound("audit", file, *JUDGED), fairbound("audit", folder, *JUDGED, *TINY)
    assert kept.code == streamed.code == 2
    assert says(kept.sentence, *parts)
    assert streamed.stderr.splitlines()[-1].endswith(kept.sentence)


@pytest.mark.parametrize("zeros", [(0.0, -0.0), (-0.0, 0.0)])
def test_the_groups_0_and_minus_0_are_one_group_of_one_name(fairbound, tmp_path, zeros):
    columns = {"g": [*zeros, 1.5] * 20, "decision": [1, 0, 1, 1, 0, 1] * 10}
    pq.write_table(pa.table(columns), tmp_path / "zeros.parquet")
    given = ("audit", "zeros.parquet", "--prediction", "decision", "--sensitive", "g", "--json")
    kept, streamed = fairbound(*given), fairbound(*given, *TINY)
    assert streamed.stdout == kept.stdout
    assert "-0.0" not in kept.stdout
    assert "0.0" in fairbound(*given[:-1]).stdout


def assert_close(found, expected):
    """Compare JSON; numbers may differ in their last digits."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for name in expected:
            assert_close(found[name], expected[name])
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_close(one, other)
    else:
        assert found == (pytest.approx(expected, rel=1e-12) if isinstance(expected, float) else expected)


@pytest.mark.parametrize(
    "options", [("--sensitive", "sex", "--score", "income"), ("--sensitive", "sex=income,id")], ids=str
)
def test_scores_and_probabilities_in_files(fairbound, tmp_path, options):
    columns = {name: list(values) for name, values in zip(LOAN_COLUMNS, zip(*loan_rows(300), strict=True), strict=True)}
    columns["income"] = [0.25 + 0.5 * (place % 2) for place in range(300)]
    columns["id"] = [1 - share for share in columns["income"]]
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet")
    given = ("audit", "rows.parquet", "--target", "approved", "--prediction", "approved", *options, "--json")
    kept, found = fairbound(*given), fairbound(*given, *TINY)
    assert found.code == kept.code == 0, kept.stderr
    assert found.stdout == kept.stdout
