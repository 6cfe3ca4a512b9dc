"""Where commands write: a place that is free, or output of ours that is renewed; see `fairbound._drafts` for how.

That a place can be written is found out before anything is worked out.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fairbound._drafts import CONTENT, draft_beside, resolved


def refuse_existing(path: Path, option: str = "--out") -> None:
    """Raise when there is something at the place of the output."""
    if path.exists() or path.is_symlink():
        raise FileExistsError(f"{path} exists already ({option}); name another place, or remove it first.")


@contextmanager
def fresh_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a folder to fill, which appears at `path` when all went well and vanishes otherwise."""
    final = Path(path)
    refuse_existing(final)
    with draft_beside(final, f"{final} (--out)") as draft:
        folder = draft.folder / CONTENT
        folder.mkdir()
        yield folder
        refuse_existing(final)  # it may have come to be in the meantime
        draft.publish(folder, final, replace=False)


@contextmanager
def fresh_file(path: str | os.PathLike[str], *, replace: bool = False) -> Iterator[Path]:
    """Give a file to write, which appears at `path` when all went well; `replace` allows one that is there."""
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
