"""Base models on disk, without pickle and without any code in the file.

    LightGBM          its text, which `lightgbm_text` checks
    XGBoost           its JSON, which `xgboost_json` checks
    scikit-learn      skops, if every type in the model is on a list of trusted types (`sklearn_models`)
    all others        not written: use `save(path, base=False)` and `load(path, base=...)`

Each model is an array of bytes, whose name begins with "base/".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

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
from fairbound.persistence.folder import ModelFileError, require
from fairbound.persistence.lightgbm_text import checked_lightgbm
from fairbound.persistence.parts import Positive, StoredEncoder
from fairbound.persistence.sklearn_models import read_model, trusted_types
from fairbound.persistence.xgboost_json import OBJECTIVES, checked_xgboost

PREFIX = "base/"

GIVE_AGAIN = "leave the base out with save(path, base=False), and give it again with load(path, base=...)"


class LightGBMModel:
    """A booster that was read from LightGBM's text."""

    def __init__(self, data: bytes, n_classes: int) -> None:
        lightgbm = import_extra("lightgbm", "Reading this model needs", "lightgbm")
        self.booster_ = lightgbm.Booster(model_str=checked_lightgbm(data.decode(), n_classes))
        self.classes_ = np.arange(n_classes)
        self.n_features_in_ = self.booster_.num_feature()

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probabilities of the classes, in their order."""
        return _columns_of_classes(self.booster_.predict(X))

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return the predictions of a regression."""
        return np.asarray(self.booster_.predict(X))


class XGBoostModel:
    """A booster that was read from XGBoost's JSON."""

    def __init__(self, data: bytes, n_classes: int) -> None:
        xgboost = import_extra("xgboost", "Reading this model needs", "xgboost")
        self.booster = xgboost.Booster(model_file=bytearray(checked_xgboost(data, n_classes)))
        self.classes_ = np.arange(n_classes)

    def predict_proba(self, X: Any) -> NDArray[np.float32]:
        """Return the probabilities of the classes, in their order."""
        return _columns_of_classes(self.booster.inplace_predict(X))


def _columns_of_classes(found: Any) -> NDArray[Any]:
    found = np.asarray(found)
    return np.stack([1.0 - found, found], axis=1) if found.ndim == 1 else found


def xgboost_text(estimator: Any) -> bytes:
    """Return the JSON of a model of XGBoost, without the trees after its best iteration."""
    if isinstance(estimator, XGBoostModel):
        return bytes(estimator.booster.save_raw("json"))
    if estimator.objective not in OBJECTIVES or not np.isnan(estimator.missing):
        raise ValueError(
            f"base={base_name(estimator)} can be written only if its objective is one of {', '.join(OBJECTIVES)} and "
            f"missing=nan, but it has objective={estimator.objective!r} and missing={estimator.missing!r}: "
            f"{GIVE_AGAIN}."
        )
    booster = estimator.get_booster()
    if "best_iteration" in booster.attributes():
        booster = booster[: estimator.best_iteration + 1]
    return bytes(booster.save_raw("json"))


class StoredBaseModel(Struct):
    """A base model: its format, or "own" if it must be given again; its bytes are the array of its number."""

    kind: Literal["lightgbm", "xgboost", "skops", "own"]
    name: str
    n_features: int
    columns: StoredEncoder | Literal["encoded", "raw"]


Models = Annotated[list[StoredBaseModel], Meta(min_length=1)]


class StoredFitted(Struct):
    """The base and how its outputs become scores."""

    probabilities: bool
    unit: Positive
    scored: str
    models: Models


class StoredPosterior(Struct):
    """An estimate of the group."""

    names: tuple[str, ...]
    n_groups: Annotated[int, Meta(ge=2)]
    label: Annotated[int, Meta(ge=0)] | None
    models: Models


class StoredBase(Struct, forbid_unknown_fields=True):
    """The base of a model; its models are numbered in their order here."""

    flipped: bool
    uses_columns: bool
    fitted: StoredFitted | None
    posteriors: list[StoredPosterior]
    monotone: list[Annotated[int, Meta(ge=0)]]

    @classmethod
    def of(cls, scores: BaseScores, *, write: bool) -> tuple[StoredBase, dict[str, np.ndarray]]:
        """Return the record of a model's base, and its arrays; without `write` the fitted models are left out."""
        arrays: dict[str, np.ndarray] = {}
        number = count()

        def stored(models: Sequence[BaseModel]) -> list[StoredBaseModel]:
            return [_stored(model, f"{PREFIX}{next(number)}", arrays, write) for model in models]

        base, fitted = scores.fitted, None
        if base is not None:
            fitted = StoredFitted(base.scale.probabilities, base.scale.unit, base.scored, stored(base.models))
        posteriors = [
            StoredPosterior(each.names, each.n_groups, each.label, stored(each.models)) for each in scores.posteriors
        ]
        return cls(scores.flipped, scores.uses_columns, fitted, posteriors, scores.monotone.tolist()), arrays

    def restored(
        self, arrays: Mapping[str, np.ndarray], classes: Sequence[Any], encoder: Any, given: list[Any]
    ) -> BaseScores:
        """Return the base, for the labels in the order of the scores; `given` are the models that were not written."""
        number = count()

        def read(models: list[StoredBaseModel], n_classes: int) -> tuple[BaseModel, ...]:
            found = []
            for each, name in zip(models, (f"{PREFIX}{place}" for place in number), strict=False):
                data = b"" if each.kind == "own" else arrays[name].tobytes()
                estimator = _given(each, given) if each.kind == "own" else _read(each.kind, each.name, data, n_classes)
                found.append(BaseModel(estimator, _columns(each.columns, encoder)))
            return tuple(found)

        fitted = None
        if self.fitted is not None:
            scale = ScoreScale(self.fitted.probabilities, self.fitted.unit)
            fitted = FittedBase(read(self.fitted.models, len(classes)), scale, tuple(classes), self.fitted.scored)
        fits = (len(each.names) == each.n_groups - (each.label is None) for each in self.posteriors)
        require(all(fits), "an estimate of the group has another number of names")
        posteriors = tuple(
            GroupPosterior(each.names, each.n_groups, each.label, read(each.models, each.n_groups))
            for each in self.posteriors
        )
        if given:
            raise ModelFileError(
                f"load(path, base=...) was given {len(given)} more models than needed: leave them out."
            )
        none = np.zeros((0, max(1, len(classes) if len(classes) != 2 else 1)))
        monotone = np.array(self.monotone, dtype=np.intp)
        return BaseScores(none, fitted, self.flipped, self.uses_columns, posteriors, monotone=monotone)


def given_models(own: Any) -> list[Any]:
    """Return the models of `load(base=...)` as a list; raise an error if one has no scores, or is not fitted."""
    if isinstance(own, FittedBase):
        own = own.estimators
    given = [] if own is None else list(own) if isinstance(own, list | tuple) else [own]
    for each in given:
        said = f"load(path, base={type(each).__name__}(...)): this base"
        if not any(hasattr(each, name) for name in ("predict_proba", "decision_function", "predict")):
            raise ModelFileError(
                f"{said} has no scores. Give the fitted model with predict_proba or decision_function."
            )
        if hasattr(each, "get_params"):
            try:
                check_is_fitted(each)
            except NotFittedError as error:
                raise ModelFileError(f"{said} is not fitted. Give the fitted model that was corrected.") from error
    return given


def _stored(model: BaseModel, name: str, arrays: dict[str, np.ndarray], write: bool) -> StoredBaseModel:
    kind: Any = "own"
    if write:
        kind, data = _written(model.estimator)
        arrays[name] = np.frombuffer(data, dtype=np.uint8)
    columns: StoredEncoder | Literal["encoded", "raw"] = (
        "encoded" if isinstance(model.columns, EncodedColumns) else "raw"
    )
    if isinstance(model.columns, CodedColumns):
        columns = StoredEncoder.of(model.columns.encoder)
    return StoredBaseModel(
        kind, base_name(model.estimator), int(getattr(model.estimator, "n_features_in_", 0)), columns
    )


def _columns(stored: StoredEncoder | str, encoder: Any) -> Any:
    if isinstance(stored, StoredEncoder):
        return CodedColumns(stored.restored())
    return EncodedColumns(None, encoder) if stored == "encoded" else RawColumns()


def _given(stored: StoredBaseModel, given: list[Any]) -> Any:
    """Return the next of the models given, for one that was not written."""
    if not given:
        raise ModelFileError(
            f"The model was saved without its base ({stored.name}): give the fitted base with load(path, base=...)."
        )
    found = given.pop(0)
    there = getattr(found, "n_features_in_", 0)
    if stored.n_features and there and stored.n_features != there:
        raise ModelFileError(
            f"load(path, base={base_name(found)}(...)): this base has {there} columns, but the base of the model has "
            f"{stored.n_features}: give that one."
        )
    return found


def _written(estimator: Any) -> tuple[str, bytes]:
    """Return the format of a fitted estimator and its bytes; raise an error if it cannot be written without code."""
    library = type(estimator).__module__.partition(".")[0]
    boosted = isinstance(estimator, LightGBMModel)
    boosted |= library == "lightgbm" and is_a(estimator, "LGBMClassifier", "LGBMRegressor")
    if isinstance(estimator, XGBoostModel) or (library == "xgboost" and is_a(estimator, "XGBClassifier")):
        return "xgboost", xgboost_text(estimator)
    name = f"base={base_name(estimator)}"
    if library != "sklearn" and not boosted:
        raise ValueError(f"{name} is a model that cannot be written without code: {GIVE_AGAIN}.")
    try:
        if boosted:
            n_classes = len(getattr(estimator, "classes_", ()))
            return "lightgbm", checked_lightgbm(estimator.booster_.model_to_string(), n_classes).encode()
        skops = import_extra("skops.io", f"Writing {name} needs", "skops")
        data: bytes = skops.dumps(estimator)
        trusted_types(skops, data)
    except ValueError as error:
        raise ValueError(f"{name} cannot be written without code, because {error}: {GIVE_AGAIN}.") from error
    return "skops", data


def _read(kind: str, name: str, data: bytes, n_classes: int) -> Any:
    """Return a fitted estimator from its format; raise ValueError if it is damaged."""
    library = import_extra("skops.io" if kind == "skops" else kind, f"Reading base={name} needs", kind)
    try:
        if kind == "skops":
            return read_model(library, data, n_classes)
        return (LightGBMModel if kind == "lightgbm" else XGBoostModel)(data, n_classes)
    except Exception as error:  # whatever a library raises for a forged file
        raise ValueError(f"the base {name} cannot be read: {error}") from error
