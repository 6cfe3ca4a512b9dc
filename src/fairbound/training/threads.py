"""Run small problems on one thread: it is faster on a busy machine, and the result does not depend on the machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

ONE_THREAD_UP_TO = 3e7
"""Rows times parameters up to which a pass takes milliseconds on one thread, so that more threads gain little."""


@contextmanager
def suitable_threads(n_rows: int, n_parameters: int) -> Iterator[None]:
    """Use one torch thread for small problems, and restore the global number of threads afterwards.

    The rounding of sums over rows depends on the number of threads, and so can the model that a fit finds.
    """
    before = torch.get_num_threads()
    small = n_rows * n_parameters <= ONE_THREAD_UP_TO and before > 1
    if small:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        if small:
            torch.set_num_threads(before)
