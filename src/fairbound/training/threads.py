"""Small problems run on one thread: faster on a busy machine, and the same result whatever the machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

ONE_THREAD_UP_TO = 3e7
"""Rows times parameters up to which a pass takes milliseconds on one thread, and more threads win little."""


@contextmanager
def suitable_threads(n_rows: int, n_parameters: int) -> Iterator[None]:
    """Use one thread of torch for small problems; the number of threads, which is global, is put back afterwards.

    Sums over rows are rounded differently by another number of threads, and a fit under limits can end elsewhere for
    it.  On one thread it cannot.
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
