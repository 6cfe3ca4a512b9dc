"""Inputs of any kind: the same values give the same model, and what is wrong with them is said in a sentence."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from tests.estimator.helpers import quick, toy
from tests.refusals import refused
from torch import nn

from fairbound import ConstrainedClassifier
from fairbound.estimator import TableEncoder
from fairbound.estimator.columns import CategoryColumn, NumberColumn
from fairbound.estimator.inputs import read_inputs, share_inputs


def table():
    """Numbers, codes, words and flags, with missing values in each but the first."""
    rng = np.random.default_rng(0)
    n = 240
    columns = {
        "income": rng.lognormal(size=n),
        "rooms": rng.integers(1, 5, n),
        "job": rng.choice(["cook", "nurse", "smith"], n),
        "owner": rng.choice([True, False], n),
    }
    y = (np.log(columns["income"]) + (columns["job"] == "nurse") + 0.5 * rng.normal(size=n) > 0.3).astype(int)
    lists = {name: values.tolist() for name, values in columns.items()}
    for name, step in (("rooms", 11), ("job", 13), ("owner", 17)):
        lists[name][::step] = [None] * len(lists[name][::step])
    return lists, y, rng.choice(["f", "m"], n)


def as_kinds():
    lists, y, group = table()
    plain = pd.DataFrame(lists)
    return (
        {
            "pandas": plain,
            "pandas nullable": plain.convert_dtypes(),
            "pandas categories": plain.astype({"job": "category"}),
            "polars": pl.DataFrame(lists),
            "polars categories": pl.DataFrame(lists).with_columns(pl.col("job").cast(pl.Categorical)),
            "pyarrow": pa.table(lists),
            "dictionary of lists": lists,
            "dictionary of arrays": {name: np.array(values) for name, values in lists.items()},
        },
        y,
        group,
    )


def test_sparse_matrices_stay_sparse(monkeypatch):
    """They are scaled without subtracting the mean, which changes the intercept of a linear model only."""
    rng = np.random.default_rng(0)
    X = rng.normal(1.0, 1.0, (400, 6)) * (rng.random((400, 6)) < 0.3)
    group, y = rng.integers(0, 2, 400), (X.sum(axis=1) + rng.normal(size=400) > 1.8).astype(int)
    weights = rng.integers(1, 4, 400)
    plain, thin = (
        ConstrainedClassifier("disparate_impact >= 0.9").fit(
            kind(X), y, sensitive_features=group, sample_weight=weights
        )
        for kind in (np.asarray, sparse.csr_array)
    )
    scaled = thin.encoder_.transform(sparse.csr_matrix(X))
    assert sparse.issparse(scaled)
    assert np.allclose(scaled.toarray(), thin.encoder_.transform(X))
    assert np.allclose(thin.coef_, plain.coef_, rtol=1e-3)
    assert (thin.predict(X) == plain.predict(X)).mean() > 0.99
    assert (thin.predict(X) == thin.predict(sparse.csc_array(X))).all()
    assert (plain.predict(X) == plain.predict(sparse.csr_array(X))).all()
    assert thin.result_.forecast.holds is not None

    wide = sparse.random_array((300, 5000), density=2e-3, rng=rng, format="csr")
    monkeypatch.setattr(sparse.csr_array, "toarray", None)
    monkeypatch.setattr(sparse.csc_array, "toarray", None)
    clf = ConstrainedClassifier("disparate_impact >= 0.9").fit(wide, y[:300], sensitive_features=group[:300])
    assert clf.result_.kept
    assert clf.predict(wide).shape == (300,)


def test_missing_values_categories_and_networks_with_sparse_matrices():
    X, y, _ = toy()
    X = np.where(X > 0.3, np.round(X), 0.0)
    X[4, 0] = np.nan
    for options in ({"encoder": TableEncoder(categorical=[1])}, {"hidden": (2,)}):
        plain, thin = (
            ConstrainedClassifier(**options, random_state=0).fit(kind(X), y) for kind in (np.asarray, sparse.csr_matrix)
        )
        assert thin.encoded_names_ == plain.encoded_names_
        assert (thin.predict(X) == thin.predict(sparse.csr_array(X))).all()
        assert (thin.predict(X) == plain.predict(X)).mean() > 0.9
    with pytest.raises(ValueError, match="contains NaN, first in row 4, column number 0"):
        ConstrainedClassifier(encoder=None).fit(sparse.csr_array(X), y)


@pytest.mark.slow
def test_the_same_call_on_numpy_pandas_and_polars_gives_the_same_model(law, race):
    numbers = np.asarray(law.X)
    frames = [
        numbers,
        numbers.tolist(),
        np.asfortranarray(numbers),
        pd.DataFrame(numbers, columns=list(law.feature_names)),
        pl.DataFrame(numbers, schema=list(law.feature_names)),
        pa.table(dict(zip(law.feature_names, numbers.T, strict=True))),
    ]
    models = [ConstrainedClassifier("disparate_impact >= 0.9").fit(X, law.y, sensitive_features=race) for X in frames]
    found = [clf.predict_proba(X) for clf, X in zip(models, frames, strict=True)]
    assert all((p == found[0]).all() for p in found)
    assert all((clf.coef_ == models[0].coef_).all() for clf in models)


def test_tables_of_any_library_give_the_same_model():
    frames, y, group = as_kinds()
    models = {
        name: ConstrainedClassifier("disparate_impact >= 0.5").fit(X, y, sensitive_features=group)
        for name, X in frames.items()
    }
    first = models["pandas"]
    assert first.encoded_names_ == [
        "income", "rooms", "rooms=(missing)", "job=cook", "job=nurse", "job=smith", "job=(missing)", "owner",
        "owner=(missing)",
    ]  # fmt: skip
    for name, clf in models.items():
        assert clf.encoder_.columns_ == first.encoder_.columns_, name
        assert (clf.coef_ == first.coef_).all(), name
        for other in frames.values():  # fitted on one, asked with another
            assert (clf.predict_proba(other) == first.predict_proba(frames["pandas"])).all()
    assert first.feature_names_in_.tolist() == ["income", "rooms", "job", "owner"]


def test_codes_are_categories_when_they_are_named():
    frames, y, _ = as_kinds()
    found = []
    for X in frames.values():
        clf = ConstrainedClassifier(encoder=TableEncoder(categorical=["rooms"])).fit(X, y)
        assert [name for name in clf.encoded_names_ if name.startswith("rooms")] == [
            "rooms=1", "rooms=2", "rooms=3", "rooms=4", "rooms=(missing)",
        ]  # fmt: skip
        found.append(clf.predict_proba(X))
    assert all((p == found[0]).all() for p in found)
    by_number = ConstrainedClassifier(encoder=TableEncoder(categorical=[1])).fit(frames["pandas"], y)
    assert (by_number.predict_proba(frames["pandas"]) == found[0]).all()


def test_labels_and_groups_of_any_library():
    frames, y, group = as_kinds()
    words = np.where(y == 1, "yes", "no")
    found = []
    for labels, groups in [
        (words, group),
        (words.tolist(), group.tolist()),
        (pd.Series(words), pd.Series(group, name="sex")),
        (pd.Series(words).astype("category"), pd.DataFrame({"sex": pd.Categorical(group)})),
        (pl.Series(words), pl.DataFrame({"sex": group})),
        (pa.chunked_array([words]), pa.table({"sex": group})),
        (words, {"sex": group}),
        (words, group[:, None]),
    ]:
        clf = ConstrainedClassifier("disparate_impact >= 0.8").fit(frames["pandas"], labels, sensitive_features=groups)
        found.append(clf.predict_proba(frames["pandas"]))
        assert set(clf.predict(frames["pandas"])) == {"yes", "no"}
    assert all((p == found[0]).all() for p in found)


def test_a_transformer_of_ones_own_replaces_the_encoder():
    frames, y, group = as_kinds()
    X = frames["pandas"].drop(columns="owner").fillna({"rooms": 0, "job": "none"})
    own = ColumnTransformer([("words", OneHotEncoder(), ["job"]), ("numbers", StandardScaler(), ["income", "rooms"])])
    clf = ConstrainedClassifier("disparate_impact >= 0.5", encoder=own).fit(X, y, sensitive_features=group)
    assert clf.encoder_ is not own
    assert not hasattr(own, "transformers_")
    assert clf.encoded_names_ == own.fit(X).get_feature_names_out().tolist()
    assert clf.score(X, y) > 0.7


def test_without_preprocessing_numbers_are_scaled_for_our_network_and_as_they_are_for_others():
    X, y, _ = toy()
    clf = ConstrainedClassifier(hidden=nn.Linear(3, 1), encoder=None).fit(X, y)
    assert (clf.coef_ == clf.model_.weight.detach().numpy()).all()
    assert clf.encoder_ is None
    clf = ConstrainedClassifier(encoder=None).fit(X, y)
    assert np.allclose(clf.decision_function(X), clf.encoder_.transform(X) @ clf.coef_[0] + clf.intercept_[0])
    X[3, 1] = np.nan
    with refused("NaN", "row 3", "column number 1"):
        clf.fit(X, y)


def test_an_encoder_with_other_settings_is_visible_and_replaceable():
    frames, y, _ = as_kinds()
    clf = ConstrainedClassifier(encoder=TableEncoder(max_categories=2, scale=False)).fit(frames["polars"], y)
    job = clf.encoder_.columns_[2]
    assert job == CategoryColumn("job", job.words, numeric=False, other=True, missing=True, rare=job.rare)
    assert sorted([*job.words, *job.rare]) == ["cook", "nurse", "smith"]
    assert len(job.words) == 1
    assert clf.encoder_.columns_[0] == NumberColumn("income", 0.0, 1.0, missing=False)


def test_what_training_has_not_seen():
    X = pd.DataFrame({"job": ["cook"] * 5 + ["nurse"] * 4 + ["smith"], "age": np.arange(10.0)})
    encoder = TableEncoder(max_categories=2).fit(X)
    assert encoder.get_feature_names_out().tolist() == ["job=cook", "job=(other)", "age"]
    new = pd.DataFrame({"job": ["cook", "smith", "baker", None], "age": [4.5, np.nan, 4.5, 1e300]})
    assert encoder.transform(new).tolist() == [
        [1, 0, 0],
        [0, 1, 0],
        [0, 1, 0],
        [0, 1, 1e100],  # cut, so that no product overflows
    ]
    narrow = TableEncoder().fit(X)
    assert narrow.transform(new)[2:, :3].tolist() == [[0, 0, 0], [0, 0, 0]]  # none of the words


def test_words_and_numbers_in_one_column_are_words():
    encoder = TableEncoder().fit(np.array([["1"], [1], [1.0], [2], ["x"], [None]], dtype=object))
    assert encoder.columns_[0].words == ("1", "2", "x")
    assert encoder.transform(np.array([[2.0], ["2"], [np.nan]], dtype=object)).tolist() == [
        [0, 1, 0, 0],
        [0, 1, 0, 0],
        [0, 0, 0, 1],
    ]


def test_objects_that_all_are_numbers_are_numbers():
    encoder = TableEncoder().fit(np.array([[1, True], [2.5, False], [None, True]], dtype=object))
    assert all(isinstance(column, NumberColumn) for column in encoder.columns_)
    assert encoder.columns_[0].mean == 1.75


def test_weights_count_in_means_and_words():
    X = pd.DataFrame({"age": [1.0, 3.0, 100.0, np.nan], "job": ["a", "b", "c", "a"]})
    encoder = TableEncoder().fit(X, sample_weight=[1.0, 3.0, 0.0, 0.0])
    age, job = encoder.columns_
    assert (age.mean, age.scale, age.missing) == (2.5, pytest.approx(np.sqrt(0.75), rel=1e-15), False)
    assert job.words == ("a", "b")


@pytest.mark.parametrize("values", [[5.0] * 4, [1e9, 1e9, 1e9, 1e9 + 1e-7], [np.nan] * 4])
def test_columns_without_variation_are_left_in_their_scale(values):
    assert TableEncoder().fit(np.array(values)[:, None]).columns_[0].scale == 1.0


def test_sparse_columns_of_pandas_and_decimals_are_numbers():
    X, y, _ = toy(100)
    X = X.round(2)
    sparse_columns = pd.DataFrame(
        {name: pd.arrays.SparseArray(X[:, j], fill_value=0.0) for j, name in enumerate("uvw")}
    )
    decimals = pd.DataFrame([[Decimal(f"{value:.2f}") for value in row] for row in X], columns=list("uvw"))
    decimals.iloc[3, 1] = None
    gap = X.copy()
    gap[3, 1] = np.nan
    for table, plain in (sparse_columns, X), (decimals, gap):
        found, expected = TableEncoder().fit(table), TableEncoder().fit(plain)
        assert found.transform(table).tolist() == expected.transform(plain).tolist()
    assert quick().fit(sparse_columns, y).encoded_names_ == ["u", "v", "w"]


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow", "dict"])
def test_the_three_tables_of_a_data_set_go_straight_in(backend, law):
    X, y, sensitive = law.frames(backend=backend)  # y is a table of one column, which is no reason to warn
    clf = quick("disparate_impact(race) >= 0.5").fit(X, y, sensitive_features=sensitive)
    assert (
        clf.predict(X)
        == quick("disparate_impact >= 0.5")
        .fit(law.frame(), law.y, sensitive_features=law.groups("race"))
        .predict(law.frame())
    ).all()


def test_a_dictionary_of_columns_has_the_names_of_its_columns():
    X, y, _ = toy(100)
    columns = {"a": X[:, 0], "b": X[:, 1]}
    clf = quick().fit(columns, y)
    assert clf.feature_names_in_.tolist() == ["a", "b"]
    assert (clf.predict(columns) == clf.predict(pd.DataFrame(columns))).all()
    with pytest.raises(ValueError, match="Feature names seen at fit time, yet now missing"):
        clf.predict({"a": X[:, 0]})


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"a": [1, 2, 3], "b": [1, 2]}, r"different lengths: \{'a': 3, 'b': 2\}"),
        ({"a": [[1, 2], [3, 4]]}, r"Column 'a' of X has shape \(2, 2\)"),
        ({"a": 1.0}, r"Column 'a' of X has shape \(\)"),
        ({}, r"0 feature\(s\)"),
        ({"a": []}, r"0 sample\(s\)"),
    ],
)
def test_dictionaries_that_are_no_table(columns, words):
    with pytest.raises(ValueError, match=words):
        read_inputs(columns)


def test_masked_values_are_missing():
    X, y, group = toy(100)
    masked = np.ma.masked_array(X, mask=X > 2.5)
    hidden = np.where(X > 2.5, np.nan, X)
    assert TableEncoder().fit_transform(masked).tolist() == TableEncoder().fit_transform(hidden).tolist()
    clf = quick("disparate_impact >= 0.1").fit(X, y, sensitive_features=np.ma.masked_array(group, mask=X[:, 0] > 2))
    assert clf.result_.missing == {"sensitive_feature": int((X[:, 0] > 2).sum())}
    assert quick().fit(X, np.ma.masked_array(y)).classes_.tolist() == [0, 1]
    with pytest.raises(ValueError, match="Input y contains missing labels"):
        quick().fit(X, np.ma.masked_array(y, mask=X[:, 0] > 2))


@pytest.mark.parametrize("X", [pd.DataFrame({"code": [1.0, np.inf, 2.0]}), np.array([[1.0], [np.inf], [2.0]])])
def test_an_infinity_is_no_category(X):
    with pytest.raises(ValueError, match=r"X contains infinity in column ('code'|number 0), row 1"):
        quick(encoder=TableEncoder(categorical=[0])).fit(X, [0, 1, 1])


def test_large_numbers_do_not_overflow():
    X = np.array([[8e307], [-8e307], [1e307], [0.0]])
    encoded = TableEncoder().fit_transform(X)
    assert np.isfinite(encoded).all()
    assert encoded.std() == pytest.approx(1.0)


def test_bad_settings_of_the_encoder():
    with refused("max_categories=1", "at least 2"):
        TableEncoder(max_categories=1).fit([[1.0]])
    with refused("categorical=", "'jbo'", "Did you mean 'job'"):
        TableEncoder(categorical=["jbo"]).fit(pd.DataFrame({"job": [1, 2]}))
    with refused("categorical=", "'job'", "no column names"):
        TableEncoder(categorical=["job"]).fit([[1.0]])
    with refused("categorical= has 3", "1 columns", "from 0"):
        TableEncoder(categorical=[3]).fit([[1.0]])
    with refused("categorical= has 1.5", "name of a column", error=TypeError):
        TableEncoder(categorical=[1.5]).fit([[1.0]])


@pytest.mark.parametrize("library", ["numpy", "pandas", "polars", "pyarrow", "sparse", "objects"])
@pytest.mark.parametrize("preprocessing", ["auto", None])
def test_infinities_always_raise(library, preprocessing):
    X, y, _ = toy()
    make = {
        "numpy": lambda values: values,
        "pandas": lambda values: pd.DataFrame(values, columns=["u", "v", "w"]),
        "polars": lambda values: pl.DataFrame(values, schema=["u", "v", "w"]),
        "pyarrow": lambda values: pa.table(dict(zip("uvw", values.T, strict=True))),
        "sparse": sparse.csr_array,
        "objects": lambda values: values.astype(object),
    }[library]
    clf = ConstrainedClassifier(encoder=preprocessing).fit(make(X), y)
    X[5, 1] = -np.inf
    with pytest.raises(ValueError, match=r"X contains infinity in column .*1|X contains infinity in column 'v', row 5"):
        clf.predict(make(X))
    with pytest.raises(ValueError, match="X contains infinity"):
        clf.fit(make(X), y)


@pytest.mark.parametrize(
    ("X", "kind", "words"),
    [
        (
            pd.DataFrame({"when": pd.to_datetime(["2020-01-01"] * 2)}),
            TypeError,
            "'when' of X holds .*string or a number",
        ),
        (
            pl.DataFrame({"many": [[1], [2, 3]]}),
            TypeError,
            "'many' of X holds List.* argument must be a string or a num",
        ),
        (np.array([[{"a": 1}], [2]], dtype=object), TypeError, "X has {'a': 1} in column number 0, row 0"),
        (np.array([[1j], [2]]), ValueError, "Complex data not supported"),
        (pl.LazyFrame({"a": [1, 2]}), TypeError, r"must be the name of a column"),
        (pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"]), ValueError, "several columns of the same name"),
        (pd.DataFrame([[1, 2], [3, 4]], columns=["a", 1]), TypeError, "Feature names are only supported if all"),
        (pd.DataFrame({"a": []}), ValueError, "0 sample"),
        (pd.DataFrame(index=[0, 1]), ValueError, "0 feature"),
        (np.zeros(2), ValueError, "Reshape your data"),
        (np.array(["2020-01-01"] * 2, dtype="datetime64[D]")[:, None], TypeError, "values of type datetime64"),
        (sparse.csr_array((2, 2**29)), ValueError, "sparse with .* columns, but at most"),
    ],
)
def test_inputs_that_cannot_be_read(X, kind, words):
    with pytest.raises(kind, match=words):
        ConstrainedClassifier().fit(X, [0, 1])


def test_a_data_set_is_not_its_inputs(law):
    with refused("X is a Dataset", "data.frame()", error=TypeError):
        quick().fit(law, law.y)
    clf = quick("disparate_impact(race) >= 0.5").fit(law.X, law.y, sensitive_features=law)  # but it has the groups
    assert {each.grouping for each in clf.result_.groups} == {"race", "sex"}


def test_words_that_nobody_encodes():
    frames, y, _ = as_kinds()
    with refused("'job'", "words", "encoder="):
        quick(encoder=None).fit(frames["pandas"][["income", "job"]], y)
    chosen = ColumnTransformer([("same", "passthrough", ["income", "job"])])
    with pytest.raises(ValueError, match=r"encoder=ColumnTransformer\(...\), column number 1 holds"):
        quick(encoder=chosen).fit(frames["pandas"], y)


def test_words_where_numbers_were():
    frames, y, _ = as_kinds()
    clf = ConstrainedClassifier().fit(frames["pandas"], y)
    wrong = frames["pandas"].astype({"income": object})
    wrong.loc[4, "income"] = "much"
    with pytest.raises(ValueError, match="'income' has 'much' in row 4 of X"):
        clf.predict(wrong)


def test_columns_that_are_not_those_of_fit():
    frames, y, _ = as_kinds()
    clf = ConstrainedClassifier().fit(frames["polars"], y)
    with pytest.raises(ValueError, match="Feature names seen at fit time, yet now missing:\n- job"):
        clf.predict(frames["polars"].drop("job"))
    with pytest.raises(ValueError, match="Feature names must be in the same order") as caught:
        clf.predict(frames["polars"].select(["rooms", "income", "job", "owner"]))
    assert "X[list(model.feature_names_in_)]" in str(caught.value)
    with refused("Feature names unseen at fit time:\n- id", "X[list(model.feature_names_in_)]"):
        clf.predict(frames["pandas"].assign(id=1))
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        clf.predict(frames["pandas"].to_numpy())
    with refused("2 features", "4"), pytest.warns():
        clf.predict(np.zeros((2, 2)))
    plain = ConstrainedClassifier().fit(*toy()[:2])
    with pytest.warns(UserWarning, match="was fitted without feature names"):
        plain.predict(pd.DataFrame(toy()[0], columns=["a", "b", "c"]))


def test_inputs_are_read_only_once():
    inputs = read_inputs([[1.0]])
    assert read_inputs(inputs) is inputs


def test_many_rows_are_encoded_in_parts(monkeypatch):
    frames, y, _ = as_kinds()
    clf = ConstrainedClassifier().fit(frames["polars"], y)
    whole = {name: clf.predict_proba(X) for name, X in frames.items()}
    monkeypatch.setattr("fairbound.estimator.fitted_model.ENCODED_AT_ONCE", 50)
    for name, X in frames.items():
        assert (clf.predict_proba(X) == whole[name]).all()


def fitted(values, **params):
    table = pd.DataFrame({"c": values, "x": np.linspace(-1, 1, len(values))})
    return quick(**params).fit(table, [0, 1] * (len(values) // 2))


def asked(clf, values):
    return clf.predict_proba(pd.DataFrame({"c": values, "x": 0.5})).tolist()


def test_shared_inputs_are_encoded_once_for_equal_encoders_and_anew_for_others():
    X = pd.DataFrame({"age": [20.0, 30.0, 40.0, 50.0], "job": ["cook", "nurse", "cook", "smith"]})
    shared = share_inputs(X)
    one, same, other = (TableEncoder().fit(rows) for rows in (X, X, X[:3]))
    first = one.transform(shared)
    assert same.transform(shared) is first
    assert other.transform(shared).tolist() == other.transform(X).tolist() != first.tolist()
    assert one.transform(shared).tolist() == first.tolist() == one.transform(X).tolist()
    assert one.transform(shared.take(slice(2))).tolist() == first[:2].tolist()


def test_text_of_training_as_numbers_is_matched_or_refused():
    clf = fitted(["1", "2", "A1", "3"] * 10)
    assert asked(clf, [1, 2]) == asked(clf, ["1", "2"]) == asked(clf, [1.0, 2.0])
    assert asked(clf, pd.array([1, None], dtype="Int64"))[0] == asked(clf, ["1"])[0]
    padded = fitted(["01", "02", "A1", "3"] * 10)
    for values in ([1, 2], [1.0, np.nan], pd.array([None, 2], dtype="Int64"), np.array(["3", 1], dtype=object)):
        with pytest.raises(ValueError, match=r"'c' was text in training, .*'0[12]'.* of X"):
            asked(padded, values)
    assert asked(padded, [3]) == asked(padded, ["3"])
    assert asked(padded, [7]) == asked(padded, ["7"])  # training has seen neither
    with pytest.raises(ValueError, match="values such as 'true'"):
        asked(fitted(["true", "false", "x", "y"] * 10), [True, False])
    flags = fitted(["True", "False", "x", "y"] * 10)
    assert asked(flags, [True, False]) == asked(flags, ["True", "False"])


def test_rare_text_is_not_mistaken_for_a_number_either():
    clf = fitted([f"{place:03d}" for place in range(80)], encoder=TableEncoder(max_categories=10))
    with refused("text in training", "'079'"):
        asked(clf, [79])


def test_codes_of_training_as_text_are_matched():
    clf = fitted([1, 2, 3, 4] * 10, encoder=TableEncoder(categorical=["c"]))
    assert asked(clf, ["1", "02", "3.0"]) == asked(clf, [1, 2, 3])
    assert asked(clf, ["x", "y"]) == asked(clf, [8, 9])  # training has seen none


def test_numbers_of_training_as_text_are_read_and_the_culprit_is_named():
    clf = fitted([19.0, 20.0, np.nan, 2.5] * 10)
    assert asked(clf, ["19", " 2.50 ", "n/a", None]) == asked(clf, [19, 2.5, None, None])
    with pytest.raises(ValueError, match="'c' has 'forty' in row 2 of X"):
        asked(clf, ["19", "20", "forty"])


BIG = [2**63 - 1 - place for place in range(40)]


@pytest.mark.parametrize(
    "make",
    [
        lambda ids, x: pa.table({"id": pa.array(ids, pa.uint64()), "x": x}),
        lambda ids, x: pa.table({"id": pa.array(ids, pa.int64()), "x": x}),
        lambda ids, x: pa.table({"id": pa.array([*ids[:-1], None], pa.int64()), "x": x}),
        lambda ids, x: pl.DataFrame({"id": ids, "x": x}),
        lambda ids, x: pd.DataFrame({"id": pd.array([*ids[:-1], None], dtype="Int64"), "x": x}),
        lambda ids, x: np.stack([np.array(ids), np.arange(len(ids))], axis=1),
        lambda ids, x: {"id": np.array(ids), "x": x},
        lambda ids, x: np.array(list(zip(ids, x.tolist(), strict=True)), dtype=object),
    ],
)
def test_identifiers_of_64_bits_are_rounded_with_a_warning_only(make):
    X, y = make(BIG, np.linspace(-1, 1, 40)), [0, 1] * 20
    with pytest.warns(UserWarning, match=r"('id'|number 0) .*2\*\*53.*categorical="):
        clf = quick().fit(X, y)
    assert np.isfinite(clf.predict_proba(X)).all()
    as_words = quick(encoder=TableEncoder(categorical=[0])).fit(X, y)
    assert str(BIG[3]) in as_words.encoder_.columns_[0].words


def test_whole_numbers_of_any_length_are_refused_or_read():
    X = np.array([[10**5000, 1.0], [1, 2.0]], dtype=object)
    with refused("infinity", "column number 0, row 0"):
        quick().fit(X, [0, 1])
    with refused("infinity", "column number 0, row 0"):
        quick(encoder=TableEncoder(categorical=[0])).fit(X, [0, 1])


def test_words_that_training_has_not_seen_are_counted():
    encoder = TableEncoder(max_categories=3).fit(
        pd.DataFrame({"c": ["a"] * 5 + ["b"] * 4 + ["c", "d"], "x": range(11)})
    )
    assert encoder.columns_[0].rare == ("c", "d")
    new = pd.DataFrame({"c": ["a", "d", "e", "e", None], "x": range(5)})
    assert encoder.unseen(new) == {"c": {"e": 2}}
    assert encoder.unseen(new[:2]) == {}


def test_a_group_that_is_also_an_input_is_told():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"income": rng.normal(size=200), "sex": rng.choice(["f", "m"], 200)})
    y = (table["income"] > 0).astype(int)
    with pytest.warns(UserWarning, match="Column 'sex' of X is an input.*sensitive_columns="):
        ConstrainedClassifier("disparate_impact >= 0.5").fit(table, y, sensitive_features=table[["sex"]])
    alone = ConstrainedClassifier("disparate_impact >= 0.5", sensitive_columns=["sex"]).fit(table, y)
    assert (alone.predict(table) == alone.predict(table.drop(columns="sex"))).all()
