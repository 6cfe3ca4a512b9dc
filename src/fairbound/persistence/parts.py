"""Convert the parts of a fitted classifier to JSON values, and back.

The type of every value is checked.  A forged file with valid checksums gives an error here, not strange predictions
later.  The shapes of layers come from the tensors.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fairbound._records import read_value
from fairbound.data import ColumnFormat
from fairbound.estimator import (
    FARTHEST,
    L2,
    LOSSES,
    CategoryColumn,
    FeedForward,
    NumberColumn,
    Recalibration,
    SidedMap,
    SmoothedL1,
    SquaredMeasure,
    TableEncoder,
    Temperature,
    as_regularizers,
)
from fairbound.fairness import CONSTRAINTS, MEASURES, SURROGATES, Constraint, Surrogate

Kind = TypeVar("Kind")

ACTIVATION_OPTIONS: dict[str, tuple[type[nn.Module], tuple[str, ...]]] = {
    "ReLU": (nn.ReLU, ()),
    "LeakyReLU": (nn.LeakyReLU, ("negative_slope",)),
    "Identity": (nn.Identity, ()),
    "Tanh": (nn.Tanh, ()),
    "Sigmoid": (nn.Sigmoid, ()),
    "GELU": (nn.GELU, ("approximate",)),
    "SiLU": (nn.SiLU, ()),
    "ELU": (nn.ELU, ("alpha",)),
    "Softplus": (nn.Softplus, ("beta", "threshold")),
}


def expect(value: Any, kind: type[Kind], what: str) -> Kind:
    """Return a value of the stated type; True is not a number, and numbers must be finite."""
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ValueError(f"{what} is {value!r}")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{what} is {value!r}")
    return value


def expect_list(value: Any, kind: type[Kind], what: str) -> list[Kind]:
    """Return a list of values of the stated type."""
    return [expect(each, kind, what) for each in expect(value, list, what)]


# --- labels --------------------------------------------------------------------------------------------------------


def plain(value: Any, what: str) -> Any:
    """Return a label or group as a JSON value; other types raise an error."""
    # `tolist` would convert dates in nanoseconds to whole numbers, which would be read back as other labels.
    if isinstance(value, np.generic | np.ndarray) and value.dtype.kind not in "mM":
        value = value.tolist()
    if isinstance(value, tuple | list):
        return [plain(each, what) for each in value]
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise ValueError(
        f"{what} {value!r} of type {type(value).__name__} cannot be written to a file: use words or numbers."
    )


_LABEL_TYPE = re.compile(r"[<>|=]?(b1|[iu][1248]|f[248]|O)|U")
LARGEST_LABELS = 2**24
"""Bytes of the array of labels."""


def labels_to_json(classes: NDArray[Any]) -> dict[str, Any]:
    """Write the labels with their type."""
    if classes.dtype.kind == "U" and classes.nbytes > LARGEST_LABELS:
        raise ValueError(f"The labels take {classes.nbytes:,} bytes, which is too many for a file: use shorter words.")
    return {
        "dtype": classes.dtype.str if classes.dtype.kind != "U" else "U",
        "values": plain(list(classes), "label"),
    }


def labels_from_json(values: Mapping[str, Any]) -> NDArray[Any]:
    """Read the labels."""
    kind, listed = expect(values["dtype"], str, "dtype"), expect(values["values"], list, "classes")
    if not _LABEL_TYPE.fullmatch(kind) or not all(isinstance(each, bool | int | float | str) for each in listed):
        raise ValueError(f"the labels are of type {kind!r:.80}")
    # numpy gives every text in an array the length of the longest.
    if kind == "U" and 4 * len(listed) * max(map(len, map(str, listed)), default=0) > LARGEST_LABELS:
        raise ValueError("the labels are too long")
    classes = np.array(listed, dtype=np.dtype(kind))
    if len(classes) < 2 or len(np.unique(classes)) != len(classes) or (np.unique(classes) != classes).any():
        raise ValueError("the labels are not two or more, in order")
    return classes


# --- limits --------------------------------------------------------------------------------------------------------


def constraint_to_json(constraint: Constraint) -> dict[str, Any]:
    """Convert a limit.  A limit on a user-defined measure becomes text; a later `fit` asks for the measure."""
    if not isinstance(constraint.measure, str) and constraint.measure is not MEASURES.get(constraint.measure.name):
        return {"text": str(constraint)}
    found = {field.name: getattr(constraint, field.name) for field in fields(constraint)} | {"measure": constraint.name}
    surrogate = found.pop("surrogate")
    if isinstance(surrogate, Surrogate):
        surrogate = {"name": _surrogate_name(surrogate), **asdict(surrogate)}
    return {**{name: plain(value, name) for name, value in found.items()}, "surrogate": surrogate}


def constraint_from_json(values: Mapping[str, Any]) -> Constraint | str:
    """Read a limit."""
    if "text" in values:
        return expect(values["text"], str, "limit")
    options: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in values.items()
    }
    if isinstance(options.get("surrogate"), dict):
        options["surrogate"] = _surrogate(options["surrogate"])
    kind = CONSTRAINTS.get(expect(options["measure"], str, "measure"), Constraint)
    if kind is not Constraint:
        options.pop("measure")
    return kind(options.pop("bound"), **options)


def _surrogate(values: Mapping[str, Any]) -> Surrogate:
    stated = dict(values)
    return SURROGATES[expect(stated.pop("name"), str, "surrogate")](**stated)


def _surrogate_name(surrogate: Surrogate) -> str:
    for name, kind in SURROGATES.items():
        if type(surrogate) is kind:
            return name
    raise ValueError(f"The surrogate {surrogate!r} is not one of this package, and cannot be written to a file.")


# --- objective -----------------------------------------------------------------------------------------------------

# The terms of the objective.  Code is not written, only its name: a later `fit` then asks for it.


NOT_HERE = "not in the file: "


def loss_to_json(loss: Any) -> str:
    """Write the name of a loss.  The name of a user's function says that it is not in the file."""
    return loss if isinstance(loss, str) else NOT_HERE + getattr(loss, "__name__", type(loss).__name__)


def loss_from_json(value: Any) -> str:
    """Read the name of a loss."""
    name = expect(value, str, "loss")
    if name not in LOSSES and not name.startswith(NOT_HERE):
        raise ValueError(f"loss is {name!r}")
    return name


def regularizers_to_json(stated: Any) -> list[dict[str, Any]]:
    """Write the terms that are added to the loss."""
    found = []
    for each in as_regularizers(stated):
        values = {field.name: getattr(each, field.name) for field in fields(each)} | {"kind": type(each).__name__}
        if isinstance(each, SquaredMeasure):
            limit = constraint_to_json(each.as_constraint())
            values |= {
                "measure": limit.get("measure", NOT_HERE + limit.get("text", "")),
                "surrogate": limit.get("surrogate"),
            }
        elif values.pop("of", None) is not None:
            values["kind"] = f"{NOT_HERE}{each!r} of some parameters"
        found.append(values)
    return found


def regularizers_from_json(value: Any) -> tuple[Any, ...]:
    """Read the terms that are added to the loss.  A term that is not in the file becomes text."""
    kinds = {each.__name__: each for each in (L2, SmoothedL1, SquaredMeasure)}
    found: list[Any] = []
    for stated in expect_list(value, dict, "regularizers"):
        options = dict(stated)
        kind = expect(options.pop("kind"), str, "regularizer")
        missing = [text for text in (kind, str(options.get("measure"))) if text.startswith(NOT_HERE)]
        if missing:
            found.append(missing[0])
            continue
        for name in {"weight", "smoothing", "of"} & set(options):
            expect(options[name], float if name != "of" else type(None), name)
        if isinstance(options.get("surrogate"), dict):
            options["surrogate"] = _surrogate(options["surrogate"])
        found.append(kinds[kind](**options))
    return tuple(found)


def class_weight_to_json(stated: Any) -> Any:
    """Write the weights of the classes: a word, or pairs of label and weight."""
    if not isinstance(stated, Mapping):
        return plain(stated, "class_weight")
    return [[plain(label, "label"), float(weight)] for label, weight in stated.items()]


def class_weight_from_json(value: Any) -> Any:
    """Read the weights of the classes."""
    if not isinstance(value, list):
        return value  # a word, which the estimator checks
    return {
        read_value(Hashable, label, "class_weight"): expect(weight, float, "class_weight") for label, weight in value
    }


# --- encoder -------------------------------------------------------------------------------------------------------


def encoder_to_json(encoder: TableEncoder) -> dict[str, Any]:
    """Write a fitted encoder."""
    return {
        "params": {name: plain(value, name) for name, value in encoder.get_params().items()},
        "names": [str(name) for name in getattr(encoder, "feature_names_in_", [])] or None,
        "columns": [
            {"kind": "number" if isinstance(column, NumberColumn) else "category", **asdict(column)}
            for column in encoder.columns_
        ],
    }


def encoder_from_json(values: Mapping[str, Any]) -> TableEncoder:
    """Read a fitted encoder."""
    encoder = encoder_params_from_json(values["params"])
    columns: list[NumberColumn | CategoryColumn] = []
    for each in expect_list(values["columns"], dict, "column"):
        name, missing = expect(each["name"], str, "name"), expect(each["missing"], bool, "missing")
        if each["kind"] == "number":
            mean, scale = expect(each["mean"], float, "mean"), expect(each["scale"], float, "scale")
            if scale <= 0:
                raise ValueError(f"the scale of {name!r} is {scale!r}")
            columns.append(NumberColumn(name, mean, scale, missing))
        else:
            words = tuple(expect_list(each["words"], str, "word"))
            numeric, other = expect(each["numeric"], bool, "numeric"), expect(each["other"], bool, "other")
            rare = tuple(expect_list(each.get("rare", []), str, "word"))  # older models have none
            columns.append(CategoryColumn(name, words, numeric, other, missing, rare))
    encoder.columns_ = tuple(columns)
    encoder.n_features_in_ = len(columns)
    if values["names"] is not None:
        names = expect_list(values["names"], str, "name")
        if len(names) != len(columns):
            raise ValueError("the numbers of names and of columns differ")
        encoder.feature_names_in_ = np.array(names, dtype=object)
    return encoder


def encoder_params_from_json(values: Mapping[str, Any]) -> TableEncoder:
    """Read an encoder that is not fitted."""
    return TableEncoder(
        categorical=read_value(list[Hashable] | None, values["categorical"], "categorical"),
        max_categories=expect(values["max_categories"], int, "max_categories"),
        scale=expect(values["scale"], bool, "scale"),
        strict=expect(values.get("strict", False), bool, "strict"),
    )


# --- formats of files ----------------------------------------------------------------------------------------------


def formats_to_json(formats: Mapping[str, ColumnFormat]) -> dict[str, Any]:
    """Convert the formats of the columns of the training file."""
    return {name: asdict(form) for name, form in formats.items()}


def formats_from_json(values: Any) -> dict[str, ColumnFormat]:
    """Read the formats of the columns of files."""
    found = {}
    for name, each in expect(values, dict, "formats").items():
        stated = expect(each, dict, "format")
        parts: dict[str, Any] = {
            field.name: tuple(expect_list(stated[field.name], str, field.name))
            if field.name in ("missing", "marks")
            else expect(stated[field.name], bool if field.name == "padded" else str, field.name)
            for field in fields(ColumnFormat)
        }
        form = ColumnFormat(**parts)
        if not form.is_known():
            raise ValueError(f"the format of {name!r} is {each!r}")
        found[name] = form
    return found


# --- network -------------------------------------------------------------------------------------------------------


def layers_to_json(module: nn.Module) -> list[dict[str, Any]] | None:
    """Convert the layers of a feed-forward network; None for modules that need their own code."""
    if not FeedForward.fits(module):
        return None
    layers = []
    for part in module.children():
        options = ACTIVATION_OPTIONS[type(part).__name__][1] if not isinstance(part, nn.Linear) else ()
        layers.append({"kind": type(part).__name__, **{name: getattr(part, name) for name in options}})
    return layers


def layers_from_json(layers: Sequence[Mapping[str, Any]], tensors: Mapping[str, Tensor]) -> nn.Sequential:
    """Build the network from its layers and tensors."""
    parts: list[nn.Module] = []
    used = set()
    for position, layer in enumerate(layers):
        kind = expect(layer["kind"], str, "layer")
        if kind == "Linear":
            weight, bias = tensors[f"{position}.weight"], tensors.get(f"{position}.bias")
            if weight.ndim != 2 or not weight.numel() or (bias is not None and bias.shape != weight.shape[:1]):
                raise ValueError(f"the tensors of layer {position} do not fit")
            made = nn.Linear(
                weight.shape[1], weight.shape[0], bias=bias is not None, device="meta", dtype=torch.float64
            )
            own = {"weight": weight} if bias is None else {"weight": weight, "bias": bias}
            made.load_state_dict(own, assign=True)
            used |= {f"{position}.{name}" for name in own}
            parts.append(made)
        else:
            make, names = ACTIVATION_OPTIONS[kind]
            options: dict[str, Any] = {
                name: expect(layer[name], str if name == "approximate" else float, name) for name in names
            }
            if options.get("beta", 1.0) <= 0:
                raise ValueError(f"layer {position} has beta {options['beta']!r}")
            parts.append(make(**options))
    if used != set(tensors):
        raise ValueError("there are tensors that no layer has")
    made_of_all = nn.Sequential(*parts)
    if not largest_output(made_of_all) < LARGEST_OUTPUT:
        raise ValueError("the weights are so large that numbers overflow")
    return made_of_all


LARGEST_OUTPUT = 1e290


def largest_output(module: nn.Sequential) -> float:
    """Return a bound on every number within the network.  It exists because encoded rows are clipped."""
    reach = FARTHEST
    for part in module:
        if isinstance(part, nn.Linear):
            sums = part.weight.detach().abs().sum(dim=1) * reach
            reach = float((sums if part.bias is None else sums + part.bias.detach().abs()).max())
        else:
            factors = (getattr(part, name, 0.0) for name in ("negative_slope", "alpha"))
            reach = reach * max(1.0, *map(abs, factors)) + 1.0 / getattr(part, "beta", 1.0)
    return reach


# --- recalibration -------------------------------------------------------------------------------------------------


def calibration_to_json(calibration: Recalibration | None) -> dict[str, Any] | None:
    """Write a recalibration."""
    if calibration is None:
        return None
    kind = "sided" if isinstance(calibration, SidedMap) else "temperature"
    return {"kind": kind, **{name: plain(value, name) for name, value in asdict(calibration).items()}}


def calibration_from_json(values: Mapping[str, Any] | None) -> Recalibration | None:
    """Read a recalibration."""
    if values is None:
        return None
    if values["kind"] == "temperature":
        temperature = expect(values["temperature"], float, "temperature")
        if temperature <= 0:
            raise ValueError(f"temperature is {temperature!r}")
        return Temperature(temperature)
    above, below = (expect_list(values[side], float, side) for side in ("above", "below"))
    if len(above) != 2 or len(below) != 2 or min(above[0], below[0]) <= 0:
        raise ValueError("the recalibration needs a slope above 0 and an intercept on each side of the threshold")
    threshold = expect(values["threshold"], float, "threshold")
    if not 0.0 < threshold < 1.0:
        raise ValueError(f"the threshold of the recalibration is {threshold!r}")
    return SidedMap(threshold, (above[0], above[1]), (below[0], below[1]))
