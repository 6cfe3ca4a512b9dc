"""The section of the model card for Annex IV: measured figures, dates and hashes, and gaps by name."""

from __future__ import annotations

import copy

from tests.report.example import HOSTILE
from tests.report.example import law_summary as shared_summary

from fairbound.report import to_markdown
from fairbound.report.card import annex_points

LOCK = {"written": "2026-01-31T12:00:00+00:00", "sha256": "ab" * 32}


def law_summary():
    return copy.deepcopy(shared_summary())


def locked_summary():
    summary = law_summary()
    summary["reproduction"] = {**summary["reproduction"], "lock": LOCK, "created": "2026-01-31T12:05:10+00:00"}
    return summary


def test_the_card_has_the_three_points_with_measured_figures():
    summary = locked_summary()
    card = to_markdown(summary)
    assert [point.heading.split()[0] for point in annex_points(summary)] == ["2(g)", "3", "4"]
    for point in annex_points(summary):
        assert f"### {point.heading}" in card
    audit = summary["parts"]["held_out"]["after"]
    _, performance, _ = annex_points(summary)
    assert len(performance.lines) == len(audit["groups"])
    for group, line in zip(audit["groups"], performance.lines, strict=True):
        (rates,) = group["rates"].values()
        found = rates["accuracy"]
        assert line[2] == f"{found['value']:.3f} ({found['lower']:.3f} to {found['upper']:.3f})"


def test_the_log_has_limits_dates_and_hashes():
    testing, *_ = annex_points(locked_summary())
    facts = dict(testing.facts)
    assert LOCK["sha256"] in facts["Limits written down"]
    assert "before training" in facts["Limits written down"]
    assert facts["Test run"].startswith("2026-01-31 12:05 UTC")
    sizes = {group["group"]: group["rows"] for group in law_summary()["parts"]["held_out"]["after"]["groups"]}
    assert facts["Held-out rows by race"] == f"Non-White {sizes['Non-White']:,}, White {sizes['White']:,}"
    assert facts["Limits"] == "; ".join(limit["text"] for limit in law_summary()["limits"])


def test_what_only_people_can_say_is_a_gap_and_nothing_claims_more():
    summary = locked_summary()
    card = to_markdown(summary)
    gaps = [gap for point in annex_points(summary) for gap in point.gaps]
    assert card.count("**Gap**") == len(gaps) >= 8
    assert any("signatures" in gap for gap in gaps)
    assert any("intended purpose" in gap for gap in gaps)
    assert any("oversight" in gap for gap in gaps)
    for word in ("robustness", "2(f)", "discrimination", "represent"):  # what the text of the three points names
        assert any(word in gap for gap in gaps)
    assert "complian" not in card.lower()


def test_a_run_without_lock_or_held_out_rows_says_so():
    summary = law_summary()
    summary["reproduction"].pop("lock", None)
    assert dict(annex_points(summary)[0].facts)["Limits written down"] == "not recorded"
    summary["parts"]["held_out"] = None
    for limit in summary["limits"]:
        limit["held_out"] = None
    testing, performance, _ = annex_points(summary)
    assert any("none was held out" in gap for gap in testing.gaps)
    assert performance.header[0] == "training rows"
    assert all("to" not in line[2] for line in performance.lines)  # no intervals on rows that the model was fitted to


def test_names_of_users_are_text():
    summary = locked_summary()
    for group in summary["parts"]["held_out"]["after"]["groups"]:
        group["group"] = group["group"] if group["everyone"] else HOSTILE[0]
    assert "<script" not in to_markdown(summary)
