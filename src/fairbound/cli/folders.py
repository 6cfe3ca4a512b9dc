"""Output that is there as a whole or not at all.

A folder is filled beside its place under a name of its own, and gets its real name when it is complete.  That it can be
written is found out before anything is worked out.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def refuse_existing(path: Path, option: str = "--out") -> None:
    """Raise when there is something at the place of the output."""
    if path.exists() or path.is_symlink():
        raise FileExistsError(f"{path} exists already ({option}); name another place, or remove it first.")


@contextmanager
def fresh_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a folder to fill, which appears at `path` when all went well and vanishes otherwise."""
    final = Path(path)
    refuse_existing(final)
    with _draft(final) as draft:
        folder = draft / "content"
        folder.mkdir()
        yield folder
        _move(folder, final)


@contextmanager
def fresh_file(path: str | os.PathLike[str], *, replace: bool = False) -> Iterator[Path]:
    """Give a file to write, which appears at `path` when all went well; `replace` allows one that is there."""
    final = Path(path)
    if not replace:
        refuse_existing(final)
    elif final.is_dir():
        raise IsADirectoryError(f"{final} is a folder (--out); give the path of a file.")
    with _draft(final) as draft:
        file = draft / final.name
        yield file
        if replace:
            final.parent.mkdir(parents=True, exist_ok=True)
            file.replace(final)
        else:
            _move(file, final)


@contextmanager
def _draft(final: Path) -> Iterator[Path]:
    """Make a folder of a name of its own on the same disk: in the nearest folder above that exists."""
    place = final.absolute().parent
    while not place.exists():
        place = place.parent
    if not place.is_dir():
        raise NotADirectoryError(f"{place} is a file, so {final} cannot be written (--out); name another place.")
    try:
        draft = Path(tempfile.mkdtemp(prefix=".fairbound-", dir=place))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise PermissionError(f"Cannot write {final} (--out): {reason} in {place}.") from error
    try:
        yield draft
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _move(draft: Path, final: Path) -> None:
    final.parent.mkdir(parents=True, exist_ok=True)
    refuse_existing(final)  # it may have come to be in the meantime
    draft.rename(final)
