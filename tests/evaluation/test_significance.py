"""Tests of selection rates: against scipy, statsmodels' textbook formulas by hand, and cases from the rules."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from tests.refusals import refused, says

from fairbound.evaluation import Significance, audit, compare_selections, holm
from fairbound.evaluation.significance import notes_on


def pair(x, n, y, m):
    """Compare x of n with y of m; the second group is the reference."""
    (found,) = compare_selections("group", [("focal", n, x), ("base", m, y)], reference="base")
    return found


def test_a_case_by_hand():
    # 12 of 40 beside 25 of 50: rates 0.3 and 0.5, pooled 37/90.
    found = pair(12, 40, 25, 50)
    assert (found.rate, found.reference_rate, found.ratio) == (0.3, 0.5, 0.6)
    q = 37 / 90
    assert found.standard_deviations == pytest.approx(-0.2 / math.sqrt(q * (1 - q) * (1 / 40 + 1 / 50)), rel=1e-12)
    assert found.shortfall == pytest.approx(40 * 0.5 - 12)
    assert found.pooled_shortfall == pytest.approx(40 * q - 12)
    assert found.below_four_fifths
    assert not found.one_more_reverses  # 13/40 over 0.5 is 0.65


def test_a_flip_by_hand():
    # 7 of 20 beside 9 of 20 is 0.778; 8 of 20 beside 9 of 20 is 0.889.
    found = pair(7, 20, 9, 20)
    assert (found.below_four_fifths, found.one_more_reverses, found.one_different_exceeds) == (True, True, False)
    # 3 of 10 beside 4 of 10 is 0.75; one different person makes it 4 of 10 beside 3 of 10.
    found = pair(3, 10, 4, 10)
    assert (found.below_four_fifths, found.one_more_reverses, found.one_different_exceeds) == (True, True, True)
    # 0 of 10 beside 11 of 60: one more is 0.1 beside 0.183; one different is 0.1 beside 0.167.
    found = pair(0, 10, 11, 60)
    assert (found.below_four_fifths, found.one_more_reverses, found.one_different_exceeds) == (True, False, False)
    # 8 of 20 beside 10 of 20 is four fifths itself: not below, so there is nothing to reverse.
    found = pair(8, 20, 10, 20)
    assert (found.below_four_fifths, found.one_more_reverses, found.one_different_exceeds) == (False, False, False)


@given(
    st.integers(1, 300).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))),
    st.integers(1, 300).flatmap(lambda m: st.tuples(st.just(m), st.integers(0, m))),
)
def test_z_fisher_shortfall_and_flips_are_those_of_scipy_and_of_fractions(focal, base):
    (n, x), (m, y) = focal, base
    found = pair(x, n, y, m)
    table = [[x, n - x], [y, m - y]]
    assert found.exact_p == pytest.approx(stats.fisher_exact(table).pvalue, rel=1e-9)
    expected = stats.contingency.expected_freq(table) if 0 < x + y < n + m else None
    if expected is not None:
        chi_squared = stats.chi2_contingency(table, correction=False)  # its root is Z, for two groups
        assert found.standard_deviations**2 == pytest.approx(chi_squared.statistic, rel=1e-9, abs=1e-9)
        assert found.z_p == pytest.approx(chi_squared.pvalue, rel=1e-6, abs=1e-12)
        assert found.exact == (expected.min() < 5 - 1e-9) or abs(expected.min() - 5) < 1e-9
    else:
        assert (found.standard_deviations, found.z_p, found.exact) == (0.0, 1.0, True)
    assert found.p == (found.exact_p if found.exact else found.z_p)
    assert found.shortfall == pytest.approx(float(n * Fraction(y, m) - x), abs=1e-9)
    assert found.pooled_shortfall == pytest.approx(float(n * Fraction(x + y, n + m) - x), abs=1e-9)
    below = Fraction(x, n) < Fraction(4, 5) * Fraction(y, m)
    assert found.below_four_fifths == below
    assert found.one_more_reverses == (below and Fraction(x + 1, n) >= Fraction(4, 5) * Fraction(y, m))
    assert found.one_different_exceeds == (below and Fraction(x + 1, n) > Fraction(y - 1, m))


def test_the_reference_is_the_most_selected_group_or_a_named_one():
    counts = [("a", 100, 50), ("b", 100, 60), ("c", 100, 30)]
    assert {test.reference for test in compare_selections("race", counts)} == {"b"}
    assert {test.reference for test in compare_selections("race", counts, reference="a")} == {"a"}
    with refused("'d'", "a, b, c", "race"):
        compare_selections("race", counts, reference="d")


def test_a_handful_of_people_is_not_the_reference():
    counts = [("few", 8, 4), ("a", 400, 150), ("b", 300, 80)]
    tests = compare_selections("race", counts)
    assert {test.reference for test in tests} == {"a"}
    assert tests[0].ratio == pytest.approx(0.5 / 0.375)
    assert {test.reference for test in compare_selections("race", counts, reference="few")} == {"few"}
    exactly = [("few", 20, 10), ("a", 580, 150), ("b", 400, 80)]  # 2% of 1,000 rows is not under 2%
    assert {test.reference for test in compare_selections("race", exactly)} == {"few"}
    many = [(f"g{number}", 10, number % 9) for number in range(60)]  # every group has less than 2%
    assert {test.reference for test in compare_selections("race", many)} == {"g8"}


def test_notes_name_the_groups_that_were_not_taken_and_single_groups():
    decided = [1] * 4 + [0] * 4 + [1] * 150 + [0] * 250
    groups = {"race": ["few"] * 8 + ["a"] * 400, "sex": ["f"] * 408}
    found = audit(None, decided, groups)
    small, single, intervals = found.significance().notes
    assert says(small, "race", "2%", "few 0.500")
    assert says(single, "sex", "one group")
    assert "wider" in intervals
    assert found.significance().notes[0] in str(found.significance())
    assert not any("few" in note for note in found.significance({"race": "few"}).notes)


def test_a_ratio_just_below_four_fifths_is_not_shown_as_four_fifths():
    (test,) = compare_selections("sex", [("f", 10_000, 3_998), ("m", 10_000, 5_000)])
    assert test.below_four_fifths
    (line,), _ = (table.rows for table in Significance((test,), 0.95).tables())
    assert line[4].startswith("0.7996 ")
    (test,) = compare_selections("sex", [("f", 5, 2), ("m", 10, 5)])  # exactly four fifths
    (line,), _ = (table.rows for table in Significance((test,), 0.95).tables())
    assert line[4].startswith("0.800 ")
    assert not test.below_four_fifths


def test_several_groups_are_adjusted_together_by_holm():
    counts = [("a", 100, 60), ("b", 100, 45), ("c", 100, 40), ("d", 100, 55)]
    tests = compare_selections("race", counts, reference="a")
    by_hand = sorted(test.p for test in tests)
    steps = [3 * by_hand[0], 2 * by_hand[1], by_hand[2]]
    wanted = [min(1.0, max(steps[: place + 1])) for place in range(3)]
    assert sorted(test.adjusted_p for test in tests) == pytest.approx(wanted)
    assert holm([]) == []
    # The same group, chosen by its rate: it could have been another one, so the same differences say less.
    for chosen, named in zip(compare_selections("race", counts), tests, strict=True):
        assert (chosen.reference, chosen.p) == ("a", named.p)
        assert chosen.adjusted_p > named.adjusted_p or chosen.group == "d"  # the last one is left alone in both


def test_intervals_of_ratios_hold_together():
    rng = np.random.default_rng(1)
    rates = {"a": 0.5, "b": 0.4, "c": 0.3}
    missed = 0
    for _ in range(300):
        counts = [(group, 150, int(rng.binomial(150, rate))) for group, rate in rates.items()]
        tests = compare_selections("g", counts, reference="a")
        missed += not all(test.lower <= rates[test.group] / rates["a"] <= test.upper for test in tests)
    assert missed <= 0.05 * 300


def test_an_audit_has_the_tests_of_each_column_and_needs_people():
    decided = [1] * 30 + [0] * 10 + [1] * 20 + [0] * 20
    sex, race = ["m"] * 40 + ["f"] * 40, ["x", "y"] * 40
    found = audit(None, decided, {"sex": sex, "race": race}).significance()
    assert found.test("f").ratio == pytest.approx(2 / 3)
    assert found.test("f", "sex") == found.tests[0]
    assert "std. dev." in str(found)
    assert len(found.to_frame()) == 2
    assert found.to_dict()[0]["p"] == found.tests[0].p
    named = audit(None, decided, {"sex": sex}).significance(reference="f")
    assert named.test("m").ratio == 1.5
    several = audit(None, decided, {"sex": sex, "race": race})
    assert [test.reference for test in several.significance({"race": "y", "sex": "f"}).tests] == ["f", "y"]
    assert [test["reference"] for test in several.to_dict({"sex": "f"})["significance"]] == ["f", "x"]
    with refused("'age'", "race", "sex"):
        several.significance({"age": "old"})
    with refused("sample_weight"):
        audit(None, decided, {"sex": sex}, sample_weight=[1, 2] * 40).significance()
    with refused("'d'", "f (sex)"):
        found.test("d")


def test_an_interval_and_a_p_value_that_seem_to_disagree_are_explained():
    """The interval of a ratio is wider than the test, so it may contain 1 although the adjusted p is small."""
    decided, groups = [], []
    for group, rows, selected in (("Asian", 70, 45), ("Black", 141, 83), ("White", 384, 281)):
        decided += [1] * selected + [0] * (rows - selected)
        groups += [group] * rows
    found = audit(None, decided, {"race": groups}).significance()
    black = found.test("Black")
    assert black.lower < 1.0 < black.upper
    assert black.adjusted_p < 0.02
    assert says(found.notes[0], "race: the interval contains 1", "adjusted p is at most 0.05 (Black)")
    assert "wider than the tests" in found.notes[-1]
    assert "ratio, 95%" in str(found)
    alike = audit(None, [1, 0] * 100, {"sex": ["f", "f", "m", "m"] * 50}).significance()
    assert [note for note in alike.notes if "contains 1, but" in note] == []


@given(
    st.lists(
        st.sampled_from([1, 2, 3, 5, 8, 20, 60, 200, 1000, 5000]).flatmap(
            lambda n: st.tuples(st.just(n), st.integers(0, n))
        ),
        min_size=2,
        max_size=6,
    ),
    st.sampled_from([0.8, 0.9, 0.95, 0.99]),
)
def test_an_interval_without_1_has_a_small_adjusted_p(counts, confidence):
    """So beside a named group the two never contradict each other in the other way."""
    named = [(str(place), rows, selected) for place, (rows, selected) in enumerate(counts)]
    for found in compare_selections("group", named, reference="0", confidence=confidence):
        if not found.lower <= 1.0 <= found.upper:
            assert found.adjusted_p <= 1.0 - confidence


def test_a_note_names_a_group_whose_interval_excludes_1_although_its_adjusted_p_is_not_small():
    """Beside the most selected of many large groups the test of a small one may be the stricter of the two."""
    counts = [("small", 1000, 454), *((f"large {place}", 10**8, 5 * 10**7) for place in range(11))]
    tests = compare_selections("group", counts)
    note, *_ = notes_on(tests, "group", named=False)
    assert says(note, "group: the interval excludes 1", "adjusted p is above 0.05 (small)")
