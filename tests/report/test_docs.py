"""The page docs/report.md: its programs run, and its table names what a summary has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.report.example import law_summary

from fairbound._json import plain
from fairbound.report import DOCUMENTS

PAGE = (Path(__file__).parents[2] / "docs" / "report.md").read_text(encoding="utf-8")


def test_the_programs_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    programs = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert len(programs) == 5
    names: dict[str, object] = {}
    for program in programs:
        exec(compile(program, "report.md", "exec"), names)
    assert sorted(path.name for path in (tmp_path / "bar-exam").iterdir()) == [
        "model-card.md",
        "report.html",
        "summary.json",
    ]
    assert str(names["html"]).startswith("<!DOCTYPE html>")
    assert str(names["sheet"]).startswith("# Disparate impact in three steps")
    assert set(DOCUMENTS) == set(
        re.findall(r"^\| `([a-z-]+)` \|", PAGE.split("## Documents")[1].split("## The")[0], re.M)
    )


def rows() -> dict[str, str]:
    found = {}
    for keys, text in re.findall(r"^\| (`.+?`) \| (.+) \|$", PAGE.split("## The summary")[1], re.MULTILINE):
        found |= dict.fromkeys(re.findall(r"`(\w+)`", keys), text)
    return found


def test_the_table_names_every_key():
    assert set(rows()) == set(plain(law_summary()))


@pytest.mark.parametrize(
    ("key", "inside"),
    [
        ("limits", lambda summary: summary["limits"][0]),
        ("training", lambda summary: summary["training"]),
        ("training", lambda summary: summary["training"]["accuracy"]),
        ("frontier", lambda summary: summary["frontier"][0]),
    ],
)
def test_the_table_names_what_is_inside(key, inside):
    assert set(inside(plain(law_summary()))) <= set(re.findall(r"`(\w+)`", rows()[key]))
