"""A model on disk: a folder with `model.json` and `weights.safetensors`.  Nothing in it is ever executed.

Both are checksummed (SHA-256; the JSON carries that of the weights and its own), and the format has a version.  So a
half-replaced model is never taken for whole.  The folder may come from anyone, so every size in it is checked against
the actual bytes before memory is allocated.  Every problem raises `ModelFileError` with one sentence.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.torch
import torch
from torch import Tensor

from fairbound._files import (
    CONTENT,
    UnfitFileError,
    begins_with,
    draft_beside,
    parse_json,
    publish,
    read_bytes,
    resolved,
)
from fairbound._version import __version__

FORMAT, VERSION = "fairbound-model", 1
DOCUMENT, WEIGHTS = "model.json", "weights.safetensors"

LARGEST_DOCUMENT = 2**26
"""Bytes.  A column takes about 400, and a step of the history about 500.  So 100,000 columns and 10,000 steps fit."""
LARGEST_WEIGHTS = 2**31
"""Bytes: 268 million parameters."""
LARGEST_HEADER = 2**20
"""Bytes of the header of the weights: about 10,000 tensors."""

WAITS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.4)
"""Seconds to wait for another process that is replacing the model; moving its files takes a thousandth."""

_DTYPES = {
    "F64": 8,
    "F32": 4,
    "F16": 2,
    "BF16": 2,
    "I64": 8,
    "I32": 4,
    "I16": 2,
    "I8": 1,
    "U8": 1,
    "BOOL": 1,
}


class ModelFileError(ValueError):
    """A model cannot be read: it is missing, foreign, damaged, or of a newer version."""


class _HalfReplacedError(ModelFileError):
    """A file is missing, or does not belong to the other one; perhaps another process is replacing them."""


def write_folder(
    path: str | os.PathLike[str], model: Mapping[str, Any], tensors: Mapping[str, Tensor], *, overwrite: bool = False
) -> None:
    """Write a model.  An existing model is replaced; other files of the same names only with `overwrite`."""
    target = resolved(Path(path))
    _check_place(target, overwrite)
    weights = safetensors.torch.save({name: tensor.contiguous().clone() for name, tensor in tensors.items()})
    document = {
        "format": FORMAT,
        "version": VERSION,
        "written_by": _versions(),
        "weights": {"file": WEIGHTS, "sha256": hashlib.sha256(weights).hexdigest()},
        "model": model,
    }
    document["sha256"] = _checksum(document)
    written = json.dumps(document, indent=1, allow_nan=False).encode()
    for name, data, largest in ((DOCUMENT, written, LARGEST_DOCUMENT), (WEIGHTS, weights, LARGEST_WEIGHTS)):
        if len(data) > largest:
            raise ValueError(
                f"{name} of this model has {len(data):,} bytes, and load() reads at most {largest:,}: "
                "save a model with fewer columns or parameters."
            )
    with draft_beside(target) as draft:
        fresh = draft / CONTENT
        fresh.mkdir()
        (fresh / WEIGHTS).write_bytes(weights)
        (fresh / DOCUMENT).write_bytes(written)
        publish(fresh, target, replace=True, ours=(DOCUMENT, WEIGHTS))


def read_folder(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read and verify a model's document and its tensors.

    If the model is replaced meanwhile, it is read again.
    """
    folder = Path(path)
    if not folder.is_dir():
        what = "is not a folder" if folder.exists() else "does not exist"
        raise ModelFileError(f"{folder} {what}: give the folder that save() has written.")
    for wait in WAITS:
        try:
            return _read_files(folder)
        except _HalfReplacedError:
            time.sleep(wait)
    try:
        return _read_files(folder)
    except _HalfReplacedError as error:
        raise ModelFileError(str(error)) from error


def _read_files(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    document = _document(folder / DOCUMENT, _read(folder / DOCUMENT, LARGEST_DOCUMENT))
    stated, model = document.get("weights"), document.get("model")
    if not isinstance(stated, dict) or not isinstance(model, dict):
        raise damaged(folder / DOCUMENT, "it has no model")
    data = _read(folder / WEIGHTS, LARGEST_WEIGHTS)
    if hashlib.sha256(data).hexdigest() != stated.get("sha256"):
        raise _HalfReplacedError(str(damaged(folder / WEIGHTS, "its checksum is not the one in model.json")))
    return model, _tensors(folder / WEIGHTS, data)


def damaged(path: Path, reason: str) -> ModelFileError:
    """Return the exception for a damaged file; a long reason is shortened."""
    said = " ".join(reason.split())
    said = said if len(said) <= 300 else f"{said[:300]}..."
    return ModelFileError(f"{path} is damaged: {said}. Take another copy, or save the model again.")


def _document(path: Path, data: bytes) -> dict[str, Any]:
    try:
        document = parse_json(data)
    except UnfitFileError as error:
        raise damaged(path, str(error)) from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ModelFileError(f"{path} is not a model of fairbound: its format is not {FORMAT!r}.")
    version = document.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise damaged(path, "it has no version")
    if version > VERSION:
        raise ModelFileError(
            f"{path} has version {str(version)[:20]} of the format, and this fairbound reads up to {VERSION}: "
            "install a newer version of fairbound."
        )
    if document.pop("sha256", None) != _checksum(document):
        raise damaged(path, "its checksum does not fit")
    return document


def _tensors(path: Path, data: bytes) -> dict[str, Tensor]:
    """Return the tensors, after checking the header against the actual bytes."""
    try:
        _check_header(data)
        return safetensors.torch.load(data)
    except (safetensors.SafetensorError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise damaged(path, f"it cannot be read ({error})") from error


def _check_header(data: bytes) -> None:
    """Check that the tensors of a safetensors file lie one after the other and fill it exactly."""
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 or size > min(LARGEST_HEADER, len(data) - 8):
        raise ValueError(f"its header claims {size:,} bytes")
    header = parse_json(data[8 : 8 + size].strip())
    if not isinstance(header, dict):
        raise ValueError("its header is not an object")
    header.pop("__metadata__", None)
    spans = []
    for name, entry in header.items():
        shape, (start, end) = entry["shape"], entry["data_offsets"]
        if not all(type(number) is int and 0 <= number <= len(data) for number in (*shape, start, end)):
            raise ValueError(f"tensor {name!r} claims the shape {shape!r}")
        count = 1
        for length in shape:  # not math.prod, whose result may have millions of digits
            count = min(count * length, len(data) + 1)
        if _DTYPES[entry["dtype"]] * count != end - start:
            raise ValueError(f"tensor {name!r} of shape {shape!r} does not fill its bytes")
        spans.append((start, end))
    spans.sort()
    ends = [0, *(end for _, end in spans)]
    if [start for start, _ in spans] != ends[:-1] or ends[-1] != len(data) - 8 - size:
        raise ValueError("its tensors do not fill the file")


def _check_place(target: Path, overwrite: bool) -> None:
    if not target.name:
        raise ValueError(f"{target} is no place for a model: name a folder that does not exist yet.")
    if overwrite or not target.exists():
        return
    if not target.is_dir():
        raise FileExistsError(
            f"{target} is a file, and a model is saved as a folder: give another name, or overwrite=True."
        )
    taken = [name for name in (DOCUMENT, WEIGHTS) if (target / name).exists()]
    if taken and not begins_with(target / DOCUMENT, json.dumps(FORMAT).encode()):
        raise FileExistsError(
            f"{target} holds a file {taken[0]!r} that is not of a model of fairbound: give another folder, or "
            "overwrite=True to replace it."
        )


def _versions() -> dict[str, str]:
    return {"fairbound": __version__, "torch": str(torch.__version__), "numpy": np.__version__}


def _read(path: Path, largest: int) -> bytes:
    try:
        return read_bytes(path, largest)
    except FileNotFoundError as error:
        raise _HalfReplacedError(str(_unreadable(path, error))) from error
    except OSError as error:
        raise _unreadable(path, error) from error
    except UnfitFileError as error:
        raise damaged(path, str(error)) from error


def _unreadable(path: Path, error: OSError) -> ModelFileError:
    inner = path.parent / "model"  # a run of the command line has its model there
    found = f"give {inner}" if (inner / DOCUMENT).is_file() else "give the folder that save() has written"
    return ModelFileError(f"{path} cannot be read ({error.strerror}): {found}.")


def _checksum(document: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the document in a canonical form."""
    return hashlib.sha256(json.dumps(document, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
