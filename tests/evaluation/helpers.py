"""Helpers of the evaluation tests: populations with known rates, and draws from them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairbound.evaluation import LimitSide, RateKey, Requirement


@dataclass(frozen=True)
class Population:
    """Groups with their shares, shares of positives, and true- and false-positive rates; rows are independent draws."""

    shares: tuple[float, ...]
    positives: tuple[float, ...]
    true_positive: tuple[float, ...]
    false_positive: tuple[float, ...]

    def draw(self, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return labels, decisions and groups of n rows."""
        group = rng.choice(len(self.shares), size=n, p=self.shares)
        y = (rng.random(n) < np.take(self.positives, group)).astype(int)
        chance = np.where(y == 1, np.take(self.true_positive, group), np.take(self.false_positive, group))
        return y, (rng.random(n) < chance).astype(int), group


def selected_at(rates: tuple[float, ...], shares: tuple[float, ...] | None = None) -> Population:
    """A population with these selection rates, whatever the label."""
    shares = shares or (1 / len(rates),) * len(rates)
    return Population(shares, (0.5,) * len(rates), rates, rates)


def requirement(kind, limit, first, second=None, relation="independent"):
    """Return a requirement on two rates, or on one."""
    keys = tuple(RateKey("g", name, None, "r") for name in ("a", "b"))
    side = LimitSide(kind, "at least", limit)
    return Requirement(side, keys[: 1 if second is None else 2], first, second, relation if second else "alone")


def rows(*cells: tuple[object, object, object, int]) -> tuple[list[object], list[object], list[object]]:
    """Labels, decisions and groups from (group, label, decision, how many) each."""
    y, decision, group = [], [], []
    for name, label, decided, how_many in cells:
        y += [label] * how_many
        decision += [decided] * how_many
        group += [name] * how_many
    return y, decision, group
