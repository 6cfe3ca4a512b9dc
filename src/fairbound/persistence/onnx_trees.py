"""Trees in an ONNX graph: boosted trees of scikit-learn, LightGBM or XGBoost, forests, and single trees.

The trees become one `TreeEnsembleRegressor`, which returns the number of the leaf in each tree.  A table then gives the
values of that leaf, in double precision.  ONNX can only compare numbers.  So each set of categories of a node becomes a
column: 1 if the category of the row is in the set, else 0.  A table has this value for each category.  Missing and
unknown categories have the value that sends them to their side.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairbound.estimator import base_name, is_a
from fairbound.persistence.bases import FORESTS, LightGBMModel, XGBoostModel, takes_arrays
from fairbound.persistence.onnx_graph import Graph
from fairbound.persistence.trees import TreeModel, boosted_arrays, forest_arrays

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Node:
    """A node of a tree.  A row goes left if its number is at most the threshold, or its category in the set.

    Attributes
    ----------
    feature : int
        The column of the base's table; −1 for a leaf.
    threshold : float
    missing_left : bool
    left, right : int
        Positions of the children among the nodes of the tree.
    members : frozenset of float or None
        For a category: the codes that go left.
    known : frozenset of float or None
        For a category: the codes that do not count as missing.  None: all.
    value : tuple of float
        Of a leaf.
    """

    feature: int = -1
    threshold: float = 0.0
    missing_left: bool = False
    left: int = -1
    right: int = -1
    members: frozenset[float] | None = None
    known: frozenset[float] | None = None
    value: tuple[float, ...] = ()


@dataclass(frozen=True)
class Ensemble:
    """Trees whose leaves are added to a baseline, or averaged; and the function that maps the sums to probabilities.

    Attributes
    ----------
    trees : list of list of Node
        If every leaf has one value, tree t adds to output t mod outputs.
    baseline : array of shape (outputs,)
    average : bool
    link : {"sigmoid", "softmax", "none"}
    single : bool
        Whether the inputs are rounded to single precision.
    single_outputs : bool
        Whether the probabilities are rounded to single precision.
    """

    trees: list[list[Node]]
    baseline: Floats
    average: bool = False
    link: str = "none"
    single: bool = False
    single_outputs: bool = False


@dataclass
class TreeInputs:
    """The columns of a base in the graph: numbers, and for each category the position of its code."""

    numbers: Callable[[int], str]
    codes: dict[int, tuple[str, int]] = field(default_factory=dict)
    """By column: the position of the row's code, (n,), and the number of codes.  The last position means missing."""


# --- trees ---------------------------------------------------------------------------------------------------------


def add_trees(graph: Graph, ensemble: Ensemble, table: TreeInputs) -> str:
    """Add the trees; return the name of their sums or averages, (n, outputs)."""
    nodes = [node for tree in ensemble.trees for node in tree if node.feature >= 0]
    used = sorted({node.feature for node in nodes if node.members is None})
    place = {feature: number for number, feature in enumerate(used)}
    parts = [table.numbers(feature) for feature in used]
    sets: dict[tuple[Any, ...], int] = {}
    for feature in sorted({node.feature for node in nodes if node.members is not None}):
        index, size = table.codes[feature]
        own = list(
            dict.fromkeys(_set_of(node) for node in nodes if node.members is not None and node.feature == feature)
        )
        rows = np.array([[_goes_left(code, key) for key in own] for code in (*range(size), None)], dtype=np.float64)
        parts.append(graph.add("Gather", graph.constant(rows), index, axis=0))
        for key in own:
            sets[key] = len(used) + len(sets)
    if not parts:  # every tree is a leaf; the operator still needs a column
        parts = [table.numbers(0)]
    columns = graph.add("Concat", *parts, axis=1) if len(parts) > 1 else parts[0]
    if ensemble.single:
        columns = graph.rounded(columns)
    made = _Operator()
    leaves: list[Floats] = []
    for number, tree in enumerate(ensemble.trees):
        for position, node in enumerate(tree):
            if node.feature < 0:
                made.add_leaf(number, position, len(leaves))
                leaves.append(_contribution(node, number, len(ensemble.baseline)))
            elif node.members is None:
                made.add_branch(
                    number, position, place[node.feature], node.threshold, node.left, node.right, node.missing_left
                )
            else:  # in the column of a set, 0 means right, and 0 is at most one half
                made.add_branch(number, position, sets[_set_of(node)], 0.5, node.right, node.left, False)
    which = graph.add(
        "TreeEnsembleRegressor",
        columns,
        name=None,
        domain="ai.onnx.ml",
        n_targets=len(ensemble.trees),
        **made.attributes(graph),
    )
    whole = graph.add("Cast", which, to=graph.helper.np_dtype_to_tensor_dtype(np.dtype(np.int64)))
    values = graph.add("Gather", graph.constant(np.array(leaves)), whole, axis=0)  # (n, trees, outputs)
    joined = graph.add(
        "ReduceMean" if ensemble.average else "ReduceSum", values, graph.constant(np.array([1])), keepdims=0
    )
    return graph.add("Add", joined, graph.constant(ensemble.baseline.reshape(1, -1)))


@dataclass
class _Operator:
    """The attributes of the operator.

    Its outputs are in single precision, so it does not add the values of leaves.  Instead, output t is the number of
    the leaf that a row reaches in tree t, which is exact.
    """

    nodes_treeids: list[int] = field(default_factory=list)
    nodes_nodeids: list[int] = field(default_factory=list)
    nodes_featureids: list[int] = field(default_factory=list)
    nodes_modes: list[str] = field(default_factory=list)
    nodes_truenodeids: list[int] = field(default_factory=list)
    nodes_falsenodeids: list[int] = field(default_factory=list)
    nodes_missing_value_tracks_true: list[int] = field(default_factory=list)
    nodes_values_as_tensor: list[float] = field(default_factory=list)
    target_treeids: list[int] = field(default_factory=list)
    target_nodeids: list[int] = field(default_factory=list)
    target_ids: list[int] = field(default_factory=list)
    target_weights_as_tensor: list[float] = field(default_factory=list)

    def attributes(self, graph: Graph) -> dict[str, Any]:
        """Return the attributes; thresholds and numbers of leaves as tensors of doubles."""
        doubles = ("nodes_values_as_tensor", "target_weights_as_tensor")
        return {
            name: graph.numpy_helper.from_array(np.array(value, dtype=np.float64), name) if name in doubles else value
            for name, value in vars(self).items()
        }

    def add_branch(
        self, tree: int, node: int, column: int, threshold: float, true: int, false: int, missing_true: bool
    ) -> None:
        """Add a node that sends a row to `true` if its number is at most the threshold."""
        self.nodes_treeids.append(tree)
        self.nodes_nodeids.append(node)
        self.nodes_featureids.append(column)
        self.nodes_modes.append("BRANCH_LEQ")
        self.nodes_truenodeids.append(true)
        self.nodes_falsenodeids.append(false)
        self.nodes_missing_value_tracks_true.append(int(missing_true))
        self.nodes_values_as_tensor.append(threshold)

    def add_leaf(self, tree: int, node: int, leaf: int) -> None:
        """Add a leaf with its number."""
        self.add_branch(tree, node, 0, 0.0, 0, 0, False)
        self.nodes_modes[-1] = "LEAF"
        self.target_treeids.append(tree)
        self.target_nodeids.append(node)
        self.target_ids.append(tree)
        self.target_weights_as_tensor.append(float(leaf))


def _contribution(leaf: Node, tree: int, n_outputs: int) -> Floats:
    """Return what a leaf adds to each output; a leaf with one value adds to the output of its tree."""
    if len(leaf.value) == n_outputs:
        return np.array(leaf.value)
    found = np.zeros(n_outputs)
    found[tree % n_outputs] = leaf.value[0]
    return found


def _set_of(node: Node) -> tuple[Any, ...]:
    return node.feature, node.members, node.known, node.missing_left


def _goes_left(code: int | None, key: tuple[Any, ...]) -> bool:
    _, members, known, missing_left = key
    if code is None or (known is not None and code not in known):
        return bool(missing_left)
    return code in members


# --- the trees of estimators ---------------------------------------------------------------------------------------


def read_ensemble(estimator: Any) -> Ensemble:
    """Return the trees of a fitted estimator; raise an error if it has none that can be written."""
    if isinstance(estimator, TreeModel):
        return _from_arrays(estimator.arrays, len(estimator.classes_), boosted=estimator.boosted)
    if isinstance(estimator, LightGBMModel):
        return _from_lightgbm(estimator.booster, estimator)
    if is_a(estimator, "LGBMClassifier"):
        return _from_lightgbm(estimator.booster_, estimator)
    if isinstance(estimator, XGBoostModel):
        return _from_xgboost(estimator.text, estimator)
    if is_a(estimator, "XGBClassifier"):
        if estimator.objective not in XGBoostModel.OBJECTIVES or not np.isnan(estimator.missing):
            raise refusal(estimator, f"it has objective={estimator.objective!r} and missing={estimator.missing!r}")
        return _from_xgboost(XGBoostModel.written(estimator), estimator)
    if is_a(estimator, "HistGradientBoostingClassifier") and takes_arrays(estimator):
        return _from_arrays(boosted_arrays(estimator), len(estimator.classes_), boosted=True)
    if is_a(estimator, *FORESTS):
        return _from_arrays(forest_arrays(estimator), len(estimator.classes_), boosted=False)
    raise refusal(estimator, "only trees of scikit-learn, LightGBM and XGBoost, and linear models can")


def _from_arrays(found: dict[str, NDArray[Any]], n_classes: int, *, boosted: bool) -> Ensemble:
    trees = []
    stops = found.get("category_stops", np.zeros(1, dtype=np.int64))
    order = found["order"] if boosted else np.arange(len(found["known"]))
    for start, stop in zip(found["starts"][:-1], found["starts"][1:], strict=True):
        tree = []
        for node in range(start, stop):
            if found["left"][node] < 0:
                tree.append(Node(value=tuple(found["value"][node].tolist())))
                continue
            feature, members, known = int(found["feature"][node]), None, None
            if found["set"][node] >= 0:
                # Positions among the known categories, which are the codes of the base's table.
                codes = found["categories"][stops[feature] : stops[feature + 1]]
                inside, usual = found["sets"][found["set"][node]], found["known"][feature]
                members = frozenset(code for place, code in enumerate(codes.tolist()) if inside[place])
                known = frozenset(code for place, code in enumerate(codes.tolist()) if usual[place])
            tree.append(
                Node(
                    feature=int(order[feature]),
                    threshold=float(found["threshold"][node]),
                    missing_left=bool(found["missing_left"][node]),
                    left=int(found["left"][node] - start),
                    right=int(found["right"][node] - start),
                    members=members,
                    known=known,
                )
            )
        trees.append(tree)
    if not boosted:
        return Ensemble(trees, np.zeros(n_classes), average=True, single=True)
    return Ensemble(trees, found["baseline"], link="sigmoid" if n_classes == 2 else "softmax")


def _from_lightgbm(booster: Any, estimator: Any) -> Ensemble:
    stated = booster.dump_model()
    objective, *options = str(stated.get("objective", "")).split()
    if objective not in ("binary", "multiclass") or stated.get("average_output"):
        raise refusal(estimator, f"its objective is {objective or 'its own'!r} or its trees are averaged")
    steepness = next((float(each.partition(":")[2]) for each in options if each.startswith("sigmoid:")), 1.0)
    if steepness != 1.0:
        raise refusal(estimator, f"it has sigmoid={steepness:g}")
    n_outputs = int(stated["num_tree_per_iteration"])
    trees = [list(_lightgbm_nodes(each["tree_structure"], estimator)) for each in stated["tree_info"]]
    return Ensemble(trees, np.zeros(n_outputs), link="sigmoid" if objective == "binary" else "softmax")


def _lightgbm_nodes(root: dict[str, Any], estimator: Any) -> Iterator[Node]:
    """Return the nodes of a tree, each with the positions of its children."""
    stated = [root]
    for node in stated:  # grows: the children of each node come behind all nodes found so far
        if "leaf_value" in node and "split_feature" not in node:
            if "leaf_coeff" in node:
                raise refusal(estimator, "its leaves are linear models")
            yield Node(value=(float(node["leaf_value"]),))
            continue
        left, right = len(stated), len(stated) + 1
        stated += [node["left_child"], node["right_child"]]
        kind, gap = node["decision_type"], node["missing_type"]
        if gap == "Zero":
            raise refusal(estimator, "it counts 0 as missing")
        if kind == "==":
            members = frozenset(float(code) for code in str(node["threshold"]).split("||"))
            yield Node(int(node["split_feature"]), left=left, right=right, members=members)
        else:
            threshold = float(node["threshold"])
            # If training had no missing values, LightGBM treats a missing value as 0.
            missing_left = bool(node["default_left"]) if gap == "NaN" else threshold >= 0.0
            yield Node(int(node["split_feature"]), threshold, missing_left, left, right)


def _from_xgboost(text: bytes, estimator: Any) -> Ensemble:
    """Return the trees of XGBoost.  It tests x < c in single precision, that is, x ≤ (the number before c)."""
    learner = json.loads(text)["learner"]
    stated = learner["gradient_booster"]
    if stated["name"] != "gbtree":
        raise refusal(estimator, f"its booster is {stated['name']!r}")
    n_outputs = max(1, int(learner["learner_model_param"]["num_class"]))
    base = np.atleast_1d(np.asarray(json.loads(learner["learner_model_param"]["base_score"]), dtype=np.float64))
    if n_outputs == 1:
        base = np.log(base / (1.0 - base))
    trees = []
    for output, each in zip(stated["model"]["tree_info"], stated["model"]["trees"], strict=True):
        if any(each.get("split_type", ())):
            raise refusal(estimator, "it splits on categories of its own")
        conditions = np.asarray(each["split_conditions"], dtype=np.float32)
        before = np.nextafter(conditions, np.float32(-np.inf))
        trees.append(
            [
                Node(value=tuple(float(conditions[node]) * (np.arange(n_outputs) == output)))
                if left < 0
                else Node(
                    int(each["split_indices"][node]),
                    float(before[node]),
                    bool(each["default_left"][node]),
                    int(left),
                    int(each["right_children"][node]),
                )
                for node, left in enumerate(each["left_children"])
            ]
        )
    link = "sigmoid" if n_outputs == 1 else "softmax"
    return Ensemble(trees, np.broadcast_to(base, n_outputs).copy(), link=link, single=True, single_outputs=True)


def refusal(estimator: Any, reason: str) -> ValueError:
    """Return the error of a base that cannot be written."""
    return ValueError(
        f"base={base_name(estimator)} cannot be written as ONNX: {reason}. Export the base by itself (skl2onnx, "
        "onnxmltools), and train on its scores: fit(..., base_score=...)."
    )
