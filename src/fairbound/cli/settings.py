"""What is asked of a study, checked before anything is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fairbound.cli.files import existing_file
from fairbound.cli.inputs import check_choice, parse_limits
from fairbound.cli.models import hidden_layers

if TYPE_CHECKING:
    from fairbound.cli.study import Settings
    from fairbound.fairness import Constraint

GROUPS = ("each", "intersection", "both")
HELD_OUT = 0.2  # share of the rows, where nothing else is said
SMALL_GROUPS = ("error", "warn", "merge")


def check_settings(
    require: Sequence[str] | None,
    model: str,
    seed: int,
    groups: str,
    small_groups: str,
    min_group_size: int,
    confidence: float | None = None,
    *,
    max_categories: int = 50,
) -> tuple[list[Constraint], Settings]:
    """Return the limits and the settings; what is wrong with them is said at once."""
    hidden = hidden_layers(model)
    check_choice(groups, GROUPS, "--groups")
    check_choice(small_groups, SMALL_GROUPS, "--small-groups")
    if confidence is not None:
        if not 0.5 <= confidence < 1:
            raise ValueError(f"--confidence is {confidence:g}; give a number from 0.5 and below 1, such as 0.95.")
        if not require:
            raise ValueError("--confidence needs limits to be confident of: add --require.")
        if small_groups != "error":
            raise ValueError("--confidence speaks of every group: it goes with --small-groups error only.")
    limits = parse_limits(require)
    for limit in limits:
        if confidence is not None and limit.name == "covariance":
            raise ValueError(f"--confidence does not go with {limit}: no bound is known for a covariance.")
    from fairbound.cli.study import Settings

    return limits, Settings(model, hidden, seed, groups, small_groups, min_group_size, max_categories)


def check_held_out(share: float | None, file: str | None) -> float:
    """Return the share of the rows to hold out: none where a file of its own has the held-out rows."""
    if file is None:
        return HELD_OUT if share is None else share
    if share is not None:
        raise ValueError("--test holds a share of the rows out, and --test-file brings others; give one of both.")
    existing_file(file)
    return 0.0


def parse_bands(words: Sequence[str] | None) -> dict[str, list[float]]:
    """Read bands of groups, `age 25,40,60` or `age=25,40,60`.

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
