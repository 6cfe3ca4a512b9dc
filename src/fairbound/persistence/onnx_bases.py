"""The columns of a base in an ONNX graph, its outputs, and the scores made of them.

trees           `onnx_trees`
linear models   margins X W + b; logistic regression makes probabilities of them
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from fairbound.estimator import BaseModel, CategoryColumn, CodedColumns, EncodedColumns, FittedBase, is_a
from fairbound.persistence.onnx_graph import Graph
from fairbound.persistence.onnx_trees import TreeInputs, add_trees, read_ensemble, refusal

MARGINS = ("RidgeClassifier", "RidgeClassifierCV", "LinearSVC")
"""Linear models that return margins."""

LOGISTIC = ("LogisticRegression", "LogisticRegressionCV")
"""Linear models that return probabilities."""


def add_base(graph: Graph, base: FittedBase, inputs: Sequence[str], encoded: str) -> str:
    """Add a base; return the name of its scores, (n, 1) for two classes and (n, classes) for more.

    Parameters
    ----------
    graph : Graph
    base : FittedBase
    inputs : sequence of str
        The inputs of the graph: one matrix "X", or one column each.
    encoded : str
        The encoded matrix, which is the input of some bases.
    """
    scores = [_base_scores(graph, base, model, inputs, encoded) for model in base.models]
    total = reduce(lambda one, other: graph.add("Add", one, other), scores)  # some runtimes have no mean of doubles
    return total if len(scores) == 1 else graph.add("Div", total, graph.number(len(scores)))


def _base_scores(graph: Graph, base: FittedBase, model: BaseModel, inputs: Sequence[str], encoded: str) -> str:
    places, estimator = model.places(base.classes), model.estimator
    if is_a(estimator, *MARGINS) and not base.scale.probabilities:
        margins = _linear(graph, estimator, _matrix(model, inputs, encoded))
        if len(places) > 2:
            margins = graph.add("Gather", margins, graph.constant(np.array(places)), axis=1)
        elif places[1] == 0:
            margins = graph.add("Neg", margins)
        return graph.add("Div", margins, graph.number(base.scale.unit))
    if is_a(estimator, *LOGISTIC):
        if len(places) > 2 and estimator.solver == "liblinear":
            raise refusal(estimator, "its solver compares each class with all others")
        outputs = _linear(graph, estimator, _matrix(model, inputs, encoded))
        link, single = "softmax" if len(places) > 2 else "sigmoid", False
    else:
        ensemble = read_ensemble(estimator)
        outputs = add_trees(graph, ensemble, _inputs(graph, model, inputs, encoded))
        link, single = ensemble.link, ensemble.single_outputs
    if link != "none":
        outputs = graph.add("Softmax", outputs, axis=1) if link == "softmax" else graph.add("Sigmoid", outputs)
    if single:
        outputs = graph.rounded(outputs)
    least = base.scale.unit
    if len(places) == 2:
        if link == "none":  # one column for each class
            p = graph.add("Gather", outputs, graph.constant(np.array([places[1]])), axis=1)
        else:
            p = outputs if places[1] == 1 else graph.add("Sub", graph.number(1.0), outputs)
        p = graph.add("Clip", p, graph.number(least), graph.number(1.0 - least))
        return graph.add("Sub", graph.add("Log", p), graph.add("Log", graph.add("Sub", graph.number(1.0), p)))
    p = graph.add("Gather", outputs, graph.constant(np.array(places)), axis=1)
    logs = graph.add("Log", graph.add("Clip", p, graph.number(least), graph.number(1.0 - least)))
    return graph.add("Sub", logs, graph.add("ReduceMean", logs, graph.constant(np.array([1])), keepdims=1))


def _linear(graph: Graph, estimator: Any, X: str) -> str:
    """Add the margins of a linear model: (n, 1) for two classes, (n, classes) for more."""
    weights = np.atleast_2d(np.asarray(estimator.coef_, dtype=np.float64))
    bias = np.broadcast_to(np.asarray(estimator.intercept_, dtype=np.float64), len(weights)).reshape(1, -1)
    return graph.add("Add", graph.add("MatMul", X, graph.constant(weights.T.copy())), graph.constant(bias.copy()))


def _matrix(model: BaseModel, inputs: Sequence[str], encoded: str) -> str:
    """Return the name of the matrix that a model without categories gets."""
    if isinstance(model.columns, EncodedColumns) and model.columns.params is None:
        return encoded
    if list(inputs) != ["X"]:
        raise refusal(model.estimator, "it gets the columns as they are, and some of them are text")
    return "X"


def _inputs(graph: Graph, model: BaseModel, inputs: Sequence[str], encoded: str) -> TreeInputs:
    """Return the columns that trees get."""
    columns = model.columns
    if not isinstance(columns, CodedColumns):
        return TreeInputs(_columns_of(graph, _matrix(model, inputs, encoded)))
    whole = list(inputs) == ["X"]
    table = TreeInputs(_columns_of(graph, "X") if whole else lambda position: inputs[position])
    for position, column in enumerate(columns.encoder.columns_):
        if isinstance(column, CategoryColumn):
            flags = graph.category(inputs[position], column)
            found = graph.add("ReduceSum", flags, graph.constant(np.array([1])), keepdims=1)
            unknown = graph.add("Sub", graph.number(1.0), found)
            both = graph.add("Concat", flags, unknown, axis=1)
            table.codes[position] = graph.add("ArgMax", both, axis=1, keepdims=0), len(column.outputs)
    return table


def _columns_of(graph: Graph, matrix: str) -> Callable[[int], str]:
    return lambda position: graph.add("Gather", matrix, graph.constant(np.array([position])), axis=1)
