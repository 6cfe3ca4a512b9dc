"""The part of docs/auditing.md about the report: its tables name the documents, and what a summary has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.report.example import law_summary

from fairbound._json import plain
from fairbound.report import DOCUMENTS

PAGE = (Path(__file__).parents[2] / "docs" / "auditing.md").read_text(encoding="utf-8")


def test_the_page_names_every_kind_of_document():
    section = PAGE.split("### Documents")[1].split("### The")[0]
    assert set(DOCUMENTS) == set(re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE))


def rows() -> dict[str, str]:
    found = {}
    for keys, text in re.findall(
        r"^\| (`.+?`) \| (.+) \|$", PAGE.split("### The summary")[1].split("\n### ")[0], re.MULTILINE
    ):
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
