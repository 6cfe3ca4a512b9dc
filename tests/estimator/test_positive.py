"""The positive label: known by convention, or guessed with a warning, and named in every result."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from tests.estimator.helpers import quick, toy

from fairbound import LimitWarning, make_fairness_scorer
from fairbound._positive_label import conventional_positive
from fairbound.estimator import PositiveLabelWarning
from fairbound.estimator.messages import FitFacts, has_run_out
from fairbound.estimator.result import FitResult
from fairbound.evaluation.tally import Tally
from fairbound.fairness import MEASURES, Cells, Constraint, parse_constraint
from fairbound.sqp import Status
from fairbound.training import Effort

X, Y, GROUP = toy(120)

CONVENTIONAL = [
    ((0, 1), 1),
    ((-1, 1), 1),
    ((0.0, 1.0), 1.0),
    ((False, True), True),
    (("0", "1"), "1"),
    (("no", "yes"), "yes"),
    (("YES", "no"), "YES"),
    (("True", "false"), "True"),
    (("N", "Y"), "Y"),
    (("negative", "positive"), "positive"),
]
GUESSED = [(("approved", "denied"), "denied"), ((1, 2), 2), (("bad", "good"), "good"), ((0, 5), 5)]


@pytest.mark.parametrize(("labels", "positive"), CONVENTIONAL)
def test_convention_decides_without_a_word(labels, positive):
    assert conventional_positive(labels) == conventional_positive(labels[::-1]) == positive
    clf = quick("disparate_impact >= 0.1").fit(X, np.array(labels)[Y], sensitive_features=GROUP)
    assert clf.pos_label_ == clf.result_.pos_label == positive


@pytest.mark.parametrize(("labels", "positive"), GUESSED)
def test_a_guess_is_said_where_a_limit_depends_on_it(labels, positive):
    y = np.array(labels)[Y]
    with pytest.warns(
        PositiveLabelWarning, match=rf"takes {positive!r} for the positive label.*disparate_impact"
    ) as said:
        clf = quick(["disparate_impact >= 0.1", "accuracy_parity <= 0.9"]).fit(X, y, sensitive_features=GROUP)
    assert "accuracy_parity" not in str(said[0].message)
    assert said[0].filename == __file__
    assert clf.pos_label_ == positive
    for label in labels:  # whoever says which one is not told
        assert quick("disparate_impact >= 0.1", pos_label=label).fit(X, y, sensitive_features=GROUP).pos_label_ == label


def test_nothing_is_said_where_nothing_depends_on_it():
    words = np.array(["approved", "denied"])[Y]
    quick().fit(X, words)
    quick(["demographic_parity <= 0.9", "equalized_odds <= 0.9", "accuracy_parity <= 0.9"]).fit(
        X, words, sensitive_features=GROUP
    )
    three = np.array(["bad", "fair", "good"])[np.arange(120) % 3]
    quick("demographic_parity <= 0.9").fit(X, three, sensitive_features=GROUP)


@pytest.mark.parametrize("name", sorted(MEASURES))
def test_a_limit_depends_on_the_positive_label_if_its_value_does(name):
    """Recomputed: the measure of the same decisions with one label and with the other as the positive one."""
    rng = np.random.default_rng(3)
    y, decided, group = rng.integers(0, 2, 200), rng.integers(0, 2, 200), rng.integers(0, 2, 200)
    value = MEASURES[name].comparison == "value"
    limit = Constraint((0.0, 1.0) if value else None, measure=name)
    assert _measured(limit, y, decided, group, 0) == pytest.approx(_measured(limit, y, decided, group, 1)) or (
        limit.depends_on_positive
    )
    if limit.depends_on_positive:
        assert _measured(limit, y, decided, group, 0) != pytest.approx(_measured(limit, y, decided, group, 1))


def _measured(limit, y, decided, group, positive):
    tally = Tally.build(y, decided, {"g": group}, pos_label=positive)
    return tally.measured(tally.compile_together([limit]))


def test_a_scorer_says_its_guess_too():
    words = np.array(["approved", "denied"])[Y]
    other = LogisticRegression().fit(X, words)
    with pytest.warns(PositiveLabelWarning, match="fairness scorer takes 'denied'"):
        make_fairness_scorer("disparate_impact")(other, X, words, sensitive_features=GROUP)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make_fairness_scorer("disparate_impact", pos_label="approved")(other, X, words, sensitive_features=GROUP)
        make_fairness_scorer("demographic_parity")(other, X, words, sensitive_features=GROUP)


def test_the_positive_label_stands_in_every_view_of_the_result():
    words = np.array(["denied", "approved"])[Y]
    clf = quick("disparate_impact >= 0.1", pos_label="approved").fit(X, words, sensitive_features=GROUP)
    text = str(clf.result_)
    assert "positive label" in text.split("Limits")[0]
    assert "approved" in text.split("Limits")[0]
    assert "approved" in clf.result_._repr_html_()
    assert clf.result_.to_dict()["pos_label"] == "approved"
    assert FitResult.from_dict(clf.result_.to_dict()).pos_label == "approved"
    older = {name: value for name, value in clf.result_.to_dict().items() if name != "pos_label"}
    assert FitResult.from_dict(older).pos_label is None


def outcome(*limits, decided=(400, 0), classes=("denied", "approved"), stopped=False, ran_out=False):
    return FitFacts(
        tuple(map(parse_constraint, limits)),
        classes,
        np.array(decided),
        np.array([sum(decided) // len(decided)] * len(decided)),
        stopped,
        ran_out,
    )


RATIO, FLOOR = "disparate_impact >= 0.8", "selection_rate >= 0.1"


def test_the_suggested_floor_is_below_the_share_of_positive_labels():
    """A floor above that share would cost more accuracy than it brings."""
    rare = replace(outcome(RATIO), labelled=np.array([368, 32]))
    assert '"selection_rate >= 0.04"' in rare.degenerate_warning()
    usual = replace(outcome(RATIO, decided=(0, 400)), labelled=np.array([40, 360]))
    assert '"selection_rate <= 0.95"' in usual.degenerate_warning()


@pytest.mark.parametrize(
    ("given", "says", "is_silent_of"),
    [
        (outcome(RATIO), ["every row is decided 'denied'", "positive label is 'approved'", "floor"], ["ceiling"]),
        (outcome(RATIO, decided=(0, 400)), ["every row is decided 'approved'", "a ceiling"], ["floor"]),
        (outcome(RATIO, decided=(398, 2)), ["398 of 400 rows are decided 'denied'"], ["every row"]),
        (outcome(RATIO, decided=(250, 150)), ["250 of 400", "Loosen the limits."], ["floor", "ceiling"]),
        (outcome(RATIO, FLOOR), [RATIO, FLOOR, "Loosen the limits."], ["floor"]),
        (outcome(RATIO, stopped=True), ["The fit was stopped early"], ["oosen", "floor", "iterations"]),
        (outcome(RATIO, ran_out=True), ["a larger effort"], ["oosen", "floor"]),
        (outcome(RATIO, decided=(0, 9, 0), classes=("a", "b", "c")), ["decided 'b'", "floor"], ["positive label"]),
        (outcome(*[RATIO] * 9), ["and 4 more limits"], []),
    ],
)
def test_the_advice_fits_what_was_asked_and_how_it_ended(given, says, is_silent_of):
    sentence = given.degenerate_warning()
    assert all(words in sentence for words in says)
    assert not any(words in sentence for words in is_silent_of)


def test_nearly_constant_decisions_are_noted():
    assert "nearly constant: 398 of 400" in outcome(RATIO, decided=(398, 2)).notes()[0]
    assert "are constant: every row" in outcome(RATIO, decided=(400, 0)).notes()[0]
    assert outcome(RATIO, decided=(300, 100)).notes() == []


@pytest.mark.parametrize("limit", ["disparate_impact >= 0.99", "demographic_parity <= 0.001"])
def test_a_fit_that_a_callback_ends_advises_neither_iterations_nor_looser_limits(limit):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        clf = quick(limit, callbacks=lambda row: True).fit(*toy(300)[:2], sensitive_features=toy(300)[2])
    texts = " ".join([str(each.message) for each in said if each.category is LimitWarning] + [clf.result_.message])
    assert "iterations" not in texts
    assert "oosen" not in texts
    assert clf.result_.status in (Status.MAX_ITERATIONS, Status.INFEASIBLE, Status.DEGENERATE)


def test_iterations_run_out_only_where_an_effort_was_stated():
    history = [{"phase": name, "iteration": place} for name in ("free", "exact") for place in range(4)]
    assert not has_run_out(history, None)
    assert has_run_out(history, Effort(iterations=3))
    assert not has_run_out(history, Effort(iterations=9))


def test_cells_take_the_conventional_label():
    assert Cells.build(["YES", "no"]).classes == ("no", "YES")
    assert Cells.build(["approved", "denied"]).classes == ("approved", "denied")
