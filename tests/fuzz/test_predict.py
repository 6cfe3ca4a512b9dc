"""`fairbound predict`: every column comes out as it came in, and a decision does not depend on the other rows."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from tests.fuzz import files
from tests.fuzz import generators as draw
from tests.fuzz.harness import cases, expect
from tests.fuzz.test_command_line import call, check, clear, snapshot

PROBABILITY = "probability of 1"


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """Return a model trained on numbers, words, codes with leading zeros, and gaps."""
    folder = tmp_path_factory.mktemp("trained")
    rng = np.random.default_rng(0)
    table = with_codes(rng, files.draw_table(rng, 300))
    path = folder / "loans.csv"
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(table.columns)
        writer.writerows(zip(*table.columns.values(), strict=True))
    arguments = [
        "train",
        str(path),
        "--target",
        "approved",
        "--sensitive",
        "sex",
        "region",
        "--ignore",
        "id",
        "--quiet",
    ]
    found = call([*arguments, "--require", "demographic_parity(sex) <= 0.2", "--out", str(folder / "run")])
    assert found.code in (0, 1), found.stderr
    return folder / "run"


def with_codes(rng: np.random.Generator, table: files.Table) -> files.Table:
    """Add a column of codes, which look like numbers in some files and do not in others."""
    label = np.array(table.columns["approved"])
    pools = [["01", "02", "1e3"], ["A1", "02", "B7"]]
    return files.Table({**table.columns, "code": [draw.pick(rng, pools[each]) for each in label]})


@cases("predict", few=25, many=900)
def test_columns_come_out_as_they_came_in(cases, model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    cases.run(lambda rng: one_prediction(rng, model, tmp_path))


def one_prediction(rng: np.random.Generator, model: Path, folder: Path) -> None:
    clear(folder)
    table = with_codes(rng, files.draw_table(rng, int(rng.integers(2, 40))))
    kind = draw.pick(rng, ["csv", "csv", "parquet"])
    if kind == "csv":
        table = files.Table({**table.columns, "note": [draw.pick(rng, NOTES) for _ in range(table.n_rows)]})
        written = files.write_csv(rng, table, folder)
    else:
        path = folder / "loans.parquet"
        arrays = {name: pa.array(values) for name, values in table.columns.items()}
        parquet.write_table(pa.table({**arrays, "note": files.odd_array(rng, table.n_rows)}), path)
        written = files.Written(path)
    out = folder / f"out.{draw.pick(rng, ['csv', 'parquet'])}"
    arguments = ["predict", str(model), str(written.path), "--out", str(out), "--probability", "--json"]
    arguments += [] if written.delimiter is None else ["--delimiter", written.delimiter]
    arguments += [] if written.encoding == "utf-8" else ["--encoding", written.encoding]
    before = snapshot(folder)
    found = call(arguments)
    check(found, before, folder)
    expect(found.code == 0, "refused", ascii(found.stderr[-400:]))
    expect(json.loads(found.stdout)["rows"] == table.n_rows, "rows", found.stdout)
    compare(written, kind, out)
    alone(rng, model, table, written, out, folder)


NOTES = (
    "x",
    "007",
    "1e3",
    "NA",
    "",
    "True",
    " padded ",
    '"quoted"',
    "a,b",
    "line\nend",
    "Ä",
    "1.50",
    "-5",
    "null",
    "0x1F",
    "18,000",
)


def compare(written: files.Written, kind: str, out: Path) -> None:
    """Check that the columns of the file stand in the output, unchanged and in order, before those that were added."""
    if kind == "csv":
        rows = read_csv(written.path, written)
        if out.suffix == ".csv":
            there = read_csv(out, written)
        else:
            found = parquet.read_table(out)
            there = [found.column_names, *zip(*(column.to_pylist() for column in found.columns), strict=True)]
        expect(len(there) == len(rows), "rows", len(there))
        for row, line in zip(rows, there, strict=True):
            expect(list(line[: len(row)]) == row, "row", row, "became", line)
    elif out.suffix == ".parquet":
        before, after = parquet.read_table(written.path), parquet.read_table(out)
        for name in before.column_names:
            expect(name in after.column_names, "column", name, "is gone")
            one, other = before.column(name), after.column(name)
            expect(one.type == other.type, name, one.type, "became", other.type)
            expect(
                repr(one.to_pylist()) == repr(other.to_pylist()),
                name,
                one.to_pylist()[:5],
                "became",
                other.to_pylist()[:5],
            )


def read_csv(path: Path, written: files.Written) -> list[list[str]]:
    """Return the records of a file or of what became of it, which has its encoding; `.csv` from `.tsv` has commas."""
    text = path.read_bytes().decode("utf-8-sig" if written.encoding == "utf-8" else written.encoding)
    delimiter = written.delimiter or ("\t" if path.suffix == ".tsv" else ",")
    return [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row]


def read_probabilities(path: Path, written: files.Written) -> dict[str, float]:
    """Return the probability of each row by its identifier."""
    if path.suffix == ".parquet":
        table = parquet.read_table(path)
        pairs = zip(table.column("id").to_pylist(), table.column(PROBABILITY).to_pylist(), strict=True)
    else:
        names, *rows = read_csv(path, written)
        pairs = [(row[names.index("id")], row[names.index(PROBABILITY)]) for row in rows]
    return {str(key): float(value) for key, value in pairs}


def alone(
    rng: np.random.Generator, model: Path, table: files.Table, written: files.Written, out: Path, folder: Path
) -> None:
    """Decide some of the rows by themselves: nothing may change."""
    rows = np.flatnonzero(rng.random(table.n_rows) < 0.3).tolist() or [0]
    part = files.Table({name: [values[row] for row in rows] for name, values in table.columns.items()})
    path = folder / "part.csv"
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(part.columns)
        writer.writerows(
            ["" if value is None else value for value in row] for row in zip(*part.columns.values(), strict=True)
        )
    found = call(["predict", str(model), str(path), "--out", str(folder / "again.csv"), "--probability", "--quiet"])
    expect(found.code == 0, "rows by themselves are refused:", ascii(found.stderr[-400:]))
    together = read_probabilities(out, written)
    apart = read_probabilities(folder / "again.csv", files.Written(folder / "again.csv"))
    for key, value in apart.items():
        expect(value == together[key], "row", key, "has", value, "alone and", together[key], "among others", written)
