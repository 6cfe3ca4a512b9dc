"""The loaders, against the files and against the paper's table of data-set statistics."""

from __future__ import annotations

import gzip
import hashlib
import io
import re
from dataclasses import replace
from importlib import resources
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import RobustScaler, StandardScaler
from tests.data.conftest import files_in
from tests.refusals import refused

from fairbound.data import DATASETS, Dataset, load_dataset

LARGE = {"acsincome_us"}  # 765,670 rows: seconds and a gigabyte for each test


@pytest.fixture(params=[pytest.param(n, marks=pytest.mark.slow if n in LARGE else ()) for n in sorted(DATASETS)])
def name(request, data_file, small_adult, monkeypatch):
    """Every data set of the catalogue; of Adult, whose file is not at hand, one of the same form."""
    file = DATASETS[request.param].file
    if request.param == "adult":
        monkeypatch.setenv("FAIRBOUND_DATA", str(small_adult()))
    elif not file.shipped:
        data_file(file.filename)
    return request.param


def law_csv() -> bytes:
    return gzip.decompress(resources.files("fairbound.data").joinpath("shipped", "law.csv.gz").read_bytes())


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


# The table of the paper as printed: N, then by group S = 1 and S = 0 the rows with Y = 1 and with Y = 0.
PRINTED_COUNTS = {"law": (16_638, (12_915, 1_080), (1_911, 732)), "dutch": (60_420, (11_287, 18_860), (20_370, 9_903))}
# Then P(Y=1|S=1), P(Y=1|S=0), P(S=1|Y=1), P(S=0|Y=1), DPVRL, DRIVRL, DIRL, all-zero and all-one accuracy.
PRINTED_RATES = {
    "law": ("0.923", "0.723", "0.871", "0.129", "0.200", "0.743", "0.784", "0.109", "0.891"),
    "dutch": ("0.3744", "0.6730", "0.3565", "0.6435", "0.2986", "0.2870", "0.5564", "0.4758", "0.5242"),
}
# Where the printed rates do not follow from the printed counts: 11,004/14,826 is 0.742, 20,370/30,273 is 0.6729, etc.
MISPRINTS = {
    "law": {5: "0.742"},
    "dutch": {1: "0.6729", 4: "0.2985", 5: "0.2869", 7: "0.4761", 8: "0.5239"},
}


@pytest.mark.parametrize(
    ("paper_name", "favoured", "other"), [("law", "White", "Non-White"), ("dutch", "male", "female")]
)
def test_paper_table_of_statistics(paper_name, favoured, other, data_file):
    if not DATASETS[paper_name].file.shipped:
        data_file(DATASETS[paper_name].file.filename)
    parts = load_dataset(paper_name, protocol="paper")
    # The paper's column "Law" is the training part, its column "Dutch" all rows.
    found = (parts.train if paper_name == "law" else parts.joined()).describe()
    n, *by_group = PRINTED_COUNTS[paper_name]
    place = {group: position for position, group in enumerate(found.groups)}
    assert found.n == n
    assert [tuple(found.counts[place[group], ::-1]) for group in (favoured, other)] == by_group
    rates = [
        *(found.base_rates[group] for group in (favoured, other)),
        *(found.representation[group] for group in (favoured, other)),
        found.dpvrl,
        found.drivrl,
        found.dirl,
        *found.constant_accuracies.values(),
    ]
    printed = PRINTED_RATES[paper_name]
    digits = len(printed[0]) - 2
    corrected = [MISPRINTS[paper_name].get(position, rate) for position, rate in enumerate(printed)]
    assert [f"{rate:.{digits}f}" for rate in rates] == corrected


def test_paper_table_acsincome_within_the_error_of_another_draw(acsincome_file):
    # The paper drew its rows from all of California, we from a sample of it: the same population, so that the
    # difference of two independent counts has the variance 2·N·p·(1 − p) at most. Four standard deviations.
    found = load_dataset("acsincome", protocol="paper").joined().describe()
    men = found.counts[found.groups.index("male")]
    assert found.n == 50_000
    counts = (men.sum(), found.label_counts[1], men[1])
    for count, printed in zip(counts, (26_441, 20_661, 12_350), strict=True):
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


def test_unknown_name_gives_the_nearest_and_all():
    with pytest.raises(ValueError, match=r"data set 'dutsch'.*'dutch'\?.*acsincome.*dutch.*law"):
        load_dataset("dutsch")


def test_unknown_protocol():
    with pytest.raises(ValueError, match="protocol is 'papers'; give 'default' or 'paper'"):
        load_dataset("law", protocol="papers")


def test_data_set_that_the_paper_has_not():
    with pytest.raises(ValueError, match=r"'acsincome_us' .*law, dutch, acsincome\."):
        load_dataset("acsincome_us", protocol="paper")


def test_state_and_year_are_for_acsincome():
    with refused("state=", "year=", "'acsincome'", "'law'"):
        load_dataset("law", state="CA")
    with refused("state=", "year=", "'dutch'"):
        load_dataset("dutch", year=2018)


def test_no_folder_named(monkeypatch):
    monkeypatch.delenv("FAIRBOUND_DATA", raising=False)
    words = r"dutch\.csv is not part of the package .*data_dir= or .* FAIRBOUND_DATA"
    with pytest.raises(FileNotFoundError, match=words):
        load_dataset("dutch", download=False)


def test_a_sample_that_is_not_in_the_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("FAIRBOUND_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"acsincome_us_2018_sample\.parquet.*put it at .*acsincome_us"):
        load_dataset("acsincome_us")


def test_dutch_is_downloaded_once(server, cache, dutch_file, tmp_path, monkeypatch):
    source = DATASETS["dutch"]
    url = server.serve("dutch.csv", dutch_file.read_bytes())
    monkeypatch.setitem(DATASETS, "dutch", replace(source, file=replace(source.file, url=url)))
    for _ in range(2):
        assert len(load_dataset("dutch", data_dir=tmp_path)) == 60_420
    assert server.asked == {"dutch.csv": 1}
    assert files_in(cache) == ["dutch.csv"]


def test_addresses_are_pinned_where_the_origin_allows():
    for source in DATASETS.values():
        if source.file.url and "githubusercontent" in source.file.url:
            assert re.search(r"/[0-9a-f]{40}/", source.file.url)
        assert source.file.sha256 is not None


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
