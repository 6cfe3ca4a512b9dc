"""The journal of a run: what it gives back, what it refuses, and what is left of it after a kill or on a full disk."""

from __future__ import annotations

import errno
import os

import pytest
from tests.refusals import refused

from fairbound._errors import JournalWarning
from fairbound._journal import Journal, digest

FACTS = {"fairbound": "0.2", "threads": 1}
KEYS = [digest(str(number).encode()) for number in range(5)]
CONTENTS = [bytes([number]) * (100 * number) for number in range(5)]


def written(path, count=5, **settings):
    """Write some records, and leave the file as a killed run does."""
    journal = Journal(path, FACTS, seconds=0.0, **settings)
    for key, content in zip(KEYS[:count], CONTENTS[:count], strict=True):
        journal.add(key, content)
    journal.close()
    return path


def taken(path):
    """Return a journal and what it gives back."""
    journal = Journal(path, FACTS, seconds=0.0)
    found = []
    for key in KEYS:
        content = journal.recall(key)
        if content is None:
            break
        found.append(content)
    return journal, found


def contents(path):
    journal, found = taken(path)
    journal.close()
    return found


def test_a_killed_run_goes_on_after_its_last_result(tmp_path):
    for count in range(1, 6):
        path = written(tmp_path / str(count), count)
        journal, found = taken(path)
        assert found == CONTENTS[:count]
        for key, content in zip(KEYS[count:], CONTENTS[count:], strict=True):
            journal.add(key, content)
        journal.close()
        assert contents(path) == CONTENTS


@pytest.mark.parametrize(("facts", "words"), [({"threads": 2}, ("threads was 1, and is 2",)), ({"new": 1}, ("new",))])
def test_other_versions_or_threads_are_refused(facts, words, tmp_path):
    path = written(tmp_path / "a.journal")
    with refused("a.journal", *words, "delete the folder"):
        Journal(path, {**FACTS, **facts})


@pytest.mark.parametrize("resume", [True, False])
@pytest.mark.parametrize("place", ["trip.journal", "trip.journal/journal.json"])
@pytest.mark.parametrize(
    "content", [b"", b"2026-01-01 rent\n  expenses  10\n", b"\x80\x04" * 50_000, b'{"a": 1}', b"[]"]
)
def test_what_is_no_journal_is_refused_and_left_alone(tmp_path, content, place, resume):
    path = tmp_path / place
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    with refused("trip.journal", "not a journal", "another place"):
        Journal(tmp_path / "trip.journal", FACTS, resume=resume, seconds=0.0)
    assert path.read_bytes() == content


def test_a_file_that_appears_during_the_run_is_left_alone(tmp_path):
    path = tmp_path / "trip.journal"
    journal = Journal(path, FACTS, resume=False, seconds=0.0)
    path.write_text("mine")
    with pytest.warns(JournalWarning, match="is not a journal of fairbound"):
        journal.add(KEYS[0], CONTENTS[0])
    journal.remove()
    assert path.read_text() == "mine"


def test_without_resume_a_journal_is_replaced_by_the_first_write(tmp_path):
    path = written(tmp_path / "a")
    journal = Journal(path, FACTS, resume=False, seconds=0.0)
    assert not journal.found
    assert contents(path) == CONTENTS
    journal.add(KEYS[3], CONTENTS[3])
    journal.close()
    with Journal(path, FACTS) as journal:
        assert journal.recall(KEYS[3]) == CONTENTS[3]


def test_a_short_run_leaves_nothing_even_if_it_fails(tmp_path):
    def fail():
        with Journal(tmp_path / "a", FACTS, seconds=1e3) as journal:
            journal.add(KEYS[0], CONTENTS[0])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert os.listdir(tmp_path) == []


def test_a_failed_run_keeps_its_journal_and_a_finished_one_removes_it(tmp_path):
    def fail():
        with Journal(tmp_path / "a", FACTS, seconds=0.0) as journal:
            journal.add(KEYS[0], CONTENTS[0])
            journal.seconds = 1e3
            journal.add(KEYS[1], CONTENTS[1])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert contents(tmp_path / "a") == CONTENTS[:2]
    with Journal(tmp_path / "a", FACTS):
        pass
    assert os.listdir(tmp_path) == []


def test_a_full_disk_ends_the_journal_with_a_warning_and_loses_nothing(tmp_path, monkeypatch):
    path = tmp_path / "a.journal"
    journal = Journal(path, FACTS, seconds=0.0)
    journal.add(KEYS[0], CONTENTS[0])
    journal.add(KEYS[1], CONTENTS[1])

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.warns(JournalWarning, match=r"a\.journal ends here: No space left on device\. The run goes on"):
        journal.add(KEYS[2], CONTENTS[2])
    monkeypatch.undo()
    journal.add(KEYS[3], CONTENTS[3])  # not after a gap
    journal.close()
    assert contents(path) == CONTENTS[:2]
