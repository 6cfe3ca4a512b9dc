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


def test_a_streamed_run_has_the_model_and_the_numbers_of_one_in_memory(fairbound, loans, parquet, tmp_path):
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
    assert fairbound("predict", "kept", loans, "--out", "parts.csv", "--probability", *TINY).code == 0
    assert fairbound("predict", "kept", loans, "--out", "whole.csv", "--probability").code == 0
    assert (tmp_path / "parts.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
    assert fairbound("predict", "kept", parquet, "--out", "parts.parquet").code == 0
    assert fairbound("predict", "kept", tmp_path / "loans.parquet", "--out", "whole.parquet").code == 0
    assert pq.read_table(tmp_path / "parts.parquet").equals(pq.read_table(tmp_path / "whole.parquet"))
    found = fairbound("predict", "kept", parquet, "--out", "other.csv")
    assert says(found.stderr, "loans", ".parquet")
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


def test_an_audit_in_parts_refuses_scores_and_weights(fairbound, loans):
    found = fairbound("audit", loans, "--prediction", "approved", "--sensitive", "sex", "--weight", "income", *TINY)
    assert found.code == 2
    assert says(found.stderr, "--weight", "--memory")
