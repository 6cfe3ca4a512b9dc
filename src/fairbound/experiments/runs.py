"""What defines a run, and therefore what a stored result is looked up by."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from fairbound._records import read_record
from fairbound.experiments.protocol import EPOCHS, NETWORKS, SCALE, SEED, PartName, SolverName

Limits = tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Run:
    """One training: two runs that are equal give the same numbers.

    Parameters
    ----------
    dataset : str
    data : str
        Fingerprint of the rows, so that results of another file or another draw are never taken for these.
    solver : {"paper", "fast"}
        `StochasticSQP` with the paper's constants, whose last iterate counts; or `fit`.
    surrogate : {"smoothed_step", "sigmoid", "covariance"}
        What stands for the decisions in the limits and in the penalty.
    scale : float
    limits : pairs of a measure and its bound
    penalty : float, optional
        λ of the objective f + r/λ, with r the square of the difference of selection rates by surrogate.
    batches : bool
        Mini-batches in place of whole passes.
    seed : int
    epochs : int
    """

    dataset: str
    data: str
    solver: SolverName
    surrogate: str = "smoothed_step"
    scale: float = SCALE
    limits: Limits = ()
    penalty: float | None = None
    batches: bool = False
    seed: int = SEED
    epochs: int = EPOCHS

    @cached_property
    def key(self) -> str:
        """A short name for all of the above."""
        return hashlib.sha256(json.dumps(asdict(self)).encode()).hexdigest()[:16]

    @property
    def cost(self) -> float:
        """About how long it takes, in units that agree between runs of one data set and solver."""
        width = max([1, *NETWORKS[self.dataset]])
        if self.solver == "fast":
            return 100.0 * (20 + width)
        return self.epochs * (20 + width) * (4.0 if self.batches else 1.0)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Run:
        """Undo `as_dict`, after JSON has made lists of tuples."""
        return read_record(cls, values)


@dataclass(frozen=True)
class Setting:
    """What an item is made for: a data set, a solver, the rows that are reported on."""

    dataset: str
    data: str
    solver: SolverName = "paper"
    part: PartName = "train"
    batches: bool = False
    epochs: int = EPOCHS
    seeds: tuple[int, ...] = ()

    def free(self, **options: Any) -> Run:
        """A run without limits."""
        return Run(self.dataset, self.data, self.solver, batches=self.batches, epochs=self.epochs, **options)

    def limited(self, bound: float, measure: str = "disparate_impact", **options: Any) -> Run:
        """A run under one limit."""
        return replace(self.free(**options), limits=((measure, bound),))

    def covariance(self, bound: float) -> Run:
        """A run whose covariance is limited."""
        return self.limited(bound, "covariance", surrogate="covariance", scale=1.0)

    def penalized(self, penalty: float, surrogate: str = "smoothed_step") -> Run:
        """A run whose unfairness is penalised with weight 1/λ."""
        scale = 1.0 if surrogate == "covariance" else SCALE
        return self.free(penalty=penalty, surrogate=surrogate, scale=scale)
