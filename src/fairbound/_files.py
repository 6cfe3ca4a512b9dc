"""Read untrusted files: regular files only, of bounded size, and JSON of bounded memory.

A few bytes of JSON can take much memory: an empty list has 2 bytes in a file and 56 in Python.  So the number of values
is counted before the text is parsed, and a file with too many values for its size is rejected.
"""

from __future__ import annotations

import json
import os
import re
import stat
from pathlib import Path
from typing import Any, NoReturn

BYTES_PER_VALUE = 4
"""Least number of bytes per value; JSON that we write has more, because of names, digits and spaces."""
SPARE_VALUES = 1000
DEEPEST = 20
"""Largest depth of nested lists and objects; our files have about ten levels."""

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_BRACKET = re.compile(rb"[\[\]{}]")


class UnfitFileError(ValueError):
    """A file is of the wrong kind, too large, or not valid JSON in our sense; the message says which."""


def read_bytes(path: str | os.PathLike[str], largest: int, *, folder: int | None = None) -> bytes:
    """Return the content of a regular file of at most `largest` bytes; links are followed.

    Parameters
    ----------
    path : path
    largest : int
        Largest size in bytes; it is checked before anything is read.
    folder : int, optional
        Descriptor of an open folder, to which a relative path refers.

    Raises
    ------
    UnfitFileError
        For a pipe, a device, a socket or a folder (without waiting for it), and for a file that is too large.
    OSError
        If the file cannot be opened or read.
    """
    _check_kind(os.stat(path, dir_fd=folder))  # before opening, because opening a device may have effects
    # The file may have been replaced since; O_NONBLOCK keeps a pipe from blocking us.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    with open(os.open(path, flags, dir_fd=folder), "rb") as file:
        found = os.fstat(file.fileno())
        _check_kind(found)
        if found.st_size > largest:
            raise UnfitFileError(f"it has {found.st_size:,} bytes, and at most {largest:,} are read")
        content = file.read(largest + 1)  # not more, in case the file grows meanwhile
    if len(content) > largest:
        raise UnfitFileError(f"it has more than {largest:,} bytes")
    return content


def _check_kind(found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        kind = next((name for test, name in _KINDS if test(found.st_mode)), "something else")
        raise UnfitFileError(f"it is {kind} and not a regular file")


def parse_json(data: bytes) -> Any:
    """Parse JSON with memory bounded by a small multiple of its size.

    Stricter than `json.loads`: no NaN, no repeated names in an object, no deep nesting.

    >>> parse_json(b'{"a": [1, 2.5, null]}')
    {'a': [1, 2.5, None]}
    >>> parse_json(b"[" + b"[]," * 10_000 + b"[]]")
    Traceback (most recent call last):
    ...
    fairbound._files.UnfitFileError: it has 20,002 values in 30,004 bytes, which is too many
    """
    skeleton = _STRING.sub(b"", data)
    values = sum(map(skeleton.count, (b"[", b"{", b",")))
    if values > SPARE_VALUES + len(data) // BYTES_PER_VALUE:
        raise UnfitFileError(f"it has {values:,} values in {len(data):,} bytes, which is too many")
    depth = 0
    for match in _BRACKET.finditer(skeleton):
        depth += 1 if match[0] in b"[{" else -1
        if depth > DEEPEST:
            raise UnfitFileError(f"it is nested more than {DEEPEST} levels deep")
    del skeleton
    try:
        return json.loads(data.decode(), parse_constant=_refuse_constant, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise UnfitFileError(f"it is not JSON ({error})") from error


def read_json(path: str | os.PathLike[str], largest: int) -> Any:
    """Return the value of a JSON file; see `read_bytes` and `parse_json`."""
    return parse_json(read_bytes(path, largest))


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number of JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice in an object")
    return found


def begins_with(path: Path, mark: bytes, within: int = 4096) -> bool:
    """Return whether a regular file has the mark among its first `within` bytes."""
    try:
        _check_kind(path.stat())
        with path.open("rb") as file:
            return mark in file.read(within)
    except (OSError, UnfitFileError):
        return False


def as_utf8(text: str) -> bytes:
    r"""Return text as UTF-8; bytes of a file name that are not UTF-8 are written as visible escapes.

    >>> as_utf8("a\udcff.csv")
    b'a\\udcff.csv'
    """
    return text.encode("utf-8", "backslashreplace")
