"""`Source`: rows that `fit` and `read_table` read, where they are and how their columns are read."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairbound._errors import InputTypeError, argument, bad_value
from fairbound._files import existing_file
from fairbound.data.batches import Batches
from fairbound.data.delimited import DelimitedText
from fairbound.data.formats import MISSING
from fairbound.data.parquet import ParquetFiles
from fairbound.data.streams import is_stream, is_table, open_stream, open_table
from fairbound.data.workbook import SUFFIXES, open_workbook

Tell = Callable[[str, int, int], None]
"""Called with the name of a pass, the number of rows read so far, and the number of all rows."""

PARQUET = b"PAR1"
"""The first bytes of every Parquet file."""

NOT_TEXT = {
    b"PK\x03\x04": "a zip archive or an Excel workbook",
    b"\x1f\x8b": "compressed (gzip)",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook",
}
"""First bytes of files that are often mistaken for CSV files, and what they are."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Source:
    r"""Rows, and how they are read: for `ConstrainedClassifier.fit(source, "label", sensitive_features="sex")`.

    Parameters
    ----------
    data : path, table, or stream
        A CSV file, a Parquet file, a folder of Parquet files, or an Excel workbook; a table of pandas, polars or
        pyarrow; a lazy frame of Polars, or any object with `__arrow_c_stream__`, such as a DuckDB relation.
    positive : object or sequence of objects, optional
        The favourable values of the label, which become 1; all other values become 0. It can be omitted for common
        pairs (0 and 1, -1 and 1, false and true, no and yes, n and y, negative and positive), and for a label of three
        or more values, which keeps all its classes.
    negative : object or sequence of objects, optional
        All other values of the label. If given, a value that is in neither `positive` nor `negative` is an error.
    bands : mapping of str to sequence of float, optional
        Cuts of sensitive columns of numbers: `{"age": [25, 40]}` makes the groups "below 25", "25 to below 40" and "40
        and above" (see `into_bands`).
    categorical : str or sequence of str
        Columns of numbers that are codes of categories.
    dates : str or sequence of str
        Columns of dates in text, which become numbers: days since 1970-01-01.
    inputs : str or sequence of str
        The inputs, if not all other columns are.
    ignore : str or sequence of str
        Columns to leave out, such as identifiers; each must exist.
    drop_unlabelled : bool
        Whether to drop the rows without a label; by default they are an error.
    missing : collection of str
        Texts that mean a missing value in a text file. In columns of numbers, common words such as "n/a" also do.
    decimal : {".", ","}, optional
        The decimal mark of numbers in a text file; by default it is inferred for each column (see `Dataset.taken`).
    delimiter : str, optional
        Delimiter of a text file; by default the one of comma, semicolon, tab and | that makes most columns of the first
        line.
    encoding : str
        Encoding of a text file.
    scratch : path, optional
        The folder for files of rows that do not fit in memory; by default the system's folder for temporary files.
        They take 8 bytes for each value of each row, three times, and are gone when nothing needs them any more.
    memory : float, optional
        Bytes of memory that the rows may take; by default half of all memory.
    """

    data: Any = field(kw_only=False)
    positive: Any = None
    negative: Any = None
    bands: Mapping[str, Sequence[float]] | None = None
    categorical: str | Sequence[str] = ()
    dates: str | Sequence[str] = ()
    inputs: str | Sequence[str] = ()
    ignore: str | Sequence[str] = ()
    drop_unlabelled: bool = False
    missing: Collection[str] = MISSING
    decimal: str | None = None
    delimiter: str | None = None
    encoding: str = "utf-8"
    scratch: str | os.PathLike[str] | None = None
    memory: float | None = None

    def __post_init__(self) -> None:
        for name in ("categorical", "dates", "inputs", "ignore", "missing"):
            object.__setattr__(self, name, as_names(getattr(self, name), name))
        if self.decimal not in (None, ".", ","):
            raise bad_value("decimal", self.decimal, "'.' or ','", "Leave it out to detect the decimal mark.")

    @classmethod
    def of(cls, given: Any, y: Any = None) -> Source | None:
        """Return the source that is given as X; None for an array, and for a table unless y names a column of it."""
        if isinstance(given, Source):
            return given
        if isinstance(given, str | os.PathLike) or is_stream(given):
            return cls(given)
        return cls(given) if isinstance(y, str) and is_table(given) else None

    @property
    def folder(self) -> Path:
        """Return where the files of the rows are made."""
        return Path(tempfile.gettempdir() if self.scratch is None else self.scratch)

    @property
    def budget(self) -> float:
        """Return the bytes of memory that the rows may take."""
        return memory_of_machine() / 2 if self.memory is None else self.memory

    def open(self) -> Batches:
        """Open the rows."""
        if is_table(self.data):
            return open_table(self.data)
        if is_stream(self.data):
            return open_stream(self.data, self.folder)
        return open_batches(self.data, delimiter=self.delimiter, encoding=self.encoding)


def open_batches(source: str | os.PathLike[str], *, delimiter: str | None = None, encoding: str = "utf-8") -> Batches:
    """Open a path; the other parameters are those of `Source`."""
    if not isinstance(source, str | os.PathLike):
        raise InputTypeError("{path=value} must be the path of a file, a table or an Arrow stream.", value=source)
    path = Path(source)
    if path.is_dir() and any(path.rglob("*.parquet")):
        return ParquetFiles.open(path)
    path = existing_file(path)
    with path.open("rb") as stream:
        start = stream.read(4)
    if start == PARQUET:
        return ParquetFiles.open(path)
    if path.suffix.lower() in SUFFIXES:
        return open_workbook(path)
    for beginning, what in NOT_TEXT.items():
        if start.startswith(beginning):
            raise ValueError(
                f"{path.name} is {what}; give a text file (CSV), a Parquet file, or a workbook named .xlsx."
            )
    return DelimitedText.open(path, delimiter=delimiter, encoding=encoding)


def as_names(given: Any, name: str) -> tuple[str, ...]:
    """Return one or several names."""
    listed = [given] if isinstance(given, str) else given
    if not isinstance(listed, Collection) or not all(isinstance(each, str) for each in listed):
        raise InputTypeError("{argument} must be a string, or a list of strings.", argument=argument(name, given))
    return tuple(listed)


def memory_of_machine() -> float:
    """Return the bytes of memory of this machine, infinite if they are not known."""
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")) if hasattr(os, "sysconf") else math.inf
