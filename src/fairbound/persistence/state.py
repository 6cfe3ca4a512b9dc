"""Write a fitted classifier to a folder, and read it back."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fairbound._records import read_value
from fairbound.estimator import BaseScores, ConstrainedClassifier, Corrected, FitResult, TableEncoder, module_inputs
from fairbound.fairness import as_constraints
from fairbound.persistence.bases import PREFIX, base_from_parts, base_to_parts
from fairbound.persistence.folder import DOCUMENT, ModelFileError, damaged, read_folder, write_folder
from fairbound.persistence.parts import (
    calibration_from_json,
    calibration_to_json,
    class_weight_from_json,
    class_weight_to_json,
    constraint_from_json,
    constraint_to_json,
    encoder_from_json,
    encoder_params_from_json,
    encoder_to_json,
    expect,
    expect_list,
    formats_from_json,
    formats_to_json,
    labels_from_json,
    labels_to_json,
    layers_from_json,
    layers_to_json,
    loss_from_json,
    loss_to_json,
    plain,
    regularizers_from_json,
    regularizers_to_json,
)

NOT_WRITTEN = {"module", "callbacks", "effort", "base", "cv", "ensemble", "correction"}
"""Parameters that are code, or that a trained model no longer needs."""


OBJECTIVE = {
    "loss": (loss_to_json, loss_from_json),
    "regularizers": (regularizers_to_json, regularizers_from_json),
    "class_weight": (class_weight_to_json, class_weight_from_json),
}
"""How parameters of the objective are written and read."""

PARAMETERS = {
    "pos_label": Hashable,
    "sensitive_columns": list[Hashable] | Hashable,
    "categorical": list[Hashable] | None,
    "device": str | None,
}
"""The types of parameters that are not in `ALLOWED`."""


def save_estimator(estimator: Any, path: str | os.PathLike[str], *, overwrite: bool = False, base: bool = True) -> None:
    """Write a fitted classifier.  With `overwrite`, files of the same names that are no model are replaced, too.

    Without `base`, a base model is left out, and must be given again to `load`.
    """
    encoder = estimator.encoder_
    if encoder is not None and not isinstance(encoder, TableEncoder):
        raise ValueError(
            f"preprocessing={type(encoder).__name__}(...) is a transformer of your own, but a saved model has no code: "
            'use preprocessing="auto", or put the transformer before the classifier in a Pipeline, and save the '
            "classifier of that pipeline."
        )
    module = estimator.module_
    layers = layers_to_json(module.correction if isinstance(module, Corrected) else module)
    scores, tensors = estimator._scores, dict(module.state_dict())
    described = None
    if scores is not None:
        described, further = base_to_parts(scores, write=base)
        tensors |= further
    model = {
        "params": _params_to_json(estimator),
        "classes": labels_to_json(estimator.classes_),
        "pos_label": plain(estimator.pos_label_, "pos_label"),
        "threshold": estimator.threshold_,
        "n_features_in": estimator.n_features_in_,
        "feature_names_in": [str(name) for name in getattr(estimator, "feature_names_in_", [])] or None,
        "group_columns": list(estimator.group_columns_),
        "left_columns": list(estimator.left_columns_),
        "by_name": estimator.by_name_,
        "encoded_names": list(estimator.encoded_names_),
        "encoder": None if encoder is None else encoder_to_json(encoder),
        "formats": formats_to_json(estimator.formats_),
        "module": {"class": f"{type(module).__module__}.{type(module).__qualname__}"}
        if layers is None
        else {"layers": layers, "skipped_by_scores": isinstance(module, Corrected)},
        "base": described,
        "own_module": estimator.module is not None,
        "calibration": calibration_to_json(estimator.calibration_),
        "n_iter": estimator.n_iter_,
        "result": estimator.result_.to_dict(),
    }
    write_folder(path, model, tensors, overwrite=overwrite)


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
    model, tensors = read_folder(path)
    try:
        return _restored(model, tensors, module, base)
    except (ImportError, ModelFileError):
        raise
    except (ArithmeticError, AttributeError, LookupError, RecursionError, RuntimeError, TypeError, ValueError) as error:
        raise damaged(Path(path, DOCUMENT), f"its values do not form a model ({error})") from error


def _restored(
    model: Mapping[str, Any], tensors: Mapping[str, Tensor], own: Any, base: Any = None
) -> ConstrainedClassifier:
    params = _params_from_json(expect(model["params"], dict, "params"))
    found: Any = ConstrainedClassifier(**params)
    found._validate_params()
    found.classes_ = labels_from_json(model["classes"])
    two = len(found.classes_) == 2
    if (model["pos_label"] in found.classes_.tolist()) != two:
        raise ValueError(f"pos_label is {model['pos_label']!r}")
    found.pos_label_ = model["pos_label"]
    found.threshold_ = expect(model["threshold"], float, "threshold")
    if not 0.0 < found.threshold_ < 1.0:
        raise ValueError(f"threshold is {found.threshold_!r}")
    found.n_features_in_ = expect(model["n_features_in"], int, "n_features_in")
    if model["feature_names_in"] is not None:
        names = expect_list(model["feature_names_in"], str, "name")
        if len(names) != found.n_features_in_:
            raise ValueError("the numbers of names and of columns differ")
        found.feature_names_in_ = np.array(names, dtype=object)
    found.group_columns_ = tuple(expect_list(model["group_columns"], int, "group_columns"))
    found.left_columns_ = tuple(expect_list(model["left_columns"], int, "left_columns"))
    found.encoded_names_ = expect_list(model["encoded_names"], str, "name")
    found.encoder_ = None if model["encoder"] is None else encoder_from_json(model["encoder"])
    found.formats_ = formats_from_json(model.get("formats", {}))  # older models have none
    found.by_name_ = expect(model.get("by_name", bool(found.formats_)), bool, "by_name")  # nor this
    of_base = {name: tensor for name, tensor in tensors.items() if name.startswith(PREFIX)}
    others = {name: tensor for name, tensor in tensors.items() if name not in of_base}
    found.module_ = _module(model, others, own, len(found.encoded_names_), 1 if two else len(found.classes_))
    found._scores = None
    if model.get("base") is not None:  # older models have none
        labels = found.classes_.tolist()
        in_order = labels[::-1] if two and found.pos_label_ == labels[0] else labels
        described = expect(model["base"], dict, "base")
        found._scores = base_from_parts(described, of_base, in_order, found.encoder_, base)
        found.base = found._scores.fitted
        found.correction = _correction_of(found._scores)
    elif base is not None:
        raise ModelFileError("load(path, base=...): the model was trained without a base. Leave base= out.")
    if expect(model["own_module"], bool, "own_module"):
        found.module = found.module_
    found.calibration_ = calibration_from_json(model["calibration"])
    found.n_iter_ = expect(model["n_iter"], int, "n_iter")
    found.result_ = FitResult.from_dict(expect(model["result"], dict, "result"))
    found.certificate_ = found.result_.certificate
    _check_shapes(found)
    return found


def _module(
    model: Mapping[str, Any], tensors: Mapping[str, Tensor], own: Any, n_inputs: int, n_outputs: int
) -> nn.Module:
    stated = expect(model["module"], dict, "module")
    if any(tensor.dtype is not torch.float64 for tensor in tensors.values() if tensor.is_floating_point()):
        raise ValueError("the weights are not in double precision")
    if any(not bool(torch.isfinite(tensor).all()) for tensor in tensors.values()):
        raise ValueError("the weights are not finite")
    if stated.get("skipped_by_scores"):
        inner = {name.removeprefix("correction."): each for name, each in tensors.items() if name != "score.weight"}
        weight = tensors["score.weight"]
        if weight.shape != (n_outputs, n_outputs):
            raise ValueError("the weights of the scores do not fit")
        score = nn.Linear(n_outputs, n_outputs, bias=False, device="meta", dtype=torch.float64)
        score.load_state_dict({"weight": weight}, assign=True)
        return Corrected(score, layers_from_json(expect_list(stated["layers"], dict, "layer"), inner))
    if "layers" in stated:
        return layers_from_json(expect_list(stated["layers"], dict, "layer"), tensors)
    name = expect(stated["class"], str, "class")
    if own is None:
        raise ModelFileError(
            f"The model has a network of your own ({name}), but a saved model has no code: give the network with "
            "load(path, module=...), and the saved weights are put into it."
        )
    module = own if isinstance(own, nn.Module) else own(n_inputs, n_outputs)
    module = module.to(torch.float64)
    try:
        module.load_state_dict(dict(tensors))
    except RuntimeError as error:
        raise ModelFileError(f"The weights of {name} do not fit the module that you gave: {error}") from error
    return module.eval()  # decisions must not depend on chance


def _correction_of(scores: BaseScores) -> str:
    if not scores.posteriors:
        return "columns"
    return "both" if scores.uses_columns else "groups"


def _check_shapes(found: Any) -> None:
    """Check that the parts fit together, with one row of zeros."""
    if any(not 0 <= column < found.n_features_in_ for column in (*found.group_columns_, *found.left_columns_)):
        raise ValueError(f"the groups are in columns {found.group_columns_!r}")
    n_inputs = found.n_features_in_ - len(found.left_columns_)
    width = len(found.encoded_names_)
    if found.encoder_ is not None:
        if found.encoder_.n_features_in_ != n_inputs:
            raise ValueError("the encoder and the model have different numbers of columns")
        n_inputs = sum(len(column.outputs) for column in found.encoder_.columns_)
    if found._scores is not None:
        n_inputs = len(found._scores.names([""] * n_inputs, found.classes_.tolist()))
    if n_inputs != width:
        raise ValueError("the encoder does not fit the model")
    with torch.no_grad():
        output = found.module_(torch.from_numpy(module_inputs(found.module_, np.zeros((1, width)))))
    if output.numel() not in ((1, 2) if len(found.classes_) == 2 else (len(found.classes_),)):
        raise ValueError(f"the network has {output.numel()} outputs for {len(found.classes_)} classes")


def _params_to_json(estimator: Any) -> dict[str, Any]:
    params = {name: value for name, value in estimator.get_params(deep=False).items() if name not in NOT_WRITTEN}
    params["constraints"] = [constraint_to_json(each) for each in as_constraints(estimator.constraints)]
    for name, (write, _) in OBJECTIVE.items():
        params[name] = write(params[name])
    if isinstance(params["preprocessing"], TableEncoder):
        encoder = params["preprocessing"]
        params["preprocessing"] = {name: plain(value, name) for name, value in encoder.get_params().items()}
    if params["random_state"] is not None and not isinstance(params["random_state"], int | np.integer):
        params["random_state"] = None
    if params["device"] is not None:
        params["device"] = str(params["device"])
    if not isinstance(params["constraint_weight"], str):
        params["constraint_weight"] = np.asarray(params["constraint_weight"], dtype=np.float64).tolist()
    return {
        name: value if name in ("constraints", "preprocessing", *OBJECTIVE) else plain(value, name)
        for name, value in params.items()
    }


def _params_from_json(values: Mapping[str, Any]) -> dict[str, Any]:
    known = set(inspect.signature(ConstrainedClassifier).parameters)
    unknown = sorted(set(values) - (known - NOT_WRITTEN))
    if unknown:
        raise ValueError(f"it has the unknown parameter {unknown[0]!r}")
    params = dict(values)
    params["constraints"] = [constraint_from_json(each) for each in expect_list(values["constraints"], dict, "limit")]
    params["hidden"] = tuple(expect_list(values["hidden"], int, "hidden"))
    if isinstance(params["preprocessing"], dict):
        params["preprocessing"] = encoder_params_from_json(params["preprocessing"])
    for name in set(params) & set(OBJECTIVE):  # older models have none
        params[name] = OBJECTIVE[name][1](params[name])
    for name in set(params) & set(PARAMETERS):
        params[name] = read_value(PARAMETERS[name], params[name], name)
    return params
