"""Several classes with a limit for each: planted data, and the education level of the Dutch census by sex."""

from __future__ import annotations

import numpy as np
import pytest
from tests.estimator.helpers import quick

from fairbound import ConstrainedClassifier, DemographicParity, LimitWarning, audit, load_dataset
from fairbound.estimator import TableEncoder
from fairbound.estimator.messages import erased_classes


def three_classes(n=900):
    rng = np.random.default_rng(0)
    group = rng.choice(["f", "m"], n)
    X = rng.normal(size=(n, 3))
    X[:, 0] += 0.8 * (group == "m")
    y = np.array(["low", "mid", "top"])[np.digitize(X[:, 0] + 0.5 * rng.normal(size=n), [-0.4, 0.9])]
    return X, y, group


@pytest.mark.parametrize("hidden", [(), pytest.param((6,), marks=pytest.mark.slow)])
def test_a_limit_for_each_class(hidden):
    X, y, group = three_classes()
    free = ConstrainedClassifier(hidden=hidden).fit(X, y)
    clf = ConstrainedClassifier("demographic_parity <= 0.1", hidden=hidden).fit(X, y, sensitive_features=group)
    before, after = (audit(y, model.predict(X), group) for model in (free, clf))
    parity = {each.label: each.value for each in after.measures if each.measure == "demographic_parity"}
    assert max(each.value for each in before.measures if each.measure == "demographic_parity") > 0.15
    assert clf.result_.limits[0].reached == max(parity.values()) <= 0.1
    assert clf.result_.kept
    assert clf.result_.gain > 0
    assert set(clf.result_.groups[0].rates) == {"low", "mid", "top"}
    assert "rates, class top" in str(clf.result_)


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore:.*by selecting almost nobody:fairbound.LimitWarning"
)  # which is how it is kept here
def test_a_limit_on_named_classes():
    X, y, group = three_classes()
    clf = ConstrainedClassifier(DemographicParity(0.05, classes=["top"])).fit(X, y, sensitive_features=group)
    found = {
        each.label: each.value
        for each in audit(y, clf.predict(X), group).measures
        if each.measure == "demographic_parity"
    }
    assert clf.result_.limits[0].reached == found["top"] <= 0.05
    with pytest.raises(ValueError, match=r"class 'best'.*'low', 'mid', 'top'"):
        ConstrainedClassifier(DemographicParity(0.05, classes=["best"])).fit(X, y, sensitive_features=group)


@pytest.mark.filterwarnings("ignore::fairbound.LimitWarning")
def test_classes_in_words_and_by_the_text_of_their_value():
    X, y, group = three_classes(300)
    codes = np.array([{"low": 1, "mid": 2, "top": 3}[label] for label in y])
    limits = ["demographic_parity <= 0.1 for class 3", "demographic_parity <= 0.2 for classes 1, 2"]
    clf = quick(limits, groups__small="warn").fit(X, codes, sensitive_features=group)
    assert [each.limit for each in clf.result_.limits] == limits
    found = {
        each.label: each.value
        for each in audit(codes, clf.predict(X), group).measures
        if each.measure == "demographic_parity"
    }
    assert [each.reached for each in clf.result_.limits] == [found[3], max(found[1], found[2])]


def test_what_several_classes_do_not_have():
    X, y, group = three_classes()
    with pytest.raises(ValueError, match=r"threshold=.*the class with the largest probability: leave threshold=0.5"):
        ConstrainedClassifier(threshold=0.4).fit(X, y)
    with pytest.raises(ValueError, match=r"pos_label='top' .*two classes, .* 3"):
        ConstrainedClassifier(pos_label="top").fit(X, y, sensitive_features=group)


@pytest.mark.slow
def test_the_education_level_of_the_dutch_census_by_sex(dutch_file):
    data = load_dataset("dutch", data_dir=dutch_file.parent)
    data = data.take(np.arange(0, len(data), 20))
    table = data.frame(target=True)
    # Six levels, 0 to 5, of which 0 and 4 are rare: low, middle, high.
    level = np.array(["low", "low", "low", "middle", "high", "high"])[table["edu_level"].astype(int)]
    X, sex = table.drop(columns="edu_level"), data.sensitive["sex"]
    free = ConstrainedClassifier(encoder=TableEncoder(max_categories=10)).fit(X, level)
    clf = ConstrainedClassifier("demographic_parity <= 0.02", encoder=TableEncoder(max_categories=10))
    clf.fit(X, level, sensitive_features={"sex": sex})
    before, after = (
        {
            each.label: each.value
            for each in audit(level, model.predict(X), sex).measures
            if each.measure == "demographic_parity"
        }
        for model in (free, clf)
    )
    assert max(before.values()) > 0.02 >= max(after.values())
    assert set(after) == {"high", "low", "middle"}
    assert clf.result_.kept
    assert clf.result_.limits[0].reached == max(after.values())
    assert clf.result_.gain > 0.05
    assert clf.classes_.tolist() == ["high", "low", "middle"]


def test_a_class_that_is_hardly_ever_decided_is_named():
    """The limits were kept by deciding for one of three classes in 1% of the rows, and no warning named it."""
    X, y, group = three_classes(1500)
    X[:, 0] += 2.0 * (group == "m")
    with pytest.warns(LimitWarning, match="Class 'low' is the label of"):
        clf = ConstrainedClassifier("disparate_impact >= 0.8").fit(X, y, sensitive_features=group)
    assert clf.result_.kept
    assert np.mean(clf.predict(X) == "low") < 0.1 * np.mean(y == "low")
    assert any("Class 'low'" in note and "hardly ever deciding" in note for note in clf.result_.notes)


def test_a_class_is_erased_by_limits_only():
    labelled, free = np.array([500, 300, 200]), np.array([[400.0, 400.0, 200.0]])
    assert erased_classes(np.array([600, 390, 10]), labelled, free) == (2,)
    assert erased_classes(np.array([600, 370, 30]), labelled, free) == ()
    assert erased_classes(np.array([600, 390, 10]), labelled, np.array([[500.0, 490.0, 10.0]])) == ()
    assert erased_classes(np.array([600, 390, 10]), labelled, None) == ()
    assert erased_classes(np.array([990, 10]), np.array([500, 500]), np.array([[500.0, 500.0]])) == ()
