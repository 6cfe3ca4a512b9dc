"""The histories of both solvers in one set of columns.

The rows of `TrainingResult.history` say of the point before each step what it does: loss, accuracy and both violations
(none in a phase without limits), and the smoothed share of wrong decisions where that is minimised.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

FLAGS = ("elastic", "locally_infeasible", "corrected")
"""What a step reports beside its numbers."""


def uniform_history(history: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one row for each iteration, all with the same keys, None where a solver does not know.

    >>> row = {"phase": "coarse", "loss": 0.4, "surrogate_violation": 0.02, "step_length": 1.0, "elastic": True}
    >>> uniform_history([row])[0]
    {'step': 0, 'phase': 'coarse', 'loss': 0.4, 'error': None, 'accuracy': None, 'surrogate_violation': 0.02,
     'exact_violation': None, 'step_length': 1.0, 'optimality': None, 'kept': None, 'flags': ['elastic']}
    """
    return [_uniform(step, row) for step, row in enumerate(history)]


def _uniform(step: int, row: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(row, Mapping):
        raise TypeError(f"history[{step}] is {row!r}; give a list of dictionaries, as TrainingResult.history is.")
    return {
        "step": step,
        "phase": row.get("phase"),
        "loss": row.get("loss"),
        "error": row.get("error"),
        "accuracy": row.get("accuracy"),
        "surrogate_violation": row.get("surrogate_violation"),
        "exact_violation": row.get("exact_violation"),
        "step_length": row.get("step_length"),
        "optimality": row.get("kkt_stationarity"),
        "kept": row.get("kept"),
        "flags": [flag for flag in FLAGS if row.get(flag)],
    }
