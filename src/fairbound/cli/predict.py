"""`fairbound predict`: add the decisions of a trained model to the columns of a file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairbound._errors import InputError
from fairbound.cli import options
from fairbound.cli.options import examples
from fairbound.cli.output import Output

if TYPE_CHECKING:
    from fairbound.data import ColumnFormat
    from fairbound.estimator import ConstrainedClassifier

Model = Annotated[str, typer.Argument(metavar="MODEL", help="A folder that train has written.", show_default=False)]
OutFile = Annotated[
    str,
    typer.Option(
        "--out",
        "-o",
        metavar="FILE",
        help="The file to create: CSV, or Parquet if it ends in .parquet.",
        show_default=False,
    ),
]
Column = Annotated[str, typer.Option("--column", metavar="NAME", help="Name of the new column.")]
Probability = Annotated[bool, typer.Option("--probability", help="Add the probability of the positive label.")]

Exact = Annotated[
    bool,
    typer.Option("--exact", help="Write labels to CSV unchanged, even if a spreadsheet would read one as a formula."),
]


def register(app: typer.Typer, command: Any) -> None:
    """Add the command."""
    app.command(
        "predict",
        cls=command,
        epilog=examples(
            ("New applications", "fairbound predict model new_loans.csv --out decided.csv"),
            (
                "Then audit the decisions",
                "fairbound audit decided.csv --target approved --prediction prediction --sensitive sex",
            ),
        ),
    )(predict_command)


def predict_command(
    model: Model,
    source: options.TableOrName,
    out: OutFile,
    column: Column = "prediction",
    probability: Probability = False,
    exact: Exact = False,
    delimiter: options.Delimiter = None,
    encoding: options.Encoding = "utf-8",
    data_dir: options.DataFolder = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Add the decisions of a trained model to a file of rows.

    The file needs the input columns of the model, by name and in any order. It needs neither groups nor label. Each
    column is read as in training. The rows are written unchanged, with one more column. A decision depends only on the
    model and the row.
    """
    from fairbound.cli.files import check_source, fresh_file, load_model
    from fairbound.data import make_frame
    from fairbound.studies import table_backend

    check_source(source)
    output = Output(json, quiet)
    with fresh_file(out) as file, output.stage(f"Deciding {source}"):
        classifier = load_model(model)
        rows = read_rows(
            classifier, source, delimiter=delimiter, encoding=encoding, data_dir=data_dir, quiet=quiet or json
        )
        frame = make_frame(rows.columns, table_backend())
        with _located(source):
            decided = classifier.predict(frame)
        added = {column: _typed(decided, classifier.classes_)}
        if probability:
            added |= _probabilities(classifier, frame)
        for name in added:
            if name in rows.names:
                raise ValueError(f"{source} already has a column {name!r}; give another name with --column.")
        rows.write(file, added, exact)
        notes = _unseen(classifier, frame)
    counts = Counter(map(as_text, decided.tolist()))
    shown = {label: counts[label] for label in dict.fromkeys(map(as_text, classifier.classes_.tolist()))}
    for note in notes:
        output.text(f"Note: {note}")
    counted = ", ".join(f"{label}: {count:,}" for label, count in shown.items())
    output.text(f"Decided {len(decided):,} rows ({counted}). Written to {out}.")
    output.result({"command": "predict", "out": out, "rows": len(decided), "decided": shown, "notes": notes})


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
    from fairbound.cli.files import open_table
    from fairbound.cli.inputs import is_known_dataset
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
    """Tell whether categories are codes that were read as numbers."""
    from fairbound.data import ColumnFormat

    numbers = [ColumnFormat("number").number(word) for word in words]
    return all(number is not None and as_text(number) == word for number, word in zip(numbers, words, strict=True))


def as_text(value: Any) -> str:
    """Return a label as text."""
    from fairbound.data import as_word

    return as_word(value)


def _unseen(classifier: ConstrainedClassifier, frame: Any) -> list[str]:
    """Return a note on each column with values that did not occur in training."""
    if classifier.encoder_ is None:
        return []
    notes = []
    others = {column.name: getattr(column, "other", False) for column in classifier.encoder_.columns_}
    for name, counted in classifier.encoder_.unseen(frame).items():
        shown = ", ".join(repr(word) for word, _ in counted.most_common(5)) + (", ..." if len(counted) > 5 else "")
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
