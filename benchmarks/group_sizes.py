"""How many rows a group needs before its probability is worth estimating (`correction="groups"`).

From Dutch and from ACSIncome are drawn 8,000 men and a number of women.  LightGBM is corrected by estimates of the
group, and for comparison by the columns, for a ratio of selection rates.  Rows that were not drawn, thousands of each
group, judge the models.  Printed are means over the draws, and the difference of the two corrections within a draw: of
accuracies, and of the shortfalls of the ratio.

LightGBM has 50 trees and three folds whose average predicts, which takes a quarter of the time of the default.

The file of results is resumable.  Needs `pip install "fairbound[lightgbm]"` and the data sets (docs/data.md).
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
from lightgbm import LGBMClassifier

from fairbound import Base, ConstrainedClassifier, load_dataset

SIZES = (200, 400, 800, 1600, 3200)
MEN = 8000
ASKED = {"dutch": 0.85, "acsincome": 0.9}
"""Ratios that bind: without limits the ratios are about 0.63 and 0.79."""
CORRECTIONS = ("groups", "columns")


def run(name: str, data, women: int, draw: int, correction: str) -> dict[str, float]:
    """Train on one draw, and judge on other rows."""
    female = np.asarray(data.sensitive["sex"]) == "female"
    generator = np.random.default_rng(1000 * draw + women)
    small = generator.permutation(np.flatnonzero(female))
    large = generator.permutation(np.flatnonzero(~female))
    train = np.concatenate([small[:women], large[:MEN]])
    test = np.concatenate([small[max(SIZES) : 20_000], large[MEN:20_000]])
    clf = ConstrainedClassifier(
        f"disparate_impact >= {ASKED[name]}",
        base=Base(LGBMClassifier(n_estimators=50, n_jobs=1, verbose=-1), correction=correction, cv=3, ensemble=True),
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf.fit(data.X[train], data.y[train], sensitive_features=female[train])
    decided, there = clf.predict(data.X[test]), female[test]
    rates = [decided[there].mean(), decided[~there].mean()]
    return {"ratio": min(rates) / max(rates), "accuracy": float(np.mean(decided == data.y[test]))}


def show(name: str, women: int, runs: dict[int, dict[str, dict]]) -> None:
    """Print the means for one size, over the draws that have both corrections."""
    both = [each for each in runs.values() if len(each) == len(CORRECTIONS)]
    if not both:
        return
    said = []
    for correction in CORRECTIONS:
        accuracy, ratio = (np.mean([each[correction][key] for each in both]) for key in ("accuracy", "ratio"))
        said.append(f"{correction} {accuracy:.2%} at {ratio:.3f}")
    for key, unit in (("accuracy", 100.0), ("ratio", 1.0)):
        gains = [unit * (each["groups"][key] - each["columns"][key]) for each in both]
        error = np.std(gains, ddof=1) / np.sqrt(len(gains)) if len(gains) > 1 else np.nan
        said.append(f"{key} {np.mean(gains):+.3f} (standard error {error:.3f})")
    print(f"{name:<9} {women:5d} women, {len(both)} draws: {'; '.join(said)}")


def main() -> None:
    """Run what is missing, and print the means."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", choices=list(ASKED), default=list(ASKED))
    parser.add_argument("--draws", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=np.inf, help="stop after so much processor time")
    parser.add_argument("--results", type=Path, default=Path("group_sizes.jsonl"))
    arguments = parser.parse_args()
    lines = arguments.results.read_text().splitlines() if arguments.results.exists() else []
    done = {(each["data"], each["correction"], each["women"], each["draw"]): each for each in map(json.loads, lines)}
    sets = {name: load_dataset(name) for name in arguments.data}
    for draw in range(arguments.draws):
        for women in SIZES:
            for name in arguments.data:
                for correction in CORRECTIONS:
                    key = name, correction, women, draw
                    if key in done or time.process_time() > arguments.seconds:
                        continue
                    done[key] = {"data": name, "correction": correction, "women": women, "draw": draw}
                    done[key] |= run(name, sets[name], women, draw, correction)
                    with arguments.results.open("a") as file:
                        file.write(json.dumps(done[key]) + "\n")
    for name in arguments.data:
        for women in SIZES:
            runs: dict[int, dict[str, dict]] = {}
            for (other, correction, size, draw), each in done.items():
                if (other, size) == (name, women):
                    runs.setdefault(draw, {})[correction] = each
            show(name, women, runs)


if __name__ == "__main__":
    main()
