"""`fairbound predict`: add the decisions of a trained model to the columns of a file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairbound._errors import InputError
from fairbound.cli.options import command
from fairbound.cli.output import Output
from fairbound.cli.streaming import RowProgress, is_too_large, parse_memory

if TYPE_CHECKING:
    from fairbound.data import ColumnFormat
    from fairbound.estimator import ConstrainedClassifier


@command("predict")
def predict(
    model: str,
    source: str,
    *,
    out: str,
    column: str = "prediction",
    probability: bool = False,
    exact: bool = False,
    delimiter: str | None = None,
    encoding: str = "utf-8",
    data_dir: str | None = None,
    memory: str | None = None,
    output: Output,
) -> None:
    """Add the decisions of a trained model to a file of rows.

    The file needs the input columns of the model, by name and in any order. It needs neither groups nor label. Each
    column is read as in training. The rows are written unchanged, with one more column. A decision depends only on the
    model and the row.

    Parameters
    ----------
    model : MODEL
        A folder that train has written.
    source : FILE|DATASET
        A CSV or Parquet file, or the name of a known data set (fairbound data list).
    out : FILE
        The file to create: CSV, or Parquet if it ends in .parquet.
    column : NAME
        Name of the new column.
    probability : bool
        Add the probability of the positive label.
    exact : bool
        Write text to CSV unchanged, even if a spreadsheet would read it as a formula.
    delimiter : CHARACTER
        The character between the values of a text file.
    encoding : NAME
        The encoding of a text file.
    data_dir : FOLDER
        The folder in which known data sets are looked for first.
    memory : SIZE
        Stream files whose rows would take more memory than this, such as 2GB. [default: half of all memory]

    Examples
    --------
    New applications:
      $ fairbound predict model new_loans.csv --out decided.csv
    Then audit the decisions:
      $ fairbound audit decided.csv --target approved --prediction prediction --sensitive sex
    """
    from fairbound.cli.output import check_source, fresh_file, load_model

    check_source(source, folders=True)
    with fresh_file(out) as file, output.stage(f"Deciding {source}"):
        classifier = load_model(model)
        decider = Decider(classifier, source, column, probability)
        if is_too_large(source, parse_memory(memory)):
            _decide_in_parts(decider, file, exact, delimiter, encoding, RowProgress(output))
        else:
            rows = read_rows(
                classifier, source, delimiter=delimiter, encoding=encoding, data_dir=data_dir, quiet=output.silent
            )
            decider.check_names(rows.names)
            rows.write(file, decider(rows.columns), exact)
    notes = _unseen(classifier, decider.unseen)
    shown = {label: decider.counts[label] for label in dict.fromkeys(map(as_text, classifier.classes_.tolist()))}
    for note in notes:
        output.text(f"Note: {note}")
    counted, rows_decided = ", ".join(f"{label}: {count:,}" for label, count in shown.items()), decider.counts.total()
    output.text(f"Decided {rows_decided:,} rows ({counted}). Written to {out}.")
    output.result({"command": "predict", "out": out, "rows": rows_decided, "decided": shown, "notes": notes})


class Decider:
    """Returns the new columns of rows, and counts the decisions and the values that did not occur in training."""

    def __init__(self, classifier: ConstrainedClassifier, source: str, column: str, probability: bool) -> None:
        self.classifier, self.source, self.column, self.probability = classifier, source, column, probability
        self.counts, self.unseen = Counter[str](), dict[str, Counter[str]]()

    def __call__(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        """Return the new columns of some rows, given the inputs of the model."""
        from fairbound.data import make_frame
        from fairbound.studies import table_backend

        frame = make_frame(columns, table_backend())
        with _located(self.source):
            decided = self.classifier.predict(frame)
        for label, count in Counter(decided.tolist()).items():
            self.counts[as_text(label)] += count
        if self.classifier.encoder_ is not None:
            for name, counted in self.classifier.encoder_.unseen(frame).items():
                self.unseen.setdefault(name, Counter()).update(counted)
        probabilities = _probabilities(self.classifier, frame) if self.probability else {}
        return {self.column: _typed(decided, self.classifier.classes_), **probabilities}

    def check_names(self, names: Sequence[str]) -> None:
        """Raise an error if the file has one of the new columns already."""
        classes = self.classifier.classes_.tolist()
        wanted = [self.classifier.pos_label_] if self.classifier.pos_label_ is not None else classes
        for name in (self.column, *(f"probability of {as_text(label)}" for label in wanted if self.probability)):
            if name in names:
                raise ValueError(f"{self.source} already has a column {name!r}; give another name with --column.")


def _decide_in_parts(
    decider: Decider, out: Path, exact: bool, delimiter: str | None, encoding: str, tell: RowProgress
) -> None:
    """Decide the rows of a file in parts, and write each part with its decisions: Parquet to Parquet, text to text."""
    from fairbound.data import TableFile, TableStream, column_values, extend_text, new_fields, text_blocks

    formats, categories = _formats(decider.classifier)
    source, to_parquet, done = Path(decider.source), out.suffix.lower() == ".parquet", 0
    file = None if source.is_dir() else TableFile.open(source, delimiter=delimiter, encoding=encoding)
    from_parquet = file is None or file.is_parquet
    if to_parquet != from_parquet:
        kinds = (".parquet", "Parquet") if from_parquet else (".csv", "text")
        raise ValueError(
            f"{source.name} is read in parts, and then the output must be {kinds[1]}, too: let --out end in {kinds[0]}."
        )

    def read(name: str, values: Any) -> Any:
        form = formats[name]
        if not isinstance(values, list):
            if values.dtype.kind in "if":
                return values
            values = values.tolist()
        return form.words(values) if name in categories else form.read(values, name)

    if file is not None and not file.is_parquet:
        for name in formats:
            file.check_column(name, "the model needs it")
        decider.check_names(file.names)

        def fields() -> Iterator[Sequence[str]]:
            nonlocal done
            for table in text_blocks(file, list(formats)):
                added = decider({name: read(name, table.column(name).to_pylist()) for name in formats})
                lines = new_fields(added, exact)
                yield from lines if not done else islice(lines, 1, None)
                done += table.num_rows
                tell("Deciding", done, 0)

        extend_text(file, out, fields())
        return
    import pyarrow as pa
    import pyarrow.parquet as pq

    stream = TableStream.open(source)
    stream.check(dict.fromkeys(formats, "the model needs it"))
    decider.check_names(stream.names)
    writer = None
    for table in stream.batches(stream.names):
        inputs = {
            name: read(name, column_values(table.column(name), name, stream.place, codes=name in categories))
            for name in formats
        }
        for name, values in decider(inputs).items():
            table = table.append_column(name, pa.array(values.tolist()))
        writer = pq.ParquetWriter(out, table.schema) if writer is None else writer
        writer.write_table(table)
        done += table.num_rows
        tell("Deciding", done, stream.n_rows)
    if writer is not None:
        writer.close()


@contextmanager
def _located(source: str) -> Iterator[None]:
    """Add the file, and the number of the row counted from 1, to an error about a row of X."""
    try:
        yield
    except InputError as error:
        if error.facts.get("place") != "X":
            raise
        row = error.facts["row"] + 1
        raise error.with_facts(place=Path(source).name, row=row, how="as in the training file") from error


@dataclass(frozen=True)
class NewRows:
    """Rows to decide: the names of all columns, the inputs of the model, and a function that writes all columns.

    The function takes the file to create, the new columns, and whether these are written exactly.
    """

    names: Sequence[str]
    columns: Mapping[str, Any]
    write: Callable[[Path, Mapping[str, Any], bool], None]


def read_rows(
    classifier: ConstrainedClassifier,
    source: str,
    *,
    delimiter: str | None = None,
    encoding: str = "utf-8",
    data_dir: str | None = None,
    quiet: bool = True,
) -> NewRows:
    """Read a file or a known data set, with the column formats of the model."""
    from fairbound.cli.inputs import is_known_dataset
    from fairbound.cli.output import open_table
    from fairbound.data import append_columns, no_column, write_columns

    formats, categories = _formats(classifier)
    needed = list(formats)
    if is_known_dataset(source):
        from fairbound.data import load_dataset

        data = load_dataset(source, data_dir=data_dir, progress=False if quiet else None)
        shown = {**data.table.show(), **data.sensitive, data.target: [data.target_names[code] for code in data.y]}
        for name in needed:
            if name not in shown:
                raise no_column(source, name, shown, "the model needs it")
        return NewRows(
            list(shown),
            {name: shown[name] for name in needed},
            lambda file, added, exact: write_columns(shown, file, added, exact=exact),
        )
    table = open_table(source, delimiter=delimiter, encoding=encoding)
    for name in needed:
        table.check_column(name, "the model needs it")
    return NewRows(
        table.names,
        table.read_by(formats, categories),
        lambda file, added, exact: append_columns(table, file, added, exact=exact),
    )


def _formats(classifier: ConstrainedClassifier) -> tuple[dict[str, ColumnFormat], list[str]]:
    """Return the column formats of a model, and which columns are categories.

    A model that was not trained on a file has no formats: numbers are then plain, and text is unchanged.
    """
    from fairbound.data import ColumnFormat

    if not hasattr(classifier, "feature_names_in_"):
        raise ValueError(
            "The model was trained on an array without column names, so its inputs cannot be found in a file; train it "
            "on a table."
        )
    encoder, left = classifier.encoder_, classifier.left_columns_
    names = [str(name) for place, name in enumerate(classifier.feature_names_in_) if place not in left]
    learnt = {} if encoder is None else {column.name: column for column in encoder.columns_}
    words = {name: getattr(learnt.get(name), "words", None) for name in names}
    formats = {}
    for name, known in words.items():
        kind: Any = "number" if known is None or _are_numbers(known) else "text"
        formats[name] = classifier.formats_.get(name, ColumnFormat(kind))
    return formats, [name for name, known in words.items() if known is not None]


def _are_numbers(words: Sequence[str]) -> bool:
    """Return whether categories are codes that were read as numbers."""
    from fairbound.data import ColumnFormat

    numbers = [ColumnFormat("number").number(word) for word in words]
    return all(number is not None and as_text(number) == word for number, word in zip(numbers, words, strict=True))


def as_text(value: Any) -> str:
    """Return a label as text."""
    from fairbound.data import as_word

    return as_word(value)


def _unseen(classifier: ConstrainedClassifier, unseen: Mapping[str, Counter[str]]) -> list[str]:
    """Return a note on each column with values that did not occur in training."""
    if classifier.encoder_ is None:
        return []
    notes = []
    others = {column.name: getattr(column, "other", False) for column in classifier.encoder_.columns_}
    for name in (name for name in others if name in unseen):  # not by rows, which may come in blocks
        counted = unseen[name]
        words = sorted(counted, key=lambda word: (-counted[word], word))
        shown = ", ".join(map(repr, words[:5])) + (", ..." if len(words) > 5 else "")
        rows = f"{counted.total():,} {'row' if counted.total() == 1 else 'rows'}"
        counts_as = "a rare value" if others[name] else "none of the known values"
        notes.append(
            f"Column {name!r} has values that did not occur in training: {shown} ({rows}; each counts as {counts_as})."
        )
    return notes


def _typed(labels: Any, classes: Any) -> Any:
    """Return labels as integers if all classes of the model are whole numbers, whatever labels these rows have."""
    import numpy as np

    from fairbound._values import as_array

    words = [as_text(label) for label in classes.tolist()]
    if all(re.fullmatch("0|-?[1-9][0-9]{0,17}", word) for word in words):
        return np.array([int(as_text(label)) for label in labels.tolist()], dtype=np.int64)
    return as_array([as_text(label) for label in labels.tolist()])


def _probabilities(classifier: ConstrainedClassifier, frame: Any) -> dict[str, Any]:
    found = classifier.predict_proba(frame)
    classes = classifier.classes_.tolist()
    wanted = [classifier.pos_label_] if classifier.pos_label_ is not None else classes
    return {f"probability of {as_text(label)}": found[:, classes.index(label)] for label in wanted}
