"""Base models on disk, without pickle and without any code in the file.

    trees and forests of scikit-learn   arrays, which `trees` checks and evaluates
    LightGBM                            its own text format, which LightGBM reads
    XGBoost                             its own JSON format, which XGBoost reads
    other models of scikit-learn        skops, if every type in the model is on skops' own list of trusted types
    all others                          not written: use `save(path, base=False)` and `load(path, base=...)`

The file of the weights contains the base under names that begin with "base/".  Text and skops data are bytes.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from fairbound._errors import missing_extra
from fairbound.estimator import (
    BaseModel,
    BaseScores,
    CodedColumns,
    EncodedColumns,
    FittedBase,
    GroupPosterior,
    RawColumns,
    ScoreScale,
    base_name,
    is_a,
)
from fairbound.persistence.folder import ModelFileError
from fairbound.persistence.parts import encoder_from_json, encoder_to_json, expect, expect_list
from fairbound.persistence.trees import TreeModel, boosted_arrays, forest_arrays

PREFIX = "base/"
FORESTS = ("RandomForestClassifier", "ExtraTreesClassifier", "DecisionTreeClassifier", "ExtraTreeClassifier")


class LightGBMModel:
    """A booster that was read from LightGBM's text format."""

    def __init__(self, text: str, n_classes: int) -> None:
        lightgbm = _import("lightgbm", "Reading this model needs", "lightgbm")
        try:
            self.booster = lightgbm.Booster(model_str=text)
        except lightgbm.basic.LightGBMError as error:
            raise ValueError(f"LightGBM cannot read its model: {error}") from error
        self.text, self.classes_ = text, np.arange(n_classes)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probabilities of the classes, in their order."""
        found = np.asarray(self.booster.predict(X))
        return np.stack([1.0 - found, found], axis=1) if found.ndim == 1 else found


class XGBoostModel:
    """A booster that was read from XGBoost's JSON format."""

    OBJECTIVES = ("binary:logistic", "multi:softprob")
    """Objectives for which the booster itself returns probabilities."""

    def __init__(self, text: bytes, n_classes: int) -> None:
        xgboost = _import("xgboost", "Reading this model needs", "xgboost")
        _check_xgboost(text)  # XGBoost does not check what it reads, and a wrong file can end the process
        self.booster = xgboost.Booster()
        try:
            self.booster.load_model(bytearray(text))
        except xgboost.core.XGBoostError as error:
            reason = str(error).partition("\n")[0]
            raise ValueError(f"XGBoost cannot read its model: {reason}") from error
        self.text, self.classes_ = text, np.arange(n_classes)

    @classmethod
    def written(cls, estimator: Any) -> bytes:
        """Return a fitted XGBClassifier in that format, without the trees after its best iteration."""
        name = base_name(estimator)
        if estimator.objective not in cls.OBJECTIVES or not np.isnan(estimator.missing):
            raise ValueError(
                f"base={name} can be written only if its objective is one of {', '.join(cls.OBJECTIVES)} and "
                f"missing=nan, but it has objective={estimator.objective!r} and missing={estimator.missing!r}: leave "
                "the base out with save(path, base=False), and give it again with load(path, base=...)."
            )
        booster = estimator.get_booster()
        if "best_iteration" in booster.attributes():
            booster = booster[: estimator.best_iteration + 1]
        return bytes(booster.save_raw("json"))

    def predict_proba(self, X: Any) -> NDArray[np.float32]:
        """Return the probabilities of the classes, in their order."""
        found = np.asarray(self.booster.inplace_predict(X))
        return np.stack([1.0 - found, found], axis=1) if found.ndim == 1 else found


def _check_xgboost(text: bytes) -> None:
    """Raise an error if this is not a model of XGBoost, or if the arrays of a tree do not fit each other."""
    try:
        learner = json.loads(text)["learner"]
        booster = learner["gradient_booster"]
        n_features = int(learner["learner_model_param"]["num_feature"])
        trees = booster.get("gbtree", booster)["model"]["trees"]  # dart holds a gbtree
        for tree in trees:
            n_nodes = len(tree["left_children"])
            same = ("right_children", "parents", "split_indices", "split_conditions", "default_left", "base_weights")
            children = np.array([tree["left_children"], tree["right_children"]], dtype=np.int64)
            features = np.array(tree["split_indices"], dtype=np.int64)
            if n_nodes != int(tree["tree_param"]["num_nodes"]) or any(len(tree[name]) != n_nodes for name in same):
                raise ValueError("the arrays of a tree have different lengths")
            if not n_nodes or children.max() >= n_nodes or not 0 <= features.min() <= features.max() < n_features:
                raise ValueError("a tree refers to a node or a column that it does not have")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"XGBoost cannot read its model: {error}") from error


def base_to_parts(scores: BaseScores, *, write: bool) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the description of a model's base, and its tensors; without `write` the fitted models are left out."""
    fitted, tensors = scores.fitted, {}
    described: dict[str, Any] = {
        "flipped": scores.flipped,
        "uses_columns": scores.uses_columns,
        "fitted": None,
        "posteriors": [],
    }
    count = 0

    def models_to_json(models: Sequence[BaseModel], n_classes: int) -> list[dict[str, Any]]:
        nonlocal count
        listed = []
        for model in models:
            kind, arrays = _written(model.estimator, n_classes) if write else ("own", {})
            tensors.update({f"{PREFIX}{count}/{name}": torch.from_numpy(each) for name, each in arrays.items()})
            listed.append(
                {
                    "kind": kind,
                    "name": base_name(model.estimator),
                    "n_features": int(getattr(model.estimator, "n_features_in_", 0)),
                    "n_classes": n_classes,
                    "columns": _columns_to_json(model),
                }
            )
            count += 1
        return listed

    if fitted is not None:
        described["fitted"] = {
            "probabilities": fitted.scale.probabilities,
            "unit": fitted.scale.unit,
            "scored": fitted.scored,
            "models": models_to_json(fitted.models, len(fitted.classes)),
        }
    for each in scores.posteriors:
        stated = {"names": list(each.names), "n_groups": each.n_groups, "label": each.label}
        described["posteriors"].append({**stated, "models": models_to_json(each.models, each.n_groups)})
    return described, tensors


def base_from_parts(
    values: Mapping[str, Any], tensors: Mapping[str, Tensor], classes: Sequence[Any], encoder: Any, own: Any
) -> BaseScores:
    """Read the base of a model.

    Parameters
    ----------
    values : mapping
        The description from `base_to_parts`.
    tensors : mapping
        The tensors whose names begin with "base/".
    classes : sequence
        The labels in the order of the scores.
    encoder : TableEncoder, or None
        The encoder of the model.
    own : fitted classifier, or several, optional
        The base models that were not written, in their order.
    """
    if isinstance(own, FittedBase):
        own = own.estimators
    given = [] if own is None else list(own) if isinstance(own, list | tuple) else [own]
    for each in given:
        if not hasattr(each, "predict_proba") and not hasattr(each, "decision_function"):
            raise ModelFileError(
                f"load(path, base={type(each).__name__}(...)): this base has no scores. Give the fitted model with "
                "predict_proba or decision_function."
            )
        if hasattr(each, "get_params"):
            try:
                check_is_fitted(each)
            except NotFittedError as error:
                raise ModelFileError(
                    f"load(path, base={type(each).__name__}(...)): this base is not fitted. Give the fitted model that "
                    "was corrected."
                ) from error
    count = 0

    def models_from_json(listed: Any) -> tuple[BaseModel, ...]:
        nonlocal count
        models = []
        for each in expect_list(listed, dict, "base"):
            start = f"{PREFIX}{count}/"
            arrays = {
                name.removeprefix(start): value.numpy() for name, value in tensors.items() if name.startswith(start)
            }
            models.append(BaseModel(_read(each, arrays, given), _columns_from_json(each["columns"], encoder)))
            count += 1
        if not models:
            raise ValueError("the list of base models is empty")
        return tuple(models)

    fitted = None
    if values["fitted"] is not None:
        stated = expect(values["fitted"], dict, "base")
        unit = expect(stated["unit"], float, "unit")
        if unit <= 0:
            raise ValueError(f"the unit of the scores must be positive, not {unit!r}")
        scale = ScoreScale(expect(stated["probabilities"], bool, "probabilities"), unit)
        models = models_from_json(stated["models"])
        fitted = FittedBase(models, scale, tuple(classes), expect(stated["scored"], str, "scored"))
    posteriors = []
    for each in expect_list(values["posteriors"], dict, "posterior"):
        names, n_groups = tuple(expect_list(each["names"], str, "name")), expect(each["n_groups"], int, "n_groups")
        label = None if each["label"] is None else expect(each["label"], int, "label")
        width = n_groups - 1 if label is None else n_groups
        if n_groups < 2 or len(names) != width or (label is not None and not 0 <= label < len(classes)):
            raise ValueError("an estimate of the group has names or a label that do not fit the classes")
        posteriors.append(GroupPosterior(names, n_groups, label, models_from_json(each["models"])))
    if given:
        raise ModelFileError(f"load(path, base=...) was given {len(given)} more models than needed: leave them out.")
    return BaseScores(
        np.zeros((0, 1 if len(classes) == 2 else len(classes))),
        fitted,
        expect(values["flipped"], bool, "flipped"),
        expect(values["uses_columns"], bool, "uses_columns"),
        tuple(posteriors),
    )


# --- one model -----------------------------------------------------------------------------------------------------


def _written(estimator: Any, n_classes: int) -> tuple[str, dict[str, NDArray[Any]]]:
    """Return the format of a fitted estimator and its arrays; raise an error if it cannot be written without code."""
    if isinstance(estimator, TreeModel):
        return ("boosted" if estimator.boosted else "forest"), estimator.arrays
    if isinstance(estimator, LightGBMModel):
        return "lightgbm", {"text": _as_bytes(estimator.text.encode())}
    if type(estimator).__module__.startswith("lightgbm.") and is_a(estimator, "LGBMClassifier"):
        return "lightgbm", {"text": _as_bytes(estimator.booster_.model_to_string().encode())}
    if isinstance(estimator, XGBoostModel):
        return "xgboost", {"text": _as_bytes(estimator.text)}
    if type(estimator).__module__.startswith("xgboost.") and is_a(estimator, "XGBClassifier"):
        return "xgboost", {"text": _as_bytes(XGBoostModel.written(estimator))}
    name = base_name(estimator)
    if not type(estimator).__module__.startswith("sklearn."):
        raise ValueError(
            f"base={name} is a model that cannot be written without code: leave the base out with "
            "save(path, base=False), and give it again with load(path, base=...)."
        )
    if is_a(estimator, "HistGradientBoostingClassifier") and takes_arrays(estimator):
        return "boosted", boosted_arrays(estimator)
    if is_a(estimator, *FORESTS) and len(estimator.classes_) == n_classes:
        return "forest", forest_arrays(estimator)
    skops = _import("skops.io", f"Writing base={name} needs", "skops")
    data = skops.dumps(estimator)
    untrusted = skops.get_untrusted_types(data=data)
    if untrusted:
        raise ValueError(
            f"base={name} contains the type {untrusted[0]}, which is not on skops' list of trusted types: leave the "
            "base out with save(path, base=False), and give it again with load(path, base=...)."
        )
    return "skops", {"data": _as_bytes(data)}


def takes_arrays(estimator: Any) -> bool:
    """Return whether a booster of scikit-learn was trained on arrays of numbers, not on a table with text."""
    if hasattr(estimator, "feature_names_in_"):
        return False
    return estimator.is_categorical_ is None or all(
        np.asarray(each).dtype.kind == "f"
        for each in estimator._preprocessor.named_transformers_["encoder"].categories_
    )


def _read(stated: Mapping[str, Any], arrays: dict[str, NDArray[Any]], given: list[Any]) -> Any:
    """Return a fitted estimator from its format, or the next of those given."""
    kind, n_classes = expect(stated["kind"], str, "kind"), expect(stated["n_classes"], int, "n_classes")
    name = expect(stated["name"], str, "name")
    if kind in ("boosted", "forest"):
        n_features = expect(stated["n_features"], int, "n_features")
        return TreeModel(arrays, boosted=kind == "boosted", n_features=n_features, n_classes=n_classes)
    if kind == "lightgbm":
        return LightGBMModel(arrays["text"].tobytes().decode(), n_classes)
    if kind == "xgboost":
        return XGBoostModel(arrays["text"].tobytes(), n_classes)
    if kind == "skops":
        skops = _import("skops.io", f"Reading base={name} needs", "skops")
        data = arrays["data"].tobytes()
        untrusted = skops.get_untrusted_types(data=data)
        if untrusted:
            raise ModelFileError(
                f"The base {name} in this file contains the type {untrusted[0]}, which is not on skops' list of "
                "trusted types, so it is not read."
            )
        return skops.loads(data, trusted=[])
    if kind != "own":
        raise ValueError(f"the base is of the unknown kind {kind!r}")
    if not given:
        raise ModelFileError(
            f"The model was saved without its base ({name}): give the fitted base with load(path, base=...)."
        )
    found = given.pop(0)
    needed, there = expect(stated["n_features"], int, "n_features"), getattr(found, "n_features_in_", 0)
    if needed and there and needed != there:
        raise ModelFileError(
            f"load(path, base={base_name(found)}(...)): this base has {there} columns, but the base of the model has "
            f"{needed}: give that one."
        )
    return found


def _columns_to_json(model: BaseModel) -> dict[str, Any]:
    columns = model.columns
    if isinstance(columns, CodedColumns):
        return {"kind": "codes", "encoder": encoder_to_json(columns.encoder)}
    return {"kind": "encoded" if isinstance(columns, EncodedColumns) else "raw"}


def _columns_from_json(values: Any, encoder: Any) -> Any:
    readers: dict[str, Callable[[], Any]] = {
        "codes": lambda: CodedColumns(encoder_from_json(values["encoder"])),
        "encoded": lambda: EncodedColumns(None, encoder),
        "raw": RawColumns,
    }
    return readers[expect(expect(values, dict, "columns")["kind"], str, "kind")]()


def _as_bytes(data: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(data, dtype=np.uint8).copy()


def _import(name: str, what: str, extra: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise missing_extra(what, name.partition(".")[0], extra) from error
