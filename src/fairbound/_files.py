"""Read files within bounds, and write files that are complete or not there.

Writing: new content is written to a draft, a folder `.fairbound-XXXXXXXX` beside its destination, and moved there when
it is complete.  A run that is killed leaves its draft, which nobody takes for output.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fairbound._words import did_you_mean


def existing_file(path: str | os.PathLike[str]) -> Path:
    """Return the path of a file; the error for a file that does not exist offers the nearest name."""
    file = Path(path)
    if file.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the path of a file.")
    if file.exists() and not file.is_file():
        raise ValueError(f"{path} is not a regular file; give the path of a file.")
    if not file.is_file():
        beside = [each.name for each in file.parent.iterdir()] if file.parent.is_dir() else []
        raise FileNotFoundError(f"There is no file {path}.{did_you_mean(file.name, beside)}")
    return file


def read_bytes(path: str | os.PathLike[str], largest: int) -> bytes:
    """Return the content of a regular file of at most `largest` bytes, which is checked before anything is read."""
    if not stat.S_ISREG(os.stat(path).st_mode):  # reading a pipe would wait, and a device may have no end
        raise ValueError("it is not a regular file")
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size  # of this file, which another may replace meanwhile
        if size > largest:
            raise ValueError(f"it has {size:,} bytes, and at most {largest:,} are read")
        return file.read(size)


def begins_with(path: Path, mark: bytes, within: int = 4096) -> bool:
    """Return whether the first `within` bytes of a regular file contain the bytes `mark`."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return mark in file.read(within)


def as_utf8(text: str) -> bytes:
    r"""Return text as UTF-8; bytes of a file name that are not UTF-8 are written as visible escapes.

    >>> as_utf8("a\udcff.csv")
    b'a\\udcff.csv'
    """
    return text.encode("utf-8", "backslashreplace")


def json_bytes(content: Any) -> bytes:
    """Return the content of a JSON file for people and programs to read."""
    return as_utf8(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


DRAFT = ".fairbound-"
"""How the names of temporary folders begin."""
CONTENT = "content"
_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS}


def check_name(path: str | os.PathLike[str]) -> None:
    """Raise ValueError if nothing can be written to a path because of its name."""
    name = os.fspath(path)
    if not name or "\0" in name:
        raise ValueError(
            f"{name!r} cannot be the name of a file: {'it has a NUL character' if name else 'it is empty'}."
        )


@contextmanager
def draft_beside(final: Path, said: str = "") -> Iterator[Path]:
    """Create a temporary folder in the nearest existing folder above `final`, and remove it at the end.

    Error messages call the destination `said`.
    """
    check_name(final)
    said = said or str(final)
    place = final.absolute().parent
    while not place.exists():
        place = place.parent
    if not place.is_dir():
        raise NotADirectoryError(f"{place} is a file, so {said} cannot be written; name another place.")
    try:
        draft = tempfile.TemporaryDirectory(prefix=DRAFT, dir=place, ignore_cleanup_errors=True)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise type(error)(f"Cannot write {said}: {reason} in {place}.") from error
    with draft as folder:
        try:
            yield Path(folder)
        except OSError as error:
            if error.errno in _DISK and (error.filename is None or str(error.filename).startswith(folder)):
                raise OSError(error.errno, error.strerror, str(final)) from error
            raise


def publish(fresh: Path, final: Path, *, replace: bool = False, ours: Sequence[str] = ()) -> None:
    """Move a complete file or folder to `final`.  If that exists, replace it, or raise an error without `replace`.

    In a folder that is there, only the files that match the patterns `ours` are replaced; all others stay.  The first
    pattern names the file that marks a complete folder: it is removed first, and written last.
    """
    files = sorted(path for path in [fresh, *fresh.rglob("*")] if path.is_file())
    for path in files:  # otherwise a power cut could leave empty files under their final names
        with path.open("r+b") as file:
            os.fsync(file.fileno())
    final.parent.mkdir(parents=True, exist_ok=True)
    if os.path.lexists(final) and not replace:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(final))
    if not (fresh.is_dir() and final.is_dir()):
        if fresh.is_dir():
            final.unlink(missing_ok=True)
        fresh.replace(final)
        return
    for old in (path for pattern in ours for path in sorted(final.glob(pattern))):
        old.unlink()
    for path in sorted(files, key=lambda path: path == fresh / ours[0]):
        target = final / path.relative_to(fresh)
        target.parent.mkdir(parents=True, exist_ok=True)
        path.replace(target)


@contextmanager
def fresh_folder(final: Path, said: str = "", *, replace: bool = False, ours: Sequence[str] = ()) -> Iterator[Path]:
    """Yield a folder to fill.  It appears at `final` if all goes well, and is removed otherwise; see `publish`."""
    with draft_beside(final, said) as draft:
        folder = draft / CONTENT
        folder.mkdir()
        yield folder
        publish(folder, final, replace=replace, ours=ours)


def write_file(path: str | os.PathLike[str], data: bytes, *, replace: bool = True) -> None:
    """Write a file atomically; if the path is a symbolic link, write the file that it points to."""
    check_name(path)
    final = resolved(Path(path))
    if final.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the path of a file.")
    with draft_beside(final) as draft:
        fresh = draft / CONTENT
        fresh.write_bytes(data)
        publish(fresh, final, replace=replace)


def resolved(path: Path) -> Path:
    """Return the target of a symbolic link, or the path itself."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path
