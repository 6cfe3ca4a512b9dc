"""`fairbound predict`: the decisions of a trained model on new rows, beside the columns of the file."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairbound.cli import options
from fairbound.cli.options import examples
from fairbound.cli.output import Output

if TYPE_CHECKING:
    from fairbound.estimator import ConstrainedClassifier

Model = Annotated[str, typer.Argument(metavar="MODEL", help="The folder that train has written.", show_default=False)]
OutFile = Annotated[
    str,
    typer.Option(
        "--out", "-o", metavar="FILE", help="A file to create: CSV, or Parquet by its ending.", show_default=False
    ),
]
Column = Annotated[str, typer.Option("--column", metavar="NAME", help="Name of the new column.")]
Probability = Annotated[bool, typer.Option("--probability", help="Add the probability of the positive label.")]


def register(app: typer.Typer, command: Any) -> None:
    """Add the command."""
    app.command(
        "predict",
        cls=command,
        epilog=examples(
            ("New applications", "fairbound predict model new_loans.csv --out decided.csv"),
            (
                "Then look at what was decided",
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
    delimiter: options.Delimiter = None,
    encoding: options.Encoding = "utf-8",
    data_dir: options.DataFolder = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Decide new rows by a trained model.

    The file needs the columns that the model was trained on, by name and in any order; groups and label are not needed.
    Its rows are written with one more column. The same model and rows give the same decisions.
    """
    from fairbound.cli.files import check_source
    from fairbound.cli.folders import fresh_file
    from fairbound.cli.models import load_model

    check_source(source)
    output = Output(json, quiet)
    with fresh_file(out) as file, output.stage(f"Deciding {source}"):
        classifier = load_model(model)
        names, rows, columns, notes = _read(classifier, source, delimiter, encoding, data_dir, quiet or json)
        frame, unseen = _inputs(classifier, columns, source)
        added = {column: [_text(value) for value in classifier.predict(frame).tolist()]}
        if probability:
            added |= _probabilities(classifier, frame)
        for name in added:
            if name in names:
                raise ValueError(f"{source} has a column {name!r} already; name the new one with --column.")
        _write(file, names, rows, added)
    decided = {label: added[column].count(label) for label in dict.fromkeys(map(_text, classifier.classes_.tolist()))}
    notes += unseen
    for note in notes:
        output.text(f"Note: {note}")
    counted = ", ".join(f"{label}: {count:,}" for label, count in decided.items())
    output.text(f"Decided {len(rows):,} rows ({counted}). Written to {out}.")
    output.result({"command": "predict", "out": out, "rows": len(rows), "decided": decided, "notes": notes})


def _read(
    classifier: ConstrainedClassifier,
    source: str,
    delimiter: str | None,
    encoding: str,
    data_dir: str | None,
    quiet: bool,
) -> tuple[list[str], list[list[str]], dict[str, Any], list[str]]:
    """Return the names of all columns, the rows as text, the columns as numbers and words, and notes."""
    from fairbound.cli.files import is_parquet, other_columns, read_columns
    from fairbound.cli.inputs import is_known_dataset

    if is_known_dataset(source):
        from fairbound.data import load_dataset

        data = load_dataset(source, data_dir=data_dir, progress=False if quiet else None)
        shown = {**data.table.show(), **data.sensitive, data.target: [data.target_names[code] for code in data.y]}
        return *_as_text(shown), shown, []
    needed = [str(name) for name in classifier.feature_names_in_]
    columns = read_columns(source, needed=needed, delimiter=delimiter, encoding=encoding)
    if is_parquet(source):
        left_out = [name for name in other_columns(source) if name not in needed]
        notes = [f"Columns that are neither numbers nor text are left out: {', '.join(left_out)}."] if left_out else []
        return *_as_text(columns), columns, notes
    # The text itself, so that 007 stays 007; read by the same rules as the columns.
    codec = "utf-8-sig" if encoding.lower().replace("_", "-") in ("utf-8", "utf8") else encoding
    separator = delimiter or ("\t" if Path(source).suffix.lower() == ".tsv" else ",")
    with Path(source).open(encoding=codec, newline="") as text:
        lines = [row for row in csv.reader(text, delimiter=separator, skipinitialspace=True) if row]
    rows = [row for row in lines if len(columns) == 1 or len(row) > 1 or row[0].strip()]
    return [name.strip() for name in rows[0]], rows[1:], columns, []


def _as_text(columns: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    rows = zip(*(map(_text, list(values)) for values in columns.values()), strict=True)
    return list(columns), [list(row) for row in rows]


def _text(value: Any) -> str:
    from fairbound.data.labels import as_word

    return "" if value is None or value != value else as_word(value)


def _inputs(classifier: ConstrainedClassifier, columns: dict[str, Any], source: str) -> tuple[Any, list[str]]:
    """Return the table that the model needs, and notes on words that it has not seen."""
    from fairbound.cli.files import column
    from fairbound.cli.study import table_backend
    from fairbound.data.table import make_frame

    needed = [str(name) for name in classifier.feature_names_in_]
    chosen = {name: column(columns, name, "the model needs it", source) for name in needed}
    notes = []
    for learnt in classifier.encoder_.columns_:
        words = getattr(learnt, "words", None)
        if words is not None:
            strange = sorted({_text(value) for value in list(chosen[learnt.name])} - {*words, ""})
            if strange and not learnt.other:
                shown = ", ".join(map(repr, strange[:5])) + (", ..." if len(strange) > 5 else "")
                notes.append(f"Column {learnt.name!r} has values that training has not seen: {shown}.")
    return make_frame(chosen, table_backend()), notes


def _probabilities(classifier: ConstrainedClassifier, frame: Any) -> dict[str, list[str]]:
    found = classifier.predict_proba(frame)
    classes = classifier.classes_.tolist()
    wanted = [classifier.pos_label_] if classifier.pos_label_ is not None else classes
    return {
        f"probability of {_text(label)}": [repr(float(p)) for p in found[:, classes.index(label)]] for label in wanted
    }


def _write(file: Path, names: list[str], rows: list[list[str]], added: dict[str, list[str]]) -> None:
    if file.suffix.lower() == ".parquet":
        try:
            import pyarrow as pa
            from pyarrow import parquet
        except ImportError as error:
            raise ImportError('Writing Parquet files needs pyarrow: pip install "fairbound[data]".') from error
        from fairbound.data.delimited import infer

        texts = {**dict(zip(names, zip(*rows, strict=True), strict=True)), **added}
        parquet.write_table(
            pa.table({name: pa.array(infer(list(values)), from_pandas=True) for name, values in texts.items()}), file
        )
        return
    with file.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, delimiter="\t" if file.suffix.lower() == ".tsv" else ",")
        writer.writerow([*names, *added])
        writer.writerows([*row, *more] for row, more in zip(rows, zip(*added.values(), strict=True), strict=True))
