"""Exact measures against fairlearn's metrics; measures that fairlearn does not have, against plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from fairlearn.metrics import (
    MetricFrame,
    false_negative_rate,
    false_positive_rate,
    selection_rate,
    true_negative_rate,
    true_positive_rate,
)
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, precision_score
from tests.fairness.helpers import COMPARING, RATE_NAMES, limit

from fairbound.fairness import MEASURES, RATES, Cells, Constraint, ConstraintSystem, Measure, rate_limit
from fairbound.fairness.measures import resolve_measure

EXACT = 1e-12  # both sides are quotients of the same sums; what differs is rounding


def npv(y_true, y_pred, sample_weight=None):
    return precision_score(1 - y_true, 1 - y_pred, sample_weight=sample_weight, zero_division=0)


def precision(y_true, y_pred, sample_weight=None):
    return precision_score(y_true, y_pred, sample_weight=sample_weight, zero_division=0)


# Every rate has an oracle of fairlearn or scikit-learn, or a loop of ours: a new rate fails until it is given one.
ORACLES = {
    "selection_rate": selection_rate,
    "true_positive_rate": true_positive_rate,
    "false_positive_rate": false_positive_rate,
    "true_negative_rate": true_negative_rate,
    "false_negative_rate": false_negative_rate,
    "precision": precision,
    "negative_predictive_value": npv,
    "accuracy": accuracy_score,
    "share_of_selected": None,
}


class Table:
    """Groups, labels, decisions and weights of some rows."""

    def __init__(self, rows, weighted=True):
        group, y, decision, weight = (np.array(column) for column in zip(*rows, strict=True))
        self.group, self.y, self.decision = np.array([f"g{g}" for g in group]), y, decision
        self.weight = weight.astype(float) if weighted else np.ones(len(y))
        self.cells = Cells.build(y, self.group, weights=self.weight)
        self.n_groups = len(set(group))

    @property
    def sums(self):
        return self.cells.sums(self.decision[:, None])

    def system(self, *constraints):
        return ConstraintSystem.build(constraints, self.cells)

    def measured(self, constraint):
        system = self.system(constraint)
        return system.measured(self.sums[None])[0]

    def rates(self, name):
        """The rate of each group and of everyone."""
        constraint = Constraint((0.0, 1.0), measure=name)
        system = self.system(constraint)
        return system.rates(self.sums[None]).tolist()

    def frame(self, metric):
        return MetricFrame(
            metrics=metric,
            y_true=self.y,
            y_pred=self.decision,
            sensitive_features=self.group,
            sample_params={"sample_weight": self.weight},
        )


@st.composite
def tables(draw, weighted=None):
    """Rows of 2 to 5 groups with a row in every cell, and decisions of any kind."""
    n_groups = draw(st.integers(2, 5))
    weights = st.floats(0.05, 20, allow_subnormal=False)
    decisions = st.integers(0, 1)
    first = [(g, y, draw(decisions), draw(weights)) for g in range(n_groups) for y in (0, 1)]
    row = st.tuples(st.integers(0, n_groups - 1), st.integers(0, 1), decisions, weights)
    rest = draw(st.lists(row, max_size=25))
    return Table(first + rest, weighted=draw(st.booleans()) if weighted is None else weighted)


fewer_examples = settings(max_examples=15)  # fairlearn takes its time, and the tests that follow are many
some_examples = settings(max_examples=40)


def test_every_rate_has_an_oracle():
    assert set(ORACLES) == set(RATES) == set(RATE_NAMES)


@pytest.mark.parametrize("name", [name for name, oracle in ORACLES.items() if oracle is not None])
@fewer_examples
@given(table=tables())
def test_rates_are_those_of_fairlearn(name, table):
    frame = table.frame(ORACLES[name])
    expected = [*frame.by_group.sort_index().tolist(), frame.overall]
    np.testing.assert_allclose(table.rates(name), expected, rtol=0, atol=EXACT)


@pytest.mark.parametrize(
    "name", [name for name in COMPARING if MEASURES[name].comparison == "difference" and MEASURES[name].overall]
)
@fewer_examples
@given(table=tables())
def test_differences_are_those_of_fairlearn(name, table):
    frames = [table.frame(ORACLES[rate.__name__]) for rate in MEASURES[name].rates]
    for options, method in ({}, "between_groups"), ({"against": "overall"}, "to_overall"):
        expected = max(frame.difference(method=method) for frame in frames)
        assert table.measured(limit(name, **options)) == pytest.approx(expected, rel=0, abs=EXACT)


@pytest.mark.parametrize("name", [name for name in COMPARING if MEASURES[name].comparison == "ratio"])
@settings(max_examples=15, suppress_health_check=[HealthCheck.filter_too_much])  # of rare labels, many rates are 0
@given(table=tables())
def test_ratios_are_those_of_fairlearn(name, table):
    (rate,) = MEASURES[name].rates
    assume(min(table.rates(rate.__name__)) > 0)  # fairlearn divides by zero there; our own convention stands below
    frame = table.frame(ORACLES[rate.__name__])
    for options, method in ({}, "between_groups"), ({"against": "overall"}, "to_overall"):
        expected = frame.ratio(method=method)
        assert table.measured(limit(name, **options)) == pytest.approx(expected, rel=0, abs=EXACT)


@fewer_examples
@given(table=tables())
def test_covariance_is_the_largest_covariance_of_decision_and_group(table):
    expected = [
        abs(np.cov(table.decision, table.group == g, aweights=table.weight, bias=True)[0, 1]) for g in set(table.group)
    ]
    assert table.measured(limit("covariance")) == pytest.approx(max(expected), rel=0, abs=EXACT)
    assert max(expected) <= MEASURES["covariance"].largest


@fewer_examples
@given(table=tables())
def test_representation_is_a_difference_of_shares_among_the_selected(table):
    selected = table.weight * table.decision
    shares = [selected[table.group == g].sum() / max(selected.sum(), 1e-300) for g in sorted(set(table.group))]
    np.testing.assert_allclose(table.rates("share_of_selected")[:-1], shares, rtol=0, atol=EXACT)
    expected = max(shares) - min(shares)
    assert table.measured(limit("representation")) == pytest.approx(expected, rel=0, abs=EXACT)


@fewer_examples
@given(table=tables())
def test_sufficiency_needs_both_predictive_values(table):
    parts = [table.measured(limit(name)) for name in ("predictive_parity", "negative_predictive_parity")]
    assert table.measured(limit("sufficiency")) == max(parts)


@given(table=tables(), data=st.data())
def test_own_rates_report_the_group_that_is_nearest_to_breaking_its_limit(table, data):
    name = data.draw(st.sampled_from(RATE_NAMES))
    rates = table.rates(name)[:-1]
    lower, upper = sorted(data.draw(st.tuples(st.floats(0, 1), st.floats(0, 1))))
    measured = table.measured(rate_limit(name, lower=lower, upper=upper))
    assert measured in rates
    assert (lower <= measured <= upper) == all(lower <= rate <= upper for rate in rates)
    for position, rate in enumerate(rates):
        assert table.measured(rate_limit(name, group=f"g{position}", lower=lower)) == rate


def kept(system, sums, tolerance=0.0):
    c = system.exact(sums)
    return bool(((c >= system.lower - tolerance) & (c <= system.upper + tolerance)).all())


def ways(table, measure):
    yield {}
    if MEASURES[measure].comparison != "covariance":
        if MEASURES[measure].overall:
            yield {"against": "overall"}
        yield {"reference": f"g{table.n_groups - 1}"}


@pytest.mark.parametrize("name", COMPARING)
@some_examples
@given(table=tables(), fraction=st.floats(0.01, 1))
def test_the_rows_hold_if_and_only_if_the_reported_number_keeps_the_bound(name, table, fraction):
    measure = MEASURES[name]
    bound = fraction * measure.largest
    for options in ways(table, name):
        constraint = limit(name, bound, **options)
        reported = table.measured(constraint)
        assume(abs(reported - bound) > EXACT)  # on the edge rounding decides
        expected = reported >= bound if measure.larger_is_stricter else reported <= bound
        assert kept(table.system(constraint), table.sums) == expected


@pytest.mark.parametrize("name", COMPARING)
@some_examples
@given(table=tables(), edges=st.tuples(st.floats(-1, 1), st.floats(-1, 1)).map(sorted))
def test_a_pair_of_bounds_holds_if_and_only_if_the_directed_number_lies_between(name, table, edges):
    measure = MEASURES[name]
    for options in list(ways(table, name))[0 if measure.comparison == "covariance" else 1 :]:
        if measure.comparison == "ratio":
            lower, upper = math.exp(edges[0]), math.exp(edges[1])
        else:
            lower, upper = edges[0] * measure.largest, edges[1] * measure.largest
        for bound in ((lower, upper), (lower, None), (None, upper)):
            constraint = limit(name, bound, **options)
            reported = table.measured(constraint)
            low, high = constraint.limits
            assume(min(abs(reported - low), abs(reported - high)) > EXACT)
            assert kept(table.system(constraint), table.sums) == (low <= reported <= high)


def test_a_pair_of_bounds_is_reported_with_its_direction():
    # Rates: a 1/4, b 3/4.  b is selected more than the reference a, which a floor alone allows.
    table = Table(
        [(0, y, int(i == 0), 1) for i, y in enumerate([0, 1, 0, 1])] + [(1, i % 2, int(i > 0), 1) for i in range(4)]
    )
    assert table.rates("selection_rate")[:2] == [0.25, 0.75]
    assert table.measured(limit("disparate_impact", (0.8, None), reference="g0")) == 3.0
    assert table.measured(limit("disparate_impact", 0.8, reference="g0")) == pytest.approx(1 / 3, rel=1e-15)
    assert table.measured(limit("demographic_parity", (-0.1, None), reference="g0")) == 0.5
    assert table.measured(limit("demographic_parity", (-0.1, None), reference="g1")) == -0.5
    assert table.measured(limit("covariance", (-0.1, None))) == 0.125


def test_zero_rates_have_the_ratio_one_and_keep_every_ratio():
    nobody = Table([(g, y, 0, 1) for g in range(3) for y in (0, 1)])
    for options in ways(nobody, "disparate_impact"):
        constraint = limit("disparate_impact", 1.0, **options)
        assert nobody.measured(constraint) == 1.0
        assert kept(nobody.system(constraint), nobody.sums)
    for bound, reported in ((0.8, 1.25), 1.0), ((1.5, None), 1.5), ((None, 0.5), 0.5):
        constraint = limit("disparate_impact", bound, reference="g0")
        assert nobody.measured(constraint) == reported
        assert kept(nobody.system(constraint), nobody.sums)


def test_one_zero_rate_has_the_ratio_zero_and_breaks_every_ratio():
    one = Table([(g, y, int(g > 0), 1) for g in range(2) for y in (0, 1)])
    for options in ways(one, "disparate_impact"):
        constraint = limit("disparate_impact", 0.01, **options)
        assert one.measured(constraint) == 0.0
        assert not kept(one.system(constraint), one.sums)
    assert one.measured(limit("disparate_impact", (None, 2.0), reference="g0")) == math.inf
    assert one.measured(limit("disparate_impact", (0.5, None), reference="g1")) == 0.0


def test_precision_of_a_group_in_which_nobody_is_selected_is_zero():
    table = Table([(0, 0, 0, 1), (0, 1, 0, 1), (1, 0, 1, 1), (1, 1, 1, 1)])
    assert table.rates("precision") == [0.0, 0.5, 0.5]
    assert table.rates("negative_predictive_value") == [0.5, 0.0, 0.5]


def informedness(groups):
    return RATES["true_positive_rate"](groups) - RATES["false_positive_rate"](groups)


def positive_likelihood(groups):
    return groups.share(groups.selected_positives, groups.selected) + 0.1


@fewer_examples
@given(table=tables())
def test_a_measure_of_ones_own_is_a_function_of_the_rates(table):
    gap = Measure("informedness_gap", (informedness,), "difference")
    tpr, fpr = np.array(table.rates("true_positive_rate")), np.array(table.rates("false_positive_rate"))
    expected = (tpr - fpr)[:-1]
    constraint = Constraint(0.2, measure=gap)
    assert table.measured(constraint) == pytest.approx(expected.max() - expected.min(), rel=0, abs=EXACT)
    overall = Constraint(0.2, measure=gap, against="overall")
    assert table.measured(overall) == pytest.approx(np.abs(expected - (tpr - fpr)[-1]).max(), rel=0, abs=EXACT)
    ratio = Measure("likelihood_ratio", (positive_likelihood,), "ratio", largest=1.0)
    rates = np.array(table.rates("precision"))[:-1] + 0.1
    assert table.measured(Constraint(0.8, measure=ratio)) == pytest.approx(rates.min() / rates.max(), rel=0, abs=EXACT)
    own = Constraint((-0.5, 0.5), measure=Measure("informedness", (informedness,), "value"), group="g1")
    assert table.measured(own) == pytest.approx(expected[1], rel=0, abs=EXACT)


def test_a_measure_of_ones_own_has_any_number_of_rates():
    table = Table([(g, y, (g + y) % 2, 1) for g in range(3) for y in (0, 1)])
    both = Measure("both", (informedness, RATES["selection_rate"]), "difference")
    system = table.system(Constraint(0.1, measure=both))
    assert system.n_rows == 6
    assert any("informedness(g0)" in row.text for row in system.rows)
    assert any("selection_rate(g0)" in row.text for row in system.rows)


def test_measures_are_reached_by_name_and_by_instance():
    for name, measure in MEASURES.items():
        assert resolve_measure(name) is resolve_measure(measure) is measure
        assert measure.name == name
        assert measure.description
        assert measure.default_surrogate.bounded == (measure.comparison != "covariance")
    with pytest.raises(ValueError, match=r"measure 'equal_odds'.*'equalized_odds'\? Known: "):
        resolve_measure("equal_odds")
