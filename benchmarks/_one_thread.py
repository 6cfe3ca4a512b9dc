"""One thread for everything that is timed.  Import this before numpy, and call `hold` once torch may be imported."""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "LOKY_MAX_CPU_COUNT"):
    os.environ[_name] = "1"  # the libraries read them when they are loaded


def hold() -> None:
    """Hold torch to one thread, too."""
    import torch

    torch.set_num_threads(1)
