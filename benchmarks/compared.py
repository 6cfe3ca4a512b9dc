"""Models under a ratio of selection rates, by several libraries over the same booster, on held-out rows.

    linear, network           fairbound without a base, linear and with 32 hidden units; no group at decision time
    boosted                   fairbound over the booster, with default settings; no group at decision time
    boosted, averaged         the same with `cv=3, ensemble=True`
    booster alone             the booster without limits
    ExponentiatedGradient     fairlearn, over the same booster; draws one of several models at random for each row
    ThresholdOptimizer        fairlearn, over the same booster; thresholds by group, which it needs at decision time
    OxonFair                  likewise; its thresholds are fitted on a fifth of the training rows

Every method gets the same splits and is asked for several ratios.  Printed are means over the splits: accuracy and
least ratio of two groups on held-out rows, and processor time of the same run.  Methods miss what they are asked for by
different amounts, so compare accuracies at equal held-out ratios.  Of methods that draw decisions at random, expected
accuracies and rates are counted.  `--page` writes the tables, the accuracies interpolated at given ratios, and the
pictures of docs/compared.md.

The file of results is resumable: runs that it holds are not repeated.  Needs `pip install "fairbound[lightgbm]"
fairlearn oxonfair matplotlib`, and the data sets (docs/data.md).  A library that is absent is left out.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from pathlib import Path

import numpy as np
from lightgbm import LGBMClassifier

from fairbound import Base, ConstrainedClassifier, load_dataset

TITLES = {"dutch": "Dutch", "acsincome": "ACSIncome", "law": "Law"}
GROUPS = {"dutch": "sex", "acsincome": "sex", "law": "race"}
RATIOS = (0.78, 0.83, 0.92)
"""What is asked for, so that the held-out ratios lie on both sides of those that are compared."""
OWN_RATIOS = {
    "ExponentiatedGradient": (0.88, 0.92, 0.97),  # it bounds the ratio to the rate of everyone, a weaker limit
    "ThresholdOptimizer": (1.0,),  # its rates are equal by construction, so one run tells all
    "booster alone": (0.0,),
}
MOST_ROWS = 75_000
"""Larger data sets are sampled, to save time."""
BEYOND = 0.02
"""How far the line of the two tightest runs is extended."""
NOTES = f"""A fifth of the rows is held out, at random. Larger data sets are sampled to {MOST_ROWS:,} rows first. Of
methods that decide at random, expected accuracies and rates are counted. Accuracies at a ratio are interpolated
linearly between the two nearest means, and extended by up to {BEYOND} beyond the tightest run; if all runs of a method
have a larger ratio, the column has the accuracy of its loosest run. Differences are also taken within each split, in
the same way; their spread is beside them. Tables are of the splits that all of their methods have finished; a
method that has finished fewer splits than the others is shown on its own, with their number behind its name."""
RIVAL = "ExponentiatedGradient"
"""The other method that needs no group at decision time."""
OURS = ("linear", "network", "boosted", "boosted, averaged")
NEEDS_GROUP = ("ThresholdOptimizer", "OxonFair")
COMPARED = (0.8, 0.9)
Decide = Callable[[object, np.ndarray], np.ndarray]


def booster() -> LGBMClassifier:
    """Return the booster, with default settings."""
    return LGBMClassifier(n_jobs=1, verbose=-1, random_state=0)


def fairbound(**options: object) -> Callable[..., Decide]:
    """Return a method of fairbound."""

    def fit(X, y, groups, asked: float) -> Decide:
        chosen = {key: value() if key == "base" else value for key, value in options.items()}
        clf = ConstrainedClassifier(f"disparate_impact >= {asked}", **chosen)
        clf.fit(X, y, sensitive_features=groups)
        return lambda rows, _: clf.predict(rows)

    return fit


def alone(X, y, groups, asked: float) -> Decide:  # noqa: ARG001 (nothing is asked for)
    """Return the decisions of the booster without limits."""
    model = booster().fit(X, y)
    return lambda rows, _: model.predict(rows)


def exponentiated_gradient(X, y, groups, asked: float) -> Decide:
    """Return the probabilities with which fairlearn's mixture selects rows."""
    from fairlearn.reductions import DemographicParity, ExponentiatedGradient

    limit = DemographicParity(ratio_bound=asked, ratio_bound_slack=0.005)
    reduction = ExponentiatedGradient(booster(), limit).fit(X, y, sensitive_features=groups)
    return lambda rows, _: reduction._pmf_predict(rows)[:, 1]


def threshold_optimizer(X, y, groups, asked: float) -> Decide:  # noqa: ARG001 (its rates are equal, whatever is asked)
    """Return the probabilities with which fairlearn's thresholds by group select rows."""
    from fairlearn.postprocessing import ThresholdOptimizer

    found = ThresholdOptimizer(estimator=booster(), constraints="demographic_parity", predict_method="predict_proba")
    found.fit(X, y, sensitive_features=groups)
    return lambda rows, others: found._pmf_predict(rows, sensitive_features=others)[:, 1]


def oxonfair(X, y, groups, asked: float) -> Decide:
    """Return OxonFair's thresholds by group."""
    from oxonfair import FairPredictor
    from oxonfair.utils import group_metrics
    from sklearn.model_selection import train_test_split

    train, held = train_test_split(np.arange(len(y)), test_size=0.2, stratify=y, random_state=0)
    model = booster().fit(X[train], y[train])
    found = FairPredictor(model, {"data": X[held], "target": y[held], "groups": groups[held]})
    found.fit(group_metrics.accuracy, group_metrics.disparate_impact, asked)
    blank = np.zeros
    return lambda rows, others: np.asarray(
        found.predict({"data": rows, "target": blank(len(rows), dtype=int), "groups": others})
    )


METHODS: dict[str, Callable[..., Decide]] = {
    "booster alone": alone,
    "linear": fairbound(),
    "network": fairbound(hidden=(32,)),
    "boosted": fairbound(base=booster),
    "boosted, averaged": fairbound(base=lambda: Base(booster(), cv=3, ensemble=True)),
    "ExponentiatedGradient": exponentiated_gradient,
    "ThresholdOptimizer": threshold_optimizer,
    "OxonFair": oxonfair,
}


def ratio(decided: np.ndarray, groups: np.ndarray) -> float:
    """Return the least ratio of selection rates of two groups."""
    rates = [decided[groups == group].mean() for group in np.unique(groups)]
    return float(min(rates) / max(rates))


def run(data: str, seed: int, method: str, asked: float) -> dict[str, object]:
    """Train and judge one model."""
    whole = load_dataset(data)
    if len(whole.y) > MOST_ROWS:
        whole, _ = whole.split(test_size=1 - MOST_ROWS / len(whole.y), random_state=seed)
    train, test = whole.split(test_size=0.2, random_state=seed)
    groups, others = (part.sensitive[GROUPS[data]] for part in (train, test))
    start, wall = time.process_time(), time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        decide = METHODS[method](train.X, train.y, np.asarray(groups), asked)
        processor, elapsed = time.process_time() - start, time.perf_counter() - wall
        decided = decide(test.X, np.asarray(others))
    return {
        "data": data,
        "seed": seed,
        "method": method,
        "asked": asked,
        "accuracy": float(np.mean(np.where(test.y == 1, decided, 1 - decided))),
        "ratio": ratio(decided, np.asarray(others)),
        "processor": processor,
        "wall": elapsed,
        "commit": commit(),
    }


def commit() -> str:
    """Return the commit of the sources."""
    asked = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()


def means(results: list[dict]) -> dict[tuple[str, str], list[dict[str, float]]]:
    """Return for each data set and method the means over the splits, a line for each ratio that was asked for.

    A data set is compared on the splits that all of its methods have finished.
    """
    found: dict[tuple[str, str], dict[float, dict[int, dict]]] = defaultdict(lambda: defaultdict(dict))
    for each in results:
        found[each["data"], each["method"]][each["asked"]][each["seed"]] = each
    splits = {
        data: set.intersection(
            *(set(runs) for (name, _), lines in found.items() if name == data for runs in lines.values())
        )
        for data, _ in found
    }
    return {
        (data, method): [
            {"asked": asked, "splits": len(splits[data])}
            | {
                name: float(np.mean([runs[seed][name] for seed in splits[data]]))
                for name in ("accuracy", "ratio", "processor")
            }
            for asked, runs in sorted(lines.items())
        ]
        for (data, method), lines in found.items()
        if splits[data]
    }


def shown(results: list[dict], data: str) -> tuple[dict[str, list[dict[str, float]]], int]:
    """Return the means of each method, and the number of splits; a method with fewer splits is shown on its own."""
    own = {
        method: means([each for each in results if each["data"] == data and each["method"] == method])
        for method in METHODS
    }
    splits = {method: found[data, method][0]["splits"] for method, found in own.items() if found}
    most = max(splits.values(), default=0)
    full = [each for each in results if each["data"] == data and splits.get(each["method"]) == most]
    common = means(full)
    lines = {method: common[data, method] if splits[method] == most else own[method][data, method] for method in splits}
    return lines, max((line["splits"] for found in common.values() for line in found), default=0)


def interpolated(lines: list[dict[str, float]], goal: float) -> float | None:
    """Return the mean accuracy at a mean held-out ratio, between the two nearest runs.

    If all runs have a larger ratio, it is the accuracy of the loosest one; None without runs, or if all have a ratio
    that is smaller by more than `BEYOND`.  Up to there the line of the last two runs is extended.
    """
    ordered = sorted(lines, key=lambda line: line["ratio"])
    if not ordered:
        return None
    if ordered[0]["ratio"] > goal:
        return ordered[0]["accuracy"]
    for one, other in pairwise(ordered):
        last = ordered[-1]["ratio"] + BEYOND if other is ordered[-1] else other["ratio"]
        if one["ratio"] <= goal <= last:
            part = (goal - one["ratio"]) / max(other["ratio"] - one["ratio"], 1e-12)
            return one["accuracy"] + part * (other["accuracy"] - one["accuracy"])
    return None


def page(results: list[dict], target: Path) -> None:
    """Write the tables and pictures."""
    text = [NOTES, ""]
    for data in GROUPS:
        found, splits = shown(results, data)
        if not splits:
            continue
        draw(data, found, target.parent / "figures")
        text += [f"### {TITLES[data]}, by {GROUPS[data]}, {splits} splits", ""]
        text += [f"![Accuracy against ratio on held-out rows, {data}](figures/compared_{data}.svg)", ""]
        heads = [f"accuracy at {goal}" for goal in COMPARED]
        text += [f"| method | group at decision time | {' | '.join(heads)} | processor time |", "| --- " * 5 + "|"]
        for method, lines in found.items():
            goals = [interpolated(lines, goal) for goal in COMPARED]
            cells = ["–" if goal is None else f"{goal:.2%}" for goal in goals]
            seconds = np.mean([line["processor"] for line in lines])
            needs = "needed" if method in NEEDS_GROUP else "no"
            name = method if lines[0]["splits"] == splits else f"{method} ({lines[0]['splits']:.0f} splits)"
            text.append(f"| {name} | {needs} | {' | '.join(cells)} | {seconds:.1f} s |")
        text += [
            "",
            *_beside(results, data),
            "| method | asked | accuracy | ratio | processor time |",
            "| --- " * 5 + "|",
        ]
        for method, lines in found.items():
            for line in lines:
                text.append(
                    f"| {method} | {line['asked'] or '–'} | {line['accuracy']:.2%} | {line['ratio']:.3f} | "
                    f"{line['processor']:.1f} s |"
                )
        text.append("")
    versions = [f"{name} {_version(name)}" for name in ("fairbound", "lightgbm", "fairlearn", "oxonfair")]
    commits = sorted({each["commit"] for each in results if each["method"] in OURS})
    versions[0] += f" (commit {' and '.join(commits)})"
    text += [f"Python {platform.python_version()}, {', '.join(versions)}; {date.today():%d %B %Y}.", ""]
    whole = target.read_text(encoding="utf-8")
    head, _, rest = whole.partition("<!-- measured -->\n")
    _, _, tail = rest.partition("<!-- end -->\n")
    target.write_text(head + "<!-- measured -->\n\n" + "\n".join(text) + "\n<!-- end -->\n" + tail, encoding="utf-8")


def _beside(results: list[dict], data: str) -> list[str]:
    """Return a sentence on each model of fairbound beside the other one that needs no group, on all their splits."""
    sentences = []
    for method in ("boosted", "boosted, averaged", "linear", "network"):
        both = [each for each in results if each["data"] == data and each["method"] in (method, RIVAL)]
        found = means(both)
        ours, theirs = (found.get((data, name), []) for name in (method, RIVAL))
        if not ours or not theirs:
            continue
        said = []
        for goal in COMPARED:
            one, other = interpolated(ours, goal), interpolated(theirs, goal)
            if one is not None and other is not None:
                said.append(f"{100 * (one - other):+.2f} points at {goal} ({_spread(both, data, method, goal)})")
        share = np.mean([line["processor"] for line in ours]) / np.mean([line["processor"] for line in theirs])
        said.append(f"{share:.2f} of its processor time")
        sentences.append(f"- *{method}* minus {RIVAL}, {ours[0]['splits']} splits: {'; '.join(said)}.")
    return [*sentences, ""] if sentences else []


def _spread(results: list[dict], data: str, method: str, goal: float) -> str:
    """Return in words the differences within the splits."""
    found = []
    for seed in sorted({each["seed"] for each in results}):
        lines = means([each for each in results if each["seed"] == seed])
        one, other = (interpolated(lines.get((data, name), []), goal) for name in (method, RIVAL))
        if one is not None and other is not None:
            found.append(100 * (one - other))
    if len(found) < 2:
        return "too few splits for a spread"
    error = np.std(found, ddof=1) / np.sqrt(len(found))
    return f"{len(found)} splits from {min(found):+.2f} to {max(found):+.2f}, standard error {error:.2f}"


def draw(data: str, lines: dict[str, list[dict[str, float]]], folder: Path) -> None:
    """Draw accuracy against ratio."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "fairbound"
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4))
    for method, points in lines.items():
        ordered = sorted(points, key=lambda line: line["ratio"])
        style = {"linestyle": "--", "marker": "s"} if method in NEEDS_GROUP else {"linestyle": "-", "marker": "o"}
        axes.plot([p["ratio"] for p in ordered], [100 * p["accuracy"] for p in ordered], label=method, **style)
    axes.set_xlabel("least ratio of selection rates, held-out rows")
    axes.set_ylabel("accuracy, %")
    axes.legend(frameon=False, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    folder.mkdir(exist_ok=True)
    figure.savefig(folder / f"compared_{data}.svg", metadata={"Date": None})
    plt.close(figure)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "(absent)"


def main() -> None:
    """Run what is missing, and print the means."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", choices=list(GROUPS), default=list(GROUPS))
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--seconds", type=float, default=np.inf, help="stop after so much processor time")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--results", type=Path, default=Path("compared.jsonl"))
    parser.add_argument("--page", type=Path, help="the page to write the tables into, docs/compared.md")
    arguments = parser.parse_args()
    done = []
    if arguments.results.exists():
        done = [json.loads(line) for line in arguments.results.read_text().splitlines()]
    keys = {(each["data"], each["seed"], each["method"], each["asked"]) for each in done}
    for seed in range(arguments.splits):
        for data in arguments.data:
            for method in arguments.methods:
                for asked in OWN_RATIOS.get(method, RATIOS):
                    if (data, seed, method, asked) in keys or time.process_time() > arguments.seconds:
                        continue
                    try:
                        found = run(data, seed, method, asked)
                    except ImportError as error:
                        print(f"{method} is left out: {error}", flush=True)
                        break
                    print(json.dumps(found), flush=True)
                    with arguments.results.open("a") as file:
                        file.write(json.dumps(found) + "\n")
                    done.append(found)
    for (data, method), lines in sorted(means(done).items()):
        for line in lines:
            print(
                f"{data:<10} {method:<22} asked {line['asked']:.2f}: {line['accuracy']:.2%} at {line['ratio']:.3f}, "
                f"{line['processor']:.1f} s ({line['splits']} splits)"
            )
    if arguments.page is not None:
        page(done, arguments.page)


if __name__ == "__main__":
    main()
