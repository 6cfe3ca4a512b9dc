"""How a fit bears what should not matter, and what is hard: invariance, hard cases, and many small problems.

    invariance  the same rows with inputs x 3.7, columns in another order, rows shuffled, two threads, or each row twice
                with half the weight; ten seeds of a network: spread of the training accuracy, in points
    hard        many groups, rare positives, several limits, equality, limits that exclude each other, separable data,
                constant and duplicated columns, 10,000 one-hot columns
    random      60 problems of 100 to 400 rows: a constant keeps the limits, so each fit must

Only the public interface is used.  The data are needed in the folder FAIRBOUND_DATA (docs/data.md).
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import _one_thread
import numpy as np
import scipy.sparse
from _shared import Array, encoded, known, planted_rows, said_versions, table, tested_commit, write_between

from fairbound import ConstrainedClassifier, Training
from fairbound.estimator import FitResult

Rows = tuple[Any, Array, Any]
"""Inputs, labels and groups."""


def fit(rows: Rows, limits: Any, weight: Array | None = None, **options: Any) -> tuple[FitResult, float]:
    """Return the result of a fit without a forecast, and its processor time."""
    X, y, groups = rows
    clf = ConstrainedClassifier(limits, training=Training(forecast=False), **{"random_state": 0, **options})
    start = time.process_time()
    clf.fit(X, y, sensitive_features=groups, sample_weight=weight)
    return clf.result_, time.process_time() - start


def some(name: str, size: int) -> Rows:
    """Return rows of a table, drawn at random."""
    if name == "planted":
        return planted_rows(size, 10, seed=3, shift=0.8)
    whole = known(name)
    part = whole.take(np.random.default_rng(1).permutation(len(whole))[:size])
    return encoded(part)[0], part.y, part.groups


def variants(rows: Rows) -> Iterator[tuple[str, Rows, Array | None]]:
    """Yield the same problem in other forms."""
    X, y, groups = rows
    rng = np.random.default_rng(7)
    yield "as it is", rows, None
    yield "inputs x 3.7", (3.7 * X, y, groups), None
    yield "columns in another order", (X[:, rng.permutation(X.shape[1])], y, groups), None
    order = rng.permutation(len(y))
    yield "rows shuffled", (X[order], y[order], groups[order]), None
    twice = np.repeat(np.arange(len(y)), 2)
    yield "each row twice with half the weight", (X[twice], y[twice], groups[twice]), np.full(len(twice), 0.5)


def invariance(options: argparse.Namespace) -> Iterator[list[str]]:
    """Yield the rows of the table of what should not matter."""
    yield ["data", "rows", "limit", "accuracies", "spread, in points", "aim"]
    for name, size in (
        ("planted", 200),
        ("planted", 1000),
        ("law", 1000),
        ("dutch", 1000),
        ("acs-ca", 1000),
        ("planted", 10_000),
        ("law", 10_000),
        ("dutch", 10_000),
        ("acs-ca", 10_000),
    ):
        rows = some(name, size)
        for bound in (0.8, 0.9):
            limit = f"disparate_impact >= {bound}"
            found = {what: fit(each, limit, weight)[0].accuracy for what, each, weight in variants(rows)}
            with _one_thread.threads(2):
                found["two threads"] = fit(rows, limit)[0].accuracy
            yield [name, f"{size:,}", limit, *spread(found, 0.5 if size <= 1000 else 0.1)]
    for name in ("law", "dutch"):
        rows = some(name, 20_000)
        found = {
            f"{seed}": fit(rows, "disparate_impact >= 0.9", hidden=(32,), random_state=seed)[0].accuracy
            for seed in range(options.seeds)
        }
        yield [f"{name}, 32 hidden units, {len(found)} seeds", "20,000", "disparate_impact >= 0.9", *spread(found, 0.3)]


def spread(found: Mapping[str, float], most: float) -> list[str]:
    """Return the accuracies, their spread, and whether it is small enough."""
    values = 100.0 * np.array(list(found.values()))
    shown = f"{values.min():.2f}% ({list(found)[int(values.argmin())]}) to {values.max():.2f}%"
    return [shown, f"{np.ptp(values):.2f}", f"at most {most:g}: {'yes' if np.ptp(values) <= most else '**NO**'}"]


def many_groups(n: int, groups: int, rare: float, seed: int = 0) -> Rows:
    """Return rows of groups of unequal sizes and rates, with a share `rare` of positives."""
    rng = np.random.default_rng(seed)
    group = rng.choice(groups, n, p=(shares := 1.0 / np.arange(2, groups + 2)) / shares.sum())
    X = rng.normal(size=(n, 8)) + 0.6 * (group / groups)[:, None] * (np.arange(8) < 3)
    score = X[:, :4].sum(axis=1) + rng.normal(size=n)
    return X, (score > np.quantile(score, 1.0 - rare)).astype(int), group.astype(str)


def hard_problems() -> Iterator[tuple[str, Rows, Any, dict[str, Any]]]:
    """Yield name, rows, limits and options of the hard cases."""
    ratio = "disparate_impact >= 0.8"
    yield "ten groups, rare positives", many_groups(20_000, 10, 0.08), ratio, {}
    yield "ten groups, rare positives, 8 hidden units", many_groups(20_000, 10, 0.08), ratio, {"hidden": (8,)}
    yield "8% positives, two groups", many_groups(10_000, 2, 0.08), ratio, {}
    yield "2% positives, two groups", many_groups(10_000, 2, 0.02), ratio, {}
    yield "25 groups", many_groups(30_000, 25, 0.3), ratio, {}
    five = [ratio, "equal_opportunity <= 0.1", "predictive_equality <= 0.1", "accuracy >= 0.6", "selection_rate >= 0.1"]
    yield "five limits at once", some("dutch", 10_000), five, {}
    yield "equality: a ratio of 1", some("planted", 2000), "disparate_impact >= 1", {}
    yield "equality: a difference of 0", some("law", 3000), "demographic_parity <= 0", {}
    rows = some("dutch", 3000)
    a, b = sorted(set(rows[2]))
    apart = [f"selection_rate[{a}] >= 0.9", f"selection_rate[{b}] <= 0.1", ratio]
    yield "limits that exclude each other", rows, apart, {}
    X, _, groups = planted_rows(1000, 5, seed=1)
    yield "separable data", (X, (X[:, 0] > 0.5).astype(int), groups), "disparate_impact >= 0.9", {}
    X, y, groups = some("planted", 1000)
    yield "constant columns", (np.hstack([X, np.ones((1000, 2))]), y, groups), "disparate_impact >= 0.9", {}
    yield "two duplicated columns", (np.hstack([X, X[:, :2]]), y, groups), "disparate_impact >= 0.9", {}
    rng = np.random.default_rng(0)
    place, group = rng.integers(0, 10_000, 50_000), rng.integers(0, 2, 50_000)
    effect = rng.normal(size=10_000)
    wide = scipy.sparse.csr_matrix((np.ones(50_000), (np.arange(50_000), place)), shape=(50_000, 10_000))
    y = (effect[place] + 0.5 * group + rng.normal(size=50_000) > 0.3).astype(int)
    yield "10,000 one-hot columns, sparse", (wide, y, group), "disparate_impact >= 0.9", {}


def hard(options: argparse.Namespace) -> Iterator[list[str]]:
    """Yield the rows of the table of hard cases."""
    yield ["case", "status", "values", "accuracy", "best constant", "processor time"]
    for name, rows, limits, more in hard_problems():
        if options.case and not any(each in name for each in options.case):
            continue
        found, seconds = fit(rows, limits, **more)
        values = ", ".join(f"{each.reached:.3f}" for each in found.limits)
        accuracies = f"{found.accuracy:.2%}", f"{found.constant_accuracy:.2%}"
        yield [name, found.status.value, values, *accuracies, f"{seconds:.2f} s"]


LIMITS = (
    "disparate_impact >= 0.9",
    "demographic_parity <= 0.05",
    "equalized_odds <= 0.05",
    ["disparate_impact >= 0.8", "equal_opportunity <= 0.1"],
)


def random(options: argparse.Namespace) -> Iterator[list[str]]:  # noqa: ARG001  # all parts have the same form
    """Yield the rows of the table of random problems."""
    yield ["problems", "kept", "processor time of all", "aim"]
    start, kept = time.process_time(), 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n, columns, groups = int(rng.integers(100, 401)), int(rng.integers(2, 13)), int(rng.integers(2, 5))
        group = rng.integers(0, groups, n)
        X = rng.normal(size=(n, columns)) + rng.uniform(0, 1.5) * group[:, None] * (np.arange(columns) == 0)
        score = X @ rng.normal(size=columns) + rng.normal(size=n)
        y = (score > np.quantile(score, rng.uniform(0.2, 0.8))).astype(int)
        kept += fit((X, y, group.astype(str)), LIMITS[seed % len(LIMITS)])[0].kept
    seconds = time.process_time() - start
    met = kept == 60 and seconds < 60
    yield ["60", f"{kept}", f"{seconds:.1f} s", f"all kept, in under 60 s: {'yes' if met else '**NO**'}"]


PARTS = {"invariance": invariance, "hard": hard, "random": random}


def main() -> None:
    """Run the requested parts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--case", nargs="+", help="hard cases whose names contain one of these")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--page", type=Path, help="write each table between <!-- hard_cases PART --> and its end")
    options = parser.parse_args()
    _one_thread.hold()
    warnings.simplefilter("ignore")  # degenerate and infeasible fits are part of the task
    for name in options.part:
        heads, *lines = PARTS[name](options)
        shown = [*table(heads, lines), "", f"fairbound {tested_commit()}; {said_versions('scikit-learn')}"]
        print(f"\n## {name}\n", *shown, sep="\n", flush=True)
        if options.page is not None:
            write_between(options.page, f"hard_cases {name}", shown)


if __name__ == "__main__":
    main()
