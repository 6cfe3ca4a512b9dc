"""The model card, the JSON, and the files."""

from __future__ import annotations

import html
import json
import re

import pytest
from markdown_it import MarkdownIt
from tests.report.example import HOSTILE, hostile_summary, large_summary, law_summary

from fairbound._json import plain
from fairbound.report import to_markdown, write_report
from fairbound.studies import read_summary


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
    for group in summary.held_out.after.groups:
        assert f"| {group.name} | {group.rows:,} |" in card
        assert f"{group.rates['1']['selection_rate'].value:.3f}" in card
    assert summary.reproduction["command"] in card
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
    assert json.loads(law_summary().to_json()) == plain(law_summary())


def test_files_are_written_whole_and_read_back(tmp_path):
    paths = write_report(law_summary(), tmp_path / "new" / "folder")
    assert {kind: path.name for kind, path in paths.items()} == {
        "html": "report.html",
        "markdown": "model-card.md",
        "json": "summary.json",
    }
    assert sorted(path.name for path in paths["html"].parent.iterdir()) == sorted(path.name for path in paths.values())
    assert read_summary(paths["json"]).to_json() == law_summary().to_json()
    assert paths["markdown"].read_text(encoding="utf-8") == to_markdown(law_summary())
    assert paths["html"].read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


@pytest.mark.parametrize("name", ["report.html", "model-card.md", "summary.json"])
def test_a_file_that_is_not_ours_is_replaced_on_request_only(tmp_path, name):
    (tmp_path / name).write_text("mine", encoding="utf-8")
    with pytest.raises(FileExistsError, match=rf"{re.escape(name)} exists and does not belong .*overwrite=True"):
        write_report(law_summary(), tmp_path)
    assert [(path.name, path.read_text(encoding="utf-8")) for path in tmp_path.iterdir()] == [(name, "mine")]
    paths = write_report(law_summary(), tmp_path, overwrite=True)
    assert read_summary(paths["json"]).to_json() == law_summary().to_json()
    write_report(law_summary(), tmp_path)  # a report of ours is renewed without being told


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{}", "missing required field `title`"),
        (b"[]", "Expected `object`, got `array`"),
        (b'{"schema": "other"}', r"Invalid value 'other' - at `\$.schema`"),
        (b'{"schema": "fairbound.summary", "version": 99}', r"Invalid enum value 99 - at `\$.version`"),
        (b'{"schema": "fairbound.summary", "title": "x"}', "missing required field `target`"),
        (b"{", "truncated"),
        (b"\xff\xfe\x00", "malformed"),
        (b"", "truncated"),
    ],
)
def test_what_is_no_summary_is_refused(tmp_path, content, message):
    path = tmp_path / "summary.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"summary\.json is not a summary: .*{message}.*Give the summary.json"):
        read_summary(path)
