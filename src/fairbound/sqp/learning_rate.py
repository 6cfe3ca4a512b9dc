"""The learning-rate cut of the paper's Algorithm 2 ("Learning Rate Adjustment Strategy").

Let φ_k = τ f(w_k) + v(c(w_k)) be the merit values, and φ̄_k = η φ_k + (1 − η) φ̄_{k−1}, φ̄_0 = φ_0, their moving
average. While the merit falls, the average is above the current value. If it is not, the merit has stopped falling,
and the learning rate is divided by a factor. But there is no cut in the first iterations, nor soon after another cut:

    if k ≥ warmup and rate ≥ smallest:
        if φ̄_k ≤ φ_k and since ≥ interval:  rate ← rate / factor,  since ← 0
        since ← since + 1

The paper uses the same letters for other things; here its δ_k is `since`, its γ is `factor`, and its α is `rate`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field


@dataclass(kw_only=True)
class LearningRateCut:
    """Algorithm 2 of the paper: divide the learning rate when the merit function stops falling.

    Parameters
    ----------
    smallest : float
        A learning rate below this is not cut again.
    warmup : int
        Iterations before the first cut (k_min).
    interval : int
        Iterations between cuts (Δk).
    factor : float
        Divisor of a cut (γ).
    weight : float
        Weight η of the current value in the moving average.
    merit_parameter : float, optional
        τ of the merit value.  None takes the optimiser's own; the paper's experiments fixed it at 0.01.
    count_in_warmup : bool
        Whether iterations before `warmup` count towards `interval`.  The paper's text counts from `warmup` on; the
        program that ran its experiments counted from the start.

    Examples
    --------
    >>> cut = LearningRateCut(warmup=0, interval=0)
    >>> [cut.update(value, 0.0, rate, 1.0) for value, rate in [(1.0, 0.5), (0.5, 0.05), (2.0, 0.05)]]
    [0.05, 0.05, 0.005]
    """

    smallest: float = 1e-7
    warmup: int = 200
    interval: int = 5
    factor: float = 10.0
    weight: float = 0.85
    merit_parameter: float | None = None
    count_in_warmup: bool = False
    _iteration: int = field(default=0, init=False)
    _since: int = field(default=0, init=False)
    _average: float = field(default=math.nan, init=False)

    def __post_init__(self) -> None:
        tau = 1.0 if self.merit_parameter is None else self.merit_parameter
        for name, allowed, right in (
            ("warmup", "a whole number of at least 0", isinstance(self.warmup, int) and self.warmup >= 0),
            ("interval", "a whole number of at least 0", isinstance(self.interval, int) and self.interval >= 0),
            ("factor", "above 1, for example 10", self.factor > 1.0),
            ("weight", "above 0 and at most 1, for example 0.85", 0.0 < self.weight <= 1.0),
            ("smallest", "at least 0, for example 1e-7", self.smallest >= 0.0),
            ("merit_parameter", "a finite number above 0, or None", 0.0 < tau < math.inf),
        ):
            if not right:
                raise ValueError(f"LearningRateCut({name}={getattr(self, name)!r}): must be {allowed}.")

    def update(self, f: float, violation: float, learning_rate: float, merit_parameter: float) -> float:
        """Return the learning rate of the next iteration.

        Parameters
        ----------
        f, violation : float
            Objective and violation at the point of this iteration.
        learning_rate : float
            Learning rate of this iteration.
        merit_parameter : float
            The optimiser's τ, used unless this object has its own.
        """
        tau = merit_parameter if self.merit_parameter is None else self.merit_parameter
        merit = tau * f + violation
        if self._iteration == 0:
            self._average = merit
        else:
            self._average = self.weight * merit + (1.0 - self.weight) * self._average
        active = self._iteration >= self.warmup and learning_rate >= self.smallest
        if active and self._average <= merit and self._since >= self.interval:
            learning_rate = learning_rate / self.factor
            self._since = 0
        if active or self.count_in_warmup:
            self._since += 1
        self._iteration += 1
        return learning_rate
