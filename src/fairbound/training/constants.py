"""Constant predictions as parameters of the module: the simplest candidates of every fit.

A constant makes the same decision for all rows, so it keeps every limit on ratios and differences of selection rates,
true-positive rates and false-positive rates.  If a constant keeps all limits, they are feasible for the module, even if
the solver finds no other model.

The constant of class k has zero weights in the output layer.  Its biases are the log-odds of the classes, which give
the least loss of a constant.  If these decide for another class, the bias of class k is raised just enough to decide
for k.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fairbound.fairness import logit
from fairbound.training.problem import TrainingProblem
from fairbound.training.rows import Rows

DECISION_MARGIN = 1e-3
"""Least distance, in logits, between the bias of a constant and the point where the decision changes."""


def constant_models(problem: TrainingProblem, rows: Rows) -> list[Tensor]:
    """Return the flat parameters of one constant per class; an empty list if the module has no linear output layer."""
    layer = output_layer(problem, rows)
    if layer is None:
        return []
    before = problem.current()
    found = []
    # Some rows, such as those of a fold, may lack the last classes.
    weights = nn.functional.pad(rows.class_weights, (0, problem.cells.n_labels - len(rows.class_weights)))
    try:
        for biases in _biases(weights, problem.threshold, layer.out_features):
            with torch.no_grad():
                for part in (layer, *_without_bias(problem)):
                    part.weight.zero_()
                layer.bias.copy_(biases.to(layer.bias))
            found.append(problem.current())
    finally:
        problem.assign(before)
    return found


def output_layer(problem: TrainingProblem, rows: Rows) -> nn.Linear | None:
    """Return the output layer: with weights of zero, its biases are the outputs of the module.  None if there is none.

    Each linear layer is tried, last first: set its weights to zero, and see whether the module returns its biases.
    The weights of layers without a bias are set to zero, too, because such a layer may carry inputs past the others.
    """
    before = problem.current()
    probe = rows.probe(4)
    for layer in reversed([part for part in problem.module.modules() if isinstance(part, nn.Linear)]):
        is_trainable = layer.weight.requires_grad and layer.bias is not None and layer.bias.requires_grad
        if not is_trainable:
            continue
        ramp = torch.arange(1.0, layer.out_features + 1).to(layer.bias)
        try:
            with torch.no_grad():
                for part in (layer, *_without_bias(problem)):
                    part.weight.zero_()
                layer.bias.copy_(ramp)
                output = problem.module(probe).reshape(len(probe), -1)
        finally:
            problem.assign(before)
        if output.shape[1] == layer.out_features and torch.equal(output, ramp.expand_as(output)):
            return layer
    return None


def _without_bias(problem: TrainingProblem) -> list[nn.Linear]:
    layers = [part for part in problem.module.modules() if isinstance(part, nn.Linear)]
    return [layer for layer in layers if layer.bias is None and layer.weight.requires_grad]


def _biases(class_weights: Tensor, threshold: float, n_outputs: int) -> list[Tensor]:
    """Return, for each class, biases that decide for it: the log-odds of the classes, adjusted if necessary."""
    logs = class_weights.clamp_min(1e-6).log()
    if len(class_weights) > 2:
        constants = []
        for k in range(len(logs)):
            biases = logs.clone()
            biases[k] = max(float(logs[k]), float(logs.max()) + (DECISION_MARGIN if int(logs.argmax()) != k else 0.0))
            constants.append(biases)
        return constants
    # The decision is positive if the logit exceeds logit(threshold).  Keep the log-odds if they decide for the class.
    odds, decision = float(logs[1] - logs[0]), logit(threshold)
    single = [min(odds, decision - DECISION_MARGIN), max(odds, decision + DECISION_MARGIN)]
    if n_outputs == 1:
        return [torch.tensor([z], dtype=torch.float64) for z in single]
    return [torch.tensor([0.0, z], dtype=torch.float64) for z in single]
