"""The same data and options through every reading give the same decisions, verdicts, numbers and exit codes.

A table is written as text, as Parquet and as a folder of Parquet files.  Each is read by the program in memory and in
parts (a folder always in parts), and the rows themselves are given to the functions of the library.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pyarrow import parquet
from tests.cli.processes import environment
from tests.fuzz import files
from tests.fuzz import generators as draw
from tests.fuzz.harness import attempt, cases, expect
from tests.fuzz.test_command_line import LIMITS, call, clear

from fairbound import load
from fairbound.evaluation import Monitor, audit, certify

IN_PARTS = ["--memory", "1KB"]
LOOSE = 1e-9
"""Relative difference of numbers: sums of weights in another order, and numbers in another type of column."""

FIXED = (
    "disparate_impact >= 0.8",
    "demographic_parity(sex) <= 0.2",
    "equal_opportunity <= 0.1",
    "equalized_odds <= 0.3",
)
WATCHED = ("disparate_impact >= 0.8", "demographic_parity <= 0.2", "selection_rate >= 0.1")

Readings = dict[str, tuple[Path, list[str]]]


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """Return a model trained on numbers, words and gaps."""
    folder = tmp_path_factory.mktemp("trained")
    table = files.draw_table(np.random.default_rng(0), 300)
    written = write_plain(table, folder / "loans.csv")
    found = call([*train(written, folder / "run"), "--require", "demographic_parity(sex) <= 0.2", "--quiet"])
    expect(found.code in (0, 1), found.stderr)
    return folder / "run"


def train(path: Path, out: Path) -> list[str]:
    chosen = ["--target", "approved", "--sensitive", "sex", "--ignore", "id", "--model", "linear"]
    return ["train", str(path), *chosen, "--out", str(out)]


def write_plain(table: files.Table, path: Path) -> Path:
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(table.columns)
        writer.writerows(zip(*table.columns.values(), strict=True))
    return path


def written_in_all_ways(rng: draw.Rng, table: files.Table, folder: Path) -> Readings:
    """Return a path and the options for each way to read the table."""
    text, whole = files.write_csv(rng, table, folder), files.write_parquet(rng, table, folder, "whole")
    several = folder / "several"
    several.mkdir()
    arrow = parquet.read_table(whole.path)
    edges = [0, *sorted(rng.integers(0, arrow.num_rows + 1, int(rng.integers(0, 3))).tolist()), arrow.num_rows]
    for place, (start, stop) in enumerate(itertools.pairwise(edges)):
        parquet.write_table(arrow.slice(start, stop - start), several / f"{place}.parquet", row_group_size=50)
    told = [] if text.delimiter is None else ["--delimiter", text.delimiter]
    told += [] if text.encoding == "utf-8" else ["--encoding", text.encoding]
    return {
        "text": (text.path, told),
        "text in parts": (text.path, [*told, *IN_PARTS]),
        "Parquet": (whole.path, []),
        "Parquet in parts": (whole.path, IN_PARTS),
        "folder": (several, []),
    }


def decisions(rng: draw.Rng) -> files.Table:
    """Return applicants with decisions, perhaps with gaps in a group column and with weights."""
    table = files.draw_table(rng, int(rng.integers(8, 250)), decided=True)
    columns = dict(table.columns)
    if draw.chance(rng, 0.3):
        columns["region"] = [None if draw.chance(rng, 0.1) else each for each in columns["region"]]
    columns["count"] = rng.integers(1, 4, table.n_rows).tolist()
    return files.Table(columns)


def expect_alike(one: Any, other: Any, *where: object) -> None:
    """Fail the case unless two JSON values are the same, with numbers up to rounding."""
    if isinstance(one, dict) and isinstance(other, dict):
        expect(one.keys() == other.keys(), *where, sorted(one.keys() ^ other.keys()))
        for key in one:
            expect_alike(one[key], other[key], *where, key)
    elif isinstance(one, list) and isinstance(other, list):
        expect(len(one) == len(other), *where, "have", len(one), "and", len(other), "entries")
        for place, (mine, theirs) in enumerate(zip(one, other, strict=True)):
            expect_alike(mine, theirs, *where, place)
    elif isinstance(one, float) and isinstance(other, float | int):
        expect(abs(one - other) <= LOOSE * max(1.0, abs(one)), *where, one, other)
    else:
        expect(one == other, *where, repr(one), repr(other))


def compare(readings: Readings, arguments: Callable[[Path], list[str]], numbers: dict[str, Any] | None) -> int:
    """Run a command in every way; its code and numbers must be those of the first way and, if given, these."""
    codes: dict[str, int] = {}
    known = numbers
    for way, (path, told) in readings.items():
        found = call([*arguments(path), *told, "--json"])
        codes[way] = found.code
        expect(len({*codes.values()}) == 1, codes, found.stderr)
        if found.code < 2:
            content = json.loads(found.stdout)
            known = content if known is None else known
            expect_alike({key: content[key] for key in known}, known, way)
    return next(iter(codes.values()))


@cases("commands", few=15, many=300)
def test_every_reading_gives_the_same(cases, model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    cases.run(lambda rng: draw.pick(rng, [one_audit, one_certificate, one_prediction, one_watch])(rng, model, tmp_path))


def judged(rng: draw.Rng, table: files.Table) -> tuple[list[str], dict[str, Any]]:
    """Return options of `audit` and `certify`, and the same for the functions."""
    groups = draw.pick(rng, [["sex"], ["region"], ["sex", "region"]])
    options = ["--target", "approved", "--prediction", "decision", "--sensitive", *groups]
    columns = {name: np.array(values, dtype=object) for name, values in table.columns.items()}
    given: dict[str, Any] = {
        "y": columns["approved"].astype(str),
        "prediction": columns["decision"].astype(str),
        "sensitive_features": {name: columns[name] for name in groups},
        "pos_label": "1",
    }
    if draw.chance(rng, 0.3):
        options += ["--weight", "count"]
        given["sample_weight"] = columns["count"].astype(float)
    if len(groups) > 1 and draw.chance(rng, 0.5):
        given["groups"] = draw.pick(rng, ["intersection", "both"])
        options += ["--groups", given["groups"]]
    if draw.chance(rng, 0.3):
        given["confidence"] = draw.pick(rng, [0.5, 0.9, 0.99])
        options += ["--confidence", str(given["confidence"])]
    return options, given


def one_audit(rng: draw.Rng, model: Path, folder: Path) -> None:
    clear(folder)
    table = decisions(rng)
    readings = written_in_all_ways(rng, table, folder)
    options, given = judged(rng, table)
    limits = [draw.pick(rng, LIMITS) for _ in range(int(rng.integers(0, 3)))]
    found = attempt(audit, **given)
    numbers = found.to_dict() if hasattr(found, "to_dict") else None
    required = ["--require", *limits] if limits else []
    code = compare(readings, lambda path: ["audit", str(path), *options, *required], numbers)
    expect((code == 2) if numbers is None else (code < 2 or bool(limits)), code, numbers is None)


def one_certificate(rng: draw.Rng, model: Path, folder: Path) -> None:
    clear(folder)
    table = decisions(rng)
    readings = written_in_all_ways(rng, table, folder)
    options, given = judged(rng, table)
    limits = [draw.pick(rng, FIXED)]
    if "sample_weight" in given:  # otherwise a sentence asks for it, by the name of the option or of the argument
        given["largest_weight"] = 4.0
        options += ["--largest-weight", "4"]
    found = attempt(certify, limits=limits, **given)
    numbers = found.to_dict() if hasattr(found, "to_dict") else None
    code = compare(readings, lambda path: ["certify", str(path), *options, "--require", *limits], numbers)
    expect(code == (2 if numbers is None else 0 if found.passed else 1), code, found)


def one_prediction(rng: draw.Rng, model: Path, folder: Path) -> None:
    clear(folder)
    table = files.draw_table(rng, int(rng.integers(2, 120)))
    names = [name for name in table.columns if name not in ("approved", "sex", "id")]
    estimator = load(model / "model")
    frame = pd.DataFrame({name: table.columns[name] for name in names})
    decided, probability = estimator.predict(frame), estimator.predict_proba(frame)[:, 1]
    for place, (way, (path, told)) in enumerate(written_in_all_ways(rng, table, folder).items()):
        out = folder / f"{place}.{'csv' if way.startswith('text') else 'parquet'}"
        found = call(["predict", str(model), str(path), "--out", str(out), "--probability", *told])
        expect(found.code == 0, way, found.stderr)
        columns = read_text(out) if out.suffix == ".csv" else parquet.read_table(out).to_pydict()
        expect([str(each) for each in columns["prediction"]] == decided.tolist(), way, "decides otherwise")
        given = np.array(columns["probability of 1"], dtype=float)
        expect(bool(np.allclose(given, probability, rtol=0, atol=1e-12)), way, "has other probabilities")


def read_text(path: Path) -> dict[str, list[Any]]:
    """Return the columns of a file in any dialect of `files.write_csv`."""
    content = path.read_bytes()
    encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    header = text.splitlines()[0]
    delimiter = max(",;\t|", key=header.count)
    rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row]
    return dict(zip(rows[0], map(list, zip(*rows[1:], strict=True)), strict=True))


def one_watch(rng: draw.Rng, model: Path, folder: Path) -> None:
    clear(folder)
    batches = [decisions(rng) for _ in range(int(rng.integers(1, 4)))]
    limit, groups = draw.pick(rng, WATCHED), draw.pick(rng, [["sex"], ["sex", "region"]])
    watched = Monitor(limit, pos_label="1")
    known = None
    for table in batches:
        columns = {name: np.array(values, dtype=object) for name, values in table.columns.items()}
        known = attempt(watched.update, columns["decision"].astype(str), {name: columns[name] for name in groups})
        if known is not None:
            break
    for kind in ("csv", "parquet"):
        paths = []
        for place, table in enumerate(batches):
            if kind == "csv":
                paths.append(write_plain(table, folder / f"{place}.csv"))
            else:
                paths.append(files.write_parquet(rng, table, folder, f"batch{place}").path)
        options = ["--prediction", "decision", "--sensitive", *groups, "--positive", "1", "--require", limit, "--json"]
        found = call(["monitor", *map(str, paths), *options, "--state", str(folder / f"{kind}.json")])
        expect(found.code == (2 if known is not None else int(watched.alarm)), kind, found.code, found.stderr)
        if known is None:
            content = json.loads(found.stdout)
            for each in content["limits"]:
                each["alarm"] = each["alarm"] and {**each["alarm"], "name": None}  # the program names its files
            expect_alike({key: content[key] for key in watched.to_dict()}, watched.to_dict(), kind)


@cases("commands-train", few=1, many=8)
def test_training_from_every_reading_gives_the_same(cases, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    cases.run(lambda rng: one_training(rng, tmp_path))


def one_training(rng: draw.Rng, folder: Path) -> None:
    clear(folder)
    table = files.draw_table(rng, int(rng.integers(100, 250)))
    limit = draw.pick(rng, ["demographic_parity <= 0.3", "disparate_impact >= 0.4"])
    known: Any = None
    for place, (way, (path, told)) in enumerate(written_in_all_ways(rng, table, folder).items()):
        out = folder / f"run{place}"
        found = call([*train(path, out), "--require", limit, "--seed", "3", *told])
        expect(found.code < 2, way, found.stderr)
        summary = json.loads((out / "summary.json").read_text("utf-8"))
        summary["held_out"]["after"]["scores"] = None  # only rows in memory have scores by group
        parts = summary["training"], summary["held_out"]
        reached = found.code, parts, json.loads((out / "model" / "model.json").read_text())["data"]
        known = known or reached
        expect_alike(list(reached), list(known), way)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="torchrun with gloo")
@pytest.mark.parametrize("seed", [0, 1])
def test_two_processes_hold_out_the_rows_of_one(tmp_path, seed):
    """The models may differ by rounding (`tests/cli/test_same_command.py` has how far); parts and codes do not."""
    rng = np.random.default_rng(seed)
    readings = written_in_all_ways(rng, files.draw_table(rng, 400), tmp_path)
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "0", "--standalone"]
    found = []
    for way, started in (("Parquet", []), ("Parquet", launcher), ("folder", launcher)):
        path, out = readings[way][0], tmp_path / f"run{len(found)}"
        run = [sys.executable, *started, "-m", "fairbound", *train(path, out), "--require", "disparate_impact >= 0.4"]
        code = subprocess.run(run, cwd=tmp_path, env=environment(), capture_output=True).returncode
        summary = json.loads((out / "summary.json").read_text("utf-8"))
        audits = [summary[name]["after"] for name in ("training", "held_out")]
        labels = [[group["labels"] for group in each["groups"]] for each in audits]
        found.append((code, [each["rows"] for each in audits], labels))
    assert found[0] == found[1] == found[2]
