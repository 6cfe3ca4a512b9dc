"""The file of a data set: find it, download it if needed, and check the content (SHA-256).

A file is part of the package, or in a folder (the argument `data_dir`, else the environment variable FAIRBOUND_DATA,
read at the time of the call), or downloaded into the user's cache. The folder may also have the members of an archive
instead of the archive.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import sys
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any, BinaryIO, TextIO, cast

from fairbound._errors import Message, message_of, missing_extra
from fairbound._files import read_json

DATA_FOLDER_VARIABLE = "FAIRBOUND_DATA"
LARGEST_MEMBER = 2**31
"""Largest size in bytes of a file in an archive; files of known data sets have up to half a billion bytes."""


@dataclass(frozen=True)
class DataFile:
    """A file identified by its checksum, or by its address.

    Parameters
    ----------
    filename : str
        Path in the data folder.
    sha256 : str, optional
        Checksum of the content (for a shipped file, of the uncompressed content). Without it, the checksum of the first
        download is recorded.
    origin : str
        Where to get the file, for error messages.
    shipped : bool
        Whether the package contains it, compressed, as `shipped/<filename>.gz`.
    url : str, optional
        Address to download it from; without it, the file must be in the data folder.
    members : mapping of str to str or None
        For a zip archive: the files in it that are read, with their checksums if known.
    """

    filename: str
    sha256: str | None
    origin: str
    shipped: bool = False
    url: str | None = None
    members: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Place:
    """Where to look for files.

    Parameters
    ----------
    data_dir : path, optional
        Folder to look at first; by default the environment variable FAIRBOUND_DATA.
    download : bool
        Whether files that are neither there nor in the cache may be downloaded.
    progress : bool, optional
        Whether to show the progress of downloads; by default on a terminal.
    """

    data_dir: str | os.PathLike[str] | None = None
    download: bool = True
    progress: bool | None = None

    @property
    def folder(self) -> Path | None:
        """Return the folder to look at first, or None."""
        named = self.data_dir if self.data_dir is not None else os.environ.get(DATA_FOLDER_VARIABLE)
        return Path(named) if named else None

    def has(self, file: DataFile) -> bool:
        """Return whether the folder has the file."""
        return self.folder is not None and (self.folder / file.filename).is_file()


@contextmanager
def open_verified(file: DataFile, place: Place) -> Iterator[list[BinaryIO]]:
    """Open a verified file, or the members of a verified archive, for reading."""
    with ExitStack() as stack:
        if file.shipped:
            packed = resources.files(__package__).joinpath("shipped", f"{file.filename}.gz").read_bytes()
            content = io.BytesIO(gzip.decompress(packed))
            verify(content, file.sha256, f"{file.filename} in this installation", file.origin)
            yield [content]
            return
        paths = locate(file, place)
        unpacked = paths[0].name in file.members
        streams = [cast(BinaryIO, stack.enter_context(path.open("rb"))) for path in paths]
        checksums = file.members.values() if unpacked else [file.sha256]
        for path, stream, checksum in zip(paths, streams, checksums, strict=True):
            verify(stream, checksum, str(path), file.origin)
        yield streams if unpacked or not file.members else _members(file, streams[0], paths[0], stack)


def locate(file: DataFile, place: Place) -> list[Path]:
    """Return the path of a file that is not shipped, or the paths of its members; download it if necessary.

    If the file is not found, the error says which file to put where.
    """
    folder = place.folder
    if folder is not None:
        path = folder / file.filename
        if path.is_file():
            return [path]
        loose = [path.parent / member for member in file.members]
        if loose and all(member.is_file() for member in loose):
            return loose
    missing = f"{file.filename} is not part of the package (origin: {file.origin})"
    if file.url is None:
        raise FileNotFoundError(Message("{missing}; {where}.", missing=missing, where=_where_to_put(file, folder)))
    try:
        return [download(file.filename, file.url, file.sha256, allowed=place.download, progress=place.progress)]
    except (DownloadError, ImportError) as error:
        reason = message_of(error)
        raise FileNotFoundError(
            Message(
                "{missing}, and cannot be downloaded: {reason}. Get {url} by other means, and {where}.",
                missing=missing,
                reason=reason if isinstance(reason, Message) else reason.rstrip("."),
                url=file.url,
                where=_where_to_put(file, folder),
            )
        ) from None  # the message has the reason; the traceback of the network library would fill a screen


def verify(stream: BinaryIO, checksum: str | None, place: str, origin: str) -> None:
    """Raise an error if the content does not have this checksum; rewind the stream."""
    if checksum is None:
        return
    found = hashlib.file_digest(stream, "sha256").hexdigest()  # type: ignore[arg-type]  # any binary file will do
    stream.seek(0)
    if found != checksum:
        raise ValueError(
            f"{place} has the SHA-256 checksum {found}, but the known file has {checksum}; "
            f"it is damaged or another version: get it again from its origin ({origin})."
        )


def _members(file: DataFile, stream: BinaryIO, path: Path, stack: ExitStack) -> list[BinaryIO]:
    try:
        archive = stack.enter_context(zipfile.ZipFile(stream))
        for member in file.members:
            size = archive.getinfo(member).file_size  # no more than this is ever unpacked
            if size > LARGEST_MEMBER:
                raise ValueError(
                    f"{path} contains {member} of {size / 2**30:,.1f} GiB, more than the {LARGEST_MEMBER / 2**30:g} "
                    f"that a data set may have; get it again from its origin ({file.origin})."
                )
        return [cast(BinaryIO, stack.enter_context(archive.open(member))) for member in file.members]
    except zipfile.BadZipFile as error:
        raise ValueError(f"{path} is not a zip archive; get it again from its origin ({file.origin}).") from error
    except KeyError as error:
        within, known = ", ".join(archive.namelist()[:8]), ", ".join(file.members)
        raise ValueError(
            f"{path} contains {within}, and not {known}; get it from its origin ({file.origin})."
        ) from error


def _where_to_put(file: DataFile, folder: Path | None) -> Message:
    """Return the part of an error message that says where to put a file."""
    if folder is None:
        return Message(
            "put it in a folder as {filename} and name that folder with {data_dir=} or the environment variable "
            "{variable}",
            filename=file.filename,
            variable=DATA_FOLDER_VARIABLE,
        )
    return Message("put it at {path}, or name the folder that has it with {data_dir=}", path=folder / file.filename)


# --- download --------------------------------------------------------------------------------------------------------

# A file with a known SHA-256 checksum is checked against it. For any other file the checksum of the first download is
# recorded in `<file>.sha256.json` beside it; later downloads are checked against that one. A download that fails, is
# cut off or has another content leaves no file.


CHUNK = 1 << 16  # bytes between two updates of the progress
LARGEST_RECORD = 1 << 16  # bytes; largest size of a record of a checksum


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
        checksum = read_json(record, LARGEST_RECORD)["sha256"]
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
