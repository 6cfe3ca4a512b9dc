"""The positive of two labels: the one that a selection rate counts.

Where everyone codes labels alike (0 and 1, no and yes) the positive one is known.  Elsewhere the last in sorted order
is taken, as in scikit-learn: of "approved" and "denied" that is "denied".  So whoever states a limit that depends on
the positive label should be told.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

CONVENTIONS = (
    ("0", "1"),
    ("-1", "1"),
    ("false", "true"),
    ("no", "yes"),
    ("n", "y"),
    ("negative", "positive"),
)
"""Pairs of labels, as lower-case text, of which the second is the positive one."""


def conventional_positive(labels: Sequence[Hashable]) -> Hashable | None:
    """Return the positive of two labels where convention decides, None elsewhere.

    >>> conventional_positive([0, 1]), conventional_positive(["YES", "no"]), conventional_positive(["good", "bad"])
    (1, 'YES', None)
    """
    texts = [f"{label:g}" if isinstance(label, float) else str(label).strip().lower() for label in labels]
    for pair in CONVENTIONS:
        if sorted(texts) == sorted(pair):
            return labels[texts.index(pair[1])]
    return None
