"""The JSON of an XGBoost booster: read and checked before XGBoost sees it, which follows its numbers unchecked.

XGBoost never sees the text of a file, but the checked values, written again.  They are well formed if

    objective     returns probabilities, for as many classes as the model has
    trees         stand at their own numbers, and each adds to one of the outputs, or has leaves with one value for each
    nodes         children come from one parent each, which they name, and every path from the first node ends in a leaf
    features      exist
    categories    a node's set is a part of the list of categories, and the sets do not need much memory
    values        are numbers

Nodes that were cut off are not followed, so only the lengths of their arrays count.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairbound._json import decode, encode
from fairbound.persistence.folder import require

OBJECTIVES = ("binary:logistic", "multi:softprob")
"""Objectives for which the booster itself returns probabilities."""

_CATEGORIES = 2**24
"""More categories than this do not fit the single precision of XGBoost's inputs."""
_SET_BYTES = 2**28
"""Bytes.  XGBoost stores each set of categories with one bit for every category up to its largest."""
_KINDS = dict(enumerate(["f4", "f8", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"], start=7))
"""The kinds of numbers that the list of a column's categories can have, as XGBoost counts them."""


def checked_xgboost(text: bytes, n_classes: int) -> bytes:
    """Return the JSON for XGBoost; raise an error if it is not well formed."""
    document = decode(text)
    _check(document["learner"], n_classes)
    return encode(document)


def _check(learner: Mapping[str, Any], n_classes: int) -> None:
    param, objective = learner["learner_model_param"], learner["objective"]
    n_features = int(param["num_feature"])
    several = objective["name"] == OBJECTIVES[1]
    require(objective["name"] in OBJECTIVES, f"its objective is {objective['name']!r}")
    stated = (param["num_class"], *([objective["softmax_multiclass_param"]["num_class"]] if several else []))
    require(set(stated) == {str(n_classes) if several else "0"}, f"it has another number of classes than {n_classes}")
    n_outputs = n_classes if several else 1
    require(several or n_classes == 2, f"it decides between 2 classes, not {n_classes}")
    require(param.get("num_target", "1") == "1", "it has several targets")
    base = np.atleast_1d(np.array(json.loads(param["base_score"]), dtype=np.float32))
    require(base.shape in ((1,), (n_outputs,)) and bool(np.isfinite(base).all()), "its base score is damaged")
    require(several or 0.0 < float(base[0]) < 1.0, "its base score is no probability")
    for name in ("feature_names", "feature_types"):
        words = learner.get(name, [])
        require(
            len(words) in (0, n_features) and all(isinstance(word, str) for word in words), f"its {name} do not fit"
        )
    attributes = learner.get("attributes", {})
    require(all(isinstance(value, str) for value in attributes.values()), "its attributes are not text")
    booster = learner["gradient_booster"]
    require(booster["name"] in ("gbtree", "dart"), f"its booster is {booster['name']!r}")
    model = (booster["gbtree"] if booster["name"] == "dart" else booster)["model"]
    trees, outputs = model["trees"], _integers(model["tree_info"], 0, n_outputs)
    n_trees = len(trees)
    if booster["name"] == "dart":
        _numbers(booster["weight_drop"], n_trees)
    stated = model["gbtree_model_param"]
    require(int(stated["num_trees"]) == n_trees == len(outputs) > 0, "it has another number of trees")
    require(1 <= int(stated["num_parallel_tree"]) <= n_trees, "its number of parallel trees is damaged")
    rounds = _integers(model.get("iteration_indptr", [0, n_trees]), 0, n_trees + 1)
    require(bool(rounds[0] == 0 and rounds[-1] == n_trees and (np.diff(rounds) > 0).all()), "its rounds are damaged")
    _check_columns(model.get("cats") or {"enc": []}, n_features)
    storage = 0.0
    for number, tree in enumerate(trees):
        require(tree["id"] == number, "a tree does not stand at its own number")
        storage += _check_tree(tree, n_features, n_outputs)
    require(storage <= _SET_BYTES, "its sets of categories need too much memory")


def _check_tree(tree: Mapping[str, Any], n_features: int, n_outputs: int) -> float:
    """Check a tree; return the memory of its sets of categories in bytes."""
    param = tree["tree_param"]
    n_nodes, size = int(param["num_nodes"]), int(param.get("size_leaf_vector", "1"))
    require(size in (0, 1, n_outputs) and n_nodes > 0, "the leaves of a tree have a wrong size")
    require(int(param["num_feature"]) == n_features, "a tree has another number of features")
    left, right, parents, features, kinds, _ = (
        _integers(tree[name], low, high, n_nodes)
        for name, low, high in (
            ("left_children", -1, n_nodes),
            ("right_children", -1, n_nodes),
            ("parents", -1, 2**31),
            ("split_indices", -(2**31), 2**32),
            ("split_type", 0, 2),
            ("default_left", 0, 2),
        )
    )
    values = _numbers(tree["split_conditions"], n_nodes)
    vectors = size > 1
    for name in ("base_weights", "sum_hessian", "loss_changes"):
        _numbers(tree[name], n_nodes * size if vectors and name == "base_weights" else n_nodes)
    leaves = _numbers(tree["leaf_weights"]) if vectors else values
    seen, open_nodes = np.zeros(n_nodes, dtype=bool), [0]
    seen[0] = True
    while open_nodes:
        node = open_nodes.pop()
        if left[node] == -1:
            place = right[node] if vectors else -1
            require(0 <= place < len(leaves) // size if vectors else right[node] == -1, "a tree has an unknown leaf")
            continue
        require(0 <= features[node] < n_features, "a tree refers to a column that it does not have")
        for child in (int(left[node]), int(right[node])):
            require(child >= 0 and not seen[child] and parents[child] == node, "the nodes of a tree form no tree")
            seen[child] = True
            open_nodes.append(child)
    return _check_sets(tree, kinds)


def _check_sets(tree: Mapping[str, Any], kinds: NDArray[np.int64]) -> float:
    """Check the sets of categories of a tree; return their memory in bytes."""
    members = _integers(tree["categories"], 0, _CATEGORIES)
    nodes = _integers(tree["categories_nodes"], 0, len(kinds))
    starts, sizes = (_integers(tree[f"categories_{name}"], 0, len(members) + 1) for name in ("segments", "sizes"))
    require(nodes.tolist() == np.flatnonzero(kinds).tolist(), "the nodes with categories are not those that are listed")
    require(len(starts) == len(sizes) == len(nodes), "the sets of categories of a tree have different numbers")
    ends = np.cumsum(sizes)
    require((starts + sizes).tolist() == ends.tolist(), "the sets of categories of a tree do not follow each other")
    require(not len(sizes) or (sizes.min() > 0 and ends[-1] == len(members)), "a set of categories is empty")
    return sum(float(part.max()) / 8 + 4 for part in np.split(members, ends[:-1])) if len(sizes) else 0.0


def _check_columns(cats: Mapping[str, Any], n_features: int) -> None:
    """Check the categories of each column, if the booster has them."""
    columns = cats["enc"]
    if not columns:
        return
    segments = _integers(cats["feature_segments"], 0, 2**31, n_features + 1)
    counts = np.diff(segments)
    total = int(segments[-1])
    require(len(columns) == n_features and segments[0] == 0 and counts.min() >= 0, "the categories have a wrong length")
    order = _integers(cats["sorted_idx"], 0, _CATEGORIES, total)
    for column, places in zip(columns, np.split(order, segments[1:-1]), strict=True):
        n = len(places)
        require(sorted(places.tolist()) == list(range(n)), "the order of the categories of a column is no order")
        if "offsets" in column:  # texts, one after the other
            text = _integers(column["values"], -128, 256)
            offsets = _integers(column["offsets"], 0, len(text) + 1, n + 1 if n else None)
            fits = not len(offsets) or (offsets[0] == 0 and offsets[-1] == len(text))
            require(fits and bool((np.diff(offsets) >= 0).all()), "the names of the categories of a column are damaged")
        else:
            kind = np.dtype(_KINDS[column["type"]])
            if kind.kind == "f":
                _numbers(column["values"], n)
            else:
                _integers(column["values"], np.iinfo(kind).min, np.iinfo(kind).max + 1, n)


def _integers(values: Any, low: int, high: int, length: int | None = None) -> NDArray[np.int64]:
    """Return an array of whole numbers in [low, high)."""
    require(isinstance(values, list) and all(type(each) in (int, bool) for each in values), "it has no whole numbers")
    require(length is None or len(values) == length, "the arrays of a tree have different lengths")
    require(not values or (low <= min(values) and max(values) < high), "a tree refers to what it does not have")
    return np.array(values, dtype=object if high > 2**63 else np.int64)


def _numbers(values: Any, length: int | None = None) -> NDArray[np.float64]:
    """Return an array of numbers."""
    require(isinstance(values, list) and all(type(each) in (int, float) for each in values), "it has no numbers")
    require(length is None or len(values) == length, "the arrays of a tree have different lengths")
    return np.array(values, dtype=np.float64)
