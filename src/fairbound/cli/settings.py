"""What is asked of a study, checked before anything is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fairbound.cli.inputs import check_choice, parse_limits
from fairbound.cli.models import hidden_layers

if TYPE_CHECKING:
    from fairbound.cli.study import Settings
    from fairbound.fairness import Constraint

GROUPS = ("each", "intersection", "both")
SMALL_GROUPS = ("error", "warn", "merge")


def check_settings(
    require: Sequence[str] | None,
    model: str,
    seed: int,
    groups: str,
    small_groups: str,
    min_group_size: int,
    confidence: float | None = None,
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

    return limits, Settings(model, hidden, seed, groups, small_groups, min_group_size)
