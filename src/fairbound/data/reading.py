"""`read_table`: read a user's rows from any source as a data set.

Columns of numbers are quantities unless they are named in `categorical`; columns of text are categories. The favourable
outcome is never guessed: the user names it with `positive`, unless the label is a common pair such as no and yes.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairbound._errors import InputError, Message, together
from fairbound._mapped import map_rows
from fairbound._weights import check_weights
from fairbound._words import did_you_mean
from fairbound.data.batches import Batches
from fairbound.data.columns import TableColumns, store
from fairbound.data.dataset import Dataset
from fairbound.data.formats import ColumnFormat
from fairbound.data.labels import CodedLabels, as_word, check_labelled, code_labels, code_like, sides_in_words
from fairbound.data.probabilities import as_probabilities
from fairbound.data.roles import Roles
from fairbound.data.schema import Categorical, Column, Numeric, is_missing
from fairbound.data.source import Source, Tell
from fairbound.data.table import Table


def read_table(
    source: Any,
    *,
    target: str,
    sensitive: str | Sequence[str] = (),
    weight: str | None = None,
    sensitive_as_input: bool = False,
    max_categories: int = 50,
    like: Dataset | None = None,
    **reading: Any,
) -> Dataset:
    r"""Read your own rows.

    Parameters
    ----------
    source : path, table, stream or Source
        A text file with a line of column names (CSV), a Parquet file or a folder of them, an Excel workbook, a table,
        or an Arrow stream: all that `Source` takes.
    target : str
        Column of the label.
    sensitive : str or sequence of str
        Sensitive columns. They are inputs only with `sensitive_as_input`; their missing values stay missing.
        "race=p_white,p_black" makes the sensitive column "race" from columns of probabilities, one for each group.
    weight : str, optional
        Column of the rows' weights; it is not an input, but becomes `Dataset.weight`.
    sensitive_as_input : bool
        Whether the sensitive columns are also inputs.
    max_categories : int
        Largest number of 0/1 columns of X for one column of categories; the rarest values beyond it share one. The
        table (`Dataset.frame`) keeps all values.
    like : Dataset, optional
        Another part of the same data, such as the training rows. The new rows get the same inputs in the same order,
        the same formats (`Dataset.formats`) and the same label codes; any other value of the label is an error.
    **reading
        How the columns are read: the parameters of `Source`, such as `positive` and `ignore`.

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
    rows = source if isinstance(source, Source) else Source(source, **{"memory": math.inf, **reading})
    roles = Roles(
        source=rows,
        target=target,
        sensitive=sensitive,
        weight=weight,
        sensitive_as_input=sensitive_as_input,
        max_categories=max_categories,
    )
    return read_rows(roles, like=like).data


class ReadRows(NamedTuple):
    """A data set, and further columns of numbers that are not its inputs."""

    data: Dataset
    further: dict[str, NDArray[Any]]


def read_rows(
    roles: Roles,
    *,
    further: Sequence[str] = (),
    like: Dataset | None = None,
    processes: Any = None,
    tell: Tell | None = None,
) -> ReadRows:
    """Read the rows of a source, as `read_table` does; in several processes, each reads its share.

    Rows that would take more memory than allowed are kept in files.
    """
    source, target = roles.source, roles.target
    with together(processes):
        opened = source.open()
        if like is not None:
            _inputs_like(like, opened.names, opened.place)
        listed = roles.check(opened, further)
        groups = [column for _, columns in listed for column in columns]
        words = [name for name, columns in listed if columns == [name]]
        inputs = roles.inputs(opened.names, (*groups, *further))
        used = {*inputs, target, *groups, *further, *(() if roles.weight is None else (roles.weight,))}
        columns, places, formats = read_columns(
            source,
            opened,
            [name for name in opened.names if name in used],
            words={*(() if roles.quantity else (target,)), *words, *source.categorical},
            formats={} if like is None else _formats_like(like),
            processes=processes,
            tell=tell,
        )
        labelled = ~is_missing(columns[target])
    _check_values(columns, opened.place, places, processes)
    notes: list[str] = []
    dropped, rows = (_total(processes, int(each.sum())) for each in (~labelled, np.ones(len(labelled), bool)))
    if source.drop_unlabelled and dropped:
        if dropped == rows:
            raise InputError(
                "Column {column!r} ({target=}) has no value in any row.", "Give a column of labels.", column=target
            )
        own = np.flatnonzero(labelled)
        columns, places = columns.take(own), places[own]
        notes = [f"{dropped:,} of {rows:,} rows have no label in column {target!r} and were dropped."]
    with together(processes):
        check_labelled(columns[target], target)
    labels, codes = _coded(columns, roles, like, processes)
    with together(processes):
        if like is not None:
            inputs = _inputs_like(like, inputs, opened.place)
        schema = tuple(_schema(columns, name, name in source.categorical, roles.max_categories) for name in inputs)
        weights = None if roles.weight is None else _weights(columns, roles.weight)
        given: dict[str, NDArray[Any]] = {}
        for name, named in listed:
            if name in words:
                values, of_row = columns.distinct(name)
                given[name] = np.asarray(map_rows(roles.groups(name, values), of_row, columns.folder))
            else:
                given[name] = as_probabilities({each: columns[each] for each in named})
    is_path = isinstance(source.data, str | os.PathLike)
    data = Dataset.from_table(
        Path(source.data).stem if is_path else opened.place,
        Table(schema, columns, formats),
        codes,
        given,
        target_names=labels.names,
        target=target,
        label_values=labels.values,
        notes=notes,
        path=str(Path(source.data)) if is_path else None,
        max_categories=roles.max_categories,
        places=places,
        processes=processes,
        numbers=np.asarray(columns[target], dtype=np.float64) if roles.quantity else None,
        weight=weights,
        description=f"Read from {opened.place}; the label is {target}: {sides_in_words(labels.values, labels.names)}.",
    )
    return ReadRows(data, {name: np.asarray(columns[name]) for name in further})


class ReadColumns(NamedTuple):
    """Columns by name, the place of each row in its source, and how the columns are written there."""

    columns: TableColumns
    places: NDArray[np.int64]
    formats: Mapping[str, ColumnFormat]


def read_columns(
    source: Source,
    opened: Batches,
    names: Sequence[str],
    *,
    words: Collection[str],
    formats: Mapping[str, ColumnFormat] | None = None,
    processes: Any = None,
    tell: Tell | None = None,
) -> ReadColumns:
    """Return columns of an open source: in memory, or in files if they would take more memory than allowed.

    In several processes, each reads its share.  The other parameters are as for `Batches.learn`.
    """

    def progress(name: str, total: int) -> Callable[[int], None]:
        return lambda done: None if tell is None else tell(name, done, total)

    in_files = processes is not None or opened.size() > source.budget
    share = (0, 1) if processes is None else (processes.rank, processes.count)
    known = {**{name: ColumnFormat("number", dates=True) for name in source.dates}, **(formats or {})}
    rows = opened if in_files else opened.hold(names)
    learnt = rows.learn(
        names,
        words=words,
        missing=source.missing,
        decimal=source.decimal,
        formats={name: form for name, form in known.items() if name in names},
        progress=progress("Learning the formats", rows.n_rows),
    )
    reading = progress("Reading the rows", learnt.n_rows // share[1])
    columns, places = store(replace(learnt, share=share), source.folder if in_files else None, reading)
    return ReadColumns(columns, places, learnt.formats)


def _coded(
    columns: TableColumns, roles: Roles, like: Dataset | None, processes: Any
) -> tuple[CodedLabels, NDArray[np.int64]]:
    """Return the coding of the label in all processes, and the code of each row."""
    values, of_row = columns.distinct(roles.target)
    if roles.quantity:
        if values.dtype.kind not in "if":
            raise InputError(
                "Column {column!r} ({target=}) has the value {word!r}, and a regression predicts numbers.",
                "Name a column of numbers.",
                column=roles.target,
                word=max(map(str, values.tolist())),  # letters come after digits
            )
        return CodedLabels(np.zeros(1, dtype=np.int64), ("number",), ()), np.zeros_like(of_row)
    rows = np.bincount(of_row, minlength=len(values))
    place = np.arange(len(values))
    if processes is not None:
        counted = Counter[Any]()
        for known, counts in processes.gather((values.tolist(), rows.tolist())):
            counted.update(dict(zip(known, counts, strict=True)))
        order = {value: number for number, value in enumerate(counted)}
        place = np.array([order[value] for value in values.tolist()])
        values, rows = np.asarray(list(counted)), np.array(list(counted.values()))
    with together(processes):
        labels = (
            code_labels(values, roles.target, roles.source.positive, roles.source.negative, rows=rows)
            if like is None
            else code_like(values, like, rows=rows)
        )
    return labels, labels.codes[place][of_row]


def _total(processes: Any, number: int) -> int:
    return number if processes is None else sum(processes.gather(number))


def _formats_like(like: Dataset) -> dict[str, ColumnFormat]:
    """Return the known formats of inputs, and of labels and groups if they are text; other labels are checked later."""
    return {name: form for name, form in like.formats.items() if name in like.schema or form.kind == "text"}


def _weights(columns: TableColumns, name: str) -> NDArray[np.float64]:
    return check_weights(columns[name], len(columns[name]), Message("Column {column!r} ({weight=})", column=name))


def _check_values(columns: TableColumns, place: str, places: NDArray[np.int64], processes: Any) -> None:
    empty = []
    with together(processes):
        for name in columns:
            values = columns.values(name)
            if is_missing(values).all():
                empty.append(name)
            elif values.dtype.kind == "f" and np.isinf(values).any():
                row = int(np.flatnonzero(np.isinf(columns[name]))[0])
                raise ValueError(
                    f"Column {name!r} of {place} is {columns[name][row]} in row {places[row] + 1}; give a finite "
                    "number, or nothing."
                )
    if processes is not None:
        empty = [name for name in empty if all(name in each for each in processes.gather(empty))]
    if empty:
        raise InputError(
            "Column {column!r} of {place} has no value in any row.",
            "Leave it out with {ignore=}.",
            column=empty[0],
            place=place,
        )


def _schema(columns: TableColumns, name: str, coded: bool, most: int) -> Column:
    """Return the schema of a column, with the categories that occur, or the most frequent of them."""
    if not coded and columns.values(name).dtype.kind in "if":
        return Numeric(name)
    values, of_row = columns.distinct(name)
    gaps = is_missing(values)
    counts = np.bincount(of_row, minlength=len(values))
    counted = dict(zip(values[~gaps].tolist(), counts[~gaps].tolist(), strict=True))
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
