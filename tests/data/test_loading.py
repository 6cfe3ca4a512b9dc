"""The loaders, against the files and against the paper's table of statistics of its data sets."""

from __future__ import annotations

import gzip
import hashlib
import io
import sys
from importlib import resources
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import RobustScaler, StandardScaler

from fairbound.data import DATASETS, Dataset, load_dataset
from fairbound.data.files import DataFile, read_table

LARGE = {"acsincome_us"}  # 765,670 rows: seconds and a gigabyte for each test


@pytest.fixture(params=[pytest.param(n, marks=pytest.mark.slow if n in LARGE else ()) for n in sorted(DATASETS)])
def name(request, data_file):
    """Every data set of the catalogue whose file is at hand."""
    file = DATASETS[request.param].file
    if not file.shipped:
        data_file(file.filename)
    return request.param


def law_csv() -> bytes:
    return gzip.decompress(resources.files("fairbound.data").joinpath("shipped", "law.csv.gz").read_bytes())


# --- every data set ------------------------------------------------------------------------------------------------


def test_default_protocol(name):
    source, data = DATASETS[name], load_dataset(name)
    assert isinstance(data, Dataset)
    assert data.name == name
    assert data.X.shape == (len(data), len(data.feature_names))
    assert set(np.unique(data.y)) == {0, 1}
    assert list(data.sensitive) == [column.name for column in source.sensitive]
    for column in source.sensitive:
        assert set(data.sensitive[column.name]) <= set(column.labels.values())
        assert not [feature for feature in data.feature_names if feature.split("=")[0] in (column.name, column.column)]


def test_one_hot_columns_of_three_or_more_sum_to_one(name):
    data = load_dataset(name)
    blocks: dict[str, list[int]] = {}
    for position, feature in enumerate(data.feature_names):
        if "=" in feature:
            blocks.setdefault(feature.split("=")[0], []).append(position)
    assert blocks
    for columns in blocks.values():
        sums = data.X[:, columns].sum(axis=1)
        assert set(np.unique(data.X[:, columns])) == {0.0, 1.0}
        assert len(columns) == 1 or (sums == 1).all()


def test_sensitive_columns_as_inputs(name):
    without, data = load_dataset(name), load_dataset(name, sensitive_as_input=True)
    added = data.feature_names[len(without.feature_names) :]
    assert {feature.split("=")[0] for feature in added} == set(data.sensitive)
    for position, feature in enumerate(added, start=len(without.feature_names)):
        column, word = feature.split("=")
        np.testing.assert_array_equal(data.X[:, position], data.sensitive[column] == word)


# --- law -----------------------------------------------------------------------------------------------------------


def test_law_is_shipped_and_favourable_is_one(monkeypatch):
    monkeypatch.delenv("FAIRBOUND_DATA", raising=False)
    raw = pd.read_csv(io.BytesIO(law_csv()))
    law = load_dataset("law")
    assert len(law) == len(raw) == 20_798
    np.testing.assert_array_equal(law.y, raw["pass_bar"])
    np.testing.assert_array_equal(law.sensitive["race"], raw["race"].to_numpy(dtype=str))
    np.testing.assert_array_equal(law.sensitive["sex"] == "male", raw["male"] == 1)
    np.testing.assert_array_equal(law.X[:, law.feature_names.index("tier")], raw["tier"])
    np.testing.assert_array_equal(law.X[:, law.feature_names.index("fulltime=part-time")], raw["fulltime"] == 2)


def test_shipped_file_is_the_pinned_one_packed_without_a_time_stamp():
    packed = resources.files("fairbound.data").joinpath("shipped", "law.csv.gz").read_bytes()
    assert hashlib.sha256(gzip.decompress(packed)).hexdigest() == DATASETS["law"].file.sha256
    assert packed[4:8] == b"\0\0\0\0"  # the time field of the gzip header
    notice = resources.files("fairbound.data").joinpath("shipped", "NOTICE.md").read_text(encoding="utf-8")
    assert DATASETS["law"].file.sha256 in notice
    assert "Neither the name of the copyright holder" in notice


# --- the paper's protocol ------------------------------------------------------------------------------------------


def paper_counts(*parts: Dataset, favoured: str) -> tuple[int, int, int, int]:
    """Return N, the rows with S = 1, with Y = 1, and with both."""
    y = np.concatenate([part.y for part in parts])
    member = np.concatenate([part.groups() for part in parts]) == favoured
    return len(y), int(member.sum()), int(y.sum()), int((y[member]).sum())


def test_paper_table_law_training_part():
    assert paper_counts(load_dataset("law", protocol="paper").train, favoured="White") == (
        16_638,
        13_995,
        14_826,
        12_915,
    )


def test_paper_table_dutch_all_rows(dutch_file):
    parts = load_dataset("dutch", protocol="paper", data_dir=dutch_file.parent)
    assert paper_counts(*parts, favoured="male") == (60_420, 30_147, 31_657, 11_287)


def test_paper_table_acsincome_within_the_error_of_another_draw(acsincome_file):
    # The paper drew its rows from all of California, we from a sample of it: the same population, so that the
    # difference of two independent counts has the variance 2·N·p·(1 − p) at most. Four standard deviations.
    found = paper_counts(*load_dataset("acsincome", protocol="paper"), favoured="male")
    assert found[0] == 50_000
    for count, printed in zip(found[1:], (26_441, 20_661, 12_350), strict=True):
        share = printed / 50_000
        assert abs(count - printed) <= 4 * np.sqrt(2 * 50_000 * share * (1 - share))


def independent_protocol(name: str, path: Path | None) -> tuple[np.ndarray, ...]:
    """The protocol written once more, with pandas, from its description."""
    frame = pd.read_csv(path if path else io.BytesIO(law_csv()))
    if name == "law":
        frame["race"] = frame["race"].map({"White": 1, "Non-White": 0})
        y, s = frame.pop("pass_bar"), frame["race"] == 1
    elif name == "dutch":
        frame["sex"] = frame["sex"].map({"male": 1, "female": 2})
        y, s = 1 - frame.pop("occupation"), frame["sex"] == 1
    else:
        frame = frame.sample(50_000, random_state=1)
        frame["SEX"] = (frame["SEX"] == 1).astype(int)
        y, s = frame.pop("PINCP"), frame["SEX"] == 1
    X = frame.to_numpy(dtype=np.float64) if name == "acsincome" else RobustScaler().fit_transform(frame.to_numpy(float))
    X_train, X_test, y_train, y_test, s_train, s_test = train_test_split(
        X, y.to_numpy(int), s.to_numpy(), test_size=0.2, random_state=1
    )
    scaler = StandardScaler().fit(X_train)
    return scaler.transform(X_train), scaler.transform(X_test), y_train, y_test, s_train, s_test


@pytest.mark.parametrize("paper_name", ["law", "dutch", "acsincome"])
def test_paper_protocol_is_exact(paper_name, data_file):
    file = DATASETS[paper_name].file
    path = None if file.shipped else data_file(file.filename)
    X_train, X_test, y_train, y_test, s_train, s_test = independent_protocol(paper_name, path)
    favoured = "White" if paper_name == "law" else "male"
    split = load_dataset(paper_name, protocol="paper")
    np.testing.assert_array_equal(split.train.X, X_train)
    np.testing.assert_array_equal(split.test.X, X_test)
    np.testing.assert_array_equal(split.train.y, y_train)
    np.testing.assert_array_equal(split.test.y, y_test)
    np.testing.assert_array_equal(split.train.groups() == favoured, s_train)
    np.testing.assert_array_equal(split.test.groups() == favoured, s_test)


def test_dutch_label_is_flipped_in_the_paper_only(dutch_file):
    data, parts = load_dataset("dutch"), load_dataset("dutch", protocol="paper")
    assert data.target_names[1] == parts.train.target_names[0] == "prestigious occupation"
    assert data.y.sum() == 60_420 - 31_657
    raw = pd.read_csv(dutch_file)
    np.testing.assert_array_equal(data.y, raw["occupation"])
    # The favourable label goes with education, in either coding.
    assert raw.groupby("occupation")["edu_level"].mean().is_monotonic_increasing


# --- bad input -----------------------------------------------------------------------------------------------------


def test_unknown_name_gives_the_nearest_and_all():
    with pytest.raises(ValueError, match=r"Unknown data set 'dutsch'. Did you mean 'dutch'\?.*acsincome.*dutch.*law"):
        load_dataset("dutsch")


def test_unknown_protocol():
    with pytest.raises(ValueError, match="protocol is 'papers'; give 'default' or 'paper'"):
        load_dataset("law", protocol="papers")


def test_data_set_that_the_paper_has_not():
    with pytest.raises(ValueError, match=r"'acsincome_us' is not one of the paper's.*law, dutch, acsincome\."):
        load_dataset("acsincome_us", protocol="paper")


def test_no_folder_named(monkeypatch):
    monkeypatch.delenv("FAIRBOUND_DATA", raising=False)
    with pytest.raises(
        FileNotFoundError, match=r"dutch\.csv is not part of the package .*data_dir= or .* FAIRBOUND_DATA"
    ):
        load_dataset("dutch")


def test_file_not_in_the_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("FAIRBOUND_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"acsincome_ca_2018_sample\.csv.*put it at .*acsincome_ca"):
        load_dataset("acsincome")


def test_data_dir_goes_before_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("FAIRBOUND_DATA", str(tmp_path / "environment"))
    with pytest.raises(FileNotFoundError, match="argument"):
        load_dataset("dutch", data_dir=tmp_path / "argument")


@pytest.mark.parametrize("protocol", ["default", "paper"])
def test_other_content_is_refused(tmp_path, protocol):
    (tmp_path / "dutch.csv").write_bytes(law_csv())
    found = DATASETS["law"].file.sha256
    with pytest.raises(
        ValueError, match=rf"dutch\.csv has the SHA-256 checksum {found}, but .*{DATASETS['dutch'].file.sha256}"
    ):
        load_dataset("dutch", data_dir=tmp_path, protocol=protocol)


def test_one_changed_byte_is_noticed(tmp_path, dutch_file):
    content = bytearray(dutch_file.read_bytes())
    content[1000] ^= 1
    (tmp_path / "dutch.csv").write_bytes(content)
    with pytest.raises(ValueError, match="it is damaged or another version"):
        load_dataset("dutch", data_dir=tmp_path)


# --- Parquet -------------------------------------------------------------------------------------------------------


@pytest.fixture
def parquet(tmp_path):
    """A small Parquet file in a folder, and its description."""
    frame = pd.DataFrame({"number": np.array([1, 2, 3], dtype=np.int16), "word": ["x", "y", "x"]})
    frame.to_parquet(tmp_path / "small.parquet")
    checksum = hashlib.sha256((tmp_path / "small.parquet").read_bytes()).hexdigest()
    return DataFile("small.parquet", checksum, origin="this test"), tmp_path


def test_parquet_is_read_by_column(parquet):
    table = read_table(*parquet)
    assert table["number"].dtype == np.float64
    assert {name: column.tolist() for name, column in table.items()} == {"number": [1, 2, 3], "word": ["x", "y", "x"]}


def test_parquet_without_pyarrow_names_the_extra(parquet, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(ImportError, match=r'pip install "fairbound\[data\]"'):
        read_table(*parquet)
