"""Read the inputs of commands: limits as text, known data sets, files as data sets, and files of decisions."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import fields
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fairbound._errors import Message, argument
from fairbound._files import existing_file
from fairbound._words import did_you_mean, listed

if TYPE_CHECKING:
    from fairbound.cli.decisions import DecisionOptions, JudgedOptions
    from fairbound.cli.options import DescribingOptions
    from fairbound.data import Dataset


_UNITS = {"": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12, "kib": 2**10, "mib": 2**20, "gib": 2**30}


def parse_memory(stated: str | None) -> float | None:
    """Return a size in bytes; None without one.

    >>> parse_memory("2GB"), parse_memory("500 mb")
    (2000000000.0, 500000000.0)
    """
    if stated is None:
        return None
    found = re.fullmatch(r"\s*(\d*\.?\d+)\s*([a-z]*)\s*", stated.lower())
    if found is None or found[2] not in _UNITS:
        raise ValueError(f"--memory is {stated!r}; give a size such as 2GB or 500MB.")
    return float(found[1]) * _UNITS[found[2]]


def check_binary(values: Any, target: str, positive: Sequence[str] | None, multiclass: bool) -> None:
    """Raise an error for a label of more than two values without `--multiclass`; the favourable one is not guessed."""
    if multiclass and positive:
        raise ValueError(
            "--multiclass makes a class of each value of the label, but --positive makes two classes; give only one."
        )
    if multiclass or positive:
        return
    from fairbound.data import as_word, is_missing

    distinct = sorted({as_word(value) for value in values[~is_missing(values)].tolist()})
    if len(distinct) > 2:
        raise ValueError(
            f"Column {target!r} (--target) has {len(distinct):,} different values, {listed(distinct[:5])}"
            f"{' and others' if len(distinct) > 5 else ''}; name the favourable one with --positive, or keep all with "
            "--multiclass."
        )


def is_known_dataset(source: str) -> bool:
    """Return whether this is the name of a data set; a file of that name has priority."""
    from fairbound.data import DATASETS

    return source in DATASETS and not Path(source).is_file()


def load_parts(
    source: str, test_file: str | None, reading: DescribingOptions, *, quiet: bool, **how: Any
) -> tuple[Dataset, Dataset | None]:
    """Return the rows of a file or data set, and those of a file of held-out rows, read in the same way.

    `how` has further arguments of `load`.
    """
    data = load(source, reading, quiet=quiet, **how)
    if test_file is None:
        return data, None
    if is_known_dataset(source):
        raise ValueError(f"{source!r} is a known data set, so its held-out rows cannot be a file; give --test a share.")
    held_out = load(test_file, reading, quiet=quiet, like=data, **how)
    if held_out.numbers is None and len({each.code for each in held_out.label_values}) < 2:
        raise ValueError(f"All rows of {test_file} (--test) have the same label; give rows of at least two.")
    return data, held_out


def load(
    source: str,
    reading: DescribingOptions,
    *,
    quiet: bool = False,
    like: Dataset | None = None,
    memory: float | None = math.inf,
    scratch: Path | None = None,
    processes: Any = None,
    tell: Any = None,
    quantity: bool = False,
) -> Dataset:
    """Return a known data set, or the user's file as a `Dataset`.

    Parameters
    ----------
    source : str
    reading : DescribingOptions
    quiet : bool
        Whether to show no progress of downloads.
    like : Dataset, optional
        Another part of the same data.
    memory, scratch
        As for `Source`.
    processes, tell
        As for `read_rows`.
    quantity
        As for `Roles`.
    """
    if is_known_dataset(source):
        if processes is not None:
            raise ValueError(f"{source!r} is a known data set, and several processes share files; start one process.")
        return _known(source, reading, quiet)
    import numpy as np

    from fairbound.data import DATASETS, MISSING, Roles, Source, read_rows

    path = Path(source)
    if not path.exists() and path.name == source and not path.suffix:
        raise FileNotFoundError(
            f"There is no file {source}, and no data set of that name.{did_you_mean(source, DATASETS)} "
            f"Known data sets: {', '.join(DATASETS)}."
        )
    if not path.is_dir():
        existing_file(source)
    if reading.target is None:
        raise ValueError(f"Which column of {path.name} is the label? Name it with --target.")
    if not reading.sensitive:
        raise ValueError(f"Which columns of {path.name} are sensitive? Name at least one with --sensitive.")
    stated = {name: value for name, value in vars(reading).items() if value}
    stated |= {"bands": parse_bands(reading.bands), "missing": (*MISSING, *(reading.missing or ()))}
    rows, roles = (
        {each.name: stated[each.name] for each in fields(kind) if each.name in stated} for kind in (Source, Roles)
    )
    source_rows = Source(path, memory=memory, scratch=scratch, **rows)
    data = read_rows(
        Roles(source=source_rows, quantity=quantity, **roles), like=like, processes=processes, tell=tell
    ).data
    labels = np.asarray([each.value for each in data.label_values])
    check_binary(labels, reading.target, reading.positive, reading.multiclass)
    return data


def _known(name: str, reading: DescribingOptions, quiet: bool) -> Dataset:
    from fairbound.cli.options import DescribingOptions
    from fairbound.data import load_dataset

    for option, value in vars(reading).items():
        if option not in ("target", "sensitive", "data_dir") and value != vars(DescribingOptions())[option]:
            raise ValueError(
                f"{name!r} is a known data set, and --{option.replace('_', '-')} is for files; leave it out."
            )
    data = load_dataset(name, data_dir=reading.data_dir, progress=False if quiet else None)
    if reading.target not in (None, data.target):
        raise ValueError(
            f"The label of the data set {name!r} is {data.target!r}, not {reading.target!r}; leave out --target."
        )
    chosen = list(reading.sensitive or list(data.sensitive)[:1])
    for each in chosen:
        if each not in data.sensitive:
            raise ValueError(
                f"Data set {name!r} has no sensitive column {each!r}.{did_you_mean(each, data.sensitive)} "
                f"It has {', '.join(data.sensitive)}."
            )
    return data.changed(sensitive={each: data.sensitive[each] for each in chosen})


class DecidedRows(NamedTuple):
    """Labels, decisions and groups, further arguments of an evaluation, the scores, and values read as another label.

    Such a value is listed as "label" or "decision", the value, its number of rows, and the label.
    """

    rows: tuple[Any, Any, dict[str, Any]]
    known: dict[str, Any]
    score: Any
    read_as: list[tuple[str, str, int, str]]


def read_decisions(
    path: str, reading: JudgedOptions, *, score: str | None = None, memory: str | None = None
) -> DecidedRows:
    """Read the decisions of any system from a file; a decision that matches no label raises an error.

    Labels, decisions and groups are read as training reads labels and groups: 01 is not 1.  Without a column of labels,
    decisions stay as they are.
    """
    target, prediction, weight, positive = reading.target, reading.prediction, reading.weight, reading.positive
    if prediction is None and score is None:
        raise ValueError(
            "Which column has the decisions? Name it with --prediction, or a column of scores with --score."
        )
    import numpy as np

    from fairbound._weights import check_weights
    from fairbound.data import code_labels
    from fairbound.evaluation import match_decisions, match_positive

    columns, groups, counted = read_decided_columns(path, reading, memory, count=True, weight=weight, score=score)
    known: dict[str, Any] = {"sample_weight": None, "repeats": counted}
    if weight is not None:
        shown = Message("Column {column!r} ({weight=})", column=weight)
        known["sample_weight"] = check_weights(columns[weight], len(columns[weight]), shown)
    decided, scores = (None if name is None else columns[name] for name in (prediction, score))
    if target is None:
        if positive and len(positive) > 1:
            raise ValueError("--positive names several values of a label, but there is no --target; name one decision.")
        chosen = positive[0] if positive and reading.positive_decision is None else reading.positive_decision
        return DecidedRows((None, decided, groups), {**known, "pos_label": chosen}, scores, [])
    label = columns[target]
    check_binary(label, target, positive, reading.multiclass)
    codes, names, values = code_labels(label, target, positive or None, rows=counted)
    classes = np.asarray(names)
    known["pos_label"] = names[1] if len(names) == 2 else None
    read_as = _read_as("label", label, classes[codes], counted)
    if decided is not None:
        named: dict[str, Any] = {
            "names": (f"column {target!r} (--target)", f"column {prediction!r} (--prediction)"),
            "positive_decision": reading.positive_decision,
        }
        if len(values) > len(names):  # --positive makes two labels of many
            labels, positives = [each.value for each in values], [each.value for each in values if each.code == 1]
            matched = match_positive(decided, labels, positives, len(codes), **named).astype(np.int64)
        else:
            matched = match_decisions(decided, names, len(codes), **named)
        read_as += _read_as("decision", decided, classes[matched], counted)
        decided = classes[matched]
    return DecidedRows((classes[codes], decided, groups), known, scores, read_as)


def read_decided_columns(
    path: str, reading: DecisionOptions, memory: str | None = None, *, count: bool = False, **further: str | None
) -> tuple[dict[str, Any], dict[str, Any], Any]:
    """Return the columns of files of decisions by their names, the groups of each sensitive column, and counts.

    `further` has the names of columns of weights and scores, None without one.  Labels, decisions and groups are words,
    weights and scores numbers.  A row without a decision or a score raises an error.  With `count`, rows with the same
    words are one, which has their number, unless there are weights, scores or probabilities.
    """
    from fairbound.data import (
        MISSING,
        Source,
        as_probabilities,
        count_rows,
        group_values,
        is_missing,
        name_probabilities,
        read_columns,
    )

    source = Source(
        path,
        delimiter=reading.delimiter,
        encoding=reading.encoding,
        missing=(*MISSING, *(reading.missing or ())),
        memory=parse_memory(memory),
    )
    table = source.open()
    roles = {"target": reading.target, "prediction": reading.prediction, **further}
    named = {role: name for role, name in roles.items() if name is not None}
    listed = name_probabilities(reading.sensitive, table.names)
    sensitive = [column for _, columns in listed for column in columns]
    for role, name in (*named.items(), *(("sensitive", each) for each in sensitive)):
        table.check({name: argument(role)})
    plain = [name for name, own in listed if own == [name]]
    words = {*plain, *(name for role, name in named.items() if role in ("target", "prediction"))}
    needed = list(dict.fromkeys((*named.values(), *sensitive)))
    found = read_columns(source, table, needed, words=words).columns
    rows = None
    columns = dict(found)
    if count and words == set(needed):
        columns, rows = count_rows(found)
    for role, what in (("prediction", "decision"), ("score", "score")):
        if role not in named:
            continue
        gaps = is_missing(columns[named[role]])
        if gaps.any():
            whole = is_missing(found[named[role]])
            raise ValueError(
                f"Column {named[role]!r} (--{role}) has no value in {whole.sum():,} of {len(whole):,} rows, first in "
                f"row {whole.argmax() + 1}; drop the rows without a {what}."
            )
    groups = {
        name: group_values(columns[name]) if name in plain else as_probabilities({each: columns[each] for each in own})
        for name, own in listed
    }
    return columns, groups, rows


def _read_as(what: str, values: Any, words: Any, rows: Any) -> list[tuple[str, str, int, str]]:
    from fairbound.data import as_word

    counts = Counter[tuple[str, str]]()
    for value, word, number in zip(
        values.tolist(), words.tolist(), repeat(1) if rows is None else rows.tolist(), strict=rows is not None
    ):
        counts[as_word(value), word] += number
    changed = any(value != word for value, word in counts)
    return [(what, value, rows, word) for (value, word), rows in sorted(counts.items())] if changed else []


def parse_bands(words: Sequence[str] | None) -> dict[str, list[float]]:
    """Parse bands of groups, `age 25,40,60` or `age=25,40,60`.

    >>> parse_bands(["age", "25,40", "income=2000"])
    {'age': [25.0, 40.0], 'income': [2000.0]}
    """
    found: dict[str, list[float]] = {}
    rest = list(words or ())
    while rest:
        word = rest.pop(0)
        name, sign, cuts = word.rpartition("=")
        if not sign:
            name, cuts = word, rest.pop(0) if rest else ""
        try:
            found[name] = [float(cut) for cut in cuts.split(",")]
        except ValueError as error:
            raise ValueError(
                f"--bands has {cuts!r} for the column {name!r}; give a column and where to cut it, as in "
                "--bands age 25,40,60."
            ) from error
    return found
