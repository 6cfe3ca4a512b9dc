"""Files are found in the right places, and only known content is accepted."""

from __future__ import annotations

import hashlib
import sys

import pytest
from tests.data.conftest import zipped
from tests.refusals import refused

from fairbound.data.files import DataFile, Place, locate, open_verified

CONTENT = b"a,b\n1,2\n"
SHA256 = hashlib.sha256(CONTENT).hexdigest()
OTHER = hashlib.sha256(b"other").hexdigest()


def plain(url: str | None = None, sha256: str | None = SHA256) -> DataFile:
    return DataFile("a.csv", sha256, origin="this test", url=url)


def archive(sha256: str | None = None, members: dict[str, str | None] | None = None) -> DataFile:
    return DataFile("sub/a.zip", sha256, origin="this test", members=members or {"one.csv": None, "two.csv": None})


def contents(file: DataFile, place: Place) -> list[bytes]:
    with open_verified(file, place) as streams:
        return [stream.read() for stream in streams]


def test_the_folder_goes_before_the_download(tmp_path, server):
    (tmp_path / "a.csv").write_bytes(CONTENT)
    file = plain(server.serve("a.csv", b"other"))
    assert contents(file, Place(tmp_path)) == [CONTENT]
    assert not server.asked


def test_the_argument_goes_before_the_environment(tmp_path, monkeypatch):
    for name in ("argument", "environment"):
        (tmp_path / name).mkdir()
    (tmp_path / "argument" / "a.csv").write_bytes(CONTENT)
    monkeypatch.setenv("FAIRBOUND_DATA", str(tmp_path / "environment"))
    assert locate(plain(), Place(tmp_path / "argument")) == [tmp_path / "argument" / "a.csv"]
    with pytest.raises(FileNotFoundError, match="environment"):
        locate(plain(), Place())
    assert Place(tmp_path / "argument").has(plain())
    assert not Place().has(plain())


def test_a_file_that_is_not_in_the_folder_is_downloaded(tmp_path, server, cache):
    file = plain(server.serve("a.csv", CONTENT))
    assert contents(file, Place(tmp_path)) == [CONTENT]
    assert (cache / "a.csv").read_bytes() == CONTENT


@pytest.mark.parametrize("checksum", [SHA256, None])
def test_download_can_be_forbidden(tmp_path, server, cache, checksum):
    file = plain(server.serve("a.csv", CONTENT), checksum)
    place = Place(tmp_path, download=False)
    words = rf"a\.csv is not part .*download=False does not allow it\. Get {file.url} .*put it at .*a\.csv"
    with pytest.raises(FileNotFoundError, match=words):
        locate(file, place)
    assert not server.asked
    locate(file, Place(tmp_path))
    assert contents(file, place) == [CONTENT]  # from the cache
    (cache / "a.csv").write_bytes(b"other")
    with pytest.raises(FileNotFoundError, match="download=False does not allow it"):
        locate(file, place)
    assert server.asked == {"a.csv": 1}


def test_offline_the_message_says_which_file_to_put_where(tmp_path, nobody, monkeypatch):
    file = plain(f"{nobody}/a.csv")
    words = rf"cannot be downloaded: there is no connection\. Get {nobody}/a\.csv .*put it at {tmp_path}/a\.csv"
    with pytest.raises(FileNotFoundError, match=words):
        locate(file, Place(tmp_path))
    monkeypatch.delenv("FAIRBOUND_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match=r"a\.csv .*data_dir= or .*FAIRBOUND_DATA"):
        locate(file, Place())


def test_without_pooch_the_message_says_both_ways_out(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with refused('pip install ".[data]"', "http://x/a.csv", "put it at", error=FileNotFoundError):
        locate(plain("http://x/a.csv"), Place(tmp_path))


def test_another_file_in_the_folder_is_refused(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"other")
    with pytest.raises(ValueError, match=rf"a\.csv .*checksum {OTHER}.*{SHA256}"):
        contents(plain(), Place(tmp_path))
    assert contents(plain(sha256=None), Place(tmp_path)) == [b"other"]


def test_members_are_read_from_the_archive_or_unpacked(tmp_path):
    (tmp_path / "sub").mkdir()
    members = {"one.csv": b"1", "two.csv": b"2", "three.csv": b"3"}
    (tmp_path / "sub" / "a.zip").write_bytes(zipped(members))
    assert contents(archive(), Place(tmp_path)) == [b"1", b"2"]
    (tmp_path / "sub" / "a.zip").unlink()
    with pytest.raises(FileNotFoundError, match=r"put it at .*a\.zip"):
        contents(archive(), Place(tmp_path))
    (tmp_path / "sub" / "one.csv").write_bytes(b"1")
    with pytest.raises(FileNotFoundError, match=r"put it at .*a\.zip"):  # one of two is not enough
        contents(archive(), Place(tmp_path))
    (tmp_path / "sub" / "two.csv").write_bytes(b"2")
    assert contents(archive(), Place(tmp_path)) == [b"1", b"2"]


def test_unpacked_members_are_verified_by_their_own_checksums(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "one.csv").write_bytes(CONTENT)
    assert contents(archive("0" * 64, {"one.csv": SHA256}), Place(tmp_path)) == [CONTENT]
    with pytest.raises(ValueError, match=rf"one\.csv .*checksum {SHA256}.*{OTHER}"):
        contents(archive(None, {"one.csv": OTHER}), Place(tmp_path))


def test_archives_that_are_none_or_lack_a_member(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.zip").write_bytes(b"no archive")
    with refused("a.zip", "not a zip archive", "this test"):
        contents(archive(), Place(tmp_path))
    (tmp_path / "sub" / "a.zip").write_bytes(zipped({"one.csv": b"1", "readme": b""}))
    with refused("a.zip contains one.csv, readme", "two.csv"):
        contents(archive(), Place(tmp_path))


def test_an_archive_that_would_fill_the_memory_is_not_unpacked(tmp_path, monkeypatch):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.zip").write_bytes(zipped({"one.csv": b"1", "two.csv": bytes(1001)}))
    monkeypatch.setattr("fairbound.data.files.LARGEST_MEMBER", 1001)
    assert contents(archive(), Place(tmp_path)) == [b"1", bytes(1001)]
    monkeypatch.setattr("fairbound.data.files.LARGEST_MEMBER", 1000)
    with pytest.raises(ValueError, match=r"a\.zip contains two\.csv of .* GiB, more than the"):
        contents(archive(), Place(tmp_path))
