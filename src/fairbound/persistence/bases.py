"""Base models on disk, without pickle and without any code in the file.

    LightGBM          its text, which `lightgbm_text` checks
    XGBoost           its JSON, which `xgboost_json` checks
    scikit-learn      skops, if every type in the model is on a list of trusted types (`sklearn_models`)
    all others        not written: use `save(path, base=False)` and `load(path, base=...)`

The file of the weights contains the base under names that begin with "base/", and each format is bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from fairbound._errors import import_extra
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
from fairbound.persistence.lightgbm_text import LightGBMBooster, read_lightgbm
from fairbound.persistence.parts import encoder_from_json, encoder_to_json, expect, expect_list
from fairbound.persistence.sklearn_models import read_model, write_model
from fairbound.persistence.xgboost_json import OBJECTIVES, read_xgboost

PREFIX = "base/"


class LightGBMModel:
    """A booster that was read from LightGBM's text format."""

    def __init__(self, text: str, n_classes: int) -> None:
        lightgbm = import_extra("lightgbm", "Reading this model needs", "lightgbm")
        self.checked = read_lightgbm(text, n_classes)
        try:
            self.booster = lightgbm.Booster(model_str=self.checked.text)
        except lightgbm.basic.LightGBMError as error:
            raise ValueError(f"LightGBM cannot read its model: {error}") from error
        self.classes_, self.n_features_in_ = np.arange(n_classes), self.checked.n_features

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probabilities of the classes, in their order."""
        found = np.asarray(self.booster.predict(X))
        return np.stack([1.0 - found, found], axis=1) if found.ndim == 1 else found


class XGBoostModel:
    """A booster that was read from XGBoost's JSON format."""

    def __init__(self, text: bytes, n_classes: int) -> None:
        xgboost = import_extra("xgboost", "Reading this model needs", "xgboost")
        self.learner = read_xgboost(text, n_classes)
        self.booster = xgboost.Booster()
        try:
            self.booster.load_model(bytearray(text))
        except xgboost.core.XGBoostError as error:
            reason = str(error).partition("\n")[0]
            raise ValueError(f"XGBoost cannot read its model: {reason}") from error
        self.text, self.classes_ = text, np.arange(n_classes)

    def predict_proba(self, X: Any) -> NDArray[np.float32]:
        """Return the probabilities of the classes, in their order."""
        found = np.asarray(self.booster.inplace_predict(X))
        return np.stack([1.0 - found, found], axis=1) if found.ndim == 1 else found


def lightgbm_booster(estimator: Any) -> LightGBMBooster:
    """Return the booster of a fitted LGBMClassifier."""
    if isinstance(estimator, LightGBMModel):
        return estimator.checked
    return read_lightgbm(estimator.booster_.model_to_string(), len(estimator.classes_))


def xgboost_text(estimator: Any) -> bytes:
    """Return the JSON of a fitted XGBClassifier, without the trees after its best iteration."""
    if isinstance(estimator, XGBoostModel):
        return estimator.text
    if estimator.objective not in OBJECTIVES or not np.isnan(estimator.missing):
        raise ValueError(
            f"base={base_name(estimator)} can be written only if its objective is one of {', '.join(OBJECTIVES)} and "
            f"missing=nan, but it has objective={estimator.objective!r} and missing={estimator.missing!r}: leave "
            "the base out with save(path, base=False), and give it again with load(path, base=...)."
        )
    booster = estimator.get_booster()
    if "best_iteration" in booster.attributes():
        booster = booster[: estimator.best_iteration + 1]
    return bytes(booster.save_raw("json"))


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

    def models_to_json(models: Sequence[BaseModel]) -> list[dict[str, Any]]:
        nonlocal count
        listed = []
        for model in models:
            kind, data = _written(model.estimator) if write else ("own", b"")
            if data:
                tensors[f"{PREFIX}{count}"] = torch.from_numpy(np.frombuffer(data, dtype=np.uint8).copy())
            listed.append(
                {
                    "kind": kind,
                    "name": base_name(model.estimator),
                    "n_features": int(getattr(model.estimator, "n_features_in_", 0)),
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
            "models": models_to_json(fitted.models),
        }
    for each in scores.posteriors:
        stated = {"names": list(each.names), "n_groups": each.n_groups, "label": each.label}
        described["posteriors"].append({**stated, "models": models_to_json(each.models)})
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
        The tensors whose names begin with "base/", and each format is bytes.
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

    def models_from_json(listed: Any, n_classes: int) -> tuple[BaseModel, ...]:
        nonlocal count
        models = []
        for each in expect_list(listed, dict, "base"):
            data = tensors[f"{PREFIX}{count}"].numpy().tobytes() if each["kind"] != "own" else b""
            models.append(BaseModel(_read(each, data, n_classes, given), _columns_from_json(each["columns"], encoder)))
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
        models = models_from_json(stated["models"], len(classes))
        fitted = FittedBase(models, scale, tuple(classes), expect(stated["scored"], str, "scored"))
    posteriors = []
    for each in expect_list(values["posteriors"], dict, "posterior"):
        names, n_groups = tuple(expect_list(each["names"], str, "name")), expect(each["n_groups"], int, "n_groups")
        label = None if each["label"] is None else expect(each["label"], int, "label")
        width = n_groups - 1 if label is None else n_groups
        if n_groups < 2 or len(names) != width or (label is not None and not 0 <= label < len(classes)):
            raise ValueError("an estimate of the group has names or a label that do not fit the classes")
        posteriors.append(GroupPosterior(names, n_groups, label, models_from_json(each["models"], n_groups)))
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


def _written(estimator: Any) -> tuple[str, bytes]:
    """Return the format of a fitted estimator and its bytes; raise an error if it cannot be written without code."""
    library = type(estimator).__module__.partition(".")[0]
    if isinstance(estimator, LightGBMModel) or (library == "lightgbm" and is_a(estimator, "LGBMClassifier")):
        return "lightgbm", lightgbm_booster(estimator).text.encode()
    if isinstance(estimator, XGBoostModel) or (library == "xgboost" and is_a(estimator, "XGBClassifier")):
        return "xgboost", xgboost_text(estimator)
    if library != "sklearn":
        raise ValueError(
            f"base={base_name(estimator)} is a model that cannot be written without code: leave the base out with "
            "save(path, base=False), and give it again with load(path, base=...)."
        )
    return "skops", write_model(estimator)


def _read(stated: Mapping[str, Any], data: bytes, n_classes: int, given: list[Any]) -> Any:
    """Return a fitted estimator from its format, or the next of those given."""
    kind, name = expect(stated["kind"], str, "kind"), expect(stated["name"], str, "name")
    if kind == "lightgbm":
        return LightGBMModel(data.decode(), n_classes)
    if kind == "xgboost":
        return XGBoostModel(data, n_classes)
    if kind == "skops":
        return read_model(data, name, n_classes)
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
