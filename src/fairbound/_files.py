"""Read files that may come from anyone: regular files only, of a bounded size, and JSON that stays small in memory.

A few bytes of JSON can become many in memory: an empty list takes 2 bytes in a file and 56 in Python.  So the number of
values is counted before the text is parsed, and a file that packs too many of them into its bytes is refused.
"""

from __future__ import annotations

import json
import os
import re
import stat
from pathlib import Path
from typing import Any, NoReturn

BYTES_PER_VALUE = 4
"""JSON that we write has at least so many bytes for each value; the names, digits and spaces see to that."""
SPARE_VALUES = 1000
DEEPEST = 20
"""Levels of lists and objects; ours have about ten."""

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
    """A file is of the wrong kind, too large, or not JSON that we would write; the message says which."""


def read_bytes(path: str | os.PathLike[str], largest: int, *, folder: int | None = None) -> bytes:
    """Return the content of a regular file of at most `largest` bytes; links are followed.

    Parameters
    ----------
    path : path
    largest : int
        Bytes; the size is checked before anything is read.
    folder : int, optional
        An open folder that a relative path starts from.

    Raises
    ------
    UnfitFileError
        For a pipe, a device, a socket or a folder, which are never waited for, and for a file that is too large.
    OSError
        If the file cannot be opened or read.
    """
    _check_kind(os.stat(path, dir_fd=folder))  # before it is opened: to open a device may do something
    # The file may be another one by now: a pipe must not make us wait.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    with open(os.open(path, flags, dir_fd=folder), "rb") as file:
        found = os.fstat(file.fileno())
        _check_kind(found)
        if found.st_size > largest:
            raise UnfitFileError(f"it has {found.st_size:,} bytes, and at most {largest:,} are read")
        content = file.read(largest + 1)  # and not more, should it grow meanwhile
    if len(content) > largest:
        raise UnfitFileError(f"it has more than {largest:,} bytes")
    return content


def _check_kind(found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        kind = next((name for test, name in _KINDS if test(found.st_mode)), "something else")
        raise UnfitFileError(f"it is {kind} and not a regular file")


def parse_json(data: bytes) -> Any:
    """Return the value of JSON, whose memory is bounded by a small multiple of its bytes.

    Stricter than `json.loads`: no NaN, no name twice in an object, no deep nesting.

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
    """Tell whether a regular file has the mark among its first bytes."""
    try:
        _check_kind(path.stat())
        with path.open("rb") as file:
            return mark in file.read(within)
    except (OSError, UnfitFileError):
        return False


def as_utf8(text: str) -> bytes:
    r"""Return text as UTF-8; bytes of a file name that are not UTF-8 become visible, and JSON stays JSON.

    >>> as_utf8("a\udcff.csv")
    b'a\\udcff.csv'
    """
    return text.encode("utf-8", "backslashreplace")
