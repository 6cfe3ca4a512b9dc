"""The forecast: the expected value of a limited measure on new rows.

The rates of a model on rows that it was not trained on are an estimate of those in the population.  Over draws of the
rows they have the covariance Σ, which is binomial for rows of equal weight (`ConstraintSystem.rate_spread`).  So the
rates in the population are modelled as normal, with these values as mean and covariance Σ.  Draws from this
distribution give the expected values, and the probability that each limit holds.

The same distribution gives the *reserve* of `margin=`: a distance for each row of c by which its bound is tightened, so
that all limits hold in the population with a stated probability.  The reserve is the shift from training rows to new
rows plus a number of standard errors, the same number for every pair of groups.  So it is large for small groups and
small for large groups.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fairbound._words import probability_text
from fairbound.fairness import Constraint, ConstraintSystem, resolve_measure

FloatArray = NDArray[np.float64]

DRAWS = 2000
"""Draws from the distribution of the rates.  With 2,000, a probability of ½ has a standard error of 0.01."""

COVERAGE = 0.9
"""Probability with which a value on new rows lies in its interval."""

AUTO = 2 / 3
"""The probability that `margin="auto"` asks for: the limits are twice as likely to hold on new rows as to break."""

CLEARLY_SHORT = 0.1
"""A margin falls short if the probability by the forecast is lower than the one asked for by more than this."""

LARGEST_ERRORS = 3.0
"""The standard errors in the largest reserve: with them a single limit holds on new rows in 99.9% of draws."""

LARGEST_SHARE = 0.9
"""The largest share of the distance between a bound and equal rates that a reserve may take."""


@dataclass(frozen=True)
class LimitForecast:
    """The expected value of one limit on new rows, and the probability that it holds.

    Attributes
    ----------
    limit : str
    expected : float
        The median of the measure in the population.
    lower, upper : float
        The measure lies between them with a probability of 90%.
    holds : float
        Probability that the limit holds in the population.
    """

    limit: str
    expected: float
    lower: float
    upper: float
    holds: float

    def __str__(self) -> str:
        return (
            f"{self.limit}: {self.expected:.3f} expected on new rows (90%: {self.lower:.3f} to {self.upper:.3f}); it "
            f"holds there with a probability of {probability_text(self.holds)}"
        )


@dataclass(frozen=True)
class Forecast:
    """The expected values of the limits on new rows, and the probability that they hold, without held-out rows.

    Attributes
    ----------
    limits : tuple of LimitForecast
        Empty if no forecast can be given.
    holds : float or None
        Probability that all limits hold in the population.
    rows : {"training", "calibration"}
        The rows from which it is computed.
    reason : str
        Why no forecast can be given.
    accuracy : float or None
        The accuracy of decisions about rows that their model has not seen.
    """

    limits: tuple[LimitForecast, ...] = ()
    holds: float | None = None
    rows: str = "training"
    reason: str = ""
    accuracy: float | None = None

    @property
    def chance(self) -> float:
        """The probability that all limits hold; 1 if no forecast can be given."""
        return 1.0 if self.holds is None else self.holds

    @property
    def likely_broken(self) -> bool:
        """Whether a limit is more likely to break on new rows than all of them are to hold."""
        return self.chance < 0.5

    def lines(self, *, advise: bool = False) -> list[str]:
        """Return a sentence for each limit, and one about all of them; with `advise`, also what makes them likelier."""
        if not self.limits:
            return [f"No forecast for new rows: {self.reason}"] if self.reason else []
        found = [f"Forecast, {each}." for each in self.limits]
        if len(found) > 1:
            found.append(f"All limits hold on new rows with a probability of {probability_text(self.holds or 0.0)}.")
        if self.likely_broken:
            which = "the limit" if len(self.limits) == 1 else "a limit"
            found.append(f"On new rows {which} is more likely to break than to hold.")
        if advise and self.chance < AUTO:
            found[0] = f"{found[0][:-1]}; margin='auto' trains with room for new rows."
        return found


@dataclass(frozen=True)
class LimitMargin:
    """How much stricter than asked a limit was trained, in the unit of its measure.

    Attributes
    ----------
    limit : str
        The limit as asked.
    least, most : float
        The smallest and the largest margin over its pairs of groups; small groups have larger ones.
    """

    limit: str
    least: float
    most: float

    def __str__(self) -> str:
        least, most = f"{self.least:.3f}", f"{self.most:.3f}"
        several = "" if least == most else f" to {most}, larger for pairs with a small group"
        return f"{self.limit} was trained with a margin of {least}{several}"


@dataclass(frozen=True)
class MarginResult:
    """The margin of a fit with `margin=`.

    Attributes
    ----------
    probability : float
        The probability, by the forecast, with which all limits are to hold on new rows.
    limits : tuple of LimitMargin
    most : float
        The probability with the largest margin that was tried.
    cost : float
        The loss of accuracy on new rows, by cross-validation, compared with the fit without a margin.
    dropped : bool
        Whether there is no margin because even the largest one brings too little; `cost` is what it would cost.
    """

    probability: float
    limits: tuple[LimitMargin, ...]
    most: float
    cost: float = 0.0
    dropped: bool = False

    def lines(self, forecast: Forecast | None = None) -> list[str]:
        """Return a sentence for each limit, and what the margin does not deliver."""
        cost = f"{100 * self.cost:.2f} points of accuracy" if self.cost > 0.0 else "no accuracy"
        wanted, remedy = probability_text(self.probability), "give more rows or fewer columns, or loosen the limits"
        if self.dropped:
            most = f"even the largest one gives a probability of {probability_text(self.most)} by cross-validation"
            return [f"There is no margin: {most}, not {wanted}, and costs {cost}; {remedy}."]
        found = [f"{each}." for each in self.limits if each.most > 0.0]
        if found:
            found.append(f"By cross-validation this costs {cost} on new rows.")
        else:
            without = "" if forecast is None else f": without it the probability is {probability_text(forecast.chance)}"
            found.append(f"There is no margin{without}.")
        if forecast is not None and self.falls_short(forecast):
            found.append(
                f"The margin was to give a probability of {wanted}, but these rows allow "
                f"{probability_text(forecast.chance)} only: {remedy}."
            )
        return found

    def falls_short(self, forecast: Forecast) -> bool:
        """Return whether the limits are clearly less likely to hold on new rows than was asked for."""
        return forecast.chance < self.probability - CLEARLY_SHORT


@dataclass(frozen=True, eq=False)
class RateDistribution:
    """The distribution of the rates of a model in the population, estimated from its own rows.

    Attributes
    ----------
    system : ConstraintSystem
    rates : array of shape (R,)
        The rates on the rows that the model was fitted to.
    shift : array of shape (R,)
        The change of the rates from these rows to rows that were left out.
    spread : array of shape (R, R)
        The covariance of the rates.
    asked : int, optional
        Only the first `asked` limits get a forecast and a reserve; by default all.  The others are the floors of
        `no_group_worse`, which refer to the training rows.
    accuracy : float
        The accuracy of decisions about rows that were left out.
    """

    system: ConstraintSystem
    rates: FloatArray
    shift: FloatArray
    spread: FloatArray
    asked: int | None = None
    accuracy: float = math.nan

    def draw(self) -> FloatArray:
        """Return draws of the differences from `rates`, (draws, R): from a fixed seed, in antithetic pairs."""
        values, vectors = np.linalg.eigh(self.spread)
        factor = vectors * np.sqrt(np.clip(values, 0.0, None))
        normal = np.random.default_rng(0).standard_normal((DRAWS // 2, len(values)))
        normal = np.concatenate([normal, -normal])
        return normal @ factor.T + self.shift

    def forecast(self, *, rows: str = "training") -> Forecast:
        """Return the forecast of every limit that has a bound."""
        drawn, found = self.rates + self.draw(), []
        together = np.ones(len(drawn), dtype=bool)
        for position, constraint in enumerate(self.system.constraints[: self.asked]):
            if constraint.bound is None:
                continue
            measure = resolve_measure(constraint.measure)
            least = 0.0 if measure.comparison in ("value", "ratio") else -math.inf  # differences need no range
            most = measure.largest if measure.comparison == "value" else math.inf
            values = self.system.drawn(position, np.clip(drawn, least, most))
            lower, upper = constraint.limits
            holds = (values >= lower) & (values <= upper)
            together &= holds
            low, middle, high = np.quantile(values, [0.5 - COVERAGE / 2, 0.5, 0.5 + COVERAGE / 2])
            found.append(LimitForecast(str(constraint), float(middle), float(low), float(high), float(holds.mean())))
        if not found:
            return Forecast(rows=rows, reason="no limit has a bound.", accuracy=self.accuracy)
        return Forecast(tuple(found), float(together.mean()), rows, accuracy=self.accuracy)

    def reserve(self) -> FloatArray:
        """Return the distance by which each row of c is tightened for the strictest model that a margin may choose.

        That is what the row loses on new rows, and a number of its standard errors; less if equal rates are nearer.
        """
        A, lower, upper = (
            np.asarray(each) for each in (self.system.coefficients, self.system.lower, self.system.upper)
        )
        shift, error = A @ self.shift, np.sqrt(np.clip(np.einsum("ir,rs,is->i", A, self.spread, A), 0.0, None))
        two_sided = np.isfinite(lower) & np.isfinite(upper)
        worse = np.where(two_sided, np.abs(shift), np.clip(np.where(np.isfinite(upper), shift, -shift), 0.0, None))
        return np.minimum(
            worse + LARGEST_ERRORS * error, LARGEST_SHARE * room_within(self.system, self.rates, self.asked)
        )

    def margins(self, reserve: FloatArray) -> tuple[LimitMargin, ...]:
        """Return a reserve in the unit of the measures.

        The row δ·r_b − r_a ≤ −m of a ratio is r_a/r_b ≥ δ + m/r_b, at most 1.  All other rows have the unit of their
        measure.
        """
        A, found = np.asarray(self.system.coefficients), []
        for position, constraint in enumerate(self.system.constraints[: self.asked]):
            rows = [place for place, row in enumerate(self.system.rows) if row.constraint == position]
            if constraint.bound is None or not rows:
                continue
            margins = reserve[rows]
            if resolve_measure(constraint.measure).comparison == "ratio":
                compared = np.array([self.rates[int(np.argmax(A[row]))] for row in rows])
                some = compared > 0  # a ratio to a rate of 0 has no unit
                margins = margins[some] / compared[some] if some.any() else np.zeros(1)
                if not isinstance(constraint.bound, tuple):
                    margins = np.minimum(margins, 1.0 - constraint.bound)
            found.append(LimitMargin(str(replace(constraint, reserve=())), float(margins.min()), float(margins.max())))
        return tuple(found)


def with_reserve(system: ConstraintSystem, reserve: FloatArray) -> list[Constraint]:
    """Return the limits of a system, each with the reserve of its own rows of c."""
    owners = [row.constraint for row in system.rows]
    return [
        replace(constraint, reserve=tuple(reserve[[owner == position for owner in owners]].tolist()))
        for position, constraint in enumerate(system.constraints)
    ]


def room_within(system: ConstraintSystem, rates: FloatArray, asked: int | None = None) -> FloatArray:
    """Return the distance from each bound to equal rates of all groups; for a group's own rate, to 0 or 1.

    It is 0 for the limits after the first `asked` ones, which are kept as they are.
    """
    A, lower, upper = (np.asarray(each) for each in (system.coefficients, system.lower, system.upper))
    equal = rates.copy()
    for block in system.blocks:
        equal[block.start : block.stop] = rates[block.stop - 1]
    at_equality = A @ equal
    own = np.array([_is_own_rate(system.constraints[row.constraint]) for row in system.rows], dtype=bool)
    within = np.minimum(np.where(np.isfinite(upper), upper, 1.0), np.where(np.isfinite(lower), 1.0 - lower, 1.0))
    width = np.where(np.isfinite(upper - lower), 0.5 * (upper - lower), math.inf)
    room = np.where(own, within, np.minimum(upper - at_equality, at_equality - lower))
    moved = np.array([asked is None or row.constraint < asked for row in system.rows], dtype=bool)
    return np.where(moved, np.clip(np.minimum(room, width), 0.0, None), 0.0)


def _is_own_rate(constraint: Constraint) -> bool:
    return resolve_measure(constraint.measure).comparison == "value"
