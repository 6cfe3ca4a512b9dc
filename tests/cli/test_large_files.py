"""Commands on files that are larger than the memory allowed: they stream, with the same result."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli.helpers import LIMIT, LOAN_COLUMNS, LOANS, loan_rows, write_csv
from tests.refusals import says

from fairbound.cli.streaming import is_too_large, parse_memory

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


def test_a_streamed_run_has_the_model_and_the_numbers_of_one_in_memory(fairbound, loans, tmp_path):
    loose = "disparate_impact >= 0.4"  # the model without limits keeps it, so the fit is short
    options = ("train", loans, *LOANS, "--require", loose, "--test", 0, "--model", "linear")
    assert fairbound(*options, "--out", "kept").code == 0
    found = fairbound(*options, "--out", "streamed", *TINY)
    assert found.code == 0
    assert "in parts" in found.stderr
    assert "in parts and streamed" in found.stdout
    kept, streamed = (tmp_path / name for name in ("kept", "streamed"))
    weights = [(each / "model" / "weights.safetensors").read_bytes() for each in (kept, streamed)]
    assert weights[0] == weights[1]
    first, second = (json.loads((each / "summary.json").read_text("utf-8")) for each in (kept, streamed))
    assert second["parts"]["training"] == first["parts"]["training"]
    assert second["changes"] == first["changes"]
    for one, other in zip(first["limits"], second["limits"], strict=True):
        for name in ("gap", "gap_bound"):  # sums over the rows in another order
            assert other.pop(name) == pytest.approx(one.pop(name), rel=1e-10)
        assert other == one
    assert second["model"]["inputs"][0]["name"] == first["model"]["inputs"][0]["name"]
    decided = [
        fairbound("predict", name, loans, "--out", f"{name}.csv").code == 0 and (tmp_path / f"{name}.csv").read_bytes()
        for name in ("kept", "streamed")
    ]
    assert decided[0] == decided[1]
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith(".")] == []


def test_a_folder_of_files_with_held_out_rows_and_a_network(fairbound, parquet, tmp_path):
    found = fairbound("train", parquet, *LOANS, "--require", LIMIT, "--model", "mlp:3", "--out", "run", "--json")
    assert found.code in (0, 1), found.stderr
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text("utf-8"))
    rows = metrics["rows"]
    assert rows["training"] + rows["held_out"] == 1500
    assert 240 <= rows["held_out"] <= 360  # each row is held out with a probability of a fifth
    assert (tmp_path / "run" / "report.html").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("further", "parts"),
    [
        (("--model", "boosted"), ("boosted", "memory")),
        (("--confidence", 0.95), ("--confidence 0.95", "--memory")),
        (("--margin", "auto"), ("--margin", "--memory")),
        (("--test-file", "loans.csv"), ("--test-file", "leave it out")),
        (("--memory", "much"), ("--memory", "'much'", "2GB")),
    ],
)
def test_what_cannot_be_streamed_is_refused(fairbound, loans, further, parts):
    found = fairbound("train", loans, *LOANS, "--require", LIMIT, "--out", "run", *TINY, *further)
    assert found.code == 2
    assert says(found.stderr, *parts)


def test_the_size_decides(loans, parquet, tmp_path):
    assert not is_too_large(str(loans), parse_memory("1GB"))
    assert is_too_large(str(loans), parse_memory("10 kB"))
    assert is_too_large(str(tmp_path / "loans.parquet"), parse_memory("1MB"))
    assert not is_too_large(str(tmp_path / "loans.parquet"), parse_memory(None))
    assert is_too_large(str(parquet), parse_memory(None))
    assert not is_too_large("law", parse_memory("1KB"))


def test_a_killed_run_leaves_no_scratch_folder_for_long(fairbound, loans, tmp_path):
    lost = write_csv(tmp_path / "lost.csv", LOAN_COLUMNS, [*loan_rows(40), *[("x",) * len(LOAN_COLUMNS)]])
    found = fairbound("train", lost, "--target", "approved", "--sensitive", "sex", "--out", "run", *TINY)
    assert found.code == 2
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith(".")] == []
    assert not (tmp_path / "run").exists()
