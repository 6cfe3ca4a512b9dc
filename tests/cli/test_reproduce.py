"""`fairbound reproduce`: names, quick looks, interrupts, and what it says of bad input."""

import json
from dataclasses import replace

import pytest
from tests.cli.helpers import interrupt_when, ordinary_user, read_only_folder
from tests.refusals import says

QUICK = ("--dataset", "law", "--rows", "1000", "--epochs", "3")


def test_the_list_needs_nothing(fairbound):
    found = fairbound("reproduce", "--list")
    assert found.code == 0
    assert "table-2" in found.stdout
    assert "figure-variance" in found.stdout
    assert json.loads(fairbound("reproduce", "--json").stdout)["items"]["figure-1"]


def test_a_table(fairbound, tmp_path):
    found = fairbound("reproduce", "table-2", *QUICK, "--out", "paper")
    assert found.code == 0
    assert "only DI  printed      90.0950" in found.stdout
    assert "Both limits are kept together." in found.stdout
    assert {path.name for path in (tmp_path / "paper").iterdir()} == {
        "gallery.html",
        "results.jsonl",
        "tables",
        "verdicts.json",
    }
    assert "fairbound reproduce table-2" in (tmp_path / "paper" / "gallery.html").read_text(encoding="utf-8")


def test_json(fairbound):
    found = fairbound("reproduce", "table-1", *QUICK, "--json")
    answer = json.loads(found.stdout)
    assert answer["runs"] == 0
    assert answer["verdicts"] == [
        {"claim": "The data are those of the paper.", "solver": "", "verdict": "does not hold"}
    ]  # 1,000 rows are not all


def test_quiet(fairbound):
    found = fairbound("reproduce", "table-1", *QUICK, "--quiet")
    assert (found.code, found.stdout, found.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["tabel-2"], "Unknown item 'tabel-2'. Did you mean 'table-2'?"),
        (["table-2", "--dataset", "duch"], "'duch'. Did you mean 'dutch'?"),
        (["table-2", "--solver", "slow"], "--solver 'slow' must be one of paper, fast, both."),
        (["table-2", "--part", "all"], "--part 'all' must be one of train, test."),
        (["table-2", "--jobs", "0"], "--jobs must not be 0"),
        (["table-2", "--epochs", "0"], "Invalid value for '--epochs'"),
    ],
)
def test_bad_input_is_one_sentence(fairbound, tmp_path, arguments, sentence):
    found = fairbound("reproduce", *arguments)
    assert found.code == 2
    assert sentence in found.sentence
    assert not list(tmp_path.iterdir())


def test_data_that_are_not_there(fairbound, monkeypatch, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(empty))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    found = fairbound("reproduce", "table-2", "--dataset", "dutch", "--data-dir", empty, "--quiet")
    assert found.code == 2
    assert "dutch.csv" in found.stderr


def test_a_folder_that_cannot_be_written(fairbound):
    fairbound("reproduce", "table-1", *QUICK, "--quiet")  # imports it all, and reads the data
    with read_only_folder() as locked:
        with ordinary_user():
            found = fairbound("reproduce", "table-1", *QUICK, "--out", locked / "paper", "--quiet")
        assert found.code == 2
        assert found.sentence == f"Cannot use {locked / 'paper'}: permission denied."
        assert list(locked.iterdir()) == []


def test_a_file_where_the_folder_should_be(fairbound, tmp_path):
    (tmp_path / "paper").write_text("mine", encoding="utf-8")
    found = fairbound("reproduce", "table-1", *QUICK, "--out", "paper", "--quiet")
    assert found.code == 2
    assert "paper" in found.sentence
    assert (tmp_path / "paper").read_text(encoding="utf-8") == "mine"


def test_foreign_results_are_left_alone(fairbound, tmp_path):
    folder = tmp_path / "paper"
    folder.mkdir()
    (folder / "results.jsonl").write_text("mine\n", encoding="utf-8")
    found = fairbound("reproduce", "table-2", *QUICK, "--out", folder, "--quiet")
    assert found.code == 2
    assert "line 1, is not a result of `fairbound reproduce`" in found.sentence
    assert (folder / "results.jsonl").read_text(encoding="utf-8") == "mine\n"


@pytest.mark.parametrize("name", ["gallery.html", "gallery-test.html", "verdicts.json", "tables/mine.csv"])
def test_a_foreign_folder_is_left_alone_unless_told(fairbound, tmp_path, name):
    mine = tmp_path / "paper" / name
    mine.parent.mkdir(parents=True)
    mine.write_text("mine", encoding="utf-8")
    call = ("reproduce", "table-1", *QUICK, "--out", "paper", "--quiet")
    refused = fairbound(*call)
    assert refused.code == 2
    assert str(name.split("/")[0]) in refused.sentence
    assert "--overwrite" in refused.sentence
    assert [path for path in (tmp_path / "paper").rglob("*") if path.is_file()] == [mine]
    assert mine.read_text(encoding="utf-8") == "mine"
    told = fairbound(*call, "--overwrite")
    assert told.code == 0, told.stderr
    assert (mine.read_text(encoding="utf-8") == "mine") == (name in ("gallery-test.html", "tables/mine.csv"))
    assert fairbound(*call).code == 0  # it is ours now


def test_tables_have_the_exact_text_on_request(fairbound, tmp_path, monkeypatch):
    from fairbound.experiments.exhibits import ResultTable
    from fairbound.experiments.items import ITEMS

    made = ResultTable("a title", ("name",), ("",), (("=1+1",),))
    monkeypatch.setitem(ITEMS, "table-1", replace(ITEMS["table-1"], tabulate=lambda study: made))
    written = {}
    for given in ((), ("--exact",)):
        assert fairbound("reproduce", "table-1", *QUICK, "--out", "paper", "--quiet", *given).code == 0
        written[given] = (tmp_path / "paper" / "tables" / "table-1-law.csv").read_text(encoding="utf-8")
    assert written == {(): "name\n'=1+1\n", ("--exact",): "name\n=1+1\n"}


def test_an_interrupt_keeps_what_is_finished_and_the_same_command_goes_on(fairbound, tmp_path, monkeypatch):
    call = ("reproduce", "table-2", *QUICK, "--out", "paper")
    with monkeypatch.context() as patch:
        interrupt_when(patch, "2 of 6 runs")
        found = fairbound(*call)
    assert found.code == 130
    assert says(found.stderr, "2 runs were finished", "kept in paper", "same command")
    assert len((tmp_path / "paper" / "results.jsonl").read_text(encoding="utf-8").splitlines()) == 2
    assert not (tmp_path / "paper" / "gallery.html").exists()
    found = fairbound(*call)
    assert found.code == 0
    assert "4 of 4 runs" in found.stderr
