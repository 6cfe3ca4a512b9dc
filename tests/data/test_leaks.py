"""Columns that determine the label are found; identifiers, noise and columns of the known data sets are not."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from fairbound.data import Dataset, load_dataset
from fairbound.data.schema import Categorical, Numeric
from fairbound.data.table import Table

N = 1200
RNG = np.random.default_rng(0)
Y = (RNG.random(N) < 0.45).astype(np.int64)
NOISE = RNG.normal(size=N)


def data_set(y=Y, **columns) -> Dataset:
    schema = []
    for name, values in {"noise": NOISE, **columns}.items():
        if values.dtype.kind in "iuf":
            schema.append(Numeric(name))
        else:
            kept = {value: value for value in dict.fromkeys(values.tolist()) if value is not None}
            schema.append(Categorical(name, {**kept, None: "(missing)"}))
    table = Table(schema, {"noise": NOISE, **columns})
    names = [str(code) for code in range(y.max() + 1)]
    X = np.zeros((len(y), 1))
    return Dataset("planted", X, y, {}, ["x"], target_names=names, raw=table)


def flipped(share: float) -> np.ndarray:
    return np.where(np.random.default_rng(1).random(N) < share, 1 - Y, Y)


def some(values: np.ndarray, where: np.ndarray) -> np.ndarray:
    column = np.full(len(values), None, dtype=object)
    column[where] = values[where]
    return column


WORDS = np.array(["no", "yes"])
DATES = np.array([f"day {row}" for row in range(N)])
LEAKS = {
    "a copy": Y,
    "a copy in words": WORDS[Y],
    "a copy with 2.4% of its values changed": flipped(0.024),
    "a score with a threshold": np.where(Y == 1, 700.0, 500.0) + RNG.uniform(-99, 99, N),
    "a range in the middle": np.where(Y == 1, 0.0, RNG.choice([-5.0, 5.0], N)) + RNG.uniform(-1, 1, N),
    "large numbers": np.int64(10**15) + Y,
    "a number that only one outcome has": np.where(Y == 1, RNG.random(N), np.nan),
    "a date that only one outcome has": some(DATES, Y == 1),
    "several words for each": np.char.add(WORDS[Y], RNG.choice(["", " (late)", " (early)"], N)),
}


@pytest.mark.parametrize("column", LEAKS.values(), ids=LEAKS)
def test_a_planted_leak_is_found(column):
    (leak,) = data_set(leak=column).suspected_leaks()
    assert leak.column == "leak"
    assert leak.accuracy > 0.95
    assert leak.constant == pytest.approx(max(Y.mean(), 1 - Y.mean()))
    assert "column 'leak' alone predicts" in str(leak)


HARMLESS = {
    "an identifier": np.arange(N),
    "an identifier in words": DATES,
    "a good predictor": flipped(0.15),
    "words of which most occur once": RNG.permutation(DATES),
    "a constant": np.ones(N),
    "nothing but gaps": np.full(N, np.nan),
}


@pytest.mark.parametrize("column", HARMLESS.values(), ids=HARMLESS)
def test_what_is_no_leak_is_not_named(column):
    assert data_set(other=column).suspected_leaks() == []


def test_several_classes():
    grade = RNG.integers(0, 3, N)
    (leak,) = data_set(grade, final=np.array(["low", "mid", "top"])[grade]).suspected_leaks()
    assert (leak.column, leak.accuracy) == ("final", 1.0)


def test_a_few_rows_say_nothing():
    assert data_set(Y[:30], noise=NOISE[:30], copy=Y[:30]).suspected_leaks() == []


@pytest.mark.parametrize("name", ["law", "dutch", "acsincome", pytest.param("acsincome_us", marks=pytest.mark.slow)])
def test_the_known_data_sets_have_none(name):
    try:
        data = load_dataset(name, download=False)
    except FileNotFoundError:
        pytest.skip(f"the data folder has no {name}")
    assert data.suspected_leaks() == []


def test_columns_without_a_leak_take_one_tree_each(monkeypatch):
    """Version 0.2 took 119 seconds for 40 rows of 10,000 columns, with three trees for each."""
    fitted = []
    fit = DecisionTreeClassifier.fit
    monkeypatch.setattr(
        DecisionTreeClassifier, "fit", lambda *args, **kwargs: (fitted.append(1), fit(*args, **kwargs))[1]
    )
    columns = {f"other {number}": RNG.normal(size=N) for number in range(20)}
    assert data_set(**columns).suspected_leaks() == []
    assert len(fitted) == 21  # and one for the noise
