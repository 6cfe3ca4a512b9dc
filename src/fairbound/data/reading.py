"""`read_table`: read a user's file, CSV or Parquet, as a data set.

Columns of numbers are quantities unless they are named in `categorical`; columns of text are categories. The favourable
outcome is never guessed: the user names it with `positive`, unless the label is a common pair such as no and yes.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairbound._errors import InputError, Message, bad_value
from fairbound._values import check_weights
from fairbound._words import did_you_mean
from fairbound.data.columns import Categorical, Column, Columns, Numeric, as_probabilities, is_missing
from fairbound.data.dataset import Dataset
from fairbound.data.formats import MISSING, ColumnFormat
from fairbound.data.labels import as_word, code_labels, code_like, sides_in_words
from fairbound.data.opening import open_batches
from fairbound.data.roles import Roles, _names
from fairbound.data.table import Table


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
    decimal: str | None = None,
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
        Sensitive columns. They are inputs only with `sensitive_as_input`; their missing values stay missing.
        "race=p_white,p_black" makes the sensitive column "race" from columns of probabilities, one for each group.
    positive : object or sequence of objects, optional
        The favourable values of the label, which become 1; all other values become 0. It can be omitted for common
        pairs (0 and 1, -1 and 1, false and true, no and yes, n and y, negative and positive), and for a label of three
        or more values, which keeps all its classes.
    negative : object or sequence of objects, optional
        All other values of the label. If given, a value that is in neither `positive` nor `negative` is an error.
    drop_unlabelled : bool
        Whether to drop the rows without a label; by default they are an error.
    weight : str, optional
        Column of the rows' weights; it is not an input, but becomes `Dataset.weight`.
    bands : mapping of str to sequence of float, optional
        Cuts of sensitive columns of numbers: `{"age": [25, 40]}` makes the groups "below 25", "25 to below 40" and "40
        and above" (see `into_bands`).
    categorical : str or sequence of str
        Columns of numbers that are codes of categories.
    ignore : str or sequence of str
        Columns to leave out, such as identifiers; each must exist.
    sensitive_as_input : bool
        Whether the sensitive columns are also inputs.
    max_categories : int
        Largest number of 0/1 columns of X for one column of categories; the rarest values beyond it share one. The
        table (`Dataset.frame`) keeps all values.
    missing : collection of str
        Texts that mean a missing value in a text file. In columns of numbers, common words such as "n/a" also do.
    decimal : {".", ","}, optional
        The decimal mark of numbers in a text file; by default it is inferred for each column (see `Dataset.taken`).
    delimiter : str, optional
        Delimiter of a text file; by default a tab for `.tsv`, else a comma.
    encoding : str
        Encoding of a text file.
    like : Dataset, optional
        Another part of the same data, such as the training rows. The new rows get the same inputs in the same order,
        the same formats (`Dataset.formats`) and the same label codes; any other value of the label is an error.

    Returns
    -------
    Dataset
        `table` has the raw columns (see `Dataset.frame`). `X` has the numbers, NaN if missing, and the categories
        one-hot, with missing as a category of its own.

    Raises
    ------
    FileNotFoundError, IsADirectoryError
        If there is no such file.
    ValueError
        If the file cannot be read, a column does not exist, or the label is not usable.  Also if values of the label
        that differ in spelling only would get different codes (see `positive` and `negative`).

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
    roles = Roles.build(
        target=target,
        sensitive=sensitive,
        positive=positive,
        negative=negative,
        weight=weight,
        bands=bands,
        categorical=categorical,
        ignore=ignore,
        sensitive_as_input=sensitive_as_input,
        drop_unlabelled=drop_unlabelled,
        max_categories=max_categories,
    )
    if decimal not in (None, ".", ","):
        raise bad_value("decimal", decimal, "'.' or ','", "Leave it out to detect the decimal mark.")
    marks = tuple(_names(missing, "missing"))
    source = open_batches(path, delimiter=delimiter, encoding=encoding)
    if like is not None:
        _inputs_like(like, source.names, source.place)
    listed = roles.check(source)
    groups = [column for _, columns in listed for column in columns]
    words = [name for name, columns in listed if columns == [name]]
    source = source.hold([name for name in source.names if name not in roles.ignore]).learn(
        words={target, *words, *roles.categorical},
        missing=marks,
        decimal=decimal,
        formats={} if like is None else _formats_like(like),
    )
    columns, formats, path = source.columns(), source.formats, Path(path)
    _check_values(columns, source.place)
    notes: list[str] = []
    labelled = ~is_missing(columns[target])
    if drop_unlabelled and not labelled.all():
        columns, notes = _labelled(columns, target, labelled)
    labels = (
        code_labels(columns[target], target, positive, negative) if like is None else code_like(columns[target], like)
    )
    inputs = roles.inputs(source.names, groups)
    if like is not None:
        inputs = _inputs_like(like, inputs, path.name)
    schema = tuple(column_schema(name, columns[name], name in roles.categorical, max_categories) for name in inputs)
    return Dataset.from_table(
        path.stem,
        Table(schema, columns, formats),
        labels.codes,
        {
            name: roles.groups(name, columns[name])
            if name in words
            else as_probabilities({each: columns[each] for each in named})
            for name, named in listed
        },
        target_names=labels.names,
        target=target,
        label_values=labels.values,
        notes=notes,
        path=str(path),
        max_categories=max_categories,
        places=np.flatnonzero(labelled) if drop_unlabelled else None,
        weight=None if weight is None else _weights(columns, weight),
        description=f"Read from {path.name}; the label is {target}: {sides_in_words(labels.values, labels.names)}.",
    )


def _formats_like(like: Dataset) -> dict[str, ColumnFormat]:
    """Return the known formats of inputs, and of labels and groups if they are text; other labels are checked later."""
    return {name: form for name, form in like.formats.items() if name in like.schema or form.kind == "text"}


def _labelled(columns: Columns, target: str, labelled: NDArray[np.bool_]) -> tuple[Columns, list[str]]:
    """Return the rows that have a label, and a note about the others."""
    if not labelled.any():
        raise InputError(
            "Column {column!r} ({target=}) has no value in any row.", "Give a column of labels.", column=target
        )
    note = f"{(~labelled).sum():,} of {len(labelled):,} rows have no label in column {target!r} and were dropped."
    return {name: values[labelled] for name, values in columns.items()}, [note]


def _weights(columns: Columns, name: str) -> NDArray[np.float64]:
    return check_weights(columns[name], len(columns[name]), Message("Column {column!r} ({weight=})", column=name))


def _check_values(columns: Columns, place: str) -> None:
    for name, values in columns.items():
        if is_missing(values).all():
            raise InputError(
                "Column {column!r} of {place} has no value in any row.",
                "Leave it out with {ignore=}.",
                column=name,
                place=place,
            )
        if values.dtype.kind == "f" and np.isinf(values).any():
            row = int(np.flatnonzero(np.isinf(values))[0])
            raise ValueError(
                f"Column {name!r} of {place} is {values[row]} in row {row + 1}; give a finite number, or nothing."
            )


def column_schema(name: str, values: NDArray[Any], coded: bool, most: int) -> Column:
    """Return the schema of a column, with the categories that occur, or the most frequent of them."""
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
    """Return the word in parentheses; add more parentheses until it differs from all words in `taken`."""
    word = f"({word})"
    while word in taken:
        word = f"({word})"
    return word


def _inputs_like(like: Dataset, inputs: Sequence[str], place: str) -> list[str]:
    """Return the inputs of another data set, in its order; all must exist here."""
    for name in like.schema:
        if name not in inputs:
            raise ValueError(
                f"{place} has no column {name!r}, which is an input of {like.name!r}.{did_you_mean(name, inputs)}"
            )
    return list(like.schema)
