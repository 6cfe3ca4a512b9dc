"""Model files as a forger would write them, and JSON with one thing wrong: a seed gives the change."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import random
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


NUMBERS = [-1, 0, 1, 2, 3, 7, 999, -999, 2**31 - 1, -(2**31), 2**32, 2**40, 0.5, 1e38, 1e308, "x", "7", None, [], {}]

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


def forged_json(document: Any, draw: random.Random) -> str:
    """Change, remove, repeat, reverse, exchange or add a value; names are drawn first, then places with that name."""
    everywhere = list(places(document))
    path = draw.choice(everywhere)
    if draw.random() < 0.5:
        named = [tuple(key for key in each if isinstance(key, str)) for each in everywhere]
        name = draw.choice(sorted(set(named)))
        path = draw.choice([each for each, found in zip(everywhere, named, strict=True) if found == name])
    inner, key = at(document, path[:-1]), path[-1]
    what, old = draw.choice(["remove", "list", "swap", "add", "value", "value", "value"]), at(document, path)
    if what == "remove":
        del inner[key]
    elif what == "list" and isinstance(old, list):
        inner[key] = draw.choice([old * 2, old[:-1], old[::-1], [*old, *old[:1]]])
    elif what == "swap":
        inner[key] = copy.deepcopy(at(document, draw.choice(everywhere)))
    elif what == "add" and isinstance(old, dict):
        old[draw.choice(["extra", "", "kind"])] = draw.choice(WILD)(draw)
    else:
        new = draw.choice(NUMBERS) if draw.random() < 0.5 else draw.choice(WILD)(draw)
        inner[key] = str(new) if isinstance(old, str) and draw.random() < 0.5 else new
    return f"{what} {path}"
