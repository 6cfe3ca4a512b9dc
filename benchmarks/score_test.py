"""Size and power of the exact score test, by enumeration of all outcomes.

Size: the largest probability of a PASS on the line Q = limit, over a fine grid of rates, for pairs of group sizes.
Power: the probability of a PASS if both groups have the same rate, beside the bound for large groups.
Several groups: with `--groups`, the probability that every pair of groups passes, in both orders, if all of them have
the same rate.  Only this one is simulated, with 1,000 draws.

    .venv/bin/python benchmarks/score_test.py --sizes 12      # the first 12 pairs, from small to large
    .venv/bin/python benchmarks/score_test.py --groups 15600 1775 1150 770 500
"""

import argparse
from collections.abc import Callable, Sequence
from itertools import permutations

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
LEVELS = (0.05, 0.025)  # the whole level, and that of one of two starts

Passes = Callable[[int, int, int, int], bool]


def by_score_test(kind: QuantityKind, limit: float, alpha: float = ALPHA) -> Passes:
    """Return the decision of the score test, as a function of the counts and sizes of both groups."""
    return lambda a, n, b, m: ScoreTest(a, n, b, m, alpha, kind, limit).rejects(limit)


def by_large_groups(kind: QuantityKind, limit: float, alpha: float = ALPHA) -> Passes:
    """Return the decision of the bound for large groups."""
    line, compare = LimitLine.of(kind, limit), quantity(kind)
    return lambda a, n, b, m: lower_bound_independent(Share(a, n), Share(b, m), alpha, compare, line) >= limit


def least_passing(passes: Passes, n: int, m: int) -> np.ndarray:
    """Return, for each count of the second group, the least count of the first that passes; n + 1 if none does.

    It is searched near that of the last count of the second group; every answer is checked on both of its sides.
    """
    found: list[int] = []
    for b in range(m + 1):
        low, high = -1, n + 1
        guess, step = (found[-1] if found else n // 2), 1
        while high - low > 1 and low < guess < high:
            if passes(guess, n, b, m):
                high, guess = guess, guess - step
            else:
                low, guess = guess, guess + step
            step *= 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if passes(middle, n, b, m) else (middle, high)
        found.append(high)
    return np.array(found)


def chance(least: np.ndarray, n: int, m: int, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the probability of a PASS at pairs of rates."""
    tail = stats.binom.sf(least - 1, n, first[:, None])
    return np.asarray((stats.binom.pmf(np.arange(m + 1), m, second[:, None]) * tail).sum(axis=1))


class Known:
    """The decision of a test for two group sizes; it asks only if no decision so far implies the answer.

    A pair of counts that passes also passes with more in the first group, or fewer in the second.
    """

    def __init__(self, passes: Passes, n: int, m: int) -> None:
        self.passes, self.n, self.m = passes, n, m
        self.passed, self.failed = np.empty((0, 2), dtype=int), np.empty((0, 2), dtype=int)

    def __call__(self, a: int, b: int) -> bool:
        """Return whether the counts pass."""
        if ((self.passed[:, 0] <= a) & (self.passed[:, 1] >= b)).any():
            return True
        if ((self.failed[:, 0] >= a) & (self.failed[:, 1] <= b)).any():
            return False
        found = self.passes(a, self.n, b, self.m)
        if found:
            self.passed = np.vstack([self.passed, (a, b)])
        else:
            self.failed = np.vstack([self.failed, (a, b)])
        return found


def power_of_groups(sizes: Sequence[int], rate: float, limit: float, alpha: float, draws: int = 1000) -> float:
    """Return the share of draws in which all pairs of groups pass, if all groups have the same rate."""
    tests = {}
    for i, j in permutations(range(len(sizes)), 2):
        few = (sizes[i] + 1) * (sizes[j] + 1) <= MOST_OUTCOMES
        passes = (by_score_test if few else by_large_groups)("ratio", limit, alpha)
        tests[i, j] = Known(passes, sizes[i], sizes[j])
    # The pairs of the smallest groups fail most often, so they come first.
    order = sorted(tests, key=lambda pair: min(sizes[pair[0]], sizes[pair[1]]))
    drawn = np.random.default_rng(0).binomial(sizes, rate, size=(draws, len(sizes)))
    return sum(all(tests[i, j](int(row[i]), int(row[j])) for i, j in order) for row in drawn) / draws


def main() -> None:
    """Print the two tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, default=len(PAIRS), help="how many pairs of sizes")
    parser.add_argument("--first", type=int, default=0, help="number of the first pair, to go on from there")
    parser.add_argument("--groups", type=int, nargs="+", help="sizes of several groups: the power of all pairs only")
    options = parser.parse_args()
    if options.groups:
        print(f"power of all pairs if all groups have the same rate, limit: ratio 0.8; groups of {options.groups}")
        for rate in (0.25, 0.3, 0.35, 0.4, 0.5):
            values = [f"level {level:g}: {power_of_groups(options.groups, rate, 0.8, level):.3f}" for level in LEVELS]
            print(f"  rate {rate:g}   " + "   ".join(values), flush=True)
        return
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
