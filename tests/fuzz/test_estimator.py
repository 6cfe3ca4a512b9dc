"""The classifier: what `result_` says of a small fit is counted once more from `predict` on the training rows."""

from __future__ import annotations

import math
import warnings
from collections.abc import Hashable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from sklearn.exceptions import DataConversionWarning
from tests.fuzz import generators as draw
from tests.fuzz.harness import Refused, attempt, cases, expect, expect_close
from tests.fuzz.oracle import Counted, Grouping
from tests.fuzz.oracle_limits import KEPT_TOLERANCE, exceeded, measured, room
from tests.fuzz.test_audit import groupings_of

from fairbound import ConstrainedClassifier, Groups, LimitWarning, Training, load
from fairbound.estimator import ForecastWarning, PositiveLabelWarning
from fairbound.sqp import Status

LITTLE = Training(iterations=4, touches=1)


def draw_inputs(rng: np.random.Generator, y: np.ndarray) -> Any:
    """Return a matrix or a table of inputs, some of which know something of the label."""
    n = len(y)
    X = rng.normal(size=(n, int(rng.integers(1, 4)))) * draw.pick(rng, [1e-3, 1.0, 1.0, 1e3])
    X[:, 0] += y * draw.pick(rng, [0.0, 1.0, 5.0])
    kind = draw.pick(rng, ["matrix", "matrix", "float32", "gaps", "constant", "pandas", "polars"])
    if kind == "gaps":
        X[rng.random(X.shape) < 0.2] = np.nan
    if kind == "constant":
        X[:, -1] = 3.0
    if kind in ("matrix", "gaps", "constant"):
        return X
    if kind == "float32":
        return X.astype(np.float32)
    columns: dict[str, Any] = {f"x{place}": X[:, place] for place in range(X.shape[1])}
    columns["job"] = [draw.pick(rng, ["cook", "nurse", None]) for _ in range(n)]
    return pd.DataFrame(columns) if kind == "pandas" else pl.DataFrame(columns)


@cases("fit", few=25, many=1_500)
def test_a_fit_says_what_its_predictions_do(cases, tmp_path):
    cases.run(lambda rng: one_fit(rng, tmp_path))


def one_fit(rng: np.random.Generator, folder: Path) -> None:
    rows = draw.draw_rows(rng, most=120, classes=(2, 2, 2, 3))
    names = draw.label_names(rng, rows.n_classes)
    combine = draw.pick(rng, ["each", "each", "intersection", "both"])
    groupings = groupings_of(rows, combine)
    limits = [
        draw.draw_limit(rng, rows, [each.name for each in groupings]) for _ in range(int(draw.pick(rng, [0, 1, 1, 2])))
    ]
    limits = [
        replace(limit, classes=limit.classes and tuple(names[code] for code in limit.classes)) for limit in limits
    ]
    X, y = draw_inputs(rng, rows.y), draw.code_labels(rng, rows.y, rows.n_classes, names).given
    clf = ConstrainedClassifier(
        limits,
        hidden=draw.pick(rng, [(), (), (2,)]),
        groups=Groups(
            combine, small=draw.pick(rng, ["error", "warn", "merge"]), min_size=int(draw.pick(rng, [1, 1, 3]))
        ),
        training=LITTLE,
        pos_label=draw.pos_label_of(rng, names),
        threshold=draw.pick(rng, [0.5, 0.5, 0.3]),
        objective=draw.pick(rng, ["loss", "accuracy"]),
    )
    sensitive = {name: draw.code_groups(rng, codes, rows.groups[name]) for name, codes in rows.columns.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LimitWarning)
        warnings.simplefilter("ignore", ForecastWarning)
        warnings.simplefilter("ignore", PositiveLabelWarning)  # labels such as 2**60 and 2**60 + 1 have no usual order
        found = attempt(clf.fit, X, y, sensitive_features=sensitive, sample_weight=rows.weights, sklearn_too=True)
    if isinstance(found, Refused):
        return
    if len(clf.classes_) < rows.n_classes:  # a class whose rows all have the weight 0 is as good as absent
        expect(rows.weights is not None and len(np.unique(rows.y[rows.weights > 0])) == len(clf.classes_), "classes")
        return
    decided = np.array([names.index(label) for label in clf.predict(X).tolist()])
    check_probabilities(clf, X, decided, names)
    counted = Counted(rows.y, decided, rows.n_classes, settled(rows, groupings, clf.result_.small_groups), rows.weights)
    check_result(clf, counted, limits, names)
    if rng.random() < 0.1:
        path = folder / f"model-{rng.integers(10**9)}"
        if isinstance(attempt(clf.save, path), Refused):  # a group that is no word and no number has no form in a file
            return
        again = load(path)
        expect(np.array_equal(again.predict_proba(X), clf.predict_proba(X)), "a loaded model predicts otherwise")
        expect(str(again.result_) == str(clf.result_), "a loaded model says otherwise")


def settled(rows: draw.Rows, groupings: list[Grouping], small: Any) -> list[Grouping]:
    """Return the groupings as the limits see them: small groups left out or made one, groups without weight absent."""
    found = []
    for grouping in groupings:
        fates = {each.group: each.fate for each in small if each.grouping == grouping.name}
        present = {
            group: mask for group, mask in grouping.groups.items() if rows.weights is None or rows.weights[mask].any()
        }
        groups = {group: mask for group, mask in present.items() if group not in fates}
        merged = [grouping.groups[group] for group, fate in fates.items() if fate == "merged"]
        found.append(Grouping(grouping.name, groups | ({"(other)": np.any(merged, axis=0)} if merged else {})))
    return found


def check_probabilities(clf: ConstrainedClassifier, X: Any, decided: np.ndarray, names: tuple[Hashable, ...]) -> None:
    p = clf.predict_proba(X)
    expect(bool(np.isfinite(p).all()), "a probability is not finite")
    expect(np.allclose(p.sum(axis=1), 1.0), "probabilities do not add up")
    expect(clf.classes_.tolist() == sorted(names), "classes", clf.classes_.tolist())
    p = p[:, [clf.classes_.tolist().index(name) for name in names]]
    if len(names) == 2:
        clear = abs(p[:, 1] - clf.threshold) > 1e-9
        expect(bool(((p[:, 1] > clf.threshold) == decided)[clear].all()), "decisions and probabilities differ")
    else:
        top = np.sort(p, axis=1)
        clear = top[:, -1] - top[:, -2] > 1e-9
        expect(bool((p.argmax(axis=1) == decided)[clear].all()), "decisions and probabilities differ")


def check_result(clf: Any, counted: Counted, limits: list[Any], names: tuple[Hashable, ...]) -> None:
    result = clf.result_
    weights = counted.weights / counted.weights.max()
    right = float(weights[counted.y == counted.decided].sum() / weights.sum())
    constant = max(float(weights[counted.y == label].sum() / weights.sum()) for label in range(counted.n_classes))
    expect_close(result.accuracy, right, "accuracy")
    expect_close(result.constant_accuracy, constant, "accuracy of a constant")
    expect_close(result.gain, right - constant, "gain")
    for name in ("loss", "objective", "seconds"):
        expect(math.isfinite(getattr(result, name)), name, "is", getattr(result, name))
    for limit, entry in zip(limits, result.limits, strict=True):
        values = measured(limit, counted, names, empty_is_zero=True)
        wanted = min(room(limit, value) for value in values)
        said = (limit, "reached", entry.reached, "in", values)
        expect_close(room(limit, entry.reached), wanted, *said)
        beyond = exceeded(limit, counted, names)
        if not 0.1 * KEPT_TOLERANCE < abs(beyond) < 10 * KEPT_TOLERANCE:
            expect(entry.kept == (beyond <= KEPT_TOLERANCE), limit, "kept", entry.kept, "beyond by", beyond)
    expect(result.kept == (result.status not in (Status.INFEASIBLE, Status.MAX_ITERATIONS)), "status", result.status)
    check_constants(result, counted, limits, names)
    for group in result.groups:
        grouping = next(each for each in counted.groupings if each.name == group.grouping)
        for outcome, rates in zip(counted.outcomes, group.rates.values(), strict=True):
            for rate, value in rates.items():
                wanted = counted.sample(rate, grouping, group.group, outcome).value
                expect_close(value, wanted, group.grouping, group.group, rate)
    result.to_json(), str(result)


def check_constants(result: Any, counted: Counted, limits: list[Any], names: tuple[Hashable, ...]) -> None:
    """If one decision for all rows keeps the limits, so does the result."""
    if not limits or result.kept:
        return
    for label in range(counted.n_classes):
        constant = Counted(
            counted.y, np.full_like(counted.y, label), counted.n_classes, counted.groupings, counted.weights
        )
        beyond = max(exceeded(limit, constant, names) for limit in limits)
        expect(beyond > 0, result.status, "although deciding", names[label], "for all rows keeps", *limits)


@cases("fit-bad", few=60, many=1_500)
def test_bad_arguments_of_a_fit_are_refused(cases):
    cases.run(one_bad_fit)


def one_bad_fit(rng: np.random.Generator) -> None:
    rows = draw.draw_rows(rng, most=30, classes=(2,))
    n = len(rows.y)
    X = rng.normal(size=(n, 2))
    arguments: dict[str, Any] = {"X": X, "y": rows.y, "sensitive_features": rows.y % 2, "sample_weight": None}
    params: dict[str, Any] = {
        "constraints": "demographic_parity <= 0.5",
        "groups": Groups(min_size=1),
        "training": LITTLE,
    }
    name = draw.pick(rng, [*arguments, "constraint_weight", "eval_set", "params", "params", "X"])
    if name == "params":
        changed, value = (
            draw.pick(rng, sorted(ConstrainedClassifier().get_params(deep=False))),
            draw.wrong_column(rng, n),
        )
        params[changed] = None if callable(value) else value  # what a function of the user's raises is their own
    elif name == "X" and draw.chance(rng, 0.6):
        X[int(rng.integers(n)), 0] = draw.pick(rng, [np.nan, np.inf, -np.inf, 1e308, -1e308, 1e200, 1e-320])
        params["encoder"] = draw.pick(rng, ["auto", None])
    else:
        arguments[name] = draw.wrong_column(rng, n)
    clf = ConstrainedClassifier(**params)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LimitWarning)
        warnings.simplefilter("ignore", ForecastWarning)
        warnings.simplefilter("ignore", DataConversionWarning)  # of y as a column, as every classifier there warns
        found = attempt(clf.fit, **arguments, sklearn_too=True)
    if not isinstance(found, Refused):
        p = attempt(clf.predict_proba, arguments["X"], sklearn_too=True)
        expect(isinstance(p, Refused) or bool(np.isfinite(p).all()), "a probability is not finite", params)
        str(clf.result_)
