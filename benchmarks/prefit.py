"""How many decisions of a fitted LightGBM model change under a limit (`cv="prefit"`).

LightGBM is trained on 30,000 rows at most and corrected on 12,000 others at most, for ratios of selection rates.
The rest judges the models.  Printed are means over the splits:

    changed   share of decisions about the given rows that differ from those of LightGBM
    least     smallest share that could bring the rates to the ratio, if the groups were known at decision time

With `--l2` the penalty of the correction is stated; otherwise it is the automatic one.  Needs
`pip install "fairbound[lightgbm]"` and the data sets (docs/data.md).
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from lightgbm import LGBMClassifier

from fairbound import Base, ConstrainedClassifier, Loss, load_dataset

GROUPS = {"dutch": "sex", "acsincome": "sex", "law": "race"}
TRAINED, CORRECTED = 30_000, 12_000


def rates(decided: np.ndarray, groups: np.ndarray) -> tuple[float, float]:
    """Return the least and the largest selection rate."""
    found = [float(decided[groups == each].mean()) for each in np.unique(groups)]
    return min(found), max(found)


def least_change(decided: np.ndarray, groups: np.ndarray, asked: float) -> float:
    """Return the smallest share of decisions whose change brings two rates to a ratio: all of them in one group."""
    sizes = {float(decided[groups == each].mean()): int(np.sum(groups == each)) for each in np.unique(groups)}
    low, high = min(sizes), max(sizes)
    return max(0.0, min((asked * high - low) * sizes[low], (high - low / asked) * sizes[high])) / len(decided)


def run(name: str, seed: int, asked: float, l2: float | str) -> dict[str, float]:
    """Train, correct and judge one model."""
    first, second = load_dataset(name).split(test_size=0.4, random_state=seed)
    base = LGBMClassifier(n_jobs=1, verbose=-1).fit(first.X[:TRAINED], first.y[:TRAINED])
    X, y, groups = second.X, second.y, np.asarray(second.sensitive[GROUPS[name]])
    n = min(CORRECTED, len(y) // 2)
    start = time.process_time()
    clf = ConstrainedClassifier(f"disparate_impact >= {asked}", loss=Loss(l2=l2), base=Base(base, cv="prefit"))
    clf.fit(X[:n], y[:n], sensitive_features=groups[:n])
    seconds = time.process_time() - start
    alone, decided = base.predict(X), clf.predict(X)
    low, high = rates(decided[n:], groups[n:])
    return {
        "kept": clf.result_.kept,
        "changed": clf.result_.base.changed,
        "least": least_change(alone[:n], groups[:n], asked),
        "base": float(np.mean(alone[n:] == y[n:])),
        "accuracy": float(np.mean(decided[n:] == y[n:])),
        "ratio": low / high,
        "seconds": seconds,
    }


def main() -> None:
    """Print the means."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", choices=list(GROUPS), default=list(GROUPS))
    parser.add_argument("--ratios", nargs="+", type=float, default=[0.8, 0.9])
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--l2", type=float)
    arguments = parser.parse_args()
    l2 = "auto" if arguments.l2 is None else arguments.l2
    for name in arguments.data:
        for asked in arguments.ratios:
            runs = [run(name, seed, asked, l2) for seed in range(arguments.splits)]
            mean = {key: float(np.mean([each[key] for each in runs])) for key in runs[0]}
            kept = f"kept in {mean['kept']:.0%} of {len(runs)} splits"
            changed = f"changed {mean['changed']:.2%} (least {mean['least']:.2%})"
            judged = f"other rows {mean['accuracy']:.2%} at {mean['ratio']:.3f}, the base {mean['base']:.2%}"
            print(f"{name} {asked}: {kept}, {changed}; {judged}; {mean['seconds']:.1f} s", flush=True)


if __name__ == "__main__":
    main()
