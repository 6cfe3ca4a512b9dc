"""Model folders with one thing wrong each, as chance or a forger would make them: a seed gives a folder."""

from __future__ import annotations

import copy
import hashlib
import json
import random
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

DOCUMENT, WEIGHTS = "model.json", "weights.safetensors"


def seal(document: dict[str, Any], weights: bytes) -> bytes:
    """Return the document with checksums that fit, as a forger would write them."""
    document = {**document, "weights": {"file": WEIGHTS, "sha256": hashlib.sha256(weights).hexdigest()}}
    document.pop("sha256", None)
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    document["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    return json.dumps(document, indent=1).encode()


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a document."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in items:
        yield from places(entry, (*path, key))


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        value = value[step]
    return value


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


WILD: tuple[Callable[[random.Random], Any], ...] = (
    lambda draw: None,
    lambda draw: draw.random() < 0.5,
    lambda draw: draw.choice([0, -1, 1, 2, 3, 2**31, 2**63, -(2**70), 10**300, 10**4000]),
    lambda draw: draw.choice([0.0, -0.0, 0.5, 1.0, 1e-320, -1e308, 1e308, 5e-324, float(2**60)]),
    lambda draw: draw.choice(["", "x", "a" * 100_000, "\x00", "\x1b[31m", "\u202e", "\ud800", "é" * 50, "\U0001f600"]),
    lambda draw: draw.choice(["O", "V8", "U500000000", "<U99999999", "|S500000000", "f16", "object", "<M8[s]"]),
    lambda draw: draw.choice(
        ["os.system", "__import__('os')", "../../etc/passwd", "Linear", "GELU", "Softplus", "ELU"]
    ),
    lambda draw: [draw.randint(-3, 3) for _ in range(draw.randint(0, 4))],
    lambda draw: [draw.choice([None, "x", 1.5, True, {}]) for _ in range(3)],
    lambda draw: {draw.choice(["", "kind", "name", "x"]): draw.choice([1, "x", None, []])},
    lambda draw: nested(draw.choice([2, 12, 15, 30, 900])),
    lambda draw: [0] * draw.choice([50, 5000]),
)


class Mutations:
    """Mutations of a saved model; `write(seed, folder)` writes one and returns what was done."""

    def __init__(self, saved: Path) -> None:
        self.document = json.loads((saved / DOCUMENT).read_text())
        self.text, self.weights = (saved / DOCUMENT).read_bytes(), (saved / WEIGHTS).read_bytes()
        # Most of a document is its history; the other places are to have their share.
        everywhere = [place for place in places(self.document) if place]
        self.places = [place for place in everywhere if "history" not in place]
        self.places += [place for place in everywhere if "history" in place][:20]

    def write(self, seed: int, folder: Path) -> str:
        draw = random.Random(seed)
        kind = draw.choice(
            [self.value, self.value, self.value, self.swap, self.shape, self.raw, self.number, self.tensor]
        )
        text, weights, said = kind(draw)
        (folder / DOCUMENT).write_bytes(text)
        (folder / WEIGHTS).write_bytes(weights)
        return f"{kind.__name__}: {said}"

    def _forged(self, draw: random.Random) -> tuple[dict[str, Any], tuple[Any, ...], Any]:
        """A copy of the document, a place in it, and what the place is in."""
        document = copy.deepcopy(self.document)
        place = draw.choice(self.places)
        return document, place, at(document, place[:-1])

    def value(self, draw: random.Random) -> tuple[bytes, bytes, str]:
        """A value of another type or size."""
        document, place, inner = self._forged(draw)
        new = draw.choice(WILD)(draw)
        inner[place[-1]] = new
        return seal(document, self.weights), self.weights, f"{place} = {new!r:.60}"

    def swap(self, draw: random.Random) -> tuple[bytes, bytes, str]:
        """A value from elsewhere in the document."""
        document, place, inner = self._forged(draw)
        other = draw.choice(self.places)
        inner[place[-1]] = copy.deepcopy(at(self.document, other))
        return seal(document, self.weights), self.weights, f"{place} = {other}"

    def shape(self, draw: random.Random) -> tuple[bytes, bytes, str]:
        """A part that is missing, doubled, or one too many."""
        document, place, inner = self._forged(draw)
        what = draw.choice(["remove", "double", "reverse", "add"])
        here = at(document, place)
        if what == "remove":
            del inner[place[-1]]
        elif what == "double" and isinstance(here, list):
            here += copy.deepcopy(here)
        elif what == "reverse" and isinstance(here, list):
            here.reverse()
        elif isinstance(here, dict):
            here[draw.choice(["extra", "", "kind"])] = draw.choice(WILD)(draw)
        elif isinstance(inner, list):
            inner.append(copy.deepcopy(here))
        return seal(document, self.weights), self.weights, f"{what} {place}"

    def raw(self, draw: random.Random) -> tuple[bytes, bytes, str]:
        """Bytes that changed, or are missing, or a name that stands twice."""
        text, weights = self.text, self.weights
        where = draw.randrange(len(text))
        what = draw.choice(["flip", "cut", "cut weights", "flip weights", "twice", "byte order", "insert"])
        if what == "flip":
            text = text[:where] + bytes([text[where] ^ 1 << draw.randrange(8)]) + text[where + 1 :]
        elif what == "cut":
            text = text[:where]
        elif what == "cut weights":
            weights = weights[: draw.randrange(len(weights))]
            text = seal(self.document, weights)
        elif what == "flip weights":
            weights = self._flipped(draw, weights, 8, len(weights))
            text = seal(self.document, weights)
        elif what == "twice":
            text = text.replace(b'"version": 1', b'"version": 1, "version": 1', 1)
        elif what == "byte order":
            text = draw.choice([b"\xef\xbb\xbf" + text, text.decode().encode("utf-16")])
        else:
            text = text[:where] + bytes(draw.randrange(256) for _ in range(draw.randint(1, 20))) + text[where:]
        return text, weights, f"{what} {where}"

    def number(self, draw: random.Random) -> tuple[bytes, bytes, str]:
        """A number that JSON lacks, or that Python makes infinite, with a checksum that fits."""
        document, place, inner = self._forged(draw)
        inner[place[-1]] = draw.choice([float("nan"), float("inf"), -float("inf")])
        text = seal(document, self.weights)
        if draw.random() < 0.5:
            text = text.replace(b"-Infinity", b"-1e999").replace(b"Infinity", b"1e999")
        return text, self.weights, f"{place} = {inner[place[-1]]}"

    def tensor(self, draw: random.Random) -> tuple[bytes, bytes, str]:
        """Another header of the weights, or other weights."""
        size = int.from_bytes(self.weights[:8], "little")
        header, data = json.loads(self.weights[8 : 8 + size]), self.weights[8 + size :]
        name = draw.choice([each for each in header if each != "__metadata__"])
        entry, claimed = header[name], None
        what = draw.choice(["shape", "dtype", "offsets", "size", "rename", "remove", "doubles", "metadata", "alias"])
        if what == "shape":
            entry["shape"] = draw.choice([[], [2**40], [2**32, 2**32], [0], [-1], [1.5], "x", [1] * 50, [10**30], None])
        elif what == "dtype":
            entry["dtype"] = draw.choice(["F32", "I64", "BOOL", "F8_E4M3", "U500000000", None, 7, "C64"])
        elif what == "offsets":
            entry["data_offsets"] = draw.choice(
                [[0, 2**50], [-8, 8], [8, 0], [0], None, [0, 8, 16], [1, 9], [0.0, 8.0]]
            )
        elif what == "size":
            claimed = draw.choice([0, 1, size - 1, size + 8, 2**40, 2**64 - 1])
        elif what == "rename":
            header[draw.choice(["", "9.weight", "x" * 1000])] = header.pop(name)
        elif what == "remove":
            del header[name]
        elif what == "doubles":
            values = [draw.choice([1e308, -1e308, 1e-320, 1e200, float("nan"), float("inf"), 3.0]) for _ in range(3)]
            place = 8 * draw.randrange(max(1, len(data) // 8 - 3))
            data = data[:place] + struct.pack("<3d", *values) + data[place + 24 :]
        elif what == "metadata":
            header["__metadata__"] = draw.choice([{"x": "y"}, {"x": 1}, 3, nested(40)])
        else:
            header["alias"] = dict(entry)
        written = json.dumps(header).encode()
        weights = struct.pack("<Q", len(written) if claimed is None else claimed) + written + data
        return seal(self.document, weights), weights, f"{what} of {name}"

    @staticmethod
    def _flipped(draw: random.Random, data: bytes, start: int, end: int) -> bytes:
        found = bytearray(data)
        for _ in range(draw.randint(1, 4)):
            found[draw.randrange(start, end)] ^= 1 << draw.randrange(8)
        return bytes(found)
