"""Files that are read: that they are there, their columns, and the nearest name where one is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fairbound._words import did_you_mean

if TYPE_CHECKING:
    from fairbound.data import TableFile


def open_table(path: str, *, delimiter: str | None = None, encoding: str = "utf-8") -> TableFile:
    """Look at a CSV or Parquet file."""
    from fairbound.data import TableFile

    return TableFile.open(existing_file(path), delimiter=delimiter, encoding=encoding)


def existing_file(path: str) -> Path:
    """Return the path of a file, or say that there is none."""
    file = Path(path)
    if file.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the path of a file.")
    if not file.is_file():
        near = did_you_mean(file.name, [each.name for each in file.parent.iterdir()]) if file.parent.is_dir() else ""
        raise FileNotFoundError(f"There is no file {path}.{near}")
    return file


def check_source(source: str) -> None:
    """Refuse a file that is not there, before anything is imported to read it; a bare word may name a data set."""
    path = Path(source)
    if path.is_dir():  # a run may have been written to a folder of the same name
        from fairbound.data import DATASETS

        if source in DATASETS:
            return
    if path.exists() or path.suffix or len(path.parts) > 1:
        existing_file(source)
