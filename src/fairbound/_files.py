"""Read untrusted files within bounds, and write files atomically.

Reading: regular files only, of bounded size.  A few bytes of JSON can take much memory: an empty list has 2 bytes in a
file and 56 in Python.  So the number of values is counted before the text is parsed, and a file with too many values
for its size is rejected.

Writing: files and folders appear complete or not at all.  New content is written to a draft, a folder
`.fairbound-XXXXXXXX` beside its destination, and is moved there in one step when it is complete.  The draft has a lock
file, which its process keeps locked.  The operating system releases the lock when the process ends, even by a kill.
So a later run can recognise the draft of a killed run and remove it.  It leaves alone the drafts of running processes,
and all folders without our lock file.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import re
import shutil
import socket
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

from fairbound._words import did_you_mean

try:
    import fcntl
except ImportError:  # Windows: old drafts are not removed there, since we cannot tell whether their process has ended
    fcntl = None  # type: ignore[assignment]

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
    """A file is of the wrong kind, too large, or not the strict JSON of `parse_json`; the message says which."""


def existing_file(path: str | os.PathLike[str]) -> Path:
    """Return the path of a file; the error for a file that does not exist offers the nearest name."""
    file = Path(path)
    if file.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the path of a file.")
    if not file.is_file():
        beside = [each.name for each in file.parent.iterdir()] if file.parent.is_dir() else []
        raise FileNotFoundError(f"There is no file {path}.{did_you_mean(file.name, beside)}")
    return file


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
    raise ValueError(f"{word} is not a number in JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object has the same name twice")
    return found


def begins_with(path: Path, mark: bytes, within: int = 4096) -> bool:
    """Return whether the first `within` bytes of a regular file contain the bytes `mark`."""
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


def json_bytes(content: Any) -> bytes:
    """Return the content of a JSON file for people and programs to read."""
    return as_utf8(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


# --- drafts -----------------------------------------------------------------------------------------------------------

PREFIX, MARK, CONTENT = ".fairbound-", "draft.lock", "content"
MARKED = b"Unfinished output of fairbound."
_NAME = re.compile(re.escape(PREFIX) + r"[a-z0-9_]{8}")
UNMARKED_SECONDS = 60.0
"""Seconds.  An older empty draft without lock file is removed: its process was killed before it wrote that file."""
_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS}


class Draft:
    """A temporary folder, from which files and folders are moved to their destination.

    Attributes
    ----------
    folder : Path
        The folder; at first it has only the lock file.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def publish(self, fresh: Path, final: Path, *, replace: bool) -> None:
        """Move a file or folder of the draft to `final`.  If that exists, replace it, or raise without `replace`.

        A reader finds either the old one or the new one.  On systems that cannot exchange two folders atomically (Linux
        can), a folder is missing for a moment.
        """
        _sync(fresh)
        final.parent.mkdir(parents=True, exist_ok=True)
        if not replace:
            _move_to_free_place(fresh, final)
        elif final.exists() and (fresh.is_dir() or final.is_dir()):
            if not _rename(fresh, final, RENAME_EXCHANGE):
                old = self.folder / "old"
                final.rename(old)
                try:
                    fresh.rename(final)
                except BaseException:
                    old.rename(final)
                    raise
        else:
            fresh.replace(final)
        _sync_entry(final.parent)


@contextmanager
def draft_beside(final: Path, said: str = "") -> Iterator[Draft]:
    """Create a draft in the nearest existing folder above `final`, and remove it at the end.

    Error messages call the destination `said`.
    """
    said = said or str(final)
    place = final.absolute().parent
    while not place.exists():
        place = place.parent
    if not place.is_dir():
        raise NotADirectoryError(f"{place} is a file, so {said} cannot be written; name another place.")
    sweep(place)
    try:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise type(error)(f"Cannot write {said}: {reason} in {place}.") from error
    mark = None
    try:
        mark = _mark(folder)
        yield Draft(folder)
    except OSError as error:
        if error.errno in _DISK and (error.filename is None or str(error.filename).startswith(str(folder))):
            raise OSError(error.errno, error.strerror, str(final)) from error
        raise
    finally:
        try:
            _remove(folder)
        except BaseException:  # an interrupt: finish removing, then re-raise it
            _remove(folder)
            raise
        finally:
            if mark is not None:
                os.close(mark)


def sweep(place: Path) -> None:
    """Remove the drafts of killed runs from a folder."""
    if fcntl is None:
        return
    with suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            if _NAME.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
                with suppress(OSError):
                    _sweep_one(Path(entry.path), entry.stat(follow_symlinks=False))


def _sweep_one(folder: Path, found: os.stat_result) -> None:
    if found.st_uid != os.getuid():
        return
    try:
        mark = os.open(folder / MARK, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        if time.time() - found.st_mtime > UNMARKED_SECONDS:
            folder.rmdir()  # fails unless the folder is empty
        return
    try:
        if stat.S_ISREG(os.fstat(mark).st_mode) and os.read(mark, len(MARKED)) == MARKED:
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails while its process runs
            _remove(folder)
    finally:
        os.close(mark)


def _mark(folder: Path) -> int | None:
    """Write and lock the lock file of a draft; if that fails, remove it, so that no later run sweeps the draft."""
    if fcntl is None:
        return None
    mark = os.open(folder / MARK, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.unlink(folder / MARK)
    else:  # write under the lock, so that a process which can read the text knows that the lock is held
        os.write(mark, MARKED + f" Process {os.getpid()} on {socket.gethostname()}.\n".encode())
    return mark


def _remove(folder: Path) -> None:
    """Remove a draft, its lock file last, so that a later run still recognises a draft that is half removed."""
    with suppress(FileNotFoundError):
        for entry in list(os.scandir(folder)):
            if entry.name == MARK:
                continue
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                with suppress(OSError):
                    os.unlink(entry.path)
        with suppress(OSError):
            os.unlink(folder / MARK)
        with suppress(OSError):
            folder.rmdir()


def write_file(path: str | os.PathLike[str], data: bytes, *, replace: bool = True) -> None:
    """Write a file atomically; if the path is a symbolic link, write the file that it points to."""
    final = resolved(Path(path))
    with draft_beside(final) as draft:
        fresh = draft.folder / CONTENT
        fresh.write_bytes(data)
        draft.publish(fresh, final, replace=replace)


def resolved(path: Path) -> Path:
    """Return the target of a symbolic link, or the path itself."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


# --- moving ----------------------------------------------------------------------------------------------------------

RENAME_NOREPLACE, RENAME_EXCHANGE = 1, 2
_AT_FDCWD = -100


def _move_to_free_place(fresh: Path, final: Path) -> None:
    if _rename(fresh, final, RENAME_NOREPLACE):
        return
    if os.path.lexists(final):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(final))
    fresh.rename(final)


def _rename(source: Path, target: Path, flag: int) -> bool:
    """Rename with Linux' `renameat2`; return False if the system or the file system does not support it."""
    function = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if sys.platform == "linux" else None
    if function is None:
        return False
    if function(_AT_FDCWD, os.fsencode(source), _AT_FDCWD, os.fsencode(target), ctypes.c_uint(flag)) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
        return False
    raise OSError(code, os.strerror(code), str(target))


def _sync(path: Path) -> None:
    """Flush a file, or all files of a folder, to disk; otherwise a power cut could leave empty files."""
    if path.is_dir():
        for entry in path.iterdir():
            _sync(entry)
        _sync_entry(path)
    else:
        with path.open("r+b") as file:
            os.fsync(file.fileno())


def _sync_entry(folder: Path) -> None:
    """Flush the entries of a folder to disk, if the system can do so."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
