"""Write a fitted classifier to a folder, and read it back."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from msgspec import Struct

from fairbound._json import Label, Scalar, as_record, decode, encode
from fairbound._model_settings import Base, Confidence, Groups, Loss, Training
from fairbound._settings import Settings, check_settings
from fairbound.data import ColumnFormat
from fairbound.estimator import (
    ConstrainedClassifier,
    FitResult,
    Objective,
    SidedMap,
    TableEncoder,
    Temperature,
)
from fairbound.fairness import as_constraints
from fairbound.persistence.bases import PREFIX, StoredBase, given_models
from fairbound.persistence.folder import (
    DOCUMENT,
    ModelFileError,
    StoredArray,
    damaged,
    read_folder,
    restore,
    store,
    write_folder,
)
from fairbound.persistence.network import StoredNetwork, weights_of
from fairbound.persistence.parts import (
    StoredEncoder,
    StoredLabels,
    StoredLimit,
    StoredTerm,
    loss_name,
    plain,
    stored_class_weight,
    stored_terms,
)

if TYPE_CHECKING:
    from torch import nn

NOT_WRITTEN = {"callbacks", "base"}
"""Parameters that are code, or that a trained model no longer needs."""


class StoredLoss(Struct, forbid_unknown_fields=True):
    """The record `Loss` in the file."""

    function: str
    l2: Literal["auto"] | float
    class_weight: list[tuple[Label, float]] | str | None
    regularizers: tuple[StoredTerm | str, ...]

    @classmethod
    def of(cls, loss: Loss) -> StoredLoss:
        """Return a record with the name of the function, because a file has no code."""
        weight, terms = stored_class_weight(loss.class_weight), tuple(stored_terms(loss.regularizers))
        return cls(loss_name(loss.function), loss.l2, weight, terms)

    def restored(self) -> Loss:
        """Return the loss."""
        return Loss(
            self.function,
            l2=self.l2,
            class_weight=dict(self.class_weight) if isinstance(self.class_weight, list) else self.class_weight,  # type: ignore[arg-type]  # checked there
            regularizers=tuple(each if isinstance(each, str) else each.restored() for each in self.regularizers),
        )


RECORDS: dict[str, type[Settings]] = {"groups": Groups, "training": Training, "confidence": Confidence}

PARAMETERS: dict[str, Any] = {
    "constraints": list[StoredLimit | str],
    "hidden": tuple[int, ...],
    "loss": StoredLoss,
    "encoder": StoredEncoder | Literal["auto"] | None,
    "pos_label": Scalar,
    "sensitive_columns": list[Scalar] | Scalar,
    **dict.fromkeys(RECORDS, dict[str, Scalar] | None),
}
"""The types of parameters that the classifier does not check itself, as they are in the file."""


class StoredModel(Struct, forbid_unknown_fields=True):
    """The content of `model.json`: the attributes of a fitted classifier."""

    params: dict[str, Any]
    classes: StoredLabels
    pos_label: Scalar
    threshold: float
    n_features_in: int
    feature_names_in: list[str] | None
    group_columns: tuple[int, ...]
    left_columns: tuple[int, ...]
    by_name: bool
    encoded_names: list[str]
    encoder: StoredEncoder | None
    formats: dict[str, ColumnFormat]
    network: StoredNetwork
    base: StoredBase | None
    own_module: bool
    calibration: SidedMap | float | None
    n_iter: int
    result: FitResult
    arrays: list[StoredArray]


def save_estimator(estimator: Any, path: str | os.PathLike[str], *, overwrite: bool = False, base: bool = True) -> None:
    """Write a fitted classifier.  With `overwrite`, a file of the same name that is no model is replaced, too.

    Without `base`, a base model is left out, and must be given again to `load`.
    """
    encoder = estimator.encoder_
    if encoder is not None and not isinstance(encoder, TableEncoder):
        raise ValueError(
            f"encoder={type(encoder).__name__}(...) is a transformer of your own, but a saved model has no code: "
            'use encoder="auto", or put the transformer before the classifier in a Pipeline, and save the '
            "classifier of that pipeline."
        )
    arrays = weights_of(estimator.model_)
    described = None
    if estimator._scores is not None:
        described, further = StoredBase.of(estimator._scores, write=base)
        arrays |= further
    calibration = estimator.calibration_
    stored, data = store(arrays)
    model = StoredModel(
        params=_stored_params(estimator),
        classes=StoredLabels.of(estimator.classes_),
        pos_label=plain(estimator.pos_label_, "pos_label"),
        threshold=estimator.threshold_,
        n_features_in=estimator.n_features_in_,
        feature_names_in=[str(name) for name in getattr(estimator, "feature_names_in_", [])] or None,
        group_columns=tuple(estimator.group_columns_),
        left_columns=tuple(estimator.left_columns_),
        by_name=estimator.by_name_,
        encoded_names=list(estimator.encoded_names_),
        encoder=None if encoder is None else StoredEncoder.of(encoder),
        formats=estimator.formats_,
        network=StoredNetwork.of(estimator.model_),
        base=described,
        own_module=callable(estimator.hidden),
        calibration=calibration.temperature if isinstance(calibration, Temperature) else calibration,
        n_iter=estimator.n_iter_,
        result=estimator.result_,
        arrays=stored,
    )
    write_folder(path, encode(model, indent=1), data, overwrite=overwrite)


def load(
    path: str | os.PathLike[str],
    *,
    module: nn.Module | Callable[[int, int], nn.Module] | None = None,
    base: Any = None,
) -> ConstrainedClassifier:
    """Read a model that `ConstrainedClassifier.save` has written.

    Parameters
    ----------
    path : path of the folder
    module : torch.nn.Module, or function of (n_inputs, n_outputs), optional
        Needed if the model was trained with a network of your own that is not a plain `nn.Sequential` of linear layers
        and activations.  The weights of the file are put into it.
    base : fitted classifier, or sequence of them, optional
        Needed if the model was saved with `base=False`: its base, as `base_.estimators` had it.

    Raises
    ------
    ModelFileError
        If there is no model, or it is damaged, foreign, or written by a newer version.  No code is ever run.
    """
    text, data = read_folder(path)
    try:
        return _restored(decode(text, StoredModel), data, module, base)
    except (ImportError, ModelFileError):
        raise
    except Exception as error:  # whatever a library raises for its part of a forged file
        raise damaged(Path(path, DOCUMENT), f"its values do not form a model ({error})") from error


def _restored(model: StoredModel, data: bytes, own: Any, base: Any) -> ConstrainedClassifier:
    found: Any = ConstrainedClassifier(**_restored_params(model.params))
    check_settings(found)
    Objective.of(found.objective)
    found.classes_, found.pos_label_ = model.classes.restored(), model.pos_label
    labels = found.classes_.tolist()
    two = len(labels) == 2
    found.threshold_, found.n_features_in_ = model.threshold, model.n_features_in
    if model.feature_names_in is not None:
        found.feature_names_in_ = np.array(model.feature_names_in, dtype=object)
    found.group_columns_, found.left_columns_ = model.group_columns, model.left_columns
    found.encoded_names_, found.by_name_, found.formats_ = model.encoded_names, model.by_name, model.formats
    found.encoder_ = None if model.encoder is None else model.encoder.restored()
    arrays = restore(model.arrays, data)
    weights = {name: array for name, array in arrays.items() if not name.startswith(PREFIX)}
    found.model_ = model.network.restored(weights, own, len(model.encoded_names), 1 if two else len(labels))
    found._scores = None
    if model.base is not None:
        in_order = labels[::-1] if two and found.pos_label_ == labels[0] else labels
        found._scores = model.base.restored(arrays, in_order, found.encoder_, given_models(base))
        found.base = Base(found._scores.fitted, correction=found._scores.correction)
    elif base is not None:
        raise ModelFileError("load(path, base=...): the model was trained without a base. Leave base= out.")
    if model.own_module:
        found.hidden = found.model_
    calibration = model.calibration
    found.calibration_ = Temperature(calibration) if isinstance(calibration, float) else calibration
    found.n_iter_ = model.n_iter
    found.result_ = model.result
    found.certificate_ = found.result_.certificate
    return found


def _stored_params(estimator: Any) -> dict[str, Any]:
    params = {name: value for name, value in estimator.get_params(deep=False).items() if name not in NOT_WRITTEN}
    special: dict[str, Any] = {
        "objective": Objective.of(params["objective"]).text,
        "constraints": [StoredLimit.of(each) for each in as_constraints(params["constraints"])],
        "hidden": () if callable(params["hidden"]) else tuple(params["hidden"]),
    }
    if (loss := Loss.of(params.pop("loss"))).changed():
        special["loss"] = StoredLoss.of(loss)
    for name, kind in RECORDS.items():
        if (value := params.pop(name)) is not None and (changed := kind.of(value).changed()):
            special[name] = {key: _plain_setting(each) for key, each in changed.items()}
    if isinstance(params["encoder"], TableEncoder):
        special["encoder"] = StoredEncoder.of(params["encoder"])
    if not isinstance(params["random_state"], int | np.integer):
        params["random_state"] = None
    return special | {name: plain(value, name) for name, value in params.items() if name not in special}


def _plain_setting(value: Any) -> Any:
    return value if isinstance(value, bool | int | float) else str(value)


def _restored_params(values: dict[str, Any]) -> dict[str, Any]:
    known = set(inspect.signature(ConstrainedClassifier).parameters)
    unknown = sorted(set(values) - (known - NOT_WRITTEN))
    if unknown:
        raise ValueError(f"it has the unknown parameter {unknown[0]!r}")
    params = {name: as_record(value, PARAMETERS.get(name, Any)) for name, value in values.items()}
    params["constraints"] = [each if isinstance(each, str) else each.restored() for each in params["constraints"]]
    if "loss" in params:
        params["loss"] = params["loss"].restored()
    params |= {name: kind(**params[name]) for name, kind in RECORDS.items() if params.get(name) is not None}
    if isinstance(params["encoder"], StoredEncoder):
        params["encoder"] = params["encoder"].restored()
    return params
