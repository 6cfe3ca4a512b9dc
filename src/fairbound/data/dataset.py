"""A table ready for training: `Dataset`, and the pair of a training and a test part, `Split`.

Conventions
-----------
X : (n, p) float64, one row per person
y : (n,) int64, codes 0 … K−1 of the label; for the data sets of this package 1 is the favourable outcome
sensitive : name of a column → (n,) values as given ("male", "White", 3, …); never encoded, and not necessarily in X
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Inputs, labels and sensitive columns of the same rows.

    Parameters
    ----------
    name : str
        A short name, shown in messages and reports.
    X : array of shape (n, p)
        Finite numbers.
    y : array of shape (n,)
        Label codes, integers from 0 to K − 1.
    sensitive : mapping of str to array of shape (n,)
        Sensitive columns, with their values as given. The first is the default of the methods.
    feature_names : sequence of str
        Names of the p columns of X.
    target_names : sequence of str
        Words for the label codes 0, 1, …
    description : str
        Where the rows come from and what the label means.

    Examples
    --------
    >>> sex = ["f", "m", "f"]
    >>> data = Dataset("toy", [[0.0], [1.0], [2.0]], [0, 1, 1], sensitive={"sex": sex}, feature_names=["x"])
    >>> data
    Dataset 'toy': 3 rows, 1 feature, sensitive: sex
    >>> data.counts()
    {('f', 0): 1, ('f', 1): 1, ('m', 1): 1}
    """

    name: str
    X: FloatArray
    y: IntArray
    sensitive: Mapping[str, NDArray[Any]]
    feature_names: Sequence[str]
    target_names: Sequence[str] = ("0", "1")
    description: str = ""

    def __post_init__(self) -> None:
        # A frozen dataclass normalises its own fields this way; afterwards every reader can rely on the conventions.
        put = object.__setattr__
        put(self, "X", _as_inputs(self.X))
        put(self, "feature_names", tuple(self.feature_names))
        put(self, "target_names", tuple(self.target_names))
        put(self, "y", _as_labels(self.y, len(self.target_names)))
        put(self, "sensitive", {name: np.asarray(values) for name, values in self.sensitive.items()})
        rows, columns = self.X.shape
        if len(self.feature_names) != columns:
            raise ValueError(
                f"X has {columns} columns, but feature_names has {len(self.feature_names)}; give one name each."
            )
        for what, values in {"y": self.y, **{f"sensitive[{name!r}]": v for name, v in self.sensitive.items()}}.items():
            if values.shape != (rows,):
                raise ValueError(f"{what} has shape {values.shape}, but X has {rows} rows; give shape ({rows},).")

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def __repr__(self) -> str:
        features = "1 feature" if self.X.shape[1] == 1 else f"{self.X.shape[1]} features"
        return (
            f"Dataset {self.name!r}: {len(self):,} rows, {features}, sensitive: {', '.join(self.sensitive) or 'none'}"
        )

    def groups(self, name: str | None = None) -> NDArray[Any]:
        """Return one sensitive column, by default the first."""
        if not self.sensitive:
            raise ValueError(f"Data set {self.name!r} has no sensitive column.")
        if name is None:
            return next(iter(self.sensitive.values()))
        if name not in self.sensitive:
            raise ValueError(
                f"Data set {self.name!r} has no sensitive column {name!r}. Known: {', '.join(self.sensitive)}."
            )
        return self.sensitive[name]

    def counts(self, name: str | None = None) -> dict[tuple[Hashable, int], int]:
        """Count the rows by (group, label), for the groups of one sensitive column."""
        counted = Counter(zip(self.groups(name).tolist(), self.y.tolist(), strict=True))
        return dict(sorted(counted.items(), key=lambda item: (str(item[0][0]), item[0][1])))

    def take(self, rows: ArrayLike) -> Dataset:
        """Return the data set of the given rows, in the given order."""
        index = np.asarray(rows)
        sensitive = {name: values[index] for name, values in self.sensitive.items()}
        return replace(self, X=self.X[index], y=self.y[index], sensitive=sensitive)

    def with_inputs(self, X: FloatArray) -> Dataset:
        """Return the same rows and columns with other values of the inputs."""
        return replace(self, X=X)

    def split(
        self,
        test_size: float = 0.2,
        *,
        random_state: int | np.random.RandomState = 0,
        by: Sequence[str] | None = None,
        scale: bool = True,
    ) -> Split:
        """Draw a training and a test part, stratified on label and groups.

        Parameters
        ----------
        test_size : float
            Share of the rows in the test part, between 0 and 1.
        random_state : int or numpy.random.RandomState
            Seed of the draw.
        by : sequence of str, optional
            Sensitive columns to stratify on together with the label; by default all of them.
        scale : bool
            Whether to bring each column of X to mean 0 and standard deviation 1, fitted on the training part only.

        Returns
        -------
        Split
            The pair (train, test).
        """
        if not 0 < test_size < 1:
            raise ValueError(f"test_size is {test_size!r}; give a share of the rows, above 0 and below 1.")
        columns = [self.groups(name) for name in (self.sensitive if by is None else by)]
        strata = _strata([self.y, *columns])
        sizes = np.bincount(strata)
        if sizes.min() < 2:
            row = int(np.flatnonzero(strata == sizes.argmin())[0])
            cell = ", ".join(str(column[row]) for column in columns)
            raise ValueError(
                f"Only one row has label {self.y[row]} and group ({cell}), so it cannot be in both parts; "
                "stratify on fewer columns with by=, or merge small groups."
            )
        smaller = min(math.ceil(test_size * len(self)), math.floor((1 - test_size) * len(self)))
        if smaller < len(sizes):
            raise ValueError(
                f"test_size={test_size!r} leaves {smaller} of {len(self)} rows in the smaller part, but label and "
                f"groups form {len(sizes)} strata; stratify on fewer columns with by=, or choose another test_size."
            )
        train, test = train_test_split(
            np.arange(len(self)), test_size=test_size, random_state=random_state, stratify=strata
        )
        parts = Split(self.take(train), self.take(test))
        return parts.scaled() if scale else parts


class Split(NamedTuple):
    """A training and a test part of one data set."""

    train: Dataset
    test: Dataset

    def scaled(self) -> Split:
        """Return both parts with columns of mean 0 and standard deviation 1, fitted on the training part only."""
        scaler = StandardScaler().fit(self.train.X)
        return Split(*(part.with_inputs(scaler.transform(part.X)) for part in self))


def _as_inputs(values: ArrayLike) -> FloatArray:
    """Return X as a finite float64 matrix."""
    X = np.asarray(values, dtype=np.float64)
    if X.ndim != 2:
        raise ValueError(f"X has shape {X.shape}; give a matrix of shape (rows, columns).")
    if len(X) == 0:
        raise ValueError(f"X has shape {X.shape}, so there is no row; give at least one.")
    if not np.isfinite(X).all():
        row, column = np.argwhere(~np.isfinite(X))[0]
        raise ValueError(f"X[{row}, {column}] is {X[row, column]}; fill or drop missing and infinite values first.")
    return X


def _as_labels(values: ArrayLike, classes: int) -> IntArray:
    """Return y as int64 codes below `classes`."""
    y = np.asarray(values)
    if y.dtype.kind not in "biu":
        raise TypeError(f"y has dtype {y.dtype}; give integer label codes from 0 to {classes - 1}.")
    if y.size and not 0 <= y.min() <= y.max() < classes:
        wrong = y[(y < 0) | (y >= classes)][0]
        raise ValueError(f"y contains {wrong}; give label codes from 0 to {classes - 1}, one for each of target_names.")
    return y.astype(np.int64)


def _strata(columns: Sequence[NDArray[Any]]) -> IntArray:
    """Return a number for each distinct combination of values."""
    # As text, a missing value is one more value, and columns of mixed types can be sorted.
    codes = [np.unique(column.astype(str), return_inverse=True)[1] for column in columns]
    return np.unique(np.stack(codes), axis=1, return_inverse=True)[1].ravel().astype(np.int64)  # numpy 2.0 kept an axis
