"""The number of rows that would decide a limit, if the population had the observed rates.

A test at level α decides if its statistic exceeds z_α standard errors.  It does so with probability β (the power) if
the mean of the statistic is z_α + z_β standard errors.  So we look for the number of rows at which the observed rates,
taken as they are, decide at the stricter level Φ(−z_α − z_β).  The power is 0.9.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from scipy import special

from fairbound.evaluation.requirements import Requirement

POWER = 0.9
MOST_TIMES = 1e6  # largest factor tried; a larger one would be no useful answer


def times_as_many(requirements: Sequence[Requirement], alpha: float, level: float) -> float | None:
    """Return how many times as many rows, in the same proportions, would decide with probability 0.9.

    Parameters
    ----------
    requirements : sequence of Requirement
        Requirements of one limit.
    alpha : float
        Level at which a requirement is tested for PASS.
    level : float
        Level of the interval of each rate, for FAIL.

    Returns
    -------
    float or None
        None if no number of rows would decide: the rates are at the limit, or a group has no rows.
    """
    if any(math.isnan(requirement.slack) for requirement in requirements):
        return None
    # Sorted by slack, the requirement that determines the result usually comes first, so the later searches are short.
    # An interval at `level` has level/2 on each side, so the stricter level applies to level/2.
    ordered = sorted(requirements, key=lambda requirement: requirement.slack)
    broken = [requirement for requirement in ordered if requirement.slack < 0]
    return _times_to_fail(broken, 2.0 * _stricter(level / 2.0)) if broken else _times_to_pass(ordered, _stricter(alpha))


def _times_to_fail(broken: Sequence[Requirement], level: float) -> float | None:
    """Return the least factor at which one of the requirements is shown to be broken; one suffices for FAIL."""
    found = None
    for requirement in broken:
        found = _least_times(_Fails(requirement, level), 1.0, MOST_TIMES if found is None else found) or found
    return found


def _times_to_pass(requirements: Sequence[Requirement], alpha: float) -> float | None:
    """Return the least factor at which all requirements are shown to hold; PASS needs all of them."""
    found: float | None = 1.0
    for requirement in requirements:
        if found is not None:
            found = _least_times(_Passes(requirement, alpha), found, MOST_TIMES)
    return found


class _Passes:
    """Tells whether a requirement would be shown to hold on `factor` times as many rows."""

    def __init__(self, requirement: Requirement, alpha: float) -> None:
        self.requirement, self.alpha = requirement, alpha

    def __call__(self, factor: float) -> bool:
        return self.requirement.scaled(factor).worst(self.alpha) >= self.requirement.limit


class _Fails:
    """Tells whether a requirement would be shown to be broken on `factor` times as many rows."""

    def __init__(self, requirement: Requirement, level: float) -> None:
        self.requirement, self.level = requirement, level

    def __call__(self, factor: float) -> bool:
        return self.requirement.scaled(factor).best(self.level) < self.requirement.limit


def _stricter(level: float) -> float:
    """Return Φ(−z_level − z_β)."""
    return float(special.ndtr(special.ndtri(level) - special.ndtri(POWER)))


def _least_times(decides: Callable[[float], bool], low: float, most: float) -> float | None:
    """Return the least factor from `low` to `most` that decides, to 0.5%; None if `most` does not decide."""
    if decides(low):
        return low
    high = low
    while True:
        low, high = high, min(2.0 * high, most)
        if decides(high):
            break
        if high >= most:
            return None
    while high > 1.005 * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if decides(middle) else (middle, high)
    return high
