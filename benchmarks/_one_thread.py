"""One thread for everything that is timed.  Import this before numpy, and call `hold` once torch may be imported."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "LOKY_MAX_CPU_COUNT"):
    os.environ[_name] = "1"  # the libraries read them when they are loaded


def hold() -> None:
    """Hold torch to one thread, too."""
    import torch

    torch.set_num_threads(1)


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Allow several threads within the context."""
    import torch
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        with threadpool_limits(count):
            yield
    finally:
        torch.set_num_threads(before)
