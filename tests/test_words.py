"""The name that is offered for one that is unknown."""

from __future__ import annotations

import pytest

from fairbound._words import did_you_mean

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
