"""Bytes of base models with one thing wrong each, and a program that reads and uses many of them.

Run as a program, with the first seed and the last, and then kind, file and number of classes of each good model.
"""

from __future__ import annotations

import io
import json
import random
import re
import resource
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parents[2]))
from tests.persistence.mutations import forged_json  # beside this program

WORDS = ["-1", "0", "1", "2", "7", "999", "-999", "2147483647", "-2147483648", "4294967296", "9999999999999", "1e308"]
WORDS += ["nan", "inf", "", "x", "0.5", "-0.5", "1_0", "40000000000"]


def forged_lightgbm(good: bytes, draw: random.Random) -> bytes:
    """Change, remove, repeat or exchange a word or a line of LightGBM's text."""
    lines = good.decode().splitlines()
    place = draw.choice([number for number, line in enumerate(lines) if line])
    what = draw.randrange(8)
    if what == 0:
        del lines[place]
    elif what == 1:
        lines.insert(place, draw.choice(lines))
    elif what == 2:
        other = draw.randrange(len(lines))
        lines[place], lines[other] = lines[other], lines[place]
    elif what == 3:
        data = bytearray(good)
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(7)
        return bytes(data)
    else:
        name, sign, values = lines[place].partition("=")
        words = values.split(" ")
        position = draw.randrange(len(words))
        words[position] = draw.choice([*WORDS, *re.findall(r"[-\d.e]+", draw.choice(lines))])
        if draw.random() < 0.2:
            words = words[:position] if what == 4 else words * 2
        lines[place] = name + sign + " ".join(words)
    return "\n".join(lines).encode()


def forged_xgboost(good: bytes, draw: random.Random) -> bytes:
    """Change XGBoost's JSON."""
    document = json.loads(good)
    forged_json(document, draw)
    return json.dumps(document).encode()


def forged_skops(good: bytes, draw: random.Random) -> bytes:
    """Change the schema, a value of an array, its header or its bytes, or the archive."""
    with zipfile.ZipFile(io.BytesIO(good)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    what = draw.randrange(6)
    arrays = [name for name in files if name.endswith(".npy")]
    if what == 0:
        data = bytearray(good)
        for _ in range(draw.randint(1, 3)):
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        return bytes(data)
    if what == 1 or not arrays:
        document = json.loads(files["schema.json"])
        forged_json(document, draw)
        files["schema.json"] = json.dumps(document).encode()
    elif what == 2:
        name = draw.choice(arrays)
        header = draw.choice([b"(1099511627776,)", b"(0,)", b"(1,)", b"(3, 3)", b"()", b"(-1,)", b"(2, 99999999999)"])
        files[name] = re.sub(rb"'shape': \([^)]*\)", b"'shape': " + header, files[name], count=1)
    elif what == 3:
        one, other = draw.choice(arrays), draw.choice(arrays)
        files[one], files[other] = files[other], files[one]
    else:
        name = draw.choice(arrays)
        array = np.load(io.BytesIO(files[name]), allow_pickle=False)
        if array.size:
            array = array.copy()
            field = draw.choice(array.dtype.names) if array.dtype.names else ...
            part = array[field] if array.dtype.names else array
            with np.errstate(all="ignore"):
                new = draw.choice([-1, 0, 1, 2, 7, 255, 999, 2**31 - 1, -(2**31), 2**40, float("nan"), 1e308])
                part.reshape(-1)[draw.randrange(part.size)] = np.array(new).astype(part.dtype, casting="unsafe")
            buffer = io.BytesIO()
            np.save(buffer, array if array.size == 1 or draw.random() < 0.8 else array[: len(array) // 2])
            files[name] = buffer.getvalue()
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return made.getvalue()


FORGERS: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "lightgbm": forged_lightgbm,
    "xgboost": forged_xgboost,
    "skops": forged_skops,
}


def main() -> None:
    """Read and use the forged models of the seeds; print each name and seed before, and its time and outcome after."""
    from fairbound._errors import InputError
    from fairbound.estimator import BaseModel, RawColumns
    from fairbound.persistence.bases import _read

    sys.stdout.reconfigure(errors="backslashreplace")  # a reason may quote half characters
    first, last = map(int, sys.argv[1:3])
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 4)) * 3
    X[:, 1] = rng.integers(-1, 50, 50)
    X[rng.random((50, 4)) < 0.1] = np.nan
    resource.setrlimit(resource.RLIMIT_AS, (2**33, 2**33))
    for kind, path, n_classes in zip(sys.argv[3::3], map(Path, sys.argv[4::3]), map(int, sys.argv[5::3]), strict=True):
        good, table = path.read_bytes(), np.nan_to_num(X) if path.name == "sklearn_pipeline" else X
        for seed in range(first, last):
            sys.stdout.write(f"{path.name} {seed} ")
            sys.stdout.flush()
            start = time.monotonic()
            data = FORGERS[kind](good, random.Random(seed))
            try:
                model = _read(kind, "Base", data, n_classes)
                BaseModel(model, RawColumns()).outputs(table, range(n_classes))
                outcome = "predicted"
            except InputError as error:
                outcome = f"refused-rows {error}"
            except ValueError as error:
                outcome = f"refused {error}"
            sys.stdout.write(f"{time.monotonic() - start:.2f} {' '.join(outcome.split())[:200]}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
