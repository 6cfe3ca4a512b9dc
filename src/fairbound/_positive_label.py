"""The positive one of two labels: the one that a selection rate counts.

For common pairs of labels (0 and 1, no and yes) convention decides, everywhere.  For all other pairs, files and
commands ask which one it is.  The estimator and `audit` take the last one in sorted order, as scikit-learn does: of
"approved" and "denied" that is "denied".  So the estimator warns if a limit depends on this choice.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeVar

Label = TypeVar("Label", bound=Hashable)

CONVENTIONS = (
    ("0", "1"),
    ("-1", "1"),
    ("false", "true"),
    ("no", "yes"),
    ("n", "y"),
    ("negative", "positive"),
)
"""Pairs of labels, as lower-case text, of which the second is the positive one."""


def conventional_positive(labels: Sequence[Label]) -> Label | None:
    """Return the positive one of two labels if convention decides, else None.

    >>> conventional_positive([0, 1]), conventional_positive(["YES", "no"]), conventional_positive(["good", "bad"])
    (1, 'YES', None)
    """
    texts = [f"{label:g}" if isinstance(label, float) else str(label).strip().lower() for label in labels]
    for pair in CONVENTIONS:
        if sorted(texts) == sorted(pair):
            return labels[texts.index(pair[1])]
    return None
