"""Drafts: output appears as a whole, and only files that fairbound wrote are replaced."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairbound import ConstrainedClassifier, Monitor
from fairbound._files import draft_beside, publish, write_file


def names(folder: Path) -> list[str]:
    return sorted(str(each.relative_to(folder)) for each in folder.rglob("*") if not each.is_dir())


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt, MemoryError])
def test_nothing_is_left_of_what_fails(error, tmp_path):
    def fail() -> None:
        with draft_beside(tmp_path / "deep" / "out") as draft:
            (draft / "content").mkdir()
            raise error

    with pytest.raises(error):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_a_free_place_is_asked_for_and_taken_meanwhile(tmp_path):
    def write() -> None:
        with draft_beside(tmp_path / "out") as draft:
            (draft / "content").mkdir()
            (tmp_path / "out").mkdir()
            publish(draft / "content", tmp_path / "out")

    with pytest.raises(FileExistsError):
        write()
    assert [each.name for each in tmp_path.iterdir()] == ["out"]


def test_a_file_is_replaced_behind_its_link(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    write_file(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"
    with pytest.raises(FileExistsError):
        write_file(tmp_path / "link", b"newer", replace=False)
    assert names(tmp_path) == ["link", "real"]


def filled(folder: Path, **files: str) -> Path:
    for name, content in files.items():
        path = folder / name.replace("_", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return folder


OURS = ("mark", "page", "models/*/model")


def test_files_of_the_user_stay_when_a_folder_is_replaced(tmp_path):
    final = filled(tmp_path / "out", mark="old", page="old", models_a_model="old", models_a_notes="mine", letter="mine")
    fresh = filled(tmp_path / "fresh", mark="new", models_b_model="new")
    publish(fresh, final, replace=True, ours=OURS)
    assert names(final) == ["letter", "mark", "models/a/notes", "models/b/model"]
    assert (final / "mark").read_text() == "new"


@pytest.mark.parametrize("steps", range(5))
def test_a_folder_that_is_half_replaced_has_no_mark(steps, tmp_path, monkeypatch):
    final = filled(tmp_path / "out", mark="old", page="old", models_a_model="old")
    fresh = filled(tmp_path / "fresh", mark="new", page="new", models_a_model="new")
    left = [steps]

    def counted(real):
        def act(path, *args, **kwargs):
            if not left[0]:
                raise KeyboardInterrupt
            left[0] -= 1
            return real(path, *args, **kwargs)

        return act

    monkeypatch.setattr(Path, "unlink", counted(Path.unlink))
    monkeypatch.setattr(Path, "replace", counted(Path.replace))
    with pytest.raises(KeyboardInterrupt):
        publish(fresh, final, replace=True, ours=OURS)
    assert (final / "mark").exists() == (steps == 0)


@pytest.mark.parametrize(("name", "said"), [("a\0b", "NUL"), ("", "empty"), (".", "a folder")])
def test_names_that_no_file_can_have_are_refused_in_a_sentence(name, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    watched = Monitor("disparate_impact >= 0.8")
    with pytest.raises((ValueError, IsADirectoryError), match=said):
        watched.save(name)
    if said != "a folder":
        with pytest.raises(ValueError, match=said):
            ConstrainedClassifier().fit([[0.0], [1.0]], [0, 1], resume=name)
