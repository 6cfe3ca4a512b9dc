"""How many rows would decide a limit, if the population had the rates that were observed.

A statistic that decides when it exceeds z_α standard errors does so in a share β of the draws when its mean is
z_α + z_β standard errors.  So the size sought is that at which the observed rates themselves decide at the stricter
level Φ(−z_α − z_β).  β is nine in ten.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from scipy import special

from fairbound.evaluation.requirements import Requirement

POWER = 0.9
MOST_TIMES = 1e6  # as many rows: beyond this the question has no useful answer


def times_as_many(requirements: Sequence[Requirement], alpha: float, level: float) -> float | None:
    """Return how many times as many rows, in the same proportions, would decide in nine of ten draws.

    Parameters
    ----------
    requirements : sequence of Requirement
        Of one limit.
    alpha : float
        Level at which a requirement is tested for PASS.
    level : float
        Level at which the interval of one rate may err, for FAIL.

    Returns
    -------
    float or None
        None where no number of rows would: rates on the limit itself, or nothing known of a group.
    """
    if any(math.isnan(requirement.slack) for requirement in requirements):
        return None
    # The requirement nearest to deciding, or furthest from it, mostly comes first, and saves the search for the others.
    ordered = sorted(requirements, key=lambda requirement: requirement.slack)
    broken = [requirement for requirement in ordered if requirement.slack < 0]
    return _times_to_fail(broken, 2.0 * _stricter(level / 2.0)) if broken else _times_to_pass(ordered, _stricter(alpha))


def _times_to_fail(broken: Sequence[Requirement], level: float) -> float | None:
    """One of them suffices: the least factor."""
    found = None
    for requirement in broken:
        found = _least_times(_Fails(requirement, level), 1.0, MOST_TIMES if found is None else found) or found
    return found


def _times_to_pass(requirements: Sequence[Requirement], alpha: float) -> float | None:
    """All of them are needed: the largest factor."""
    found: float | None = 1.0
    for requirement in requirements:
        if found is not None:
            found = _least_times(_Passes(requirement, alpha), found, MOST_TIMES)
    return found


class _Passes:
    def __init__(self, requirement: Requirement, alpha: float) -> None:
        self.requirement, self.alpha = requirement, alpha

    def __call__(self, factor: float) -> bool:
        return self.requirement.scaled(factor).worst(self.alpha) >= self.requirement.limit


class _Fails:
    def __init__(self, requirement: Requirement, level: float) -> None:
        self.requirement, self.level = requirement, level

    def __call__(self, factor: float) -> bool:
        return self.requirement.scaled(factor).best(self.level) < self.requirement.limit


def _stricter(level: float) -> float:
    return float(special.ndtr(special.ndtri(level) - special.ndtri(POWER)))


def _least_times(decides: Callable[[float], bool], low: float, most: float) -> float | None:
    """Return the least factor from `low` to `most` that decides, to a part in 200; None where `most` does not."""
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
