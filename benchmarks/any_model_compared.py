"""Boosted trees under a ratio of selection rates, by us and by fairlearn's ExponentiatedGradient over the same booster.

Both learn without the group at decision time.  Ours is one deterministic model; ExponentiatedGradient draws one of
several for each row, and its constraint compares each group with everyone, so it is run for several ratios.  Printed
are accuracy and least ratio of two groups on held-out rows, and processor times of the same run: compare accuracies at
equal held-out ratios.

Needs `pip install "fairbound[lightgbm]" fairlearn`, and the data sets (see docs/data.md).
"""

import argparse
import time

import numpy as np
from fairlearn.reductions import DemographicParity, ExponentiatedGradient
from lightgbm import LGBMClassifier

from fairbound import ConstrainedClassifier, load_dataset


def booster() -> LGBMClassifier:
    """Return the booster, with default settings."""
    return LGBMClassifier(n_jobs=1, verbose=-1, random_state=0)


def ratio(decided: np.ndarray, groups: np.ndarray) -> float:
    """Return the least ratio of selection rates of two groups."""
    rates = [decided[groups == group].mean() for group in np.unique(groups)]
    return float(min(rates) / max(rates))


def main() -> None:
    """Compare on one data set."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="?", default="dutch")
    parser.add_argument("--group", default="sex")
    parser.add_argument("--ratios", type=float, nargs="+", default=[0.8, 0.9])
    parser.add_argument("--theirs", type=float, nargs="+", default=[0.8, 0.9, 0.95], help="ratios for fairlearn")
    parser.add_argument("--splits", type=int, default=5)
    arguments = parser.parse_args()
    data = load_dataset(arguments.data)
    for seed in range(arguments.splits):
        split = data.split(test_size=0.2, random_state=seed)
        train, test = split.train, split.test
        groups, others = train.sensitive[arguments.group], test.sensitive[arguments.group]
        print(f"{arguments.data}, {arguments.group}, split {seed}: {len(train)} rows, {len(test)} held out", flush=True)

        def show(name: str, decided: np.ndarray, start: float, y=test.y, others=others) -> None:
            seconds = time.process_time() - start
            accuracy, reached = np.mean(decided == y), ratio(decided, others)
            print(f"  {name:<36} {accuracy:.2%} at {reached:.3f}, {seconds:.0f} s", flush=True)

        start = time.process_time()
        show("booster without limits", booster().fit(train.X, train.y).predict(test.X), start)
        for asked in arguments.ratios:
            start = time.process_time()
            clf = ConstrainedClassifier(f"disparate_impact >= {asked}", base=booster())
            clf.fit(train.X, train.y, sensitive_features=groups)
            show(f"fairbound, asked {asked}", clf.predict(test.X), start)
        for asked in arguments.theirs:
            start = time.process_time()
            limit = DemographicParity(ratio_bound=asked, ratio_bound_slack=0.005)
            reduction = ExponentiatedGradient(booster(), limit)
            reduction.fit(train.X, train.y, sensitive_features=groups)
            show(f"ExponentiatedGradient, asked {asked}", reduction.predict(test.X, random_state=0), start)


if __name__ == "__main__":
    main()
