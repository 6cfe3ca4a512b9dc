"""Fixtures of the data tests: a local server, a temporary cache, and files in various formats."""

from __future__ import annotations

import io
import threading
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from fairbound.data import DATASETS
from fairbound.data.catalogue import ADULT_COLUMNS


@dataclass
class Answer:
    """What the server sends: a content, or less of it than it promised."""

    content: bytes = b""
    status: int = 200
    cut_at: int | None = None


@dataclass
class Server:
    """A web server on this machine, with what it answers and how often it was asked."""

    address: str
    answers: dict[str, Answer] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)

    def serve(self, path: str, content: bytes = b"", *, status: int = 200, cut_at: int | None = None) -> str:
        """Let the server answer at a path, and return the address."""
        self.answers[path] = Answer(content, status, cut_at)
        return f"{self.address}/{path}"


@pytest.fixture
def server(monkeypatch) -> Iterator[Server]:
    """Run a server in a thread; requests to it must not go through a proxy."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.lstrip("/")
            state.asked[path] += 1
            answer = state.answers.get(path, Answer(status=404))
            self.send_response(answer.status)
            self.send_header("Content-Length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content[: answer.cut_at])

        def log_message(self, *arguments: object) -> None:
            """Stay silent."""

    web = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state = Server(f"http://127.0.0.1:{web.server_port}")
    thread = threading.Thread(target=web.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield state
    web.shutdown()
    web.server_close()
    thread.join()


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    """Give each test an empty cache, so that none touches that of the user."""
    folder = tmp_path / "cache"
    monkeypatch.setattr("fairbound.data.download.cache_folder", lambda: folder)
    return folder


@pytest.fixture
def nobody() -> str:
    """An address on this machine where nobody answers."""
    closed = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    closed.server_close()
    return f"http://127.0.0.1:{closed.server_port}"


def files_in(folder: Path) -> list[str]:
    """Return the files in a folder and below it."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def adult_rows(rows: int, seed: int) -> list[dict[str, str]]:
    """Draw rows from the published values of each column, with missing ones where the real file has some."""
    random = np.random.default_rng(seed)
    source = DATASETS["adult"]
    words = {
        column.name: ["?" if word is None else word for word in column.labels]
        for column in source.inputs
        if column.categorical
    }
    words |= {column.column: list(column.labels) for column in source.sensitive}
    words |= {"education": ["Bachelors", "HS-grad"], "income": ["<=50K", ">50K"]}
    return [
        {
            name: str(random.choice(words[name])) if name in words else str(random.integers(0, 99))
            for name in ADULT_COLUMNS
        }
        for _ in range(rows)
    ]


def adult_members(first: list[dict[str, str]], second: list[dict[str, str]]) -> dict[str, bytes]:
    """Write rows in the form of the two published files, with their peculiarities."""
    lines = {
        "adult.data": [", ".join(row.values()) for row in first] + ["", ""],
        "adult.test": ["|1x3 Cross validator", *(", ".join(row.values()) + "." for row in second), ""],
    }
    return {name: "\n".join(text).encode() for name, text in lines.items()}


def zipped(members: dict[str, bytes]) -> bytes:
    """Return a zip archive."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return content.getvalue()


@pytest.fixture
def small_adult(tmp_path, monkeypatch) -> Callable[[], Path]:
    """Return a function that puts a small archive in Adult's form in a folder, and returns the folder."""

    def put() -> Path:
        folder = tmp_path / "adult"
        folder.mkdir()
        content = zipped(adult_members(adult_rows(60, 1), adult_rows(40, 2)))
        (folder / "adult.zip").write_bytes(content)
        source = DATASETS["adult"]
        monkeypatch.setitem(DATASETS, "adult", replace(source, file=replace(source.file, sha256=None)))
        return folder

    return put


def person_file(rows: int, seed: int, relationship: str = "RELP") -> bytes:
    """Write a person file of the Census: a few of its 286 columns in their order, children and people without work."""
    random = np.random.default_rng(seed)
    names = f"RT,SERIALNO,PWGTP,AGEP,COW,MAR,{relationship},SCHL,SEX,WKHP,OCCP,PINCP,POBP,RAC1P,SOCP,PWGTP1".split(",")
    lines = [",".join(names)]
    for number in range(rows):
        age = int(random.integers(0, 90))
        works = age > 14 and random.random() < 0.8
        values = {
            "RT": "P",
            "SERIALNO": f"2018GQ{number:07}",
            "PWGTP": int(random.integers(0, 150)),
            "AGEP": f"{age:02}",
            "COW": int(random.integers(1, 9)) if works else "",
            "MAR": int(random.integers(1, 6)),
            relationship: int(random.integers(20, 39) if relationship == "RELSHIPP" else random.integers(0, 18)),
            "SCHL": f"{random.integers(1, 25):02}" if age > 2 else "",
            "SEX": int(random.integers(1, 3)),
            "WKHP": int(random.integers(1, 99)) if works else "",
            "OCCP": f"{random.choice([10, 510, 1005, 4220, 9610]):04}" if works else "",
            "PINCP": int(random.choice([-500, 0, 100, 101, 49_999, 50_000, 50_001, 120_000])) if age > 14 else "",
            "POBP": f"{random.choice([6, 72, 110, 233, 303]):03}",
            "RAC1P": int(random.integers(1, 10)),
            "SOCP": "1110XX" if works else "",
            "PWGTP1": int(random.integers(0, 150)),
        }
        lines.append(",".join(str(values[name]) for name in names))
    return ("\n".join(lines) + "\n").encode()
