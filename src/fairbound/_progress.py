"""Print the progress of a fit as lines of text."""

from __future__ import annotations

import sys
from typing import Any, TextIO


class ProgressPrinter:
    """A callback that writes one line for each phase, or for each iteration.

    Parameters
    ----------
    verbose : int
        0 writes nothing, 1 a line for each phase, 2 a line for each iteration.
    stream : text stream, optional
        Output; standard output by default.
    """

    def __init__(self, verbose: int, stream: TextIO | None = None) -> None:
        self.verbose, self.stream = int(verbose), stream
        self.last: dict[str, Any] = {}

    def __call__(self, row: dict[str, Any]) -> None:
        """Process a row of the history."""
        if self.verbose > 1:
            self._write(row)
        elif self.verbose == 1 and self.last and self.last.get("phase") != row.get("phase"):
            self._write(self.last)
        self.last = row

    def close(self) -> None:
        """Write the line of the last phase."""
        if self.verbose == 1 and self.last:
            self._write(self.last)

    def _write(self, row: dict[str, Any]) -> None:
        number = row.get("iteration", row.get("epoch", 0))
        loss = row.get("f", row.get("objective", float("nan")))
        violation = row.get("violation", row.get("exact_violation", float("nan")))
        watched = "".join(
            f"  {name} {value:.4f}" for name, value in row.items() if name.startswith("eval ") and value == value
        )
        stream = self.stream or sys.stdout
        stream.write(
            f"{row.get('phase', ''):<9} {number:>4}  objective {loss:.6f}  violation {violation:.2e}{watched}\n"
        )
        stream.flush()
