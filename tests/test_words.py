"""Names, groups and lists as text."""

from __future__ import annotations

import pytest

from fairbound._words import EVERYONE, as_text, did_you_mean, group_text, listed

MEASURES = ["disparate_impact", "demographic_parity", "equal_opportunity", "equalized_odds", "selection_rate"]
DATASETS = ["law", "dutch", "adult", "acsincome", "acsincome_us"]


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("Sex", ["race", "sex"], "sex"),
        ("sxe", ["race", "sex"], "sex"),
        ("sexx", ["race", "sex"], "sex"),
        ("eech", ["each", "intersection"], "each"),
        ("lae", DATASETS, "law"),
        ("idd", ["id", "sex"], "id"),
        ("aproved", ["approved", "income"], "approved"),
        ("is-recid", ["is_recid", "recid"], "is_recid"),
        ("disparate", MEASURES, "disparate_impact"),
        ("equal_odds", MEASURES, "equalized_odds"),
        ("equal oportunity", MEASURES, "equal_opportunity"),
        ("acs", DATASETS, "acsincome"),
    ],
)
def test_a_slip_of_the_hand_finds_the_name(name, known, meant):
    assert did_you_mean(name, known) == f" Did you mean {meant!r}?"


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("adult", ["law", "dutch", "acsincome"]),
        ("id", ["sex", "ad"]),
        ("a", ["age", "b"]),
        ("age", ["sex", "race"]),
        ("fairness", MEASURES),
        ("income", ["outcome", "sex"]),
        ("", ["sex"]),
        ("sex", []),
    ],
)
def test_a_name_that_is_merely_similar_is_not_offered(name, known):
    assert did_you_mean(name, known) == ""


def test_what_is_not_text_is_compared_as_text():
    assert did_you_mean(None, ["none"]) == " Did you mean 'none'?"


# --- groups and lists ---


def test_a_group_called_everyone_is_told_from_everyone():
    texts = [group_text(group) for group in (None, "everyone", "'everyone'", '"everyone"', ("everyone",), "Everyone")]
    assert texts[0] == EVERYONE
    assert len(set(texts)) == len(texts) - 1  # ("everyone",) is the same group as "everyone"
    assert texts[5] == "Everyone"


def test_groups_of_an_intersection_read_the_same_from_json():
    assert as_text(("f", 3)) == as_text(["f", 3]) == "f & 3"


def test_a_list_shows_the_beginning_of_what_is_long():
    assert listed(range(30), 3) == "0, 1, 2, …"
    assert len(listed(["x" * 1000])) < 100
    assert listed([]) == ""
