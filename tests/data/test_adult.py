"""Adult, with a small archive of the published format."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest
from tests.data.conftest import adult_members, adult_rows, zipped

from fairbound.data import DATASETS, load_dataset
from fairbound.data.catalogue import ADULT_COLUMNS, parse_adult


def frame(rows: list[dict[str, str]]) -> pd.DataFrame:
    return pd.DataFrame(rows, dtype=object).replace("?", None)


def test_both_parts_are_read_in_order():
    first, second = adult_rows(30, 1), adult_rows(20, 2)
    streams = [io.BytesIO(content) for content in adult_members(first, second).values()]
    found = parse_adult(streams, "adult.zip")
    expected = frame(first + second)
    assert list(found) == ADULT_COLUMNS
    np.testing.assert_array_equal(found["income"], expected["income"] == ">50K")
    for name in ("age", "fnlwgt", "hours-per-week"):
        np.testing.assert_array_equal(found[name], expected[name].astype(int))
    for name in ("workclass", "occupation", "race"):
        assert found[name].tolist() == expected[name].tolist()
    assert None in found["workclass"].tolist()


def test_adult_as_a_data_set(small_adult):
    data = load_dataset("adult", data_dir=small_adult(), download=False)
    expected = frame(adult_rows(60, 1) + adult_rows(40, 2))
    assert len(data) == 100
    assert list(data.sensitive) == ["sex", "race"]
    np.testing.assert_array_equal(data.sensitive["sex"] == "female", expected["sex"] == "Female")
    assert not {"fnlwgt", "education", "race", "sex"} & set(data.table.columns)
    gaps = data.X[:, data.feature_names.index("occupation=(missing)")]
    np.testing.assert_array_equal(gaps == 1, expected["occupation"].isna())
    shown = data.frame()
    assert shown["occupation"].isna().sum() == gaps.sum() == data.table.missing()["occupation"]
    assert shown["native-country"].dropna().tolist() == expected["native-country"].dropna().tolist()
    assert np.isfinite(data.X).all()


def test_only_the_known_archive_is_taken(tmp_path):
    (tmp_path / "adult.zip").write_bytes(zipped(adult_members(adult_rows(3, 1), adult_rows(3, 2))))
    with pytest.raises(
        ValueError, match=rf"adult\.zip has the SHA-256 .* known file has {DATASETS['adult'].file.sha256}"
    ):
        load_dataset("adult", data_dir=tmp_path)


def test_loose_files_are_verified_too(tmp_path):
    for name, content in adult_members(adult_rows(3, 1), adult_rows(3, 2)).items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=r"adult\.data has the SHA-256 .* known file has 5b002646"):
        load_dataset("adult", data_dir=tmp_path)


def test_an_unknown_label_raises():
    rows = adult_rows(3, 1)
    rows[1]["income"] = "50K"
    streams = [io.BytesIO(content) for content in adult_members(rows, []).values()]
    with pytest.raises(ValueError, match="Column 'income' contains '50K'"):
        parse_adult(streams[:1], "adult.zip")
