"""The label of a user's table: which value is the favourable one is asked, and never guessed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairbound.data.columns import is_missing

MOST_CLASSES = 20  # a label with more values than this is a quantity, or a mistake
_SHOWN = 20  # names or values in a message


def code_labels(values: NDArray[Any], target: str, positive: Any) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return the label codes and their words.

    Parameters
    ----------
    values : array of shape (n,)
        The column.
    target : str
        Its name.
    positive : object, optional
        The favourable value, which becomes 1 while all others become 0. It may be left out for 0 and 1, false and true,
        and for three or more values, which are coded in their order.

    Examples
    --------
    >>> code_labels(np.array(["no", "yes", "no"]), "approved", positive="yes")
    (array([0, 1, 0]), ('no', 'yes'))
    """
    gaps = is_missing(values)
    if gaps.any():
        raise ValueError(
            f"Column {target!r} (target=) has no value in {gaps.sum():,} of {len(values):,} rows, first in row "
            f"{np.flatnonzero(gaps)[0] + 1}; drop the rows whose label is not known."
        )
    distinct, code = np.unique(values, return_inverse=True)
    classes = [as_word(value) for value in distinct.tolist()]
    if len(classes) < 2:
        raise ValueError(f"Column {target!r} (target=) has only the value {classes[0]!r}; a label needs two or more.")
    if positive is None:
        lower = [word.lower() for word in classes]
        if len(classes) == 2 and lower not in (["0", "1"], ["false", "true"]):
            raise ValueError(
                f"Column {target!r} (target=) has the values {listed(classes)}; say which one is the favourable "
                "outcome with positive=."
            )
        if len(classes) > MOST_CLASSES:
            raise ValueError(
                f"Column {target!r} (target=) has {len(classes):,} different values; a label has {MOST_CLASSES} at "
                "most, and regression is not offered: make classes of them, or name the favourable one with positive=."
            )
        return code.astype(np.int64), tuple(classes)
    word = as_word(positive)
    if word not in classes:
        raise ValueError(f"Column {target!r} (target=) is never {positive!r} (positive=); it has {listed(classes)}.")
    others = [each for each in classes if each != word]
    return (code == classes.index(word)).astype(np.int64), (others[0] if len(others) == 1 else f"not {word}", word)


def as_word(value: Any) -> str:
    """Return a value as text; whole numbers without a decimal point, so that 1, 1.0, True and "1" can be compared."""
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


def listed(names: Iterable[str]) -> str:
    """Return names for a message, the first of them where there are many."""
    known = list(names)
    return ", ".join(map(repr, known[:_SHOWN])) + (", …" if len(known) > _SHOWN else "")
