"""The parts of a classifier as a file holds them: labels, the encoder, and parameters as Python writes them.

A parameter is the text of an expression, such as "[DisparateImpact(bound=0.8)]".  It can call nothing but the records
named here, so reading it runs no code.  Code is not written, only its name: a later `fit` then asks for it.
"""

from __future__ import annotations

import ast
import inspect
import math
from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from fairbound._model_settings import Confidence, Groups, Loss, Training
from fairbound.estimator import L2, CategoryColumn, NumberColumn, SmoothedL1, SquaredMeasure, TableEncoder
from fairbound.fairness import CONSTRAINTS, MEASURES, SURROGATES, Constraint, Measure, Quota, Surrogate
from fairbound.persistence.folder import require

Positive = Annotated[float, Meta(gt=0)]

_OTHERS: tuple[Any, ...] = (
    *(CategoryColumn, Confidence, Groups, L2, Loss, NumberColumn, SmoothedL1, SquaredMeasure, TableEncoder, Training),
)
RECORDS: dict[str, Any] = {
    kind.__name__: kind for kind in (Constraint, *CONSTRAINTS.values(), *SURROGATES.values(), *_OTHERS)
}
"""What the text of a parameter may call."""
LARGEST_TEXT = 2**22
"""Characters.  A column takes about 100, and parsing takes up to 500 bytes for each character."""
NOT_HERE = "not in the file: "


def written(value: Any, what: str) -> str:
    """Return a parameter as Python writes it, and the name of what is code; other types raise an error."""
    measure = getattr(value, "measure", None)
    if isinstance(value, Quota) or (isinstance(measure, Measure) and measure is not MEASURES.get(measure.name)):
        return repr(str(value) if isinstance(value, Constraint) else f"{NOT_HERE}{value!r}")
    if isinstance(value, L2) and value.of is not None:
        return repr(f"{NOT_HERE}{value!r} of some parameters")
    if type(value) in RECORDS.values():
        stated = {name: (getattr(value, name), each.default) for name, each in _parameters(value).items()}
        changed = (f"{name}={written(own, name)}" for name, (own, usual) in stated.items() if repr(own) != repr(usual))
        return f"{type(value).__name__}({', '.join(changed)})"
    if isinstance(value, Surrogate):
        raise ValueError(f"The surrogate {value!r} is not one of this package, and cannot be written to a file.")
    if isinstance(value, Measure) or type(value).__name__ == "device":
        return repr(getattr(value, "name", None) or str(value))
    if callable(value):
        return repr(NOT_HERE + getattr(value, "__name__", type(value).__name__))
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{written(key, what)}: {written(each, what)}' for key, each in value.items())}}}"
    if isinstance(value, list | tuple):
        listed = ", ".join(written(each, what) for each in value)
        return f"[{listed}]" if isinstance(value, list) else f"({listed}{',' * (len(value) == 1)})"
    return repr(plain(value, what))


def _parameters(value: Any) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(type(value)).parameters


def read(text: str) -> Any:
    """Return the value of a text that `written` has made."""
    return _value(ast.parse(_bounded(text), mode="eval").body)


def _bounded(text: str) -> str:
    require(len(text) <= LARGEST_TEXT, f"a part of a model has {len(text):,} characters, more than {LARGEST_TEXT:,}")
    return text


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return RECORDS[node.func.id](**{str(each.arg): _value(each.value) for each in node.keywords})
    if isinstance(node, ast.List):
        return [_value(each) for each in node.elts]
    if isinstance(node, ast.Tuple):
        return tuple(_value(each) for each in node.elts)
    if isinstance(node, ast.Dict):
        return {_value(key): _value(each) for key, each in zip(node.keys, node.values, strict=True) if key is not None}
    return ast.literal_eval(node)


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


class StoredLabels(Struct):
    """The labels and the type of their array."""

    dtype: Annotated[str, Meta(pattern=r"^([<>|=]?(b1|[iu][1248]|f[248]|O)|U)\Z")]
    values: list[bool | int | float | str]

    @classmethod
    def of(cls, classes: NDArray[Any]) -> StoredLabels:
        """Return the record of the labels."""
        # numpy gives every text in an array the length of the longest.
        return cls("U" if classes.dtype.kind == "U" else classes.dtype.str, plain(list(classes), "label"))

    def restored(self) -> NDArray[Any]:
        """Return the labels."""
        longest = max(len(str(each)) for each in self.values)
        require(self.dtype != "U" or longest * len(self.values) <= LARGEST_TEXT, "the labels are too long")
        return np.array(self.values, dtype=self.dtype)


class StoredEncoder(Struct, forbid_unknown_fields=True):
    """An encoder: its parameters and, if it is fitted, what it has learnt."""

    params: str
    names: list[str] | None = None
    columns: str | None = None

    @classmethod
    def of(cls, encoder: TableEncoder) -> StoredEncoder:
        """Return the record of an encoder."""
        names = [str(name) for name in getattr(encoder, "feature_names_in_", [])] or None
        learnt = _bounded(written(encoder.columns_, "encoder")) if hasattr(encoder, "columns_") else None
        return cls(written(encoder, "encoder"), names, learnt)

    def restored(self) -> TableEncoder:
        """Return the encoder."""
        encoder: TableEncoder = read(self.params)
        if self.columns is not None:
            encoder.columns_ = read(self.columns)
            encoder.n_features_in_ = len(encoder.columns_)
        if self.names is not None:
            encoder.feature_names_in_ = np.array(self.names, dtype=object)
        return encoder
