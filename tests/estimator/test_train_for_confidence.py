"""Training for a confidence: stricter limits, the order and the stopping rule, refusals, the claim by simulation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from fairbound import (
    Constraint,
    Covariance,
    DemographicParity,
    DisparateImpact,
    EqualOpportunity,
    Measure,
    Representation,
    TrainingProblem,
    load_dataset,
    make_disparate_data,
    rate_limit,
)
from fairbound.estimator import certified as fit_certified
from fairbound.estimator import confidence as module
from fairbound.estimator.confidence import ANCHOR, STRICTNESS, ModelSequence, strengthened, train_for_confidence
from fairbound.evaluation import Verdict, certify
from fairbound.fairness import MEASURES, Cells, ConstraintSystem, decide, outcome_indicators
from fairbound.fairness.measures import false_positive_rate, true_positive_rate
from fairbound.training import L2, Effort, FitSeries, SeriesPoint, fit, make_model

SHARES = st.floats(0.0, 0.99)


# --- stricter limits -----------------------------------------------------------------------------------------------


def _direction(measure: Measure) -> dict[str, str]:
    return {"against": "overall"} if measure.overall else {"reference": "a"}


@st.composite
def limits(draw: st.DrawFn, measure: Measure) -> Constraint:
    """Any limit on a measure: one number, or a pair with one or two finite sides."""
    largest = min(measure.largest, 5.0)
    if measure.comparison != "value" and draw(st.booleans()):
        most = 1.0 if measure.comparison == "ratio" else largest
        return Constraint(draw(st.floats(0.0, most)), measure=measure)
    least, most = {"ratio": (0.0, 5.0), "value": (0.0, largest)}.get(measure.comparison, (-largest, largest))
    sides = sorted(draw(st.tuples(st.floats(least, most), st.floats(least, most))))
    pair = draw(st.sampled_from([(sides[0], None), (None, sides[1]), tuple(sides)]))
    assume(measure.comparison != "ratio" or pair[1] is None or pair[1] > 1e-3)
    options = {} if measure.comparison in ("value", "covariance") else _direction(measure)
    return Constraint(pair, measure=measure, **options)


@pytest.mark.parametrize("name", MEASURES)
@settings(max_examples=40)
@given(data=st.data())
def test_a_larger_strictness_is_stricter_and_none_is_the_limit_itself(name, data):
    limit = data.draw(limits(MEASURES[name]))
    less, more = sorted(data.draw(st.tuples(SHARES, SHARES)))
    assert strengthened(limit, 0.0) == limit
    (lower, upper), (lower_less, upper_less), (lower_more, upper_more) = (
        each.limits for each in (limit, strengthened(limit, less), strengthened(limit, more))
    )
    assert lower <= lower_less <= lower_more
    assert upper >= upper_less >= upper_more
    assert lower_more <= upper_more
    assert replace(strengthened(limit, more), bound=limit.bound) == limit  # nothing but the bound moves


@dataclass(frozen=True)
class _Decisions:
    """Random decisions on 60 rows of three groups."""

    cells: Cells
    counts: list[torch.Tensor]

    @classmethod
    def draw(cls, how_many: int) -> _Decisions:
        rng = np.random.default_rng(3)
        cells = Cells.build(np.arange(60) // 3 % 2, np.array(["a", "b", "c"])[np.arange(60) % 3])
        chances = rng.uniform(0.2, 0.8, size=(how_many, 1)) + rng.uniform(-0.2, 0.2, size=(how_many, 3))
        decisions = rng.random((how_many, 60)) < chances[:, np.arange(60) % 3]
        indicators = [outcome_indicators(torch.from_numpy(each.astype(np.int64)), (1,)) for each in decisions]
        return cls(cells, [cells.sums(each) for each in indicators])

    def measured(self, limit: Constraint) -> np.ndarray:
        system = ConstraintSystem.build(limit, self.cells)
        return np.array([system.measured(each.expand(len(system.surrogates), -1, -1))[0] for each in self.counts])

    def kept(self, limit: Constraint) -> np.ndarray:
        system = ConstraintSystem.build(limit, self.cells)
        values = system.values(torch.stack(self.counts)[:, None].expand(-1, len(system.surrogates), -1, -1))
        within = (values <= system.upper + 1e-12) & (values >= system.lower - 1e-12)  # 1e-12: rounding, as in training
        return within.all(dim=1).numpy()


@pytest.mark.parametrize("name", MEASURES)
def test_whoever_keeps_the_stricter_limit_keeps_the_limit(name):
    decisions, measure = _Decisions.draw(100), MEASURES[name]
    found = decisions.measured(Constraint(None, measure=name))
    middle = float(np.median(found))
    value = measure.comparison == "value"
    for limit in [
        Constraint((middle, None) if value else min(middle, measure.largest), measure=name),
        Constraint(
            (0.25, 0.75) if value else (0.4, 2.0) if measure.comparison == "ratio" else (-0.2, 0.1), measure=name
        )
        if value or measure.comparison == "covariance"
        else Constraint(
            (0.4, 2.0) if measure.comparison == "ratio" else (-0.3, 0.2), measure=name, **_direction(measure)
        ),
    ]:
        at_all, kept = (
            decisions.kept(limit),
            {share: decisions.kept(strengthened(limit, share)) for share in STRICTNESS},
        )
        assert np.array_equal(kept[0.0], at_all)
        for looser, stricter in pairwise(STRICTNESS):
            assert not (kept[stricter] & ~kept[looser]).any()
        # The comparison says something: some keep the limit and not the stricter one, and some keep both.
        assert (at_all & ~kept[0.6]).any()
        assert (at_all & kept[0.1]).any()


@pytest.mark.parametrize(
    ("limit", "share", "bound"),
    [
        (DisparateImpact(0.9), 0.5, 0.95),
        (EqualOpportunity(0.2), 0.25, 0.15),
        (Covariance(0.1), 0.5, 0.05),
        (rate_limit("selection_rate", lower=0.2), 0.5, (0.3, None)),
        (rate_limit("selection_rate", lower=0.9), 0.5, (0.95, None)),
        (rate_limit("false_positive_rate", upper=0.1), 0.5, (None, 0.05)),
        (rate_limit("selection_rate", lower=0.4, upper=0.5), 0.5, (0.425, 0.475)),
        (DisparateImpact((0.8, 1.25), reference="a"), 0.5, (0.9, 1 / 0.9)),
        (DisparateImpact((0.8, None), reference="a"), 0.5, (0.9, None)),
        # Beyond equality, where "towards equality" would be looser:
        (DisparateImpact((1.2, None), reference="a"), 0.5, (1.3, None)),
        (DisparateImpact((None, 0.5), reference="a"), 0.5, (None, 0.4)),
        (DemographicParity((None, -0.2), reference="a"), 0.5, (None, -0.3)),
        (DemographicParity((0.0, None), reference="a"), 0.5, (0.05, None)),
        (DemographicParity((0.05, 0.1), reference="a"), 0.5, (0.0625, 0.0875)),
        (Representation((-0.4, 0.0), reference="a"), 0.5, (-0.3, -0.05)),
        # A side that limits nothing stays.
        (DisparateImpact((0.0, 1.25), reference="a"), 0.5, (0.0, 1 / 0.9)),
        (DemographicParity(None), 0.5, None),
    ],
)
def test_how_far_a_bound_moves(limit, share, bound):
    assert strengthened(limit, share).bound == pytest.approx(bound, abs=1e-12)  # a few roundings


@pytest.mark.parametrize("share", [-0.1, 1.0, math.nan])
def test_a_share_out_of_range(share):
    with pytest.raises(ValueError, match=r"strictness=.*0 .* 1\."):
        strengthened(DisparateImpact(0.8), share)


def informedness(g):
    return true_positive_rate(g) - false_positive_rate(g)


def test_a_rate_of_unknown_range_needs_two_sides():
    own = Measure("informedness", (informedness,), "value", monotone=True)
    with pytest.raises(ValueError, match=r"informedness >= 0\.2: its measure states no largest value.*largest="):
        strengthened(Constraint((0.2, None), measure=own), 0.1)
    assert strengthened(Constraint((-0.2, 0.4), measure=own), 0.5).bound == pytest.approx((-0.05, 0.25))
    assert strengthened(Constraint((0.2, None), measure=replace(own, largest=1.0)), 0.5).bound == pytest.approx(
        (0.3, None)
    )


# --- the order and the stopping rule -------------------------------------------------------------------------------

ROWS = 400
GROUPS = np.repeat(["a", "b"], ROWS // 2)
LABELS = np.arange(ROWS) % 2
# Selected of the 200 rows of group b, where 160 of group a are: a ratio of 1, 0.95, and 0.5; the limit is 0.8.
GOOD, FINE, BAD = 160, 152, 80


def decisions_with(selected: int, labels: tuple = (0, 1)) -> np.ndarray:
    chosen = np.concatenate([np.arange(200) < 160, np.arange(200) < selected])
    return np.array(labels)[chosen.astype(int)]


def problem_with(*constraints, labels: tuple = (0, 1), **options) -> TrainingProblem:
    cells = Cells.build(np.array(labels)[LABELS], {"group": GROUPS}, **options)
    return TrainingProblem(make_model(2), "binary_cross_entropy", constraints, cells)


@dataclass
class Script:
    """A sequence of models from loose to strict, each known by its number, and what each decides."""

    problem: TrainingProblem
    decisions: Sequence[np.ndarray]
    accuracies: Sequence[float]
    kept: Sequence[bool]
    asked: list[int]

    def sequence(self, problem, X, shares, **options) -> Script:
        """Stand in for `ModelSequence`."""
        assert len(shares) == len(self.decisions)
        self.shares = tuple(shares)
        return self

    def at(self, share: float) -> SeriesPoint:
        number = self.shares.index(share)
        reached = SimpleNamespace(accuracy=self.accuracies[number], kept=self.kept[number])
        found = SimpleNamespace(assessment=reached, stopped=False)
        parameters = torch.full((self.problem.n_parameters,), float(number), dtype=torch.float64)
        return SeriesPoint(self.problem, found, parameters, torch.zeros(0, dtype=torch.float64))

    def predict(self, parameters: torch.Tensor) -> np.ndarray:
        self.asked.append(int(parameters[0]))
        return self.decisions[self.asked[-1]]

    def run(self, y=LABELS, groups=GROUPS, **options):
        return train_for_confidence(self.problem, None, self.predict, y, {"group": groups}, **options)


@pytest.fixture
def script(monkeypatch) -> Callable[..., Script]:
    """Return a function that makes a script for numbers of selected rows, and puts it in the place of training."""

    def make(*selected: int, accuracies=None, kept=None, problem=None, decisions=None) -> Script:
        decisions = decisions or [decisions_with(number) for number in selected]
        made = Script(
            problem or problem_with(DisparateImpact(0.8)),
            decisions,
            accuracies or [0.9 - 0.1 * number for number in range(len(decisions))],
            kept or [True] * len(decisions),
            [],
        )
        monkeypatch.setattr(module, "ModelSequence", made.sequence)
        return made

    return make


SCRIPTED = (0.0, 0.1, 0.2, 0.3)


def holds(problem: TrainingProblem) -> int:
    """The number of the model that the problem's module holds."""
    return int(problem.current()[0])


def test_the_strictest_is_tested_first_and_all_if_all_pass(script):
    scripted = script(FINE, FINE, GOOD, GOOD)
    choice = scripted.run(strictness=SCRIPTED)
    assert scripted.asked == [3, 2, 1, 0]
    assert [trial.strictness for trial in choice.trials] == [0.3, 0.2, 0.1, 0.0]
    assert all(trial.passed for trial in choice.trials)
    assert choice.chosen is choice.trials[-1]
    assert choice.certificate is choice.trials[-1].certificate
    assert holds(scripted.problem) == 0


def test_testing_stops_at_the_first_that_does_not_pass(script):
    scripted = script(GOOD, BAD, FINE, GOOD)  # the loosest would pass, but lies behind one that does not
    choice = scripted.run(strictness=SCRIPTED)
    assert scripted.asked == [3, 2, 1]
    assert [trial.passed for trial in choice.trials] == [True, True, False]
    assert choice.chosen is choice.trials[1]
    assert holds(scripted.problem) == 2


def test_a_second_start_finds_a_model_where_the_strictest_fails(script):
    assert script(BAD, FINE, GOOD, BAD).run(strictness=SCRIPTED).chosen is None  # the strictest over-fits
    choice = script(BAD, FINE, GOOD, BAD).run(strictness=SCRIPTED, starts=(0.3, 0.2))
    assert [trial.passed for trial in choice.trials] == [False, True, True, False]
    assert [trial.certificate.confidence for trial in choice.trials] == pytest.approx([0.975] * 4)
    assert choice.chosen.strictness == 0.1
    assert choice.certificate.confidence == 0.95  # as asked, and weaker than its test
    assert choice.certificate.passed


def test_levels_are_handed_on_and_models_without_a_level_are_not_tested(script):
    choice = script(FINE, GOOD, BAD, GOOD).run(strictness=SCRIPTED, starts=(0.3, 0.0))
    assert [trial.strictness for trial in choice.trials] == [0.3, 0.2, 0.0]
    assert [trial.certificate.confidence for trial in choice.trials] == pytest.approx([0.975] * 3)
    whole = script(FINE, GOOD, GOOD, GOOD).run(strictness=SCRIPTED, starts=(0.3, 0.1))
    assert [trial.certificate.confidence for trial in whole.trials] == pytest.approx([0.975, 0.975, 0.95, 0.95])


def test_the_sequence_has_small_steps_where_the_loosest_model_that_passes_may_lie():
    """Steps of a tenth returned models that were stricter than needed, by up to a tenth of the way to equal rates."""
    assert max(stricter - looser for looser, stricter in pairwise(STRICTNESS)) < 0.051
    assert {*fit_certified.TRIED, fit_certified.MIDDLE} <= {*STRICTNESS}


def test_the_share_of_a_start_that_is_left_out_goes_to_the_next_looser_model(script):
    choice = script(FINE, GOOD, GOOD, BAD, kept=[True, True, False, False]).run(strictness=SCRIPTED, starts=(0.3, 0.2))
    assert [trial.certificate.confidence for trial in choice.trials] == [0.95, 0.95]
    with pytest.raises(ValueError, match=r"starts=\(0.7,\)"):
        script(GOOD).run(strictness=(0.0,), starts=(0.7,))


def test_the_loosest_of_those_passed_is_returned(script):
    """Training accuracy would prefer the fitted models, which are no better on other rows."""
    scripted = script(BAD, GOOD, GOOD, GOOD, accuracies=[0.99, 0.7, 0.9, 0.8])
    choice = scripted.run(strictness=SCRIPTED)
    assert [trial.passed for trial in choice.trials] == [True, True, True, False]
    assert (choice.chosen.strictness, holds(scripted.problem)) == (0.1, 1)


def test_where_none_passes_the_certificate_is_that_of_the_first(script):
    scripted = script(GOOD, GOOD, BAD)
    choice = scripted.run(strictness=(0.0, 0.1, 0.2))
    assert scripted.asked == [2]
    assert choice.chosen is None
    assert choice.certificate is choice.trials[0].certificate
    assert choice.certificate.limits[0].value == pytest.approx(0.5)
    assert holds(scripted.problem) == 2
    assert choice.claim.startswith("No model passed at 95% confidence: nothing is claimed.")
    blocking = choice.certificate.limits[0]
    assert f"It does not show {blocking.limit}: {blocking.reason}" in choice.claim


def test_an_inconclusive_verdict_does_not_pass(script):
    choice = script(135).run(strictness=(0.0,))  # a ratio of 0.84, of too few rows
    assert choice.certificate.verdict is Verdict.INCONCLUSIVE
    assert choice.chosen is None


def test_the_claim_names_the_probability_and_what_it_is_over(script):
    assert "at most 5%, over draws of the calibration rows" in script(GOOD).run(strictness=(0.0,)).claim
    assert "at most 0.1%," in script(GOOD).run(strictness=(0.0,), confidence=0.999).claim


def test_models_that_break_their_own_limits_in_training_are_no_steps(script):
    scripted = script(FINE, GOOD, BAD, BAD, kept=[True, True, False, False])
    choice = scripted.run(strictness=SCRIPTED)
    assert scripted.asked == [1, 0]
    assert choice.chosen.strictness == 0.0
    nowhere = script(BAD, GOOD, kept=[False, False])
    assert nowhere.run(strictness=(0.0, 0.1)).chosen is None
    assert nowhere.asked == [0]  # the loosest has the least to keep


def test_all_models_are_tested_against_the_requested_limit(script):
    choice = script(FINE, GOOD).run(strictness=(0.0, 0.5))
    assert [trial.certificate.limits[0].limit for trial in choice.trials] == ["disparate_impact >= 0.8"] * 2


def test_every_limit_must_pass_and_what_only_measures_is_left_aside(script):
    problem = problem_with(DisparateImpact(0.8), rate_limit("selection_rate", upper=0.9), DemographicParity(None))
    choice = script(FINE, problem=problem).run(strictness=(0.0,))
    assert [limit.verdict for limit in choice.certificate.limits] == [Verdict.PASS, Verdict.PASS]
    stricter = problem_with(DisparateImpact(0.8), rate_limit("selection_rate", upper=0.7))
    choice = script(FINE, problem=stricter).run(strictness=(0.0,))
    assert choice.certificate.limits[0].verdict is Verdict.PASS
    assert choice.chosen is None


def test_the_positive_label_is_that_of_training(script):
    labels = ("no", "yes")
    problem = problem_with(DisparateImpact(0.5), labels=labels, pos_label="no")
    scripted = script(problem=problem, decisions=[decisions_with(GOOD, labels)])
    for options in ({}, {"pos_label": None}, {"pos_label": "no"}):
        choice = scripted.run(y=np.array(labels)[LABELS], strictness=(0.0,), certify_options=options)
        # The shares of those told "no", not of the others.
        assert [rate.value for rate in choice.certificate.rates] == pytest.approx([0.2, 0.2])


# --- what is refused before anything is trained --------------------------------------------------------------------


@pytest.fixture
def no_training(monkeypatch):
    def fail(*_, **__):
        raise AssertionError("something was trained")

    monkeypatch.setattr(module, "ModelSequence", fail)


def refused(problem: TrainingProblem, y=LABELS, groups=GROUPS, sensitive=None, **options) -> None:
    def predict(parameters):
        raise AssertionError("something was predicted")

    train_for_confidence(problem, None, predict, y, sensitive or {"group": groups}, **options)


OWN_GAP = Constraint(0.2, measure=Measure("informedness_gap", (informedness,), "difference"))
OWN_RATE = Constraint((0.2, None), measure=Measure("informedness", (informedness,), "value", monotone=True))


@pytest.mark.parametrize(
    ("constraints", "words"),
    [
        ((), r"at least one limit with a bound"),
        ((DisparateImpact(None),), r"at least one limit with a bound"),
        ((DisparateImpact(0.8), Covariance(0.1)), r"covariance <= 0\.1 cannot be certified"),
        ((OWN_GAP,), r"informedness_gap <= 0\.2 cannot be certified.*user-defined rate"),
        ((OWN_RATE,), r"informedness >= 0\.2: its measure states no largest value"),
        ((DisparateImpact(1.0),), "disparate_impact >= 1 cannot be certified.*Loosen"),
        ((DemographicParity(0.0),), "demographic_parity <= 0 cannot be certified"),
        ((rate_limit("selection_rate", lower=1.0),), "selection_rate >= 1 cannot be certified"),
        ((rate_limit("selection_rate", upper=0.0),), "selection_rate <= 0 cannot be certified"),
        ((rate_limit("selection_rate", lower=0.5, upper=0.5),), r"cannot be certified: it leaves no room"),
    ],
)
def test_limits_that_cannot_be_certified(no_training, constraints, words):
    with pytest.raises(ValueError, match=words):
        refused(problem_with(*constraints))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"confidence": 1.0}, r"confidence=1\.0"),
        ({"confidence": 95}, r"confidence=95"),
        ({"strictness": ()}, "strictness is empty"),
        ({"strictness": (0.2, 0.1)}, r"strictness=\(0\.2, 0\.1\): must rise, from loose to strict\."),
        ({"strictness": (0.1, 0.1)}, r"must rise"),
        ({"strictness": (0.0, 1.0)}, r"strictness=1\.0\b.* 1\."),
        ({"y": LABELS[:-1]}, r"has shape \(400,\), but y has 399 rows"),
        ({"y": np.zeros(ROWS, dtype=int)}, r"y has one class only"),
        ({"y": np.arange(ROWS) % 3}, r"calibration rows .*0, 1, 2,.* 0, 1\b"),
        ({"certify_options": {"pos_label": 0}}, r"certify_options has pos_label=0, .* 1\."),
        ({"groups": np.repeat(["a", "c"], 200)}, "No calibration row .*'b' of 'group'"),
        (
            {"sensitive": {"sex": GROUPS}},
            "'sex'.*'group'.*sensitive",
        ),
        ({"certify_options": {"sample_weight": LABELS + 1.0}}, r"cannot be certified: the rows have weights"),
    ],
)
def test_bad_input_is_refused(no_training, options, words):
    with pytest.raises(ValueError, match=words):
        refused(problem_with(DisparateImpact(0.8)), **options)


def test_intersections_are_certified_as_they_were_trained(no_training):
    columns = {"one": GROUPS, "two": np.tile(["x", "y"], ROWS // 2)}
    cells = Cells.build(np.arange(ROWS) // 2 % 2, columns, groups="intersection")
    problem = TrainingProblem(make_model(2), "binary_cross_entropy", "disparate_impact >= 0.8", cells)
    with pytest.raises(ValueError, match=r"'one', 'two'.*'one & two'"):
        refused(problem, sensitive=columns)
    with pytest.raises(AssertionError, match="something was trained"):
        refused(problem, sensitive=columns, certify_options={"groups": "intersection"})


# --- with training -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Parts:
    """Training rows, calibration rows, and a problem on the former."""

    X: np.ndarray
    y: np.ndarray
    groups: dict[str, np.ndarray]
    calibration_inputs: np.ndarray
    calibration_y: np.ndarray
    calibration_groups: dict[str, np.ndarray]

    def problem(self, constraints) -> TrainingProblem:
        cells = Cells.build(self.y, self.groups)
        return TrainingProblem(
            make_model(self.X.shape[1]), "binary_cross_entropy", constraints, cells, regularizers=[L2(1e-4)]
        )

    def decisions(self, problem: TrainingProblem, parameters: torch.Tensor) -> np.ndarray:
        problem.assign(parameters)
        with torch.no_grad():
            return decide(problem.module(torch.from_numpy(self.calibration_inputs)), problem.threshold).numpy()

    def train(self, constraints, **options):
        problem = self.problem(constraints)
        choice = train_for_confidence(
            problem,
            self.X,
            lambda parameters: self.decisions(problem, parameters),
            self.calibration_y,
            self.calibration_groups,
            **options,
        )
        return problem, choice


def planted_parts(seed: int, rows: int = 1000, calibration: int = 1000) -> Parts:
    data, _ = make_disparate_data(rows + calibration, base_rates={"a": 0.6, "b": 0.4}, seed=seed)
    train, rest = data.take(range(rows)), data.take(range(rows, rows + calibration))
    return Parts(train.X, train.y, train.sensitive, rest.X, rest.y, rest.sensitive)


@pytest.fixture(scope="module")
def law() -> Parts:
    split = load_dataset("law").split(0.3, random_state=0)
    groups = [{"race": part.groups("race")} for part in split]
    return Parts(split.train.X, split.train.y, groups[0], split.test.X, split.test.y, groups[1])


def test_the_calibration_rows_have_no_part_in_training():
    """Other calibration rows may end the test sooner, but a model that is tested in both cases is the same."""
    parts, found = planted_parts(0), []
    rng = np.random.default_rng(0)
    others = replace(
        parts,
        calibration_inputs=rng.normal(size=parts.calibration_inputs.shape),
        calibration_y=rng.permutation(parts.calibration_y),
        calibration_groups={"group": rng.permutation(parts.calibration_groups["group"])},
    )
    for each in (parts, others):
        _, choice = each.train("disparate_impact >= 0.8", strictness=(0.0, 0.2, 0.4, 0.6), starts=(0.6, 0.2))
        found.append({trial.strictness: trial.point.parameters for trial in choice.trials})
    one, other = found
    both = {*one} & {*other}
    assert {0.6, 0.2} <= both  # the starts
    assert all(torch.equal(one[share], other[share]) for share in both)


def test_models_lie_on_lines_between_anchors():
    parts = planted_parts(2)
    problem = parts.problem("disparate_impact >= 0.8")
    shares = (0.0, 0.2, ANCHOR, 0.6, 0.9)
    sequence = ModelSequence(problem, parts.X, shares)
    models = {share: sequence.at(share) for share in reversed(shares)}
    ends = {share: models[share].parameters for share in (0.0, ANCHOR, 0.9)}
    assert torch.allclose(models[0.2].parameters, 0.6 * ends[0.0] + 0.4 * ends[ANCHOR], atol=1e-12)  # rounding
    assert torch.allclose(models[0.6].parameters, 0.75 * ends[ANCHOR] + 0.25 * ends[0.9], atol=1e-12)
    # An anchor is judged by its own limits, a model between two of them by the limits as asked.
    bounds = [models[share].problem.system.constraints[0].bound for share in shares]
    assert bounds == pytest.approx([0.8, 0.8, 0.9, 0.8, 0.98])
    for share in (0.2, 0.6):
        problem.assign(models[share].parameters)
        assert models[share].result.assessment.counts[:, :1].equal(_counts(problem, parts))
        assert models[share].result.multipliers is None


def _counts(problem: TrainingProblem, parts: Parts) -> torch.Tensor:
    with torch.no_grad():
        decisions = decide(problem.module(torch.from_numpy(parts.X)), problem.threshold)
    return problem.cells.sums(outcome_indicators(decisions, (1,)))


def test_only_the_anchors_that_are_needed_are_fitted():
    parts, bounds = planted_parts(2), []

    class Watched(FitSeries):
        def fit(self, constraints):
            bounds.append(constraints[0].bound)
            return super().fit(constraints)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "FitSeries", Watched)
        sequence = ModelSequence(parts.problem("disparate_impact >= 0.8"), parts.X, STRICTNESS)
        for share, fitted in ((0.97, [0.994]), (0.6, [0.994, 0.9]), (0.5, [0.994, 0.9]), (0.1, [0.994, 0.9, 0.8])):
            sequence.at(share)
            assert bounds == pytest.approx(fitted)


@pytest.mark.slow
def test_on_the_law_data(law):
    problem, choice = law.train("disparate_impact >= 0.9")
    passed = [trial for trial in choice.trials if trial.passed]
    assert passed == list(choice.trials[: len(passed)])  # testing stops at the first failure
    assert len(choice.trials) - len(passed) <= 1
    assert choice.chosen in passed
    assert torch.equal(problem.current(), choice.chosen.point.parameters)
    found = choice.chosen.point.result.assessment
    assert found.kept
    assert choice.chosen is passed[-1]
    assert found.gain > 0
    # The certificate is that of the decisions of the module as it was left.
    anew = certify(
        law.calibration_y,
        law.decisions(problem, problem.current()),
        law.calibration_groups,
        "disparate_impact >= 0.9",
    )
    assert choice.certificate.to_dict() == anew.to_dict()
    assert anew.passed
    # With more confidence, the same models and no more of them pass.
    _, surer = law.train("disparate_impact >= 0.9", confidence=0.99)
    assert [trial.point.parameters.tolist() for trial in surer.trials] == [
        trial.point.parameters.tolist() for trial in choice.trials[: len(surer.trials)]
    ]
    assert len(surer.trials) <= len(choice.trials)


@pytest.mark.slow
def test_a_strict_end_that_nobody_reaches_does_not_stop_the_looser_ones(law):
    # An accuracy of 0.7 in each group can be had, one of 0.7 + 0.6 · 0.3 = 0.88 among the Non-White cannot.
    _, choice = law.train(["disparate_impact >= 0.8", "accuracy >= 0.7"])
    assert max(trial.strictness for trial in choice.trials) < max(STRICTNESS)
    assert choice.chosen is not None
    assert choice.certificate.passed


def test_training_options_are_handed_on():
    parts, phases = planted_parts(1, 400, 400), []
    parts.train(
        "disparate_impact >= 0.8",
        strictness=(0.0,),
        effort=Effort(iterations=3),
        callback=lambda row: phases.append(row["phase"]),
    )
    assert phases.count("free") == 4  # three steps, and the look at where the last one ended


# --- the claim, by simulation --------------------------------------------------------------------------------------

LIMIT = 0.8
DRAWN = 2200  # more outcomes than the score test enumerates, so that a certificate takes no time
AT_THE_LIMIT = LIMIT - 1e-9  # broken in the population, by next to nothing: where an error is most frequent


def most_errors(draws: int) -> int:
    """More errors than this occur in one of a thousand simulations of a procedure that errs in 5% of the draws."""
    return int(stats.binom.ppf(0.999, draws, 0.05))


def wrong_in_draws(
    script, ratios: Sequence[float], draws: int, *, nested: bool, seed: int, starts: Sequence[int] = (-1,)
) -> tuple[int, int]:
    """Count the draws in which a rule is returned that breaks the limit: by stopping, and by going on after a failure.

    The rules stand for the models of the sequence, loose to strict.  They select half of group a, and half times their
    ratio of group b.  Nested rules select by one draw for all of them, as similar models do; others each by their own.
    """
    rng = np.random.default_rng(seed)
    shares = tuple(0.01 * number for number in range(len(ratios)))
    stopping = going_on = 0
    for _ in range(draws):
        group, y = rng.integers(2, size=DRAWN), rng.integers(2, size=DRAWN)
        chance = rng.random(DRAWN) if nested else rng.random((len(ratios), DRAWN))
        rates = np.where(group == 0, 0.5, 0.5 * np.array(ratios)[:, None])
        decisions = list((chance < rates).astype(int))
        choice = script(decisions=decisions).run(
            y=y, groups=np.array(["a", "b"])[group], strictness=shares, starts=[shares[start] for start in starts]
        )
        wrong = [ratio < LIMIT for ratio in ratios]
        stopping += choice.chosen is not None and wrong[round(100 * choice.chosen.strictness)]
        tested = {round(100 * trial.strictness): trial.passed for trial in choice.trials}
        going_on += any(
            tested[number] if number in tested else certify(y, decisions[number], group, DisparateImpact(LIMIT)).passed
            for number in range(len(ratios))
            if wrong[number]
        )
    return stopping, going_on


@pytest.mark.slow
def test_a_wrong_model_is_returned_in_at_most_5_percent_of_draws(script):
    draws = 150
    ratios = (*[AT_THE_LIMIT] * 5, 1.0)  # a strict rule that mostly passes, then five at the limit
    stopping, going_on = wrong_in_draws(script, ratios, draws, nested=False, seed=1)
    assert 0 < stopping <= most_errors(draws)
    assert going_on > most_errors(draws)  # so the test can fail: to skip failures and go on breaks the claim


@pytest.mark.parametrize("nested", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_two_starts_return_a_wrong_model_in_at_most_5_percent_of_draws(script, nested):
    draws = 150
    ratios = (*[AT_THE_LIMIT] * 5, 1.0)
    returned, _ = wrong_in_draws(script, ratios, draws, nested=nested, seed=4, starts=(-1, 2))
    assert returned <= most_errors(draws)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ratios", "nested", "breaks", "least"),
    [
        ((*[AT_THE_LIMIT] * 5, 1.0), False, True, 0.02),
        ((AT_THE_LIMIT,) * 4, False, True, 0.02),
        ((0.76, 0.77, 0.78, 0.79, AT_THE_LIMIT, 0.95, 1.0), False, True, 0.02),
        # Nested rules move together: where the one at the limit passes by chance, all of them select the second group
        # too often, and a strict one fails the other way round before.  Hence fewer errors than 5%.
        ((0.7, 0.74, 0.78, AT_THE_LIMIT, 0.85, 0.9, 0.95, 1.0), True, None, 0.005),
        ((AT_THE_LIMIT,), True, False, 0.02),
    ],
)
def test_the_claim_over_many_draws(script, ratios, nested, breaks, least):
    draws = 1500
    stopping, going_on = wrong_in_draws(script, ratios, draws, nested=nested, seed=2)
    assert stopping <= most_errors(draws)
    # With the population at the limit the error is near the 5% allowed, and not nothing (Monte Carlo: ±0.6%).
    assert stopping >= least * draws
    if breaks is not None:
        assert (going_on > most_errors(draws)) == breaks


def selection_rates(weights: torch.Tensor, base_rates: dict[str, float], signal: float = 2.0) -> dict[str, float]:
    """The selection rates of a linear model in the population of `make_disparate_data`, in closed form.

    Given group and label the inputs are normal with unit variances, so the logit is normal, too.
    """
    *w, b = weights.tolist()
    size = math.hypot(*w)
    rates = {}
    for position, (group, positives) in enumerate(base_rates.items()):
        # Inputs: the signal of the label, a proxy for each group (shifted by 1 for the own one), noise.
        means = {label: b + w[0] * (label - 0.5) * signal + w[1 + position] for label in (0, 1)}
        chance = {label: float(stats.norm.cdf(mean / size)) for label, mean in means.items()}
        rates[group] = positives * chance[1] + (1.0 - positives) * chance[0]
    return rates


def true_ratio(problem: TrainingProblem) -> float:
    rates = selection_rates(problem.current(), {"a": 0.6, "b": 0.4}).values()
    return min(rates) / max(rates)


def test_the_closed_form_of_a_linear_model():
    problem = planted_parts(0, 100, 100).problem(())
    weights = torch.tensor([1.0, 0.5, -0.5, 0.2, 0.1, 0.1], dtype=torch.float64)
    data, _ = make_disparate_data(200_000, base_rates={"a": 0.6, "b": 0.4}, seed=5)
    selected = data.X @ weights[:-1].numpy() + float(weights[-1]) > 0
    for group, rate in selection_rates(weights, {"a": 0.6, "b": 0.4}).items():
        # 100,000 rows each: a standard error of at most 0.0016.
        assert selected[data.groups() == group].mean() == pytest.approx(rate, abs=0.008)
    assert problem.n_parameters == len(weights)


@pytest.mark.slow
def test_the_claim_with_models_trained_anew_in_each_draw():
    draws, plain_wrong, wrong, returned = 200, 0, 0, 0
    for seed in range(draws):
        parts = planted_parts(seed, 2000, 2000)
        plain = parts.problem(DisparateImpact(LIMIT))
        fit(plain, parts.X)
        plain_wrong += true_ratio(plain) < LIMIT
        problem, choice = parts.train(DisparateImpact(LIMIT))
        returned += choice.chosen is not None
        wrong += choice.chosen is not None and true_ratio(problem) < LIMIT
    assert wrong <= most_errors(draws)
    assert returned >= 0.9 * draws  # the claim is not kept by returning nothing
    assert plain_wrong >= 0.3 * draws  # the limit itself is kept on the training rows and broken in about half
