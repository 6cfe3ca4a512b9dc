"""The number of rows that would decide a limit, if the population had the observed rates.

A test at level α decides if its statistic exceeds z_α standard errors.  It does so with probability β (the power) if
the mean of the statistic is z_α + z_β standard errors.  So we look for the number of rows at which the observed rates,
taken as they are, decide at the stricter level Φ(−z_α − z_β).  The power is 0.9.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

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
    ordered = sorted(requirements, key=lambda requirement: requirement.slack)
    broken = [requirement for requirement in ordered if requirement.slack < 0]
    found: float | None
    if broken:  # one that is shown to be broken suffices for FAIL
        found = None
        for requirement in broken:
            # An interval at `level` has level/2 on each side, so the stricter level applies to level/2.
            fails = partial(requirement.fails, level=2.0 * _stricter(level / 2.0))
            found = _least_times(fails, 1.0, MOST_TIMES if found is None else found) or found
        return found
    found = 1.0
    for requirement in ordered:  # all must be shown to hold for PASS
        if found is not None:
            found = _least_times(partial(requirement.passes, alpha=_stricter(alpha)), found, MOST_TIMES)
    return found


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
