"""Codes that a float would round stay apart, whatever reads them: in memory, in parts, with and without gaps."""

from __future__ import annotations

import json
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fairbound import audit
from fairbound.data import column_values, open_batches
from fairbound.estimator.groups import _values

LARGE = 2**53
TINY = ("--memory", "1KB")
KINDS = {
    "uint64": (pa.uint64(), [2**64 - 1, 2**64 - 2], False),
    "uint64 with a gap": (pa.uint64(), [LARGE, LARGE + 1], True),
    "decimal": (pa.decimal128(38, 0), [Decimal(10**30), Decimal(10**30 + 1)], False),
    "decimal with places": (
        pa.decimal128(38, 4),
        [Decimal("123456789012345.0001"), Decimal("123456789012345.0002")],
        True,
    ),
    "int64 with a gap": (pa.int64(), [LARGE, LARGE + 1], True),
}


def write(path, kind, rows=240):
    """Write rows whose groups are decided apart, 3/4 and 1/4 selected; return the words of the groups."""
    dtype, groups, gap = KINDS[kind]
    code = [groups[row % 2] for row in range(rows)]
    selected = [int((row // 2) % 4 < (3 if row % 2 else 1)) for row in range(rows)]
    if gap:
        code[0] = None
    columns = {"code": pa.array(code, dtype), "decision": selected, "y": [int(row % 3 > 0) for row in range(rows)]}
    pq.write_table(pa.table({**columns, "x": np.arange(rows) % 7 + np.array(selected) * 2.0}), path)
    return {format(group, "f") if isinstance(group, Decimal) else str(group) for group in groups}


@pytest.mark.parametrize("kind", KINDS)
def test_audit_certify_and_monitor_keep_large_codes_apart(fairbound, tmp_path, kind):
    words = write(tmp_path / "codes.parquet", kind)
    given = ("codes.parquet", "--prediction", "decision", "--sensitive", "code")
    for options in ((), TINY):
        found = fairbound("audit", *given, *options)
        assert found.code == 0, found.stderr
        assert all(f"\n  {word} " in found.stdout for word in words)
        certified = fairbound("certify", *given, "--require", "disparate_impact >= 0.9", "--json", *options)
        assert json.loads(certified.stdout)["limits"][0]["verdict"] == "FAIL"
    watched = fairbound("monitor", *given, "--require", "disparate_impact >= 0.9", "--state", "s.json")
    assert all(f"({word})" in watched.stdout for word in words), watched.stdout


@pytest.mark.parametrize("kind", ["uint64", "int64 with a gap"])
@pytest.mark.parametrize("options", [(), TINY])
def test_training_keeps_large_codes_apart(fairbound, tmp_path, kind, options):
    words = write(tmp_path / "codes.parquet", kind)
    given = ("--target", "y", "--sensitive", "code", "--ignore", "decision", "--test", "0.3", "--model", "linear")
    found = fairbound(
        "train", "codes.parquet", *given, "--require", "disparate_impact >= 0.1", "--out", "run", *options
    )
    assert found.code in (0, 1), found.stderr
    report = (tmp_path / "run" / "summary.json").read_text()
    assert all(word in report for word in words)


@pytest.mark.parametrize("gap", [None, float("nan")])
def test_python_keeps_large_codes_apart(gap):
    code, decision = [LARGE, LARGE + 1, gap] * 20, [1, 0, 1] * 20
    for column in (code, pa.array([None if each is not None and each != each else each for each in code])):
        found = audit(None, decision, {"code": column})
        assert found.measure("disparate_impact").value == 0.0
        assert len({each for each in _values(column).tolist() if each == each and each is not None}) == 2


def test_files_of_a_folder_with_int64_and_uint64_keep_codes_apart(tmp_path):
    for place, (kind, code) in enumerate(((pa.int64(), [LARGE, LARGE + 1]), (pa.uint64(), [LARGE + 2, LARGE + 3]))):
        pq.write_table(pa.table({"code": pa.array(code, kind)}), tmp_path / f"{place}.parquet")
    source = open_batches(tmp_path).learn(words=["code"])
    values = [value for _, table in source.batches(["code"]) for value in table.column("code").to_pylist()]
    assert source.distinct("code", values).tolist() == [LARGE, LARGE + 1, LARGE + 2, LARGE + 3]


def test_quantities_stay_numbers():
    """Only codes become text: a large number that is measured is a float, as in text files."""
    found = column_values(pa.chunked_array([pa.array([LARGE + 1, None], pa.int64())]))
    assert found.dtype == np.float64
    assert column_values(pa.chunked_array([pa.array([5, 7], pa.uint64())])).tolist() == [5, 7]
