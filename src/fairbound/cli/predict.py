"""`fairbound predict`: add the decisions, or the numbers, of a trained model to the columns of a file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairbound._errors import InputError
from fairbound.cli.options import command
from fairbound.cli.output import Output

if TYPE_CHECKING:
    from fairbound.data import Batches
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
    """Add the decisions of a trained model to a file of rows, or the numbers that a regression predicts.

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
        Keep rows that would take more memory than this in files, such as 2GB. [default: half of all memory]

    Examples
    --------
    New applications:
      $ fairbound predict model new_loans.csv --out decided.csv
    Then audit the decisions:
      $ fairbound audit decided.csv --target approved --prediction prediction --sensitive sex
    """
    from fairbound.cli.inputs import parse_memory
    from fairbound.cli.output import check_source, load_model, out_file
    from fairbound.data import Source, copy_writer

    check_source(source)
    with out_file(out) as file, output.stage(f"Deciding {source}"):
        classifier = load_model(model, numbers=True)
        decider = Decider(classifier, source, column, probability)
        rows = open_rows(classifier, source, delimiter, encoding, data_dir=data_dir, quiet=output.silent)
        decider.check_names(rows.names)
        if rows.size() <= Source(source, memory=parse_memory(memory)).budget:
            rows = rows.hold()
        with copy_writer(file, rows, exact=exact) as writer:
            for first, table in rows.batches(rows.names):
                writer.write(table, decider(rows, table, first))
                output.rows("Deciding", first + table.num_rows, rows.n_rows)
    notes = _unseen(classifier, decider.unseen)
    shown = {label: decider.counts[label] for label in dict.fromkeys(map(as_text, decider.classes))}
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
        self.decides = hasattr(classifier, "classes_")
        self.classes: list[Any] = classifier.classes_.tolist() if self.decides else ["numbers"]
        if probability and not self.decides:
            raise ValueError("The model predicts numbers, which have no probability; leave out --probability.")

    def __call__(self, rows: Batches, table: Any, first: int) -> dict[str, Any]:
        """Return the new columns of a batch, whose first row has this place."""
        from fairbound.data import make_frame
        from fairbound.estimator import new_inputs
        from fairbound.studies import table_backend

        frame = make_frame(new_inputs(rows, table, first), table_backend())
        with _located(self.source, first):
            decided = self.classifier.predict(frame)
        for label, count in Counter(decided.tolist() if self.decides else self.classes * len(decided)).items():
            self.counts[as_text(label)] += count
        if self.classifier.encoder_ is not None:
            for name, counted in self.classifier.encoder_.unseen(frame).items():
                self.unseen.setdefault(name, Counter()).update(counted)
        probabilities = _probabilities(self.classifier, frame) if self.probability else {}
        return {self.column: _typed(decided, self.classes) if self.decides else decided, **probabilities}

    def check_names(self, names: Sequence[str]) -> None:
        """Raise an error if the file has one of the new columns already."""
        wanted = _wanted(self.classifier) if self.probability else []
        for name in (self.column, *(f"probability of {as_text(label)}" for label in wanted)):
            if name in names:
                raise ValueError(f"{self.source} already has a column {name!r}; give another name with --column.")


@contextmanager
def _located(source: str, first: int) -> Iterator[None]:
    """Add the file, and the number of the row counted from 1, to an error about a row of X."""
    try:
        yield
    except InputError as error:
        if error.facts.get("place") != "X":
            raise
        row = first + error.facts["row"] + 1
        raise error.with_facts(place=Path(source).name, row=row, how="as in the training file") from error


def open_rows(
    classifier: ConstrainedClassifier,
    source: str,
    delimiter: str | None = None,
    encoding: str = "utf-8",
    *,
    data_dir: str | None = None,
    quiet: bool = True,
) -> Batches:
    """Open a file or a known data set, with the column formats of the model."""
    from fairbound.cli.inputs import is_known_dataset
    from fairbound.data import ArrowTable, load_dataset, open_batches
    from fairbound.estimator import as_trained

    if is_known_dataset(source):
        data = load_dataset(source, data_dir=data_dir, progress=False if quiet else None)
        labels = [data.target_names[code] for code in data.y]
        rows: Batches = ArrowTable.of({**data.table.show(), **data.sensitive, data.target: labels}, source)
    else:
        rows = open_batches(source, delimiter=delimiter, encoding=encoding)
    return as_trained(classifier, rows)


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


def _typed(labels: Any, classes: Sequence[Any]) -> Any:
    """Return labels as integers if all classes of the model are whole numbers, whatever labels these rows have."""
    import numpy as np

    words = [as_text(label) for label in classes]
    if all(re.fullmatch("0|-?[1-9][0-9]{0,17}", word) for word in words):
        return np.array([int(as_text(label)) for label in labels.tolist()], dtype=np.int64)
    return np.asarray([as_text(label) for label in labels.tolist()])


def _probabilities(classifier: ConstrainedClassifier, frame: Any) -> dict[str, Any]:
    found = classifier.predict_proba(frame)
    classes = classifier.classes_.tolist()
    return {f"probability of {as_text(label)}": found[:, classes.index(label)] for label in _wanted(classifier)}


def _wanted(classifier: ConstrainedClassifier) -> list[Any]:
    """Return the labels whose probabilities are shown."""
    return classifier.classes_.tolist() if classifier.pos_label_ is None else [classifier.pos_label_]
