"""Choose the model to return among the iterates of a fit.

1. Only models whose decisions keep every limit are eligible.
2. Among them, take the most accurate one whose objective is within `slack` of the least objective.  With slack 0 this
   is the least objective; with infinite slack it is the highest accuracy.  All accuracies above `enough` count as
   equal, and then the objective decides.
3. Constant predictions compete.  A constant that keeps the limits is returned if it is more accurate than every model,
   or if no model keeps the limits.
4. If nothing keeps the limits, return the model with the least violation.

If there is a `judge`, such as the loss on validation rows, it chooses among the models of step 1 instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fairbound.fairness import logit
from fairbound.training.assessment import Assessment
from fairbound.training.problem import TrainingProblem
from fairbound.training.rows import Rows

Judge = Callable[[Tensor], float]


@dataclass(frozen=True)
class Candidate:
    """A point w and its assessment."""

    w: Tensor
    assessment: Assessment


class Candidates:
    """The candidates that may still be returned.

    Parameters
    ----------
    slack : float
        Allowed increase of the objective over the least one, relative to it.
    judge : function of a point, optional
        Returns a number; of the models that keep every limit, the one with the least number is the choice.
    enough : float
        Accuracy above this is not worth a larger objective; usually the accuracy of the model without limits.  A
        constant can be more accurate than this, for example if positives are rare or the threshold is low.  Then a
        constant is chosen only if no other model keeps the limits.

    Attributes
    ----------
    kept : list of Candidate
        Models that keep every limit; none is dominated by another in both objective and accuracy.
    constants : list of Candidate
        Constant predictions that keep every limit.
    nearest : Candidate or None
        The model with the least violation among those that do not keep every limit.
    """

    def __init__(self, slack: float = 0.0, judge: Judge | None = None, enough: float = math.inf) -> None:
        self.slack, self.judge, self.enough = slack, judge, enough
        self.judged: tuple[float, Candidate] | None = None
        self.kept: list[Candidate] = []
        self.constants: list[Candidate] = []
        self.nearest: Candidate | None = None

    def offer(self, w: Tensor, assessment: Assessment) -> None:
        """Consider a point; w is copied if it is stored."""
        if not assessment.kept:
            if self.nearest is None or assessment.exact_violation < self.nearest.assessment.exact_violation:
                self.nearest = Candidate(w.clone(), assessment)
            return
        if self.judge is not None:
            number = self.judge(w)
            if self.judged is None or number < self.judged[0]:
                self.judged = number, Candidate(w.clone(), assessment)
        if any(_dominates(held.assessment, assessment) for held in self.kept):
            return
        self.kept = [held for held in self.kept if not _dominates(assessment, held.assessment)]
        self.kept.append(Candidate(w.clone(), assessment))

    def offer_constant(self, w: Tensor, assessment: Assessment) -> None:
        """Consider a constant prediction."""
        if assessment.kept:
            self.constants.append(Candidate(w.clone(), assessment))

    def least(self) -> Candidate:
        """Return the model with the least objective among those that keep the limits."""
        return min(self.kept, key=lambda held: held.assessment.objective)

    def leading(self) -> Candidate:
        """Return the model with the least objective under the limits; if no model keeps them, `choice()`."""
        return self.least() if self.kept else self.choice()

    @property
    def least_objective(self) -> float:
        """Return the least objective under the limits; inf if no model keeps them."""
        return min((held.assessment.objective for held in self.kept), default=math.inf)

    def useful(self) -> bool:
        """Return whether some model keeps the limits and is not degenerate (see `Assessment.degenerate`)."""
        return any(not held.assessment.degenerate for held in self.kept)

    def suffice(self) -> bool:
        """Return whether the choice keeps the limits and is accurate enough."""
        return bool(self.kept) and self.choice().assessment.accuracy >= self.enough

    def ranked(self) -> list[Candidate]:
        """Return all candidates that keep the limits, best first: the rules above."""
        allowed = self.least_objective + self.slack * abs(self.least_objective)
        best_constant = max((held.assessment.accuracy for held in self.constants), default=-math.inf)
        if self.enough < best_constant:  # even the model without limits is less accurate: do not compare by accuracy
            best_constant = -math.inf

        def rank(candidate: Candidate) -> tuple[bool, float, float]:
            found = candidate.assessment
            beyond = found.objective > allowed
            return beyond, 0.0 if beyond else -min(found.accuracy, self.enough), found.objective

        def inaccuracy(candidate: Candidate) -> float:
            return -candidate.assessment.accuracy

        better = [held for held in self.kept if held.assessment.accuracy >= best_constant]
        worse = [held for held in self.kept if held.assessment.accuracy < best_constant]
        first = [] if self.judged is None else [self.judged[1]]
        constants = sorted(self.constants, key=inaccuracy)
        return [*first, *sorted(better, key=rank), *constants, *sorted(worse, key=inaccuracy)]

    def choice(self) -> Candidate:
        """Return the best candidate; if none keeps the limits, the nearest."""
        ranked = self.ranked()
        if ranked:
            return ranked[0]
        if self.nearest is None:
            raise ValueError("No model has been offered yet.")
        return self.nearest


def _dominates(one: Assessment, other: Assessment) -> bool:
    """Return whether `one` is at least as good as `other` in both objective and accuracy."""
    return one.objective <= other.objective and one.accuracy >= other.accuracy


# --- constants -------------------------------------------------------------------------------------------------------

# Constant predictions as parameters of the module: the simplest candidates of every fit.
#
# A constant makes the same decision for all rows, so it keeps every limit on ratios and differences of selection
# rates, true-positive rates and false-positive rates.  If a constant keeps all limits, they are feasible for the
# module, even if the solver finds no other model.
#
# The constant of class k has zero weights in the output layer.  Its biases are the log-odds of the classes, which
# give the least loss of a constant.  If these decide for another class, the bias of class k is raised just enough to
# decide for k.


DECISION_MARGIN = 1e-3
"""Least distance, in logits, between the bias of a constant and the point where the decision changes."""


def constant_models(problem: TrainingProblem, rows: Rows) -> list[Tensor]:
    """Return the flat parameters of one constant per class; an empty list if the module has no linear output layer."""
    layer = output_layer(problem, rows)
    if layer is None:
        return []
    before = problem.current()
    found = []
    try:
        for biases in _biases(rows.class_weights, problem.threshold, layer.out_features):
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
