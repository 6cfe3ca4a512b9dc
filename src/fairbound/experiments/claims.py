"""Claims of the paper and their verdicts, which are computed from the outcomes and never written by hand.

A claim has several checks, each about one data set, with its figures.  If all are true, the claim holds.  If some are,
it holds in part.  If none is, it does not hold.  Each solver gets its own verdict: an observation about the paper's
solver need not be true of a better one.  The sentences are in `claims.toml`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

_SENTENCES = tomllib.loads(files("fairbound.experiments").joinpath("claims.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Check:
    """One statement of a claim, and whether the numbers support it.

    Attributes
    ----------
    claim : str
        The claim, as a sentence.
    holds : bool
    figures : str
        A sentence with the numbers.
    because : str
        The reason why the check may be false, if it is known.
    """

    claim: str
    holds: bool
    figures: str
    because: str = ""


def check(name: str, holds: bool, because: str = "", /, **numbers: Any) -> Check:
    """Return a check of a claim by its name, with the numbers of its sentence."""
    said = _SENTENCES[name]
    return Check(said["claim"], holds, said["figures"].format(**numbers), because or said.get("because", ""))


@dataclass(frozen=True)
class ClaimVerdict:
    """A claim and its checks, for one solver.  The solver is empty if no training is involved."""

    claim: str
    solver: str
    checks: tuple[Check, ...]

    @property
    def word(self) -> str:
        """The verdict as text."""
        held = [check.holds for check in self.checks]
        return "holds" if all(held) else "holds in part" if any(held) else "does not hold"

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        checks = [
            {"holds": check.holds, "figures": check.figures, "because": "" if check.holds else check.because}
            for check in self.checks
        ]
        return {"claim": self.claim, "solver": self.solver, "verdict": self.word, "checks": checks}


def verdicts(checks: Iterable[tuple[str, Check]]) -> list[ClaimVerdict]:
    """Group pairs of a solver and a check by claim and solver, in the order of the first check of each claim."""
    by_claim: dict[str, dict[str, list[Check]]] = {}
    for solver, check in checks:
        by_claim.setdefault(check.claim, {}).setdefault(solver, []).append(check)
    return [
        ClaimVerdict(claim, solver, tuple(found))
        for claim, solvers in by_claim.items()
        for solver, found in solvers.items()
    ]
