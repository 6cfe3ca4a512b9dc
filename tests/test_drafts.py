"""Drafts: output appears as a whole, and only what a run that is gone has left is swept."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from fairbound._files import MARK, MARKED, draft_beside, sweep, write_file

posix = pytest.mark.skipif(sys.platform == "win32", reason="nothing is swept without locks of POSIX")


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def stale(folder: Path, name: str = ".fairbound-abcdefgh", mark: bytes = MARKED) -> Path:
    draft = folder / name
    (draft / "content").mkdir(parents=True)
    (draft / "content" / "half.txt").write_text("half")
    (draft / MARK).write_bytes(mark)
    return draft


@posix
def test_the_draft_of_a_run_that_is_gone_is_swept(tmp_path):
    stale(tmp_path)
    with draft_beside(tmp_path / "out") as draft:
        assert names(tmp_path) == [draft.folder.name]
    assert names(tmp_path) == []


@posix
def test_the_draft_of_a_living_run_is_left_alone(tmp_path):
    with draft_beside(tmp_path / "one") as draft:
        (draft.folder / "content").write_text("half")
        sweep(tmp_path)
        write_file(tmp_path / "two", b"2")
        assert (draft.folder / "content").read_text() == "half"
    assert names(tmp_path) == ["two"]


@posix
def test_what_is_not_ours_is_never_swept(tmp_path):
    stale(tmp_path, mark=b"Mine. Keep out.")
    stale(tmp_path, name=".fairbound-letters-to-mother")
    unmarked = tmp_path / ".fairbound-12345678"
    unmarked.mkdir()
    (unmarked / "letter.txt").write_text("Dear Mother,")
    os.utime(unmarked, (0, 0))
    elsewhere = tmp_path / "elsewhere"
    stale(elsewhere, name="draft")
    (tmp_path / ".fairbound-linklink").symlink_to(elsewhere / "draft")
    linked = tmp_path / ".fairbound-markmark"
    linked.mkdir()
    (linked / MARK).symlink_to(elsewhere / "draft" / MARK)
    piped = tmp_path / ".fairbound-pipepipe"
    piped.mkdir()
    os.mkfifo(piped / MARK)
    before = sorted(tmp_path.rglob("*"))
    sweep(tmp_path)
    assert sorted(tmp_path.rglob("*")) == before


@posix
def test_an_empty_draft_without_a_mark_is_swept_when_it_is_old(tmp_path):
    for name, age in ((".fairbound-aaaaaaaa", 3600), (".fairbound-bbbbbbbb", 0)):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    sweep(tmp_path)
    assert names(tmp_path) == [".fairbound-bbbbbbbb"]


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt, MemoryError])
def test_nothing_is_left_of_what_fails(error, tmp_path):
    def fail() -> None:
        with draft_beside(tmp_path / "deep" / "out") as draft:
            (draft.folder / "content").mkdir()
            raise error

    with pytest.raises(error):
        fail()
    assert names(tmp_path) == []


def test_a_free_place_is_asked_for_and_taken_meanwhile(tmp_path):
    def write() -> None:
        with draft_beside(tmp_path / "out") as draft:
            (draft.folder / "content").mkdir()
            (tmp_path / "out").mkdir()
            draft.publish(draft.folder / "content", tmp_path / "out", replace=False)

    with pytest.raises(FileExistsError):
        write()
    assert names(tmp_path) == ["out"]


def test_a_file_is_replaced_behind_its_link(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    write_file(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"
    with pytest.raises(FileExistsError):
        write_file(tmp_path / "link", b"newer", replace=False)
    assert names(tmp_path) == ["link", "real"]
