"""Open a path as a source of rows: Parquet files, or delimited text."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from fairbound._errors import InputTypeError
from fairbound._files import existing_file
from fairbound.data.batches import Batches
from fairbound.data.delimited import DelimitedText
from fairbound.data.parquet import ParquetFiles

MAGIC = b"PAR1"  # the first bytes of every Parquet file
NOT_TEXT = {
    b"PK\x03\x04": "a zip archive or an Excel workbook",
    b"\x1f\x8b": "compressed (gzip)",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook",
}
"""First bytes of files that are often mistaken for CSV files, and what they are."""


def open_batches(source: Any, *, delimiter: str | None = None, encoding: str = "utf-8") -> Batches:
    """Return the source of a path, or of a table in memory.

    Parameters
    ----------
    source : path, pyarrow table or Batches
        A Parquet file, a folder of Parquet files, a text file with a line of column names (CSV), or a table.
    delimiter : str, optional
        Delimiter of a text file; by default a tab for `.tsv`, else a comma.
    encoding : str
        Encoding of a text file.
    """
    if isinstance(source, Batches):
        return source
    if not isinstance(source, str | os.PathLike):
        raise InputTypeError("{path=value} must be the path of a file.", value=source)
    path = Path(source)
    if path.is_dir() and any(path.rglob("*.parquet")):
        return ParquetFiles.open(path)
    path = existing_file(path)
    with path.open("rb") as stream:
        start = stream.read(4)
    for beginning, what in NOT_TEXT.items():
        if start.startswith(beginning):
            raise ValueError(f"{path.name} is {what}; give a text file (CSV) or a Parquet file.")
    if start == MAGIC:
        return ParquetFiles.open(path)
    return DelimitedText.open(path, delimiter=delimiter, encoding=encoding)
