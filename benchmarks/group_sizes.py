"""How many rows a group needs before its probability is worth estimating (`correction="groups"`).

From Dutch are drawn 8,000 men and a number of women.  LightGBM is corrected by estimates of the group, and for
comparison by the columns, for a ratio of selection rates of 0.85.  Rows that were not drawn, thousands of each group,
judge the models.  Printed are means over the draws.

The file of results is resumable.  Needs `pip install "fairbound[lightgbm]"` and the data set (docs/data.md).
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np
from lightgbm import LGBMClassifier

from fairbound import ConstrainedClassifier, load_dataset

SIZES = (100, 200, 400, 800, 1600, 3200)
MEN = 8000
ASKED = 0.85


def run(data, women: int, draw: int, correction: str) -> dict[str, float]:
    """Train on one draw, and judge on other rows."""
    female = np.asarray(data.sensitive["sex"]) == "female"
    generator = np.random.default_rng(1000 * draw + women)
    small = generator.permutation(np.flatnonzero(female))
    large = generator.permutation(np.flatnonzero(~female))
    train = np.concatenate([small[:women], large[:MEN]])
    test = np.concatenate([small[max(SIZES) :], large[MEN:20_000]])
    clf = ConstrainedClassifier(
        f"disparate_impact >= {ASKED}", base=LGBMClassifier(n_jobs=1, verbose=-1), correction=correction
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf.fit(data.X[train], data.y[train], sensitive_features=female[train])
    decided, there = clf.predict(data.X[test]), female[test]
    rates = [decided[there].mean(), decided[~there].mean()]
    return {"ratio": min(rates) / max(rates), "accuracy": float(np.mean(decided == data.y[test]))}


def main() -> None:
    """Run what is missing, and print the means."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--results", type=Path, default=Path("group_sizes.jsonl"))
    arguments = parser.parse_args()
    lines = arguments.results.read_text().splitlines() if arguments.results.exists() else []
    done = {(each["correction"], each["women"], each["draw"]): each for each in map(json.loads, lines)}
    data = load_dataset("dutch")
    for key in ((c, w, d) for d in range(arguments.draws) for w in SIZES for c in ("groups", "columns")):
        if key not in done:
            correction, women, draw = key
            done[key] = {"correction": correction, "women": women, "draw": draw}
            done[key] |= run(data, women, draw, correction)
            with arguments.results.open("a") as file:
                file.write(json.dumps(done[key]) + "\n")
    found = defaultdict(list)
    for (correction, women, _), each in done.items():
        found[women, correction].append(each)
    for (women, correction), runs in sorted(found.items()):
        ratios = [each["ratio"] for each in runs]
        print(
            f"{women:5d} women, {correction:<8}: accuracy {np.mean([each['accuracy'] for each in runs]):.2%}, ratio "
            f"{np.mean(ratios):.3f}, from {min(ratios):.3f} to {max(ratios):.3f} ({len(runs)} draws)"
        )


if __name__ == "__main__":
    main()
