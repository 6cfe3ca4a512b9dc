"""Aequitas Flow by name (arXiv 2405.05809): ACSIncome of all states by race, nine groups, beside its published numbers.

    python benchmarks/aequitas.py --folder results/aequitas [--page docs/compared.md]

The benchmark trains on 998,700 rows, chooses on its validation part and judges on its test part.  Its training rows are
not public.  Here the *validation part* (332,900 rows) is the only one trained on, and the test part is the one judged.

    booster alone       LightGBM without limits
    corrected           that booster under a limit, by a linear correction; no group at decision time
    with a margin       likewise, with `margin="auto"`: the limit is tightened by what the training rows forecast
    thresholds by race  a threshold for each race on the booster's score; the race is needed at decision time

The booster is cross-fitted once and its scores are stored in the folder, so all bounds use the same ones.  Results are
stored as well: an interrupted run continues.  The parts of the benchmark (GitHub dssg/aequitas) are expected in the
folder `aequitas` of FAIRBOUND_DATA.  Needs `pip install "fairbound[lightgbm,data]" pandas matplotlib`.
"""

from __future__ import annotations

import argparse
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from _shared import Array, Results, cross_fitted, data_file, draw, said_versions, table, write_between
from lightgbm import LGBMClassifier

from fairbound import ConstrainedClassifier
from fairbound.estimator import TableEncoder

LABEL, GROUP = "PINCP", "RAC1P"
CATEGORIES = ["SCHL", "POBP", "SEX", "OCCP", "RELP", "COW", "MAR"]
BOUNDS, THRESHOLDS = (0.8, 0.9), (0.7, 0.8, 0.85, 0.9)
RATES = {"disparate_impact": "selection rates", "equal_impact": "true-positive rates"}

PUBLISHED = {"disparate_impact": {0.8: 0.5726, 0.9: 0.4379}, "equal_impact": {0.8: 0.8105, 0.9: 0.8105}}
"""Best test accuracy among its published runs whose validation ratio is at least the key."""
PUBLISHED_FREE = (0.8203, 0.244)
"""Best published test accuracy without limits, and its ratio of selection rates."""


class Part:
    """One part of the benchmark."""

    def __init__(self, name: str) -> None:
        rows = pq.read_table(data_file("aequitas", f"ACSIncome.{name}.parquet", source="dssg/aequitas")).to_pandas()
        self.y, self.groups = rows[LABEL].to_numpy(), rows[GROUP].to_numpy()
        self.X = rows.drop(columns=[LABEL, GROUP, "index"], errors="ignore").reset_index(drop=True)

    def judge(self, decided: Array) -> dict[str, float]:
        """Return accuracy, and the least ratio of two groups in selection rates and in true-positive rates."""
        positive = self.y == 1
        return {
            "accuracy": float(np.mean(decided == self.y)),
            "disparate_impact": least_ratio(decided, self.groups),
            "equal_impact": least_ratio(decided[positive], self.groups[positive]),
        }


def least_ratio(decided: Array, groups: Array) -> float:
    """Return the least ratio of the rates of two groups."""
    rates = [decided[groups == group].mean() for group in np.unique(groups)]
    return float(min(rates) / max(rates))


def with_categories(*frames: pd.DataFrame) -> list[pd.DataFrame]:
    """Return the frames with codes as categories, the same ones in all."""
    kinds = {name: pd.CategoricalDtype(np.unique(frames[0][name])) for name in CATEGORIES}
    return [frame.astype(kinds) for frame in frames]


def corrected(
    train: Part, test: Part, scores: list[Array], measure: str, asked: float, margin: str | None
) -> dict[str, Any]:
    """Train the correction under one limit, and judge it."""
    start = time.process_time()
    clf = ConstrainedClassifier(f"{measure} >= {asked}", encoder=TableEncoder(categorical=CATEGORIES), margin=margin)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the forecast warns that new rows may miss the limit; that is measured here
        clf.fit(train.X, train.y, sensitive_features=train.groups, base_score=scores[0])
    seconds = time.process_time() - start
    return {
        "status": clf.result_.status.value,
        "train": {"accuracy": clf.result_.accuracy, measure: clf.result_.limits[0].reached},
        "test": test.judge(clf.predict(test.X, base_score=scores[1])),
        "processor": seconds,
    }


def thresholds(train: Part, test: Part, scores: list[Array], asked: float) -> dict[str, Any]:
    """Choose a threshold for each group, the most accurate ones with selection rates within the ratio; judge them."""
    start = time.process_time()
    curves = {}
    for group in np.unique(train.groups):
        rows = train.groups == group
        ranked = np.argsort(-scores[0][rows, 1], kind="stable")
        labels = train.y[rows][ranked]
        # Correct decisions if the k highest are selected, for k = 0 … n.
        correct = np.concatenate([[0], np.cumsum(2 * labels - 1)]) + np.sum(labels == 0)
        curves[group] = scores[0][rows, 1][ranked], correct
    best, chosen = -1.0, {}
    for low in np.arange(0.05, 0.95, 0.0025):
        picks, total = {}, 0.0
        for group, (_, correct) in curves.items():
            n = len(correct) - 1
            first, last = int(np.ceil(low * n)), int(np.floor(min(1.0, low / asked) * n))
            if first > last:
                break
            picks[group] = first + int(np.argmax(correct[first : last + 1]))
            total += correct[picks[group]]
        else:
            if total > best:
                best, chosen = total, picks
    cuts = {group: ranked[chosen[group] - 1] if chosen[group] else 2.0 for group, (ranked, _) in curves.items()}
    seconds = time.process_time() - start
    found = [
        part.judge((score[:, 1] >= np.vectorize(cuts.get)(part.groups)).astype(int))
        for part, score in ((train, scores[0]), (test, scores[1]))
    ]
    return {"train": found[0], "test": found[1], "processor": seconds}


def run(folder: Path) -> Results:
    """Run what is missing."""
    results = Results(folder / "results.jsonl")
    train, test = Part("validation"), Part("test")
    base = LGBMClassifier(n_estimators=100, n_jobs=1, verbose=-1)
    inputs = with_categories(train.X, test.X)
    scores, seconds = cross_fitted(folder / "scores.npz", base, inputs[0], train.y, inputs[1])
    alone = [part.judge(score.argmax(axis=1)) for part, score in zip((train, test), scores, strict=True)]
    results.get(lambda: {"train": alone[0], "test": alone[1], "processor": seconds}, model="booster alone")
    for asked in THRESHOLDS:
        key: dict[str, Any] = {"model": "thresholds by race", "measure": "disparate_impact", "asked": asked}
        results.get(partial(thresholds, train, test, scores, asked), **key)
    for margin, model in ((None, "corrected"), ("auto", "with a margin")):
        for measure in RATES:
            for asked in BOUNDS:
                key = {"model": model, "measure": measure, "asked": asked}
                results.get(partial(corrected, train, test, scores, measure, asked, margin), **key)
    return results


def said(judged: dict[str, float] | None, measure: str) -> str:
    """Return "78.64% at 0.781"."""
    return "–" if judged is None or measure not in judged else f"{judged['accuracy']:.2%} at {judged[measure]:.3f}"


def write_page(results: Results, page: Path) -> None:
    """Write the tables and the picture."""
    free = results.find(model="booster alone")
    heads = ["model", "race at decision time", "asked", "training rows", "test rows", "processor time"]
    lines = ["![Accuracy against the ratio of selection rates, test part](figures/aequitas.svg)", ""]
    for measure, rates in RATES.items():
        rows = []
        if measure == "disparate_impact":
            rows.append(["published, without limits", "no", "–", "–", "{:.2%} at {:.3f}".format(*PUBLISHED_FREE), "–"])
        needs = "–" if measure == "disparate_impact" else "needed"
        for asked, accuracy in PUBLISHED[measure].items():
            rows.append([f"published, best of all methods at {asked}", needs, f"{asked}", "–", f"{accuracy:.2%}", "–"])
        if free:
            judged = [said(free[part], measure) for part in ("train", "test")]
            rows.append(["booster alone", "no", "–", *judged, f"{free['processor']:.0f} s"])
        for run in sorted(results.runs, key=lambda run: (run["model"], run.get("asked", 0.0))):
            if run.get("measure") != measure:
                continue
            needed = run["model"] == "thresholds by race"
            judged = [said(run[part], measure) for part in ("train", "test")]
            cells = [run["model"], "needed" if needed else "no", f"{run['asked']}", *judged]
            rows.append([cell if needed else f"**{cell}**" if i == 4 else cell for i, cell in enumerate(cells)])
            rows[-1].append(f"{run['processor']:.0f} s")
        lines += [f"Least ratio of {rates} of two races:", "", *table(heads, rows), ""]
    total = sum(run["processor"] for run in results.runs)
    lines += [f"All of it took {total / 60:.0f} minutes of processor time. {said_versions('fairbound', 'lightgbm')}"]
    write_between(page, "aequitas", lines)
    measure = "disparate_impact"

    def points(model: str) -> list[tuple[float, float]]:
        found = [run for run in results.runs if run["model"] == model and run.get("measure") in (None, measure)]
        return [(run["test"][measure], run["test"]["accuracy"]) for run in found]

    blind, aware = {"marker": "o", "linestyle": "-"}, {"marker": "s", "linestyle": "--", "color": "tab:gray"}
    series = {
        "booster alone": (points("booster alone"), {"marker": "*", "linestyle": "", "color": "black"}),
        "fairbound, corrected": (points("corrected"), {**blind, "color": "tab:blue"}),
        "fairbound, with a margin": (points("with a margin"), {**blind, "linestyle": "", "marker": "D"}),
        "thresholds by race (race needed)": (points("thresholds by race"), aware),
        "published, without limits": ([PUBLISHED_FREE[::-1]], {"marker": "*", "linestyle": "", "color": "tab:red"}),
        "published, best at a validation ratio of 0.8, 0.9": (
            list(PUBLISHED[measure].items()),
            {"marker": "x", "linestyle": "", "color": "tab:red"},
        ),
    }
    across = "least ratio of selection rates of two races, test part"
    draw(page.parent / "figures" / "aequitas.svg", (across, "test accuracy, %"), series)


def main() -> None:
    """Run what is missing, and write the page if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("results/aequitas"), help="of scores and results")
    parser.add_argument("--page", type=Path, help="the page to write the tables into, docs/compared.md")
    parser.add_argument("--page-only", action="store_true", help="write the page from stored results; train nothing")
    arguments = parser.parse_args()
    results = Results(arguments.folder / "results.jsonl") if arguments.page_only else run(arguments.folder)
    if arguments.page is not None:
        write_page(results, arguments.page)


if __name__ == "__main__":
    main()
