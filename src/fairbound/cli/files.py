"""Files and folders of commands: inputs must exist, and an output appears complete or not at all.

Commands check that the output can be written before they compute anything.  `fairbound._files` has the mechanism.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from fairbound._files import CONTENT, draft_beside, resolved
from fairbound._words import did_you_mean

if TYPE_CHECKING:
    from fairbound.data import TableFile
    from fairbound.estimator import ConstrainedClassifier


def open_table(path: str, *, delimiter: str | None = None, encoding: str = "utf-8") -> TableFile:
    """Open a CSV or Parquet file."""
    from fairbound.data import TableFile

    return TableFile.open(existing_file(path), delimiter=delimiter, encoding=encoding)


def existing_file(path: str) -> Path:
    """Return the path of a file; raise an error that offers the nearest name if there is none."""
    file = Path(path)
    if file.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the path of a file.")
    if not file.is_file():
        near = did_you_mean(file.name, [each.name for each in file.parent.iterdir()]) if file.parent.is_dir() else ""
        raise FileNotFoundError(f"There is no file {path}.{near}")
    return file


def existing_rows(path: str) -> None:
    """Raise an error unless a file, or a folder of Parquet files, exists."""
    if not (Path(path).is_dir() and any(Path(path).rglob("*.parquet"))):
        existing_file(path)


def check_source(source: str, *, folders: bool = False) -> None:
    """Raise an error if a file does not exist, before slow imports; a bare word may name a data set.

    With `folders`, a folder of Parquet files will do.
    """
    path = Path(source)
    if folders and path.is_dir() and any(path.rglob("*.parquet")):
        return
    if path.is_dir():  # a run may have been written to a folder of the same name
        from fairbound.data import DATASETS

        if source in DATASETS:
            return
    if path.exists() or path.suffix or len(path.parts) > 1:
        existing_file(source)


def load_model(path: str) -> ConstrainedClassifier:
    """Read a model from the folder of a run, or from its own folder."""
    folder = Path(path)
    if not folder.is_dir():
        beside = [each.name for each in folder.parent.iterdir() if each.is_dir()] if folder.parent.is_dir() else []
        raise FileNotFoundError(
            f"There is no folder {path}.{did_you_mean(folder.name, beside)} Give the folder that train has written."
        )
    from fairbound import load
    from fairbound.studies import MODEL_FOLDER

    inner = folder / MODEL_FOLDER
    place = inner if inner.is_dir() else folder
    if not (place / "model.json").is_file():
        raise FileNotFoundError(f"{place} has no model.json; give the folder that train has written.")
    return load(place)


def refuse_existing(path: Path, option: str = "--out") -> None:
    """Raise an error if the output exists already."""
    if path.exists() or path.is_symlink():
        raise FileExistsError(f"{path} exists already ({option}); name another place, or remove it first.")


@contextmanager
def fresh_folder(path: str | os.PathLike[str], *, replace: bool = False) -> Iterator[Path]:
    """Yield a folder to fill.  It appears at `path` if all goes well, and is removed otherwise.

    With `replace`, it takes the place of a folder that is there.
    """
    final = Path(path)
    if not replace:
        refuse_existing(final)
    with draft_beside(final, f"{final} (--out)") as draft:
        folder = draft.folder / CONTENT
        folder.mkdir()
        yield folder
        if not replace:
            refuse_existing(final)  # it may have been created meanwhile
        draft.publish(folder, final, replace=replace)


@contextmanager
def fresh_file(path: str | os.PathLike[str], *, replace: bool = False) -> Iterator[Path]:
    """Yield a file to write.  It appears at `path` if all goes well; `replace` allows to replace a file."""
    final = Path(path)
    if not replace:
        refuse_existing(final)
    elif final.is_dir():
        raise IsADirectoryError(f"{final} is a folder (--out); give the path of a file.")
    final = resolved(final)
    with draft_beside(final, f"{final} (--out)") as draft:
        folder = draft.folder / CONTENT
        folder.mkdir()
        file = folder / final.name
        yield file
        if not replace:
            refuse_existing(final)
        draft.publish(file, final, replace=replace)
