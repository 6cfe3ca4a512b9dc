"""Limits on rows that nobody has seen: forecasts, fits with a margin, and certified ones, on many draws of rows.

Data: ACSIncome, all states 2018 (765,670 rows).  Each draw takes training rows and 20,000 rows for calibration.  Of the
others 200,000 stand for the population, or all beside 50,000 training rows; they are called the truth.  The limits are
on the ratio of selection rates, by sex or by race in its five largest groups.

    plain       trained under the limit itself, without a forecast
    forecast    the same model, with its forecast
    margin      `margin="auto"`
    certified   `confidence=0.95`, tested on the calibration rows
    eg          fairlearn's ExponentiatedGradient over LogisticRegression, for its time (linear only)

Results are kept, a line of JSON each, and not repeated: a run can be interrupted and done in parts.  `--first` is the
first draw: choices are made on some draws, and reported on others.  `--report` trains nothing and prints the tables.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import Any

import _one_thread
import numpy as np
from _shared import Results, planted_rows, table, tested_commit
from lightgbm import LGBMClassifier

from fairbound import ConstrainedClassifier, DisparateImpact, Training, load_dataset

LARGEST, CALIBRATION, TRUTH, GROUPS = 50_000, 20_000, 200_000, 5
SETTINGS = {
    f"{column}-{bound}-{model}": (column, bound, model)
    for column, bound in (("sex", 0.8), ("sex", 0.9), ("race", 0.8))
    for model in ("linear", "hidden", "boosted")
} | {
    f"planted{columns}-{bound}-linear": (f"planted{columns}", bound, "linear")
    for columns, bound in ((5, 0.8), (20, 0.9))
}
"""Groups, limit, and model.  Planted rows have two groups, two columns that matter, and columns of noise."""
KINDS = ("plain", "forecast", "margin", "certified", "eg")
Run = dict[str, Any]
Rows = tuple[np.ndarray, np.ndarray, np.ndarray]


@lru_cache(maxsize=2)
def population(column: str) -> Rows:
    """Return inputs, labels and groups of ACSIncome; of the groups by race, the five largest."""
    data = load_dataset("acsincome_us")
    names, codes = np.unique(data.groups(column).astype(str), return_inverse=True)
    large = np.argsort(-np.bincount(codes))[:GROUPS]
    kept = np.isin(codes, large)
    return np.ascontiguousarray(data.X[kept]), np.asarray(data.y)[kept], names[codes[kept]]


def draw_rows(column: str, size: int, draw: int) -> tuple[Rows, Rows, Rows]:
    """Return the rows for training, for calibration, and the truth."""
    if column.startswith("planted"):
        columns = int(column.removeprefix("planted"))
        parts = [planted_rows(n, columns, 3 * draw + part) for part, n in enumerate((size, CALIBRATION, TRUTH))]
        return tuple((X, y, np.where(group, "b", "a")) for X, y, group in parts)
    X, y, groups = population(column)
    order = np.random.default_rng(draw).permutation(len(y))
    others = order[LARGEST + CALIBRATION :]
    truth = np.sort(others if size == LARGEST else others[:TRUTH])
    parts = order[:size], order[LARGEST : LARGEST + CALIBRATION], truth
    return tuple((X[part], y[part], groups[part]) for part in parts)


def reached(decided: np.ndarray, truth: Rows) -> Run:
    """Return the ratio and the accuracy of decisions about the truth."""
    rates = [float(decided[truth[2] == group].mean()) for group in np.unique(truth[2])]
    return {"ratio": min(rates) / max(rates) if max(rates) else 1.0, "accuracy": float((decided == truth[1]).mean())}


def judge(setting: str, kind: str, rows: tuple[Rows, Rows, Rows]) -> Run:
    """Train one model, and measure it on the truth."""
    _, bound, form = SETTINGS[setting]
    (X, y, groups), calibration, truth = rows
    if kind == "eg":
        return peer(X, y, groups, truth, bound)
    clf = ConstrainedClassifier(DisparateImpact(bound), training=Training(forecast=kind != "plain"))
    further: Run = {}
    if form == "hidden":
        clf.set_params(hidden=(32,))
    if form == "boosted":
        clf.set_params(base=LGBMClassifier(random_state=0, verbose=-1))
    if kind == "margin":
        clf.set_params(margin="auto")
    if kind == "certified":
        clf.set_params(confidence=0.95)
        further["calibration_set"] = calibration
    start = time.process_time()
    clf.fit(X, y, sensitive_features=groups, **further)
    found: Run = {"seconds": time.process_time() - start}
    result = clf.result_
    found |= {"kept": result.kept, "trained": result.limits[0].reached, "certified": result.certified}
    if result.forecast is not None and result.forecast.limits:
        limit = result.forecast.limits[0]
        found |= {"expected": limit.expected, "lower": limit.lower, "upper": limit.upper, "holds": limit.holds}
    if result.margin is not None:
        found["margin"] = [result.margin.limits[0].least, result.margin.limits[0].most]
    if kind == "certified":
        found["strictness"] = [(trial.strictness, trial.passed) for trial in result.trials]
    if kind != "certified" or result.certified:
        found |= reached(clf.predict(truth[0]), truth)
    return found


def peer(X: np.ndarray, y: np.ndarray, groups: np.ndarray, truth: Rows, bound: float) -> Run:
    """Fit ExponentiatedGradient on scaled columns, and count its decisions about the truth."""
    from fairlearn.reductions import DemographicParity, ExponentiatedGradient
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    columns = make_pipeline(SimpleImputer(), StandardScaler())
    model = ExponentiatedGradient(LogisticRegression(), DemographicParity(ratio_bound=bound))
    start = time.process_time()
    model.fit(columns.fit_transform(X), y, sensitive_features=groups)
    seconds = time.process_time() - start
    return {"seconds": seconds, **reached(model.predict(columns.transform(truth[0]), random_state=0), truth)}


HEADINGS = (
    "rows",
    "limit",
    "fit",
    "draws",
    "keeps the limit on the truth",
    "mean ratio",
    "mean shortfall",
    "accuracy",
    "points below plain",
    "truth in the 90% interval",
    "mean width",
    "mean forecast",
    "mean probability to hold",
    "seconds",
)


def summarise(runs: Sequence[Run]) -> Iterator[list[str]]:
    """Yield one line of the table for each size, setting and kind of fit."""
    plain = {(run["rows"], run["setting"], run["draw"]): run for run in runs if run["kind"] in ("plain", "forecast")}
    for size, setting, kind in dict.fromkeys((run["rows"], run["setting"], run["kind"]) for run in runs):
        draws = [run for run in runs if (run["rows"], run["setting"], run["kind"]) == (size, setting, kind)]
        bound, returned = SETTINGS[setting][1], [run for run in draws if "ratio" in run]
        told = [run for run in returned if "expected" in run]
        costs = [
            100 * (plain[key]["accuracy"] - run["accuracy"])
            for run in returned
            if (key := (size, setting, run["draw"])) in plain
        ]
        yield [
            f"{size:,}",
            setting,
            kind,
            str(len(draws)),
            f"{sum(run['ratio'] >= bound for run in returned)} of {len(returned)}",
            _mean([run["ratio"] for run in returned], 3),
            _mean([max(0.0, bound - run["ratio"]) for run in returned], 3),
            _mean([100 * run["accuracy"] for run in returned], 2),
            "" if kind in ("plain", "forecast") else _mean(costs, 2),
            f"{sum(run['lower'] <= run['ratio'] <= run['upper'] for run in told)} of {len(told)}" if told else "",
            _mean([run["upper"] - run["lower"] for run in told], 3),
            _mean([run["expected"] for run in told], 3),
            _mean([run["holds"] for run in told], 2),
            _mean([run["seconds"] for run in draws], 2),
        ]


CLASSES = (0.0, 0.05, 0.2, 0.4, 0.6, 0.8, 1.0)
"""Ends of the classes of forecasts, by their probability to hold."""


def calibration(runs: Sequence[Run]) -> Iterator[list[str]]:
    """Yield one line for each class of forecasts: how many limits held on the truth, and how many were said to."""
    told = [run for run in runs if run["kind"] in ("forecast", "margin") and "holds" in run]
    for low, high in pairwise(CLASSES):
        there = [run for run in told if low <= run["holds"] < high or run["holds"] == high == 1.0]
        if there:
            held = sum(run["ratio"] >= SETTINGS[run["setting"]][1] for run in there)
            yield [f"{low:g} to {high:g}", str(len(there)), f"{sum(run['holds'] for run in there):.1f}", str(held)]


def _mean(values: Sequence[float], digits: int) -> str:
    return f"{mean(values):.{digits}f}" if values else ""


def report(runs: Sequence[Run]) -> list[str]:
    """Return the lines of both tables."""
    order = {name: place for place, name in enumerate((*SETTINGS, *KINDS))}
    ordered = sorted(runs, key=lambda run: (run["rows"], order[run["setting"]], order[run["kind"]]))
    heads = ("probability to hold, by the forecast", "fits", "expected to hold", "held on the truth")
    return [*table(HEADINGS, list(summarise(ordered))), "", *table(heads, list(calibration(ordered)))]


def wanted(options: argparse.Namespace) -> Iterator[Mapping[str, Any]]:
    """Yield the keys of the runs: all settings of a draw before the next draw."""
    for draw in range(options.first, options.first + options.draws):
        for size in options.rows:
            for setting in options.settings:
                for kind in options.kinds:
                    if kind != "eg" or SETTINGS[setting][2] == "linear":
                        yield {"setting": setting, "rows": size, "kind": kind, "draw": draw}


def main() -> None:
    """Run the draws and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="number of the first draw")
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000, 5_000, 50_000])
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=list(SETTINGS)[:9])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS[:4]))
    parser.add_argument("--out", type=Path, default=Path("build/unseen.jsonl"))
    parser.add_argument("--report", action="store_true", help="train nothing, print the tables")
    options = parser.parse_args()
    results = Results(options.out)
    if not options.report:
        _one_thread.hold()
        warnings.simplefilter("ignore")  # what they warn of is what is counted here
        version = tested_commit()
        last: tuple[Any, Any] = (None, None)
        for key in wanted(options):
            if results.find(**key) is not None:
                continue
            where = SETTINGS[key["setting"]][0], key["rows"], key["draw"]
            if last[0] != where:
                last = where, draw_rows(*where)
            results.get(
                lambda key=key, rows=last[1]: judge(key["setting"], key["kind"], rows) | {"commit": version}, **key
            )
    print("\n".join(report(results.runs)))


if __name__ == "__main__":
    main()
