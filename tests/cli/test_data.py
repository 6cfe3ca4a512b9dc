"""`fairbound data list | describe | fetch`."""

from __future__ import annotations

import json

import pytest

from fairbound.data import DATASETS


def test_list_names_every_data_set(fairbound):
    shown = fairbound("data", "list")
    assert shown.code == 0
    assert all(name in shown.stdout for name in DATASETS)
    listed = json.loads(fairbound("data", "list", "--json").stdout)["datasets"]
    assert list(listed) == list(DATASETS)
    assert listed["law"]["where"] == "shipped"


def test_list_sees_the_data_folder(fairbound, tmp_path):
    def where(name: str) -> str:
        return json.loads(fairbound("data", "list", "--json", "--data-dir", tmp_path).stdout)["datasets"][name]["where"]

    assert where("acsincome_us") == "only from a data folder"
    (tmp_path / DATASETS["acsincome_us"].file.filename).touch()
    assert where("acsincome_us") == "data folder"


def test_describe_a_known_data_set(fairbound):
    shown = fairbound("data", "describe", "law", "--sensitive", "race", "sex")
    assert (shown.code, shown.stderr) == (0, "")
    assert "S = race" in shown.stdout
    assert "DIRL 0.7848" in shown.stdout
    assert "S = sex" in shown.stdout
    found = json.loads(fairbound("data", "describe", "law", "--json").stdout)
    assert [facts["sensitive"] for facts in found["by"]] == ["race"]  # the first one by default
    assert found["by"][0]["n"] == 20_798


def test_describe_a_file(fairbound, loans):
    given = ["--target", "approved", "--sensitive", "sex", "--ignore", "id"]
    shown = fairbound("data", "describe", loans, *given)
    assert shown.code == 0
    assert shown.stdout.startswith("Data set 'loans': 1,500 rows, S = sex")
    assert "missing values: income " in shown.stdout
    found = json.loads(fairbound("data", "describe", loans, *given, "--json").stdout)
    assert found["features"] == ["income", "job=cook", "job=nurse", "job=smith"]


def test_a_file_goes_before_a_data_set_of_its_name(fairbound, tmp_path, loans):
    loans.rename(tmp_path / "law")
    found = fairbound("data", "describe", "law", "--target", "approved", "--sensitive", "sex")
    assert "1,500 rows" in found.stdout


def test_fetch_what_is_there(fairbound):
    shown = fairbound("data", "fetch", "law")
    assert shown.code == 0
    assert "20,798 rows" in shown.stdout
    assert json.loads(fairbound("data", "fetch", "law", "--json").stdout)["rows"] == 20_798
    assert fairbound("data", "fetch", "law", "--quiet").stdout == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fetch", "lwa"], "'lwa'. Did you mean 'law'?"),
        (["fetch", "law", "--year", "2018"], "--state and --year are for 'acsincome'"),
        (["fetch", "acsincome", "--state", "XX"], "Unknown state 'XX'"),
        (["fetch", "acsincome", "--state", "CA", "--year", "2020"], "--year 2020"),
        (["describe", "laww"], "no data set of that name. Did you mean 'law'?"),
        (["describe", "law", "--sensitive", "gender"], "has no sensitive column 'gender'"),
        (["describe", "law", "--target", "tier"], "'law' is 'pass_bar', not 'tier'"),
        (["describe", "law", "--positive", "1"], "--positive is for files"),
        (["describe", "some.csv"], "There is no file some.csv."),
    ],
)
def test_wrong_names_are_one_sentence(fairbound, arguments, words):
    refused = fairbound("data", *arguments)
    assert (refused.code, refused.stdout) == (2, "")
    assert words in refused.sentence


def test_fetch_without_the_network_says_which_file_to_put_where(fairbound, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    refused = fairbound("data", "fetch", "adult", "--no-download", "--data-dir", tmp_path)
    assert refused.code == 2
    assert "--no-download does not allow it" in refused.sentence
    assert str(tmp_path / "adult.zip") in refused.sentence


def test_a_file_needs_its_label_and_its_groups_named(fairbound, loans):
    assert "Name it with --target" in fairbound("data", "describe", loans).sentence
    assert "with --sensitive" in fairbound("data", "describe", loans, "--target", "approved").sentence


def test_a_folder_of_the_name_of_a_data_set_does_not_hide_it(fairbound, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "law").mkdir()  # what `train law --out law` leaves
    assert fairbound("data", "describe", "law").code == 0
