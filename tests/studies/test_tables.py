"""The tables and notes of a study."""

from __future__ import annotations

from fairbound.studies import rows_without_group


def test_rows_without_a_group_are_counted_by_part():
    """They count in the accuracy and in no rate, so "everyone" of a table has fewer rows than its heading."""
    parts = {
        "training": {"after": {"missing": {"sex": 1200, "race": 0}}},
        "held_out": {"after": {"missing": {"sex": 1}}},
    }
    first, second = rows_without_group({"parts": parts})
    assert first.startswith("1,200 training rows have no known sex")
    assert (
        "or one that the limits leave out" in first
    )  # the rows of a small group count as such, and their group is known
    assert second.startswith("1 held-out row has no known sex")
    assert rows_without_group({"parts": {"training": {"after": {"missing": {"sex": 0}}}, "held_out": None}}) == []
