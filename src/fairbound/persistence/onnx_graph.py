"""An ONNX graph written node by node: the encoder, a feed-forward network, and the decision, all in double precision.

inputs    one matrix "X" if all columns are numbers; otherwise one input per column, of shape (n, 1), with numbers (NaN
          if missing) or text ("" if missing)
outputs   "label"; "probabilities" in the order of the classes; "margin", the decision function
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fairbound.estimator import FARTHEST, CategoryColumn, LinearModel, NumberColumn, Recalibration, SidedMap
from fairbound.fairness import logit

OPSET = 20
TRUTH = {"True": 1.0, "False": 0.0}


@dataclass
class Graph:
    """Nodes and constants of a graph; each result has a unique name."""

    helper: Any  # onnx.helper
    numpy_helper: Any  # onnx.numpy_helper
    nodes: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)

    def add(self, operator: str, *inputs: str, name: str | None = None, **attributes: Any) -> str:
        """Add a node with one result, and return the name of the result."""
        result = name or f"fairbound.{operator}_{len(self.nodes)}"  # cannot be the name of a column
        self.nodes.append(self.helper.make_node(operator, list(inputs), [result], **attributes))
        return result

    def constant(self, value: Any) -> str:
        """Add a constant, and return its name."""
        array = np.asarray(value)
        if array.dtype.kind in "U":
            array = array.astype(object)
        self.constants.append(self.numpy_helper.from_array(array, f"fairbound.constant_{len(self.constants)}"))
        return self.constants[-1].name

    def number(self, value: float) -> str:
        """Add a constant number."""
        return self.constant(np.float64(value))

    def numbers(self, X: str, columns: Sequence[NumberColumn]) -> str:
        """Scale the columns of a matrix, and add 0/1 columns for missing values."""
        gaps = self.add("IsNaN", X)
        means = self.constant(np.array([[column.mean for column in columns]]))
        scales = self.constant(np.array([[column.scale for column in columns]]))
        scaled = self.add("Div", self.add("Sub", X, means), scales)
        scaled = self.add("Clip", scaled, self.number(-FARTHEST), self.number(FARTHEST))
        filled = self.add("Where", gaps, self.number(0.0), scaled)
        order: list[int] = []
        for position, column in enumerate(columns):
            order += [position, len(columns) + position] if column.missing else [position]
        if order == list(range(len(columns))):
            return filled
        both = self.add("Concat", filled, self.as_double(gaps), axis=1)
        return self.add("Gather", both, self.constant(np.array(order)), axis=1)

    def category(self, X: str, column: CategoryColumn) -> str:
        """Add the 0/1 columns of one category, of words or of codes."""
        if column.missing and not column.numeric and "" in (*column.words, *column.rare):
            raise ValueError(
                f"Column {column.name!r} had empty and missing text in training, and ONNX has no missing text: give "
                "empty text a word of its own, or make it missing, and train again."
            )
        known: Any = (
            np.array([[TRUTH.get(word, word) for word in column.words]], dtype=np.float64)
            if column.numeric
            else np.array([list(column.words)], dtype=object)
        )
        parts = [self.as_double(self.add("Equal", X, self.constant(known)))]
        empty = np.array([[""]], dtype=object)
        missing = self.add("IsNaN", X) if column.numeric else self.add("Equal", X, self.constant(empty))
        gaps = self.as_double(missing)
        if column.other:
            found = self.add("ReduceSum", parts[0], self.constant(np.array([1])), keepdims=1)
            rest = self.add("Sub", self.number(1.0), found)
            parts.append(self.add("Sub", rest, gaps) if column.missing else rest)
        if column.missing:
            parts.append(gaps)
        return self.add("Concat", *parts, axis=1) if len(parts) > 1 else parts[0]

    def as_double(self, values: str) -> str:
        """Convert flags or numbers."""
        return self.add("Cast", values, to=self.helper.np_dtype_to_tensor_dtype(np.dtype(np.float64)))

    def rounded(self, values: str) -> str:
        """Round to single precision; the result is in double precision."""
        single = self.helper.np_dtype_to_tensor_dtype(np.dtype(np.float32))
        return self.as_double(self.add("Cast", values, to=single))

    def layers(self, x: str, model: Any) -> str:
        """Add a linear model, or the layers of a network."""
        if isinstance(model, LinearModel):
            return self.linear(x, model.weight, model.bias)
        for part in model:
            x = self.layer(x, part)
        return x

    def linear(self, x: str, weight: Any, bias: Any) -> str:
        """Add x Wᵀ + b."""
        product = self.add("MatMul", x, self.constant(weight.T.copy()))
        return product if bias is None else self.add("Add", product, self.constant(bias.copy()))

    def layer(self, x: str, part: Any) -> str:
        """Add one layer of a network."""
        kind = type(part).__name__
        if kind == "Linear":
            weights = (None if each is None else each.detach().numpy() for each in (part.weight, part.bias))
            return self.linear(x, *weights)
        if kind == "Identity":
            return x
        if kind == "SiLU":
            # x / (1 + exp(−x)): onnxruntime 1.18 to 1.23 fuses x · sigmoid(x) into a kernel without doubles.
            return self.add("Div", x, self.add("Add", self.number(1.0), self.add("Exp", self.add("Neg", x))))
        if kind in ("Tanh", "Sigmoid"):
            return self.add(kind, x)
        slope = part.negative_slope if kind == "LeakyReLU" else 0.0
        positive = self.add("Greater", x, self.number(0.0))
        return self.add("Where", positive, x, self.add("Mul", x, self.number(slope)))

    def decide_between_two(
        self, z: str, classes: Any, threshold: float, *, flipped: bool, calibration: Recalibration | None
    ) -> None:
        """Add label, probabilities and margin of two classes, from logits (n, 1) of the positive one."""
        gap = self.add("Sub", z, self.number(logit(threshold)))
        up = self.add("Greater", z, self.number(logit(threshold)))
        chosen = self.add("Cast", self._flat(up), to=self.helper.np_dtype_to_tensor_dtype(np.dtype(np.int64)))
        self.add("Gather", self.constant(classes[::-1] if flipped else classes), chosen, name="label")
        positive, negative = self.add("Sigmoid", z), self.add("Sigmoid", self.add("Neg", z))
        if isinstance(calibration, SidedMap):
            positive = self._recalibrated(gap, up, calibration)
            negative = self.add("Sub", self.number(1.0), positive)
        pair = (positive, negative) if flipped else (negative, positive)
        self.add("Concat", *pair, axis=1, name="probabilities")
        self.add("Identity", self._flat(self.add("Neg", gap) if flipped else gap), name="margin")

    def decide_among_several(self, z: str, classes: Any, calibration: Recalibration | None) -> None:
        """Add label, probabilities and margin of several classes, from logits (n, classes)."""
        self.add("Gather", self.constant(classes), self.add("ArgMax", z, axis=1, keepdims=0), name="label")
        cooled = z if calibration is None else self.add("Div", z, self.number(calibration.temperature))  # type: ignore[union-attr]
        self.add("Softmax", cooled, axis=1, name="probabilities")
        self.add("Identity", z, name="margin")

    def _recalibrated(self, gap: str, up: str, calibration: SidedMap) -> str:
        """Apply the map of `fairbound.estimator.recalibration`."""
        theta, one = calibration.threshold, self.number(1.0)
        size = self.add("Abs", gap)
        near = self.add("Sub", one, self.add("Exp", self.add("Neg", size)))
        logs = self.add("Add", self.add("Log", self.add("Max", near, self.number(1e-300))), size)
        shares = []
        for (a, b), edge in ((calibration.above, theta), (calibration.below, 1.0 - theta)):
            side = self.add("Add", logs, self.number(float(np.log(edge))))
            shares.append(self.add("Sigmoid", self.add("Add", self.add("Mul", side, self.number(a)), self.number(b))))
        above = self.add("Add", self.add("Mul", shares[0], self.number(1.0 - theta)), self.number(theta))
        above = self.add("Max", above, self.number(float(np.nextafter(theta, 1.0))))
        below = self.add("Mul", self.add("Sub", one, shares[1]), self.number(theta))
        return self.add("Where", up, above, below)

    def _flat(self, column: str) -> str:
        return self.add("Reshape", column, self.constant(np.array([-1])))


LAYERS = ("Linear", "Identity", "LeakyReLU", "ReLU", "SiLU", "Tanh", "Sigmoid")
"""The layers of `torch.nn` that `Graph.layer` supports."""


def is_known(model: Any) -> bool:
    """Return whether a model is linear, or `Graph.layer` supports all layers of a network."""
    return isinstance(model, LinearModel) or (
        _is_of_torch(model, ("Sequential",)) and all(_is_of_torch(part, LAYERS) for part in model)
    )


def _is_of_torch(part: Any, names: Sequence[str]) -> bool:
    return type(part).__name__ in names and type(part).__module__.startswith("torch.nn.")


def difference_of_two(graph: Graph, z: str) -> str:
    """Add the second output minus the first, (n, 1), for a network with two outputs for two classes."""
    return graph.add("MatMul", z, graph.constant(np.array([[-1.0], [1.0]])))
