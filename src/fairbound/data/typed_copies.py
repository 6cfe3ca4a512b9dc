"""A typed copy of a large CSV file: a Parquet file with the types that `TableFile.learn` would find.

The text is parsed once, and written as columns of text, while the format of each column is learnt.  Then each distinct
value of a block is read with the format of its column.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from fairbound._errors import missing_extra
from fairbound.data import streams
from fairbound.data.delimited import decoded, read_records
from fairbound.data.formats import MISSING, ColumnFormat, FormatLearner
from fairbound.data.streams import Progress, TableStream
from fairbound.data.tablefile import EXACT_DIGITS, TableFile


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
    return TableStream((typed,), found, file.place, tuple(ignore))


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
