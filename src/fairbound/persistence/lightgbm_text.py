"""The text of a LightGBM booster: read, checked, and written again for LightGBM, which follows its numbers unchecked.

A tree with n leaves has n − 1 nodes.  A child c ≥ 0 is node c, and c < 0 is leaf −1 − c.  The text is well formed if

    objective     one of LightGBM for classes or numbers, with one tree per iteration and class (one for two classes)
    children      every node but the first, and every leaf, is the child of one node; nodes come after their parents
    features      exist
    categories    the threshold of a node is the position of its set, and the sets fill their words exactly
    values        are finite

LightGBM never sees the text of a file, but the text written here: what is not named below is left out.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairbound._json import Scalar, decode, encode
from fairbound.persistence.folder import require

Tree = dict[str, NDArray[Any]]

_OBJECTIVE = re.compile(
    r"(binary|multiclass|multiclassova|regression|regression_l1|huber|fair|poisson|quantile|mape|gamma|tweedie)"
    r"(?: num_class:(\d+))?(?: sigmoid:[0-9.e+-]+)?(?: sqrt)?",
    re.ASCII,
)
_CATEGORIES = "pandas_categorical:"
_CATEGORICAL = 1
"""A bit of `decision_type`."""
_INTEGERS = {"left_child", "right_child", "split_feature", "decision_type", "cat_boundaries", "cat_threshold"}
_INTEGERS |= {"num_features", "leaf_features"}


def checked_lightgbm(text: str, n_classes: int) -> str:
    """Return the text for LightGBM; raise an error if it is not well formed."""
    body, _, tail = text.partition("\nend of trees")
    head, *blocks = body.split("\nTree=")
    stated = _entries(head)
    objective = _OBJECTIVE.fullmatch(stated["objective"])
    require(objective is not None, f"its objective is {stated['objective']!r:.60}")
    assert objective is not None
    several = objective[1].startswith("multiclass")
    require(several or n_classes == 2 * (objective[1] == "binary"), f"{objective[1]} has not {n_classes} classes")
    n_outputs = n_classes if several else 1
    counts = (stated["num_class"], stated["num_tree_per_iteration"], objective[2] or "1")
    require(counts == (str(n_outputs),) * 3, f"it has another number of classes than {n_classes}")
    n_features = len(stated["feature_names"].split())
    require(stated["max_feature_idx"] == str(n_features - 1), "it has another number of features than of names")
    require(bool(blocks) and len(blocks) % n_outputs == 0, f"it has {len(blocks)} trees for {n_outputs} outputs")
    lines = ["tree", "version=v4", f"num_class={n_outputs}", f"num_tree_per_iteration={n_outputs}", "label_index=0"]
    lines += [f"max_feature_idx={n_features - 1}", f"objective={objective[0]}"]
    lines += ["average_output"] * ("average_output" in stated)
    lines += [f"feature_names={' '.join(f'Column_{place}' for place in range(n_features))}"]
    lines += [f"feature_infos={' '.join(['none'] * n_features)}", ""]
    for number, block in enumerate(blocks):
        tree = _tree(_entries(block), n_features)
        lines += [f"Tree={number}", f"num_leaves={len(tree['leaf_value'])}"]
        lines += [f"num_cat={len(tree['cat_boundaries']) - 1}", f"is_linear={int('leaf_const' in tree)}"]
        lines += [f"{name}={' '.join(map(repr, values.tolist()))}" for name, values in tree.items()]
        lines += ["shrinkage=1", "", ""]
    last = next((line for line in tail.splitlines() if line.startswith(_CATEGORIES)), f"{_CATEGORIES}null")
    known = decode(last.removeprefix(_CATEGORIES).encode(), list[list[Scalar]] | None)
    return "\n".join([*lines, "end of trees", "", _CATEGORIES + encode(known).decode(), ""])


def _entries(block: str) -> dict[str, str]:
    return {name: value for name, _, value in (line.strip().partition("=") for line in block.splitlines())}


def _tree(stated: dict[str, str], n_features: int) -> Tree:
    """Return the checked arrays of a tree."""
    n_leaves, n_sets = int(stated["num_leaves"]), int(stated["num_cat"])
    require(n_leaves >= 1 and n_sets >= 0, "a tree has no leaf")
    lengths = {"leaf_value": n_leaves, "cat_boundaries": n_sets + 1 if n_sets else 0}
    for name in ("split_feature", "threshold", "decision_type", "left_child", "right_child"):
        lengths[name] = n_leaves - 1
    if stated.get("is_linear", "0") != "0":
        lengths |= {"leaf_const": n_leaves, "num_features": n_leaves}
    tree = {name: _array(stated, name, length) for name, length in lengths.items()}
    if not n_sets:
        tree["cat_boundaries"] = np.zeros(1, dtype=np.int64)
    bounds = tree["cat_boundaries"]
    require(bounds[0] == 0 and bool((np.diff(bounds) >= 0).all()), "the sets of categories of a tree overlap")
    tree["cat_threshold"] = _array(stated, "cat_threshold", int(bounds[-1]))
    _within(tree["cat_threshold"], 2**32, "set of categories")
    if "leaf_const" in tree:
        _within(tree["num_features"], n_features + 1, "number of features in a leaf")
        for name in ("leaf_features", "leaf_coeff"):
            tree[name] = _array(stated, name, int(tree["num_features"].sum()))
        _within(tree["leaf_features"], n_features, "feature")
    _within(tree["split_feature"], n_features, "feature")
    _within(tree["decision_type"], 12, "kind of decision")
    children, nodes = np.stack([tree["left_child"], tree["right_child"]]), np.arange(n_leaves - 1)
    each_once = np.concatenate([np.arange(-n_leaves, 0), nodes[1:]]) if n_leaves > 1 else nodes
    require(
        np.array_equal(np.sort(children, axis=None), each_once),
        "the children of a tree are not all of its nodes and leaves, each once",
    )
    require(bool(((children < 0) | (children > nodes)).all()), "a child of a tree is not after its parent")
    sets = tree["threshold"][(tree["decision_type"] & _CATEGORICAL) > 0]
    _within(sets, n_sets, "set of categories")
    require(bool((sets == np.floor(sets)).all()), "a set of categories of a tree has no whole number")
    return tree


def _array(stated: dict[str, str], name: str, length: int) -> NDArray[Any]:
    words = stated[name].split() if length else []
    require(len(words) == length, f"a tree has {len(words)} values of {name!r}, not {length}")
    found = np.array(list(map(int if name in _INTEGERS else float, words)), dtype="i8" if name in _INTEGERS else "f8")
    require(bool(np.isfinite(found).all()), f"a tree has {name!r} with a value that is not finite")
    return found


def _within(values: NDArray[Any], end: int, what: str) -> None:
    require(not len(values) or bool(values.min() >= 0 and values.max() < end), f"a tree has an unknown {what}")
