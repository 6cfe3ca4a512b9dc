"""`read_table`: the user's own file, CSV or Parquet, as a data set.

Numbers are numbers unless they are named as categories, text is categories. The label is coded by `positive`: which
outcome is the favourable one is never guessed.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairbound._names import did_you_mean
from fairbound.data.arrays import as_weights
from fairbound.data.bands import into_bands
from fairbound.data.columns import Categorical, Column, Numeric, is_missing
from fairbound.data.dataset import Dataset
from fairbound.data.delimited import MISSING, read_delimited
from fairbound.data.labels import as_word, code_labels, code_like, listed, sides_in_words
from fairbound.data.parquet import MAGIC, read_parquet
from fairbound.data.table import Columns, Table

NOT_TEXT = {
    b"PK\x03\x04": "a zip archive or an Excel workbook",
    b"\x1f\x8b": "compressed (gzip)",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook",
}
"""How files begin that people take for a CSV file, and what they are."""


def read_table(
    path: str | os.PathLike[str],
    *,
    target: str,
    sensitive: str | Sequence[str] = (),
    positive: Any = None,
    negative: Any = None,
    drop_unlabelled: bool = False,
    weight: str | None = None,
    bands: Mapping[str, Sequence[float]] | None = None,
    categorical: str | Sequence[str] = (),
    ignore: str | Sequence[str] = (),
    sensitive_as_input: bool = False,
    max_categories: int = 50,
    missing: Collection[str] = MISSING,
    delimiter: str | None = None,
    encoding: str = "utf-8",
    like: Dataset | None = None,
) -> Dataset:
    r"""Read your own file.

    Parameters
    ----------
    path : path
        A text file with a line of column names (CSV), or a Parquet file (needs pyarrow).
    target : str
        Column of the label.
    sensitive : str or sequence of str
        Sensitive columns. They are no inputs unless `sensitive_as_input`; their missing values stay missing.
    positive : object or sequence of objects, optional
        The favourable values of the label, which become 1; all other values become 0. It may be left out for a label of
        0 and 1 (or false and true), and for one of three or more values, which keeps all its classes.
    negative : object or sequence of objects, optional
        All other values of the label. With it, a value that is named on neither side is an error.
    drop_unlabelled : bool
        Whether to drop the rows without a label; they are an error by default.
    weight : str, optional
        Column of the rows' weights, which is no input; it becomes `Dataset.weight`.
    bands : mapping of str to sequence of float, optional
        Sensitive columns of numbers and where to cut them: `{"age": [25, 40]}` makes the groups "below 25", "25 to
        below 40" and "40 and above" (see `into_bands`).
    categorical : str or sequence of str
        Columns of numbers that are codes of categories.
    ignore : str or sequence of str
        Columns to leave out, such as identifiers; each must be there.
    sensitive_as_input : bool
        Whether the sensitive columns are among the inputs, too.
    max_categories : int
        Most 0/1 columns that one column of categories may become in X; beyond it the rarest values share one. The table
        (`Dataset.frame`) keeps all of them.
    missing : collection of str
        What stands for a missing value in a text file.
    delimiter : str, optional
        Of a text file; by default a tab for `.tsv` and a comma otherwise.
    encoding : str
        Of a text file.
    like : Dataset, optional
        Another part of the same data, read before, such as the training rows. The label is coded as there, and any
        other value of it is an error; the inputs are the columns of there, in their order.

    Returns
    -------
    Dataset
        With the raw columns in `table` (see `Dataset.frame`), and in `X` the numbers as they stand, NaN where missing,
        and the categories one-hot, missing ones as a category of their own.

    Raises
    ------
    FileNotFoundError, IsADirectoryError
        If there is no such file.
    ValueError
        If the file cannot be read, a column is not there (with the nearest name), or the label is not usable, or has
        values that differ in spelling only and would become different codes (see `positive` and `negative`).

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "loans.csv")
    ...     _ = path.write_text("income,job,sex,approved\n2100,cook,f,no\n,nurse,m,yes\n1800,cook,f,yes\n")
    ...     loans = read_table(path, target="approved", sensitive="sex", positive="yes")
    >>> loans
    Dataset 'loans': 3 rows, 2 features, 1 value missing, sensitive: sex
    >>> loans.feature_names, loans.y, loans.categorical
    (('income', 'job=nurse'), array([0, 1, 1]), ('job',))
    """
    path = Path(path)
    groups, ignored, coded = _names(sensitive), _names(ignore), _names(categorical)
    columns = _read(path, ignored, missing, delimiter, encoding)
    _check_columns(columns, path.name, target, groups, ignored, coded, weight)
    _check_bands(bands or {}, groups)
    if max_categories < 2:
        raise ValueError(f"max_categories is {max_categories!r}; give 2 or more.")
    notes: list[str] = []
    if drop_unlabelled:
        columns, notes = _labelled(columns, target)
    labels = (
        code_labels(columns[target], target, positive, negative) if like is None else code_like(columns[target], like)
    )
    inputs = [
        name
        for name in columns
        if name not in (target, weight) and name not in ignored and (sensitive_as_input or name not in groups)
    ]
    if like is not None:
        inputs = _inputs_like(like, inputs, path.name)
    if not inputs:
        raise ValueError(f"{path.name} has no column left for the inputs; give at least one besides label and groups.")
    schema = tuple(_column(name, columns[name], name in coded, max_categories) for name in inputs)
    return Dataset.from_table(
        path.stem,
        Table(schema, columns),
        labels.codes,
        {name: _groups(name, columns[name], bands or {}) for name in groups},
        target_names=labels.names,
        target=target,
        label_values=labels.values,
        notes=notes,
        weight=None if weight is None else as_weights(columns[weight], f"Column {weight!r} (weight=)"),
        description=f"Read from {path.name}; the label is {target}: {sides_in_words(labels.values, labels.names)}.",
    )


def _labelled(columns: Columns, target: str) -> tuple[Columns, list[str]]:
    """Return the rows that have a label, and a note if others were dropped."""
    gaps = is_missing(columns[target])
    if not gaps.any():
        return columns, []
    if gaps.all():
        raise ValueError(f"Column {target!r} (target=) has no value in any row; give a column of labels.")
    note = f"{gaps.sum():,} of {len(gaps):,} rows have no label in column {target!r} and were dropped."
    return {name: values[~gaps] for name, values in columns.items()}, [note]


def _read(
    path: Path, ignored: Sequence[str], missing: Collection[str], delimiter: str | None, encoding: str
) -> Columns:
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the path of a file.")
    if not path.is_file():
        near = did_you_mean(path.name, [each.name for each in path.parent.iterdir()]) if path.parent.is_dir() else ""
        raise FileNotFoundError(f"There is no file {path}.{near}")
    if delimiter is None:
        delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n':
        raise ValueError(f"delimiter is {delimiter!r}; give one character, for example ',' or ';'.")
    with path.open("rb") as stream:
        if stream.read(len(MAGIC)) == MAGIC:
            stream.seek(0)
            return read_parquet(stream, place=path.name, ignore=ignored)
        stream.seek(0)
        start = stream.read(4)
        for beginning, what in NOT_TEXT.items():
            if start.startswith(beginning):
                raise ValueError(f"{path.name} is {what}; give a text file (CSV) or a Parquet file.")
        stream.seek(0)
        columns = read_delimited(stream, place=path.name, delimiter=delimiter, encoding=encoding, missing=missing)
    for name in ignored:
        if name not in columns:  # one that is misspelt would become an input
            near = did_you_mean(name, columns)
            raise ValueError(f"{path.name} has no column {name!r} (ignore=).{near} It has {listed(columns)}.")
    return columns


def _names(given: str | Sequence[str]) -> list[str]:
    return [given] if isinstance(given, str) else list(given)


def _check_columns(
    columns: Columns,
    place: str,
    target: str,
    groups: list[str],
    ignored: list[str],
    coded: list[str],
    weight: str | None,
) -> None:
    weights = [] if weight is None else [weight]
    asked = {"target": [target], "sensitive": groups, "categorical": coded, "weight": weights}
    for argument, names in asked.items():
        for name in names:
            if name not in columns:
                near = did_you_mean(name, columns)
                raise ValueError(f"{place} has no column {name!r} ({argument}=).{near} It has {listed(columns)}.")
    roles = Counter([target, *groups, *ignored, *weights])
    twice = [name for name, count in roles.items() if count > 1]
    if twice:
        raise ValueError(
            f"Column {twice[0]!r} is named twice among target=, sensitive=, ignore= and weight=; name it once."
        )
    if "" in columns and "" not in ignored:
        position = list(columns).index("") + 1
        raise ValueError(f"Column {position} of {place} has no name; give it one, or leave it out with ignore=[''].")
    empty = [name for name, values in columns.items() if name not in ignored and is_missing(values).all()]
    if empty:
        raise ValueError(f"Column {empty[0]!r} of {place} has no value in any row; leave it out with ignore=.")
    for name, values in columns.items():
        if name not in ignored and values.dtype.kind == "f" and np.isinf(values).any():
            row = int(np.flatnonzero(np.isinf(values))[0])
            raise ValueError(
                f"Column {name!r} of {place} is {values[row]} in row {row + 1}; give a finite number, or nothing."
            )


def _column(name: str, values: NDArray[Any], coded: bool, most: int) -> Column:
    """Return what a column is, with the categories that occur, or the most frequent of them."""
    if values.dtype.kind in "if" and not coded:
        return Numeric(name)
    gaps = is_missing(values)
    counted = Counter(values[~gaps].tolist())
    room = most - int(gaps.any())
    by_number = sorted(counted, key=lambda value: (-counted[value], str(value)))
    kept = by_number if len(counted) <= room else by_number[: room - 1]
    labels: dict[Any, str] = {value: as_word(value) for value in sorted(kept)}
    if gaps.any():
        labels[None] = _unused("missing", labels.values())
    rest = None if len(counted) <= room else _unused("other", labels.values())
    return Categorical(name, labels, rest)


def _unused(word: str, taken: Iterable[str]) -> str:
    """Return the word in as many parentheses as make it differ from all that are taken."""
    word = f"({word})"
    while word in taken:
        word = f"({word})"
    return word


def _check_bands(bands: Mapping[str, Sequence[float]], groups: Sequence[str]) -> None:
    for name in bands:
        if name not in groups:
            raise ValueError(
                f"bands= names {name!r}, which is not among the sensitive columns.{did_you_mean(name, groups)} "
                "Name it with sensitive=, too."
            )


def _inputs_like(like: Dataset, inputs: Sequence[str], place: str) -> list[str]:
    """Return the columns of another data set, in its order; all must be there."""
    for name in like.schema:
        if name not in inputs:
            raise ValueError(
                f"{place} has no column {name!r}, which is an input of {like.name!r}.{did_you_mean(name, inputs)}"
            )
    return list(like.schema)


def _groups(name: str, values: NDArray[Any], bands: Mapping[str, Sequence[float]]) -> NDArray[Any]:
    """Return the groups of a sensitive column, in bands where these are asked for."""
    return into_bands(values, bands[name], name) if name in bands else _group_values(values)


def _group_values(values: NDArray[Any]) -> NDArray[Any]:
    """Return whole numbers that missing values made floats of as integers again, with None for the missing ones."""
    gaps = is_missing(values)
    if values.dtype.kind == "f" and gaps.any() and (values[~gaps] == values[~gaps].round()).all():
        return np.array([None if gap else int(value) for value, gap in zip(values, gaps, strict=True)], dtype=object)
    return values
