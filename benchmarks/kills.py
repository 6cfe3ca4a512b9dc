"""Kill commands at random moments: nothing is lost, nothing is half-written, and at most one solve is repeated.

Each turn forks a command, in memory, streamed or in two processes, and kills it after a random share of its processor
time.  Its output must then be absent or whole.  The same command with `--resume` must end with the files of a run that
nobody killed, after at most one solve more than that run has.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import shutil
import socket
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch.distributed  # noqa: F401 (a fork has it already)

import fairbound.estimator
import fairbound.report
import fairbound.studies  # noqa: F401 (likewise)
from fairbound import load
from fairbound.cli import main
from fairbound.studies import read_summary
from fairbound.training import Passes, as_model

GIVEN = [
    "rows.parquet",
    "--target",
    "y",
    "--sensitive",
    "group",
    "--model",
    "linear",
    "--resume",
    "--checkpoint",
    "0.001",
]
COMMANDS = {
    "train": ["train", *GIVEN, "--require", "disparate_impact >= 0.9"],
    "frontier": ["frontier", *GIVEN, "--measure", "disparate_impact", "--bounds", "0.7", "0.9"],
    "predict": ["predict", "trained", "many.parquet"],
}
WAYS: dict[str, tuple[int, list[str]]] = {"memory": (1, []), "streamed": (1, ["--memory", "1KB"]), "two": (2, [])}
SOLVES = "solves"
"""The file to which the first process adds a byte for each solve that it begins."""


def rows(count: int) -> pa.Table:
    """Return rows whose limit binds."""
    draw = np.random.default_rng(0)
    group = draw.choice(["a", "b"], count)
    X = draw.normal(size=(count, 3)) - 0.5 * (group == "b")[:, None]
    y = (X.sum(axis=1) + draw.logistic(size=count) > 0).astype(int)
    return pa.table({**{f"x{place}": column for place, column in enumerate(X.T)}, "group": group, "y": y})


def work(arguments: list[str], folder: Path, rank: int, count: int, port: int) -> None:
    """Run a command in a forked process, and count its solves."""
    os.chdir(folder)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    if count > 1:
        os.environ |= {
            "RANK": str(rank),
            "WORLD_SIZE": str(count),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
        }
    remember = Passes.remember

    def counted(self: Passes, key: Any, compute: Any, restore: Any = None) -> Any:
        def begun() -> Any:
            if rank == 0:
                with Path(SOLVES).open("ab") as file:
                    file.write(b".")
            return compute()

        return remember(self, key, begun, restore)

    Passes.remember = counted  # type: ignore[method-assign]
    code: Any = 70
    try:
        main(arguments)
    except SystemExit as end:
        code = end.code
    finally:
        os._exit(code if isinstance(code, int) else 70)


def run(arguments: list[str], folder: Path, count: int, seconds: float = float("inf")) -> tuple[list[int], float]:
    """Run a command in processes; kill them after some seconds of processor time.  Return how they ended, and these."""
    context = multiprocessing.get_context("fork")
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    processes = [context.Process(target=work, args=(arguments, folder, rank, count, port)) for rank in range(count)]
    for process in processes:
        process.start()
    spent, until = 0.0, time.monotonic() + 300
    while any(process.is_alive() for process in processes):
        try:
            fields = Path(f"/proc/{processes[0].pid}/stat").read_text().rpartition(")")[2].split()
            spent = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        except FileNotFoundError:
            pass
        if spent >= seconds or time.monotonic() > until:
            for process in processes:
                process.kill()
        time.sleep(0.002)
    for process in processes:
        process.join()
    return [int(process.exitcode or 0) for process in processes], spent


def content(out: Path, name: str) -> Any:
    """Return what a command has written, as far as it does not depend on the time; an error if it is not whole."""
    if name == "predict":
        return pq.read_table(out).to_pydict()
    summary = read_summary(out / "summary.json")
    assert (out / "report.html").read_text(encoding="utf-8").rstrip().endswith("</html>")
    models = [out / "model", *sorted((out / "models").glob("*"))]
    return [as_model(load(each).model_).current().tolist() for each in models], summary.kept


def solves(folder: Path) -> int:
    """Return the number of solves begun since the last question."""
    file = folder / SOLVES
    found = file.stat().st_size if file.exists() else 0
    file.unlink(missing_ok=True)
    return found


def attack(folder: Path, kills: int) -> dict[str, dict[str, int]]:
    """Kill commands; return what was counted for each."""
    draw, counts = random.Random(0), {}
    cases = [(name, way) for name in COMMANDS for way in WAYS if not (name == "predict" and way == "two")]
    for place, (name, way) in enumerate(cases):
        count, further = WAYS[way]
        suffix = ".parquet" if name == "predict" else ""
        reference = folder / f"whole-{name}-{way}{suffix}"
        codes, seconds = run([*COMMANDS[name], *further, "--out", reference.name], folder, count)
        assert {*codes} <= {0, 1}, (name, way, codes)
        expected, own = content(reference, name), solves(folder)
        found = counts[f"{name}, {way}"] = {"kills": 0, "whole": 0, "resumed": 0, "most_repeated": 0}
        for turn in range(kills // len(cases) + (place < kills % len(cases))):
            out = folder / f"out-{turn}{suffix}"
            arguments = [*COMMANDS[name], *further, "--out", out.name]
            codes, _ = run(arguments, folder, count, draw.uniform(0.0, seconds))
            found["kills"] += any(code < 0 for code in codes)
            begun = solves(folder)
            if out.exists():
                found["whole"] += 1
                assert content(out, name) == expected
            else:
                found["resumed"] += (folder / f"{out.name}.journal").exists()
                codes, _ = run(arguments, folder, count)
                assert {*codes} <= {0, 1}, (name, way, turn, codes)
                assert content(out, name) == expected, (name, way, turn)
                if (folder / f"{out.name}.journal").exists():
                    raise AssertionError("the journal is left")
                repeated = begun + solves(folder) - own
                found["most_repeated"] = max(found["most_repeated"], repeated)
            for each in folder.glob("out-*"):
                shutil.rmtree(each) if each.is_dir() else each.unlink()
            for each in folder.glob(".fairbound-*"):
                shutil.rmtree(each)
        print(f"{name}, {way}: {found}", flush=True)
    return counts


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--rows", type=int, default=1500)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        pq.write_table(rows(asked.rows), place / "rows.parquet", row_group_size=300)
        pq.write_table(rows(100_000), place / "many.parquet")
        codes, _ = run([*COMMANDS["train"], "--out", "trained"], place, 1)
        assert {*codes} <= {0, 1}, codes
        solves(place)
        print(json.dumps(attack(place, asked.kills)))
