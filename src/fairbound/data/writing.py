"""Write rows with further columns to a new file, batch by batch.

text → text         the same values, in the encoding of the file
text → Parquet      every value as text, exactly as written: '00001', 'NA', ' x '
Parquet → Parquet   the same columns, types, nulls and metadata
Parquet → text      numbers with all digits needed to read them back exactly, nulls as empty fields
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairbound.data.arrow import import_pyarrow
from fairbound.data.batches import Batches
from fairbound.data.formats import ColumnFormat
from fairbound.data.labels import as_word

_RUN_BY_SPREADSHEETS = ("=", "+", "-", "@", "\t", "\r")
_NUMBERS = ColumnFormat("number")


class CopyWriter:
    """Writes batches with further columns; create it with `copy_writer`.

    Parameters
    ----------
    out : Path
        The file to create: a Parquet file if its name ends in ".parquet", else text.
    source : Batches
        Where the batches come from.
    exact : bool
        In a text file, a spreadsheet would run some texts of the new columns as formulas.  By default such a text gets
        an apostrophe in front; with `exact` it is written unchanged.
    """

    def __init__(self, out: Path, source: Batches, *, exact: bool = False) -> None:
        self.out, self.source, self.shown = out, source, str if exact else harmless
        self.to_parquet = out.suffix.lower() == ".parquet"
        self.file: Any = None
        self.stream: Any = None

    def write(self, table: Any, added: Mapping[str, NDArray[Any]]) -> None:
        """Write a batch of stored values with its further columns."""
        if self.to_parquet:
            pa = import_pyarrow("Writing Parquet files needs")
            for name, values in added.items():
                table = table.append_column(name, pa.array(values.tolist()))
            if self.file is None:
                from pyarrow.parquet import ParquetWriter

                self.stream = self.out.open("wb")  # pyarrow cannot open paths that are not UTF-8
                self.file = ParquetWriter(self.stream, table.schema)
            self.file.write_table(table)
            return
        if self.file is None:
            stream = self.stream = self.out.open("w", encoding=self.source.encoding, newline="")
            # With the line end "\r\n", a value with either character is put in quotes; lines end in "\n" all the same.
            lines = SimpleNamespace(write=lambda line: stream.write(line.removesuffix("\r\n") + "\n"))
            self.file = csv.writer(lines, delimiter=self._delimiter())
            self.file.writerow([*table.column_names, *map(self.shown, added)])
        columns = [*map(_texts, table.columns), *map(self._fields, added.values())]
        try:
            self.file.writerows(zip(*columns, strict=True))
        except UnicodeEncodeError as error:
            raise ValueError(
                f"The new columns have {error.object[error.start : error.end]!r}, which cannot be written in the "
                f"encoding of {self.source.place}, {self.source.encoding!r}; write a Parquet file."
            ) from error

    def close(self) -> None:
        """End the file."""
        if self.to_parquet and self.file is not None:
            self.file.close()
        if self.stream is not None:
            self.stream.close()

    def _delimiter(self) -> str:
        """Return the delimiter of the source, unless the file name extension of the output implies another."""
        if self.out.suffix.lower() == ".tsv":
            return "\t"
        return "," if self.source.delimiter == "\t" and self.out.suffix.lower() == ".csv" else self.source.delimiter

    def _fields(self, values: NDArray[Any]) -> list[str]:
        if values.dtype.kind == "f":
            return [repr(value) for value in values.tolist()]
        words = {value: self.shown(as_word(value)) for value in np.unique(values).tolist()}
        return [words[value] for value in values.tolist()]


@contextmanager
def copy_writer(out: Path, source: Batches, *, exact: bool = False) -> Iterator[CopyWriter]:
    """Open a writer, and close it at the end."""
    writer = CopyWriter(out, source, exact=exact)
    try:
        yield writer
    finally:
        writer.close()


def harmless(text: str) -> str:
    """Put an apostrophe in front of a text that a spreadsheet would run as a formula; return others unchanged.

    >>> harmless("=A1+1"), harmless("-1.5"), harmless("denied")
    ("'=A1+1", '-1.5', 'denied')
    """
    return f"'{text}" if text.startswith(_RUN_BY_SPREADSHEETS) and _NUMBERS.number(text) is None else text


def _texts(column: Any) -> list[str]:
    """Return the values of a pyarrow column as text from which they can be read back; nulls are empty."""
    types = import_pyarrow().types
    if types.is_temporal(column.type) and not types.is_duration(column.type):
        column = column.cast("string")  # Python's date types have no nanoseconds
    return ["" if value is None else value if type(value) is str else _text(value) for value in column.to_pylist()]


def _text(value: Any) -> str:
    if isinstance(value, float):
        return "NaN" if value != value else repr(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list | dict | tuple):
        return json.dumps(value, default=str, ensure_ascii=False)
    return str(value)
