"""Time of a fit under a limit, beside others on the same rows: ratios of processor time, with one thread.

    linear      beside LogisticRegression and fairlearn's ExponentiatedGradient over it
    million     1,000,000 rows of 20 columns, beside LogisticRegression; passes over the rows
    network     beside 500 full-batch epochs of Adam on the same network without limits
    base        over LightGBM: the time beside that of the base's own cross-fitting and refit
    frontier    ten bounds, beside single fits

In each part ours and the others take turns in one process, and a time is the median of `--turns`.  The limit is a ratio
of selection rates of at least 0.9.  Where LogisticRegression nearly reaches that, it is half-way from its ratio to 1,
so that it binds.  ExponentiatedGradient is given the same number, which it applies to each group's rate over that of
everyone: a weaker limit.  All get the same encoded columns.  Ours is measured with the forecast for new rows and
without it (`forecast=False`), as far as the version under test knows that option.

Nothing but the public interface of the package is used, so an earlier version can be measured: put its sources first on
PYTHONPATH.  The data are needed in the folder FAIRBOUND_DATA (docs/data.md).
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import mean, median
from typing import Any, NamedTuple

import _one_thread
import numpy as np
from _shared import (
    KNOWN,
    Array,
    encoded,
    expected_accuracy,
    known,
    least_ratio,
    planted_rows,
    said_versions,
    table,
    tested_commit,
    write_between,
)
from lightgbm import LGBMClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from fairbound import ConstrainedClassifier, Training

ASKED = 0.9
SLACK = 0.02
"""A limit binds if LogisticRegression misses it by this much."""
STRICTEST = 0.98
"""The last bound of a frontier."""
EPOCHS = 500
MOST_STEPS = 20_000_000
"""Rows times epochs of Adam that are run; more are extrapolated, since all epochs cost the same."""
WITHOUT = {"training": Training(forecast=False)}
PLAIN = {"ours": WITHOUT, "with forecast": {}}
"""Options of what is measured; without the option it is one fit, with the forecast."""


class Rows(NamedTuple):
    """Encoded training rows, and the limit that binds on them."""

    X: Array
    y: Array
    groups: Array
    bound: float = ASKED

    @property
    def limit(self) -> str:
        """Return the limit in words."""
        return f"disparate_impact >= {self.bound}"

    def judge(self, selected: Array) -> str:
        """Return accuracy and ratio on the training rows."""
        return f"{expected_accuracy(selected, self.y):.2%} at {least_ratio(selected, self.groups):.3f}"


def binding(X: Array, y: Array, groups: Array) -> Rows:
    """Return the rows with a bound that LogisticRegression does not reach."""
    free = least_ratio(LogisticRegression().fit(X, y).predict(X), groups)
    return Rows(X, y, groups, ASKED if free < ASKED - SLACK else round((1.0 + free) / 2.0, 4))


def some_rows(name: str, size: int) -> Rows:
    """Return rows of a table, drawn at random."""
    whole = known(name)
    part = whole.take(np.random.default_rng(1).permutation(len(whole))[:size])
    return binding(encoded(part)[0], part.y, part.groups)


def in_turns(runs: Mapping[str, Callable[[], Any]], turns: int) -> tuple[dict[str, float], dict[str, Any]]:
    """Return for each run its median processor time, and what it returned last."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    found = {}
    for _ in range(turns):
        for name, run in runs.items():
            gc.collect()
            start = time.process_time()
            found[name] = run()
            times[name].append(time.process_time() - start)
            print(f"    {name}: {times[name][-1]:.3f} s", file=sys.stderr, flush=True)
    return {name: median(each) for name, each in times.items()}, found


def ours(rows: Rows, **options: Any) -> ConstrainedClassifier:
    """Return our fitted classifier."""
    return ConstrainedClassifier(rows.limit, random_state=0, **options).fit(
        rows.X, rows.y, sensitive_features=rows.groups
    )


def fits(rows: Rows, **options: Any) -> dict[str, Callable[[], ConstrainedClassifier]]:
    """Return our fits, with and without the forecast."""
    return {name: lambda more=more: ours(rows, **options, **more) for name, more in PLAIN.items()}


def mixture(rows: Rows) -> Any:
    """Return fairlearn's mixture of linear models."""
    from fairlearn.reductions import DemographicParity, ExponentiatedGradient

    reduction = ExponentiatedGradient(LogisticRegression(), DemographicParity(ratio_bound=rows.bound))
    return reduction.fit(rows.X, rows.y, sensitive_features=rows.groups)


def warm_up() -> None:
    """Run everything once on few rows, so that no import is timed."""
    rows = binding(*planted_rows(300, 4, seed=1))
    mixture(rows)
    adam(rows, 4, epochs=1)
    cross_fitting(rows)
    for fit in fits(rows).values():
        fit()


def verdict(value: float, most: float) -> str:
    """Return a ratio beside what it may be."""
    return f"{value:.2f} (at most {most:g}: {'yes' if value <= most else '**NO**'})"


def columns(seconds: Mapping[str, float], by: float, most: Mapping[str, float]) -> list[str]:
    """Return the ratios of our times to another one; an empty column where the version has no such fit."""
    return [verdict(seconds[name] / by, each) if name in seconds else "" for name, each in most.items()]


Table = Iterator[list[str]]


def linear(options: argparse.Namespace) -> Table:
    """Yield the rows of the table of linear models."""
    yield [
        "data",
        "rows x columns",
        "limit",
        "LogisticRegression",
        "ExponentiatedGradient",
        "ours",
        "ours / ExponentiatedGradient",
        "the same, with forecast",
        "ours / LogisticRegression",
        "training accuracy: LogisticRegression",
        "ExponentiatedGradient",
        "ours",
    ]
    for name in options.table:
        for size in sorted({min(size, len(known(name))) for size in options.rows}):
            rows = some_rows(name, size)
            runs = {"free": lambda rows=rows: LogisticRegression().fit(rows.X, rows.y)}
            runs |= {"mixture": lambda rows=rows: mixture(rows)} | fits(rows)
            seconds, found = in_turns(runs, options.turns)
            against = seconds["ours"] / seconds["free"]
            yield [
                name,
                f"{size:,} x {rows.X.shape[1]}",
                f"{rows.bound:g}",
                f"{seconds['free']:.3f} s",
                f"{seconds['mixture']:.2f} s",
                f"{seconds['ours']:.3f} s",
                *columns(seconds, seconds["mixture"], {"ours": 0.5, "with forecast": 1.5}),
                verdict(against, 15) if size >= 10_000 else f"{against:.1f}",
                rows.judge(found["free"].predict(rows.X)),
                rows.judge(found["mixture"]._pmf_predict(rows.X)[:, 1]),
                rows.judge(found["ours"].predict(rows.X)),
            ]


def million(options: argparse.Namespace) -> Table:
    """Yield the row of the table of large data."""
    yield ["rows x columns", "LogisticRegression", "ours", "ours / LogisticRegression", "passes over all rows", "ours"]
    size = max(options.rows) if options.rows_given else 1_000_000
    rows = binding(*planted_rows(size, 20, seed=0, shift=0.8))
    runs = {"free": lambda: LogisticRegression().fit(rows.X, rows.y)} | {"ours": fits(rows)["ours"]}
    seconds, found = in_turns(runs, options.turns)
    result = found["ours"].result_
    passes = result.passes + getattr(result, "value_passes", 0)
    yield [
        f"{size:,} x 20",
        f"{seconds['free']:.2f} s",
        f"{seconds['ours']:.2f} s",
        *columns(seconds, seconds["free"], {"ours": 6}),
        verdict(passes, 25),
        rows.judge(found["ours"].predict(rows.X)),
    ]


def adam(rows: Rows, width: int, epochs: int) -> None:
    """Train a network without limits, full batch."""
    import torch

    module = torch.nn.Sequential(
        torch.nn.Linear(rows.X.shape[1], width), torch.nn.LeakyReLU(0.01), torch.nn.Linear(width, 1)
    )
    X, y = (torch.as_tensor(each, dtype=torch.float32) for each in (rows.X, rows.y))
    optimizer = torch.optim.Adam(module.parameters())
    for _ in range(epochs):
        optimizer.zero_grad()
        torch.nn.functional.binary_cross_entropy_with_logits(module(X)[:, 0], y).backward()
        optimizer.step()


NETWORKS = (
    ("planted", 1_000, 32, 1.0),
    ("planted", 3_000, 32, 1.0),
    ("planted", 30_000, 32, 1.0),
    ("dutch-codes", 60_000, 32, 0.4),
    ("acs-ca-codes", 50_000, 256, 0.15),
)
"""Table (of Dutch and ACSIncome each column as a number, as in the paper), rows, hidden units, and aim."""


def network(options: argparse.Namespace) -> Table:
    """Yield the rows of the table of networks."""
    yield [
        "data",
        "rows",
        "hidden units",
        "500 epochs of Adam",
        "ours",
        "ours / Adam",
        "the same, with forecast",
        "ours",
    ]
    largest = max(options.rows) if options.rows_given else max(size for _, size, *_ in NETWORKS)
    cases = dict.fromkeys((name, min(size, largest), *rest) for name, size, *rest in NETWORKS)
    for name, size, width, most in cases:
        rows = some_rows(name, size)
        epochs = min(EPOCHS, max(1, MOST_STEPS // (size * max(1, width // 32))))
        runs = {"adam": lambda rows=rows, width=width, epochs=epochs: adam(rows, width, epochs)}
        seconds, found = in_turns(runs | fits(rows, hidden=(width,)), options.turns)
        whole = seconds["adam"] * EPOCHS / epochs
        ratio = columns(seconds, whole, {"ours": most})
        forecast = f"{seconds['with forecast'] / whole:.2f}" if "with forecast" in seconds else ""
        judged = rows.judge(found["ours"].predict(rows.X))
        yield [
            name,
            f"{size:,}",
            str(width),
            f"{whole:.2f} s",
            f"{seconds['ours']:.2f} s",
            *ratio,
            forecast,
            f"{judged}, limit {rows.bound:g}",
        ]


def booster() -> LGBMClassifier:
    """Return the base."""
    return LGBMClassifier(n_jobs=1, verbose=-1, random_state=0)


def cross_fitting(rows: Rows) -> None:
    """Do what a corrected base needs in any case: a score for each row from a fold without it, and the refit."""
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    cross_val_predict(booster(), rows.X, rows.y, cv=folds, method="predict_proba")
    booster().fit(rows.X, rows.y)


def base(options: argparse.Namespace) -> Table:
    """Yield the rows of the table of corrected bases."""
    yield [
        "data",
        "rows x columns",
        "cross-fitting and refit",
        "ours",
        "all else / cross-fitting and refit",
        "with forecast",
    ]
    for name in options.table:
        for size in (
            [size for size in options.rows if size <= len(known(name))] if options.rows_given else (3000, 20_000)
        ):
            rows = some_rows(name, size)
            own = {"own": lambda rows=rows: cross_fitting(rows)}
            seconds, _ = in_turns(own | fits(rows, base=booster()), options.turns)
            beyond = {key: value - seconds["own"] for key, value in seconds.items()}
            yield [
                name,
                f"{size:,} x {rows.X.shape[1]}",
                f"{seconds['own']:.2f} s",
                f"{seconds['ours']:.2f} s",
                *columns(beyond, seconds["own"], {"ours": 0.25, "with forecast": 0.25}),
            ]


def frontier(options: argparse.Namespace) -> Table:
    """Yield the rows of the table of frontiers."""
    yield [
        "data",
        "rows x columns",
        "hidden units",
        "a single fit, mean of the bounds",
        "ten bounds",
        "ten bounds / single",
    ]
    for name in options.table:
        for size in options.rows if options.rows_given else (3000, 30_000):
            rows = some_rows(name, min(size, len(known(name))))
            free = least_ratio(LogisticRegression().fit(rows.X, rows.y).predict(rows.X), rows.groups)
            bounds = np.linspace(free, STRICTEST, 11)[1:].round(4).tolist()  # all of them bind
            for hidden in ((), (32,)) if options.networks else ((),):
                given = {"hidden": hidden, **WITHOUT}
                runs: dict[str, Callable[[], Any]] = {
                    f"{bound}": lambda rows=rows, bound=bound, given=given: ours(rows._replace(bound=bound), **given)
                    for bound in bounds
                }
                clf = ConstrainedClassifier(rows.limit, random_state=0, **given)
                runs["all"] = lambda rows=rows, clf=clf, bounds=bounds: clf.frontier(
                    rows.X, rows.y, bounds, sensitive_features=rows.groups
                )
                seconds, _ = in_turns(runs, options.turns)
                single = mean(seconds[f"{bound}"] for bound in bounds)
                yield [
                    name,
                    f"{len(rows.y):,} x {rows.X.shape[1]}",
                    str(sum(hidden)) if hidden else "none",
                    f"{single:.3f} s",
                    f"{seconds['all']:.3f} s",
                    verdict(seconds["all"] / single, 4),
                ]


PARTS = {"linear": linear, "million": million, "network": network, "base": base, "frontier": frontier}
ROWS = (300, 1000, 3000, 10_000, 30_000, 100_000)
TABLES = ("planted", "law", "dutch", "acs-ca")


def main() -> None:
    """Run the requested parts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--table", nargs="+", choices=KNOWN, default=list(TABLES))
    parser.add_argument(
        "--rows", nargs="+", type=int, help="instead of the rows of the part; no more than the tables have"
    )
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--networks", action="store_true", help="frontiers of networks, too")
    parser.add_argument("--page", type=Path, help="write each table between <!-- speed PART --> and its end")
    options = parser.parse_args()
    options.rows_given = options.rows is not None
    options.rows = options.rows or list(ROWS)
    _one_thread.hold()
    warnings.simplefilter("ignore")
    warm_up()
    versions = f"fairbound {tested_commit()}; " + said_versions("fairlearn", "scikit-learn", "lightgbm", "torch")
    for name in options.part:
        heads, *lines = PARTS[name](options)
        shown = [*table(heads, lines), "", f"{versions} Median of {options.turns} turns."]
        if not WITHOUT:
            shown.append("This version has no `forecast=False`, so all times are with its forecast.")
        print(f"\n## {name}\n", *shown, sep="\n", flush=True)
        if options.page is not None:
            write_between(options.page, f"speed {name}", shown)


if __name__ == "__main__":
    main()
