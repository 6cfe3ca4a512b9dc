"""Find the file of a data set, read it, and check that it is the one that we know (SHA-256).

A file is either shipped with the package or looked for in a folder: the argument `data_dir`, else the environment
variable FAIRBOUND_DATA, which is read at the time of the call.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import os
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

DATA_FOLDER_VARIABLE = "FAIRBOUND_DATA"
Table = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class DataFile:
    """A file known by its content.

    Parameters
    ----------
    filename : str
        Name in the data folder; its ending says the format (`.csv` or `.parquet`).
    sha256 : str
        Checksum of the content (of the uncompressed content, for a shipped file).
    origin : str
        Where to get it, for the message when it is missing.
    shipped : bool
        Whether the package contains it, compressed, as `shipped/<filename>.gz`.
    """

    filename: str
    sha256: str
    origin: str
    shipped: bool = False


def read_table(file: DataFile, data_dir: str | os.PathLike[str] | None = None) -> Table:
    """Return the columns of a verified file: float64 where every entry is a number, text otherwise."""
    if file.shipped:
        packed = resources.files(__package__).joinpath("shipped", f"{file.filename}.gz").read_bytes()
        place, content = f"{file.filename} in this installation", gzip.decompress(packed)
    else:
        path = locate(file, data_dir)
        place, content = str(path), path.read_bytes()
    verify(content, file, place)
    return _read_parquet(content) if file.filename.endswith(".parquet") else _read_csv(content)


def locate(file: DataFile, data_dir: str | os.PathLike[str] | None = None) -> Path:
    """Return the path of a file that is not shipped, or say which file to put where."""
    folder = data_dir if data_dir is not None else os.environ.get(DATA_FOLDER_VARIABLE)
    what = f"{file.filename} is not part of the package (origin: {file.origin})"
    if not folder:
        raise FileNotFoundError(
            f"{what}; put it in a folder and name that folder with data_dir= or the environment variable "
            f"{DATA_FOLDER_VARIABLE}."
        )
    path = Path(folder) / file.filename
    if not path.is_file():
        raise FileNotFoundError(f"{what}; put it at {path}, or name the folder that has it with data_dir=.")
    return path


def verify(content: bytes, file: DataFile, place: str) -> None:
    """Raise when the content is not the one whose checksum we know."""
    found = hashlib.sha256(content).hexdigest()
    if found != file.sha256:
        raise ValueError(
            f"{place} has the SHA-256 checksum {found}, but the known file has {file.sha256}; "
            f"it is damaged or another version: get it again from its origin ({file.origin})."
        )


def _read_csv(content: bytes) -> Table:
    header, *rows = csv.reader(io.StringIO(content.decode("utf-8"), newline=""))
    return {
        name: _numbers_if_possible(np.array(column))
        for name, column in zip(header, zip(*rows, strict=True), strict=True)
    }


def _read_parquet(content: bytes) -> Table:
    try:
        import pyarrow.parquet  # an extra, and needed for this format only
    except ImportError as error:
        raise ImportError('Reading Parquet files needs pyarrow: pip install "fairbound[data]".') from error
    table = pyarrow.parquet.read_table(io.BytesIO(content))
    return {name: _numbers_if_possible(table.column(name).to_numpy()) for name in table.column_names}


def _numbers_if_possible(column: NDArray[Any]) -> NDArray[Any]:
    try:
        return column.astype(np.float64)
    except ValueError:
        return column
