"""Model files with one thing wrong each, as chance or a forger would make them: a seed gives a file."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import random
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

DOCUMENT = "model.json"


def seal(model: dict[str, Any], data: bytes, **header: Any) -> bytes:
    """Return the file of a model with a checksum that fits, as a forger would write it."""
    text = json.dumps(model).encode()
    stated = {"format": "fairbound-model", "version": 1, "written_by": {}, **header}
    stated["sha256"] = hashlib.sha256(text + data).hexdigest()
    return b'%s,"model":%s,"data":"%s"}' % (json.dumps(stated).encode()[:-1], text, base64.b64encode(data))


def unsealed(file: Path) -> tuple[dict[str, Any], bytes]:
    """Return the model and the data of a file."""
    document = json.loads(file.read_text())
    return document["model"], base64.b64decode(document["data"])


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a model; of the history, which would be most of it, only the first line."""
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in items:
        if path[-1:] != ("history",) or key == 0:
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
    lambda draw: draw.choice(["os.system", "../../etc/passwd", "Linear", "GELU", "Softplus", "ELU"]),
    lambda draw: [draw.randint(-3, 3) for _ in range(draw.randint(0, 4))],
    lambda draw: [draw.choice([None, "x", 1.5, True, {}]) for _ in range(3)],
    lambda draw: {draw.choice(["", "kind", "name", "x"]): draw.choice([1, "x", None, []])},
    lambda draw: nested(draw.choice([2, 12, 15, 30, 900])),
    lambda draw: [0] * draw.choice([50, 5000]),
    lambda draw: [2 ** draw.randint(10, 62)] * draw.randint(1, 3),
    lambda draw: draw.choice([float("nan"), float("inf"), -float("inf")]),
)


class Mutations:
    """Mutations of a saved model; `write(seed, folder)` writes one and returns what was done."""

    def __init__(self, saved: Path) -> None:
        self.text = (saved / DOCUMENT).read_bytes()
        self.model, self.data = unsealed(saved / DOCUMENT)
        self.places = list(places(self.model))

    def write(self, seed: int, folder: Path) -> str:
        draw = random.Random(seed)
        kind = draw.choice([self.value, self.value, self.value, self.swap, self.shape, self.raw, self.weights])
        text, said = kind(draw)
        (folder / DOCUMENT).write_bytes(text)
        return f"{kind.__name__}: {said}"

    def value(self, draw: random.Random) -> tuple[bytes, str]:
        """A value of another type or size, or a number that JSON lacks."""
        model, place = copy.deepcopy(self.model), draw.choice(self.places)
        new = draw.choice(WILD)(draw)
        at(model, place[:-1])[place[-1]] = new
        return seal(model, self.data), f"{place} = {new!r:.60}"

    def swap(self, draw: random.Random) -> tuple[bytes, str]:
        """A value from elsewhere in the model."""
        model, place, other = copy.deepcopy(self.model), draw.choice(self.places), draw.choice(self.places)
        at(model, place[:-1])[place[-1]] = copy.deepcopy(at(self.model, other))
        return seal(model, self.data), f"{place} = {other}"

    def shape(self, draw: random.Random) -> tuple[bytes, str]:
        """A part that is missing, doubled, or one too many."""
        model, place = copy.deepcopy(self.model), draw.choice(self.places)
        what, here, inner = draw.choice(["remove", "double", "reverse", "add"]), at(model, place), at(model, place[:-1])
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
        return seal(model, self.data), f"{what} {place}"

    def raw(self, draw: random.Random) -> tuple[bytes, str]:
        """Bytes that changed, or are missing, or a name that stands twice."""
        text, where = self.text, draw.randrange(len(self.text))
        what = draw.choice(["flip", "cut", "twice", "byte order", "insert"])
        if what == "flip":
            text = text[:where] + bytes([text[where] ^ 1 << draw.randrange(8)]) + text[where + 1 :]
        elif what == "cut":
            text = text[:where]
        elif what == "twice":
            text = text.replace(b'"version":1', b'"version":1,"version":1', 1)
        elif what == "byte order":
            text = draw.choice([b"\xef\xbb\xbf" + text, text.decode().encode("utf-16")])
        else:
            text = text[:where] + bytes(draw.randrange(256) for _ in range(draw.randint(1, 20))) + text[where:]
        return text, f"{what} {where}"

    def weights(self, draw: random.Random) -> tuple[bytes, str]:
        """Other weights, or other claims about them."""
        model, data = copy.deepcopy(self.model), bytearray(self.data)
        entry, what = draw.choice(model["arrays"]), draw.choice(["shape", "dtype", "rename", "alias", "cut", "doubles"])
        if what == "shape":
            entry["shape"] = draw.choice([[], [2**40], [2**32, 2**32], [0], [-1], [1.5], "x", [1] * 50, [10**30], None])
        elif what == "dtype":
            entry["dtype"] = draw.choice(["<f4", "<i8", "|b1", "<f16", "<U500000000", "|O", None, 7, "<c8"])
        elif what == "rename":
            entry["name"] = draw.choice(["", "9.weight", "x" * 1000])
        elif what == "alias":
            model["arrays"].append(dict(entry))
        elif what == "cut":
            del data[draw.randrange(len(data)) :]
        else:
            values = [draw.choice([1e308, -1e308, 1e-320, 1e200, float("nan"), float("inf"), 3.0]) for _ in range(3)]
            place = 8 * draw.randrange(max(1, len(data) // 8 - 3))
            data[place : place + 24] = struct.pack("<3d", *values)
        return seal(model, bytes(data)), f"{what} of {entry}"
