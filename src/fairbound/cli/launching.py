"""Runs that a launcher such as torchrun has started in several processes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from fairbound._errors import need_torch
from fairbound.cli.output import Output

if TYPE_CHECKING:
    from fairbound.training import Processes

TIME_OUT = timedelta(minutes=30)
"""If another process does not answer for this time, a run ends."""


@contextmanager
def shared_run() -> Iterator[Processes | None]:
    """Join the processes that a launcher such as torchrun has started, and yield them; None without a launcher."""
    if not {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} <= set(os.environ):
        yield None
        return
    need_torch("Several processes need")
    import torch
    import torch.distributed as dist

    from fairbound.training import Processes

    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo", timeout=TIME_OUT)
    try:
        yield Processes.present()
    finally:
        dist.destroy_process_group()


def own_output(processes: Processes | None, out: Path, output: Output, scratch: ExitStack) -> tuple[Path, Output]:
    """Return the folder and the output of this process; all but the first write to a temporary folder, silently."""
    if processes is None or not processes.rank:
        return out, output
    return Path(scratch.enter_context(tempfile.TemporaryDirectory())) / "out", Output(False, True)
