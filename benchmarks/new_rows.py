"""Accuracy at equal disparity on new rows: the package under test, an earlier version, and others.

Each draw takes training rows of a table at random.  Up to 100,000 of the other rows are the new rows.  Each method is
fitted for several bounds on the ratio of selection rates, and judged on the new rows.  The means over the draws are a
curve of accuracy over ratio, for each method.  Curves are compared where they have the same ratio, since methods miss
what they are asked for by different amounts.

    ours    ConstrainedClassifier, linear, with default settings; it encodes the columns by itself
    eg      fairlearn's ExponentiatedGradient over LogisticRegression, on one-hot columns.  Its decisions are random;
            expected accuracies and rates are counted.  LogisticRegression alone is the loose end of its curve.
    lr      LogisticRegression alone, on the same columns

`--source` names the sources of the package to fit with, and `--name` the name of its results:

    python benchmarks/new_rows.py --method lr eg
    python benchmarks/new_rows.py --method ours --source OLD/src --name ours02 --bounds 0.8 0.9 --draws 5
    python benchmarks/new_rows.py --method ours
    python benchmarks/new_rows.py --report

Results are kept, a line of JSON each, and not repeated (except with `--again`).  So a run can be interrupted, and done
in parts.  `--first` is the first draw: choices are made on some draws, and reported on others.  The data are needed
in the folder FAIRBOUND_DATA (docs/data.md).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import count, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import _one_thread
import numpy as np
from _shared import KNOWN, Known, encoded, expected_accuracy, known, least_ratio, table, tested_commit

MOST_NEW = 100_000
LEAST_GROUP = 10
"""A draw in which a group has fewer training rows is drawn again."""
ROWS = (500, 1000, 3000, 30_000)
BOUNDS = {
    "ours": (0.0, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.98),  # dense, since lines between points lie below the curve
    "eg": (0.8, 0.84, 0.88, 0.91, 0.94, 0.97, 0.99),  # it bounds the ratio to the rate of everyone, a weaker limit
    "lr": (0.0,),
}
"""What each method is asked for; 0 is no limit."""
ALLOWED = 0.1
"""Points that a method may be below another one, where two standard errors are less."""
RESOLVED = 0.02
"""Points of a curve whose ratios are nearer than this are one point: the line through them would have any slope."""
Line = dict[str, Any]


class Split(NamedTuple):
    """The training rows and the new rows of a draw, as they are and encoded."""

    train: Known
    new: Known
    X: np.ndarray
    X_new: np.ndarray


def split(name: str, rows: int, draw: int) -> Split:
    """Return the rows of a draw; at most four fifths of a table are trained on."""
    whole = known(name)
    size = min(rows, len(whole) * 4 // 5)
    groups = np.unique(whole.groups)
    for attempt in count():
        order = np.random.default_rng([draw, attempt]).permutation(len(whole))
        train, new = order[:size], order[size:][-MOST_NEW:]
        if min(np.sum(whole.groups[train] == group) for group in groups) >= LEAST_GROUP:
            break
    parts = whole.take(train), whole.take(new)
    return Split(*parts, *encoded(*parts))


def fit(method: str, rows: Split, asked: float) -> tuple[float, np.ndarray]:
    """Return the processor time of a fit, and the decisions on the new rows, or the probabilities to select them."""
    train = rows.train
    if method == "ours":
        from fairbound import ConstrainedClassifier

        clf = ConstrainedClassifier(f"disparate_impact >= {asked}" if asked else (), random_state=0)
        if "training__forecast" in clf.get_params():
            clf.set_params(training__forecast=False)  # it changes no decision
        groups = {"sensitive_features": train.groups} if asked else {}
        start = time.process_time()
        clf.fit(train.frame, train.y, **groups)
        return time.process_time() - start, clf.predict(rows.new.frame)
    from fairlearn.reductions import DemographicParity, ExponentiatedGradient
    from sklearn.linear_model import LogisticRegression

    start = time.process_time()
    if method == "lr":
        model = LogisticRegression().fit(rows.X, train.y)
        return time.process_time() - start, model.predict(rows.X_new)
    mixture = ExponentiatedGradient(LogisticRegression(), DemographicParity(ratio_bound=asked))
    mixture.fit(rows.X, train.y, sensitive_features=train.groups)
    return time.process_time() - start, mixture._pmf_predict(rows.X_new)[:, 1]


def use(source: Path) -> None:
    """Take the package under test from a folder of sources."""
    sys.path.insert(0, str(source))
    import fairbound

    if not Path(fairbound.__file__).resolve().is_relative_to(source.resolve()):
        raise SystemExit(f"--source {source}: fairbound was imported from {fairbound.__file__}. Name its src folder.")


def read(path: Path) -> list[Line]:
    """Return the lines of earlier runs; of lines with the same key the last one."""
    found: dict[tuple, Line] = {}
    for text in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        line = json.loads(text)
        found[line["table"], line["rows"], line["method"], line["asked"], line["draw"]] = line
    return list(found.values())


def run(options: argparse.Namespace) -> None:
    """Fit what is missing, and add it to the file."""
    options.out.parent.mkdir(parents=True, exist_ok=True)
    keys = ("table", "rows", "method", "asked", "draw")
    done = set() if options.again else {tuple(line[key] for key in keys) for line in read(options.out)}
    version = tested_commit() if "ours" in options.method else None
    for name in options.table:
        for size in options.rows:
            for draw in range(options.first, options.first + options.draws):
                wanted = [
                    (method, asked)
                    for method in options.method
                    for asked in (BOUNDS[method] if options.bounds is None else options.bounds)
                    if (name, size, options.name if method == "ours" else method, asked, draw) not in done
                ]
                rows = split(name, size, draw) if wanted else None
                for method, asked in wanted:
                    seconds, selected = fit(method, rows, asked)
                    line = {
                        "table": name,
                        "rows": size,
                        "draw": draw,
                        "method": options.name if method == "ours" else method,
                        "asked": asked,
                        "accuracy": expected_accuracy(selected, rows.new.y),
                        "ratio": least_ratio(selected, rows.new.groups),
                        "seconds": seconds,
                        "train": len(rows.train),
                        "commit": version if method == "ours" else None,
                    }
                    with options.out.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(line) + "\n")
                    print(json.dumps(line), flush=True)


class Curve(NamedTuple):
    """Accuracy and ratio of a method on the new rows; the lines are bounds, by mean ratio, and the columns draws."""

    ratio: np.ndarray
    accuracy: np.ndarray

    def at(self, ratio: float) -> np.ndarray | None:
        """Return the accuracy at a ratio: its mean is on the line between the means of two bounds.

        The terms of the mean say how it depends on each draw, to first order: a draw moves both points of the line.
        None if the ratio is beyond the curve.
        """
        means, heights = self.ratio.mean(axis=1), self.accuracy.mean(axis=1)
        if not means[0] - 1e-12 <= ratio <= means[-1] + 1e-12:
            return None
        if len(means) == 1:
            return self.accuracy[0]
        low = int(np.clip(np.searchsorted(means, ratio) - 1, 0, len(means) - 2))
        share = (ratio - means[low]) / (means[low + 1] - means[low])
        slope = (heights[low + 1] - heights[low]) / (means[low + 1] - means[low])
        weights = np.array([1.0 - share, share])
        return weights @ self.accuracy[low : low + 2] - slope * (weights @ self.ratio[low : low + 2] - ratio)


def curve(lines: Mapping[float, Mapping[int, Line]], draws: Sequence[int]) -> Curve:
    """Return the curve of a method over given draws."""
    values = np.array([[(line[draw]["ratio"], line[draw]["accuracy"]) for draw in draws] for line in lines.values()])
    values = values[np.argsort(values[:, :, 0].mean(axis=1), kind="stable")]
    means = values[:, :, 0].mean(axis=1)
    starts = [0]
    for place in range(1, len(means)):
        if means[place] - means[starts[-1]] >= RESOLVED:
            starts.append(place)
    joined = [values[low:high].mean(axis=0) for low, high in pairwise([*starts, len(means)])]
    return Curve(*np.moveaxis(np.array(joined), 2, 0))


class Difference(NamedTuple):
    """A difference in accuracy at equal ratio, in points, with its standard error over the draws."""

    ratio: float
    ours: float
    theirs: float
    points: float
    error: float

    @property
    def below(self) -> bool:
        """Return whether it is below by more than is allowed."""
        return self.points < -max(ALLOWED, 2.0 * self.error)


def differences(ours: Curve, theirs: Curve) -> Iterator[Difference]:
    """Yield the differences at the ratios of the curve with fewer points, as far as the other one reaches them.

    So the curve with more points, which the lines follow better, is the one that is interpolated.
    """
    for ratio in min(ours, theirs, key=lambda each: len(each.ratio)).ratio.mean(axis=1):
        mine, other = ours.at(ratio), theirs.at(ratio)
        if mine is not None and other is not None:
            terms = 100.0 * (mine - other)
            error = float(terms.std(ddof=1) / np.sqrt(len(terms))) if len(terms) > 1 else float("nan")
            yield Difference(float(ratio), 100 * mine.mean(), 100 * other.mean(), float(terms.mean()), error)


Found = Mapping[tuple[str, int, str], Mapping[float, Mapping[int, Line]]]


def without_limits(found: Found, options: argparse.Namespace) -> Iterator[str]:
    """Yield the table of `--name` without a limit beside LogisticRegression."""
    rows = []
    for name, size in [(name, size) for name in options.table for size in options.rows]:
        ours, theirs = (found.get((name, size, method), {}).get(0.0, {}) for method in (options.name, "lr"))
        shared = sorted(set(ours) & set(theirs))
        if shared:
            pairs = [[(each[draw]["accuracy"], each[draw]["ratio"]) for draw in shared] for each in (ours, theirs)]
            said = [f"{100 * accuracy:.2f}% at {ratio:.3f}" for accuracy, ratio in np.mean(pairs, axis=1)]
            terms = 100.0 * (np.array(pairs[0]) - np.array(pairs[1]))[:, 0]
            error = terms.std(ddof=1) / np.sqrt(len(terms)) if len(terms) > 1 else float("nan")
            rows.append([name, f"{size:,}", str(len(shared)), *said, f"{terms.mean():+.2f}", f"{error:.2f}"])
    if rows:
        heads = ["data", "training rows", "draws", options.name, "LogisticRegression", "difference", "± error"]
        yield from ("\nWithout a limit, on new rows:\n", *table(heads, rows))


def report(lines: Sequence[Line], options: argparse.Namespace) -> Iterator[str]:
    """Yield the tables: `--name` against each other method at equal ratios."""
    found: dict[tuple[str, int, str], dict[float, dict[int, Line]]] = defaultdict(lambda: defaultdict(dict))
    draws = range(options.first, options.first + options.draws)
    for line in lines:
        if line["draw"] in draws and line["table"] in options.table and line["rows"] in options.rows:
            found[line["table"], line["rows"], line["method"]][line["asked"]][line["draw"]] = line
    for name, size, method in list(found):
        if method == "eg" and (name, size, "lr") in found:
            found[name, size, "eg"] |= {0.0: found[name, size, "lr"][0.0]}
    commits = {line["commit"] for line in lines if line["method"] == options.name and line["draw"] in draws}
    if len(commits) > 1:
        yield f"The results of {options.name} are of several commits: {', '.join(sorted(commits))}."
    yield from without_limits(found, options)
    for rival in sorted({method for *_, method in found} - {options.name, "lr"}):
        yield from comparison(found, rival, options)


HEADS = ["data", "training rows", "draws", "ratio"], ["difference", "± error", "below", "time of a fit: ours / theirs"]


def comparison(found: Found, rival: str, options: argparse.Namespace) -> Iterator[str]:
    """Yield the table of `--name` against one other method."""
    rows, places = [], []
    for name, size in [(name, size) for name in options.table for size in options.rows]:
        both = [found.get((name, size, method), {}) for method in (options.name, rival)]
        runs = [set(line) for method in both for line in method.values()]
        shared = sorted(set.intersection(*runs)) if all(both) else []
        if not shared:
            continue
        trained = next(iter(both[0].values()))[shared[0]]["train"]
        head = [name, f"{trained:,}", str(len(shared))]
        times = " / ".join(
            f"{np.mean([line[draw]['seconds'] for asked, line in method.items() if asked for draw in shared]):.2f} s"
            for method in both
        )
        each = list(differences(*(curve(method, shared) for method in both)))
        if not each:
            rows.append([*head, "none in common", *[""] * 5, times])
        for it in each:
            said = f"{it.ratio:.3f}", f"{it.ours:.2f}%", f"{it.theirs:.2f}%", f"{it.points:+.2f}", f"{it.error:.2f}"
            rows.append([*head, *said, "**yes**" if it.below else "", times])
        places += each
    if rows:
        heads = [*HEADS[0], options.name, rival, *HEADS[1]]
        yield from (f"\n{options.name} against {rival}, on new rows, at equal ratio:\n", *table(heads, rows))
    if places:
        below = sum(it.below for it in places)
        average = np.mean([it.points for it in places])
        yield f"\nMean difference {average:+.2f} points; below in {below} of {len(places)} places."


def main() -> None:
    """Run what is missing, or print the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--method", nargs="+", choices=list(BOUNDS), default=["lr", "eg", "ours"])
    parser.add_argument("--table", nargs="+", choices=KNOWN, default=list(KNOWN))
    parser.add_argument("--rows", nargs="+", type=int, default=list(ROWS))
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="the first draw")
    parser.add_argument("--bounds", nargs="+", type=float, help="what is asked for; 0 is no limit")
    parser.add_argument("--source", type=Path, help="the src folder of the package to fit with")
    parser.add_argument("--name", default="ours", help="the name of its results")
    parser.add_argument("--out", type=Path, default=Path("build/new_rows.jsonl"), help="the file of results")
    parser.add_argument("--again", action="store_true", help="repeat what the file holds")
    parser.add_argument("--report", action="store_true", help="fit nothing; compare `--name` with all others")
    options = parser.parse_args()
    if options.report:
        print("\n".join(report(read(options.out), options)))
        return
    if options.source is not None:
        use(options.source)
    if "ours" in options.method:
        _one_thread.hold()
    warnings.simplefilter("ignore")  # unknown categories, and limits that few rows cannot keep, are part of the task
    run(options)


if __name__ == "__main__":
    main()
