"""Odd values in every place: each is taken, or refused in a sentence of ours, and never a raw exception."""

from __future__ import annotations

import datetime as dt
import re
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.utils.validation import DataConversionWarning

from fairbound import ConstrainedClassifier, Groups, LimitWarning, Training, audit, make_fairness_scorer
from fairbound._errors import InputError, InputScaleWarning, InputTypeError
from fairbound.estimator import PositiveLabelWarning

N = 24
LEAST = Training(iterations=1, touches=1, epochs=1)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 2))
Y = np.arange(N) % 2
GROUP = np.array(["a", "b"])[np.arange(N) // 2 % 2]
CODES = Y.tolist()
DAYS = [dt.date(2020, 1, 1 + code) for code in CODES]

# What comes from other libraries, or from the interpreter, rather than from a sentence of ours.
RAW = re.compile(
    "unhashable type|not supported between|could not convert|invalid literal|has no attribute|has no len|"
    "truth value of|inhomogeneous|must be real number|cannot convert|not iterable|not subscriptable|"
    "unsupported operand|out of range|expected .* got|Cannot cast|cannot cast|Overflow|too large to convert|"
    "broadcast|concatenate|multiple values for|unexpected keyword|takes .* positional|can't convert|Invalid dtype|"
    "not understood|ufunc|Length of|assert",
)


def columns() -> dict[str, Callable[[], Any]]:
    """Columns of N values, in every form that someone might have them in."""
    codes = CODES
    words = [["no", "yes"][code] for code in codes]
    gaps = [None, *words[1:]]
    return {
        "list": lambda: codes,
        "tuple": lambda: tuple(codes),
        "generator": lambda: (code for code in codes),
        "range": lambda: range(N),
        "set": lambda: {0, 1},
        "dict": lambda: dict(enumerate(codes)),
        "text": lambda: "01" * (N // 2),
        "bytes": lambda: b"01" * (N // 2),
        "number": lambda: 1,
        "nothing": list,
        "zero dimensions": lambda: np.array(1.0),
        "three dimensions": lambda: np.zeros((N, 1, 1)),
        "two columns": lambda: np.zeros((N, 2)),
        "one column": lambda: np.array(codes)[:, None],
        "one row": lambda: np.array(codes)[None, :],
        "too short": lambda: codes[1:],
        "booleans": lambda: [bool(code) for code in codes],
        "words": lambda: words,
        "words with gaps": lambda: gaps,
        "NaN": lambda: [float("nan"), *codes[1:]],
        "all NaN": lambda: [float("nan")] * N,
        "infinity": lambda: [float("inf"), *codes[1:]],
        "huge integers": lambda: [10**400 + code for code in codes],
        "64-bit integers": lambda: np.array(codes, dtype=np.uint64) + np.uint64(2**63),
        "complex": lambda: np.array(codes) * 1j,
        "complex objects": lambda: [complex(code) for code in codes],
        "datetimes": lambda: np.array(DAYS, dtype="datetime64[D]"),
        "dates": lambda: DAYS,
        "timedeltas": lambda: np.array(codes).astype("timedelta64[s]"),
        "byte words": lambda: [word.encode() for word in words],
        "byte array": lambda: np.array(words, dtype="S"),
        "decimals": lambda: [Decimal(code) for code in codes],
        "decimal NaN": lambda: [Decimal("NaN"), *map(Decimal, codes[1:])],
        "signalling NaN": lambda: [Decimal("sNaN"), *map(Decimal, codes[1:])],
        "fractions": lambda: [Fraction(code, 3) for code in codes],
        "mixture": lambda: [1, "a", None, 2.5, True, b"x"] * (N // 6),
        "objects": lambda: [object() for _ in codes],
        "lists": lambda: [[code] for code in codes],
        "ragged lists": lambda: [[code] * (1 + code) for code in codes],
        "dicts": lambda: [{"a": code} for code in codes],
        "tuples": lambda: np.array([*[(code, "x") for code in codes], None], dtype=object)[:-1],
        "sets": lambda: [frozenset([code]) for code in codes],
        "arrays": lambda: [np.array([code, 1]) for code in codes],
        "structured": lambda: np.array([(code, 1.0) for code in codes], dtype=[("a", int), ("b", float)]),
        "void": lambda: np.zeros(N, dtype="V4"),
        "masked": lambda: np.ma.array(codes, mask=[True] + [False] * (N - 1)),
        "sparse column": lambda: sparse.csr_matrix(np.array(codes)[:, None]),
        "float16": lambda: np.array(codes, dtype=np.float16),
        "longdouble": lambda: np.array(codes, dtype=np.longdouble),
        "pandas nullable": lambda: pd.Series([None, *codes[1:]], dtype="Int64"),
        "pandas boolean": lambda: pd.Series(codes).astype("boolean"),
        "pandas string": lambda: pd.Series(gaps, dtype="string"),
        "pandas category": lambda: pd.Series(pd.Categorical(gaps)),
        "pandas unused category": lambda: pd.Series(pd.Categorical(words, categories=["no", "yes", "never"])),
        "pandas period": lambda: pd.Series(pd.period_range("2020", periods=N, freq="D")),
        "pandas interval": lambda: pd.Series(pd.cut(np.arange(N), 2)),
        "pandas datetime zone": lambda: pd.Series(pd.date_range("2020", periods=N, tz="UTC")),
        "pandas sparse": lambda: pd.Series(pd.arrays.SparseArray(codes)),
        "pandas index": lambda: pd.Index(codes),
        "pandas odd index": lambda: pd.Series(codes, index=[7] * N),
        "pandas frame": lambda: pd.DataFrame({"a": codes}),
        "pandas frame of two": lambda: pd.DataFrame({"a": codes, "b": words}),
        "pandas names twice": lambda: pd.DataFrame(np.array([codes, codes]).T, columns=["a", "a"]),
        "pandas names by number": lambda: pd.DataFrame(np.array([codes, codes]).T),
        "pandas names mixed": lambda: pd.DataFrame(np.array([codes, codes]).T, columns=["a", 1]),
        "pandas multi-index": lambda: pd.DataFrame(
            np.array([codes, codes]).T, columns=pd.MultiIndex.from_tuples([("a", 1), ("a", 2)])
        ),
        "pandas empty": lambda: pd.DataFrame(),
        "polars": lambda: pl.Series("s", codes),
        "polars category": lambda: pl.Series("s", gaps, dtype=pl.Categorical),
        "polars enum": lambda: pl.Series("s", words, dtype=pl.Enum(["no", "yes"])),
        "polars list": lambda: pl.Series("s", [[code] for code in codes]),
        "polars struct": lambda: pl.Series("s", [{"a": code} for code in codes]),
        "polars date": lambda: pl.Series("s", DAYS),
        "polars decimal": lambda: pl.Series("s", [Decimal(code) for code in codes]),
        "polars binary": lambda: pl.Series("s", [b"x"] * N),
        "polars null": lambda: pl.Series("s", [None] * N),
        "polars frame": lambda: pl.DataFrame({"a": codes, "b": gaps}),
        "polars lazy": lambda: pl.DataFrame({"a": codes}).lazy(),
        "polars object": lambda: pl.Series("s", [object()] * N, dtype=pl.Object),
        "pyarrow": lambda: pa.array(codes),
        "pyarrow chunked": lambda: pa.chunked_array([codes[:5], codes[5:]]),
        "pyarrow dictionary": lambda: pa.array(gaps).dictionary_encode(),
        "pyarrow null": lambda: pa.nulls(N),
        "pyarrow table": lambda: pa.table({"a": codes, "b": gaps}),
        "pyarrow identifiers": lambda: pa.table({"id": pa.array([2**63 + code for code in codes], pa.uint64())}),
        "pyarrow signed identifiers": lambda: pa.table({"id": pa.array([None, *[2**62 + i for i in range(N - 1)]])}),
        "pyarrow names twice": lambda: pa.table([codes, codes], names=["a", "a"]),
        "pyarrow list": lambda: pa.array([[code] for code in codes]),
        "pyarrow timestamp": lambda: pa.array([dt.datetime(2020, 1, 1, code) for code in codes]),
        "none": lambda: None,
        "class": lambda: int,
    }


ODD = columns()


def fitted() -> ConstrainedClassifier:
    return classifier().fit(X, Y, sensitive_features=GROUP)


def classifier(**params: Any) -> ConstrainedClassifier:
    found = ConstrainedClassifier("demographic_parity <= 0.9", training=LEAST, groups=Groups(small="merge", min_size=1))
    return found.set_params(**params)


MODEL = fitted()
PLACES: dict[str, Callable[[Any], Any]] = {
    "fit X": lambda odd: classifier().fit(odd, Y, sensitive_features=GROUP),
    "fit X as it is": lambda odd: classifier(encoder=None).fit(odd, Y, sensitive_features=GROUP),
    "fit y": lambda odd: classifier().fit(X, odd, sensitive_features=GROUP),
    "fit groups": lambda odd: classifier().fit(X, Y, sensitive_features=odd),
    "fit named groups": lambda odd: classifier().fit(X, Y, sensitive_features={"g": odd}),
    "fit weights": lambda odd: classifier().fit(X, Y, sensitive_features=GROUP, sample_weight=odd),
    "fit constraint weights": lambda odd: classifier().fit(X, Y, sensitive_features=GROUP, constraint_weight=odd),
    "eval_set": lambda odd: classifier().fit(X, Y, sensitive_features=GROUP, eval_set=odd),
    "eval_set X": lambda odd: classifier().fit(X, Y, sensitive_features=GROUP, eval_set=(odd, Y, GROUP)),
    "eval_set y": lambda odd: classifier().fit(X, Y, sensitive_features=GROUP, eval_set=(X, odd, GROUP)),
    "eval_set groups": lambda odd: classifier().fit(X, Y, sensitive_features=GROUP, eval_set=(X, Y, odd)),
    "calibration_set": lambda odd: classifier().fit(X, Y, sensitive_features=GROUP, calibration_set=odd),
    "predict": lambda odd: MODEL.predict(odd),
    "predict_proba": lambda odd: MODEL.predict_proba(odd),
    "score y": lambda odd: MODEL.score(X, odd),
    "recalibrate y": lambda odd: fitted().recalibrate(X, odd),
    "recalibrate weights": lambda odd: fitted().recalibrate(X, Y, sample_weight=odd),
    "scorer groups": lambda odd: make_fairness_scorer("demographic_parity")(MODEL, X, Y, sensitive_features=odd),
    "scorer y": lambda odd: make_fairness_scorer("demographic_parity")(MODEL, X, odd, sensitive_features=GROUP),
    "audit y": lambda odd: audit(odd, Y, GROUP),
    "audit decisions": lambda odd: audit(Y, odd, GROUP),
    "audit groups": lambda odd: audit(Y, Y, odd),
    "audit weights": lambda odd: audit(Y, Y, GROUP, sample_weight=odd),
}


def complaint(place: Callable[[Any], Any], odd: Callable[[], Any]) -> str | None:
    """Return what is raw about the outcome; None if it is taken, or refused in a sentence."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for kind in (LimitWarning, PositiveLabelWarning, InputScaleWarning, DataConversionWarning):
            warnings.simplefilter("ignore", kind)
        warnings.filterwarnings("ignore", "X has feature names|Column .* has whole numbers beyond")
        try:
            place(odd())
        except (ValueError, TypeError) as error:
            frames = traceback.extract_tb(error.__traceback__)
            ours = re.search(r"[/\\](fairbound|sklearn)[/\\]", frames[-1].filename)
            if (
                type(error) not in (ValueError, TypeError, InputError, InputTypeError)
                or not ours
                or RAW.search(str(error))
            ):
                return f"{type(error).__name__} at {frames[-1].filename}:{frames[-1].lineno}: {error}"
        except Exception as error:  # noqa: BLE001 (whatever it is, it is raw)
            frames = traceback.extract_tb(error.__traceback__)
            return f"{type(error).__name__} at {frames[-1].filename}:{frames[-1].lineno}: {error}"
    return None


def complaints(place: str, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        found = complaint(PLACES[place], ODD[name])
        if found is not None:
            yield f"{place} <- {name}: {found[:300]}"


@pytest.mark.parametrize("place", sorted(PLACES))
def test_some_odd_values_are_taken_or_refused_in_a_sentence(place):
    """A share of the values in each place; every value has its turn in several places."""
    found = list(complaints(place, list(ODD)[sorted(PLACES).index(place) % 7 :: 7]))
    assert not found, "\n".join(found)


@pytest.mark.slow
@pytest.mark.parametrize("place", sorted(PLACES))
def test_all_odd_values_are_taken_or_refused_in_a_sentence(place):
    found = list(complaints(place, ODD))
    assert not found, "\n".join(found)
