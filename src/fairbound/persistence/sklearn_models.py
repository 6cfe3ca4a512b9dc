"""Models of scikit-learn on disk, by skops, which runs no code for the types on its list of trusted types.

Trees are not on that list, because scikit-learn follows their numbers unchecked.  So a file with trees contains only
the types named here, and its trees are checked when it has been read: every child comes after its parent, features,
sets of categories and classes exist, and values are finite.  Other models may contain all types that skops trusts.

skops stores arrays in a zip archive, uncompressed.  An archive is read only if it is not larger than its bytes.
"""

from __future__ import annotations

import io
import json
import warnings
import zipfile
from collections import defaultdict
from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.base import is_classifier

from fairbound.estimator import is_a
from fairbound.persistence.folder import require

_TASKS = ("Classifier", "Regressor")
FORESTS = tuple(f"{kind}{task}" for kind in ("RandomForest", "ExtraTrees") for task in _TASKS)
SINGLE = tuple(f"{kind}{task}" for kind in ("DecisionTree", "ExtraTree") for task in _TASKS)
BOOSTED = tuple(f"HistGradientBoosting{task}" for task in _TASKS)

_TREES = {"sklearn.tree._tree.Tree", "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor"}
_UNTRUSTED_PARTS = _TREES | {
    "functools.partial",
    "sklearn.compose._column_transformer._RemainderColsList",
    "sklearn.utils.validation.check_array",
}
"""Parts of trees that skops does not trust."""
_PARTS_OF_TREES = _UNTRUSTED_PARTS | {
    *(f"sklearn.ensemble._forest.{name}" for name in FORESTS),
    *(f"sklearn.tree._classes.{name}" for name in SINGLE),
    *(f"sklearn.ensemble._hist_gradient_boosting.gradient_boosting.{name}" for name in BOOSTED),
    "sklearn.ensemble._hist_gradient_boosting.binning._BinMapper",
    "sklearn.compose._column_transformer.ColumnTransformer",
    "sklearn.preprocessing._encoders.OrdinalEncoder",
    "sklearn.preprocessing._function_transformer.FunctionTransformer",
    "sklearn.preprocessing._label.LabelEncoder",
}
"""All parts of a model of trees, except numbers, texts, lists, arrays, generators and losses."""
_PLAIN = ("builtins.", "numpy.", "sklearn._loss.")


def read_model(skops: Any, data: bytes, n_classes: int) -> Any:
    """Return the estimator that skops wrote; raise an error if it is damaged.  A regressor has no classes."""
    _check_archive(data)
    trusted = trusted_types(skops, data)
    estimator = skops.loads(data, trusted=trusted)
    estimator.get_params()  # fails if a parameter is missing
    require(np.shape(getattr(estimator, "classes_", ())) in ((0,), (n_classes,)), "it has other classes")
    if _TREES & set(trusted):
        _check_trees(estimator)
    return estimator


def trusted_types(skops: Any, data: bytes) -> list[str]:
    """Return the types to trust beyond the list of skops; raise ValueError if there are others."""
    named = {(f"{node.get('__module__')}.{node['__class__']}", node.get("__loader__")) for node in _nodes(data)}
    trusted = {name for name, _ in named} & _UNTRUSTED_PARTS
    others = set(skops.get_untrusted_types(data=data)) - trusted
    if _TREES & trusted:
        others |= {
            name
            for name, loader in named
            if name not in _PARTS_OF_TREES and (loader == "FunctionNode" or not name.startswith(_PLAIN))
        }
    if others:
        raise ValueError(f"it contains the type {min(others)}, which is not on the list of trusted types")
    return sorted(trusted)


def _nodes(data: bytes) -> list[dict[str, Any]]:
    """Return the description of every object in an archive."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        values = [json.loads(archive.read("schema.json"))]
    for value in values:  # grows
        values += value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [value for value in values if isinstance(value, dict) and "__class__" in value]


def _check_archive(data: bytes) -> None:
    """Check that an archive, and the arrays in it, do not claim more than the bytes that are there."""
    arrays: dict[str, tuple[tuple[int, ...], np.dtype[Any], int]] = {}
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        require(sum(entry.file_size for entry in archive.infolist()) <= len(data), "it claims more than its bytes")
        for entry in archive.infolist():
            if entry.filename != "schema.json":
                with archive.open(entry) as file:
                    require(np.lib.format.read_magic(file) == (1, 0), "an array has an unknown format")
                    shape, _, dtype = np.lib.format.read_array_header_1_0(file)
                count = 1
                for length in shape:  # not math.prod, whose result may have millions of digits
                    require(length >= 0, "an array has a negative length")
                    count = min(count * length, len(data) + 1)
                require(count * dtype.itemsize <= entry.file_size, "an array is cut off")
                arrays[entry.filename] = shape, dtype, entry.file_size
    nodes, known = _nodes(data), defaultdict[Any, list[Any]](list)
    files = {(node.get("__id__"), node["file"]) for node in nodes if "file" in node}
    require(sum(arrays[name][2] for _, name in files) <= len(data), "it repeats its arrays")
    for node in nodes:
        if node not in known[node.get("__id__")]:
            known[node.get("__id__")].append(node)
    for node in (node for node in nodes if node["__class__"] == "Tree"):
        # scikit-learn copies these arrays before anything else can be checked.  Of the objects with one number, skops
        # reads the first only, so there must not be others.
        args, state = node["__reduce__"]["args"], node["content"]
        (n_features, n_classes, n_outputs), found = args["content"], state["content"]
        parts = (args, n_features, n_classes, n_outputs, state, found["nodes"], found["values"])
        require(all(len(known[part["__id__"]]) == 1 for part in parts), "two objects of a tree have the same number")
        require(n_outputs["content"] == "1" and int(n_features["content"]) > 0, "a tree has other sizes")
        require(arrays[n_classes["file"]][:2] == ((1,), np.dtype(np.intp)), "a tree has other classes")
        shapes = [arrays[part["file"]][0] for part in parts[-2:]]
        require([len(shape) for shape in shapes] == [1, 3], "a tree has other arrays")


def _check_trees(estimator: Any) -> None:
    """Check the trees of an estimator that has just been read."""
    n_features = estimator.n_features_in_
    width = len(getattr(estimator, "classes_", (None,)))  # of the values of a forest
    require(hasattr(estimator, "classes_") == is_classifier(estimator), "it has other classes")
    _check_own(estimator)
    if is_a(estimator, *FORESTS, *SINGLE):
        for each in getattr(estimator, "estimators_", [estimator]):
            _check_own(each)
            require(is_a(each, *SINGLE) and each.n_features_in_ == n_features, "a tree has other features")
            tree = each.tree_
            require(tree.n_outputs == 1 and tree.max_n_classes == width, "a tree has other classes")
            require(0 < tree.node_count <= tree.capacity, "a tree has another number of nodes")
            inner = tree.children_left != -1  # as scikit-learn knows a leaf
            _check_nodes(inner, tree.children_left, tree.children_right, tree.feature, n_features, tree.value)
        return
    require(is_a(estimator, *BOOSTED) and not getattr(estimator, "_in_fit", False), "it has trees of another kind")
    _check_own(estimator._bin_mapper)
    known, place = estimator._bin_mapper.make_known_categories_bitsets()
    categorical = np.asarray(estimator._bin_mapper.is_categorical_, dtype=bool)
    require(len(place) == len(categorical) == n_features, "its columns have another number of categories")
    if estimator._preprocessor is not None:
        row = np.zeros((1, n_features), dtype=object)
        encoder = estimator._preprocessor.named_transformers_["encoder"]
        row[0, estimator.is_categorical_] = [each[0] for each in encoder.categories_]
        with warnings.catch_warnings(), sklearn.config_context(transform_output="default"):
            warnings.simplefilter("ignore")  # that the columns had names
            width = estimator._preprocessor.transform(row).shape[1]
        require(width == n_features, "it gives its trees another number of columns")
    for predictor in (each for iteration in estimator._predictors for each in iteration):
        _check_own(predictor)
        nodes, sets = predictor.nodes, predictor.raw_left_cat_bitsets
        inner = nodes["is_leaf"] == 0
        _check_nodes(inner, nodes["left"], nodes["right"], nodes["feature_idx"], n_features, nodes["value"])
        chosen = nodes[inner & (nodes["is_categorical"] != 0)]
        fits = bool(categorical[chosen["feature_idx"]].all() and (chosen["bitset_idx"] < len(sets)).all())
        require(sets.shape[1:] == known.shape[1:] and fits, "a tree has an unknown set of categories")


def _check_own(found: Any) -> None:
    """Check that the values of an object do not replace its methods."""
    shadowed = {name for name in vars(found) if callable(getattr(type(found), name, None))}
    require(not shadowed, f"it has values in place of {min(shadowed, default='')!r}")


def _check_nodes(
    inner: NDArray[np.bool_],
    left: NDArray[Any],
    right: NDArray[Any],
    feature: NDArray[Any],
    n_features: int,
    value: NDArray[Any],
) -> None:
    nodes = np.flatnonzero(inner)
    require(inner.ndim == 1 and len(inner) > 0, "a tree has no nodes")
    for child in (left[inner], right[inner]):
        require(bool(((child > nodes) & (child < len(inner))).all()), "a child of a tree is not after its parent")
    chosen = feature[inner]
    require(bool(((chosen >= 0) & (chosen < n_features)).all()), "a tree has an unknown feature")
    require(bool(np.isfinite(value).all()), "a value of a tree is not finite")
