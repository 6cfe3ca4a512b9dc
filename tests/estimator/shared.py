"""Processes that share a fit: each calls a function inside a process group, and returns what it found."""

from __future__ import annotations

import multiprocessing
import tempfile
import warnings
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch.distributed as dist


def _work(rank: int, count: int, path: str, function: Callable[[int], Any], found: Any) -> None:
    warnings.simplefilter("ignore")
    dist.init_process_group(
        "gloo", init_method=f"file://{path}", rank=rank, world_size=count, timeout=timedelta(seconds=100)
    )
    try:
        result = function(rank)
    except Exception as error:  # noqa: BLE001  # it travels to the test
        result = error
    found.put((rank, result))
    found.close()
    found.join_thread()


def in_processes(count: int, function: Callable[[int], Any]) -> list[Any]:
    """Return what the function returns, or raises, in each of several processes."""
    context = multiprocessing.get_context("fork")  # the rows need not be copied, nor torch imported again
    found = context.Queue()
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "group")
        processes = [
            context.Process(target=_work, args=(rank, count, path, function, found), daemon=True)
            for rank in range(count)
        ]
        for process in processes:
            process.start()
        results = dict(found.get(timeout=200) for _ in processes)
        for process in processes:
            process.join(20)
    return [results[rank] for rank in range(count)]
