"""Trees in an ONNX graph: boosted trees of scikit-learn, LightGBM or XGBoost, forests, and single trees.

The trees become one `TreeEnsembleRegressor`, which returns the number of the leaf in each tree.  A table then gives the
values of that leaf, in double precision.  ONNX can only compare numbers.  So each set of categories of a node becomes a
column: 1 if the category of the row is in the set, else 0.  A table has this value for each category.  Missing and
unknown categories have the value that sends them to their side.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairbound.estimator import base_name, is_a
from fairbound.persistence.bases import XGBoostModel, xgboost_text
from fairbound.persistence.onnx_graph import Graph
from fairbound.persistence.xgboost_json import OBJECTIVES

FORESTS = ("RandomForestClassifier", "ExtraTreesClassifier", "DecisionTreeClassifier", "ExtraTreeClassifier")
BOOSTED = "HistGradientBoostingClassifier"

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


_NODES = (
    *("nodes_treeids", "nodes_nodeids", "nodes_featureids", "nodes_modes", "nodes_truenodeids", "nodes_falsenodeids"),
    *("nodes_missing_value_tracks_true", "nodes_values_as_tensor"),
)
_LEAVES = ("target_treeids", "target_nodeids", "target_ids", "target_weights_as_tensor")


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
    branches: list[tuple[int, int, int, str, int, int, int, float]] = []  # in the order of `_NODES`
    leaves: list[tuple[int, int, Floats]] = []
    for number, tree in enumerate(ensemble.trees):
        for position, node in enumerate(tree):
            if node.feature < 0:
                branches.append((number, position, 0, "LEAF", 0, 0, 0, 0.0))
                leaves.append((number, position, _contribution(node, number, len(ensemble.baseline))))
                continue
            if node.members is None:
                column, threshold, true, false = place[node.feature], node.threshold, node.left, node.right
            else:  # in the column of a set, 0 means right, and 0 is at most one half
                column, threshold, true, false = sets[_set_of(node)], 0.5, node.right, node.left
            missing_true = int(node.members is None and node.missing_left)
            branches.append((number, position, column, "BRANCH_LEQ", true, false, missing_true, threshold))
    numbers, positions, values = zip(*leaves, strict=True)
    # The operator returns single precision, so it does not add the values of leaves.  Instead, output t is the number
    # of the leaf that a row reaches in tree t, which is exact.
    attributes = dict(zip(_NODES, map(list, zip(*branches, strict=True)), strict=True))
    attributes |= dict(zip(_LEAVES, map(list, (numbers, positions, numbers, range(len(leaves)))), strict=True))
    for name in (_NODES[-1], _LEAVES[-1]):
        attributes[name] = graph.numpy_helper.from_array(np.array(attributes[name], dtype=np.float64), name)
    which = graph.add(
        "TreeEnsembleRegressor",
        columns,
        name=None,
        domain="ai.onnx.ml",
        n_targets=len(ensemble.trees),
        **attributes,
    )
    whole = graph.add("Cast", which, to=graph.helper.np_dtype_to_tensor_dtype(np.dtype(np.int64)))
    found = graph.add("Gather", graph.constant(np.array(values)), whole, axis=0)  # (n, trees, outputs)
    total = "ReduceMean" if ensemble.average else "ReduceSum"
    joined = graph.add(total, found, graph.constant(np.array([1])), keepdims=0)
    return graph.add("Add", joined, graph.constant(ensemble.baseline.reshape(1, -1)))


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


def read_ensemble(estimator: Any) -> Ensemble:
    """Return the trees of a fitted estimator; raise an error if it has none that can be written."""
    if is_a(estimator, "LGBMClassifier", "LightGBMModel"):
        return _from_lightgbm(estimator)
    if is_a(estimator, "XGBClassifier", "XGBoostModel"):
        return _from_xgboost(estimator)
    if is_a(estimator, BOOSTED) and _takes_arrays(estimator):
        return _from_boosted(estimator)
    if is_a(estimator, *FORESTS):
        return _from_forest(estimator)
    raise refusal(estimator, "only trees of scikit-learn, LightGBM and XGBoost, and linear models can")


def _takes_arrays(estimator: Any) -> bool:
    """Return whether a booster of scikit-learn was trained on arrays of numbers, not on a table with text."""
    if hasattr(estimator, "feature_names_in_"):
        return False
    return estimator.is_categorical_ is None or all(
        np.asarray(each).dtype.kind == "f"
        for each in estimator._preprocessor.named_transformers_["encoder"].categories_
    )


def _from_boosted(estimator: Any) -> Ensemble:
    order, codes, usual = np.arange(estimator.n_features_in_), [], np.zeros((0, _SET_BITS), dtype=bool)
    if estimator.is_categorical_ is not None:  # scikit-learn puts the categorical features first
        order = np.argsort(~estimator.is_categorical_, kind="stable")
        encoder = estimator._preprocessor.named_transformers_["encoder"]
        codes = [each[~np.isnan(each)].tolist() for each in encoder.categories_]
        usual = _bits(estimator._bin_mapper.make_known_categories_bitsets()[0])

    def node_of(stated: Any, sets: NDArray[np.bool_]) -> Node:
        if stated["is_leaf"]:
            return Node(value=(float(stated["value"]),))
        feature = int(stated["feature_idx"])
        common: dict[str, Any] = {
            "feature": int(order[feature]),
            "missing_left": bool(stated["missing_go_to_left"]),
            "left": int(stated["left"]),
            "right": int(stated["right"]),
        }
        if not stated["is_categorical"]:
            return Node(threshold=float(stated["num_threshold"]), **common)
        # Positions among the known categories, which are the codes of the base's table.
        inside = sets[stated["bitset_idx"]]
        members, known = (
            frozenset(code for place, code in enumerate(codes[feature]) if chosen[place])
            for chosen in (inside, usual[feature])
        )
        return Node(members=members, known=known, **common)

    trees = [tree for iteration in estimator._predictors for tree in iteration]
    nodes = [[node_of(stated, _bits(tree.raw_left_cat_bitsets)) for stated in tree.nodes] for tree in trees]
    baseline = np.asarray(estimator._baseline_prediction, dtype=np.float64).reshape(-1)
    return Ensemble(nodes, baseline, link="sigmoid" if len(baseline) == 1 else "softmax")


_SET_BITS = 256
"""The number of categories that a set of a node can contain."""


def _bits(sets: NDArray[Any]) -> NDArray[np.bool_]:
    """Return sets of 8 words of 32 bits each as rows of 256 truth values."""
    words = np.asarray(sets, dtype="<u4").reshape(-1, _SET_BITS // 32)
    return np.unpackbits(words.view(np.uint8), axis=1, bitorder="little").astype(bool)


def _from_forest(estimator: Any) -> Ensemble:
    trees = []
    for tree in (each.tree_ for each in getattr(estimator, "estimators_", [estimator])):
        columns = (tree.children_left, tree.children_right, tree.feature, tree.threshold, tree.missing_go_to_left)
        trees.append(
            [
                Node(value=tuple(values[0])) if left < 0 else Node(feature, threshold, bool(missing_left), left, right)
                for left, right, feature, threshold, missing_left, values in zip(
                    *(column.tolist() for column in columns), tree.value.tolist(), strict=True
                )
            ]
        )
    return Ensemble(trees, np.zeros(len(estimator.classes_)), average=True, single=True)


def _from_lightgbm(estimator: Any) -> Ensemble:
    stated = estimator.booster_.dump_model()
    objective, *options = stated["objective"].split()
    n_outputs = stated["num_tree_per_iteration"]
    if objective not in ("binary", "multiclass") or stated.get("average_output"):
        raise refusal(estimator, f"its objective is {objective!r} or its trees are averaged")
    if objective == "binary" and "sigmoid:1" not in options:
        raise refusal(estimator, f"it has {' '.join(options)}")
    trees = [_lightgbm_nodes(tree["tree_structure"], estimator) for tree in stated["tree_info"]]
    return Ensemble(trees, np.zeros(n_outputs), link="sigmoid" if n_outputs == 1 else "softmax")


def _lightgbm_nodes(root: dict[str, Any], estimator: Any) -> list[Node]:
    """Return the nodes of a tree, parents before children."""
    found, stated = list[Node](), [root]
    for each in stated:  # grows by the children of each node
        if "leaf_value" in each:
            if "leaf_const" in each:
                raise refusal(estimator, "its leaves are linear models")
            found.append(Node(value=(float(each["leaf_value"]),)))
            continue
        feature, threshold, children = each["split_feature"], each["threshold"], (len(stated), len(stated) + 1)
        stated += [each["left_child"], each["right_child"]]
        if each["decision_type"] == "==":
            members = frozenset(map(float, threshold.split("||")))
            found.append(Node(feature, left=children[0], right=children[1], members=members))
            continue
        if each["missing_type"] == "Zero":
            raise refusal(estimator, "it counts 0 as missing")
        # If training had no missing values, LightGBM treats a missing value as 0.
        missing_left = each["default_left"] if each["missing_type"] == "NaN" else threshold >= 0.0
        found.append(Node(feature, threshold, missing_left, *children))
    return found


def _from_xgboost(estimator: Any) -> Ensemble:
    """Return the trees of XGBoost.  It tests x < c in single precision, that is, x ≤ (the number before c)."""
    if not isinstance(estimator, XGBoostModel) and (
        estimator.objective not in OBJECTIVES or not np.isnan(estimator.missing)
    ):
        raise refusal(estimator, f"it has objective={estimator.objective!r} and missing={estimator.missing!r}")
    learner = json.loads(xgboost_text(estimator))["learner"]
    stated = learner["gradient_booster"]
    if stated["name"] != "gbtree":
        raise refusal(estimator, f"its booster is {stated['name']!r}")
    n_outputs = max(1, int(learner["learner_model_param"]["num_class"]))
    base = np.atleast_1d(np.array(json.loads(learner["learner_model_param"]["base_score"]), dtype=np.float64))
    if n_outputs == 1:
        base = np.log(base / (1.0 - base))
    trees = []
    for output, each in zip(stated["model"]["tree_info"], stated["model"]["trees"], strict=True):
        if any(each["split_type"]):
            raise refusal(estimator, "it splits on categories of its own")
        if "leaf_weights" in each:
            raise refusal(estimator, "its leaves have a value for each class")
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
