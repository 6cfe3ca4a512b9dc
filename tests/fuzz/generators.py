"""What is drawn: rows with labels, decisions, groups and weights, coded in many ways; limits as objects and as text.

Everything is drawn as whole numbers first, which the oracle counts, and then *coded*: written as words, booleans,
floats, a pandas, polars or pyarrow column.  So the truth about a case never passes through the package.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from fairbound.fairness import CONSTRAINTS, MEASURES, Constraint

Rng = np.random.Generator

WORDS = (
    "yes", "no", "approved", "denied", "A", "a", "Ä", "A\u0308", "b b", "c'", '"d"', "e,f", "g;h", "🙂", "0",
    "1", "1.0",
    "-1", "01", "1e3", "True", "true", "nan", "NA", "None", "", " ", "x" * 300, "=1+1", "@cmd",
    "\x1b[31mred", "a\nb",
    "tab\there", "(other)", "(missing)", "everyone", "overall", "pairwise", "White & Black", "a|b", "<b>",
    "ﬁ", "ß", "İ",
    ">50K", ">50K.", "[x]", "\u202e", "\x00", "a\x00b",
)  # fmt: skip
PLAIN = ("a", "b", "c", "d", "e", "f", "g")


def pick(rng: Rng, options: Sequence[Any]) -> Any:
    """Return one of the options, as it is."""
    return options[int(rng.integers(len(options)))]


def chance(rng: Rng, share: float) -> bool:
    return bool(rng.random() < share)


def some_words(rng: Rng, count: int) -> list[str]:
    """Return different words, mostly plain ones."""
    pool = PLAIN if chance(rng, 0.6) else WORDS
    return [pool[place] for place in rng.permutation(len(pool))[:count]]


@dataclass(frozen=True)
class Coded:
    """A column in some form, and the values that its codes stand for."""

    given: Any
    names: tuple[Hashable, ...]


def code_labels(rng: Rng, codes: np.ndarray, count: int, names: tuple[Hashable, ...] | None = None) -> Coded:
    """Return labels or decisions, in which code k is `names[k]`; which `label_names` draws."""
    if names is None:
        names = label_names(rng, count)
    values = [names[code] for code in codes.tolist()]
    return Coded(in_some_form(rng, values), names)


def label_names(rng: Rng, count: int) -> tuple[Hashable, ...]:
    """Return the labels in rising order; of two the second is the positive one, and may come before the first."""
    kinds: list[Callable[[], Sequence[Any]]] = [
        lambda: range(count),
        lambda: range(count),
        lambda: range(-1, 2 * count, 2)[:count],
        lambda: [float(place) for place in range(count)],
        lambda: [0.5 * place - 1 for place in range(count)],
        lambda: [2**60 + place for place in range(count)],
        lambda: sorted(some_words(rng, count)),
        lambda: [False, True] if count == 2 else range(count),
    ]
    names = tuple(pick(rng, kinds)())
    return names[::-1] if count == 2 and chance(rng, 0.3) else names


def pos_label_of(rng: Rng, names: tuple[Hashable, ...]) -> Hashable | None:
    """Return the positive label to be named; 0 and 1 need not be."""
    if len(names) > 2:
        return None
    return None if names in ((0, 1), (False, True)) and chance(rng, 0.5) else names[1]


def in_some_form(rng: Rng, values: list[Any]) -> Any:
    """Return values without gaps as a list, an array, or a column of a table."""
    words = any(isinstance(value, str) for value in values)
    whole = all(isinstance(value, int) for value in values)
    forms: list[Callable[[], Any]] = [
        lambda: list(values),
        lambda: tuple(values),
        lambda: np.array(values, dtype=object),
        lambda: pd.Series(values),
        lambda: pd.Series(values, index=np.arange(len(values))[::-1], dtype=object),
        lambda: pd.Series(values, dtype="category"),
        lambda: pl.Series("column", values),
        lambda: pa.chunked_array([values]),
    ]
    if not words or all("\x00" not in str(value) for value in values):  # numpy drops a NUL at the end of text
        forms.append(lambda: np.array(values))
    if whole and all(isinstance(value, bool) or abs(value) < 100 for value in values):
        forms.append(lambda: np.array(values, dtype=np.int8))
    return pick(rng, forms)()


def code_groups(rng: Rng, codes: np.ndarray, names: Sequence[Hashable]) -> Any:
    """Return a group column in some form; code −1 is missing."""
    gaps = bool((codes < 0).any())
    values: list[Any] = [None if code < 0 else names[code] for code in codes.tolist()]
    if not gaps:
        return in_some_form(rng, values)
    nan = float("nan")
    forms: list[Callable[[], Any]] = [
        lambda: values,
        lambda: [nan if value is None else value for value in values],
        lambda: np.array(values, dtype=object),
        lambda: pd.Series(values, dtype=object),
        lambda: pd.Series(values, dtype="category"),
        lambda: pd.Series([pd.NA if value is None else value for value in values], dtype=object),
        lambda: pl.Series("column", values),
        lambda: pa.chunked_array([values]),
    ]
    if all(isinstance(value, str | None) for value in values):
        forms.append(lambda: pd.Series(values, dtype="string"))
    if all(type(value) is int for value in values if value is not None):
        forms.append(lambda: pd.Series(values, dtype="Int64"))
        forms.append(lambda: np.ma.masked_array([value or 0 for value in values], mask=codes < 0))
    return pick(rng, forms)()


def group_names(rng: Rng, count: int) -> tuple[Hashable, ...]:
    kinds: list[Callable[[], Sequence[Any]]] = [
        lambda: some_words(rng, count),
        lambda: some_words(rng, count),
        lambda: range(count),
        lambda: [place / 2 for place in range(count)],
        lambda: [True, False] if count == 2 else range(5, 5 + count),
        lambda: [dt.date(2020, 1, 1 + place) for place in range(count)],
    ]
    return tuple(pick(rng, kinds)())


@dataclass(frozen=True)
class Rows:
    """The truth about the rows of a case: codes of labels, decisions and groups (−1 missing), and weights."""

    n_classes: int
    y: np.ndarray
    decided: np.ndarray
    columns: dict[str, np.ndarray]
    groups: dict[str, tuple[Hashable, ...]]
    weights: np.ndarray | None


def draw_rows(rng: Rng, most: int = 300, classes: Sequence[int] = (2, 2, 2, 3, 4)) -> Rows:
    """Draw rows with every class among the labels; groups of any size, decisions from perfect to constant."""
    n_classes = int(pick(rng, classes))
    n = int(rng.integers(n_classes, 12)) if chance(rng, 0.2) else int(rng.integers(12, most))
    y = np.concatenate([np.arange(n_classes), rng.choice(n_classes, n - n_classes, p=_shares(rng, n_classes))])
    rng.shuffle(y)
    wrong = pick(rng, [0.0, 0.1, 0.3, 1.0])
    decided = np.where(rng.random(n) < wrong, rng.choice(n_classes, n, p=_shares(rng, n_classes)), y)
    if chance(rng, 0.1):
        decided = np.full(n, rng.integers(n_classes))
    columns, groups = {}, {}
    for place in range(int(pick(rng, [1, 1, 1, 2, 2, 3]))):
        name = pick(rng, ["sex", "race", "Ä b", "age group", "x"]) + str(place) * (place > 0)
        count = int(pick(rng, [1, 2, 2, 2, 3, 4, 6]))
        codes = rng.choice(count, n, p=_shares(rng, count))
        if chance(rng, 0.3):
            codes[rng.random(n) < pick(rng, [0.05, 0.5])] = -1
        columns[name], groups[name] = codes, group_names(rng, count)
    return Rows(n_classes, y, decided, columns, groups, draw_weights(rng, n) if chance(rng, 0.3) else None)


def _shares(rng: Rng, count: int) -> np.ndarray:
    found = rng.dirichlet(np.full(count, pick(rng, [0.3, 1.0, 10.0])))
    return found / found.sum()


def draw_weights(rng: Rng, n: int) -> np.ndarray:
    """Return weights that mean something, of any size."""
    kinds: list[Callable[[], Any]] = [
        lambda: np.ones(n),
        lambda: np.full(n, 0.3),
        lambda: rng.integers(1, 5, n),
        lambda: rng.integers(0, 3, n) + np.eye(1, n)[0],
        lambda: rng.random(n) + 1e-3,
        lambda: rng.choice([1e-3, 1.0, 1e3], n),
        lambda: (rng.random(n) + 0.5) * pick(rng, [1e-200, 1e-30, 1e30, 1e200, 1e307]),
    ]
    kinds.append(lambda: rng.choice(pick(rng, [[1e-6, 1e6], [1e-8, 1e8]]), n))
    return np.asarray(pick(rng, kinds)(), dtype=float)


def sensitive_of(rng: Rng, rows: Rows) -> Any:
    """Return the group columns as a mapping, a table, an array, or for one of them the column itself."""
    coded = {name: code_groups(rng, codes, rows.groups[name]) for name, codes in rows.columns.items()}
    if len(coded) == 1 and chance(rng, 0.4):
        return next(iter(coded.values()))
    values = {
        name: [None if code < 0 else rows.groups[name][code] for code in codes.tolist()]
        for name, codes in rows.columns.items()
    }
    forms: list[Callable[[], Any]] = [
        lambda: coded,
        lambda: pd.DataFrame(values),
        lambda: pd.DataFrame(values, dtype=object),
        lambda: pl.DataFrame(values),
        lambda: pa.table(values),
        lambda: np.array(list(zip(*values.values(), strict=True)), dtype=object),
    ]
    return pick(rng, forms)()


def wrong_column(rng: Rng, n: int) -> Any:
    """Return what is no column of n labels, groups or weights."""
    ragged: list[Any] = [[1, 2], [3]] * max(1, n // 2)
    return pick(
        rng,
        [
            None, 0, 1.5, "word", b"bytes", object(), {}, [], (), np.zeros((n, 2)), np.zeros((n, 1, 1)),
            np.zeros(n + 1),
            np.zeros(max(n - 1, 0)), ragged, [[]] * n, [{}] * n, [{"a": 1}] * n, [set()] * n, [object()] * n,
            [None] * n,
            [float("nan")] * n, [math.inf] * n, ["x"] * n, [1] * n, [b"x"] * n, [1,
            "x"] * (n // 2) + [1] * (n % 2),
            [1 + 2j] * n, np.array(["2020-01-01"] * n, dtype="datetime64[D]"), iter([0, 1] * n), range(n),
            {"a": range(n)},
            [10**400] * n, [np.float64(1e308)] * n, np.zeros(n, dtype=[("a", int)]), lambda: 1,
            pd.DataFrame({"a": range(n)}),
            pd.Series([pd.NA] * n), pl.Series([None] * n), pa.nulls(n), np.ma.masked_all(n),
            memoryview(bytes(n)), [[0, 1]] * n,
            pd.Series(pd.to_datetime(["2020-01-01"] * n)), [dt.date(2020, 1, 1)] * n, [-1.0] * n,
            [0.0] * n,
            pd.Series(range(n), dtype="timedelta64[s]"), pd.interval_range(0, n), [10**30] * n,
            [np.array([1])] * n, True,
        ],
    )  # fmt: skip


def draw_limit(rng: Rng, rows: Rows, groupings: Sequence[str]) -> Constraint:
    """Return a limit that the constructor takes; whether it fits the rows is another question."""
    while True:
        name = pick(rng, list(MEASURES))
        measure = MEASURES[name]
        options: dict[str, Any] = {}
        if chance(rng, 0.3):
            options["columns"] = tuple(pick(rng, list(groupings)) for _ in range(1 + chance(rng, 0.1)))
        if rows.n_classes > 2 and chance(rng, 0.3):
            options["classes"] = tuple({int(rng.integers(rows.n_classes)) for _ in range(2)})
        some_group = pick(rng, rows.groups[pick(rng, list(rows.groups))])
        if measure.comparison == "value":
            options |= {"group": some_group} if chance(rng, 0.3) else {}
        elif measure.overall and chance(rng, 0.25):
            options["against"] = "overall"
        elif measure.comparison != "covariance" and chance(rng, 0.25):
            options["reference"] = some_group
        bound: Any = round(float(rng.random()), int(rng.integers(1, 4)))
        if measure.comparison == "covariance":
            bound /= 4
        directed = options.keys() & {"against", "reference"} or measure.comparison in ("value", "covariance")
        if measure.comparison == "value" or (directed and chance(rng, 0.3)):
            low, high = sorted(
                [bound, round(float(rng.random()), 3) / (4 if measure.comparison == "covariance" else 1)]
            )
            bound = pick(rng, [(low, high), (low, None), (None, high)])
            if measure.comparison == "ratio" and bound[1] == 0:
                continue
            if bound == (0.0, None) and measure.comparison == "ratio":
                continue
        kind = CONSTRAINTS.get(name)
        return kind(bound, **options) if kind else Constraint(bound, measure=name, **options)
