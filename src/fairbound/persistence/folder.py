"""A model on disk: a folder with one file `model.json`, which holds the weights, too.  Nothing in it is ever executed.

    format, version, written_by
    sha256      of the model and of the data
    model       the parts of the classifier, the types of which `state` has
    data        the arrays, one after the other, in base64; `model` says their types and shapes

The file may come from anyone: its size is checked before it is read, the model and the data are parsed as the types
that they must have, and an array takes no more than its bytes.  Trees are checked before their library follows them.
Every problem raises `ModelFileError` in one sentence.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta, Raw, Struct

from fairbound._files import as_utf8, begins_with, read_bytes, resolved, write_file
from fairbound._json import decode
from fairbound._version import __version__

FORMAT, VERSION = "fairbound-model", 1
DOCUMENT = "model.json"

LARGEST_FILE = 2**31
"""Bytes: 200 million parameters."""
LARGEST_MODEL = 2**26
"""Bytes without the data.  A column takes about 400, and a step of the history about 500."""


class ModelFileError(ValueError):
    """A model cannot be read: it is missing, foreign, damaged, or of a newer version."""


class StoredArray(Struct):
    """The type and shape of an array; its values are the next bytes of the data."""

    name: str
    dtype: Annotated[str, Meta(pattern=r"^([<|][fiu][1248]|\|b1)\Z")]
    shape: Annotated[tuple[Annotated[int, Meta(ge=0, lt=2**31)], ...], Meta(max_length=8)]


class _Header(Struct):
    format: str = ""
    version: Any = None


class _Document(Struct, forbid_unknown_fields=True):
    format: str
    version: int
    written_by: dict[str, str]
    sha256: str
    model: Raw
    data: bytes


def store(arrays: Mapping[str, np.ndarray]) -> tuple[list[StoredArray], bytes]:
    """Return the types and shapes of arrays, and their bytes."""
    little = {name: array.astype(array.dtype.newbyteorder("<"), order="C") for name, array in arrays.items()}
    stored = [StoredArray(name, array.dtype.str, array.shape) for name, array in little.items()]
    return stored, b"".join(array.tobytes() for array in little.values())


def restore(stored: Sequence[StoredArray], data: bytes) -> dict[str, np.ndarray]:
    """Return the arrays, which cannot be written to."""
    found, place = {}, 0
    for each in stored:
        found[each.name] = np.frombuffer(data, each.dtype, math.prod(each.shape), place).reshape(each.shape)
        place += found[each.name].nbytes
    return found


def write_folder(path: str | os.PathLike[str], model: bytes, data: bytes, *, overwrite: bool = False) -> None:
    """Write a model.  An existing model is replaced; another file of the same name only with `overwrite`."""
    target = resolved(Path(path))
    if not target.name:
        raise ValueError(f"{target} is no place for a model: name a folder that does not exist yet.")
    _check_place(target, overwrite)
    document = _Document(
        FORMAT, VERSION, {"fairbound": __version__, "numpy": np.__version__}, _checksum(model, data), Raw(model), data
    )
    written = msgspec.json.encode(document) + b"\n"
    if len(written) > LARGEST_FILE or len(model) > LARGEST_MODEL:
        raise ValueError(
            f"This model has {len(written):,} bytes, {len(model):,} without its weights, and load() reads at most "
            f"{LARGEST_FILE:,} and {LARGEST_MODEL:,}: save a model with fewer columns or parameters."
        )
    if target.is_file():
        target.unlink()
    write_file(target / DOCUMENT, written)


def read_folder(path: str | os.PathLike[str]) -> tuple[Raw, bytes]:
    """Return the model as JSON, and the data, after checking their checksum."""
    folder = Path(path)
    if not folder.is_dir():
        what = "is not a folder" if folder.exists() else "does not exist"
        raise ModelFileError(f"{folder} {what}: give the folder that save() has written.")
    file = folder / DOCUMENT
    try:
        text = read_bytes(file, LARGEST_FILE)
        header = decode(text, _Header)
        if header.format != FORMAT:
            raise ModelFileError(f"{file} is not a model of fairbound: its format is not {FORMAT!r}.")
        if isinstance(header.version, int) and header.version > VERSION:
            raise ModelFileError(
                f"{file} has version {header.version!r:.20} of the format, and this fairbound reads up to {VERSION}: "
                "install a newer version of fairbound."
            )
        document = decode(text, _Document)
        if document.sha256 != _checksum(document.model, document.data):
            raise ValueError("its checksum does not fit")
        require(memoryview(document.model).nbytes <= LARGEST_MODEL, f"its model has more than {LARGEST_MODEL:,} bytes")
    except OSError as error:
        inner = folder / "model"  # a run of the command line has its model there
        found = f"give {inner}" if (inner / DOCUMENT).is_file() else "give the folder that save() has written"
        raise ModelFileError(f"{file} cannot be read ({error.strerror}): {found}.") from error
    except ModelFileError:
        raise
    except ValueError as error:
        raise damaged(file, str(error)) from error
    return document.model, document.data


def require(holds: bool, what: str) -> None:
    """Raise ValueError unless a condition on a file holds."""
    if not holds:
        raise ValueError(what)


def damaged(path: Path, reason: str) -> ModelFileError:
    """Return the exception for a damaged file; a long reason is shortened."""
    said = " ".join(as_utf8(reason).decode().split())  # a forged text may have half characters
    said = said if len(said) <= 300 else f"{said[:300]}..."
    return ModelFileError(f"{path} is damaged: {said.rstrip('.')}. Take another copy, or save the model again.")


def _check_place(target: Path, overwrite: bool) -> None:
    if overwrite or not target.exists():
        return
    if not target.is_dir():
        raise FileExistsError(
            f"{target} is a file, and a model is saved as a folder: give another name, or overwrite=True."
        )
    if (target / DOCUMENT).exists() and not begins_with(target / DOCUMENT, json.dumps(FORMAT).encode()):
        raise FileExistsError(
            f"{target} holds a file {DOCUMENT!r} that is not of a model of fairbound: give another folder, or "
            "overwrite=True to replace it."
        )


def _checksum(model: bytes | Raw, data: bytes) -> str:
    return hashlib.sha256(bytes(memoryview(model)) + data).hexdigest()
