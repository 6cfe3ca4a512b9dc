"""Groups: arrays or columns of X, one or several, missing values, and groups of few rows."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from tests.estimator.helpers import quick, toy
from tests.refusals import refused

from fairbound import ConstrainedClassifier, LimitWarning, audit, rate_limit
from fairbound._errors import SmallGroupWarning
from fairbound.fairness import Cells

GROUPS = ["a", "b"] * 50


def people(n=600, seed=0):
    """A table with two group columns among the inputs."""
    X, y, group = toy(n, seed)
    rng = np.random.default_rng(seed + 1)
    frame = pd.DataFrame(X, columns=["u", "v", "w"])
    frame.insert(1, "sex", np.where(group == "a", "f", "m"))
    frame["race"] = rng.choice(["x", "y", "z"], n, p=[0.5, 0.3, 0.2])
    return frame, y


def test_columns_of_x_leave_the_inputs_and_are_not_needed_to_predict():
    frame, y = people()
    clf = quick("disparate_impact(sex) >= 0.8", sensitive_columns=["sex", "race"]).fit(frame, y)
    assert clf.encoded_names_ == ["u", "v", "w"]
    assert clf.n_features_in_ == 5
    assert audit(y, clf.predict(frame), frame["sex"]).measure("disparate_impact").value >= 0.8
    without = frame.drop(columns=["sex", "race"])
    assert (clf.predict_proba(without) == clf.predict_proba(frame)).all()
    assert (clf.predict_proba(frame.drop(columns="race")) == clf.predict_proba(frame)).all()
    other = frame.assign(sex="unknown", race=None)
    assert (clf.predict_proba(other) == clf.predict_proba(frame)).all()
    with pytest.raises(ValueError, match="yet now missing:\n- v\n"):
        clf.predict(without.drop(columns="v"))


@pytest.mark.slow
def test_columns_may_be_named_when_fitting():
    frame, y = people()
    by_name = quick("disparate_impact >= 0.8").fit(frame, y, sensitive_features="sex")
    by_names = quick("disparate_impact(sex) >= 0.8").fit(frame, y, sensitive_features=["sex", "race"])
    apart = quick("disparate_impact >= 0.8").fit(frame.drop(columns="sex"), y, sensitive_features=frame["sex"])
    assert "sex" not in " ".join(by_name.encoded_names_)
    assert by_names.encoded_names_ == ["u", "v", "w"]
    assert (by_name.predict_proba(frame) == apart.predict_proba(frame.drop(columns="sex"))).all()


@pytest.mark.slow
def test_columns_of_polars_and_of_arrays():
    frame, y = people()
    table = pl.DataFrame(frame.to_dict(orient="list"))
    by_table = quick("disparate_impact >= 0.8", sensitive_columns="sex").fit(table, y)
    array = np.column_stack([frame[["u", "v", "w"]].to_numpy(), (frame["sex"] == "f").to_numpy().astype(float)])
    by_array = quick("disparate_impact >= 0.8", sensitive_columns=3).fit(array, y)
    assert by_table.result_.kept
    assert by_array.result_.kept
    assert by_array.result_.groups[0].grouping == "x3"
    assert (by_array.predict(array[:, :3]) == by_array.predict(array)).all()
    with refused("X has 2 features", "4 features", "or 3, without the group"):
        by_array.predict(array[:, :2])


@pytest.mark.slow
def test_a_group_that_is_an_input_is_asked_for():
    frame, y = people()
    clf = quick("disparate_impact >= 0.8", sensitive_columns="sex", groups__as_input=True)
    clf.fit(frame, y)
    assert "sex=f" in clf.encoded_names_
    with refused("'sex'", "Groups(as_input=True)"):
        clf.predict(frame.drop(columns="sex"))
    named = quick("disparate_impact >= 0.8", groups__as_input=True)
    named.fit(frame, y, sensitive_features="sex")
    with refused("'sex'", "Groups(as_input=True)"):
        named.predict(frame.drop(columns="sex"))
    with refused("Groups(as_input=True)", "sensitive_columns="):
        quick("disparate_impact >= 0.8", groups__as_input=True).fit(
            frame[["u", "v"]], y, sensitive_features=frame["sex"]
        )


def test_a_group_that_is_an_input_is_asked_for_without_names_too():
    X, y, group = toy(100)
    clf = quick("disparate_impact >= 0.1", sensitive_columns=3, groups__as_input=True)
    clf.fit(np.c_[X, group == "a"], y)
    with refused("column number 3", "Groups(as_input=True)"):
        clf.predict(X)


def test_warnings_point_to_the_line_of_the_user():
    X, y, group = with_small_groups()
    table = pd.DataFrame(X, columns=["u", "v", "w"])
    with pytest.warns(LimitWarning, match="left out of the limits") as found:
        clf = quick("demographic_parity <= 0.9", groups__small="warn").fit(table, y, sensitive_features=group)
    with pytest.warns(UserWarning, match="X does not have valid feature names") as more:
        clf.predict(X)
    with pytest.warns(UserWarning, match="X does not have valid feature names") as encoding:
        clf.encoder_.transform(X)
    assert {each.filename for each in (*found, *more, *encoding)} == {__file__}


def test_groups_are_columns_of_x_and_others():
    """The columns named in `sensitive_columns` are groups besides those that `fit` gets."""
    frame, y = people()
    limits, apart = ["disparate_impact(sex) >= 0.8", "disparate_impact(race) >= 0.8"], frame[["race"]]
    both = quick(limits, sensitive_columns="sex").fit(frame.drop(columns="race"), y, sensitive_features=apart)
    expected = quick(limits).fit(frame.drop(columns=["sex", "race"]), y, sensitive_features=frame[["sex", "race"]])
    assert both.encoded_names_ == expected.encoded_names_
    assert both.result_.limits == expected.result_.limits


def test_misspelt_and_contradictory_columns():
    frame, y = people()
    with refused("sensitive_columns=", "'sxe'", "Did you mean 'sex'?"):
        quick("disparate_impact >= 0.8", sensitive_columns="sxe").fit(frame, y)
    with refused("sensitive_features=", "'gender'"):
        quick("disparate_impact >= 0.8").fit(frame, y, sensitive_features="gender")
    with refused("All columns of X are groups"):
        quick("disparate_impact >= 0.8", sensitive_columns="sex").fit(frame[["sex"]], y)
    with pytest.raises(ValueError, match="sensitive_columns= names no column"):
        quick("disparate_impact >= 0.8", sensitive_columns=[]).fit(frame, y)
    with refused("sensitive_features", "3 rows", "there are 600"):
        quick("disparate_impact >= 0.8").fit(frame, y, sensitive_features=np.array([1, 2, 3]))
    with pytest.raises(ValueError, match=r"sensitive_features must have shape \(n,\) or \(n, columns\)"):
        quick("disparate_impact >= 0.8").fit(frame, y, sensitive_features=np.zeros((600, 2, 2)))
    with pytest.raises(ValueError, match="sensitive_features has no column"):
        quick("disparate_impact >= 0.8").fit(frame, y, sensitive_features={})


@pytest.mark.parametrize("groups", ["each", "intersection", "both"])
def test_several_columns_and_their_intersections(groups):
    frame, y = people()
    columns = frame[["sex", "race"]]
    clf = quick("demographic_parity <= 0.15", groups=groups).fit(frame[["u", "v", "w"]], y, sensitive_features=columns)
    found = audit(y, clf.predict(frame[["u", "v", "w"]]), columns, groups=groups)
    values = [each.value for each in found.measures if each.measure == "demographic_parity"]
    assert len(values) == {"each": 2, "intersection": 1, "both": 3}[groups]
    assert clf.result_.limits[0].reached == max(values) <= 0.15
    names = {entry.grouping for entry in clf.result_.groups}
    assert ("sex & race" in names) == (groups != "each")


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_missing_groups_count_in_the_loss_alone(missing):
    X, y, group = toy()
    known = group.astype(object)
    known[::5] = missing
    clf = quick("disparate_impact >= 0.8").fit(X, y, sensitive_features=pd.Series(known, name="sex"))
    assert clf.result_.missing == {"sex": 80}
    assert sum(entry.rows for entry in clf.result_.groups) == 320
    rows = np.arange(len(y)) % 5 > 0
    assert audit(y[rows], clf.predict(X)[rows], group[rows]).measure("disparate_impact").value >= 0.8
    assert "80 rows have no known group" in str(clf.result_)


def test_missing_groups_can_be_a_group():
    X, y, group = toy()
    known = group.astype(object)
    known[::5] = None
    clf = quick("demographic_parity <= 0.1", groups__missing="group").fit(X, y, sensitive_features=known)
    assert {entry.group for entry in clf.result_.groups} == {"a", "b", "(missing)"}
    rates = [entry.rates["1"]["selection_rate"] for entry in clf.result_.groups]
    assert max(rates) - min(rates) <= 0.1
    numbers = np.where(np.arange(len(y)) % 5 > 0, (group == "a").astype(float), np.nan)
    clf = quick("demographic_parity <= 0.9", groups__missing="group").fit(X, y, sensitive_features=numbers)
    assert {entry.group for entry in clf.result_.groups} == {0.0, 1.0, "(missing)"}


def with_small_groups():
    X, y, group = toy()
    group = group.astype(object)
    group[:3], group[3:7] = "c", "d"
    return X, y, group


def test_small_groups_are_an_error_that_lists_them():
    X, y, group = with_small_groups()
    with refused("Groups(min_size=10)", "'c' (3), 'd' (4)", "Groups(small='merge')", "Groups(small='warn')"):
        quick("demographic_parity <= 0.1").fit(X, y, sensitive_features=group)
    ConstrainedClassifier().fit(X, y, sensitive_features=group)  # nothing is limited


def test_small_groups_left_out_are_listed_with_their_counts():
    X, y, group = with_small_groups()
    with pytest.warns(LimitWarning, match=r"left out of the limits.*race: 'c' \(3 rows\); race: 'd'"):
        clf = quick("demographic_parity <= 0.1", groups__small="warn").fit(X, y, sensitive_features={"race": group})
    assert [(each.group, each.rows, each.fate) for each in clf.result_.small_groups] == [
        ("c", 3, "left out"),
        ("d", 4, "left out"),
    ]
    assert "race: 'c' (3 rows) left out of the limits" in str(clf.result_)
    assert {entry.group for entry in clf.result_.groups} == {"a", "b"}
    large = np.isin(group, ["a", "b"])
    found = audit(y[large], clf.predict(X)[large], group[large])
    assert clf.result_.limits[0].reached == found.measure("demographic_parity").value <= 0.1


def test_columns_that_no_limit_concerns_may_have_small_groups():
    X, y, group = with_small_groups()
    columns = {"sex": toy()[2], "village": group}
    for limit in "disparate_impact(sex) >= 0.1", "selection_rate(sex)[a] >= 0.01":
        clf = quick(limit).fit(X, y, sensitive_features=columns)
        assert clf.result_.small_groups == ()
        assert len([each for each in clf.result_.groups if each.grouping == "village"]) == 4
    with refused("'village'", "fewer than groups=Groups(min_size="):
        quick("disparate_impact >= 0.1").fit(X, y, sensitive_features=columns)


def test_some_group_must_be_left():
    X, y, group = toy(14)
    with refused("All groups of 'sensitive_feature'", "Groups(min_size=10)", "'a' (", "'b' ("):
        quick("disparate_impact >= 0.1", groups__small="warn").fit(X, y, sensitive_features=group)


def test_members_of_a_group_left_out_are_not_missing():
    X, y, group = with_small_groups()
    group[10:15] = None
    with pytest.warns(LimitWarning, match=r"'c' \(3 rows\)"):
        clf = quick("demographic_parity <= 0.5", groups__small="warn").fit(X, y, sensitive_features=group)
    assert clf.result_.missing == {"sensitive_feature": 5}
    assert "5 rows have no known group" in str(clf.result_)


def test_a_measurement_is_no_group():
    X, y, _ = toy(100)
    with refused("'age'", "100 different numbers", "and 90 more", "bins"):
        quick("demographic_parity <= 0.5").fit(X, y, sensitive_features={"age": X[:, 0]})


@pytest.mark.slow
def test_small_groups_merge_until_they_are_large_enough():
    X, y, group = with_small_groups()
    clf = quick("demographic_parity <= 0.2", groups__small="merge", groups__min_size=5).fit(
        X, y, sensitive_features=group
    )
    assert {entry.group: entry.rows for entry in clf.result_.groups}["(other)"] == 7
    with pytest.warns(SmallGroupWarning, match=r"'c': 3, 'd': 4.*rows\) is merged"):
        more = quick("demographic_parity <= 0.2", groups__small="merge", groups__min_size=10).fit(
            X, y, sensitive_features=group
        )
    assert {entry.group for entry in more.result_.groups} & {"a", "b"} in ({"a"}, {"b"})
    merged = np.where(np.isin(group, ["c", "d"]), "(other)", group)
    found = audit(y, clf.predict(X), merged)
    assert clf.result_.limits[0].reached == found.measure("demographic_parity").value <= 0.2
    with refused("All groups of 'sensitive_feature'", "400 rows", "Groups(min_size=1000)"):
        quick("demographic_parity <= 0.2", groups__small="merge", groups__min_size=1000).fit(
            X, y, sensitive_features=group
        )


def test_a_merge_that_leaves_nothing_to_compare_is_refused():
    X, y, group = toy()
    group = np.where(np.arange(len(y)) < 6, "few", "many")
    with refused("one group of all groups", "'few' (6 rows)", "'many' (394 rows)", "Groups(small='warn')"):
        quick("demographic_parity <= 0.2", groups__small="merge").fit(X, y, sensitive_features=group)


@pytest.mark.parametrize("named", ["c", "b"])
def test_a_limit_that_names_a_merged_group_says_what_happened(named):
    X, y, group = with_small_groups()
    group = np.where((group == "b") & (np.arange(len(group)) % 4 > 0), "a", group)  # b is the next smallest
    limit = f"demographic_parity <= 0.2 against {named}"
    with refused(f"'{named}'", "Groups(small='merge')", "'c' (3 rows)", "merges with others"):
        quick(limit, groups__small="merge", groups__min_size=10).fit(X, y, sensitive_features=group)


def test_groups_in_which_a_rate_is_undefined_are_small_too():
    X, y, group = toy()
    group = group.astype(object)
    group[np.flatnonzero(y == 0)[:15]] = "c"  # nobody there has the label 1
    limit = "equal_opportunity <= 0.1"
    with pytest.raises(ValueError, match="equal_opportunity is undefined for group 'c'"):
        quick(limit).fit(X, y, sensitive_features=group)
    with pytest.warns(LimitWarning, match=r"'c' \(15 rows\)"):
        clf = quick(limit, groups__small="warn").fit(X, y, sensitive_features=group)
    assert clf.result_.limits[0].reached <= 0.1
    with pytest.warns(SmallGroupWarning, match="'c': 15"):  # with a larger group it has rows of both labels
        merged = quick(limit, groups__small="merge").fit(X, y, sensitive_features=group)
    assert "(other)" in {entry.group for entry in merged.result_.groups}
    quick("demographic_parity <= 0.5", groups__small="warn").fit(X, y, sensitive_features=group)


def test_small_intersections_are_left_out_alone():
    frame, y = people()
    frame.loc[(frame["sex"] == "f") & (frame["race"] == "z"), "race"] = "x"
    frame.loc[frame.index[frame["sex"] == "f"][:4], "race"] = "z"
    with pytest.warns(LimitWarning, match=r"sex & race: f & z \(4 rows\)"):
        clf = quick("demographic_parity <= 0.3", groups="both", groups__small="warn").fit(
            frame[["u", "v", "w"]], y, sensitive_features=frame[["sex", "race"]]
        )
    assert len([entry for entry in clf.result_.groups if entry.grouping == "sex & race"]) == 5
    assert {entry.group for entry in clf.result_.groups if entry.grouping == "race"} == {"x", "y", "z"}


def test_validation_rows_follow_what_became_of_small_intersections():
    frame, y = people()
    frame.loc[(frame["sex"] == "f") & (frame["race"] == "z"), "race"] = "x"
    frame.loc[frame.index[frame["sex"] == "f"][:4], "race"] = "z"
    X, groups = frame[["u", "v", "w"]], frame[["sex", "race"]]
    for policy in "warn", "merge":
        clf = quick("demographic_parity <= 0.3", groups="intersection", groups__small=policy)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LimitWarning)
            limit = clf.fit(X, y, sensitive_features=groups, eval_set=(X, y, groups)).result_.limits[0]
        assert limit.eval_reached == limit.reached


def test_validation_rows_have_the_groups_of_the_training_rows():
    X, y, group = toy(100)
    clf = quick("disparate_impact >= 0.1")
    with pytest.raises(ValueError, match="eval_set needs groups, too"):
        clf.fit(X, y, sensitive_features=group, eval_set=(X, y))
    other = np.where(group == "a", "A", "b")
    with refused("eval_set", "'A' in 'sex'", "('a', 'b'"):
        clf.fit(X, y, sensitive_features={"sex": group}, eval_set=(X, y, {"sex": other}))
    with refused("eval_set", "'gender'", "'sex'"):
        clf.fit(X, y, sensitive_features={"sex": group}, eval_set=(X, y, {"gender": group}))
    limited = quick("disparate_impact(sex) >= 0.1")  # an array has no name, and stands for the one column there is
    limited.fit(X, y, sensitive_features={"sex": group}, eval_set=(X, y, group))
    assert limited.result_.limits[0].eval_reached == limited.result_.limits[0].reached


def test_validation_rows_have_their_groups_in_the_columns_that_fit_names():
    frame, y = people(200)
    clf = quick("disparate_impact >= 0.1").fit(frame, y, sensitive_features=["sex", "race"], eval_set=(frame, y))
    assert clf.result_.limits[0].eval_reached == clf.result_.limits[0].reached


def test_validation_rows_follow_what_became_of_small_groups():
    X, y, group = with_small_groups()
    clf = quick("demographic_parity <= 0.3", groups__small="merge", groups__min_size=5).fit(
        X, y, sensitive_features=group, eval_set=(X, y, group)
    )
    assert clf.result_.limits[0].eval_reached == clf.result_.limits[0].reached


@pytest.mark.parametrize(
    "table",
    [
        {1: GROUPS, "1": GROUPS[::-1]},
        {("a",): GROUPS, "('a',)": GROUPS},
        pd.DataFrame([[a, b] for a, b in zip(GROUPS, GROUPS[::-1], strict=True)], columns=["1", "1"]),
        pd.DataFrame({1: GROUPS, "1": GROUPS[::-1]}),
        pa.table([GROUPS, GROUPS], names=["1", "1"]),
    ],
    ids=["dict", "tuple", "pandas twice", "pandas number and text", "pyarrow"],
)
def test_two_columns_of_one_name_are_refused_and_shown(table):
    X, y, _ = toy(len(GROUPS))
    with refused("sensitive_features", "give each column a name of its own"):
        quick("disparate_impact >= 0.5").fit(X, y, sensitive_features=table)
    with pytest.raises(ValueError, match=r"sensitive_features has the columns"):
        Cells.build(y, table)


def test_groups_that_read_the_same_are_refused():
    X, y, group = toy(100)
    mixed = np.where(np.arange(100) % 2 == 0, "1", group).astype(object)
    mixed[group == "a"] = 1
    with pytest.raises(ValueError, match=r"has the groups .*1.* and .*1.*, which look the same"):
        quick("disparate_impact >= 0.5").fit(X, y, sensitive_features=mixed)


@pytest.mark.parametrize("name", ["everyone", "overall", "all", "(other)", "(missing)", "pairwise"])
def test_a_group_named_like_a_word_of_ours_is_a_group_like_any_other(name):
    X, y, group = toy(150)
    named = np.where(group == "a", name, "b").astype(object)
    clf = quick(rate_limit("selection_rate", group=name, lower=0.0, upper=0.9)).fit(X, y, sensitive_features=named)
    decided = clf.predict(X)
    found = {each.group: each.rates["1"]["selection_rate"] for each in clf.result_.groups}
    assert found == {
        name: pytest.approx(decided[group == "a"].mean()),
        "b": pytest.approx(decided[group == "b"].mean()),
    }
    assert clf.result_.limits[0].reached == pytest.approx(found[name])


def test_a_merged_group_does_not_name_a_group_of_the_data():
    # Where the data have a group "(other)", the merged one has another name.
    from fairbound.estimator.small_groups import SmallGroup

    said = str(SmallGroup("race", "c", 3, "merged"))
    assert "race: 'c' (3 rows) merged" in said
    assert "(other)" not in said


def test_rates_of_all_groups_of_several_columns_within_a_part_of_the_rate_of_everyone():
    frame, y = people()
    limit = "0.9 <= disparate_impact <= 1.1 against overall"
    clf = quick(limit, sensitive_columns=["sex", "race"]).fit(frame, y)
    decided = clf.predict(frame)

    def most(selected):
        """Return the largest |rate / rate of everyone - 1|."""
        groups = [frame[column] == group for column in ("sex", "race") for group in frame[column].unique()]
        return max(abs(selected[rows].mean() / selected.mean() - 1) for rows in groups)

    free = quick(sensitive_columns=["sex", "race"]).fit(frame, y)
    assert most(free.predict(frame)) > 0.3  # so the limit binds
    assert most(decided) <= 0.1 + 1e-12
    assert abs(clf.result_.limits[0].reached - 1) == pytest.approx(most(decided), abs=1e-12)
