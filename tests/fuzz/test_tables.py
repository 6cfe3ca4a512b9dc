"""`read_table`: a sound file is read as what it says, in every dialect; a damaged one is refused, or read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from tests.fuzz import files
from tests.fuzz import generators as draw
from tests.fuzz.harness import Refused, attempt, cases, expect

from fairbound.data import Dataset, read_table

ROLES: dict[str, Any] = {"target": "approved", "sensitive": ["sex", "region"], "ignore": "id"}


@cases("table-sound", few=150, many=8_000)
def test_a_sound_file_is_read_as_what_it_says(cases, tmp_path):
    cases.run(lambda rng: one_sound_file(rng, tmp_path))


def one_sound_file(rng: np.random.Generator, folder: Path) -> None:
    table = files.draw_table(rng, int(rng.integers(4, 40)))
    write = draw.pick(rng, [files.write_csv, files.write_csv, files.write_parquet])
    written = write(rng, table, folder)
    found = attempt(read_table, written.path, **ROLES, **written.options)
    gone = [name for name in ("income", "share", "job") if not any(each is not None for each in table.columns[name])]
    if isinstance(found, Refused):
        expect(bool(gone), "refused", written, found)
        return
    check_dataset(found)
    columns = table.columns
    expect(found.y.tolist() == columns["approved"], "labels", found.y.tolist())
    for name in ("sex", "region"):
        expect(found.sensitive[name].tolist() == columns[name], name, found.sensitive[name].tolist())
    for name in ("income", "share"):
        place = found.feature_names.index(name)
        wanted = np.array([np.nan if value is None else value for value in columns[name]], dtype=float)
        expect(np.array_equal(found.X[:, place], wanted, equal_nan=True), name, found.X[:, place], wanted)
    expect(found.table.show()["job"].tolist() == columns["job"], "job", found.table.show()["job"])


def check_dataset(found: Dataset) -> None:
    """Check what holds for every data set: shapes that fit, no infinity, a gap only where the table has one."""
    expect(found.X.shape == (len(found.y), len(found.feature_names)), "shape", found.X.shape)
    expect(not np.isinf(found.X).any(), "infinity among the inputs")
    gaps = sum(found.table.missing().values())
    expect(int(np.isnan(found.X).sum()) <= gaps, "more gaps in X than in the table")
    expect(set(found.y.tolist()) <= set(range(len(found.target_names))), "labels", set(found.y.tolist()))
    repr(found), found.describe(next(iter(found.sensitive))) if found.sensitive else None
    expect(len(found.frame()) == len(found.y), "rows of the frame")


@cases("table-damaged", few=200, many=10_000)
def test_a_damaged_file_is_refused_or_read(cases, tmp_path):
    cases.run(lambda rng: one_damaged_file(rng, tmp_path))


def one_damaged_file(rng: np.random.Generator, folder: Path) -> None:
    table = files.draw_table(rng, int(rng.integers(2, 15)))
    write = draw.pick(rng, [files.write_csv, files.write_csv, files.write_csv, files.write_parquet])
    written = files.damage(rng, write(rng, table, folder))
    options: dict[str, Any] = {**ROLES, **written.options}
    if draw.chance(rng, 0.3):
        options |= odd_options(rng)
    found = attempt(read_table, written.path, **options)
    if not isinstance(found, Refused):
        check_dataset(found)
    else:
        expect(len(found.sentence) < 2000, "a sentence of", len(found.sentence), "letters")


def odd_options(rng: np.random.Generator) -> dict[str, Any]:
    """Return arguments of `read_table` that are wrong, odd, or of the wrong type."""
    odd = [
        None,
        0,
        1.5,
        b"x",
        "",
        "nosuch",
        "aproved",
        object(),
        [],
        ["sex", "sex"],
        {"sex"},
        ("sex",),
        True,
        [None],
        [1],
        {},
        "x" * 1000,
    ]
    names = ["target", "sensitive", "positive", "categorical", "ignore", "sensitive_as_input", "max_categories"]
    names += ["missing", "delimiter", "encoding"]
    plain = {
        "positive": [0, 1, "0", "1", "yes", 1.0, True, np.int64(1)],
        "categorical": ["income", ["income", "share"], "job"],
        "max_categories": [2, 3, 50],
        "missing": [("",), ("x", "cook"), {"?"}],
        "encoding": [
            "utf-16",
            "latin-1",
            "utf-7",
            "ascii",
            "idna",
            "rot13",
            "base64",
            "undefined",
            "utf-8-sig",
            "cp037",
        ],
        "delimiter": [",", ";", "\t", " ", "\n", '"', "ä", "\x00", ",,"],
    }
    chosen = {}
    for name in rng.permutation(names)[: int(rng.integers(1, 3))].tolist():
        chosen[name] = draw.pick(rng, [*odd, *plain.get(name, []), *plain.get(name, [])])
    return chosen


@cases("parquet-types", few=100, many=4_000)
def test_parquet_columns_of_any_type_are_read_or_refused(cases, tmp_path):
    cases.run(lambda rng: one_parquet_file(rng, tmp_path))


def one_parquet_file(rng: np.random.Generator, folder: Path) -> None:
    table = files.draw_table(rng, int(rng.integers(5, 15)))
    arrays = {name: pa.array(values) for name, values in table.columns.items()}
    for _ in range(int(rng.integers(1, 3))):
        arrays[draw.pick(rng, [*arrays, "extra", "Ä b", "income "])] = files.odd_array(rng, table.n_rows)
    path = folder / "odd.parquet"
    parquet.write_table(pa.table(arrays), path)
    found = attempt(read_table, path, **ROLES, positive=draw.pick(rng, [None, None, 1, "1", "True"]))
    if not isinstance(found, Refused):
        check_dataset(found)
