"""Convert the outputs of a model to margins and decisions (paper, equation for t), and add them up over groups.

A model emits logits z.  With two classes it has one output per row (two outputs reduce to their difference), and

    p = σ(z),    ŷ = 1{p > threshold},    t = p − threshold          (margin "probability", as in the paper)
                                          t = z − logit(threshold)   (margin "logit")

With C > 2 classes it has C outputs, and ŷ = argmax.  The margin of class c is its distance from its rival, the best
other class:

    t_c = ½ (p_c − max_{j≠c} p_j)         (probability)               t_c = z_c − max_{j≠c} z_j      (logit)

The factor ½ makes this agree with two classes: ½(p₁ − p₀) = p₁ − ½, because p₀ = 1 − p₁.  The logits agree, too, since
z₁ − z₀ = logit(p₁).

Conventions
-----------
z : tensor of shape (n, D), D = 1 or C, in the precision of the module.    t : (n, O), O = 1 outcome or C.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from fairbound._values import torch
from fairbound.fairness.cells import Cells, Grouping
from fairbound.fairness.columns import Array
from fairbound.fairness.surrogates import Surrogate

if TYPE_CHECKING:
    from torch import Tensor

MarginKind = Literal["probability", "logit"]


def as_logits(output: Tensor, n_labels: int) -> Tensor:
    """Return the outputs of a module as logits of shape (n, D): D = 1 for two classes, C for more."""
    if output.ndim == 0:
        raise ValueError("The module returned a single number: it must give one row of outputs per row of inputs.")
    z = output[:, None] if output.ndim == 1 else output.flatten(1)
    if n_labels == 2 and z.shape[1] == 2:
        z = z[:, 1:].to(torch.float64) - z[:, :1].to(torch.float64)
    expected = 1 if n_labels == 2 else n_labels
    if z.shape[1] != expected:
        raise ValueError(
            f"The module has {z.shape[1]} outputs per row, but {n_labels} classes need "
            + ("1 (or 2)." if n_labels == 2 else f"{n_labels}.")
        )
    return z


def probabilities(z: Tensor) -> Tensor:
    """Return class probabilities of shape (n, classes), float64."""
    z = z.to(torch.float64)
    if z.shape[1] == 1:
        return torch.cat([torch.sigmoid(-z), torch.sigmoid(z)], dim=1)
    return torch.softmax(z, dim=1)


def decide(z: Tensor, threshold: float = 0.5) -> Tensor:
    """Return the predicted class index of each row, ŷ."""
    if z.shape[1] == 1:
        # Compare logits instead of probabilities: σ rounds different large logits to the same probability.
        return (z[:, 0].to(torch.float64) > logit(threshold)).to(torch.int64)
    return z.argmax(dim=1)


def logit(probability: float) -> float:
    """Return log(p / (1 − p))."""
    return math.log(probability / (1.0 - probability))


def check_threshold(threshold: float, n_labels: int) -> None:
    """Raise an error unless the threshold is in (0, 1) and, with more than two classes, 0.5."""
    if not 0.0 < threshold < 1.0:
        raise ValueError(f"threshold={threshold!r}: must lie strictly between 0 and 1.")
    if n_labels > 2 and threshold != 0.5:
        raise ValueError(
            f"threshold={threshold!r} needs two classes, but there are {n_labels}: then the decision is the class with "
            "the largest probability; leave threshold=0.5."
        )


def outcome_indicators(decisions: Tensor, outcomes: tuple[int, ...]) -> Tensor:
    """Return 1{ŷ = outcome} of shape (n, O), which a surrogate approximates."""
    return torch.stack([(decisions == outcome) for outcome in outcomes], dim=1).to(torch.float64)


def decision_indicators(decisions: Tensor, outcomes: tuple[int, ...]) -> Tensor:
    """Return 1{ŷ = outcome} of each outcome, then 1{ŷ ≠ outcome}, of shape (n, 2·O)."""
    selected = outcome_indicators(decisions, outcomes)
    return torch.cat([selected, 1.0 - selected], dim=1)


@dataclass(frozen=True)
class DecisionSurrogate:
    """Maps logits z to φ(scale · t(z)), a surrogate of the decision, with derivatives."""

    surrogate: Surrogate
    margin: MarginKind = "probability"
    threshold: float = 0.5

    def values(self, z: Tensor) -> Tensor:
        """Return φ of every outcome, shape (n, O)."""
        return self.surrogate.value(self._margin(z))

    def derivatives(self, z: Tensor) -> Tensor:
        """Return ∂φ_o/∂z of every outcome, shape (O, n, D)."""
        return self.values_and_derivatives(z)[1]

    def values_and_derivatives(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return values and derivatives together, which costs little more than the values."""
        t = self._margin(z)
        value, slope = self.surrogate.value_and_derivative(t)
        if z.shape[1] == 1:
            if self.margin == "probability":
                # Chain rule: t = σ(z) − threshold, so p = t + threshold, and ∂t/∂z = ∂p/∂z = p(1 − p).
                p = t + self.threshold
                slope = slope * p * (1.0 - p)
            return value, slope[None]
        return value, torch.stack([slope[:, [c]] * gradient for c, gradient in enumerate(self._margin_gradients(z))])

    def second_derivatives(self, z: Tensor, weights: Tensor) -> Tensor:
        """Return Σ_o weights_o · ∂²φ_o/∂z² of each row, shape (n, D, D), for margins in logits.

        `weights` has shape (n, O).  There t is piecewise linear in z, so only the curvature of φ counts.
        """
        curved = weights * self.surrogate.second_derivative(self._margin(z))
        if z.shape[1] == 1:
            return curved[:, :, None]
        gradients = torch.stack(self._margin_gradients(z))  # (O, n, C)
        return torch.einsum("no,ona,onb->nab", curved, gradients, gradients)

    def margins(self, z: Tensor) -> Tensor:
        """Return the margin t of every outcome, shape (n, O)."""
        return self._margin(z)

    def _margin(self, z: Tensor) -> Tensor:
        if z.shape[1] == 1:
            if self.margin == "probability":
                return torch.sigmoid(z) - self.threshold
            return z - logit(self.threshold)
        if self.margin == "probability":
            p = torch.softmax(z, dim=1)
            return 0.5 * (p - _best_rival(p)[0])
        return z - _best_rival(z)[0]

    def _margin_gradients(self, z: Tensor) -> list[Tensor]:
        """Return ∂t_c/∂z for each class c, each (n, C); for probabilities from ∂p_a/∂z = p_a(e_a − p)."""
        unit = torch.eye(z.shape[1], dtype=z.dtype)
        if self.margin == "logit":
            rival = _best_rival(z)[1]
            return [unit[c] - unit[rival[:, c]] for c in range(z.shape[1])]
        p = torch.softmax(z, dim=1)
        rival = _best_rival(p)[1]
        gradients = []
        for c in range(z.shape[1]):
            p_own, p_rival = p[:, [c]], p.gather(1, rival[:, [c]])
            gradients.append(0.5 * (p_own * (unit[c] - p) - p_rival * (unit[rival[:, c]] - p)))
        return gradients


@dataclass(frozen=True)
class ReadOutputs:
    """Logits, decisions and surrogate values of some rows, computed from the outputs of a module.

    Attributes
    ----------
    logits : Tensor of shape (n, D)
    decisions : Tensor of shape (n,)
    selected : Tensor of shape (n, O)
        1{ŷ = outcome}.
    surrogates : list of Tensor of shape (n, O)
        φ of each surrogate.
    derivatives : list of Tensor of shape (O, n, D)
        ∂φ_o/∂z of each surrogate; empty unless they were asked for.
    """

    logits: Tensor
    decisions: Tensor
    selected: Tensor
    surrogates: list[Tensor]
    derivatives: list[Tensor]


def read_outputs(
    output: Tensor,
    outcomes: tuple[int, ...],
    threshold: float,
    surrogates: Sequence[DecisionSurrogate],
    *,
    derivatives: bool = False,
) -> ReadOutputs:
    """Return the logits, the decisions and the surrogates of some rows from the outputs of a module."""
    z = as_logits(output, max(2, len(outcomes)))
    decisions = decide(z, threshold)
    if derivatives:
        both = [each.values_and_derivatives(z) for each in surrogates]
    else:
        both = [(each.values(z), z) for each in surrogates]
    return ReadOutputs(
        z,
        decisions,
        outcome_indicators(decisions, outcomes),
        [values for values, _ in both],
        [slopes for _, slopes in both] if derivatives else [],
    )


def _best_rival(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Return, for each class, the largest score among the other classes and the index of that class, each (n, C)."""
    others = scores[:, None, :].expand(-1, scores.shape[1], -1).clone()
    others.diagonal(dim1=1, dim2=2).fill_(-math.inf)
    best = others.max(dim=2)
    return best.values, best.indices


# --- sums over groups ------------------------------------------------------------------------------------------------

# Sums of decisions, or of their surrogates, over the groups of one grouping; every rate is a function of them.
#
# Every array has shape (..., G + 1): one entry per group; the last is everyone whose group is known.


@dataclass(frozen=True)
class GroupSums:
    """Sums over the groups of one grouping, for one outcome (the class whose selection is counted).

    Attributes
    ----------
    selected_positives, selected_negatives : array
        S of the rows whose label is that class, and of the others.
    rejected_positives, rejected_negatives : array
        R of the same rows.
    positives, negatives : array
        N of the rows whose label is that class, and of the others.
    correct : array
        Rows predicted correctly, over all classes.
    one_row : float
        Least weight of a row.  A sum below half of it counts as empty in a denominator.
    """

    selected_positives: Array
    selected_negatives: Array
    rejected_positives: Array
    rejected_negatives: Array
    positives: Array
    negatives: Array
    correct: Array
    one_row: float

    @cached_property
    def selected(self) -> Array:
        """Return S of all rows of the group."""
        return self.selected_positives + self.selected_negatives

    @cached_property
    def rejected(self) -> Array:
        """Return R of all rows of the group."""
        return self.rejected_positives + self.rejected_negatives

    @cached_property
    def size(self) -> Array:
        """Return N of all rows of the group."""
        return self.positives + self.negatives

    def share(self, part: Array, whole: Array) -> Array:
        """Return part / whole for a whole that depends on the model; 0 if the whole is empty, as in scikit-learn."""
        # An empty whole has an empty part, and 0 / (half a row) = 0.  A whole of decisions that is not empty has at
        # least one row, so clipping at half a row changes nothing.  It also keeps the derivative bounded.
        return part / whole.clip(min=0.5 * self.one_row)


def group_sums(S: Array, cells: Cells, grouping: Grouping, outcome: int) -> GroupSums:
    """Add the sums of cells to get the sums of groups.

    `S` has shape (..., K, O), or (..., K, 2·O) if it also holds R.  For decisions R is given: weights may differ by
    twelve orders of magnitude, and a small R would lose digits if it were computed as N − S.
    """
    L, n_outcomes = cells.n_labels, len(cells.outcomes)
    by_label = S.reshape(*S.shape[:-2], -1, L, S.shape[-1])  # (..., A, L, O)
    totals = cells.totals.reshape(-1, L)

    def over_groups(by_atom: Array) -> Array:
        return by_atom @ grouping.membership.T

    place = cells.outcomes.index(outcome)
    column = by_label[..., place]
    left = by_label[..., n_outcomes + place] if S.shape[-1] == 2 * n_outcomes else totals - column
    # Add the other labels instead of subtracting this one from the total, so that an empty sum is exactly 0.
    others = [label for label in range(L) if label != outcome]

    def of_others(by_label: Array) -> Array:
        return by_label[..., others[0]] if L == 2 else by_label[..., others].sum(axis=-1)

    # Each is a pair: the sums over the positives, and those over the negatives.
    selected, rejected, rows = (
        (over_groups(part[..., outcome]), over_groups(of_others(part))) for part in (column, left, totals)
    )
    if L == 2:
        correct = selected[0] + rejected[1]
    else:
        each = list(range(L))
        correct = over_groups(by_label[..., each, each].sum(axis=-1))
    return GroupSums(*selected, *rejected, *rows, correct, cells.smallest_weight)
