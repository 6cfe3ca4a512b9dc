"""Interpretations of columns that are not obvious are reported, with the option that changes them."""

from __future__ import annotations

import csv

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fairbound.data import load_dataset, read_table

ROWS = 60


def read(path, values, name="v", **options):
    rows = [(value, place % 7 / 2, place % 2) for place, value in enumerate(values)]
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows([(name, "x", "y"), *rows])
    return read_table(path, target="y", **options)


def repeated(*values):
    return [values[place % len(values)] for place in range(ROWS)]


@pytest.mark.parametrize(
    ("name", "values", "kind", "words", "example", "option"),
    [
        ("pay", repeated("$2,174", "$18"), "number", "thousands and the sign $", "'$2,174' is", "categorical"),
        ("pay", repeated("18,000", "1,234"), "number", "commas between thousands", "'18,000' is 18000", "categorical"),
        ("pay", repeated("45,5", "3"), "number", "with a decimal comma", "'45,5' is 45.5", "categorical"),
        ("pay", repeated("2.50", "3", "n/a"), "number", "'n/a' is missing", "'2.50'", "categorical"),
        ("zip", repeated("08001", "10115"), "number", "a code?", "'08001' is 8001", "categorical"),
        ("zip", repeated("18001", "10115"), "number", "a code?", "'18001'", "categorical"),
        ("region_code", repeated("1", "2", "3"), "number", "3 values: a code?", "'3'", "categorical"),
        ("v", range(1000, 1000 + ROWS), "number", "every value differs: an identifier?", "'1059'", "ignore"),
        ("customerID", range(0, 900 * ROWS, 900), "number", "an identifier?", "'53100'", "ignore"),
        ("v", [2**53 + 2 * place for place in range(ROWS)], "number", "rounded to 53 bits", "'9007", "ignore"),
        ("v", [*repeated("1", "2", "3")[1:], "forty"], "category", "59 of 60 values are numbers", "'forty'", "missing"),
        ("v", [f"name {place}" for place in range(ROWS)], "category", "60 different values", "'name 0'", "ignore"),
        *(
            ("day", repeated(*days), "category", "3 dates", f"'{days[0]}'", option)
            for option, *days in (
                ("dates", "2024-01-31", "2024-02-01", "2024-12-24"),
                ("dates", "2024-01-31 10:00", "2024-02-01T11:30:00Z", "2024-12-24"),
                ("dates", "31.1.2024", "1.2.2024", "24.12.2024"),
                ("ignore", "1/31/24", "2/1/24", "12/24/24"),
                ("ignore", "31 Jan 2024", "1 Feb 2024", "24 December 2024"),
            )
        ),
    ],
)  # fmt: skip
def test_what_is_said(tmp_path, name, values, kind, words, example, option):
    (found,) = read(tmp_path / "t.csv", values, name).taken()
    assert (found.column, found.kind, found.option) == (name, kind, option)
    assert words in found.remark
    assert found.example.startswith(example)
    if option == "dates":
        (found,) = read(tmp_path / "t.csv", values, name, dates=name).taken()
        assert (found.kind, found.option) == ("number", "categorical")
        return
    changed = {"ignore": {"ignore": name}, "categorical": {"categorical": name}, "missing": {"missing": ["forty"]}}[
        option
    ]
    assert read(tmp_path / "t.csv", values, name, **changed).taken() == ()  # the option that is named changes it


def test_many_categories_share_a_column(tmp_path):
    values = [f"c{place % 30}" for place in range(ROWS)]
    (found,) = read(tmp_path / "t.csv", values, max_categories=10).taken()
    assert (found.option, found.value) == ("max_categories", 31)
    assert read(tmp_path / "t.csv", values, max_categories=found.value).taken() == ()


@pytest.mark.parametrize(
    "values",
    [
        repeated("1", "0"),
        repeated("1.5", "2", ""),
        repeated("cook", "nurse", "unknown"),
        np.random.default_rng(0).integers(0, 100_000, ROWS).tolist(),
        repeated("2020-01-01", "2020-01-02"),
    ],
)
def test_what_is_plain_is_not_said(tmp_path, values):
    assert read(tmp_path / "t.csv", values).taken() == ()


def test_other_sources(tmp_path):
    assert load_dataset("law").taken() == ()
    table = pa.table({"v": pa.array([2**64 - 1 - place for place in range(ROWS)], pa.uint64()), "y": [0, 1] * 30})
    pq.write_table(table, tmp_path / "t.parquet")
    (found,) = read_table(tmp_path / "t.parquet", target="y").taken()
    assert found.remark == "rounded to 53 bits: an identifier?"
