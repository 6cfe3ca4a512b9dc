"""How a raw column becomes inputs: as a number, one-hot over known values, or one-hot over bands of codes.

The values are part of the schema and not learnt from the rows, so that any part of a file gives the same columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Encoded = tuple[NDArray[np.float64], list[str]]


@dataclass(frozen=True)
class Numeric:
    """A quantity or an ordered scale, taken as it stands."""

    name: str

    def encode(self, values: NDArray[Any]) -> Encoded:
        """Return one column."""
        return np.asarray(values, dtype=np.float64)[:, None], [self.name]


@dataclass(frozen=True)
class Categorical:
    """Codes without an order: one 0/1 column for each value, or a single one when there are only two.

    Parameters
    ----------
    name : str
        Column of the file.
    labels : mapping
        Code → word, for all codes. Of two, the second gets the column.
    """

    name: str
    labels: Mapping[Any, str]

    def encode(self, values: NDArray[Any]) -> Encoded:
        """Return the 0/1 columns, named `name=word`."""
        return _one_hot(self.name, decode(self.name, values, self.labels), list(self.labels.values()))


@dataclass(frozen=True)
class Banded:
    """Codes of a fine classification, read by its chapters: a band begins at its code and ends before the next.

    Parameters
    ----------
    name : str
        Column of the file.
    starts : mapping
        First code of a band → word, in ascending order.
    """

    name: str
    starts: Mapping[float, str]

    def encode(self, values: NDArray[Any]) -> Encoded:
        """Return one 0/1 column for each band, named `name=word`."""
        codes, words = np.asarray(values, dtype=np.float64), np.array(list(self.starts.values()))
        band = np.searchsorted(np.array(list(self.starts), dtype=np.float64), codes, side="right") - 1
        if band.min() < 0:
            raise ValueError(
                f"Column {self.name!r} contains {codes.min():g}; the first known code is {min(self.starts):g}."
            )
        return _one_hot(self.name, words[band], words.tolist())


Column = Numeric | Categorical | Banded


def decode(name: str, values: NDArray[Any], labels: Mapping[Any, Any]) -> NDArray[Any]:
    """Replace each code by its label; an unknown code raises."""
    codes, position = np.unique(values, return_inverse=True)
    unknown = [code for code in codes.tolist() if code not in labels]
    if unknown:
        raise ValueError(f"Column {name!r} contains {unknown[0]!r}; known are {', '.join(map(repr, labels))}.")
    return np.array([labels[code] for code in codes.tolist()])[position]


def _one_hot(name: str, words: NDArray[Any], known: list[str]) -> Encoded:
    shown = known[1:] if len(known) == 2 else known
    return np.stack([words == word for word in shown], axis=1).astype(np.float64), [f"{name}={word}" for word in shown]
