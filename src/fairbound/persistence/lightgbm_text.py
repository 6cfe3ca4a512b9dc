"""The text of a LightGBM booster: read, checked, and written again for LightGBM, which follows its numbers unchecked.

A tree with n leaves has n − 1 nodes.  A child c ≥ 0 is node c, and c < 0 is leaf −1 − c.  The text is well formed if

    objective     binary or multiclass, with one tree per iteration and class (one for two classes)
    children      every node but the first, and every leaf, is the child of one node; nodes come after their parents
    features      exist
    categories    the threshold of a node is the position of its set, and the sets fill their words exactly
    values        are finite, and so are their sums

LightGBM never sees the text of a file, but the text written here: what is not named below is left out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Tree = dict[str, NDArray[Any]]

_NUMBER = re.compile(r"[-+]?[0-9.]+(e[-+]?[0-9]+)?", re.ASCII)
_OBJECTIVE = re.compile(r"(binary|multiclass|multiclassova)((?: (?:num_class|sigmoid):[0-9.e+-]+)*)", re.ASCII)
CATEGORICAL, DEFAULT_LEFT = 1, 2
"""Bits of `decision_type`; the two bits above them are the kind of missing values: 0 none, 1 zero, 2 NaN."""
_INTEGERS = {"left_child", "right_child", "split_feature", "decision_type", "cat_boundaries", "cat_threshold"}
_INTEGERS |= {"num_features", "leaf_features"}


@dataclass(frozen=True)
class LightGBMBooster:
    """A well-formed booster.

    Attributes
    ----------
    objective : {"binary", "multiclass", "multiclassova"}
    sigmoid : float
        The factor on the margin, for objectives that have one.
    averaged : bool
        Whether the trees are averaged, as in a random forest.
    n_features, n_outputs : int
        Tree t adds to output t mod `n_outputs`.
    trees : list of dict
        The arrays of each tree, by the names of LightGBM.
    """

    objective: str
    sigmoid: float
    averaged: bool
    n_features: int
    n_outputs: int
    trees: list[Tree]

    @property
    def text(self) -> str:
        """The text for LightGBM."""
        width, outputs = self.n_features, self.n_outputs
        objective = self.objective if outputs == 1 else f"{self.objective} num_class:{outputs}"
        lines = ["tree", "version=v4", f"num_class={outputs}", f"num_tree_per_iteration={outputs}", "label_index=0"]
        lines += [f"max_feature_idx={width - 1}", f"objective={objective} sigmoid:{self.sigmoid!r}"]
        lines += ["average_output"] * self.averaged
        lines += [f"feature_names={' '.join(f'Column_{place}' for place in range(width))}"]
        lines += [f"feature_infos={' '.join(['none'] * width)}", ""]
        for number, tree in enumerate(self.trees):
            lines += [f"Tree={number}", f"num_leaves={len(tree['leaf_value'])}"]
            lines += [f"num_cat={len(tree['cat_boundaries']) - 1}", f"is_linear={int('leaf_const' in tree)}"]
            lines += [f"{name}={' '.join(map(repr, values.tolist()))}" for name, values in tree.items()]
            lines += ["shrinkage=1", "", ""]
        return "\n".join([*lines, "end of trees", ""])


def read_lightgbm(text: str, n_classes: int) -> LightGBMBooster:
    """Return the booster of a text; raise ValueError if it is not well formed."""
    try:
        return _read(text, n_classes)
    except (KeyError, IndexError, OverflowError) as error:
        raise ValueError(f"the booster of LightGBM has no usable {error}") from error


def _read(text: str, n_classes: int) -> LightGBMBooster:
    head, *blocks = text.partition("\nend of trees")[0].split("\nTree=")
    stated = _entries(head)
    objective = _OBJECTIVE.fullmatch(stated["objective"])
    _require(objective is not None, f"its objective is {stated['objective']!r:.60}")
    assert objective is not None
    options = dict(each.split(":") for each in objective[2].split())
    sigmoid = float(options.get("sigmoid", 1.0))
    _require(0.0 < sigmoid < np.inf, f"its sigmoid is {sigmoid}")
    n_outputs = 1 if objective[1] == "binary" else n_classes
    _require(n_outputs > 1 or n_classes == 2, f"it decides between 2 classes, not {n_classes}")
    counts = (stated["num_class"], stated["num_tree_per_iteration"], options.get("num_class", stated["num_class"]))
    _require(counts == (str(n_outputs),) * 3, f"it has another number of classes than {n_classes}")
    n_features = len(stated["feature_names"].split())
    _require(stated["max_feature_idx"] == str(n_features - 1), "it has another number of features than of names")
    trees = [_tree(_entries(block), n_features) for block in blocks]
    _require(bool(trees) and len(trees) % n_outputs == 0, f"it has {len(trees)} trees for {n_outputs} outputs")
    largest = sum(float(np.abs(tree["leaf_value"]).max()) for tree in trees)
    _require(bool(np.isfinite(largest)), "the sum of its leaves is not finite")
    return LightGBMBooster(objective[1], sigmoid, "average_output" in stated, n_features, n_outputs, trees)


def _entries(block: str) -> dict[str, str]:
    return {name: value for name, _, value in (line.strip().partition("=") for line in block.splitlines())}


def _tree(stated: dict[str, str], n_features: int) -> Tree:
    """Return the checked arrays of a tree."""
    n_leaves, n_sets = int(stated["num_leaves"]), int(stated["num_cat"])
    lengths = {"leaf_value": n_leaves, "cat_boundaries": n_sets + 1 if n_sets else 0}
    for name in ("split_feature", "threshold", "decision_type", "left_child", "right_child"):
        lengths[name] = n_leaves - 1
    if stated.get("is_linear", "0") != "0":
        lengths |= {"leaf_const": n_leaves, "num_features": n_leaves}
    tree = {name: _array(stated, name, length) for name, length in lengths.items()}
    _require(n_leaves >= 1, "a tree has no leaf")
    if not n_sets:
        tree["cat_boundaries"] = np.zeros(1, dtype=np.int64)
    bounds = tree["cat_boundaries"]
    _require(bounds[0] == 0 and bool((np.diff(bounds) >= 0).all()), "the sets of categories of a tree overlap")
    tree["cat_threshold"] = _array(stated, "cat_threshold", int(bounds[-1]))
    _within(tree["cat_threshold"], 0, 2**32, "set of categories")
    if "leaf_const" in tree:
        _within(tree["num_features"], 0, n_features + 1, "number of features in a leaf")
        for name in ("leaf_features", "leaf_coeff"):
            tree[name] = _array(stated, name, int(tree["num_features"].sum()))
        _within(tree["leaf_features"], 0, n_features, "feature")
    _within(tree["split_feature"], 0, n_features, "feature")
    _within(tree["decision_type"], 0, 12, "kind of decision")
    children, nodes = np.stack([tree["left_child"], tree["right_child"]]), np.arange(n_leaves - 1)
    own = np.sort(children, axis=None)
    _require(
        bool((own[:n_leaves] == np.arange(-n_leaves, 0)).all() and (own[n_leaves:] == nodes[1:]).all())
        if n_leaves > 1
        else not len(own),
        "the children of a tree are not all of its nodes and leaves, each once",
    )
    _require(bool(((children < 0) | (children > nodes)).all()), "a child of a tree is not after its parent")
    sets = tree["threshold"][(tree["decision_type"] & CATEGORICAL) > 0]
    _within(sets, 0, n_sets, "set of categories")
    _require(bool((sets == np.floor(sets)).all()), "a set of categories of a tree has no whole number")
    return tree


def _array(stated: dict[str, str], name: str, length: int) -> NDArray[Any]:
    words = stated[name].split() if length else []
    _require(len(words) == length, f"a tree has {len(words)} values of {name!r}, not {length}")
    _require(all(map(_NUMBER.fullmatch, words)), f"a tree has {name!r} with a value that is no number")
    found = np.array([int(word) for word in words], dtype=np.int64) if name in _INTEGERS else np.array(words, float)
    _require(bool(np.isfinite(found).all()), f"a tree has {name!r} with a value that is not finite")
    return found


def _within(values: NDArray[Any], low: int, high: int, what: str) -> None:
    if len(values) and not (low <= values.min() and values.max() < high):
        raise ValueError(f"a tree of LightGBM has an unknown {what}")


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"the booster of LightGBM is damaged: {what}")
