"""Arrays in files that are mapped into memory, for rows that do not fit in it.

The files have no names.  Their space is free again when nothing refers to the arrays any more, or the process ends.
"""

from __future__ import annotations

import math
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

BLOCK = 2**16
"""Rows that are copied at once."""

DISK_RESERVE = 0.05
"""Share of the free disk that stays free."""


class MappedArray(np.memmap[Any, Any]):
    """An array in a file.  Its parts know the folder of the file, too."""

    folder: Path | None

    def __array_finalize__(self, obj: Any) -> None:
        super().__array_finalize__(obj)
        self.folder = getattr(obj, "folder", None)


def check_disk(size: int, folder: Path) -> None:
    """Raise an error if the disk of a folder has too little room for so many bytes."""
    free = shutil.disk_usage(folder).free
    if size > (1 - DISK_RESERVE) * free:
        raise OSError(
            f"The rows need {size / 1e6:,.0f} MB in {folder}, where {free / 1e6:,.0f} MB are free; write to a folder "
            "with more room (beside the output, or scratch= of Source)."
        )


def map_array(shape: tuple[int, ...], kind: DTypeLike, folder: Path) -> NDArray[Any]:
    """Return an array in a file without a name."""
    size = math.prod(shape) * np.dtype(kind).itemsize
    if not size:
        return np.empty(shape, kind)
    check_disk(size, folder)
    with tempfile.TemporaryFile(dir=folder) as file:
        file.truncate(size)
        return in_folder(np.memmap(file, kind, "r+", shape=shape), folder)


def in_folder(values: NDArray[Any], folder: Path) -> NDArray[Any]:
    """Return an array in a file of this folder."""
    found = values.view(MappedArray)
    found.folder = folder
    return found


def map_rows(values: NDArray[Any], rows: NDArray[Any], folder: Path | None = None) -> NDArray[Any]:
    """Return some rows of an array, by their numbers: in a file of the folder, by default where the array is.

    Rows of an array in memory, and Python objects, are in memory.
    """
    folder = getattr(values, "folder", None) if folder is None else folder
    if folder is None or values.dtype.kind == "O":
        return values[rows]
    found = map_array((len(rows), *values.shape[1:]), values.dtype, folder)
    for start in range(0, len(rows), BLOCK):
        found[start : start + BLOCK] = values[rows[start : start + BLOCK]]
    return found
