"""ACSIncome from person files of the Census, with small files of the same format."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest
from tests.data.conftest import person_file, zipped

from fairbound.data import load_dataset
from fairbound.data.catalogue import STATES
from fairbound.data.census import census_source, parse_person_file

COLUMNS = ["AGEP", "COW", "SCHL", "MAR", "OCCP", "POBP", "RELP", "WKHP", "SEX", "RAC1P"]


def published(content: bytes, relationship: str = "RELP") -> pd.DataFrame:
    """The published filter, columns and label, written once more with pandas."""
    frame = pd.read_csv(io.BytesIO(content))
    frame = frame[(frame.AGEP > 16) & (frame.PINCP > 100) & (frame.WKHP > 0) & (frame.PWGTP >= 1)]
    chosen = frame[[relationship if column == "RELP" else column for column in COLUMNS]]
    return chosen.assign(PINCP=(frame.PINCP > 50_000).astype(int)).reset_index(drop=True)


@pytest.mark.parametrize("relationship", ["RELP", "RELSHIPP"])
def test_the_parser_against_pandas(relationship):
    content = person_file(500, seed=1, relationship=relationship)
    expected = published(content, relationship)
    assert 0 < len(expected) < 500
    found = parse_person_file(io.BytesIO(content), "small.csv", relationship)
    assert list(found) == list(expected)
    assert {values.dtype.kind for values in found.values()} == {"i"}
    pd.testing.assert_frame_equal(pd.DataFrame(found), expected, check_dtype=False)


@pytest.mark.parametrize(
    ("change", "stays"),
    [
        ({}, True),
        ({"AGEP": "17"}, True),
        ({"AGEP": "16"}, False),
        ({"PINCP": "101"}, True),
        ({"PINCP": "100"}, False),
        ({"PINCP": ""}, False),
        ({"WKHP": "1"}, True),
        ({"WKHP": "0"}, False),
        ({"WKHP": ""}, False),
        ({"PWGTP": "1"}, True),
        ({"PWGTP": "0"}, False),
    ],
)
def test_the_edges_of_the_filter(change, stays):
    row = dict.fromkeys(COLUMNS, "1") | {"AGEP": "40", "PINCP": "60000", "WKHP": "40", "PWGTP": "9"}
    rows = [row, row | change]
    content = "\n".join([",".join(row), *(",".join(each.values()) for each in rows)])
    assert len(parse_person_file(io.BytesIO(content.encode()), "small.csv")["AGEP"]) == 1 + stays


def test_the_label_is_above_and_not_at_50_000():
    row = dict.fromkeys(COLUMNS, "1") | {"AGEP": "40", "WKHP": "40", "PWGTP": "9"}
    lines = [",".join([*row, "PINCP"]), *(",".join([*row.values(), income]) for income in ("50000", "50001"))]
    assert parse_person_file(io.BytesIO("\n".join(lines).encode()), "small.csv")["PINCP"].tolist() == [0, 1]


@pytest.mark.parametrize(
    ("year", "state", "archive", "member", "relationship"),
    [
        (2018, "CA", "2018/1-Year/csv_pca.zip", "psam_p06.csv", "RELP"),
        (2016, "wy", "2016/1-Year/csv_pwy.zip", "ss16pwy.csv", "RELP"),
        (2017, "PR", "2017/1-Year/csv_ppr.zip", "psam_p72.csv", "RELP"),
        (2019, "DC", "2019/1-Year/csv_pdc.zip", "psam_p11.csv", "RELSHIPP"),
        (2023, "Tx", "2023/1-Year/csv_ptx.zip", "psam_p48.csv", "RELSHIPP"),
    ],
)
def test_names_of_files_and_columns(year, state, archive, member, relationship):
    source = census_source(state, year)
    assert source.file.filename == archive
    assert source.file.url == f"https://www2.census.gov/programs-surveys/acs/data/pums/{archive}"
    assert list(source.file.members) == [member]
    assert [column.name for column in source.inputs][6] == relationship
    assert (source.paper is not None) == ((state, year) == ("CA", 2018))


def test_there_are_fifty_states_the_capital_and_puerto_rico():
    assert len(STATES) == len(set(STATES.values())) == 52
    assert all(len(letters) == len(number) == 2 for letters, number in STATES.items())


def put(folder, state: str, year: int, content: bytes, packed: bool = True) -> None:
    file = census_source(state, year).file
    path = folder / file.filename
    path.parent.mkdir(parents=True, exist_ok=True)
    (member,) = file.members
    if packed:
        path.write_bytes(zipped({member: content, "ACS_PUMS_README.pdf": b"%PDF"}))
    else:
        (path.parent / member).write_bytes(content)


@pytest.mark.parametrize("packed", [True, False])
def test_a_state_and_a_year_from_a_folder(tmp_path, packed):
    content = person_file(300, seed=2, relationship="RELSHIPP")
    put(tmp_path, "WY", 2021, content, packed)
    data = load_dataset("acsincome", state="WY", year=2021, data_dir=tmp_path, download=False)
    expected = published(content, "RELSHIPP")
    assert data.name == "acsincome_wy_2021"
    assert "WY 2021" in data.description
    np.testing.assert_array_equal(data.y, expected["PINCP"])
    np.testing.assert_array_equal(data.sensitive["sex"] == "female", expected["SEX"] == 2)
    np.testing.assert_array_equal(data.table.columns["RELSHIPP"], expected["RELSHIPP"])
    assert data.categorical == ("COW", "MAR", "OCCP", "POBP", "RELSHIPP")
    assert data.frame()["OCCP"].astype(int).tolist() == expected["OCCP"].tolist()


def test_statistics_of_what_was_loaded(tmp_path):
    content = person_file(600, seed=3)
    put(tmp_path, "CA", 2018, content)
    expected = published(content)
    found = load_dataset("acsincome", state="CA", data_dir=tmp_path, download=False).describe("sex").to_dict()
    assert found["n"] == len(expected)
    rates = expected.groupby("SEX")["PINCP"].mean()
    shares = expected.loc[expected.PINCP == 1, "SEX"].value_counts(normalize=True)
    assert found["groups"]["male"]["base_rate"] == pytest.approx(rates[1], rel=1e-14)
    assert found["groups"]["female"]["representation"] == pytest.approx(shares[2], rel=1e-14)
    assert found["dpvrl"] == pytest.approx(abs(rates[1] - rates[2]), rel=1e-12)
    assert found["drivrl"] == pytest.approx(abs(shares[1] - shares[2]), rel=1e-12)
    assert found["dirl"] == pytest.approx(min(rates) / max(rates), rel=1e-14)
    assert found["constant_accuracies"]["income above 50,000"] == pytest.approx(expected.PINCP.mean(), rel=1e-14)


def test_several_states_in_the_given_order(tmp_path):
    contents = {state: person_file(100, seed) for seed, state in enumerate(["WY", "VT"])}
    for state, content in contents.items():
        put(tmp_path, state, 2018, content)
    data = load_dataset("acsincome", state=["WY", "VT"], data_dir=tmp_path, download=False)
    assert data.name == "acsincome_wy_vt_2018"
    expected = pd.concat([published(content) for content in contents.values()])
    np.testing.assert_array_equal(data.table.columns["AGEP"], expected["AGEP"])
    assert "WY 2018" in data.description
    assert "VT 2018" in data.description


def test_download_from_the_census(server, cache, tmp_path, monkeypatch):
    monkeypatch.setattr("fairbound.data.census.CENSUS", f"{server.address}/pums")
    server.serve("pums/2018/1-Year/csv_pwy.zip", zipped({"psam_p56.csv": person_file(100, seed=4)}))
    first = load_dataset("acsincome", state="WY", data_dir=tmp_path)
    again = load_dataset("acsincome", state="WY", data_dir=tmp_path, download=True)
    np.testing.assert_array_equal(first.X, again.X)
    assert server.asked == {"pums/2018/1-Year/csv_pwy.zip": 1}
    assert (cache / "2018/1-Year/csv_pwy.zip.sha256.json").is_file()
    with pytest.raises(FileNotFoundError, match=r"csv_pvt\.zip .*the server answered 404"):
        load_dataset("acsincome", state="VT", data_dir=tmp_path)


def test_without_state_the_sample_goes_before_the_census(tmp_path, acsincome_file):
    assert load_dataset("acsincome", data_dir=acsincome_file.parent).name == "acsincome"
    put(tmp_path, "CA", 2018, person_file(100, seed=5))
    assert load_dataset("acsincome", data_dir=tmp_path, download=False).name == "acsincome_ca_2018"


def test_paper_protocol_from_the_census(tmp_path, monkeypatch):
    # The rows drawn are those that pandas draws: here 100 of a few hundred, where the paper has 50,000 of 195,665.
    content = person_file(900, seed=6)
    put(tmp_path, "CA", 2018, content)
    source = census_source("CA", 2018)
    monkeypatch.setitem(vars(source.paper), "draw", 100)
    split = load_dataset("acsincome", protocol="paper", data_dir=tmp_path, download=False)
    drawn = published(content).sample(100, random_state=1)
    whole = split.joined()
    assert len(whole) == 100
    assert whole.describe().to_dict()["labels"]["income above 50,000"] == drawn["PINCP"].sum()
    assert sorted(whole.table.columns["AGEP"]) == sorted(drawn["AGEP"])


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"state": "CAL"}, ValueError, "Unknown state 'CAL'. Did you mean 'CA'"),
        ({"state": 6}, ValueError, "Unknown state 6"),
        ({"state": []}, ValueError, "state= .*empty"),
        ({"state": ["CA", "ca"]}, ValueError, "state= .*twice: CA, ca"),
        ({"year": 2013}, ValueError, "year=2013 .* from 2014 on"),
        ({"year": "2018"}, ValueError, "year='2018' .* whole number"),
        ({"year": 2020}, ValueError, "year=2020: .*not published"),
        ({"state": "WY", "protocol": "paper"}, ValueError, "'acsincome_wy_2018'.*paper"),
        ({"state": "WY", "download": False}, FileNotFoundError, r"csv_pwy\.zip.*2018/1-Year/csv_pwy\.zip"),
    ],
)
def test_bad_arguments(arguments, error, words, tmp_path):
    with pytest.raises(error, match=words):
        load_dataset("acsincome", data_dir=tmp_path, **arguments)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"AGEP,COW\n1,2\n", "small.csv .*'SCHL'.*person file"),
        (person_file(20, 1, "RELSHIPP"), "has no column 'RELP'"),
        (
            person_file(20, 1).replace(b"2018GQ0000003,", b"2018GQ0000003,x"),
            "'PWGTP' of small.csv",
        ),
        (person_file(20, 1).split(b"\n")[0] + b"\nP,1,9,3,,5,2,,1,,,,6,1,,9\n", "no person above 16"),
    ],
)
def test_files_that_are_no_person_files(content, words):
    with pytest.raises(ValueError, match=words):
        parse_person_file(io.BytesIO(content), "small.csv")
