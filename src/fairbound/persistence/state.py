"""Write a fitted classifier or regressor to a folder, and read it back."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from fairbound._json import Scalar, decode, encode
from fairbound._model_settings import Base
from fairbound._settings import check_settings
from fairbound.data import ColumnFormat
from fairbound.estimator import (
    ConstrainedClassifier,
    ConstrainedRegressor,
    FitResult,
    Objective,
    SidedMap,
    TableEncoder,
    Temperature,
    Unit,
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
from fairbound.persistence.parts import StoredEncoder, StoredLabels, read, written

if TYPE_CHECKING:
    from torch import nn

NOT_WRITTEN = {"callbacks", "base"}
"""Parameters that are code, or that a trained model no longer needs."""


ATTRIBUTES = (
    *("by_name", "encoded_names", "formats", "group_columns", "left_columns", "n_features_in", "n_iter", "pos_label"),
    *("result", "threshold", "unit"),
)
"""Fitted attributes that are written as they are; those of the estimator end with an underscore."""


class StoredModel(Struct, forbid_unknown_fields=True):
    """The content of `model.json`: the attributes of a fitted estimator.  A regression has a unit, and no classes."""

    params: dict[str, str]
    classes: StoredLabels | None
    pos_label: Scalar
    threshold: float | None
    unit: Unit | None
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
    calibration = getattr(estimator, "calibration_", None)
    stored, data = store(arrays)
    attributes: dict[str, Any] = {name: getattr(estimator, f"{name}_", None) for name in ATTRIBUTES}
    model = StoredModel(
        params=_written_params(estimator),
        classes=StoredLabels.of(estimator.classes_) if hasattr(estimator, "classes_") else None,
        feature_names_in=[str(name) for name in getattr(estimator, "feature_names_in_", [])] or None,
        encoder=None if encoder is None else StoredEncoder.of(encoder),
        network=StoredNetwork.of(estimator.model_),
        base=described,
        own_module=callable(estimator.hidden),
        calibration=calibration.temperature if isinstance(calibration, Temperature) else calibration,
        arrays=stored,
        **attributes,
    )
    write_folder(path, encode(model, indent=1), data, overwrite=overwrite)


def load(
    path: str | os.PathLike[str],
    *,
    module: nn.Module | Callable[[int, int], nn.Module] | None = None,
    base: Any = None,
) -> ConstrainedClassifier | ConstrainedRegressor:
    """Read a model that `save` has written.

    Parameters
    ----------
    path : path of the folder
    module : torch.nn.Module, or function of (n_inputs, n_outputs), optional
        Needed if the model was trained with a network of your own that is not a plain `nn.Sequential` of linear layers
        and activations.  The weights of the file are put into it.
    base : fitted classifier or regressor, or sequence of them, optional
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


def _restored(model: StoredModel, data: bytes, own: Any, base: Any) -> Any:
    kind: Any = ConstrainedRegressor if model.classes is None else ConstrainedClassifier
    found = kind(**{name: read(text) for name, text in model.params.items()})
    check_settings(found)
    for name in ATTRIBUTES:
        if (value := getattr(model, name)) is not None or name == "pos_label":
            setattr(found, f"{name}_", value)
    labels: list[Any] = []
    if model.classes is not None:
        found.classes_ = model.classes.restored()
        labels = found.classes_.tolist()
    two = len(labels) == 2
    if model.feature_names_in is not None:
        found.feature_names_in_ = np.array(model.feature_names_in, dtype=object)
    found.encoder_ = None if model.encoder is None else model.encoder.restored()
    arrays = restore(model.arrays, data)
    weights = {name: array for name, array in arrays.items() if not name.startswith(PREFIX)}
    found.model_ = model.network.restored(weights, own, len(model.encoded_names), len(labels) if len(labels) > 2 else 1)
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
    if model.classes is None:
        return found
    found.calibration_ = Temperature(calibration) if isinstance(calibration, float) else calibration
    found.certificate_ = found.result_.certificate
    return found


def _written_params(estimator: Any) -> dict[str, str]:
    params = {name: value for name, value in estimator.get_params(deep=False).items() if name not in NOT_WRITTEN}
    if "objective" in params:
        params["objective"] = Objective.of(params["objective"]).text
    params["constraints"] = list(as_constraints(params["constraints"]))
    params["hidden"] = () if callable(params["hidden"]) else params["hidden"]
    if not isinstance(params["random_state"], int | np.integer):
        params["random_state"] = None
    return {name: written(value, name) for name, value in params.items()}
