"""Read the inputs of commands: limits as text, known data sets, files as data sets, and files of decisions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairbound._errors import Message, argument
from fairbound._files import existing_file
from fairbound._words import did_you_mean, listed

if TYPE_CHECKING:
    from fairbound.cli.decisions import DecisionOptions, JudgedOptions
    from fairbound.cli.options import DescribingOptions
    from fairbound.cli.output import Output
    from fairbound.data import Dataset
    from fairbound.evaluation import Repeats
    from fairbound.fairness import Constraint


def parse_limits(texts: Sequence[str] | None) -> list[Constraint]:
    """Parse limits.  This is fast, so commands do it before they read a file."""
    if not texts:
        return []
    from fairbound.fairness import parse_constraint

    return [parse_constraint(text) for text in texts]


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
    source: str, test_file: str | None, reading: DescribingOptions, *, quiet: bool
) -> tuple[Dataset, Dataset | None]:
    """Return the rows of a file or data set, and those of a file of held-out rows, read in the same way."""
    import numpy as np

    data = load(source, reading, quiet=quiet)
    if test_file is None:
        return data, None
    if is_known_dataset(source):
        raise ValueError(f"{source!r} is a known data set, so its held-out rows cannot be a file; give --test a share.")
    held_out = load(test_file, reading, quiet=quiet, like=data)
    if len(np.unique(held_out.y)) < 2:
        raise ValueError(f"All rows of {test_file} (--test) have the same label; give rows of at least two.")
    return data, held_out


FOR_FILES = (
    "positive",
    "negative",
    "multiclass",
    "drop_unlabelled",
    "weight",
    "bands",
    "missing",
    "decimal",
    "categorical",
    "ignore",
)
"""Options that a known data set does not take."""


def label_and_groups(name: str, reading: DescribingOptions) -> tuple[str, list[str]]:
    """Return the column of the label and the sensitive columns; raise an error if one of them is not named."""
    if reading.target is None:
        raise ValueError(f"Which column of {name} is the label? Name it with --target.")
    if not reading.sensitive:
        raise ValueError(f"Which columns of {name} are sensitive? Name at least one with --sensitive.")
    return reading.target, list(reading.sensitive)


def load(source: str, reading: DescribingOptions, *, quiet: bool = False, like: Dataset | None = None) -> Dataset:
    """Return a known data set, or the user's file as a `Dataset`; `like` is another part of the same data."""
    if is_known_dataset(source):
        return _known(source, reading, quiet)
    from fairbound._values import as_array
    from fairbound.data import DATASETS, MISSING, read_table

    path = Path(source)
    if not path.exists() and path.name == source and not path.suffix:
        raise FileNotFoundError(
            f"There is no file {source}, and no data set of that name.{did_you_mean(source, DATASETS)} "
            f"Known data sets: {', '.join(DATASETS)}."
        )
    existing_file(source)
    target, sensitive = label_and_groups(path.name, reading)
    data = read_table(
        path,
        target=target,
        sensitive=sensitive,
        positive=reading.positive or None,
        negative=reading.negative or None,
        drop_unlabelled=reading.drop_unlabelled,
        weight=reading.weight,
        bands=parse_bands(reading.bands),
        missing=(*MISSING, *(reading.missing or ())),
        decimal=reading.decimal,
        categorical=list(reading.categorical or ()),
        max_categories=reading.max_categories,
        ignore=list(reading.ignore or ()),
        delimiter=reading.delimiter,
        encoding=reading.encoding,
        like=like,
    )
    check_binary(as_array(data.target_names)[data.y], target, reading.positive, reading.multiclass)
    return data


def _known(name: str, reading: DescribingOptions, quiet: bool) -> Dataset:
    from dataclasses import replace

    from fairbound.data import load_dataset

    for option in FOR_FILES:
        if getattr(reading, option):
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
    return replace(data, sensitive={each: data.sensitive[each] for each in chosen}, raw=data.table)


@dataclass(frozen=True)
class DecidedRows:
    """Labels, decisions and groups of the same rows.

    Attributes
    ----------
    y, prediction : array of shape (n,), or None
        Labels and decisions, both in the words of the label; None if their column is not named.
    score : array of shape (n,), or None
    sensitive : dict
    weight : array of shape (n,), or None
    positive : str or None
        The positive one of two labels; without labels, the decision that selects.
    read_as : tuple of (str, str, int, str)
        The values that count as another label: "label" or "decision", the value, its number of rows, and that label.
    """

    y: Any
    prediction: Any
    score: Any
    sensitive: dict[str, Any]
    weight: Any
    positive: str | None
    read_as: tuple[tuple[str, str, int, str], ...]
    repeats: Repeats | None = None


def read_decisions(
    path: str, reading: JudgedOptions, *, score: str | None = None, memory: str | None = None, output: Output
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

    from fairbound._values import as_array, check_weights
    from fairbound.cli.streaming import count_decisions, is_too_large, parse_memory
    from fairbound.data import as_word, code_labels, group_values
    from fairbound.evaluation import match_decisions, match_positive

    counted, columns, repeats, weights = None, dict[str, Any](), None, None
    if is_too_large(path, parse_memory(memory)):
        if score is not None:
            raise ValueError(f"--score needs all rows in memory, but {path} is streamed; allow more by --memory.")
        columns, repeats, weights = count_decisions(path, reading, output)
        counted = repeats.rows
        groups = {name: group_values(columns[name]) for name in reading.sensitive}
    else:
        found, groups = read_decided_columns(path, reading, weight=weight, score=score)
        columns = dict(found)
        if weight is not None:
            shown = Message("Column {column!r} ({weight=})", column=weight)
            weights = check_weights(columns[weight], len(columns[weight]), shown)
    decided = None if prediction is None else columns[prediction]
    further: dict[str, Any] = {
        "score": None if score is None else columns[score],
        "sensitive": groups,
        "repeats": repeats,
        "weight": weights,
    }
    if target is None:
        if positive and len(positive) > 1:
            raise ValueError("--positive names several values of a label, but there is no --target; name one decision.")
        chosen = reading.positive_decision
        if chosen is None and positive:
            chosen = positive[0]
        return DecidedRows(y=None, prediction=decided, positive=chosen, read_as=(), **further)
    label = columns[target]
    check_binary(label, target, positive, reading.multiclass)
    codes, names, values = code_labels(label, target, positive or None, rows=counted)
    classes = as_array(names)
    pos_label = names[1] if len(names) == 2 else None
    labels_read = _read_as("label", [as_word(value) for value in label.tolist()], classes[codes].tolist(), counted)
    if prediction is None:
        return DecidedRows(classes[codes], None, positive=pos_label, read_as=tuple(labels_read), **further)
    named: dict[str, Any] = {
        "names": (f"column {target!r} (--target)", f"column {prediction!r} (--prediction)"),
        "positive_decision": reading.positive_decision,
    }
    if len(values) > len(names):  # --positive makes two labels of many
        labels, positives = [each.value for each in values], [each.value for each in values if each.code == 1]
        matched = match_positive(decided, labels, positives, len(codes), **named).astype(np.int64)
    else:
        matched = match_decisions(decided, names, len(codes), **named)
    assert decided is not None
    return DecidedRows(
        y=classes[codes],
        prediction=classes[matched],
        positive=pos_label,
        **further,
        read_as=(
            *labels_read,
            *_read_as("decision", [as_word(value) for value in decided.tolist()], classes[matched].tolist(), counted),
        ),
    )


def read_decided_columns(
    path: str, reading: DecisionOptions, **further: str | None
) -> tuple[Mapping[str, Any], dict[str, Any]]:
    """Return the columns of a file of decisions by their names, and the groups of each sensitive column.

    `further` has the names of columns of weights and scores, None without one.  Labels, decisions and groups are words,
    weights and scores numbers.  A row without a decision or a score raises an error.
    """
    from fairbound.data import MISSING, as_probabilities, group_values, is_missing, name_probabilities, open_batches

    table = open_batches(path, delimiter=reading.delimiter, encoding=reading.encoding)
    roles = {"target": reading.target, "prediction": reading.prediction, **further}
    named = {role: name for role, name in roles.items() if name is not None}
    listed = name_probabilities(reading.sensitive, table.names)
    sensitive = [column for _, columns in listed for column in columns]
    for role, name in (*named.items(), *(("sensitive", each) for each in sensitive)):
        table.check({name: argument(role)})
    plain = [name for name, own in listed if own == [name]]
    words = {*plain, *(name for role, name in named.items() if role in ("target", "prediction"))}
    needed = list(dict.fromkeys((*named.values(), *sensitive)))
    marks = (*MISSING, *(reading.missing or ()))
    columns = table.hold(needed).learn(words=words, missing=marks).columns()
    for role, what in (("prediction", "decision"), ("score", "score")):
        if role not in named:
            continue
        gaps = is_missing(columns[named[role]])
        if gaps.any():
            raise ValueError(
                f"Column {named[role]!r} (--{role}) has no value in {gaps.sum():,} of {len(gaps):,} rows, first in row "
                f"{gaps.argmax() + 1}; drop the rows without a {what}."
            )
    return columns, {
        name: group_values(columns[name]) if name in plain else as_probabilities({each: columns[each] for each in own})
        for name, own in listed
    }


def _read_as(what: str, values: list[str], words: list[str], rows: Any) -> list[tuple[str, str, int, str]]:
    """List each value that counts as another label, with its number of rows and that label."""
    counts = Counter[tuple[str, str]]()
    for pair, count in zip(zip(values, words, strict=True), [1] * len(values) if rows is None else rows, strict=True):
        counts[pair] += int(count)
    if all(value == word for value, word in counts):
        return []
    return [(what, value, rows, word) for (value, word), rows in sorted(counts.items())]


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
