"""Size and power of the exact score test, by enumeration of all outcomes; nothing is simulated.

Size: the largest probability of a PASS on the line Q = limit, over a fine grid of rates, for pairs of group sizes.
Power: the probability of a PASS if both groups have the same rate, beside the bound for large groups.

    .venv/bin/python benchmarks/score_test.py --sizes 12      # the first 12 pairs, from small to large
"""

import argparse
from collections.abc import Callable

import numpy as np
from scipy import stats

from fairbound.evaluation.bounds import (
    MOST_OUTCOMES,
    LimitLine,
    QuantityKind,
    ScoreTest,
    lower_bound_independent,
    quantity,
)
from fairbound.evaluation.intervals import Share

SIZES = sorted(
    ((n, m) for n in (5, 12, 25, 60, 150, 500, 2000) for m in (5, 12, 25, 75, 150, 500, 2000)),
    key=lambda s: s[0] * s[1],
)
PAIRS = [(n, m) for n, m in SIZES if (n + 1) * (m + 1) <= MOST_OUTCOMES]
LIMITS: tuple[tuple[QuantityKind, float], ...] = (("ratio", 0.8), ("difference", -0.1))
ALPHA = 0.05

Passes = Callable[[int, int, int, int], bool]


def by_score_test(kind: QuantityKind, limit: float) -> Passes:
    """Return the decision of the score test, as a function of the counts and sizes of both groups."""
    return lambda a, n, b, m: ScoreTest(a, n, b, m, ALPHA, kind, limit).rejects(limit)


def by_large_groups(kind: QuantityKind, limit: float) -> Passes:
    """Return the decision of the bound for large groups."""
    line, compare = LimitLine.of(kind, limit), quantity(kind)
    return lambda a, n, b, m: lower_bound_independent(Share(a, n), Share(b, m), ALPHA, compare, line) >= limit


def least_passing(passes: Passes, n: int, m: int) -> np.ndarray:
    """Return, for each count of the second group, the least count of the first that passes; n + 1 if none does."""
    found = []
    for b in range(m + 1):
        low, high = -1, n + 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if passes(middle, n, b, m) else (middle, high)
        found.append(high)
    return np.array(found)


def chance(least: np.ndarray, n: int, m: int, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the probability of a PASS at pairs of rates."""
    tail = stats.binom.sf(least - 1, n, first[:, None])
    return np.asarray((stats.binom.pmf(np.arange(m + 1), m, second[:, None]) * tail).sum(axis=1))


def main() -> None:
    """Print the two tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, default=len(PAIRS), help="how many pairs of sizes")
    parser.add_argument("--first", type=int, default=0, help="number of the first pair, to go on from there")
    options = parser.parse_args()
    chosen = PAIRS[options.first : options.first + options.sizes]
    second = np.linspace(0.0, 1.0, 2001)
    print(f"size at a level of {ALPHA}, over {len(second)} rates on the line")
    for n, m in chosen:
        row = []
        for kind, limit in LIMITS:
            first = limit * second if kind == "ratio" else second + limit
            inside = first >= 0
            least = least_passing(by_score_test(kind, limit), n, m)
            row.append(f"{kind} {limit:g}: {chance(least, n, m, first[inside], second[inside]).max():.4f}")
        print(f"{n:>5} and {m:>5} rows   " + "   ".join(row), flush=True)
    print("power if both groups have the same rate, limit: ratio 0.8; score test, bound for large groups")
    rates = np.array([0.3, 0.5])
    for n, m in ((25, 75), (75, 25), (200, 800)):
        values = [
            chance(least_passing(make("ratio", 0.8), n, m), n, m, rates, rates)
            for make in (by_score_test, by_large_groups)
        ]
        row = [f"rate {rate:g}: {score:.3f}, {large:.3f}" for rate, score, large in zip(rates, *values, strict=True)]
        print(f"{n:>5} and {m:>5} rows   " + "   ".join(row), flush=True)


if __name__ == "__main__":
    main()
