"""Download a file into the cache, and check its content.

A file with a known SHA-256 checksum is checked against it.  For any other file the checksum of the first download is
recorded in `<file>.sha256.json` beside it; later downloads are checked against that one.  A download that fails, is cut
off or has another content leaves no file.
"""

from __future__ import annotations

import json
import os
import sys
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from fairbound._errors import Message, missing_extra
from fairbound._json import decode

CHUNK = 1 << 16  # bytes between two updates of the progress


class DownloadError(OSError):
    """A file could not be downloaded; the message says why."""


def cache_folder() -> Path:
    """Return the folder of this package in the user's cache."""
    return Path(_pooch().os_cache("fairbound"))


def record_path(path: Path) -> Path:
    """Return the path of the recorded checksum of a downloaded file."""
    return path.with_name(f"{path.name}.sha256.json")


def download(
    filename: str,
    url: str,
    sha256: str | None,
    *,
    folder: Path | None = None,
    allowed: bool = True,
    progress: bool | None = None,
) -> Path:
    """Return the path of a file in the cache; download it if it is not there.

    Parameters
    ----------
    filename : str
        Path of the file within the folder.
    url : str
        Address of the file.
    sha256 : str, optional
        Checksum of the file; by default the one recorded at the first download.
    folder : path, optional
        The cache; by default that of the user.
    allowed : bool
        Whether downloading is allowed; if not, the file must be in the cache.
    progress : bool, optional
        Whether to show the progress on standard error; by default if that is a terminal.

    Raises
    ------
    ImportError
        If pooch is not installed.
    DownloadError
        If the file cannot be downloaded.
    ValueError
        If the checksum differs from the known one.
    """
    pooch = _pooch()
    folder = cache_folder() if folder is None else folder
    path, record = folder / filename, record_path(folder / filename)
    known = sha256 or _recorded_checksum(record)
    if not allowed:
        if path.is_file() and known in (None, pooch.file_hash(str(path))):
            return path
        raise DownloadError(Message("{download=False} does not allow it"))
    shown = sys.stderr.isatty() if progress is None else progress
    downloader = pooch.HTTPDownloader(
        progressbar=ProgressLine(filename, sys.stderr) if shown else False, chunk_size=CHUNK
    )
    keeper = pooch.create(path=folder, base_url="", registry={filename: known}, urls={filename: url})
    try:
        keeper.fetch(filename, downloader=downloader)
    except ValueError as error:
        raise ValueError(_checksum_message(filename, url, known, sha256, record)) from error
    except OSError as error:  # errors of the network and of the disk
        raise DownloadError(_reason(error)) from error
    if sha256 is None and known is None:
        _check_archive(path, url)
        _write_record(record, filename, url, pooch.file_hash(str(path)), path.stat().st_size)
    return path


class ProgressLine:
    """A progress bar for pooch: one line that shows how much of a file has arrived."""

    def __init__(self, name: str, stream: TextIO) -> None:
        self.name, self.stream = name, stream
        self.total = 0  # pooch sets it if the server states the size
        self._done = 0
        self._shown = ""

    def update(self, size: int) -> None:
        """Count `size` more bytes."""
        self._done += size
        done = min(self._done, self.total) if self.total else self._done
        text = f"{self.name}: {done / 1e6:.1f} MB"
        if self.total:
            text = f"{self.name}: {100 * done // self.total:3}% of {self.total / 1e6:.1f} MB"
        if text != self._shown:
            self.stream.write(f"\r{text}")
            self.stream.flush()
            self._shown = text

    def reset(self) -> None:
        """Set the count to zero."""
        self._done = 0

    def close(self) -> None:
        """End the line."""
        self.stream.write("\n")
        self.stream.flush()


def _pooch() -> Any:
    try:
        import pooch  # an optional dependency, needed for downloads only
    except ImportError as error:
        raise missing_extra("Downloading data needs", "pooch", "data") from error
    return pooch


def _recorded_checksum(record: Path) -> str | None:
    """Return the recorded checksum, if there is a record."""
    if not record.is_file():
        return None
    try:
        checksum = decode(record.read_bytes())["sha256"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{record} is damaged; delete it, and the checksum is recorded again.") from error
    return str(checksum)


def _write_record(record: Path, filename: str, url: str, checksum: str, size: int) -> None:
    content = {
        "file": filename,
        "url": url,
        "sha256": checksum,
        "bytes": size,
        "downloaded": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    draft = record.with_name(f"{record.name}.{os.getpid()}")
    draft.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    draft.replace(record)  # atomic, so that nobody reads a half-written record


def _check_archive(path: Path, url: str) -> None:
    """Raise an error if a file named .zip is not a zip archive, but for example the login page of a network."""
    if path.suffix == ".zip" and not zipfile.is_zipfile(path):
        path.unlink()
        raise DownloadError(f"{url} answered with something else than a zip archive")


def _checksum_message(filename: str, url: str, known: str | None, sha256: str | None, record: Path) -> str:
    if sha256 is not None:
        return (
            f"The content at {url} is not the known {filename}: its SHA-256 checksum is not {sha256}. It was damaged "
            "on the way or has been changed there; try again, or look for the known file elsewhere."
        )
    return (
        f"The content at {url} has changed since {filename} was first downloaded, when its SHA-256 checksum was "
        f"{known}; to take the new content, delete {record}."
    )


def _reason(error: OSError) -> str:
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status is not None:
        return f"the server answered {status}"
    kind = type(error).__name__
    if "Timeout" in kind:
        return "the server did not answer in time"
    if kind == "ChunkedEncodingError":
        return "the connection was cut off"
    if kind == "ConnectionError":
        return "there is no connection"
    return f"{kind}: {str(error).splitlines()[0]}" if str(error) else kind
