"""Constant predictions as parameters of the module: the simplest candidates of every fit.

A constant makes the same decision for all rows, so it keeps every limit on ratios and differences of selection rates,
true-positive rates and false-positive rates.  If a constant keeps all limits, they are feasible for the module, even if
the solver finds no other model.

The constant of class k has zero weights in the output layer.  Its biases are the log-odds of the classes, which give
the least loss of a constant.  If these decide for another class, the bias of class k is raised just enough to decide
for k.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairbound.fairness import logit
from fairbound.training.problem import TrainingProblem
from fairbound.training.rows import Rows

Floats = NDArray[np.float64]

DECISION_MARGIN = 1e-3
"""Least distance, in logits, between the bias of a constant and the point where the decision changes."""


def constant_models(problem: TrainingProblem, rows: Rows) -> list[Floats]:
    """Return the flat parameters of one constant per class; an empty list if the model has no linear output layer."""
    if problem.cells.n_labels == 1:  # targets are centred
        return problem.model.constants(lambda n_outputs: [np.zeros(n_outputs)], rows)
    weights = np.array(problem.constant_accuracies(rows))
    return problem.model.constants(lambda n_outputs: _biases(weights, problem.threshold, n_outputs), rows)


def _biases(class_weights: Floats, threshold: float, n_outputs: int) -> list[Floats]:
    """Return, for each class, biases that decide for it: the log-odds of the classes, adjusted if necessary."""
    logs = np.log(np.maximum(class_weights, 1e-6))
    if len(class_weights) > 2:
        constants = []
        for k in range(len(logs)):
            biases = logs.copy()
            biases[k] = max(float(logs[k]), float(logs.max()) + (DECISION_MARGIN if int(logs.argmax()) != k else 0.0))
            constants.append(biases)
        return constants
    # The decision is positive if the logit exceeds logit(threshold).  Keep the log-odds if they decide for the class.
    odds, decision = float(logs[1] - logs[0]), logit(threshold)
    single = [min(odds, decision - DECISION_MARGIN), max(odds, decision + DECISION_MARGIN)]
    if n_outputs == 1:
        return [np.array([z]) for z in single]
    return [np.array([0.0, z]) for z in single]
