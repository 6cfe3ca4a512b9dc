"""Models under a ratio of selection rates, by several methods over the same booster, on held-out rows.

    boosted                   fairbound over the booster, with default settings; no group at decision time
    boosted, estimates        the same with `correction="both"`: the model contains an estimate of the group
    boosted, margin           the default with `margin="auto"`, for the limits that are missed
    boosted, group known      the default with the group among the columns, so it is needed at decision time
    LinearPost                a linear program over cross-fitted joint posteriors of label and group (`_linear_post`)
    ExponentiatedGradient     fairlearn; draws one of several models at random for each row
    ThresholdOptimizer        fairlearn; thresholds by group, which it needs at decision time
    OxonFair                  likewise; its thresholds are fitted on a fifth of the training rows

Every method gets the same splits and is asked for several ratios.  Methods miss what they are asked for by different
amounts, so accuracies are compared at equal held-out ratios, interpolated within each split.  Of methods that draw
decisions at random, expected accuracies and rates are counted.

The file of results is resumable: runs that it holds are not repeated.  `--page docs/compared.md` writes tables and
pictures.  Needs `pip install "fairbound[lightgbm]" fairlearn oxonfair matplotlib pandas`, and the data files, in the
folder that FAIRBOUND_DATA names.  A library that is absent is left out.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from _linear_post import linear_post
from _shared import (
    Results,
    draw,
    encoded,
    expected_accuracy,
    known,
    least_ratio,
    said_versions,
    table,
    tested_commit,
    write_between,
)
from lightgbm import LGBMClassifier
from sklearn.model_selection import StratifiedKFold, cross_val_predict, train_test_split

from fairbound import Base, ConstrainedClassifier, Training

Array = np.ndarray

TABLES = {
    "dutch": ("Dutch, by sex", (0.8, 0.85, 0.9)),
    "acs-ca": ("ACSIncome of California, by sex", (0.85, 0.9, 0.95)),
    "law": ("Law, by race", (0.85, 0.9, 0.95)),
    "acs-us": ("ACSIncome of all states, by race, five groups", (0.4, 0.5, 0.65)),
    "health": ("Heritage Health, by age", (0.4, 0.6, 0.8)),
    "admissions": ("UFRGS admissions, by sex", (0.8, 0.85, 0.9)),
    "celeba": ("CelebA attributes, by sex", (0.5, 0.7, 0.8)),
}
"""The name of each table, and the held-out ratios at which methods are compared."""
BEYOND = 0.06
"""The methods are asked for these ratios, and for ones that are so much looser and stricter; lines of the two nearest
runs are extended by up to as much."""
TRAINING, MOST_TEST = 10_000, 40_000
OURS = ("boosted", "boosted, estimates")
RIVALS = ("LinearPost", "ExponentiatedGradient")
NEED_GROUP = ("boosted, group known", "ThresholdOptimizer", "OxonFair")

Decided = Iterable[tuple[float, Array]]
"""For each ratio asked: the decisions about the held-out rows, or the probabilities to select them."""


@dataclass(frozen=True)
class Split:
    """Encoded rows to train on, and to hold out."""

    X: Array
    y: Array
    groups: Array
    X_new: Array
    y_new: Array
    groups_new: Array

    def with_groups(self) -> tuple[Array, Array]:
        """Return the inputs with the group as further columns."""
        names = np.unique(self.groups)[1:]
        rows = (self.X, self.groups), (self.X_new, self.groups_new)
        one, other = (np.hstack([X, (groups[:, None] == names).astype(float)]) for X, groups in rows)
        return one, other


@lru_cache(maxsize=1)
def split(name: str, seed: int) -> Split:
    """Return the rows of one random split: at most 10,000 to train on and 40,000 others."""
    whole = known(name)
    order = np.random.default_rng(seed).permutation(len(whole))
    size = min(TRAINING, int(0.7 * len(whole)))
    train, new = whole.take(order[:size]), whole.take(order[size : size + MOST_TEST])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # categories that the training rows lack
        X, X_new = encoded(train, new)
    return Split(X, train.y, train.groups, X_new, new.y, new.groups)


def booster() -> LGBMClassifier:
    """Return the booster, with default settings."""
    return LGBMClassifier(n_jobs=1, verbose=-1, random_state=0)


def asked(goals: tuple[float, ...]) -> tuple[float, ...]:
    """Return the ratios to ask for, which lie around those to compare."""
    return (goals[0] - BEYOND, *goals, min(goals[-1] + BEYOND, 0.97))


def fairbound(**options: Any) -> Callable[[Split, tuple[float, ...]], Decided]:
    """Return a method of fairbound over the booster, which is cross-fitted once for all ratios."""

    def run(rows: Split, goals: tuple[float, ...]) -> Decided:
        X, X_new = rows.with_groups() if options.get("aware") else (rows.X, rows.X_new)
        base = Base(booster(), correction=options.get("correction", "columns"))
        clf = ConstrainedClassifier("disparate_impact >= 0.8", base=base, training=Training(forecast=False))
        bounds = asked(goals)
        models = clf.frontier(X, rows.y, bounds, sensitive_features=rows.groups)
        for bound, each in zip(bounds, models, strict=True):
            yield bound, each.classifier.predict(X_new)

    return run


def with_margin(rows: Split, goals: tuple[float, ...]) -> Decided:
    """Yield the decisions of fits with a margin; the booster is cross-fitted once."""
    free = ConstrainedClassifier(base=booster()).fit(rows.X, rows.y)
    for goal in goals:
        clf = ConstrainedClassifier(f"disparate_impact >= {goal}", base=free.base_, margin="auto")
        clf.fit(rows.X, rows.y, sensitive_features=rows.groups, base_score=free.base_score_)
        yield goal, clf.predict(rows.X_new)


def linear_program(rows: Split, goals: tuple[float, ...]) -> Decided:
    """Yield LinearPost's decisions; the posteriors are those of one booster of all pairs of group and label."""
    names, group = np.unique(rows.groups, return_inverse=True)
    pairs, shape = 2 * group + rows.y, (-1, len(names), 2)
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    joint = cross_val_predict(booster(), rows.X, pairs, cv=folds, method="predict_proba").reshape(shape)
    new = booster().fit(rows.X, pairs).predict_proba(rows.X_new).reshape(shape)
    for goal in asked(goals):
        yield goal, linear_post(joint, goal)(new)


def exponentiated_gradient(rows: Split, goals: tuple[float, ...]) -> Decided:
    """Yield the probabilities with which fairlearn's mixture selects rows.

    It bounds the ratio of a group's rate to that of everyone, which is a weaker limit, so it is asked for more.
    """
    from fairlearn.reductions import DemographicParity, ExponentiatedGradient

    for goal in asked(goals):
        limit = DemographicParity(ratio_bound=(1 + goal) / 2, ratio_bound_slack=0.005)
        reduction = ExponentiatedGradient(booster(), limit).fit(rows.X, rows.y, sensitive_features=rows.groups)
        yield goal, reduction._pmf_predict(rows.X_new)[:, 1]


def threshold_optimizer(rows: Split, goals: tuple[float, ...]) -> Decided:  # noqa: ARG001 (its rates are equal)
    """Yield the probabilities with which fairlearn's thresholds by group select rows."""
    from fairlearn.postprocessing import ThresholdOptimizer

    found = ThresholdOptimizer(estimator=booster(), constraints="demographic_parity", predict_method="predict_proba")
    found.fit(rows.X, rows.y, sensitive_features=rows.groups)
    yield 1.0, found._pmf_predict(rows.X_new, sensitive_features=rows.groups_new)[:, 1]


def oxonfair(rows: Split, goals: tuple[float, ...]) -> Decided:
    """Yield the decisions of OxonFair's thresholds by group."""
    from oxonfair import FairPredictor
    from oxonfair.utils import group_metrics

    train, held = train_test_split(np.arange(len(rows.y)), test_size=0.2, stratify=rows.y, random_state=0)
    model = booster().fit(rows.X[train], rows.y[train])
    new = {"data": rows.X_new, "target": np.zeros(len(rows.X_new), dtype=int), "groups": rows.groups_new}
    for goal in asked(goals):
        found = FairPredictor(model, {"data": rows.X[held], "target": rows.y[held], "groups": rows.groups[held]})
        found.fit(group_metrics.accuracy, group_metrics.disparate_impact, goal)
        yield goal, np.asarray(found.predict(new))


METHODS: dict[str, Callable[[Split, tuple[float, ...]], Decided]] = {
    "boosted": fairbound(),
    "boosted, estimates": fairbound(correction="both"),
    "LinearPost": linear_program,
    "ExponentiatedGradient": exponentiated_gradient,
    "boosted, margin": with_margin,
    "boosted, group known": fairbound(aware=True),
    "OxonFair": oxonfair,
    "ThresholdOptimizer": threshold_optimizer,
}


def ratio_error(selected: Array, groups: Array) -> float:
    """Return the standard error of the least ratio of selection rates, from those of the two rates."""
    rates = {group: float(selected[groups == group].mean()) for group in np.unique(groups)}
    ends = min(rates, key=rates.__getitem__), max(rates, key=rates.__getitem__)
    relative = sum((1 - rates[each]) / (max(rates[each], 1e-9) * np.sum(groups == each)) for each in ends)
    return float(least_ratio(selected, groups) * np.sqrt(relative))


def run(name: str, seed: int, method: str) -> dict[str, Any]:
    """Train the models of one method on one split, and judge them."""
    rows, start = split(name, seed), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        decided = list(METHODS[method](rows, TABLES[name][1]))
    seconds = time.process_time() - start
    judged = [
        {
            "asked": goal,
            "accuracy": expected_accuracy(selected, rows.y_new),
            "ratio": least_ratio(selected, rows.groups_new),
            "error": ratio_error(selected, rows.groups_new),
        }
        for goal, selected in decided
    ]
    return {"judged": judged, "seconds": seconds, "commit": tested_commit()}


def interpolated(judged: list[dict[str, float]], goal: float) -> float:
    """Return the accuracy at a held-out ratio, between the two nearest runs; NaN too far from all of them."""
    ordered = sorted(judged, key=lambda each: each["ratio"])
    if len(ordered) < 2 or not ordered[0]["ratio"] - BEYOND <= goal <= ordered[-1]["ratio"] + BEYOND:
        return np.nan
    below, above = next((pair for pair in pairwise(ordered) if goal <= pair[1]["ratio"]), ordered[-2:])
    share = (goal - below["ratio"]) / max(above["ratio"] - below["ratio"], 1e-9)
    return below["accuracy"] + share * (above["accuracy"] - below["accuracy"])


def at_goals(results: Results, name: str, method: str) -> dict[int, Array]:
    """Return for each split the accuracies at the ratios to compare."""
    found = [each for each in results.runs if (each["data"], each["method"]) == (name, method)]
    return {each["seed"]: np.array([interpolated(each["judged"], goal) for goal in TABLES[name][1]]) for each in found}


def differences(results: Results, name: str, one: str, other: str) -> Iterator[tuple[float, float]]:
    """Yield the mean difference of two methods in points at each ratio, and its standard error over the splits."""
    ours, theirs = at_goals(results, name, one), at_goals(results, name, other)
    both = [100 * (ours[seed] - theirs[seed]) for seed in sorted(ours.keys() & theirs.keys())]
    for place in range(len(TABLES[name][1])):
        values = np.array([each[place] for each in both if not np.isnan(each[place])])
        error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
        yield (float(values.mean()) if len(values) else np.nan), float(error)


def page(results: Results, target: Path) -> None:
    """Write the tables and pictures."""
    lines = []
    for name, (title, goals) in TABLES.items():
        methods = [method for method in METHODS if at_goals(results, name, method) and method != "boosted, margin"]
        if not methods:
            continue
        splits = {method: len(at_goals(results, name, method)) for method in methods}
        lines += [f"### {title}, {max(splits.values())} splits", ""]
        lines += [f"![Accuracy against ratio on held-out rows, {name}](figures/compared_{name}.svg)", ""]
        rows = []
        for method in methods:
            found = np.array(list(at_goals(results, name, method).values()))
            cells = [_said_percent(each) for each in found.T]
            seconds = [each["seconds"] for each in results.runs if (each["data"], each["method"]) == (name, method)]
            needed = "needed" if method in NEED_GROUP else "no"
            label = method if splits[method] == max(splits.values()) else f"{method} ({splits[method]} splits)"
            rows.append([label, needed, *cells, f"{np.mean(seconds):.1f} s"])
        heads = ["method", "group at decision time", *(f"at {goal}" for goal in goals), "processor time, all ratios"]
        lines += [*table(heads, rows), ""]
        for one in (*OURS, "boosted, group known"):
            for other in ("OxonFair",) if one == "boosted, group known" else RIVALS:
                if one in methods and other in methods:
                    said = [_said_difference(*each) for each in differences(results, name, one, other)]
                    lines.append(f"- *{one}* minus {other}: {', '.join(said)} points.")
        lines.append("")
        _picture(results, name, methods, target.parent / "figures" / f"compared_{name}.svg")
    lines += [*counted(results), "", said_versions("lightgbm", "fairlearn", "oxonfair")]
    commits = sorted({each["commit"] for each in results.runs})
    lines[-1] += f" fairbound at {' and '.join(commits)}."
    write_between(target, "measured", lines)


def _said_percent(values: Array) -> str:
    return "–" if np.isnan(values).all() else f"{np.nanmean(values):.2%}"


def _said_difference(mean: float, error: float) -> str:
    return "–" if np.isnan(mean) else f"{mean:+.2f}" + ("" if np.isnan(error) else f" ± {error:.2f}")


def counted(results: Results) -> list[str]:
    """Return in words how often each model is behind and ahead, and how often a margin misses its limit."""
    lines = []
    for one, other in [(one, other) for one in OURS for other in RIVALS] + [("boosted, group known", "OxonFair")]:
        cells = [each for name in TABLES for each in differences(results, name, one, other) if not np.isnan(each[0])]
        behind = sum(mean < -0.1 and mean < -2 * error for mean, error in cells)
        ahead = sum(mean > 2 * error and mean > 0 for mean, error in cells)
        lines.append(
            f"- *{one}* against {other}: {len(cells)} cells, behind by more than 0.1 points and two standard errors in "
            f"{behind}, ahead by more than two in {ahead}."
        )
    for method in ("boosted, margin", "boosted", "LinearPost"):
        runs = [run for each in results.runs if each["method"] == method for run in each["judged"]]
        missed = sum(run["ratio"] < run["asked"] - 2 * run["error"] for run in runs)
        lines.append(
            f"- *{method}* misses the ratio asked for by more than two standard errors in {missed} of {len(runs)} runs."
        )
    return lines


def _picture(results: Results, name: str, methods: list[str], path: Path) -> None:
    series = {}
    for method in methods:
        runs = [each["judged"] for each in results.runs if (each["data"], each["method"]) == (name, method)]
        points = np.mean([[(one["ratio"], one["accuracy"]) for one in judged] for judged in runs], axis=0)
        style = {"linestyle": "--", "marker": "s"} if method in NEED_GROUP else {"linestyle": "-", "marker": "o"}
        series[method] = ([tuple(each) for each in points.tolist()], style)
    draw(path, ("least ratio of selection rates, held-out rows", "accuracy, %"), series)


def main() -> None:
    """Run what is missing, and write the page if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", choices=list(TABLES), default=list(TABLES))
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--results", type=Path, default=Path("results/compared.jsonl"))
    parser.add_argument("--page", type=Path, help="the page to write the tables into, docs/compared.md")
    arguments = parser.parse_args()
    results = Results(arguments.results)
    for seed in range(arguments.splits):
        for name in arguments.data:
            for method in arguments.methods:
                if (name, method) == ("acs-us", "OxonFair"):  # its grid over five groups needs more than 20 GB
                    continue
                key = {"data": name, "seed": seed, "method": method}
                try:
                    results.get(lambda key=key: run(key["data"], key["seed"], key["method"]), **key)
                except ImportError as error:
                    print(f"{method} is left out: {error}", flush=True)
    print("\n".join(counted(results)))
    if arguments.page is not None:
        page(results, arguments.page)


if __name__ == "__main__":
    main()
