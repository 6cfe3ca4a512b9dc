"""Convert the outputs of a model to margins and decisions (paper, equation for t).

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
z : array of shape (n, D), D = 1 or C, in the precision of the model.    t : (n, O), O = 1 outcome or C.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special

from fairbound._errors import argument, two_classes_only
from fairbound.fairness.row_functions import RowFunction
from fairbound.fairness.surrogates import NormalStep, Surrogate, sigmoid

Array = NDArray[Any]

MarginKind = Literal["probability", "logit"]


def as_logits(output: Array, n_labels: int) -> Array:
    """Return the outputs of a model as logits of shape (n, D): D = 1 for two classes, C for more."""
    if output.ndim == 0:
        raise ValueError("The module returned a single number: it must give one row of outputs per row of inputs.")
    z = output[:, None] if output.ndim == 1 else output.reshape(len(output), math.prod(output.shape[1:]))
    if n_labels == 2 and z.shape[1] == 2:
        z = z[:, 1:].astype(np.float64) - z[:, :1].astype(np.float64)
    expected = 1 if n_labels == 2 else n_labels
    if z.shape[1] != expected:
        raise ValueError(
            f"The module has {z.shape[1]} outputs per row, but {n_labels} classes need "
            + ("1 (or 2)." if n_labels == 2 else f"{n_labels}.")
        )
    return z


def probabilities(z: Array) -> NDArray[np.float64]:
    """Return class probabilities of shape (n, classes)."""
    z = z.astype(np.float64)
    return special.expit(np.hstack([-z, z])) if z.shape[1] == 1 else softmax(z)


def softmax(z: Array) -> Array:
    """Return the softmax of each row."""
    shares = np.exp(z - z.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


def decide(z: Array, threshold: float = 0.5) -> NDArray[np.int64]:
    """Return the predicted class index of each row, ŷ."""
    if z.shape[1] == 1:
        # Compare logits instead of probabilities: σ rounds different large logits to the same probability.
        return (z[:, 0].astype(np.float64) > logit(threshold)).astype(np.int64)
    return z.argmax(axis=1)


def logit(probability: float) -> float:
    """Return log(p / (1 − p))."""
    return math.log(probability / (1.0 - probability))


def check_threshold(threshold: float, n_labels: int) -> None:
    """Raise an error unless the threshold is in (0, 1) and, with more than two classes, 0.5."""
    if not 0.0 < threshold < 1.0:
        raise ValueError(f"threshold={threshold!r}: must lie strictly between 0 and 1.")
    if n_labels > 2 and threshold != 0.5:
        remedy = "With more, the decision is the class with the largest probability: leave {threshold=0.5}."
        raise two_classes_only(argument("threshold", threshold), n_labels, remedy)


def outcome_indicators(decisions: Array, outcomes: tuple[int, ...]) -> NDArray[np.float64]:
    """Return 1{ŷ = outcome} of shape (n, O), which a surrogate approximates."""
    return (decisions[:, None] == np.array(outcomes)).astype(np.float64)


def decision_indicators(decisions: Array, outcomes: tuple[int, ...]) -> NDArray[np.float64]:
    """Return 1{ŷ = outcome} of each outcome, then 1{ŷ ≠ outcome}, of shape (n, 2·O)."""
    selected = outcome_indicators(decisions, outcomes)
    return np.hstack([selected, 1.0 - selected])


@dataclass(frozen=True)
class DecisionSurrogate(RowFunction):
    """Maps logits z to φ(scale · t(z)), a surrogate of the decision, with derivatives."""

    jumps: ClassVar[bool] = True

    surrogate: Surrogate
    margin: MarginKind = "probability"
    threshold: float = 0.5

    def values(self, z: Array, y: Any = None) -> Array:  # noqa: ARG002  (decisions do not depend on targets)
        """Return φ of every outcome, shape (n, O)."""
        return self.surrogate.value(self.margins(z))

    def derivatives(self, z: Array) -> Array:
        """Return ∂φ_o/∂z of every outcome, shape (O, n, D)."""
        return self.values_and_derivatives(z)[1]

    def exact(self, z: Array, y: Any = None) -> Array:  # noqa: ARG002
        """Return the decision itself, 1{ŷ = outcome} of shape (n, O)."""
        decisions = decide(z, self.threshold)
        return outcome_indicators(decisions, (1,) if z.shape[1] == 1 else tuple(range(z.shape[1])))

    def smoothed(self, bandwidth: float) -> DecisionSurrogate:
        """Return Φ((z − logit(threshold)) / bandwidth), or the same of each class's lead over its best rival."""
        return DecisionSurrogate(NormalStep(1.0 / bandwidth), "logit", self.threshold)

    def values_and_derivatives(self, z: Array, y: Any = None) -> tuple[Array, Array]:  # noqa: ARG002
        """Return values and derivatives together, which costs little more than the values."""
        t = self.margins(z)
        value, slope = self.surrogate.value_and_derivative(t)
        if z.shape[1] == 1:
            if self.margin == "probability":
                # Chain rule: t = σ(z) − threshold, so p = t + threshold, and ∂t/∂z = ∂p/∂z = p(1 − p).
                p = t + self.threshold
                slope = slope * p * (1.0 - p)
            return value, slope[None]
        return value, slope.T[:, :, None] * self._margin_gradients(z)

    def second_derivatives(self, z: Array, weights: Array, y: Any = None) -> Array:  # noqa: ARG002
        """Return Σ_o weights_o · ∂²φ_o/∂z² of each row, shape (n, D, D), for margins in logits.

        `weights` has shape (n, O).  There t is piecewise linear in z, so only the curvature of φ counts.
        """
        curved = weights * self.surrogate.second_derivative(self.margins(z))
        if z.shape[1] == 1:
            return curved[:, :, None]
        gradients = self._margin_gradients(z)  # (O, n, C)
        return np.einsum("no,ona,onb->nab", curved, gradients, gradients)

    def margins(self, z: Array) -> Array:
        """Return the margin t of every outcome, shape (n, O)."""
        if z.shape[1] == 1:
            return sigmoid(z) - self.threshold if self.margin == "probability" else z - logit(self.threshold)
        if self.margin == "probability":
            p = softmax(z)
            return 0.5 * (p - np.take_along_axis(p, _rivals(p), axis=1))
        return z - np.take_along_axis(z, _rivals(z), axis=1)

    def _margin_gradients(self, z: Array) -> Array:
        """Return ∂t_c/∂z of each class c, (C, n, C); for probabilities from ∂p_a/∂z = p_a(e_a − p)."""
        unit = np.eye(z.shape[1], dtype=z.dtype)
        if self.margin == "logit":
            return unit[:, None, :] - unit[_rivals(z).T]
        p = softmax(z)
        rival = _rivals(p)
        own = p.T[:, :, None] * (unit[:, None, :] - p)
        return 0.5 * (own - np.take_along_axis(p, rival, axis=1).T[:, :, None] * (unit[rival.T] - p))


def _rivals(scores: Array) -> NDArray[np.intp]:
    """Return, for each class, the index of the other class with the largest score, (n, C)."""
    best = scores.argmax(axis=1)[:, None]
    others = scores.copy()
    np.put_along_axis(others, best, -np.inf, axis=1)
    second = others.argmax(axis=1)[:, None]
    return np.where(np.arange(scores.shape[1]) == best, second, best)
