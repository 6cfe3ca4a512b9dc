"""The file of a data set: find it, download it if needed, and check the content (SHA-256).

A file is part of the package, or in a folder (the argument `data_dir`, else the environment variable FAIRBOUND_DATA,
read at the time of the call), or downloaded into the user's cache. The folder may also have the members of an archive
instead of the archive.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import BinaryIO, cast

from fairbound._errors import Message, message_of
from fairbound.data.download import DownloadError, download

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
