"""Measure how near to the optimum a fit ends, and how much the result depends on rounding and threads.

Each part has a name.  Results are appended to a file; a part that is already in the file is not run again:

    rounding     small data, 8 factors on the inputs x 5 data sets: spread of accuracy and of the least loss found
    starts       the same data: the least loss found against the best of random starts with several times the effort
    dutch        Dutch census, columns of `load_dataset`, linear, ratio 0.9, with one thread and with two
    frontier     single fits against the frontier, and bounds against stricter ones
    rare         planted data: ten groups, 12% positives; several seeds, against the best constant
    stochastic   `StochasticSQP()` by default against `from_paper`, full batches, 500 epochs
    batches      mini-batches against whole passes on Law and Dutch
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fairbound import ConstrainedClassifier, StochasticSQP, TrainingProblem, load_dataset
from fairbound.fairness import Cells
from fairbound.training import L2, Effort, FullBatch, Phase, fit, make_model, train
from fairbound.training.effort import TINY_EFFORT

FACTORS = (1.0, 3.0, 1.1, 7.0, 1e12, 1 / 3, 2.3, 5.1)
SHAPES = ((800, 4), (200, 2), (500, 3), (1200, 6), (2000, 10))
BOUNDS = tuple(np.arange(50, 100, 5) / 100)
Row = dict[str, Any]


def small_data(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return small data whose label depends on the group."""
    n, d = SHAPES[seed]
    random = np.random.default_rng(seed)
    group, X = random.integers(0, 2, n), random.normal(size=(n, d))
    X[:, 0] += 0.8 * group
    return X, X[:, 0] + 0.5 * X[:, 1] + 0.5 * random.normal(size=n) > 0.5, group


def fit_estimator(X: Any, y: Any, groups: Any, limit: str, **options: Any) -> Row:
    """Fit the estimator; return its figures with processor time and passes."""
    start = time.process_time()
    result = ConstrainedClassifier(limit, random_state=0, **options).fit(X, y, sensitive_features=groups).result_
    return {
        "accuracy": result.accuracy,
        "constant": result.constant_accuracy,
        "loss": result.loss,
        "least loss": result.least_loss,
        "status": result.status.value,
        "passes": result.passes + result.value_passes,
        "seconds": time.process_time() - start,
    }


def rounding() -> list[Row]:
    """Measure the spread over factors on the inputs, which scaling removes."""
    rows = []
    for seed, (n, d) in enumerate(SHAPES):
        X, y, group = small_data(seed)
        found = [fit_estimator(factor * X, y, group, "disparate_impact >= 0.9") for factor in FACTORS]
        accuracies, losses = (np.array([each[name] for each in found]) for name in ("accuracy", "least loss"))
        rows.append(
            {
                "rows": n,
                "inputs": d,
                "accuracy": f"{accuracies.min():.4f} to {accuracies.max():.4f}",
                "spread in points": 100 * float(np.ptp(accuracies)),
                "least loss": f"{losses.min():.4f} to {losses.max():.4f}",
                "spread in percent": 100 * float(np.ptp(losses) / losses.min()),
                "passes": float(np.mean([each["passes"] for each in found])),
                "seconds": float(np.mean([each["seconds"] for each in found])),
            }
        )
    return rows


def starts(count: int = 50, effort: int = 10) -> list[Row]:
    """Compare the least loss with default settings with that of many starts with longer phases."""
    much = replace(
        TINY_EFFORT,
        coarse=Phase(40 * effort, window=4 * effort),
        exact=Phase(40 * effort, window=12 * effort, rounding=1e-3),
        starts=count,
    )
    rows = []
    for seed, (n, d) in enumerate(SHAPES):
        X, y, group = small_data(seed)
        default, best = (
            fit_estimator(X, y, group, "disparate_impact >= 0.9", effort=each)["least loss"] for each in (None, much)
        )
        rows.append({"rows": n, "inputs": d, "default": default, "best": best, "above": 100 * (default / best - 1)})
    return rows


def dutch() -> list[Row]:
    """Compare one thread with two."""
    part = load_dataset("dutch").split(test_size=0.2, random_state=0).train
    rows, before = [], torch.get_num_threads()
    for threads in (1, 2):
        torch.set_num_threads(threads)
        rows.append(
            {"threads": threads, **fit_estimator(part.frame(), part.y, part.groups(), "disparate_impact >= 0.9")}
        )
    torch.set_num_threads(before)
    return rows


def frontier() -> list[Row]:
    """Compare single fits at each bound with the frontier over all of them."""
    rows = []
    for name in ("law", "dutch"):
        part = load_dataset(name).split(test_size=0.2, random_state=0).train
        clf = ConstrainedClassifier("disparate_impact >= 0.9", random_state=0)
        points = clf.frontier(part.frame(), part.y, sensitive_features=part.groups(), bounds=BOUNDS)
        for bound, point in zip(BOUNDS, points, strict=True):
            single = fit_estimator(part.frame(), part.y, part.groups(), f"disparate_impact >= {bound}")
            rows.append({"data": name, "bound": bound, "single": single["accuracy"], "frontier": _accuracy(point)})
    return rows


def _accuracy(point: Any) -> float:
    return float(point.result.assessment.accuracy if hasattr(point.result, "assessment") else point.result.accuracy)


def rare() -> list[Row]:
    """Fit ten groups of unequal size with rare positives: several seeds of a small network, and a linear model."""
    random = np.random.default_rng(0)
    n = 20_000
    group = random.choice(10, size=n, p=np.array([30, 25, 12, 10, 8, 6, 4, 3, 1, 1]) / 100)
    X = random.normal(size=(n, 8)) + 0.08 * group[:, None] * np.eye(8)[0]
    y = X[:, 0] + 0.7 * X[:, 1] + random.normal(size=n) > 2.2
    rows = []
    for hidden, seeds in (((), (0,)), ((8,), (0, 1, 2))):
        for seed in seeds:
            start = time.process_time()
            clf = ConstrainedClassifier("disparate_impact >= 0.8", hidden=hidden, random_state=seed)
            result = clf.fit(X, y, sensitive_features=group).result_
            rows.append(
                {
                    "hidden": str(hidden),
                    "seed": seed,
                    "positives": float(y.mean()),
                    "accuracy": result.accuracy,
                    "gain over a constant": result.gain,
                    "selected": float(clf.predict(X).mean()),
                    "status": result.status.value,
                    "seconds": time.process_time() - start,
                }
            )
    return rows


def _paper_problem(name: str, hidden: tuple[int, ...], limit: str, seed: int) -> tuple[TrainingProblem, Any]:
    data = load_dataset(name, protocol="paper").train
    module = make_model(data.X.shape[1], hidden=hidden, generator=torch.Generator().manual_seed(seed))
    cells = Cells.build(data.y, data.sensitive)
    return TrainingProblem(module, "binary_cross_entropy", limit, cells, regularizers=[L2(1e-5)]), data


def stochastic() -> list[Row]:
    """Compare Algorithm 1 with default constants and with those of the paper's experiments."""
    rows = []
    for name, hidden, bound, seeds in (("law", (), 0.9, range(1, 6)), ("dutch", (32,), 0.8, (1,))):
        for seed in seeds:
            for kind, build in (("default", StochasticSQP), ("from_paper", StochasticSQP.from_paper)):
                problem, data = _paper_problem(name, hidden, f"disparate_impact >= {bound}", seed)
                result = train(problem, FullBatch(problem.rows(data.X)), build(problem.parameters), epochs=500)
                found = result.assessment
                rows.append(
                    {
                        "data": name,
                        "seed": seed,
                        "kind": kind,
                        "accuracy": found.accuracy,
                        "status": result.status.value,
                    }
                )
    return rows


def batches() -> list[Row]:
    """Compare mini-batches with whole passes."""
    rows = []
    for name, hidden in (("law", ()), ("law", (32,)), ("dutch", (32,))):
        for bound in (0.8, 0.9):
            for solver in ("quasi-newton", "stochastic"):
                problem, data = _paper_problem(name, hidden, f"disparate_impact >= {bound}", 1)
                result = fit(problem, data.X, solver=solver, effort=Effort())
                rows.append(
                    {
                        "data": name,
                        "hidden": str(hidden),
                        "bound": bound,
                        "solver": solver,
                        "accuracy": result.assessment.accuracy,
                        "status": result.status.value,
                    }
                )
    return rows


PIECES: dict[str, Callable[[], list[Row]]] = {
    piece.__name__: piece for piece in (rounding, starts, dutch, frontier, rare, stochastic, batches)
}


def main() -> None:
    """Run the requested parts that are not in the file yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pieces", nargs="*", metavar="piece", help="all by default")
    parser.add_argument("--out", type=Path, default=Path("optimality.json"))
    options = parser.parse_args()
    unknown = sorted(set(options.pieces) - set(PIECES))
    if unknown:
        parser.error(f"unknown pieces {', '.join(unknown)}: choose from {', '.join(PIECES)}")
    warnings.simplefilter("ignore")
    held: dict[str, list[Row]] = json.loads(options.out.read_text("utf-8")) if options.out.exists() else {}
    for name in options.pieces or PIECES:
        if name not in held:
            held[name] = PIECES[name]()
            options.out.write_text(json.dumps(held, indent=1), encoding="utf-8")
        print(name)
        for row in held[name]:
            print(
                "  ",
                ", ".join(
                    f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}" for key, value in row.items()
                ),
            )


if __name__ == "__main__":
    main()
