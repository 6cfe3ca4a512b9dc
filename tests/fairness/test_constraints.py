"""Constraints as the user states them: construction, text, and error messages."""

from __future__ import annotations

import copy
import math
import pickle
import re

import numpy as np
import pytest
from tests.fairness.helpers import COMPARING, RATE_NAMES, limit, ways_to_compare
from tests.refusals import refused

import fairbound.fairness
from fairbound.fairness import (
    CONSTRAINTS,
    MEASURES,
    RATES,
    SURROGATES,
    Constraint,
    Covariance,
    DemographicParity,
    DisparateImpact,
    EqualImpact,
    EqualizedOdds,
    Measure,
    Representation,
    Sigmoid,
    as_constraints,
    parse_constraint,
    rate_limit,
)
from fairbound.fairness.rates import QUOTIENT_RATES
from fairbound.fairness.text import distinct_texts

DIFFERENCES = [name for name in COMPARING if MEASURES[name].comparison == "difference"]
RATIOS = [name for name in COMPARING if MEASURES[name].comparison == "ratio"]


def every_form():
    """A limit of every form on every measure."""
    for name, measure in MEASURES.items():
        for options in ways_to_compare(name, "a"):
            if measure.comparison == "value":
                bounds = [(0.25, None), (None, 0.75), (0.25, 0.75)]
            elif measure.comparison == "covariance":
                bounds = [0.01, (-0.01, 0.02), (None, 0.02)]
            elif not options:  # pairwise: no direction, so no pair of bounds
                bounds = [0.1]
            elif measure.comparison == "ratio":
                bounds = [0.8, (0.8, 1.25), (0.8, None), (None, 1.25)]
            else:
                bounds = [0.1, (-0.1, 0.2), (-0.1, None), (None, 0.2)]
            for bound in bounds:
                yield limit(name, bound, **options)
                yield limit(name, bound, columns=("sex", "age & race"), **options)
                yield limit(name, bound, classes=("low", "very high"), **options)


@pytest.mark.parametrize("name", COMPARING)
def test_every_comparing_measure_has_a_class_of_its_own(name):
    constraint = CONSTRAINTS[name](limit(name).bound)
    assert constraint.name == name
    assert type(constraint).__name__ in fairbound.fairness.__all__
    assert type(constraint).__doc__
    assert Constraint(constraint.bound, measure=name).limits == constraint.limits


@pytest.mark.parametrize("name", RATE_NAMES)
def test_every_rate_can_have_a_floor_and_a_ceiling(name):
    assert rate_limit(name, lower=0.2) == Constraint((0.2, None), measure=name)
    assert rate_limit(name, upper=0.2, group="a") == Constraint((None, 0.2), measure=name, group="a")
    assert rate_limit(name, lower=0.1, upper=0.2, margin="logit").limits == (0.1, 0.2)


def test_limits_by_kind():
    assert DisparateImpact(0.8).limits == (0.8, 1.25)
    assert DisparateImpact(0).limits == (0.0, math.inf)
    assert DisparateImpact((0.8, None), reference="a").limits == (0.8, math.inf)
    assert DemographicParity(0.05).limits == (-0.05, 0.05)
    assert DemographicParity((None, 0.05), against="overall").limits == (-math.inf, 0.05)
    assert Covariance(1e-3).limits == (-1e-3, 1e-3)
    assert Covariance((0, 1e-3)).limits == (0.0, 1e-3)
    assert rate_limit("selection_rate", lower=0.1).limits == (0.1, math.inf)
    assert DisparateImpact(None).limits == (-math.inf, math.inf)


def test_columns_and_classes_may_be_given_bare_or_as_lists():
    assert DisparateImpact(0.8, columns="sex") == DisparateImpact(0.8, columns=["sex"])
    assert DisparateImpact(0.8, columns="sex").columns == ("sex",)
    assert DisparateImpact(0.8, classes=1).classes == (1,)
    assert DisparateImpact(0.8, classes=["low", "mid"]).classes == ("low", "mid")
    assert DisparateImpact(0.8, classes="low").classes == ("low",)
    hash(DisparateImpact(0.8, columns=["sex"], classes=["low"]))


def test_with_bound_changes_the_bound_alone():
    constraint = DisparateImpact(0.8, reference="a", surrogate=Sigmoid(10), columns=("sex",))
    other = constraint.with_bound(0.9)
    assert other == DisparateImpact(0.9, reference="a", surrogate=Sigmoid(10), columns=("sex",))
    assert type(other) is DisparateImpact
    assert constraint.bound == 0.8
    assert constraint.with_bound(None).bound is None
    with refused("disparate_impact", "bound=1.5", "between 0 and 1"):
        constraint.with_bound(1.5)


@pytest.mark.parametrize("constraint", list(every_form()), ids=str)
def test_constraints_are_values(constraint):
    evaluated = eval(repr(constraint), dict(vars(fairbound.fairness)))
    for same in (copy.copy(constraint), pickle.loads(pickle.dumps(constraint)), evaluated):
        assert same == constraint
        assert hash(same) == hash(constraint)
        assert type(same) is type(constraint)
    with pytest.raises(AttributeError):
        constraint.bound = 0.5


def test_repr_shows_what_is_not_a_default():
    assert repr(DisparateImpact(0.8)) == "DisparateImpact(0.8)"
    assert repr(EqualImpact(0.9, reference="a", margin="logit")) == "EqualImpact(0.9, reference='a', margin='logit')"
    assert repr(EqualizedOdds(0.1, surrogate=Sigmoid(10))) == "EqualizedOdds(0.1, surrogate=Sigmoid(scale=10.0))"
    assert repr(Constraint(0.1, measure="equalized_odds")) == "Constraint(0.1, measure='equalized_odds')"
    assert DisparateImpact(0.8) != EqualImpact(0.8)
    assert DisparateImpact(0.8) != DisparateImpact(0.8, margin="logit")


def test_a_measure_of_ones_own_is_a_value_too():
    mine = Measure("mine", (RATES["precision"], RATES["accuracy"]), "ratio")
    constraint = Constraint(0.9, measure=mine, reference=1)
    assert constraint == pickle.loads(pickle.dumps(constraint))
    assert str(constraint) == "mine >= 0.9 against 1"
    assert constraint.name == "mine"
    with refused("mine", "bound=1.5", "between 0 and 1"):
        constraint.with_bound(1.5)


@pytest.mark.parametrize(
    ("text", "constraint"),
    [
        ("disparate_impact >= 0.8", DisparateImpact(0.8)),
        ("disparate_impact>=.8", DisparateImpact(0.8)),
        ("  disparate_impact   >  80%  ", DisparateImpact(0.8)),
        ("disparate_impact >= 1", DisparateImpact(1.0)),
        ("demographic_parity <= 0.05", DemographicParity(0.05)),
        ("demographic_parity < 5e-2", DemographicParity(0.05)),
        ("demographic_parity <= 5%", DemographicParity(0.05)),
        ("demographic_parity(sex) <= 0.05", DemographicParity(0.05, columns=("sex",))),
        ("demographic_parity (sex, race) <= 0.05", DemographicParity(0.05, columns=("sex", "race"))),
        ("demographic_parity(sex & race) <= 0.05", DemographicParity(0.05, columns=("sex & race",))),
        ("demographic_parity <= 0.05 against overall", DemographicParity(0.05, against="overall")),
        ("demographic_parity <= 0.05 against pairwise", DemographicParity(0.05)),
        ("demographic_parity <= 0.05 against old men", DemographicParity(0.05, reference="old men")),
        ("-0.1 <= demographic_parity <= 0.05 against m", DemographicParity((-0.1, 0.05), reference="m")),
        ("0.8 <= disparate_impact <= inf against m", DisparateImpact((0.8, None), reference="m")),
        ("-inf <= demographic_parity <= 0.1 against m", DemographicParity((None, 0.1), reference="m")),
        ("covariance <= 1e-3", Covariance(0.001)),
        ("selection_rate >= 0.3", rate_limit("selection_rate", lower=0.3)),
        ("selection_rate[female] >= 30%", rate_limit("selection_rate", group="female", lower=0.3)),
        ("accuracy(sex)[female] >= 0.3", rate_limit("accuracy", group="female", lower=0.3, columns=("sex",))),
        ("0.1 <= selection_rate <= 0.4", rate_limit("selection_rate", lower=0.1, upper=0.4)),
        ("10% <= selection_rate[b] < 40%", rate_limit("selection_rate", group="b", lower=0.1, upper=0.4)),
        ("demographic_parity <= 0.1 for class high", DemographicParity(0.1, classes=("high",))),
        (
            "demographic_parity(sex) <= 0.1 against m for classes low, very high",
            DemographicParity(0.1, columns="sex", reference="m", classes=("low", "very high")),
        ),
        ("selection_rate[f] >= 0.1 for class 2", rate_limit("selection_rate", group="f", lower=0.1, classes="2")),
        ("selection_rate[('f', 'old')] <= 0.4", rate_limit("selection_rate", group="('f', 'old')", upper=0.4)),
    ],
)
def test_text_is_read(text, constraint):
    assert parse_constraint(text) == constraint
    assert as_constraints([text, constraint]) == (constraint, constraint)


@pytest.mark.parametrize("constraint", list(every_form()), ids=str)
def test_text_goes_there_and_back(constraint):
    assert parse_constraint(str(constraint)) == constraint


def test_text_of_a_limit():
    assert str(DisparateImpact(0.8)) == "disparate_impact >= 0.8"
    assert str(DemographicParity(0.05, columns=("sex",), against="overall")) == (
        "demographic_parity(sex) <= 0.05 against overall"
    )
    assert str(DisparateImpact((0.8, None), reference="m")) == "0.8 <= disparate_impact <= inf against m"
    assert str(rate_limit("selection_rate", group="f", lower=1 / 3)) == "selection_rate[f] >= 0.3333333333333333"
    assert str(EqualizedOdds(None)) == "equalized_odds"
    assert str(DemographicParity(0.1, classes=(3,))) == "demographic_parity <= 0.1 for class 3"


def test_the_same_words_for_several_limits_are_numbered():
    limits = [EqualizedOdds(0.1), EqualizedOdds(0.1, surrogate=Sigmoid(10)), EqualizedOdds(0.2), EqualizedOdds(0.1)]
    assert distinct_texts(limits) == [
        "equalized_odds <= 0.1",
        "equalized_odds <= 0.1 (2)",
        "equalized_odds <= 0.2",
        "equalized_odds <= 0.1 (3)",
    ]
    assert distinct_texts([DemographicParity(0.1, classes=name) for name in ("low", "high")]) == [
        "demographic_parity <= 0.1 for class low",
        "demographic_parity <= 0.1 for class high",
    ]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "disparat_impact >= 0.8",
            r"'disparat_impact'.*'disparate_impact'\? Known: accura",
        ),
        ("fairness >= 0.8", "measure 'fairness'.*Known: accuracy, .*true_posit"),
        ("", r"limit ''.*\"disparate_impact >= 0\.8\""),
        ("disparate_impact", "limit 'disparate_impact'.*like"),
        ("disparate_impact >= high", r"Cannot read the limit 'disparate_impact >= high'"),
        ("disparate impact >= 0.8", r"Cannot read the limit 'disparate impact >= 0\.8'"),
        ("disparate_impact = 0.8", r"Cannot read the limit"),
        (
            "0.1 <= selection_rate >= 0.4",
            r"Cannot read the limit .*: write two sides as \"0\.1 <= selection_rate <= 0\.4\"\.",
        ),
        (
            "disparate_impact <= 0.8",
            r"'disparate_impact <= 0\.8'.*ratio.*larger is stricter.* >= 0\.8\.",
        ),
        (
            "demographic_parity >= 5%",
            r"demographic_parity is a difference.*smaller is stricter.*demographic_parity <= 0\.05\.",
        ),
        ("covariance >= 0.1", r"covariance.*smaller is stricter.*covariance <= 0\.1\."),
        ("disparate_impact >= 80", r"disparate_impact: bound=80\.0 .* 0 and 1.*80%"),
        ("disparate_impact >= inf", "disparate_impact: bound=inf .* 0 and 1"),
        ("inf <= demographic_parity <= 0.1 against a", "lower bound is above the upper"),
        ("0.4 <= selection_rate <= 0.1", r"selection_rate: bound=\(0\.4, 0\.1\).*lower .* above the upper"),
        (
            "demographic_parity[a] <= 0.1",
            "demographic_parity compares groups.*group='a'.*group=",
        ),
        ("0.1 <= disparate_impact <= 2", 'direction.*against="overall" or reference='),
        ("selection_rate >= 0.1 against a", "selection_rate .*own rate.*not reference="),
    ],
)
def test_text_that_cannot_be_meant_is_refused(text, sentence):
    with pytest.raises(ValueError, match=sentence):
        parse_constraint(text)


def test_one_or_several_limits():
    assert as_constraints(None) == as_constraints(()) == ()
    assert as_constraints("disparate_impact >= 0.8") == as_constraints(DisparateImpact(0.8)) == (DisparateImpact(0.8),)
    assert as_constraints([]) == ()
    assert as_constraints(text for text in ("covariance <= 0.1",)) == (Covariance(0.1),)
    with refused("0.8", "DisparateImpact(0.8)", error=TypeError):
        as_constraints([0.8])


@pytest.mark.parametrize("name", COMPARING)
@pytest.mark.parametrize("bound", [-0.1, 1.01, 80])
def test_bounds_out_of_range_are_refused(name, bound):
    largest = MEASURES[name].largest
    with pytest.raises(ValueError, match=rf"^{name}: bound={bound} must lie between 0 and {largest:g}\.$"):
        CONSTRAINTS[name](bound)


@pytest.mark.parametrize("name", RATE_NAMES)
@pytest.mark.parametrize("bound", [(-0.1, None), (None, 1.1), (0.1, 2)])
def test_rates_out_of_range_are_refused(name, bound):
    with pytest.raises(ValueError, match=rf"^{name}: bound={re.escape(repr(bound))} must lie between 0 and 1\.$"):
        Constraint(bound, measure=name)


@pytest.mark.parametrize(
    "bound",
    ["0.8", True, math.nan, [0.1, 0.2], (0.1,), (0.1, 0.2, 0.3), (math.nan, 0.1), ("a", None), 10**400, np.array(0.3)],
)
@pytest.mark.parametrize("name", COMPARING)
def test_what_is_no_number_is_refused(name, bound):
    with pytest.raises(ValueError, match=rf"{name}: bound=.*number or a pair \(lower, upper\)"):
        CONSTRAINTS[name](bound)


@pytest.mark.parametrize("bound", [(None, None), (-math.inf, math.inf), (None, math.inf)])
def test_bounds_that_limit_nothing_are_refused(bound):
    with refused("selection_rate", "limits nothing", "finite number"):
        Constraint(bound, measure="selection_rate")
    with pytest.raises(ValueError, match=r"limits nothing"):
        rate_limit("selection_rate")


@pytest.mark.parametrize("name", [*DIFFERENCES, *RATIOS])
def test_a_pair_without_a_direction_is_refused(name):
    with pytest.raises(ValueError, match=rf'{name}: bound=.*direction.*against="overall"'):
        CONSTRAINTS[name]((0.1, 0.2))
    assert CONSTRAINTS[name]((0.1, 0.2), reference="a").limits == (0.1, 0.2)


@pytest.mark.parametrize("name", RATIOS)
def test_a_ratio_of_at_most_zero_is_refused(name):
    with pytest.raises(ValueError, match=rf"{name}: bound=\(None, 0\).*upper bound .*above 0"):
        CONSTRAINTS[name]((None, 0), reference="a")


@pytest.mark.parametrize("name", COMPARING)
def test_a_group_on_a_comparing_measure_is_refused(name):
    with refused(f"{name} compares groups", "group='a'", "(accuracy, "):
        limit(name, group="a")


@pytest.mark.parametrize("name", RATE_NAMES)
def test_a_comparison_on_a_rate_is_refused(name):
    with refused(f"{name} is a group's own rate", "group=", "reference="):
        limit(name, reference="a")


def test_comparisons_that_mean_nothing_are_refused():
    with refused("against='all'", '"pairwise" or "overall"'):
        DisparateImpact(0.8, against="all")
    with pytest.raises(ValueError, match=r"disparate_impact: .*against=\"overall\" or reference='a'"):
        DisparateImpact(0.8, against="overall", reference="a")
    with refused("covariance", "reference="):
        Covariance(0.1, reference="a")
    with refused("representation", 'against="overall"'):
        Representation(0.1, against="overall")


def test_unknown_options_are_refused():
    with pytest.raises(ValueError, match=r"disparate_impact: margin='logits' .*\"probability\" or \"logit\""):
        DisparateImpact(0.8, margin="logits")
    with pytest.raises(ValueError, match=r"surrogate 'smooth_step'.*'smoothed_step'"):
        DisparateImpact(0.8, surrogate="smooth_step")
    with pytest.raises(ValueError, match=r"Unknown measure 'disparity'\..*Known: .*disparate_impact"):
        Constraint(0.8, measure="disparity")
    with pytest.raises(ValueError, match=r"Unknown rate 'recall'\..*Known: accuracy, .*true_positive_rate\."):
        rate_limit("recall", lower=0.8)
    with refused("disparate_impact", "columns=()"):
        DisparateImpact(0.8, columns=())
    with refused("disparate_impact", "classes=[]", "leave classes= out"):
        DisparateImpact(0.8, classes=[])


@pytest.mark.parametrize("surrogate", ["linear", "max", SURROGATES["linear"](2.0)])
@pytest.mark.parametrize("name", [name for name, each in MEASURES.items() if QUOTIENT_RATES & set(each.rates)])
def test_an_unbounded_surrogate_in_a_denominator_is_refused(name, surrogate):
    """S_g1 / (S_g0 + S_g1) of positive and negative numbers is any number at all."""
    sentence = rf"{name}: surrogate=.* is unbounded, and \w+ divides by a sum .*Choose one of 'smoothed_step', .*, or"
    with pytest.raises(ValueError, match=sentence):
        limit(name, None, surrogate=surrogate)
