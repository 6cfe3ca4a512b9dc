"""The model card, the JSON, and the files."""

from __future__ import annotations

import html
import json
import re
import subprocess
import sys

import pytest
from markdown_it import MarkdownIt
from tests.report.example import HOSTILE, hostile_summary, large_summary, law_summary

from fairbound.report import check_summary, read_summary, to_json, to_markdown, write_report


def tables(card: str) -> list[list[str]]:
    """Split a card into its tables, each a list of lines."""
    found: list[list[str]] = [[]]
    for line in card.splitlines():
        if line.startswith("|"):
            found[-1].append(line)
        elif found[-1]:
            found.append([])
    return [table for table in found if table]


@pytest.mark.slow
@pytest.mark.parametrize("summary", [law_summary, hostile_summary, large_summary])
def test_tables_of_the_card_are_tables(summary):
    found = tables(to_markdown(summary()))
    assert len(found) == 5
    for table in found:
        columns = {len(re.findall(r"(?<!\\)\|", line)) for line in table}
        assert len(columns) == 1
        assert re.fullmatch(r"\| --- \|( ---: \|)+", table[1])


def test_the_card_says_what_the_summary_holds():
    card, summary = to_markdown(law_summary()), law_summary()
    assert card.startswith("# Model card: Passing the bar exam\n")
    assert "`disparate_impact >= 0.9`" in card
    for group in summary["parts"]["held_out"]["after"]["groups"]:
        assert f"| {group['group']} | {group['rows']:,} |" in card
        assert f"{group['rates']['1']['selection_rate']['value']:.3f}" in card
    assert summary["reproduction"]["command"] in card
    assert "## What the numbers do not say" in card
    assert "Groups are further apart in measures without a limit" in card


@pytest.mark.parametrize("summary", [law_summary, hostile_summary])
def test_a_reader_of_markdown_finds_only_what_the_card_is_made_of(summary):
    # The strictest case for the escaping: a renderer that lets HTML through.
    rendered = MarkdownIt("commonmark", {"html": True}).enable("table").render(to_markdown(summary()))
    tags = set(re.findall(r"<([a-zA-Z][a-zA-Z0-9]*)", rendered))
    assert tags == {"h1", "h2", "h3", "p", "ul", "li", "strong", "code", "table", "thead", "tbody", "tr", "th", "td"}
    assert not re.search(r"<h[2-6][^>]*>[^<]*hacked", rendered)


def test_names_that_look_like_programs_are_in_the_card_whole():
    text = html.unescape(MarkdownIt("commonmark").enable("table").render(to_markdown(hostile_summary())))
    for name in HOSTILE:
        assert " ".join(name.split()) in text


def test_json_is_the_summary():
    assert json.loads(to_json(law_summary())) == law_summary()


def test_files_are_written_whole_and_read_back(tmp_path):
    paths = write_report(law_summary(), tmp_path / "new" / "folder")
    assert {kind: path.name for kind, path in paths.items()} == {
        "html": "report.html",
        "markdown": "model-card.md",
        "json": "summary.json",
    }
    assert sorted(path.name for path in paths["html"].parent.iterdir()) == sorted(path.name for path in paths.values())
    assert read_summary(paths["json"]) == law_summary()
    assert paths["markdown"].read_text(encoding="utf-8") == to_markdown(law_summary())
    assert paths["html"].read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


@pytest.mark.parametrize("name", ["report.html", "model-card.md", "summary.json"])
def test_a_file_that_is_not_ours_is_replaced_on_request_only(tmp_path, name):
    (tmp_path / name).write_text("mine", encoding="utf-8")
    with pytest.raises(FileExistsError, match=rf"{re.escape(name)} exists and does not belong .*overwrite=True"):
        write_report(law_summary(), tmp_path)
    assert [(path.name, path.read_text(encoding="utf-8")) for path in tmp_path.iterdir()] == [(name, "mine")]
    paths = write_report(law_summary(), tmp_path, overwrite=True)
    assert read_summary(paths["json"]) == law_summary()
    write_report(law_summary(), tmp_path)  # a report of ours is renewed without being told


def test_a_summary_that_cannot_be_shown_leaves_nothing_behind(tmp_path):
    broken = {**law_summary(), "parts": {}}
    with pytest.raises(KeyError):
        write_report(broken, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("summary", "message"),
    [
        ({}, "not a summary: its schema is None"),
        ([], "its schema is 'list'"),
        ({"schema": "other"}, "its schema is 'other'"),
        ({"schema": "fairbound.summary", "version": 99}, "has version 99, but this fairbound reads version 1"),
        ({"schema": "fairbound.summary", "version": 1, "title": "x"}, "lacks target, classes"),
    ],
)
def test_what_is_no_summary_is_refused(summary, message):
    for use in (check_summary, to_json, to_markdown):
        with pytest.raises(ValueError, match=message):
            use(summary)


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe\x00", b""])
def test_a_broken_file_is_refused(tmp_path, content):
    path = tmp_path / "summary.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"summary\.json .*not JSON"):
        read_summary(path)


WITHOUT_EXTRAS = """
import pathlib, sys, types
from importlib.machinery import PathFinder
sys.modules.update(dict.fromkeys(["torch", "jinja2", "plotly", "numpy", "sklearn"]))  # as if not installed
# `import fairbound` needs torch, so the package is put together without running its own module.
package = types.ModuleType("fairbound")
package.__path__ = PathFinder.find_spec("fairbound").submodule_search_locations
sys.modules["fairbound"] = package
from fairbound.report import read_summary, to_markdown
print(to_markdown(read_summary(sys.argv[1])))
"""


def test_card_and_json_need_neither_torch_nor_the_extras(tmp_path):
    path = tmp_path / "summary.json"
    path.write_text(to_json(law_summary()), encoding="utf-8")
    command = [sys.executable, "-c", WITHOUT_EXTRAS, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("# Model card: Passing the bar exam")
