"""Write copies of a user's file: with more columns, or as typed columns that can be streamed.

`append_columns` does not change the other columns:

    text → text         the same bytes, with more fields at the end of each record
    text → Parquet      every value as text, exactly as written: '00001', 'NA', ' x '
    Parquet → Parquet   the same columns, types, nulls and metadata
    Parquet → text      numbers with all digits needed to read them back exactly, nulls as empty fields

`typed_copy` makes a Parquet file of a large CSV file, with the types that `TableFile.learn` would find.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairbound._errors import missing_extra
from fairbound.data import streams
from fairbound.data.delimited import Record, decoded, exact_fields, find_encoding, read_records
from fairbound.data.formats import MISSING, ColumnFormat, FormatLearner
from fairbound.data.labels import as_word
from fairbound.data.streams import Progress, TableStream
from fairbound.data.tablefile import EXACT_DIGITS, TableFile

Added = Mapping[str, NDArray[Any]]

_RUN_BY_SPREADSHEETS = ("=", "+", "-", "@", "\t", "\r")
_NUMBERS = ColumnFormat("number")


def append_columns(source: TableFile, out: Path, added: Added, *, exact: bool = False) -> None:
    """Write a copy of a file with more columns: a Parquet file if `out` ends in ".parquet", else text.

    Parameters
    ----------
    source : TableFile
    out : Path
        The file to create.
    added : mapping of str to array of shape (n,)
        The new columns: numbers or text.
    exact : bool
        In a text file, a spreadsheet would run some texts of the new columns as formulas.  By default such a text gets
        an apostrophe in front; with `exact` it is written unchanged.
    """
    taken = [name for name in added if name in source.names]
    if taken:
        raise ValueError(f"{source.place} has a column {taken[0]!r} already; give the new one another name.")
    to_parquet = out.suffix.lower() == ".parquet"
    if source.is_parquet:
        table = source.arrow
        if to_parquet:
            _write_parquet(out, table, added)
        else:
            columns = [_texts(table.column(name)) for name in table.column_names]
            _write_text(out, table.column_names, zip(*columns, strict=True), added, exact)
    elif to_parquet:
        with source.path.open("rb") as stream, decoded(stream, source.encoding, source.place) as text:
            records = read_records(text, place=source.place, delimiter=source.delimiter)
            rows = [exact_fields(Record(*each), source.delimiter) for each in records if each[1] == "row"]
        _write_parquet(out, _arrow_of_texts(source.names, rows), added)
    else:
        extend_text(source, out, new_fields(added, exact))


def write_columns(columns: Mapping[str, Any], out: Path, added: Added, *, exact: bool = False) -> None:
    """Write `columns` and `added` as a new file."""
    if out.suffix.lower() == ".parquet":
        pa = _pyarrow()
        _write_parquet(out, pa.table({name: pa.array(list(values)) for name, values in columns.items()}), added)
        return
    texts = [["" if value is None or value != value else as_word(value) for value in each] for each in columns.values()]
    _write_text(out, list(columns), zip(*texts, strict=True), added, exact)


def harmless(text: str) -> str:
    """Put an apostrophe in front of a text that a spreadsheet would run as a formula; return others unchanged.

    >>> harmless("=A1+1"), harmless("-1.5"), harmless("denied")
    ("'=A1+1", '-1.5', 'denied')
    """
    return f"'{text}" if text.startswith(_RUN_BY_SPREADSHEETS) and _NUMBERS.number(text) is None else text


def extend_text(source: TableFile, out: Path, further: Iterator[Sequence[str]]) -> None:
    """Write the records of a text file with more fields, in the encoding and with the line ends of that file.

    `further` yields the new fields of each line, first the names.
    """
    delimiter = _delimiter(source, out)
    with source.path.open("rb") as stream, out.open("wb") as target:
        codec, mark = find_encoding(stream, source.encoding, source.place)
        target.write(mark)
        stream.seek(0)
        written = io.TextIOWrapper(target, encoding=codec, newline="")
        with decoded(stream, source.encoding, source.place) as text:
            for record in map(Record._make, read_records(text, place=source.place, delimiter=source.delimiter)):
                if not record.kind:
                    written.write(record.raw)
                    continue
                line = record.raw.rstrip("\r\n")
                end = record.raw[len(line) :]
                if delimiter != source.delimiter:
                    line = _join_fields(exact_fields(record, source.delimiter), delimiter)
                try:
                    written.write(f"{line}{delimiter}{_join_fields(next(further), delimiter)}{end}")
                except UnicodeEncodeError as error:
                    raise ValueError(
                        f"The new columns have {error.object[error.start : error.end]!r}, which cannot be written in "
                        f"the encoding of {source.place}, {source.encoding!r}; write a Parquet file."
                    ) from error
        written.close()


def _write_text(out: Path, names: Sequence[str], rows: Iterable[Sequence[str]], added: Added, exact: bool) -> None:
    with out.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, delimiter="\t" if out.suffix.lower() == ".tsv" else ",")
        lines = itertools.chain([names], rows)
        writer.writerows([*line, *more] for line, more in zip(lines, new_fields(added, exact), strict=True))


def _write_parquet(out: Path, table: Any, added: Added) -> None:
    pa = _pyarrow()
    from pyarrow import parquet

    for name, values in added.items():
        table = table.append_column(name, pa.array(values.tolist()))
    with Path(out).open("wb") as written:  # pyarrow cannot open paths that are not UTF-8
        parquet.write_table(table, written)


def _arrow_of_texts(names: Sequence[str], rows: Sequence[Sequence[str]]) -> Any:
    pa = _pyarrow()
    columns = zip(*rows, strict=True)
    return pa.table({name: pa.array(values, pa.string()) for name, values in zip(names, columns, strict=True)})


def new_fields(added: Added, exact: bool) -> Iterator[Sequence[str]]:
    """Yield the new fields of each line, first the names."""
    shown = str if exact else harmless
    yield [shown(name) for name in added]
    columns = []
    for values in added.values():
        if values.dtype.kind == "f":
            columns.append([repr(value) for value in values.tolist()])
        else:
            words = {value: shown(as_word(value)) for value in set(values.tolist())}
            columns.append([words[value] for value in values.tolist()])
    yield from zip(*columns, strict=True)


def _join_fields(fields: Sequence[str], delimiter: str) -> str:
    """Return fields as one record without a line end, with quotes where needed."""
    return delimiter.join(
        f'"{field.replace(chr(34), chr(34) * 2)}"'
        if field.startswith(" ") or any(each in field for each in (delimiter, '"', "\r", "\n"))
        else field
        for field in fields
    )


def _delimiter(source: TableFile, out: Path) -> str:
    """Return the delimiter of the source, unless the file name extension of the output implies another."""
    if out.suffix.lower() == ".tsv":
        return "\t"
    return "," if source.path.suffix.lower() == ".tsv" and out.suffix.lower() == ".csv" else source.delimiter


def _texts(column: Any) -> list[str]:
    """Return the values of a pyarrow column as text from which they can be read back; nulls are empty."""
    types = _pyarrow().types
    if types.is_temporal(column.type) and not types.is_duration(column.type):
        column = column.cast("string")  # Python's date types have no nanoseconds
    return ["" if value is None else _text(value) for value in column.to_pylist()]


def _text(value: Any) -> str:
    if isinstance(value, float):
        return "NaN" if value != value else repr(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list | dict | tuple):
        return json.dumps(value, default=str, ensure_ascii=False)
    return str(value)


def _pyarrow() -> Any:
    try:
        import pyarrow as pa
    except ImportError as error:
        raise missing_extra("Writing Parquet files needs", "pyarrow", "data") from error
    return pa


# --- typed copies of large files -------------------------------------------------------------------------------------

# The text is parsed once, and written as columns of text, while the format of each column is learnt.  Then each
# distinct value of a block is read with the format of its column.


def typed_copy(
    file: TableFile,
    folder: Path,
    *,
    words: Collection[str] = (),
    ignore: Collection[str] = (),
    missing: Collection[str] = MISSING,
    decimal: str | None = None,
    formats: Mapping[str, ColumnFormat] | None = None,
    progress: Progress | None = None,
) -> TableStream:
    """Copy a text file to a Parquet file in a folder, with the types that `TableFile.learn` would find.

    Parameters
    ----------
    file : TableFile
        A text file.
    folder : Path
        An empty folder.
    words, ignore, missing, decimal, formats
        As for `TableFile.learn`.
    progress : function of int, optional
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise missing_extra("Reading large CSV files needs", "pyarrow", "data") from error
    names = [name for name in file.names if name not in ignore]
    known = {} if formats is None else formats
    learners = {
        name: FormatLearner(missing, plain=name in words, decimal=None if name in words else decimal) for name in names
    }
    longest = dict.fromkeys(names, 0)
    texts, typed = folder / "texts.parquet", folder / "typed.parquet"
    with pq.ParquetWriter(texts, pa.schema([(name, pa.string()) for name in names])) as writer:
        for table in text_blocks(file, names):
            writer.write_table(table)
            for name in names:
                values = table.column(name).unique().to_pylist()
                learners[name].add(values)
                longest[name] = max(longest[name], *(len(value.strip()) for value in values))
            if progress is not None:
                progress(table.num_rows)
    copied = TableStream((texts,), {name: ColumnFormat() for name in names}, file.place)
    again = [name for name in names if learners[name].undecided and name not in known]
    for table in copied.batches(again) if again else ():
        for name in again:
            learners[name].add_again(table.column(name).unique().to_pylist())
    found = {}
    for name, learner in learners.items():
        form = known.get(name, learner.result())
        if name in words and name not in known and (form.padded or longest[name] > EXACT_DIGITS):
            form = replace(form, kind="text")
        found[name] = form
    kinds = {
        name: pa.string()
        if form.kind == "text"
        else pa.int64()
        if learners[name].is_plain and learners[name].is_whole and not learners[name].gaps
        else pa.float64()
        for name, form in found.items()
    }
    with pq.ParquetWriter(typed, pa.schema(list(kinds.items()))) as writer:
        for table in copied.batches(names):
            columns = [_typed(table.column(name), kinds[name], found[name], name) for name in names]
            writer.write_table(pa.table(columns, names=names))
    texts.unlink()
    return TableStream((typed,), found, file.place, tuple(ignore), is_copy=True)


def text_blocks(file: TableFile, names: Sequence[str]) -> Iterator[Any]:
    """Yield the rows of a text file as pyarrow tables of text."""
    import pyarrow as pa

    places = [file.names.index(name) for name in names]
    with file.path.open("rb") as stream, decoded(stream, file.encoding, file.place) as text:
        records = read_records(text, place=file.place, delimiter=file.delimiter, raw=False)
        rows = (fields for _, kind, fields, _ in records if kind == "row")
        while block := list(islice(rows, streams.BLOCK_ROWS)):
            columns = list(zip(*block, strict=True))
            yield pa.table([pa.array(columns[place], pa.string()) for place in places], names=list(names))


def _typed(column: Any, kind: Any, form: ColumnFormat, name: str) -> Any:
    """Return a column of text in another type; each distinct value is read once."""
    import pyarrow as pa

    coded = column.combine_chunks().dictionary_encode()
    coded = coded.combine_chunks() if isinstance(coded, pa.ChunkedArray) else coded
    values = form.read(coded.dictionary.to_pylist(), name)
    if kind == pa.string():
        distinct = pa.array([None if value is None else str(value) for value in values.tolist()], kind)
    else:
        distinct = pa.array(values.astype(np.int64 if kind == pa.int64() else np.float64), kind)
    return distinct.take(coded.indices)
