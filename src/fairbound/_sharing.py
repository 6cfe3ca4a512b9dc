"""Values of all processes that share the rows; `processes` is None where there is one."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")


def total(values: NDArray[Any], processes: Any) -> NDArray[Any]:
    """Return the sum of the arrays of all processes."""
    found: NDArray[Any] = values if processes is None else processes.sum(values)
    return found


def gathered(value: T, processes: Any) -> list[T]:
    """Return the values of all processes, in the order of their ranks."""
    found: list[T] = [value] if processes is None else processes.gather(value)
    return found


def joined(values: NDArray[Any], processes: Any) -> NDArray[Any]:
    """Return the values of the rows of all processes, those of the first process first."""
    return values if processes is None else np.concatenate(processes.gather(values))


def rows_before(count: int, processes: Any) -> int:
    """Return the number of rows of the processes before this one."""
    return 0 if processes is None else sum(processes.gather(count)[: processes.rank])
