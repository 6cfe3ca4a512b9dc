"""Say it where the positive label is guessed and a limit depends on it."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence

from fairbound._errors import Message
from fairbound._warnings import PositiveLabelWarning
from fairbound.fairness import Constraint, conventional_positive


def warn_if_guessed(classes: Sequence[Hashable], limits: Sequence[Constraint], *, who: str, stacklevel: int) -> None:
    """Warn if the positive one of two classes was taken by its order alone, and a limit depends on it.

    Parameters
    ----------
    classes : sequence of two labels
        The positive one last.
    limits : sequence of Constraint
    who : str
        What has taken the label.
    stacklevel : int
        Of the line to blame, as seen from the caller.
    """
    concerned = [str(limit) for limit in limits if limit.depends_on_positive]
    if len(classes) != 2 or not concerned or conventional_positive(classes) is not None:
        return
    negative, positive = classes
    message = Message(
        "{who} takes {positive!r} for the positive label, because it comes after {negative!r} in sorted order. The "
        "meaning of {limits} depends on it: name the favourable label with {pos_label=negative} or "
        "{pos_label=positive}.",
        who=who,
        positive=positive,
        negative=negative,
        limits=", ".join(concerned),
    )
    warnings.warn(PositiveLabelWarning(message), stacklevel=stacklevel + 1)
