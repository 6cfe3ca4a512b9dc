"""The records of a monitor: counted batches, alarms, and the evidence against limits and their requirements."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairbound._json import as_json
from fairbound.evaluation.requirements import LimitSide


@dataclass(frozen=True)
class CountedBatch:
    """A batch that was counted: its name, the digest of its content if given, and its number of rows."""

    name: str
    digest: str | None
    rows: int


@dataclass(frozen=True)
class MonitorAlarm:
    """The alarm of a limit.

    Attributes
    ----------
    row : int
        The number of rows counted when the alarm was raised.
    batch : int
        The number of batches counted at that time.
    name : str or None
        The name of the last of these batches.
    log_evidence : float
        The natural logarithm of the evidence at that time.
    """

    row: int
    batch: int
    name: str | None
    log_evidence: float


@dataclass(frozen=True)
class RequirementEvidence:
    """The evidence against one requirement of a limit.

    Attributes
    ----------
    text : str
    log_evidence : float
        The natural logarithm of the evidence since the requirement joined.
    rates : tuple of float or None
        The rates over all rows; None without rows.
    recent : tuple of float or None
        The rates over recent rows: older rows count less.
    rows : tuple of int
        The rows of each rate.
    margin : float or None
        By how much the rates over all rows keep the requirement; negative if they break it, None without rows.
    """

    text: str
    log_evidence: float
    rates: tuple[float | None, ...]
    recent: tuple[float | None, ...]
    rows: tuple[int, ...]
    margin: float | None

    @classmethod
    def of(
        cls, text: str, log_evidence: float, totals: np.ndarray, recent: np.ndarray, side: LimitSide
    ) -> RequirementEvidence:
        """Return the record for counts of shape (4,)."""
        places = [0] if side.kind == "value" else [0, 1]
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = [counts[1::2] / counts[::2] for counts in (totals, recent)]
        slope, shift = side.line
        margin = shares[0][0] - shift - (slope * shares[0][1] if slope else 0.0)
        rates, lately = (1.0 - each if side.of_complement else each for each in shares)
        rows = tuple(int(totals[2 * place]) for place in places)
        return cls(text, log_evidence, _known(rates[places]), _known(lately[places]), rows, *_known(margin[None]))


def _known(values: np.ndarray) -> tuple[float | None, ...]:
    return tuple(value if math.isfinite(value) else None for value in values.tolist())


@dataclass(frozen=True)
class LimitEvidence:
    """The evidence against a limit, and its alarm if it has raised one."""

    limit: str
    log_evidence: float
    alarm: MonitorAlarm | None
    requirements: tuple[RequirementEvidence, ...]

    @property
    def strongest(self) -> RequirementEvidence | None:
        """Return the requirement most in doubt: with the most evidence against it or, without any, the least margin."""
        return min(self.requirements, key=_doubt, default=None)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as a dictionary of JSON values."""
        values = {**vars(self), "log10_evidence": self.log_evidence / math.log(10.0)}
        return as_json({name: value for name, value in values.items() if name != "log_evidence"})


def _doubt(requirement: RequirementEvidence) -> tuple[float, float]:
    return min(-requirement.log_evidence, 0.0), math.inf if requirement.margin is None else requirement.margin


def evidence_text(log_evidence: float) -> str:
    """Return evidence as text; large and small values as a power of ten.

    >>> evidence_text(0.0), evidence_text(10.0), evidence_text(-20.0)
    ('1.00', '2.2e+04', '2.1e-09')
    """
    exponent = log_evidence / math.log(10.0)
    if -2.0 <= exponent < 4.0:
        return f"{math.exp(log_evidence):.2f}"
    power = math.floor(exponent)
    return f"{10.0 ** (exponent - power):.1f}e{power:+03d}"
