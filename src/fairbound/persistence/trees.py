"""Trees of scikit-learn as plain arrays: written without pickle, checked when read, and evaluated here.

A file may come from anyone, and scikit-learn's trees do not check the indices that they follow.  So this module checks
the arrays: every child comes after its parent and within the same tree, and features and category sets exist.  Then
every path ends in a leaf.  A row goes

    number      left if x ≤ threshold
    category    left if x is in the node's set, right if x is another known category; an unknown one counts as missing
    missing     left or right, as stored in the node

Boosted trees add the values of their leaves to a baseline, in the order of scikit-learn, so the sums agree to the last
bit.  Forests use inputs in single precision, as in scikit-learn, and average the class shares of their leaves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

Arrays = dict[str, NDArray[Any]]
Floats = NDArray[np.float64]

SET_BITS = 256
"""The number of categories that a node's set can contain."""


KINDS = {
    **dict.fromkeys(("starts", "left", "right", "feature", "set", "order", "category_stops"), "i"),
    **dict.fromkeys(("threshold", "value", "baseline", "categories"), "f"),
    **dict.fromkeys(("missing_left", "sets", "known"), "b"),
}
ONLY_BOOSTED = ("order", "category_stops", "baseline", "categories")


class TreeModel:
    """Trees as arrays, one node after the other, tree after tree.

    Parameters
    ----------
    arrays : dict
        As `boosted_arrays` or `forest_arrays` give them.
    boosted : bool
        Whether leaf values are added to a baseline; otherwise they are averaged.
    n_features, n_classes : int

    Raises
    ------
    ValueError
        If the arrays do not describe trees.
    """

    def __init__(self, arrays: Mapping[str, NDArray[Any]], *, boosted: bool, n_features: int, n_classes: int) -> None:
        self.arrays, self.boosted, self.n_features_in_ = dict(arrays), boosted, n_features
        self.classes_ = np.arange(n_classes)
        self._check()

    def predict_proba(self, X: Any) -> Floats:
        """Return the probabilities of the classes, in their order."""
        values = np.asarray(X, dtype=np.float64)
        if values.ndim != 2 or values.shape[1] != self.n_features_in_:
            raise ValueError(f"X has shape {values.shape}, but the trees have {self.n_features_in_} features.")
        values = self._ordered(values) if self.boosted else values.astype(np.float32)
        starts, leaves = self.arrays["starts"], self.arrays["value"]
        trees = [leaves[self._walk(values, tree)] for tree in range(len(starts) - 1)]
        if not self.boosted:
            return np.sum(trees, axis=0) / len(trees)
        baseline = self.arrays["baseline"]
        raw = np.tile(baseline, (len(values), 1))
        for tree, leaf in enumerate(trees):
            raw[:, tree % len(baseline)] += leaf[:, 0]
        if len(baseline) > 1:
            return softmax(raw, axis=1)
        p = expit(raw[:, 0])
        return np.stack([1.0 - p, p], axis=1)

    def _walk(self, X: NDArray[Any], tree: int) -> NDArray[np.int64]:
        """Return the leaf of each row."""
        found = self.arrays
        node = np.full(len(X), found["starts"][tree])
        rows = np.flatnonzero(found["left"][node] >= 0)
        while len(rows):
            at = node[rows]
            x = X[rows, found["feature"][at]]
            left, missing = x <= found["threshold"][at], np.isnan(x)
            chosen = found["set"][at] >= 0
            if chosen.any():
                code = np.where(missing, 0, x)[chosen].astype(np.int64)
                left[chosen] = found["sets"][found["set"][at[chosen]], code]
                missing[chosen] |= ~found["known"][found["feature"][at[chosen]], code]
            left = np.where(missing, found["missing_left"][at], left)
            node[rows] = np.where(left, found["left"][at], found["right"][at])
            rows = rows[found["left"][node[rows]] >= 0]
        return node

    def _ordered(self, X: Floats) -> Floats:
        """Return the features in the order of the trees, with categories as positions among the known ones."""
        order, stops = self.arrays["order"], self.arrays["category_stops"]
        ordered = X[:, order].copy()
        for place in range(len(stops) - 1):
            known = self.arrays["categories"][stops[place] : stops[place + 1]]
            codes = np.searchsorted(known, ordered[:, place]).clip(0, max(len(known) - 1, 0))
            same = known[codes] == ordered[:, place] if len(known) else np.zeros(len(X), dtype=bool)
            ordered[:, place] = np.where(same, codes, np.nan)
        return ordered

    def _check(self) -> None:
        for name, kind in KINDS.items():
            if self.boosted or name in self.arrays or name not in ONLY_BOOSTED:
                found = self.arrays[name]
                n_axes = 2 if name in ("value", "sets", "known") else 1
                _require(
                    found.dtype.kind == kind and found.ndim == n_axes,
                    f"the array {name!r} has a wrong type or number of axes",
                )
        a, n_nodes = self.arrays, len(self.arrays["left"])
        starts, n_outputs = a["starts"], 1 if self.boosted else len(self.classes_)
        nodes = np.arange(n_nodes)
        for name in ("right", "feature", "threshold", "missing_left", "set"):
            _require(a[name].shape == (n_nodes,), f"the array {name!r} of the trees has a wrong length")
        _require(a["value"].shape == (n_nodes, n_outputs), "the values of the trees have a wrong shape")
        _require(bool(np.isfinite(a["value"]).all()), "a value of a tree is not finite")
        _require(not np.isnan(a["threshold"]).any(), "a threshold is NaN")
        _require(
            len(starts) > 1 and starts[0] == 0 and starts[-1] == n_nodes and bool((np.diff(starts) > 0).all()),
            "the trees do not fill their arrays exactly",
        )
        ends = np.repeat(starts[1:], np.diff(starts))
        inner = a["left"] >= 0
        for side in ("left", "right"):
            child = a[side][inner]
            _require(
                bool(((child > nodes[inner]) & (child < ends[inner])).all()),
                "a child is not after its parent or not in the same tree",
            )
        _require(
            bool(((a["feature"] >= 0) & (a["feature"] < self.n_features_in_)).all()), "a tree has an unknown feature"
        )
        sets = a["sets"]
        _require(sets.ndim == 2 and sets.shape[1] == SET_BITS, "the sets of categories have a wrong shape")
        _require(bool((a["set"] < len(sets)).all()), "a tree has an unknown set of categories")
        _require(a["known"].shape == (self.n_features_in_, SET_BITS), "the known categories have a wrong shape")
        if self.boosted:
            stops = a["category_stops"]
            _require(
                sorted(a["order"].tolist()) == list(range(self.n_features_in_)),
                "the order of the features is not a permutation",
            )
            _require(
                stops[0] == 0
                and stops[-1] == len(a["categories"])
                and bool(((np.diff(stops) >= 0) & (np.diff(stops) <= SET_BITS)).all())
                and len(stops) <= self.n_features_in_ + 1,
                "the categories do not fill their array exactly",
            )
            codes = a["feature"][a["set"] >= 0]
            _require(bool((codes < len(stops) - 1).all()), "a numerical feature has a set of categories")
            _require(bool(np.isfinite(a["baseline"]).all()), "the baseline is not finite")
            n_classes = len(self.classes_)
            _require(len(a["baseline"]) == (1 if n_classes == 2 else n_classes), "the baseline has a wrong length")
        else:
            _require(bool((a["set"] < 0).all()), "a forest has sets of categories")


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(what)


def boosted_arrays(estimator: Any) -> Arrays:
    """Return the trees of a fitted HistGradientBoostingClassifier."""
    trees = [tree for iteration in estimator._predictors for tree in iteration]
    nodes = [tree.nodes for tree in trees]
    starts = np.cumsum([0, *map(len, nodes)])
    whole = np.concatenate(nodes)
    shift = np.repeat(starts[:-1], np.diff(starts))
    leaf = whole["is_leaf"].astype(bool)
    sets = [tree.raw_left_cat_bitsets for tree in trees]
    set_starts = np.repeat(np.cumsum([0, *map(len, sets)])[:-1], np.diff(starts))
    categorical = whole["is_categorical"].astype(bool) & ~leaf
    is_categorical = estimator.is_categorical_
    n_features = estimator.n_features_in_
    if is_categorical is None:
        is_categorical = np.zeros(n_features, dtype=bool)
    known = np.zeros((n_features, SET_BITS), dtype=bool)
    categories: list[Floats] = []
    if is_categorical.any():
        encoder = estimator._preprocessor.named_transformers_["encoder"]
        categories = [each[~np.isnan(each)].astype(np.float64) for each in encoder.categories_]
        bits, _ = estimator._bin_mapper.make_known_categories_bitsets()
        known[: len(categories)] = _bits(bits)  # scikit-learn puts the categorical features first
    return {
        "starts": starts,
        "left": np.where(leaf, -1, whole["left"].astype(np.int64) + shift),
        "right": np.where(leaf, -1, whole["right"].astype(np.int64) + shift),
        "feature": np.where(leaf, 0, whole["feature_idx"]).astype(np.int64),
        "threshold": np.where(leaf | categorical, 0.0, whole["num_threshold"]),
        "missing_left": whole["missing_go_to_left"].astype(bool),
        "value": whole["value"].astype(np.float64)[:, None],
        "set": np.where(categorical, whole["bitset_idx"].astype(np.int64) + set_starts, -1),
        "sets": _bits(np.concatenate(sets)),
        "known": known,
        "baseline": np.asarray(estimator._baseline_prediction, dtype=np.float64).reshape(-1),
        "order": np.concatenate([np.flatnonzero(is_categorical), np.flatnonzero(~is_categorical)]).astype(np.int64),
        "categories": np.concatenate([*categories, np.zeros(0)]),
        "category_stops": np.cumsum([0, *map(len, categories)]),
    }


def forest_arrays(estimator: Any) -> Arrays:
    """Return the trees of a fitted decision tree or forest."""
    trees = [each.tree_ for each in getattr(estimator, "estimators_", [estimator])]
    starts = np.cumsum([0, *(tree.node_count for tree in trees)])
    shift = np.repeat(starts[:-1], np.diff(starts))
    left, right = (np.concatenate([getattr(tree, f"children_{side}") for tree in trees]) for side in ("left", "right"))
    leaf = left < 0
    return {
        "starts": starts,
        "left": np.where(leaf, -1, left + shift).astype(np.int64),
        "right": np.where(leaf, -1, right + shift).astype(np.int64),
        "feature": np.where(leaf, 0, np.concatenate([tree.feature for tree in trees])).astype(np.int64),
        "threshold": np.where(leaf, 0.0, np.concatenate([tree.threshold for tree in trees])),
        "missing_left": np.concatenate([tree.missing_go_to_left for tree in trees]).astype(bool),
        "value": np.concatenate([tree.value[:, 0, :] for tree in trees]).astype(np.float64),
        "set": np.full(len(left), -1, dtype=np.int64),
        "sets": np.zeros((0, SET_BITS), dtype=bool),
        "known": np.zeros((estimator.n_features_in_, SET_BITS), dtype=bool),
    }


def _bits(sets: NDArray[Any]) -> NDArray[np.bool_]:
    """Return sets of 8 words of 32 bits each as rows of 256 truth values."""
    words = np.asarray(sets, dtype="<u4").reshape(-1, SET_BITS // 32)
    return np.unpackbits(words.view(np.uint8), axis=1, bitorder="little").astype(bool)
