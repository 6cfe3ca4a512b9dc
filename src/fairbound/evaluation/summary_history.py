"""The histories of both solvers in one set of columns.

The rows of `TrainingResult.history` say of the point before each step what their solver knows there: a stochastic run
has loss, accuracy and both violations after each epoch; the phases of a whole-pass fit have one objective and one
violation, whose meaning depends on the phase (see `fairbound.training.fit`):

    free       loss                                             no limits yet
    coarse     loss                                             violation by surrogate
    exact      loss                                             violation by decisions, half a row inside the bounds
    accurate   smoothed share of wrong decisions                the same, and the excess of the loss over its limit
    sample     mini-batches, with the columns of a stochastic run
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

PHASES: dict[str, tuple[str, str | None]] = {
    "free": ("loss", None),
    "coarse": ("loss", "surrogate_violation"),
    "exact": ("loss", "exact_violation"),
    "accurate": ("error", "exact_violation"),
}
"""What objective and violation of a phase are."""

FLAGS = ("elastic", "locally_infeasible", "corrected")
"""What a step reports beside its numbers."""


def uniform_history(history: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one row for each iteration, all with the same keys, None where a solver does not know.

    >>> row = {"phase": "coarse", "iteration": 3, "f": 0.4, "violation": 0.02, "step_length": 1.0, "elastic": True}
    >>> uniform_history([row])[0]
    {'step': 0, 'phase': 'coarse', 'loss': 0.4, 'error': None, 'accuracy': None, 'surrogate_violation': 0.02,
     'exact_violation': None, 'step_length': 1.0, 'optimality': None, 'kept': None, 'flags': ['elastic']}
    """
    return [_uniform(step, row) for step, row in enumerate(history)]


def _uniform(step: int, row: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(row, Mapping):
        raise TypeError(f"history[{step}] is {row!r}; give a list of dictionaries, as TrainingResult.history is.")
    phase = row.get("phase")
    found: dict[str, Any] = {
        "step": step,
        "phase": phase,
        "loss": row.get("loss"),
        "error": None,
        "accuracy": row.get("accuracy"),
        "surrogate_violation": row.get("surrogate_violation"),
        "exact_violation": row.get("exact_violation"),
        "step_length": row.get("step_length"),
        "optimality": row.get("kkt_stationarity"),
        "kept": row.get("kept"),
        "flags": [flag for flag in FLAGS if row.get(flag)],
    }
    if phase in PHASES:
        objective, violation = PHASES[phase]
        found[objective] = row.get("f")
        if violation is not None:
            found[violation] = row.get("violation")
    return found
