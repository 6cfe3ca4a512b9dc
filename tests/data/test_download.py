"""Downloads, against a real server on this machine."""

from __future__ import annotations

import hashlib
import io
import json
import sys

import pytest
from tests.data.conftest import files_in, zipped

from fairbound.data.download import DownloadError, ProgressLine, download, record_path

CONTENT = b"sex,age\n" + b"female,30\n" * 40_000  # a few blocks of the download
SHA256 = hashlib.sha256(CONTENT).hexdigest()
OTHER = b"sex,age\nmale,30\n"


def test_the_first_download_brings_the_file_and_the_second_asks_nobody(server, cache):
    url = server.serve("small.csv", CONTENT)
    for _ in range(2):
        path = download("small.csv", url, SHA256)
        assert path == cache / "small.csv"
        assert path.read_bytes() == CONTENT
    assert server.asked == {"small.csv": 1}
    assert files_in(cache) == ["small.csv"]  # a known checksum needs no record


def test_a_file_may_lie_in_a_folder_of_the_cache(server, cache):
    download("2018/1-Year/small.csv", server.serve("a.csv", CONTENT), SHA256)
    assert files_in(cache) == ["2018/1-Year/small.csv"]


def test_another_content_than_the_known_one_is_refused_and_leaves_nothing(server, cache):
    url = server.serve("small.csv", OTHER)
    with pytest.raises(ValueError, match=rf"{url} .*not the known small\.csv.*{SHA256}"):
        download("small.csv", url, SHA256)
    assert files_in(cache) == []


def test_a_damaged_file_in_the_cache_is_fetched_again(server, cache):
    url = server.serve("small.csv", CONTENT)
    download("small.csv", url, SHA256).write_bytes(CONTENT[:100])
    assert download("small.csv", url, SHA256).read_bytes() == CONTENT
    assert server.asked == {"small.csv": 2}


@pytest.mark.parametrize("checksum", [SHA256, None])
@pytest.mark.parametrize("cut_at", [0, 1, 100_000])
def test_a_download_that_is_cut_off_leaves_nothing(server, cache, checksum, cut_at):
    url = server.serve("small.csv", CONTENT, cut_at=cut_at)
    with pytest.raises(DownloadError, match="the connection was cut off"):
        download("small.csv", url, checksum)
    assert files_in(cache) == []
    server.serve("small.csv", CONTENT)
    assert download("small.csv", url, checksum).read_bytes() == CONTENT


@pytest.mark.parametrize("status", [404, 429, 500, 503])
def test_an_error_of_the_server_leaves_nothing(server, cache, status):
    with pytest.raises(DownloadError, match=f"the server answered {status}"):
        download("small.csv", server.serve("small.csv", b"sorry", status=status), SHA256)
    assert files_in(cache) == []


def test_without_a_connection(nobody, cache):
    with pytest.raises(DownloadError, match="there is no connection"):
        download("small.csv", f"{nobody}/small.csv", SHA256)
    assert files_in(cache) == []


def test_a_file_in_the_cache_needs_no_connection(server, nobody):
    download("small.csv", server.serve("small.csv", CONTENT), None)
    assert download("small.csv", f"{nobody}/small.csv", None).read_bytes() == CONTENT


def test_the_cache_may_be_a_place_that_cannot_be_written(server, cache):
    cache.write_text("a file where the folder should be")
    with pytest.raises(DownloadError, match="cache"):
        download("small.csv", server.serve("small.csv", CONTENT), SHA256)


def test_the_checksum_of_the_first_download_is_recorded(server, cache):
    url = server.serve("small.csv", CONTENT)
    path = download("small.csv", url, None)
    record = json.loads(record_path(path).read_text(encoding="utf-8"))
    assert {key: record[key] for key in ("file", "url", "sha256", "bytes")} == {
        "file": "small.csv",
        "url": url,
        "sha256": SHA256,
        "bytes": len(CONTENT),
    }
    assert files_in(cache) == ["small.csv", "small.csv.sha256.json"]


@pytest.mark.parametrize("loss", ["removed", "changed"])
def test_a_later_content_that_differs_is_refused_until_the_record_is_deleted(server, cache, loss):
    url = server.serve("small.csv", CONTENT)
    path = download("small.csv", url, None)
    path.unlink() if loss == "removed" else path.write_bytes(b"changed")
    server.serve("small.csv", OTHER)
    words = (
        rf"has changed since small\.csv was first downloaded.*{SHA256}; to take the new content, delete .*sha256\.json"
    )
    with pytest.raises(ValueError, match=words):
        download("small.csv", url, None)
    record_path(path).unlink()
    path.unlink(missing_ok=True)
    assert download("small.csv", url, None).read_bytes() == OTHER


def test_a_file_changed_in_the_cache_is_fetched_again_when_the_origin_still_has_it(server):
    url = server.serve("small.csv", CONTENT)
    path = download("small.csv", url, None)
    path.write_bytes(b"changed")
    assert download("small.csv", url, None).read_bytes() == CONTENT


def test_a_damaged_record_says_what_to_do(server):
    path = download("small.csv", server.serve("small.csv", CONTENT), None)
    for damage in ("", "[]", "{}", "{"):
        record_path(path).write_text(damage)
        with pytest.raises(ValueError, match=r"small\.csv\.sha256\.json .*damaged.*delete"):
            download("small.csv", "http://127.0.0.1", None)


def test_a_web_page_in_place_of_an_archive_is_not_kept(server, cache):
    url = server.serve("a.zip", b"<html>please log in</html>")
    with pytest.raises(DownloadError, match="answered with something else than a zip archive"):
        download("a.zip", url, None)
    assert files_in(cache) == []
    server.serve("a.zip", zipped({"a.csv": CONTENT}))
    download("a.zip", url, None)
    assert files_in(cache) == ["a.zip", "a.zip.sha256.json"]


def test_progress_is_shown_when_asked_for(server, capsys):
    download("small.csv", server.serve("small.csv", CONTENT), SHA256, progress=True)
    shown = capsys.readouterr()
    assert "small.csv: 100% of 0.4 MB\n" in shown.err
    assert shown.out == ""


def test_progress_is_not_shown_without_a_terminal(server, capsys):
    download("small.csv", server.serve("small.csv", CONTENT), SHA256)
    assert "%" not in capsys.readouterr().err


def test_progress_line_counts_up_and_never_beyond_the_whole():
    stream = io.StringIO()
    line = ProgressLine("a.csv", stream)
    line.total = 1000
    for size in (400, 400, 400):
        line.update(size)
    line.reset()
    line.update(1000)
    line.close()
    assert stream.getvalue() == "\ra.csv:  40% of 0.0 MB\ra.csv:  80% of 0.0 MB\ra.csv: 100% of 0.0 MB\n"


def test_progress_line_without_a_known_total():
    stream = io.StringIO()
    line = ProgressLine("a.csv", stream)
    line.update(1_500_000)
    line.close()
    assert stream.getvalue() == "\ra.csv: 1.5 MB\n"


def test_without_pooch_the_message_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(ImportError, match=r'pip install "\.\[data\]"'):
        download("small.csv", "http://127.0.0.1", SHA256)
