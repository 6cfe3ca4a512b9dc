"""Convert options into the arguments of a study."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fairbound.cli.files import existing_file

if TYPE_CHECKING:
    from fairbound.fairness import Constraint

HELD_OUT = 0.2  # the default share of the rows


def check_held_out(share: float | None, file: str | None) -> float:
    """Return the share of the rows to hold out; 0 if a file has the held-out rows."""
    if file is None:
        return HELD_OUT if share is None else share
    if share is not None:
        raise ValueError("--test holds a share of the rows out, and --test-file brings others; give one of both.")
    existing_file(file)
    return 0.0


def swept_limit(measure: str, bounds: Sequence[float] | None, choose: float | None) -> tuple[Constraint, list[float]]:
    """Return the limit with the chosen bound, by default the middle one, and all bounds of a frontier.

    >>> swept_limit("disparate_impact", [0.9, 0.7, 0.8], None)
    (DisparateImpact(0.8), [0.7, 0.8, 0.9])
    """
    from fairbound._registry import lookup
    from fairbound.fairness import MEASURES, parse_constraint
    from fairbound.studies import usual_bounds

    known = lookup(MEASURES, measure, "measure")
    given = {*(bounds or usual_bounds(measure)), *([] if choose is None else [choose])}
    grid = sorted(given, reverse=not known.larger_is_stricter)
    chosen = grid[len(grid) // 2] if choose is None else choose
    return parse_constraint(f"{measure} {'>=' if known.larger_is_stricter else '<='} {chosen!r}"), grid


def parse_bands(words: Sequence[str] | None) -> dict[str, list[float]]:
    """Parse bands of groups, `age 25,40,60` or `age=25,40,60`.

    >>> parse_bands(["age", "25,40", "income=2000"])
    {'age': [25.0, 40.0], 'income': [2000.0]}
    """
    found: dict[str, list[float]] = {}
    rest = list(words or ())
    while rest:
        word = rest.pop(0)
        name, sign, cuts = word.rpartition("=")
        if not sign:
            name, cuts = word, rest.pop(0) if rest else ""
        try:
            found[name] = [float(cut) for cut in cuts.split(",")]
        except ValueError as error:
            raise ValueError(
                f"--bands has {cuts!r} for the column {name!r}; give a column and where to cut it, as in "
                "--bands age 25,40,60."
            ) from error
    return found
