"""The section of the model card for Annex IV: measured figures, dates and hashes, and gaps by name."""

from __future__ import annotations

import pytest
from tests.report.example import HOSTILE, edited, law_summary

from fairbound.report import to_markdown

LOCK = {"written": "2026-01-31T12:00:00+00:00", "sha256": "ab" * 32}
GAP = "- **Gap**, for a person to fill in: "


@pytest.fixture(scope="module")
def points() -> dict[str, str]:
    """Return the text of each point, by its number."""
    with edited(law_summary()) as values:
        values["reproduction"] |= {"lock": LOCK, "created": "2026-01-31T12:05:10+00:00"}
    return points_of(to_markdown(values.summary))


def points_of(card: str) -> dict[str, str]:
    section = card.split("## Technical documentation")[1].split("## What the numbers")[0]
    return {text.split()[0]: text for text in section.split("\n### ")[1:]}


def test_the_card_has_the_three_points_with_measured_figures(points):
    assert list(points) == ["2(g)", "3", "4"]
    for group in law_summary().held_out.after.groups:
        found = group.rate("accuracy")
        assert f"| race: {group.name} | {group.rows:,} | {found.value:.3f} ({found.lower:.3f} to" in points["3"]


def test_the_log_has_limits_dates_and_hashes(points):
    log = points["2(g)"]
    assert f"- Limits written down: 2026-01-31 12:00 UTC, before training; SHA-256 {LOCK['sha256']}" in log
    assert "- Test run: 2026-01-31 12:05 UTC, fairbound 0.1.0" in log
    sizes = {group.name: group.rows for group in law_summary().held_out.after.groups}
    assert f"- Held-out rows by race: Non-White {sizes['Non-White']:,}, White {sizes['White']:,}\n" in log
    assert "- Limits: disparate\\_impact &gt;= 0.9\n" in log
    assert "- disparate\\_impact &gt;= 0.9, training rows: 0.9" in log


def test_what_only_people_can_say_is_a_gap_and_nothing_claims_more(points):
    gaps = "".join(line for text in points.values() for line in text.splitlines() if line.startswith(GAP))
    for word in ("signatures", "intended purpose", "oversight", "robustness", "2(f)", "discrimination", "represent"):
        assert word in gaps  # what the text of the three points names
    assert not any("complian" in text.lower() for text in points.values())


def test_a_run_without_lock_or_held_out_rows_says_so():
    with edited(law_summary()) as values:
        values["held_out"] = None
        for point in values["frontier"]:
            point["held_out"] = None
    points = points_of(to_markdown(values.summary))
    assert "- Limits written down: not recorded" in points["2(g)"]
    assert "none was held out" in points["2(g)"]
    assert "| training rows | rows |" in points["3"]
    assert "0 to 0." not in points["3"]  # no intervals on rows that the model was fitted to


def test_names_of_users_are_text():
    with edited(law_summary()) as values:
        for group in values["held_out"]["after"]["groups"]:
            group["group"] = None if group["everyone"] else HOSTILE[0]
    assert "<script" not in to_markdown(values.summary)
