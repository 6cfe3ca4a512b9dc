"""`ConstrainedClassifier(confidence=...)`: rows held back, the certificate of the model returned, and what is refused.

The sequence, its stopping rule and the claim are tested in `tests/test_confidence.py`.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from tests.estimator.helpers import quick, toy
from tests.refusals import refused

from fairbound import (
    ConstrainedClassifier,
    Covariance,
    Groups,
    LimitWarning,
    Measure,
    Training,
    certify,
    load,
)
from fairbound.estimator import certified as fit_certified
from fairbound.estimator import checked
from fairbound.estimator.certified import hold_back
from fairbound.estimator.inputs import read_inputs
from fairbound.estimator.rows import read_data
from fairbound.evaluation import Verdict, sides_in_words
from fairbound.fairness import Constraint, as_constraints
from fairbound.fairness.rates import selection_rate

LIMIT = "disparate_impact >= 0.6"
ROWS = toy(1500)


def confident(constraints=LIMIT, **params) -> ConstrainedClassifier:
    return quick(constraints, confidence=0.9).set_params(**params)


def fit(clf: ConstrainedClassifier, rows=ROWS, **options) -> ConstrainedClassifier:
    X, y, group = rows
    return clf.fit(X, y, sensitive_features={"group": group}, **options)


@pytest.fixture(scope="module")
def certified() -> ConstrainedClassifier:
    """Not to be changed."""
    return fit(confident())


def held_back(clf: ConstrainedClassifier, rows=ROWS):
    """The rows that a fit trains on, and those that it tests on."""
    X, y, group = rows
    params = checked(clf)
    return hold_back(params, read_data(params, read_inputs(X), y, {"group": group}, None, None))


def test_a_callback_that_ends_the_training_ends_the_tests():
    """All looser models were the stricter one, and the message called it the loosest of 21 models."""
    fits = []

    def stop(row):
        fits.append(row["iteration"] == 0 and row["phase"] == "coarse")
        return sum(fits) > 4  # three fits to place a start come first

    clf = fit(confident(callbacks=[stop]))
    assert len(clf.result_.trials) < 21


def test_the_certificate_is_that_of_the_model_on_the_rows_held_back(certified):
    training, calibration = held_back(certified)
    assert (len(training.y), len(calibration.y)) == (1050, 450)
    assert certified.result_.rows == 1050
    anew = certify(calibration.y, certified.predict(calibration.inputs.native), calibration.groups, LIMIT, 0.9)
    assert certified.certificate_.to_dict() == anew.to_dict()
    assert certified.certificate_ is certified.result_.certificate
    assert certified.certificate_.passed
    assert certified.result_.certified is True
    assert certified.result_.kept


def test_the_limits_are_those_that_were_asked_for(certified):
    (limit,) = certified.result_.limits
    assert limit.limit == LIMIT
    assert limit.reached > 0.6  # trained for more than that
    assert limit.price is None
    assert certified.constraints == LIMIT


def test_testing_stops_at_the_first_failure_and_the_loosest_that_passed_is_returned(certified):
    trials = certified.result_.trials
    assert [trial.strictness for trial in trials] == sorted((each.strictness for each in trials), reverse=True)
    assert all(trial.passed for trial in trials[:-1])
    (returned,) = [trial for trial in trials if trial.returned]
    assert returned.passed
    assert returned is [trial for trial in trials if trial.passed][-1]
    assert returned.accuracy == pytest.approx(certified.result_.accuracy, abs=1e-12)  # the same count, divided


@pytest.mark.slow
def test_the_rows_held_back_have_no_part_in_the_model(certified):
    X = ROWS[0]
    training, calibration = held_back(certified)
    apart = confident().fit(
        training.inputs.native,
        training.y,
        sensitive_features=training.groups,
        calibration_set=(calibration.inputs.native, calibration.y, calibration.groups),
    )
    assert (apart.predict(X) == certified.predict(X)).all()
    assert (apart.coef_ == certified.coef_).all()
    assert apart.certificate_.to_dict() == certified.certificate_.to_dict()


def test_the_seed_chooses_the_rows_and_labels_and_groups_keep_their_shares():
    _, first = held_back(confident(random_state=1))
    _, again = held_back(confident(random_state=1))
    _, other = held_back(confident(random_state=2, confidence__calibration_size=0.5))
    assert (first.inputs.native == again.inputs.native).all()
    assert len(other.y) == 750
    _, y, group = ROWS
    for part in (first, other):
        for label in (0, 1):
            for name in ("a", "b"):
                share = np.mean((part.y == label) & (part.groups["group"] == name))
                # Each stratum is rounded to whole rows.
                assert share == pytest.approx(np.mean((y == label) & (group == name)), abs=1.0 / len(part.y))


def test_the_result_prints_the_certificate_and_the_claim(certified):
    text = str(certified.result_)
    assert "Certificate (450 calibration rows)" in text
    assert "with 90% confidence" in text
    assert "<- returned" in text
    assert "Claim: the probability that this procedure returns a model that breaks a limit" in " ".join(text.split())
    assert "unseen rows can differ" not in text
    assert "All limits are kept on the training rows, and pass on the calibration rows" in text
    assert "PASS" in certified.result_._repr_html_()


def test_where_none_passes_it_says_so_with_the_bound_of_the_first(monkeypatch):
    start = fit_certified.Certification
    monkeypatch.setattr(start, "_place_start", lambda *_: 0.25)  # the strictest would have the whole level
    with pytest.warns(LimitWarning, match="not certified.*99% confidence"):
        clf = fit(confident("disparate_impact >= 0.95", confidence=0.99), toy(300))
    assert clf.result_.certified is False
    assert clf.certificate_.verdict is not Verdict.PASS
    assert not any(trial.returned for trial in clf.result_.trials)
    # Nobody hands a level on, so each trial is a start with its own share, and the shares add up to the 1%.
    assert sum(1 - trial.confidence for trial in clf.result_.trials) == pytest.approx(0.01)
    assert f"disparate_impact >= 0.95 ({sides_in_words(clf.certificate_.limits[0])})" in clf.result_.message
    assert "nothing is claimed" in str(clf.result_)
    assert clf.predict(ROWS[0][:2]).shape == (2,)  # the strictest model is there


def test_without_a_confidence_there_is_no_certificate():
    clf = fit(quick(LIMIT), toy(200))
    assert clf.certificate_ is None
    assert clf.result_.certified is None
    assert clf.result_.claim == ""


def test_it_is_saved_and_loaded(certified, tmp_path):
    certified.save(tmp_path / "model")
    read = load(tmp_path / "model")
    assert str(read.certificate_) == str(certified.certificate_)
    assert read.certificate_.to_dict() == certified.certificate_.to_dict()
    assert read.result_.to_dict() == certified.result_.to_dict()
    assert str(read.result_) == str(certified.result_)
    assert read.confidence == certified.confidence
    json.loads(certified.result_.to_json())


@pytest.mark.slow
def test_a_measure_of_ones_own_is_saved_as_its_text(tmp_path):
    own = Constraint(0.6, measure=Measure("chance_ratio", (selection_rate,), "ratio"))
    clf = fit(confident(own))
    clf.save(tmp_path / "model")
    read = load(tmp_path / "model")
    assert read.certificate_.limits[0].limit == "chance_ratio >= 0.6"
    assert str(read.certificate_) == str(clf.certificate_)


@pytest.mark.slow
def test_validation_rows_are_watched_as_well(certified):
    X, y, group = toy(200, seed=1)
    clf = fit(confident(), eval_set=(X, y, {"group": group}))
    assert clf.result_.eval_rows == 200
    assert (clf.coef_ == certified.coef_).all()


GOES_WITH = {
    "a quota": {"constraints": [LIMIT, "select 30%"]},
    "mini-batches": {"training": Training(4, batch_size=100)},
    "a network": {"hidden": (4,)},
    "small groups merged": {"groups": Groups(small="merge", min_size=100)},
    "small groups left out": {"groups": Groups(small="warn", min_size=100)},
    "rates that only rise": {"groups": Groups(no_group_worse=True)},
    "early stopping": {"training": Training(early_stopping=True)},
    "several classes": {"constraints": "demographic_parity <= 0.5"},
    "words for labels": {"pos_label": "yes"},
    "weights in the loss alone": {"groups": Groups(weight="none")},
    "equal weights": {},
    "probabilities of groups": {"constraints": "demographic_parity <= 0.5"},
    "a base": {"base": LogisticRegression()},
}


@pytest.mark.filterwarnings("ignore::fairbound.LimitWarning")  # of small groups, and of models that are not certified
@pytest.mark.parametrize("kind", GOES_WITH)
def test_the_certificate_is_of_the_decisions_about_the_rows_held_back_with(kind):
    X, y, group = ROWS
    clf, groups, options = confident(**GOES_WITH[kind]), {"group": group}, {}
    if kind.startswith("small groups"):
        groups = {"group": np.where(np.arange(1500) % 12 == 0, "c", np.where(np.arange(1500) % 15 == 1, "d", group))}
    if kind == "early stopping":
        Xv, yv, gv = toy(400, seed=1)
        options = {"eval_set": (Xv, yv, {"group": gv})}
    if kind == "several classes":
        y = y + (X[:, 1] > 0.5)
    if kind == "words for labels":
        y = np.array(["yes", "no"])[y]
    if "weights" in kind:
        options = {"sample_weight": np.full(1500, 2.0) if kind == "equal weights" else 1.0 + np.arange(1500) % 3}
    if kind == "probabilities of groups":
        likely = np.where(group == "a", 0.95, 0.05)
        groups = {"group": {"a": likely, "b": 1.0 - likely}}
    clf.fit(X, y, sensitive_features=groups, **options)
    held = hold_back(checked(clf), read_data(checked(clf), read_inputs(X), y, groups, None, None))[1]
    there = held.groups
    if kind.startswith("small groups"):
        few = "(other)" if kind.endswith("merged") else None
        there = {"group": np.array([each if each in "ab" else few for each in held.groups["group"]], dtype=object)}
    limits = [each for each in as_constraints(clf.constraints) if each.bound != (None, 0.3)]
    anew = certify(held.y, clf.predict(X)[held.positions], there, limits, 0.9, pos_label=clf.pos_label)
    found = [[(each.verdict, each.value, each.bounds) for each in one.limits] for one in (clf.certificate_, anew)]
    assert found[0] == found[1]  # the merged group has another place among the groups
    assert clf.certificate_.to_dict() == anew.to_dict() or kind == "small groups merged"
    assert clf.result_.certified == anew.passed
    assert clf.result_.kept
    assert clf.result_.certified or kind.startswith(("small", "prob"))
    if kind == "a quota":
        assert any("The threshold follows the quota" in each for each in clf.result_.notes)
    if kind == "rates that only rise":
        assert any("No group worse off" in each for each in clf.result_.notes)
    if kind == "early stopping":
        assert clf.result_.eval_rows == 400


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"constraints": ()}, ["confidence=0.9", "at least one limit", "constraints="]),
        ({"training__warm_start": True}, ["confidence=", "training=Training(warm_start=True)"]),
        ({"margin": 0.8}, ["confidence=", "margin=0.8", "which model to choose"]),
        ({"constraints": Covariance(0.1)}, ["covariance <= 0.1 cannot be certified"]),
        ({"constraints": "disparate_impact >= 1"}, ["cannot be certified", "no room"]),
        ({"confidence": 95}, ["confidence=95", "at least 0.5 and below 1"]),
        ({"confidence": 0.2}, ["confidence=0.2"]),
        ({"confidence__calibration_size": 1.0}, ["confidence=Confidence(calibration_size=1.0)", "below 1"]),
    ],
)
def test_what_does_not_go_with_it_is_refused(params, words):
    with refused(*words):
        fit(confident(**params))


def test_sample_weights_in_the_limits_are_refused():
    with refused("groups=Groups(weight='none')", "leave out confidence="):
        fit(confident(), sample_weight=np.arange(1500) % 3)
    with refused("cannot be certified", "the rows have weights"):
        fit(confident(), constraint_weight=np.arange(1500.0) + 1)


@pytest.mark.parametrize(("y", "group"), [([0, 1], ["a", "b"]), ([0, 0, 0, 0, 1], ["a", "a", "b", "b", "a"])])
def test_too_few_rows_to_hold_some_back(y, group):
    with refused("calibration_size=", f"{len(y)} rows are too few", "every label and group"):
        fit(confident(groups__min_size=1), (ROWS[0][: len(y)], np.array(y), np.array(group)))


def test_labels_of_one_class_are_what_is_wrong_not_the_number_of_rows():
    X, _, group = ROWS
    with pytest.raises(ValueError, match="y has one class only"):
        fit(confident(), (X, np.ones(1500, dtype=int), group))


def test_calibration_rows_of_ones_own_that_do_not_fit():
    X, y, group = ROWS
    with refused("calibration_set= needs confidence="):
        fit(quick(LIMIT), calibration_set=(X, y, group))
    with refused("calibration_set", "(X, y, groups)"):
        fit(confident(), calibration_set=X)
    with refused("calibration_set", "same columns as X"):
        fit(confident(), calibration_set=(X[:, :2], y, group))
    with pytest.raises(ValueError, match="No calibration row is of group 'b'"):
        fit(confident(), calibration_set=(X, y, {"group": np.where(group == "b", None, group)}))
    with refused("calibration_set", "'c' in 'group'"):
        fit(confident(), calibration_set=(X, y, {"group": np.where(group == "b", "c", group)}))
