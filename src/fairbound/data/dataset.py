"""`Dataset`: rows ready for training. `Split`: a training and a test part.

Conventions
-----------
X : (n, p) float64, one row per person; NaN is a missing number
y : (n,) int64, codes 0 … K−1 of the label; in the data sets of this package 1 is the favourable outcome
sensitive : name of a column → (n,) values as given ("male", "White", 3, …); never encoded, and not necessarily in X;
    None or NaN if the group is unknown
table : the raw columns of X, with a schema that says which of them are categories
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.preprocessing import StandardScaler

from fairbound._errors import argument
from fairbound._escapes import visible
from fairbound._mapped import map_rows
from fairbound._values import exact_array
from fairbound._weights import check_weights
from fairbound.data.arrays import FloatArray, IntArray, as_inputs, as_labels, without_nan
from fairbound.data.description import Description, describe
from fairbound.data.draws import as_seed, draw_parts
from fairbound.data.formats import ColumnFormat
from fairbound.data.labels import LabelValue
from fairbound.data.leaks import SuspectedLeak, find_leaks
from fairbound.data.probabilities import has_probabilities
from fairbound.data.schema import Column, is_missing
from fairbound.data.table import Backend, Table, make_frame
from fairbound.data.taken import Taken, taken_for


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Inputs, labels and sensitive columns of the same rows, as numbers and as a table.

    Parameters
    ----------
    name : str
        A short name for messages and reports.
    X : array of shape (n, p)
        Numbers; NaN means missing, infinity is not allowed.
    y : array of shape (n,)
        Label codes, integers from 0 to K − 1.
    sensitive : mapping of str to array of shape (n,)
        Sensitive columns, with their values as given. Methods use the first one by default.
    feature_names : sequence of str
        Names of the p columns of X.
    target_names : sequence of str
        Words for the label codes 0, 1, …
    description : str
        Where the rows come from and what the label means.
    target : str
        Name of the column of the label.
    label_values : sequence of LabelValue
        For data read from a file: each value of the label column, its number of rows in the file, and its code.
    notes : sequence of str
        Changes made while reading a file, such as rows that were dropped.
    weight : array of shape (n,), optional
        Weight of each row, not negative; 1 by default.
    path : str, optional
        The file that the rows were read from.
    max_categories : int
        Most categories with a column of their own, as the file was read.
    places : array of shape (n,), optional
        The place of each row in its source, on which `split` depends; by default 0, 1, …
    processes : Processes, optional
        The processes that have the other rows of the source, if several share them.
    numbers : array of shape (n,), optional
        The target, if it is a number to predict; all rows then have one label.
    raw : Table, optional
        The raw columns of X; by default the columns of X itself.

    Attributes
    ----------
    table : Table
        The raw columns and their schema.

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
    target: str = "label"
    label_values: Sequence[LabelValue] = ()
    notes: Sequence[str] = ()
    weight: FloatArray | None = None
    path: str | None = None
    max_categories: int = 50
    places: Any = None
    processes: Any = None
    numbers: FloatArray | None = None
    raw: InitVar[Table | None] = None
    table: Table = field(init=False)

    def __post_init__(self, raw: Table | None) -> None:
        # `object.__setattr__` is how a frozen dataclass normalises its own fields.
        put = object.__setattr__
        if self.X is None:
            object.__delattr__(self, "X")
            object.__delattr__(self, "feature_names")
        else:
            put(self, "X", as_inputs(self.X))
            put(self, "feature_names", tuple(self.feature_names))
        put(self, "target_names", tuple(self.target_names))
        put(self, "label_values", tuple(self.label_values))
        put(self, "notes", tuple(self.notes))
        put(self, "y", as_labels(self.y, len(self.target_names)))
        put(self, "sensitive", {name: exact_array(values) for name, values in self.sensitive.items()})
        put(
            self, "weight", None if self.weight is None else check_weights(self.weight, len(self.y), argument("weight"))
        )
        rows = len(self.X) if "X" in vars(self) else len(self.y)
        if self.places is None:
            put(self, "places", np.arange(rows))
        if "X" in vars(self) and len(self.feature_names) != self.X.shape[1]:
            raise ValueError(
                f"X has {self.X.shape[1]} columns, but feature_names has {len(self.feature_names)}; give one name each."
            )
        given = {"y": self.y, **{f"sensitive[{name!r}]": v for name, v in self.sensitive.items()}}
        for what, values in (given if self.weight is None else {**given, "weight": self.weight}).items():
            if values.shape != (rows,):
                raise ValueError(f"{what} has shape {values.shape}, but X has {rows} rows; give shape ({rows},).")
        put(self, "table", Table.of_numbers(self.feature_names, self.X) if raw is None else raw)

    @classmethod
    def from_table(cls, name: str, table: Table, y: ArrayLike, sensitive: Mapping[str, Any], **words: Any) -> Dataset:
        """Return a data set whose inputs are a table; `words` are further parameters.

        X is encoded by the schema of the table, when it is asked for.
        """
        unknown: Any = None
        return cls(name, unknown, np.asarray(y), sensitive, unknown, raw=table, **words)

    def __getattr__(self, name: str) -> Any:
        if name not in ("X", "feature_names") or "table" not in vars(self):
            raise AttributeError(name)
        X, names = self.table.encode()
        object.__setattr__(self, "X", as_inputs(X))
        object.__setattr__(self, "feature_names", tuple(names))
        return vars(self)[name]

    def changed(self, **changes: Any) -> Dataset:
        """Return a copy with some fields replaced."""
        known = {name: vars(self).get(name) for name in ("X", "feature_names")}
        return replace(self, **{"raw": self.table, **known, **changes})

    @property
    def schema(self) -> dict[str, Column]:
        """Return the kind of each raw column: `Numeric`, `Categorical` or `Banded`."""
        return {column.name: column for column in self.table.schema}

    @property
    def formats(self) -> Mapping[str, ColumnFormat]:
        """Return the formats of all columns of the file, with label and groups; empty if there was no file."""
        return self.table.formats

    def taken(self) -> tuple[Taken, ...]:
        """Return how columns of a file were interpreted, for those where the interpretation is not obvious.

        Each entry has the name of the column, its kind ("number" or "category"), a remark, an example, and the option
        of `read_table` that changes it.
        """
        return taken_for(self.table)

    @property
    def categorical(self) -> tuple[str, ...]:
        """Return the names of the raw columns that are categories, given as words or as integer codes."""
        return self.table.categorical

    def __len__(self) -> int:
        return len(self.y)

    @property
    def n_rows(self) -> int:
        """Return the number of rows in all processes that share them; all of them must ask."""
        return len(self) if self.processes is None else sum(self.processes.gather(len(self)))

    def __repr__(self) -> str:
        features = "1 feature" if self.X.shape[1] == 1 else f"{self.X.shape[1]} features"
        missing = sum(self.table.missing().values())
        gaps = f", {missing:,} {'value' if missing == 1 else 'values'} missing" if missing else ""
        groups = ", ".join(self.sensitive) or "none"
        return f"Dataset {self.name!r}: {len(self):,} rows, {features}{gaps}, sensitive: {visible(groups)}"

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

    def words(self) -> NDArray[Any]:
        """Return the label of each row as a word."""
        return np.asarray(map_rows(np.asarray(self.target_names), self.y, self.table.folder))

    @property
    def classes(self) -> NDArray[Any]:
        """The values of the label: whole numbers if all of them are, else words."""
        words = np.asarray(self.target_names)
        try:
            numbers = words.astype(np.int64)
        except ValueError:
            return words
        return numbers if (numbers.astype(words.dtype) == words).all() else words

    def labels(self) -> NDArray[Any]:
        """Return the label of each row, as `classes` has it."""
        return np.asarray(map_rows(self.classes, self.y, self.table.folder))

    def counts(self, name: str | None = None) -> dict[tuple[Hashable, int], int]:
        """Return the number of rows by (group, label), for the groups of one sensitive column."""
        groups = self.groups(name)
        if has_probabilities(groups):
            raise ValueError("Rows cannot be counted by groups that are known with probabilities; use an audit.")
        listed = [
            None if gap else group for group, gap in zip(groups.tolist(), is_missing(groups).tolist(), strict=True)
        ]
        counted = Counter(zip(listed, self.y.tolist(), strict=True))
        return dict(sorted(counted.items(), key=lambda item: (str(item[0][0]), item[0][1])))

    def describe(self, name: str | None = None, *, positive: int = 1) -> Description:
        """Return the statistics of the paper's table of data sets, for the groups of one sensitive column.

        Parameters
        ----------
        name : str, optional
            Sensitive column; by default the first.
        positive : int
            The label code that counts as Y = 1.

        Returns
        -------
        Description
            Counts by group and label, rates, DPVRL, DRIVRL, DIRL and the accuracies of constant predictions; `print`
            shows a table.

        Examples
        --------
        >>> from fairbound.data import load_dataset
        >>> load_dataset("law").describe("sex")
        Data set 'law': 20,798 rows, S = sex
                                     female    male     all
        Y = 0: did not pass the bar   1,114   1,179   2,293
        Y = 1: passed the bar         8,009  10,496  18,505
        rows                          9,123  11,675  20,798
        P(Y=1 | S)                   0.8779  0.8990  0.8897
        P(S | Y=1)                   0.4328  0.5672
        DPVRL 0.0211   DRIVRL 0.1344   DIRL 0.9765
        accuracy of a constant: did not pass the bar: 0.1103   passed the bar: 0.8897
        """
        if name is None and self.sensitive:
            name = next(iter(self.sensitive))
        values = None if name is None else self.groups(name)
        return describe(self.name, self.y, self.target_names, sensitive=name, values=values, positive=positive)

    def suspected_leaks(self) -> list[SuspectedLeak]:
        """Return the input columns that predict the label almost without error, each by itself.

        Such a column often records the outcome, which is unknown at the time of the decision. `fairbound.data.table`
        has the criterion. If fewer than 20 rows have a label other than the most frequent one, no column is returned.

        Examples
        --------
        >>> from fairbound.data import load_dataset
        >>> load_dataset("law").suspected_leaks()
        []
        """
        return find_leaks(self.table, self.y)

    def frame(self, *, sensitive: bool = False, target: bool = False, backend: Backend | None = None) -> Any:
        """Return the raw columns as a DataFrame, with numbers and categories as such.

        It has the content of X before any encoding, for estimators that encode DataFrames themselves. Scaling (see
        `split`) does not affect it.

        Parameters
        ----------
        sensitive : bool
            Whether to add the sensitive columns.
        target : bool
            Whether to add the label, in words.
        backend : {"pandas", "polars", "pyarrow", "dict"}, optional
            The library of the DataFrame, or "dict" for a dictionary of arrays, which the classifier also accepts. By
            default the first library that is installed, or "dict" if there is none.

        Examples
        --------
        >>> from fairbound.data import load_dataset
        >>> load_dataset("law").frame()[["lsat", "fulltime"]].head(2)
           lsat   fulltime
        0  44.0  full-time
        1  29.0  full-time
        """
        if not (sensitive or target):
            return self.table.frame(backend)
        columns = self.table.show()
        if sensitive:
            columns |= {name: without_nan(values) for name, values in self.sensitive.items() if name not in columns}
        if target:
            if self.target in columns:
                raise ValueError(f"Both a column and the label are called {self.target!r}; leave out target=True.")
            columns |= {self.target: self.words()}
        return make_frame(columns, backend)

    def frames(self, *, backend: Backend | None = None) -> Frames:
        """Return inputs, label and sensitive columns as three tables of the same rows.

        The label is a column of codes, as in `y`, under its own name; the words for them are `target_names`.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow", "dict"}, optional
            As for `frame`.

        Examples
        --------
        >>> from fairbound.data import load_dataset
        >>> X, y, sensitive = load_dataset("law").frames()
        >>> X.shape, list(y), list(sensitive)
        ((20798, 9), ['pass_bar'], ['race', 'sex'])
        """
        return Frames(
            self.frame(backend=backend),
            make_frame({self.target: self.y}, backend),
            make_frame({name: without_nan(values) for name, values in self.sensitive.items()}, backend),
        )

    def take(self, rows: ArrayLike) -> Dataset:
        """Return the data set of the given rows, in the given order."""
        index = np.asarray(rows)
        sensitive = {name: values[index] for name, values in self.sensitive.items()}
        weight = None if self.weight is None else self.weight[index]
        parts = {"y": self.y[index], "sensitive": sensitive, "weight": weight, "places": self.places[index]}
        parts["numbers"] = None if self.numbers is None else self.numbers[index]
        X = self.X[index] if "X" in vars(self) else None
        return self.changed(X=X, **parts, raw=self.table.take(index))

    def with_inputs(self, X: FloatArray) -> Dataset:
        """Return the same data set with other values of X; the raw columns stay unchanged."""
        return replace(self, X=X, raw=self.table)

    def split(
        self,
        test_size: float = 0.2,
        *,
        random_state: int | np.random.RandomState = 0,
        by: str | Sequence[str] | None = None,
        scale: bool = True,
    ) -> Split:
        """Draw a training and a test part, stratified on label and groups.

        Parameters
        ----------
        test_size : float
            Share of the rows in the test part, between 0 and 1.
        random_state : int or numpy.random.RandomState
            Seed of the draw. The rows drawn depend on it, and on the order of the rows in their source.
        by : str or sequence of str, optional
            Sensitive columns to stratify on together with the label. By default all of them; then a group with a
            single row of a label joins the largest group of that label.
        scale : bool
            Whether to scale each column of X to mean 0 and standard deviation 1, fitted on the training part only.

        Returns
        -------
        Split
            The pair (train, test).
        """
        named = self.sensitive if by is None else [by] if isinstance(by, str) else by
        columns = [self.groups(name) for name in named]
        seed = as_seed(random_state)
        train, test = draw_parts(
            self.y, columns, test_size, seed, self.places, pool=by is None, processes=self.processes
        )
        parts = Split(self.take(train), self.take(test))
        return parts.scaled() if scale else parts


class Frames(NamedTuple):
    """Inputs, label and sensitive columns of the same rows, as tables of one library."""

    X: Any
    y: Any
    sensitive: Any


class Split(NamedTuple):
    """A training and a test part of one data set."""

    train: Dataset
    test: Dataset

    def joined(self) -> Dataset:
        """Return the rows of both parts as one data set, the training part first."""
        sensitive = {name: np.concatenate([part.sensitive[name] for part in self]) for name in self.train.sensitive}
        columns = {name: np.concatenate([part.table.columns[name] for part in self]) for name in self.train.schema}
        weights = [part.weight for part in self]
        return replace(
            self.train,
            X=np.concatenate([part.X for part in self]),
            y=np.concatenate([part.y for part in self]),
            sensitive=sensitive,
            weight=None
            if any(each is None for each in weights)
            else np.concatenate([each for each in weights if each is not None]),
            places=None,
            raw=Table(self.train.table.schema, columns, self.train.table.formats),
        )

    def scaled(self) -> Split:
        """Return both parts with columns scaled to mean 0 and standard deviation 1, fitted on the training part."""
        scaler = StandardScaler().fit(self.train.X)
        return Split(*(part.with_inputs(scaler.transform(part.X)) for part in self))
