"""Constant predictions as parameters of the module: the simplest candidates of every fit.

A constant decides alike for all rows, so it keeps every ratio and every difference of selection rates, true-positive
rates and false-positive rates.  A limit that a constant keeps can be kept by the module, whatever the solver finds.

For class k the output layer gets weights of zero and, as biases, the log-odds of the classes (the constant of least
loss); where these decide for another class, the bias of class k is raised just beyond the decision.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fairbound.fairness import logit
from fairbound.training.problem import TrainingProblem
from fairbound.training.rows import Rows

BEYOND = 1e-3
"""How far beyond the decision, on the scale of the logits, the bias of a constant lies at least."""


def constant_models(problem: TrainingProblem, rows: Rows) -> list[Tensor]:
    """Return the flat parameters of one constant for each class; none where the module has no output layer to set."""
    layer = output_layer(problem, rows)
    if layer is None:
        return []
    before = problem.current()
    found = []
    try:
        for biases in _biases(rows.class_weights, problem.threshold, layer.out_features):
            with torch.no_grad():
                layer.weight.zero_()
                layer.bias.copy_(biases.to(layer.bias))
            found.append(problem.current())
    finally:
        problem.assign(before)
    return found


def output_layer(problem: TrainingProblem, rows: Rows) -> nn.Linear | None:
    """Return the linear layer whose biases are the module's outputs once its weights are zero, if there is one."""
    before = problem.current()
    probe = rows.X[: min(len(rows), 4)]
    for layer in reversed([part for part in problem.module.modules() if isinstance(part, nn.Linear)]):
        moves = layer.weight.requires_grad and layer.bias is not None and layer.bias.requires_grad
        if not moves:
            continue
        ramp = torch.arange(1.0, layer.out_features + 1).to(layer.bias)
        try:
            with torch.no_grad():
                layer.weight.zero_()
                layer.bias.copy_(ramp)
                output = problem.module(probe).reshape(len(probe), -1)
        finally:
            problem.assign(before)
        if output.shape[1] == layer.out_features and torch.equal(output, ramp.expand_as(output)):
            return layer
    return None


def _biases(class_weights: Tensor, threshold: float, n_outputs: int) -> list[Tensor]:
    """Biases of the constants, by class: the log-odds of the classes, with the class in question decided for."""
    logs = class_weights.clamp_min(1e-6).log()
    if len(class_weights) > 2:
        constants = []
        for k in range(len(logs)):
            biases = logs.clone()
            biases[k] = max(float(logs[k]), float(logs.max()) + (BEYOND if int(logs.argmax()) != k else 0.0))
            constants.append(biases)
        return constants
    odds, decision = float(logs[1] - logs[0]), logit(threshold)
    single = [min(odds, decision - BEYOND), max(odds, decision + BEYOND)]
    if n_outputs == 1:
        return [torch.tensor([z], dtype=torch.float64) for z in single]
    return [torch.tensor([0.0, z], dtype=torch.float64) for z in single]
