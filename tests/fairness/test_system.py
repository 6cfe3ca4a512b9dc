"""Compiled constraints: derivatives, one formula for surrogate and exact values, columns, classes, weights."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special
from tests.fairness.helpers import COMPARING, central_differences, full_cells, limit, ways_to_compare

from fairbound.fairness import (
    MEASURES,
    SURROGATES,
    Cells,
    Constraint,
    ConstraintSystem,
    Measure,
    SmoothedStep,
    as_logits,
    decide,
    outcome_indicators,
    rate_limit,
)
from fairbound.fairness.rates import QUOTIENT_RATES

few_examples = settings(max_examples=15)  # for tests that run once for every measure

SCALE = 3.0  # slopes that are neither nothing nor huge on probabilities and on logits of order 1


class Net:
    """Two layers with tanh, as a function of the flat vector of its weights."""

    def __init__(self, n_inputs, hidden, outputs):
        self.shapes = [(hidden, n_inputs), (hidden,), (outputs, hidden), (outputs,)]
        self.sizes = [math.prod(shape) for shape in self.shapes]

    def __call__(self, w, X):
        parts = (
            part.reshape(shape)
            for part, shape in zip(np.split(w, np.cumsum(self.sizes)[:-1]), self.shapes, strict=True)
        )
        W1, b1, W2, b2 = parts
        return np.tanh(X @ W1.T + b1) @ W2.T + b2


def problem(groups, labels, seed):
    """Cells of 60 weighted rows, inputs, a network and its weights."""
    rng = np.random.default_rng(seed)
    group, y = full_cells(rng, 60, groups, labels)
    cells = Cells.build(y, [f"g{g}" for g in group], weights=rng.uniform(0.5, 2.0, 60))
    net = Net(2, 2, 1 if labels == 2 else labels)
    return cells, rng.normal(size=(60, 2)), net, rng.normal(size=sum(net.sizes))


def cell_sums(system, z):
    """S of every step, (P, K, O)."""
    outcomes = len(system.cells.outcomes)
    empty = np.zeros((0, system.cells.n_cells, outcomes))
    return np.stack([system.cells.sums(step.values(z)) for step in system.surrogates]) if system.surrogates else empty


def decided_sums(system, z):
    indicators = outcome_indicators(decide(z, system.threshold), system.cells.outcomes)
    return system.cells.sums(indicators)


def every_way(name, surrogate, cells, reference="g1"):
    """The measure with every comparison and both margins, in one system."""
    return ConstraintSystem.build(
        [
            limit(name, surrogate=surrogate, margin=margin, **options)
            for margin in ("probability", "logit")
            for options in ways_to_compare(name, reference)
        ],
        cells,
    )


# An unbounded surrogate in a denominator is refused (see the tests of constraints).
ALLOWED = [
    (name, surrogate)
    for name, measure in MEASURES.items()
    for surrogate, kind in SURROGATES.items()
    if kind().bounded or not QUOTIENT_RATES & set(measure.rates)
]


@pytest.mark.parametrize(("name", "surrogate"), ALLOWED)
def test_jacobian_agrees_with_finite_differences(name, surrogate):
    """∂c/∂S, and through a network ∂c/∂w = ∂c/∂S · ∂S/∂w, binary and with 3 classes, for two and five groups."""
    for groups, labels in (2, 2), (5, 2), (2, 3), (5, 3):
        cells, X, net, w = problem(groups, labels, seed=groups + labels)
        system = every_way(name, SURROGATES[surrogate](scale=SCALE), cells)
        z = as_logits(net(w, X), labels)
        S = cell_sums(system, z)
        c, dc_dS = system.values_and_derivative(S)
        assert c.shape == (system.n_rows,)
        assert dc_dS.shape == (system.n_rows, *S.shape)
        np.testing.assert_allclose(c, system.values(S), rtol=1e-14, atol=1e-14)

        # All shifted copies of S in one call.  c is a quotient of affine functions of S: at sums of order 10 and above
        # half a row the error of the difference is far below the tolerance, which grows with the derivative.
        step = 1e-5
        shifts = step * np.eye(S.size, dtype=np.float64).reshape(-1, *S.shape)
        expected = (system.values(S + shifts) - system.values(S - shifts)).T.reshape(dc_dS.shape) / (2 * step)
        np.testing.assert_allclose(dc_dS, expected, rtol=1e-6, atol=1e-8)

        dz_dw = central_differences(lambda at, net=net, X=X: net(at, X), w, 1e-6)  # (n, D, weights)
        dS_dw = np.stack(
            [
                np.stack([cells.sums(np.einsum("nd,ndw->nw", one, dz_dw)) for one in each.derivatives(z)], axis=1)
                for each in system.surrogates
            ]
        )  # (P, K, O, weights)
        found = np.einsum("mpko,pkow->mw", dc_dS, dS_dw)
        # Third derivatives of the smoothed step along a weight are up to SCALE³/μ ~ 3e5: h²/6 · 3e5 = 5e-9 for a row.
        difference = central_differences(
            lambda at, net=net, X=X, system=system, labels=labels: system.values(
                cell_sums(system, as_logits(net(at, X), labels))
            ),
            w,
            3e-7,
        )
        np.testing.assert_allclose(found, difference, rtol=1e-5, atol=2e-7)


def own_system(rate):
    """The difference of a rate of one's own between three groups, and sums of a surrogate."""
    rng = np.random.default_rng(8)
    group, y = full_cells(rng, 60, 3, 2)
    cells = Cells.build(y, [f"g{g}" for g in group])
    system = ConstraintSystem.build(Constraint(0.1, measure=Measure("own", (rate,), "difference")), cells)
    return system, rng.uniform(0.2, 0.8, (1, cells.n_cells, 1)) * cells.totals[:, None]


@pytest.mark.parametrize(
    "rate",
    [
        lambda g: np.sqrt(g.selected_positives * g.selected_negatives) / g.size,
        lambda g: np.maximum(g.selected / g.size, 0.4),
        lambda g: g.share(g.selected_positives, g.selected) - g.selected[..., -1:] / g.size[..., -1:],
        lambda g: g.positives / g.size,
    ],
    ids=["a root", "a maximum", "a share of everyone", "no decision in it"],
)
def test_a_rate_of_ones_own_has_exact_derivatives(rate):
    system, S = own_system(rate)
    expected = central_differences(system.values, S, 1e-5)
    np.testing.assert_allclose(system.values_and_derivative(S)[1], expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("rate", [lambda g: abs(g.selected - 1.0), lambda g: math.sqrt(g.selected[0]) + 0 * g.size])
def test_a_rate_that_is_no_arithmetic_is_refused(rate):
    system, S = own_system(rate)
    with pytest.raises(ValueError, match=r"The rate .* cannot be differentiated: .*\. Write it with"):
        system.values_and_derivative(S)


def test_rates_and_values_take_leading_dimensions():
    cells, X, net, w = problem(3, 2, seed=2)
    system = ConstraintSystem.build([limit(name) for name in MEASURES], cells)
    S = cell_sums(system, net(w, X))
    many = np.stack([S, 0.5 * S, 0 * S])[None]
    for position, factor in enumerate((1.0, 0.5, 0.0)):
        np.testing.assert_allclose(system.values(many)[0, position], system.values(factor * S), rtol=0, atol=1e-14)


@pytest.mark.parametrize("labels", [2, 3])
@pytest.mark.parametrize("name", MEASURES)
def test_decisions_in_place_of_surrogates_give_the_exact_values(name, labels):
    cells, X, net, w = problem(5, labels, seed=11)
    z = as_logits(net(w, X), labels)
    exact = every_way(name, "exact", cells)
    S = cell_sums(exact, z)
    smooth = every_way(name, None, cells)
    np.testing.assert_allclose(smooth.exact(decided_sums(smooth, z)), exact.values(S), rtol=0, atol=1e-14)
    assert exact.measured(S) == exact.measured(np.broadcast_to(decided_sums(exact, z), S.shape))


def test_a_threshold_moves_the_decisions_and_the_surrogates():
    cells, X, net, w = problem(2, 2, seed=5)
    z = net(w, X)
    system = ConstraintSystem.build(
        limit("selection_rate", (0.0, 1.0), surrogate=SmoothedStep(1e6)), cells, threshold=0.7
    )
    rates = system.rates(cell_sums(system, z))
    expected = system.rates(decided_sums(system, z)[None])
    np.testing.assert_allclose(rates, expected, rtol=0, atol=1e-4)
    assert (special.expit(z[:, 0]) > 0.7).sum() == decide(z, 0.7).sum()


@st.composite
def two_columns(draw):
    """Two sensitive columns with missing values, labels, surrogate values and weights; every cell of each has a row."""
    cell = st.tuples(
        st.sampled_from(["f", "m", None]), st.sampled_from(["x", "y", "z", None]), st.integers(0, 1), st.integers(1, 3)
    )
    first = [(s, r, y, 1) for s in ("f", "m") for r in ("x", "y", "z") for y in (0, 1)]
    rows = first + draw(st.lists(cell, max_size=20))
    values = draw(st.lists(st.floats(0.05, 0.95), min_size=len(rows), max_size=len(rows)))
    return *zip(*rows, strict=True), np.array(values, dtype=np.float64)[:, None]


def row_values(constraint, cells, values):
    system = ConstraintSystem.build(constraint, cells)
    return {
        row.text.split(": ", 1)[1]: value.item()
        for row, value in zip(system.rows, system.exact(cells.sums(values)), strict=True)
    }


@pytest.mark.parametrize("name", MEASURES)
@few_examples
@given(table=two_columns())
def test_several_columns_are_limited_each_on_its_own(name, table):
    sex, race, y, weights, values = table
    cells = Cells.build(y, {"sex": sex, "race": race}, weights=weights, groups="both")
    crossed = [None if s is None or r is None else (s, r) for s, r in zip(sex, race, strict=True)]
    for column, groups in ("sex", sex), ("race", race), ("sex & race", np.array([*crossed, None], dtype=object)[:-1]):
        # The same rows of c as when that column is the only one, and rows whose group is missing are not there at all.
        keep = np.array([group is not None for group in groups])
        alone = Cells.build(
            np.array(y)[keep],
            {column: np.array([*groups, None], dtype=object)[:-1][keep]},
            weights=np.array(weights)[keep],
        )
        found = row_values(limit(name, columns=(column,)), cells, values)
        expected = row_values(limit(name), alone, values[keep])
        assert found.keys() == expected.keys()
        for text, value in expected.items():
            assert found[text] == pytest.approx(value, rel=0, abs=1e-12)
    every = ConstraintSystem.build(limit(name), cells)
    assert {row.text.split("[")[-1].split("]")[0] for row in every.rows} == {"sex", "race", "sex & race"}


@pytest.mark.parametrize("name", MEASURES)
@few_examples
@given(table=two_columns())
def test_a_weight_of_two_is_a_row_that_stands_twice(name, table):
    sex, _, y, weights, values = table
    weighted = row_values(limit(name), Cells.build(y, sex, weights=weights), values)
    repeat = np.array(weights)
    repeated = Cells.build(np.repeat(y, repeat), np.repeat(np.array(sex, dtype=object), repeat))
    counted = row_values(limit(name), repeated, values.repeat(repeat, axis=0))
    assert weighted.keys() == counted.keys()
    for text, value in counted.items():
        assert weighted[text] == pytest.approx(value, rel=0, abs=1e-12)


@few_examples
@given(table=two_columns())
def test_a_common_factor_of_all_weights_changes_nothing(table):
    sex, _, y, weights, values = table
    for name in MEASURES:
        one = row_values(limit(name), Cells.build(y, sex, weights=weights), values)
        other = row_values(limit(name), Cells.build(y, sex, weights=1e-6 * np.array(weights)), values)
        assert other == pytest.approx(one, rel=0, abs=1e-12)


def test_a_named_group_concerns_the_column_that_has_it():
    y, sex, race = [0, 1, 0, 1] * 2, ["f", "f", "m", "m"] * 2, ["x"] * 4 + ["y"] * 4
    cells = Cells.build(y, {"sex": sex, "race": race})
    for constraint in (rate_limit("selection_rate", group="m", lower=0.1), limit("demographic_parity", reference="m")):
        system = ConstraintSystem.build(constraint, cells)
        assert {block.grouping.name for block in system.blocks} == {"sex"}
        assert system.n_rows == 1
    assert ConstraintSystem.build(limit("demographic_parity"), cells).n_rows == 2


def test_a_group_of_a_float_column_is_found_by_its_number():
    cells = Cells.build([0, 1, 0, 1] * 2, {"a": [0.0, 0.0, 1.0, 1.0] * 2, "b": ["x", "y"] * 4})
    system = ConstraintSystem.build(limit("demographic_parity", reference=1), cells)
    assert [row.text for row in system.rows] == [
        "demographic_parity <= 0.1 against 1 [a]: -0.1 <= selection_rate(0.0) - selection_rate(1.0) <= 0.1"
    ]


def test_a_limit_on_one_group_asks_nothing_of_the_others():
    # Group b has no positive row, so its true-positive rate is undefined; a floor for a does not mind.
    cells = Cells.build([0, 1, 1, 0, 0], ["a", "a", "a", "b", "b"])
    system = ConstraintSystem.build("true_positive_rate[a] >= 0.5", cells)
    sums = cells.sums(np.array([0, 1, 0, 1, 1])[:, None])
    assert system.exact(sums).tolist() == [0.5]
    assert np.isfinite(system.values_and_derivative(sums[None])[1]).all()


def test_a_limit_per_class_or_on_named_classes():
    rng = np.random.default_rng(0)
    group, y = full_cells(rng, 60, 2, 3)
    names = np.array(["low", "mid", "high"])
    cells = Cells.build(names[y], group)
    assert cells.classes == ("high", "low", "mid")
    predicted = rng.integers(3, size=60)
    sums = cells.sums(outcome_indicators(predicted, cells.outcomes))
    every = ConstraintSystem.build(limit("equal_opportunity"), cells)
    assert every.n_rows == 3
    for position, name in enumerate(cells.classes):
        chosen = ConstraintSystem.build(limit("equal_opportunity", classes=(name,)), cells)
        rate = [np.mean((predicted == position)[(names[y] == name) & (group == g)]) for g in (0, 1)]
        assert chosen.exact(sums).item() == pytest.approx(rate[0] - rate[1], abs=1e-15)
        assert every.exact(sums)[position] == chosen.exact(sums)[0]
        assert f"class {name}" in chosen.rows[0].text
    two = ConstraintSystem.build(limit("equal_opportunity", classes=["low", "mid"]), cells)
    assert np.array_equal(two.exact(sums), every.exact(sums)[1:])
    assert every.measured(sums[None])[0] == np.abs(every.exact(sums)).max()


@pytest.mark.parametrize("name", [name for name, measure in MEASURES.items() if not measure.per_class])
def test_what_concerns_all_classes_at_once_has_one_row(name):
    rng = np.random.default_rng(1)
    group, y = full_cells(rng, 60, 2, 3)
    cells = Cells.build(y, group)
    predicted = rng.integers(3, size=60)
    sums = cells.sums(outcome_indicators(predicted, cells.outcomes))
    system = ConstraintSystem.build(limit(name), cells)
    right = [np.mean((predicted == y)[group == g]) for g in (0, 1)]
    expected = right if MEASURES[name].comparison == "value" else [right[0] - right[1]]
    assert system.exact(sums).tolist() == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize("margin", ["probability", "logit"])
@pytest.mark.parametrize("name", MEASURES)
def test_two_classes_reduce_exactly_to_the_binary_case(name, margin):
    """Three classes of which the third is never likely, and labels a single row of no group: all else is binary."""
    cells, X, net, w = problem(3, 2, seed=21)
    binary = net(w, X)
    groups = [f"g{index // 2}" for index in cells.index.tolist()]
    three = Cells.build([*cells.labels.tolist(), 2], [*groups, None], weights=[*cells.weights.tolist(), 1.0])
    never = np.full((60, 1), -700.0, dtype=np.float64)
    z = np.concatenate([np.concatenate([-binary / 2, binary / 2, never], axis=1), np.zeros((1, 3))])
    measure = MEASURES[name]
    for surrogate in (each(scale=SCALE) for each in SURROGATES.values() if each().asymmetry < 1):
        options = {"surrogate": surrogate, "margin": margin}
        classes = {"classes": (1,)} if measure.per_class else {}
        one = ConstraintSystem.build(limit(name, **options), cells)
        other = ConstraintSystem.build(limit(name, **classes, **options), three)
        # Not exact where both classes count, and φ(t) + φ(−t) is 1 up to the asymmetry only.
        tolerance = 1e-12 if measure.per_class else 1e-12 + 2 * surrogate.asymmetry
        np.testing.assert_allclose(
            other.values(cell_sums(other, z)), one.values(cell_sums(one, binary)), rtol=0, atol=tolerance
        )
        exact = one.exact(decided_sums(one, binary))
        np.testing.assert_allclose(other.exact(decided_sums(other, z)), exact, rtol=0, atol=1e-14)


def test_rows_and_bounds_of_each_kind():
    cells = Cells.build([0, 1] * 3, ["a", "a", "b", "b", "c", "c"])

    def rows(constraint):
        system = ConstraintSystem.build(constraint, cells)
        texts = [row.text.split(": ", 1)[1] for row in system.rows]
        return list(zip(texts, system.lower.tolist(), system.upper.tolist(), strict=True))

    inf = math.inf
    assert rows(limit("demographic_parity", 0.1, reference="a")) == [
        ("-0.1 <= selection_rate(b) - selection_rate(a) <= 0.1", -0.1, 0.1),
        ("-0.1 <= selection_rate(c) - selection_rate(a) <= 0.1", -0.1, 0.1),
    ]
    assert rows(limit("equal_impact", 0.8, reference="b"))[:2] == [
        ("0.8 true_positive_rate(b) <= true_positive_rate(a)", -inf, 0.0),
        ("0.8 true_positive_rate(a) <= true_positive_rate(b)", -inf, 0.0),
    ]
    assert rows(limit("disparate_impact", (0.8, None), reference="a")) == [
        ("0.8 selection_rate(a) <= selection_rate(b)", -inf, 0.0),
        ("0.8 selection_rate(a) <= selection_rate(c)", -inf, 0.0),
    ]
    assert rows(limit("disparate_impact", (None, 2.0), against="overall"))[0] == (
        "0.5 selection_rate(a) <= selection_rate(everyone)",
        -inf,
        0.0,
    )
    assert rows(rate_limit("accuracy", group="b", lower=0.6)) == [("0.6 <= accuracy(b)", 0.6, inf)]
    assert rows(limit("demographic_parity", 0.0, reference="a"))[0] == (
        "0 <= selection_rate(b) - selection_rate(a) <= 0",
        0.0,
        0.0,
    )
    assert [text for text, _, _ in rows(limit("covariance", 0.01))] == [
        f"-0.01 <= cov(selection_rate({group})) <= 0.01" for group in "abc"
    ]


def test_two_groups_need_one_row_of_covariance():
    system = ConstraintSystem.build(limit("covariance"), Cells.build([0, 1, 0, 1], ["a", "a", "b", "b"]))
    assert system.n_rows == 1
    assert "cov(selection_rate(b))" in system.rows[0].text


@pytest.mark.parametrize("name", COMPARING)
def test_without_a_bound_the_measure_is_only_measured(name):
    cells, X, net, w = problem(3, 2, seed=1)
    system = ConstraintSystem.build(Constraint(None, measure=name), cells)
    bounded = ConstraintSystem.build(limit(name), cells)
    assert np.isinf(system.lower).all()
    assert np.isinf(system.upper).all()
    S = cell_sums(bounded, net(w, X))
    assert system.measured(S) == bounded.measured(S)
    # A ratio has the rows of a difference then, for a penalty on its square.
    if MEASURES[name].comparison != "ratio":
        assert np.array_equal(system.values(S), bounded.values(S))


def test_a_ratio_of_zero_limits_nothing():
    cells, X, net, w = problem(2, 2, seed=1)
    system = ConstraintSystem.build("disparate_impact >= 0", cells)
    S = cell_sums(system, net(w, X))
    assert system.n_rows == 0
    assert system.values(S).shape == (0,)
    assert system.values_and_derivative(S)[1].shape == (0, *S.shape)
    assert 0 < system.measured(S)[0] <= 1


def test_no_constraints_are_a_system_without_rows():
    for cells in (Cells.build([0, 1]), Cells.build([0, 1, 1, 0], ["a", "a", "b", "b"])):
        system = ConstraintSystem.build([], cells)
        sums = cells.sums(np.ones((len(cells), 1)))
        assert system.exact(sums).shape == system.lower.shape == system.upper.shape == (0,)
        assert system.measured(np.broadcast_to(sums, (0, *sums.shape))) == []
        S = np.zeros((0, cells.n_cells, 1))
        assert system.values_and_derivative(S)[1].shape == (0, 0, cells.n_cells, 1)
        assert system.gap_bound(S, S).shape == (0,)


@pytest.mark.parametrize(
    ("constraint", "y", "groups", "sentence"),
    [
        (
            "equal_opportunity <= 0.1",
            [0, 1, 0, 0],
            ["a", "a", "b", "b"],
            (
                r"equal_opportunity .*undefined .*'b' of 'sensitive_feature'.*2 with label 0, 0 with label 1\b.*"
                r"Merge .*missing"
            ),
        ),
        (
            "predictive_equality <= 0.1",
            ["no", "yes", "yes", "yes"],
            ["a", "a", "b", "b"],
            r"predictive_equality is undefined for group 'b' .*0 with label 'no', 2 with label 'yes'",
        ),
        (
            "demographic_parity <= 0.1",
            [0, 1, 0, 1],
            ["a"] * 4,
            r"demographic_parity <= 0\.1 .*'sensitive_feature' has only one: 'a'",
        ),
        (
            "demographic_parity <= 0.1",
            [0, 1, 0, 1],
            None,
            r"needs groups: pass sensitive_features\.",
        ),
        (
            "demographic_parity(race) <= 0.1",
            [0, 1, 0, 1],
            ["a", "a", "b", "b"],
            r"Unknown sensitive column 'race'\. Known: 'sensitive_feature'\.",
        ),
        (
            "selection_rate[c] >= 0.1",
            [0, 1, 0, 1],
            ["a", "a", "b", "b"],
            r"Unknown group 'c' in 'sensitive_feature'\. Known groups: 'a', 'b'\.",
        ),
        (
            "demographic_parity <= 0.1 against c",
            [0, 1, 0, 1],
            {"sex": ["a", "a", "b", "b"], "age": [1, 2, 1, 2]},
            r"demographic_parity <= 0\.1 against c: .*'c'.*sex: a, b; age: 1, 2",
        ),
        (
            limit("demographic_parity", classes=(1,)),
            [0, 1, 0, 1],
            ["a", "a", "b", "b"],
            "classes= .*two.*pos_label",
        ),
        (
            limit("demographic_parity", classes=(3,)),
            [0, 1, 2, 1],
            ["a", "a", "b", "b"],
            r"unknown class 3\. Known classes: 0, 1, 2\.",
        ),
        (
            limit("accuracy_parity", classes=(1,)),
            [0, 1, 2, 1],
            ["a", "a", "b", "b"],
            "accuracy_parity .*all classes.*classes=",
        ),
    ],
)
def test_what_the_groups_and_labels_cannot_define_is_refused(constraint, y, groups, sentence):
    with pytest.raises(ValueError, match=sentence):
        ConstraintSystem.build(constraint, Cells.build(y, groups))


def test_a_group_without_weight_is_refused():
    cells = Cells.build([0, 1, 0, 1], ["a", "a", "b", "b"], weights=[1, 1, 0, 0])
    with pytest.raises(ValueError, match=r"undefined for group 'b' .*0 with label 0, 0 with label 1"):
        ConstraintSystem.build("demographic_parity <= 0.1", cells)


def test_rates_keep_their_digits_beside_rows_of_far_greater_weight():
    """Negatives are added up, and not found as the difference of all rows and the positives."""
    y = [1, 1, 0, 0, 0] * 2
    cells = Cells.build(y, ["a"] * 5 + ["b"] * 5, weights=[3e7, 5e6, 0.1, 0.2, 0.6] * 2)
    system = ConstraintSystem.build(rate_limit("false_positive_rate", upper=0.5), cells)
    sums = cells.sums(np.array([1, 0, 1, 1, 0, 0, 1, 0, 0, 1])[:, None])
    assert system.exact(sums).tolist() == pytest.approx([1 / 3, 2 / 3], rel=1e-15)


def test_a_rate_of_ones_own_that_divides_by_nothing_is_refused():
    def odds(groups):
        return groups.selected_positives / groups.positives

    cells = Cells.build([0, 1, 0, 0], ["a", "a", "b", "b"])
    with pytest.raises(ValueError, match=r"odds_gap is undefined for group 'b'"):
        ConstraintSystem.build(Constraint(0.1, measure=Measure("odds_gap", (odds,), "difference")), cells)


def test_the_threshold_is_checked():
    cells = Cells.build([0, 1, 0, 1], ["a", "a", "b", "b"])
    with pytest.raises(ValueError, match=r"threshold=1\.0: must lie strictly between 0 and 1\."):
        ConstraintSystem.build("demographic_parity <= 0.1", cells, threshold=1.0)


def test_more_limits_than_memory_holds_are_refused():
    """A measurement passed for a label has hundreds of classes, each with limits of its own."""
    labels = np.arange(400)
    cells = Cells.build(labels, labels % 2)
    with pytest.raises(ValueError, match=r"Limits on 1,200 rates of 800 cells .* 2.9 GiB .* name the classes"):
        ConstraintSystem.build("demographic_parity <= 0.1", cells)


def test_some_of_several_limits_have_the_values_that_they_have_alone():
    y, group = [0, 1] * 20, ["a"] * 20 + ["b"] * 20
    cells = Cells.build(y, group)
    decided = np.array([1] * 10 + [0] * 10 + [1] * 9 + [0] * 11)
    sums = cells.sums(np.stack([decided, 1 - decided], axis=1).astype(float))
    limits = [Constraint(None, measure=name) for name in ("disparate_impact", "equalized_odds", "demographic_parity")]
    whole = ConstraintSystem.compare(limits, cells)
    for positions in ([0], [2, 1], [0, 1, 2]):
        some = whole.select(positions)
        assert some.constraints == tuple(limits[position] for position in positions)
        for place, position in enumerate(positions):
            alone = ConstraintSystem.compare([limits[position]], cells)
            values = [
                each.measured(np.broadcast_to(sums, (len(each.surrogates), *sums.shape))) for each in (some, alone)
            ]
            assert values[0][place] == values[1][0]


def test_a_limit_with_a_reserve_is_kept_only_with_the_reserve():
    y, group = [0, 1] * 20, ["a"] * 20 + ["b"] * 20
    cells = Cells.build(y, group)
    decided = np.array([1] * 10 + [0] * 10 + [1] * 9 + [0] * 11)  # selection rates 0.5 and 0.45
    counts = cells.sums(np.stack([decided, 1 - decided], axis=1))
    for reserve, expected in (((), True), ((0.04, 0.04), True), ((0.06, 0.06), False)):  # 0.8 · 0.5 - 0.45 = -0.05
        system = ConstraintSystem.build(Constraint(0.8, measure="disparate_impact", reserve=reserve), cells)
        judged = system.judge(counts[None, :, :1], counts)  # the surrogate is the decision itself
        assert judged.measured == [pytest.approx(0.9)]
        assert judged.kept is expected


def test_a_reserve_moves_both_bounds_of_each_row_inwards():
    cells = Cells.build([0, 1] * 3, ["a", "a", "b", "b", "c", "c"])
    limits = [
        Constraint(0.1, measure="demographic_parity", reserve=(0.02, 0.0, 0.2)),
        Constraint((0.3, None), measure="selection_rate", reserve=(0.05, 0.01, 0.0)),
        Constraint((None, 0.6), measure="selection_rate", group="b", reserve=(0.1,)),
    ]
    system = ConstraintSystem.build(limits, cells)
    inf = math.inf
    assert system.lower.tolist() == pytest.approx([-0.08, -0.1, 0.0, 0.35, 0.31, 0.3, -inf])  # 0: not past the middle
    assert system.upper.tolist() == pytest.approx([0.08, 0.1, 0.0, inf, inf, inf, 0.5])
