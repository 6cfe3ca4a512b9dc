"""Write files and folders atomically: they appear complete or not at all.

New content is written to a draft, a folder `.fairbound-XXXXXXXX` beside its destination, and is moved there in one step
when it is complete.  The draft has a lock file, which its process keeps locked.  The operating system releases the lock
when the process ends, in whatever way.  So a later run can recognise the draft of a killed run and remove it.  It
leaves alone the drafts of running processes, and all folders without our lock file.
"""

from __future__ import annotations

import ctypes
import errno
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

try:
    import fcntl
except ImportError:  # Windows: old drafts are not removed there, since we cannot tell whether their process has ended
    fcntl = None  # type: ignore[assignment]

PREFIX, MARK, CONTENT = ".fairbound-", "draft.lock", "content"
MARKED = b"Unfinished output of fairbound."
_NAME = re.compile(re.escape(PREFIX) + r"[a-z0-9_]{8}")
UNMARKED_SECONDS = 60.0
"""An empty draft without a lock file is removed if it is older: its process was killed before it wrote the file."""
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
        """Move a file or folder of the draft to `final`; with `replace`, an existing one is replaced, else an error.

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
    """Write the lock file of a draft and lock it; if it cannot be locked, remove it, and the draft is never swept."""
    if fcntl is None:
        return None
    mark = os.open(folder / MARK, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.unlink(folder / MARK)
    else:  # write under the lock, so that whoever reads the text can rely on the lock
        os.write(mark, MARKED + f" Process {os.getpid()} on {socket.gethostname()}.\n".encode())
    return mark


def _remove(folder: Path) -> None:
    """Remove a draft, its lock file last, so that a later run can sweep what an interrupt leaves."""
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
