"""The audit: values against fairlearn, intervals against scipy, and notes on undefined rates and small groups."""

from __future__ import annotations

import json
import sys

import fairlearn.metrics as fl
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tests.evaluation.helpers import rows, selected_at
from tests.refusals import refused, says

from fairbound.evaluation import audit
from fairbound.fairness import MEASURES, OTHER_NAMES, RATES, Measure
from fairbound.fairness.rates import false_positive_rate, selection_rate

# Values are quotients of the same counts, in another order of operations.
SAME = 1e-12


def _data(seed: int = 0, n: int = 400, labels: int = 2, groups: int = 3):
    rng = np.random.default_rng(seed)
    y, decision = rng.integers(labels, size=n), rng.integers(labels, size=n)
    return y, decision, rng.choice(list("abcdefgh"[:groups]), n), rng.uniform(0.2, 3.0, n)


@pytest.mark.parametrize("weighted", [False, True])
def test_measures_are_those_of_fairlearn(weighted):
    y, decision, group, w = _data(1)
    w = w if weighted else None
    result = audit(y, decision, group, sample_weight=w)
    arguments = {"y_true": y, "y_pred": decision, "sensitive_features": group, "sample_weight": w}
    named = [name for name in OTHER_NAMES if hasattr(fl, name)]
    assert len(named) >= 4
    expected = {name: getattr(fl, name)(**arguments) for name in named}
    assert {name: result.measure(name).value for name in expected} == pytest.approx(expected, abs=SAME)


@pytest.mark.parametrize("labels", [2, 3])
def test_every_measure_and_every_rate_of_the_registry_is_there(labels):
    y, decision, group, _ = _data(3, labels=labels)
    result = audit(y, decision, group)
    compared = {name for name, measure in MEASURES.items() if measure.comparison != "value"}
    assert {measure.measure for measure in result.measures} == compared
    for each in result.groups:
        assert all(set(rates) == set(RATES) for rates in each.rates.values())
        assert list(each.rates) == ([1] if labels == 2 else [0, 1, 2])


def test_intervals_are_exact_binomial():
    y, decision, group = rows(
        ("a", 1, 1, 40), ("a", 1, 0, 10), ("a", 0, 1, 5), ("a", 0, 0, 45), ("b", 1, 1, 7), ("b", 0, 0, 3)
    )
    result = audit(y, decision, group, confidence=0.9)
    for name, (successes, trials) in {
        "selection_rate": (45, 100),
        "true_positive_rate": (40, 50),
        "false_positive_rate": (5, 50),
        "precision": (40, 45),
        "negative_predictive_value": (45, 55),
        "accuracy": (85, 100),
        "share_of_selected": (45, 52),
    }.items():
        found = result.group("a").rate(name)
        expected = stats.binomtest(successes, trials).proportion_ci(0.9, "exact")
        assert found.value == pytest.approx(successes / trials, abs=SAME)
        assert (found.lower, found.upper) == pytest.approx(tuple(expected), abs=1e-8)
    group_a = result.group("a")
    assert group_a.rows == 100
    assert group_a.labels == {0: 50, 1: 50}
    assert group_a.confusion == ((45, 5), (10, 40))


@settings(max_examples=50)  # each makes whole certificates or audits
@given(seed=st.integers(0, 10**6), labels=st.integers(2, 4), groups=st.integers(2, 5), n=st.integers(8, 80))
def test_intervals_contain_their_values(seed, labels, groups, n):
    y, decision, group, _ = _data(seed, n, labels, groups)
    y[:labels] = range(labels)
    result = audit(y, decision, group)
    estimates = [rate for each in result.groups for rates in each.rates.values() for rate in rates.values()]
    for each in [*estimates, *result.measures]:
        if each.lower is not None:
            assert each.lower - SAME <= each.value <= each.upper + SAME
    undefined = {(each.group, each.rate, each.label) for each in result.undefined}
    for each in result.groups:
        for label, rates in each.rates.items():
            for name, estimate in rates.items():
                key = (each.group, name, label if labels > 2 and name != "accuracy" else None)
                assert each.everyone or (estimate.value is None) == (key in undefined)
    json.loads(result.to_json())
    assert str(result)


def test_the_interval_of_a_measure_covers_it():
    # Three groups at 0.5, 0.5 and 0.4: ratio 0.8, difference 0.1. 150 draws, nominal 95%: with a coverage of 0.95 fewer
    # than 0.9 would be seen with probability 0.006, and Bonferroni makes it higher.
    population, rng, draws = selected_at((0.5, 0.5, 0.4)), np.random.default_rng(0), 150
    covered = {"disparate_impact": 0, "demographic_parity": 0}
    for _ in range(draws):
        result = audit(*population.draw(rng, 300))
        for name, truth in (("disparate_impact", 0.8), ("demographic_parity", 0.1)):
            found = result.measure(name)
            covered[name] += found.lower <= truth <= found.upper
    assert min(covered.values()) >= 0.9 * draws


def test_a_measure_names_the_groups_furthest_apart():
    y, decision, group = rows(
        ("a", 1, 1, 50), ("a", 0, 0, 50), ("b", 1, 1, 30), ("b", 0, 0, 70), ("c", 1, 1, 40), ("c", 0, 0, 60)
    )
    result = audit(y, decision, group)
    assert result.measure("disparate_impact").pair == ("a", "b", "selection_rate")
    assert result.measure("demographic_parity").pair == ("a", "b", "selection_rate")
    assert result.measure("covariance").pair is None
    assert result.measure("covariance").lower is None


def test_only_the_measures_asked_for_with_one_of_ones_own():
    y, decision, group = [0, 1] * 50, [1] * 60 + [0] * 40, ["a", "b", "b", "a"] * 25
    own = Measure("odds_of_error", (false_positive_rate,), "difference")
    every, some = (audit(y, decision, group, measures=asked) for asked in (None, ["disparate_impact", own]))
    assert [found.measure for found in some.measures] == ["disparate_impact", "odds_of_error"]
    assert some.measure("disparate_impact") == every.measure("disparate_impact")
    assert some.measure("odds_of_error").value == every.measure("predictive_equality").value
    assert some.groups == every.groups
    assert audit(y, decision, group, measures="disparate_impact").measures == some.measures[:1]
    with refused("measures=", "'selection_rate'"):
        audit(y, decision, group, measures=["selection_rate"])
    with pytest.raises(ValueError, match=r"Unknown measure 'disparat_impact'\. Did you mean"):
        audit(y, decision, group, measures=["disparat_impact"])


def test_groups_without_positives_are_listed_and_left_out():
    y, decision, group = rows(
        ("a", 1, 1, 30),
        ("a", 0, 0, 30),
        ("b", 1, 1, 15),
        ("b", 1, 0, 15),
        ("b", 0, 0, 5),
        ("c", 0, 1, 4),
        (None, 1, 1, 6),
    )
    result = audit(y, decision, group)
    undefined = {(each.group, each.rate) for each in result.undefined}
    assert undefined == {("c", "true_positive_rate"), ("c", "false_negative_rate"), ("c", "negative_predictive_value")}
    assert {each.rows for each in result.undefined} == {4}
    assert result.group("c").rate("true_positive_rate").value is None
    assert result.measure("equal_opportunity").value == pytest.approx(0.5)
    assert result.measure("equal_opportunity").left_out == ("c",)
    assert result.measure("demographic_parity").left_out == ()
    assert result.missing == {"sensitive_feature": 6}
    text = " ".join(str(result).split())
    assert says(text, "group c (rows: 4) is left out", "undefined there: true_positive_rate")
    assert "6 rows have no known group" in text
    assert "fewer than 30 rows (c 4)" in text
    assert "undefined" in text


def test_a_measure_without_two_groups_is_undefined():
    one = audit([0, 1, 1], [0, 1, 0], ["a", "a", "a"])
    assert all(measure.value is None for measure in one.measures)
    nobody = audit([0, 1] * 4, [0] * 8, list("aabbaabb"))
    assert nobody.measure("predictive_parity").value is None
    assert nobody.measure("predictive_parity").left_out == ("a", "b")
    assert nobody.measure("representation").value is None
    assert nobody.measure("disparate_impact").value == 1.0
    assert nobody.measure("disparate_impact").upper == 1.0
    assert "undefined" in str(nobody)


def test_several_columns_each_and_crossed():
    y, decision, group, _ = _data(4, groups=2)
    sex = np.where(np.arange(400) % 2, "f", "m")
    both = audit(y, decision, {"race": group, "sex": sex}, groups="both")
    assert list(both.missing) == ["race", "sex", "race & sex"]
    assert both.group("a & f").group == ("a", "f")
    assert both.group(("a", "f")).rows == ((group == "a") & (sex == "f")).sum()
    assert both.measure("disparate_impact", "sex").grouping == "sex"
    with refused("disparate_impact", "'race', 'sex', 'race & sex'"):
        both.measure("disparate_impact")
    with pytest.raises(ValueError, match="Several groupings have the group 'everyone'"):
        both.group("everyone")
    assert both.group("everyone", "sex").rows == 400


def test_weights_have_wider_intervals_and_say_so():
    y, decision, group, w = _data(5, 2000)
    plain, weighted = audit(y, decision, group), audit(y, decision, group, sample_weight=w)
    for value in "abc":
        exact, bernstein = (each.group(value).rate("selection_rate") for each in (plain, weighted))
        assert bernstein.upper - bernstein.lower > exact.upper - exact.lower
        assert bernstein.upper - bernstein.lower < 0.5
    assert weighted.weighted
    assert "in place of the largest possible one" in " ".join(str(weighted).split())
    assert weighted.group("a").labels[1] == pytest.approx(w[(group == "a") & (y == 1)].sum())


def test_the_page_as_html_escapes_what_users_wrote():
    y, decision = [0, 1] * 20, [1, 0] * 20
    page = audit(y, decision, {"<script>alert(1)</script>": ["<b>", "&"] * 20})._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "<b>" not in page
    assert page.count("<table") == page.count("</table>") == 4


def test_the_dictionary_has_what_the_page_has():
    y, decision, group, _ = _data(6)
    result = audit(y, decision, {"race": group, "sex": np.arange(400) % 2 == 0}, groups="both")
    loaded = json.loads(result.to_json())
    assert loaded == result.to_dict()
    assert loaded["rows"] == 400
    assert {group["group"] for group in loaded["groups"] if group["grouping"] == "sex"} == {"False", "True", "everyone"}
    assert loaded["groups"][0]["rates"]["1"]["selection_rate"]["value"] == result.groups[0].rate("selection_rate").value
    assert loaded["measures"][0]["measure"] == "demographic_parity"


def test_frames_have_a_line_for_each_rate_and_measure():
    y, decision, group, _ = _data(7)
    result = audit(y, decision, group)
    rates, measures = result.to_frame(), result.to_frame("measures")
    assert isinstance(rates, pd.DataFrame)
    assert len(rates) == 4 * len(RATES)
    assert rates.loc[(rates.group == "a") & (rates.rate == "accuracy"), "value"].item() == pytest.approx(
        (y == decision)[group == "a"].mean()
    )
    assert len(measures) == len(result.measures)
    with pytest.raises(ValueError, match=r"what='groups' must be \"rates\" or \"measures\""):
        result.to_frame("groups")


def test_a_measure_prints_its_value_and_interval():
    y, decision, group, _ = _data()
    found = audit(y, decision, {"g": group}).measure("disparate_impact")
    assert str(found) == f"disparate_impact (g): {found.value:.3f} [{found.lower:.3f}, {found.upper:.3f}]"


def test_the_picture_of_a_ranking_has_rates_and_ratios_at_every_number_of_the_selected():
    rng = np.random.default_rng(0)
    score, group = rng.normal(size=50), np.array(["a", "b"] * 25)
    axes = audit(None, None, {"g": group}, score=score).plot_ranking("g")
    first, second, ratio = axes.lines
    best = np.argsort(-score)
    for k, a, b, least in zip(first.get_xdata(), first.get_ydata(), second.get_ydata(), ratio.get_ydata(), strict=True):
        chosen = group[best[: round(k)]]
        shares = [(chosen == each).sum() / 25 for each in ("a", "b")]
        assert [a, b] == pytest.approx(shares)
        assert least == pytest.approx(min(shares) / max(shares))
    with pytest.raises(ValueError, match="needs the scores"):
        audit([0, 1] * 25, [0, 1] * 25, {"g": group}).plot_ranking()


def test_the_picture_has_each_rate_with_its_interval():
    y, decision, group, _ = _data()
    found = audit(y, decision, {"g": group})
    axes = found.plot("true_positive_rate")
    values = [found.group(name).rate("true_positive_rate") for name in ("c", "b", "a")]  # the first group is on top
    assert [line.get_xdata()[0] for line in axes.lines[:-1:2]] == [each.value for each in values]
    assert [tuple(line.get_xdata()) for line in axes.lines[1:-1:2]] == [(each.lower, each.upper) for each in values]
    assert axes.get_xlabel() == "true positive rate"
    with pytest.raises(ValueError, match="true_positive_rat"):
        found.plot("true_positive_rat")
    prices = np.where(np.array(group) == "a", "from $\\frac$", group)  # a dollar does not begin a formula
    audit(y, decision, {"g": prices}).plot().figure.canvas.draw()


def test_without_pandas_a_frame_says_what_to_install(monkeypatch):
    result = audit([0, 1, 0, 1], [0, 1, 1, 0], list("aabb"))
    monkeypatch.setitem(sys.modules, "pandas", None)
    with refused("pandas", "pip install pandas", error=ImportError):
        result.to_frame()


def test_a_rate_added_to_the_registry_is_shown_without_an_interval(monkeypatch):
    def twice_selected(g):
        return 2.0 * selection_rate(g)

    monkeypatch.setitem(RATES, "twice_selected", twice_selected)
    found = audit([0, 1, 0, 1], [0, 1, 1, 0], list("aabb")).group("a").rate("twice_selected")
    assert (found.value, found.lower, str(found)) == (1.0, None, "1.000")


def test_what_is_unknown_or_missing_raises():
    y, decision, group, _ = _data(8, labels=3)
    result = audit(y, decision, group)
    with pytest.raises(ValueError, match="An audit compares groups: pass sensitive_features"):
        audit(y, decision, None)
    with pytest.raises(ValueError, match="confidence=95 must be a share"):
        audit(y, decision, group, confidence=95)
    with pytest.raises(ValueError, match=r"Unknown group 'z'\. Known: a \(sensitive_feature\)"):
        result.group("z")
    with refused("selection_rate", "0, 1, 2"):
        result.group("a").rate("selection_rate")
    with pytest.raises(ValueError, match=r"Unknown class 7\. Known: 0, 1, 2"):
        result.group("a").rate("selection_rate", 7)
    with pytest.raises(ValueError, match=r"rate 'selectoin_rate'.*'selection_rate'"):
        result.group("a").rate("selectoin_rate", 1)
    with pytest.raises(ValueError, match=r"measure 'disparate_impcat'.*'disparate_impact'"):
        result.measure("disparate_impcat")
    with refused("'sensitive_feature' and class 0", "label="):
        result.measure("disparate_impact")


def test_groups_whose_rows_weigh_nothing_keep_their_names():
    found = audit([0, 1, 0, 1], [0, 1, 1, 1], ["a", "b", "c", "c"], sample_weight=[0, 0, 1, 1])
    assert [(each.group, each.rows) for each in found.groups] == [("a", 0), ("b", 0), ("c", 2), (None, 2)]
    assert found.merged == {}
