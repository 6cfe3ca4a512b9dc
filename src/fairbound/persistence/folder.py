"""A model on disk: a folder with `model.json` and `weights.safetensors`, and nothing that is ever executed.

Both are checksummed (SHA-256; the JSON carries that of the weights and its own), and the format has a version.  The
folder appears as a whole: it is written under another name beside its place, and renamed.  Whatever is wrong with what
is read is said in one sentence, by one exception.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import safetensors
import safetensors.torch
from torch import Tensor

FORMAT, VERSION = "fairbound-model", 1
DOCUMENT, WEIGHTS = "model.json", "weights.safetensors"
LARGEST_DOCUMENT = 2**28
"""Bytes; a model.json beyond this was not written by us."""


class ModelFileError(ValueError):
    """A model cannot be read: it is missing, foreign, damaged, or of a newer version."""


def write_folder(path: str | os.PathLike[str], model: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Write a model; an older model in that place is replaced, anything else is left alone."""
    target = Path(path)
    _check_place(target)
    weights = safetensors.torch.save({name: tensor.contiguous().clone() for name, tensor in tensors.items()})
    document = {
        "format": FORMAT,
        "version": VERSION,
        "weights": {"file": WEIGHTS, "sha256": hashlib.sha256(weights).hexdigest()},
        "model": model,
    }
    document["sha256"] = _checksum(document)
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(f".{target.name}.{secrets.token_hex(8)}.new")
    fresh.mkdir()
    try:
        _write(fresh / WEIGHTS, weights)
        _write(fresh / DOCUMENT, json.dumps(document, indent=1, allow_nan=False).encode())
        if target.exists():
            old = target.with_name(f".{target.name}.{secrets.token_hex(8)}.old")
            target.rename(old)
            fresh.rename(target)
            shutil.rmtree(old)
        else:
            fresh.rename(target)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def read_folder(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read a model's document and its tensors, verified."""
    folder = Path(path)
    if not folder.is_dir():
        what = "is not a folder" if folder.exists() else "does not exist"
        raise ModelFileError(f"{folder} {what}: give the folder that save() has written.")
    document = _parse(folder / DOCUMENT, _read(folder / DOCUMENT, LARGEST_DOCUMENT))
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ModelFileError(f"{folder / DOCUMENT} is not a model of fairbound: its format is not {FORMAT!r}.")
    version = document.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise damaged(folder / DOCUMENT, "it has no version")
    if version > VERSION:
        raise ModelFileError(
            f"{folder / DOCUMENT} has version {version} of the format, and this fairbound reads up to {VERSION}: "
            "update it with pip install --upgrade fairbound."
        )
    if document.pop("sha256", None) != _checksum(document):
        raise damaged(folder / DOCUMENT, "its checksum does not fit")
    stated, model = document.get("weights"), document.get("model")
    if not isinstance(stated, dict) or not isinstance(model, dict):
        raise damaged(folder / DOCUMENT, "it has no model")
    data = _read(folder / WEIGHTS)
    if hashlib.sha256(data).hexdigest() != stated.get("sha256"):
        raise damaged(folder / WEIGHTS, "its checksum is not the one in model.json")
    try:
        return model, safetensors.torch.load(data)
    except (safetensors.SafetensorError, KeyError, RuntimeError, ValueError) as error:
        raise damaged(folder / WEIGHTS, f"it cannot be read ({error})") from error


def damaged(path: Path, reason: str) -> ModelFileError:
    """Return the exception for a damaged file."""
    return ModelFileError(f"{path} is damaged: {reason}. Take another copy, or save the model again.")


def _check_place(target: Path) -> None:
    if not target.name:
        raise ValueError(f"{target} cannot be replaced by a model: name a folder that does not exist yet.")
    if not target.exists():
        return
    if not target.is_dir():
        raise ValueError(f"{target} is a file: a model is saved as a folder; give another name.")
    strangers = sorted(entry.name for entry in target.iterdir() if entry.name not in (DOCUMENT, WEIGHTS))
    if strangers:
        raise ValueError(
            f"{target} holds other files, such as {strangers[0]!r}: give a folder of its own to the model."
        )


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _read(path: Path, largest: int | None = None) -> bytes:
    try:
        if largest is not None and path.stat().st_size > largest:
            raise damaged(path, "it is far too large")
        return path.read_bytes()
    except OSError as error:
        raise ModelFileError(
            f"{path} cannot be read ({error.strerror}): give the folder that save() has written."
        ) from error


def _parse(path: Path, data: bytes) -> Any:
    def refuse(word: str) -> NoReturn:
        raise ValueError(f"{word} is no number of JSON")

    try:
        return json.loads(data.decode(), parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise damaged(path, f"it is not JSON ({error})") from error


def _checksum(document: Mapping[str, Any]) -> str:
    """SHA-256 of the document in one fixed form."""
    return hashlib.sha256(json.dumps(document, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
