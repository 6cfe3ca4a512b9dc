"""Verdicts on the paper's claims, computed from outcomes and never written by hand.

A claim is looked at through checks, each of which says one thing of one data set with its figures.  All true: the claim
holds; some: it holds in part; none: it does not hold.  The two solvers are judged apart: what the paper observed of its
own need not be true of a better one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Word = Literal["holds", "holds in part", "does not hold", "not measured"]


@dataclass(frozen=True)
class Check:
    """One thing that a claim says, and whether the numbers bear it out.

    Attributes
    ----------
    claim : str
        The claim that it belongs to, in a sentence.
    holds : bool
    figures : str
        The numbers, in a sentence.
    because : str
        Where it does not hold and the reason is known: the reason.
    """

    claim: str
    holds: bool
    figures: str
    because: str = ""


@dataclass(frozen=True)
class ClaimVerdict:
    """A claim and its checks, for one solver; the empty name is for what involves no training."""

    claim: str
    solver: str
    checks: tuple[Check, ...]

    @property
    def word(self) -> Word:
        """The verdict in a word or two."""
        held = [check.holds for check in self.checks]
        if not held:
            return "not measured"
        if all(held):
            return "holds"
        return "holds in part" if any(held) else "does not hold"


def verdicts(checks: Iterable[tuple[str, Check]]) -> list[ClaimVerdict]:
    """Gather checks, each with its solver, by claim and solver, in the order in which the claims come first."""
    by_claim: dict[str, dict[str, list[Check]]] = {}
    for solver, check in checks:
        by_claim.setdefault(check.claim, {}).setdefault(solver, []).append(check)
    return [
        ClaimVerdict(claim, solver, tuple(found))
        for claim, solvers in by_claim.items()
        for solver, found in solvers.items()
    ]
