"""The definition of a run, which is also the key of its stored result."""

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
    """One training.  Equal runs give the same numbers.

    Parameters
    ----------
    dataset : str
    data : str
        A hash of the rows, so that results for other rows are never used by mistake.
    solver : {"paper", "fast"}
        "paper" is the last iterate of `StochasticSQP` with the paper's constants.  "fast" is `fit`.
    surrogate : {"smoothed_step", "sigmoid", "covariance"}
        The surrogate of the decisions in the limits and in the penalty.
    scale : float
    limits : pairs of a measure and its bound
    penalty : float, optional
        λ of the objective f + r/λ.  r is the squared difference of selection rates by surrogate.
    batches : bool
        Whether to use mini-batches instead of full batches.
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
        """A hash of all fields."""
        return hashlib.sha256(json.dumps(asdict(self)).encode()).hexdigest()[:16]

    @property
    def cost(self) -> float:
        """An estimate of the duration, comparable between runs of one data set and solver."""
        width = max([1, *NETWORKS[self.dataset]])
        if self.solver == "fast":
            return 100.0 * (20 + width)
        return self.epochs * (20 + width) * (4.0 if self.batches else 1.0)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Run:
        """Build a run from `as_dict` after a round trip through JSON, which turns tuples into lists."""
        return read_record(cls, values)


@dataclass(frozen=True)
class Setting:
    """The conditions of an item: a data set, a solver and the reported rows; its methods build runs."""

    dataset: str
    data: str
    solver: SolverName = "paper"
    part: PartName = "train"
    batches: bool = False
    epochs: int = EPOCHS
    seeds: tuple[int, ...] = ()

    def free(self, **options: Any) -> Run:
        """Return a run without limits."""
        return Run(self.dataset, self.data, self.solver, batches=self.batches, epochs=self.epochs, **options)

    def limited(self, bound: float, measure: str = "disparate_impact", **options: Any) -> Run:
        """Return a run with one limit."""
        return replace(self.free(**options), limits=((measure, bound),))

    def covariance(self, bound: float) -> Run:
        """Return a run with a limit on the covariance."""
        return self.limited(bound, "covariance", surrogate="covariance", scale=1.0)

    def penalized(self, penalty: float, surrogate: str = "smoothed_step") -> Run:
        """Return a run with a penalty of weight 1/λ on the difference of selection rates."""
        scale = 1.0 if surrogate == "covariance" else SCALE
        return self.free(penalty=penalty, surrogate=surrogate, scale=scale)
