"""The parts of a classifier as records that a file holds: labels, limits, the objective, the encoder.

Code is not written, only its name: a later `fit` then asks for it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from fairbound._json import Label, Scalar
from fairbound.estimator import (
    L2,
    CategoryColumn,
    NumberColumn,
    SmoothedL1,
    SquaredMeasure,
    TableEncoder,
    as_regularizers,
)
from fairbound.fairness import CONSTRAINTS, MEASURES, SURROGATES, Constraint, Quota, Surrogate

Positive = Annotated[float, Meta(gt=0)]


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

    dtype: str
    values: list[bool | int | float | str]

    @classmethod
    def of(cls, classes: NDArray[Any]) -> StoredLabels:
        """Return the record of the labels."""
        # numpy gives every text in an array the length of the longest.
        return cls("U" if classes.dtype.kind == "U" else classes.dtype.str, plain(list(classes), "label"))

    def restored(self) -> NDArray[Any]:
        """Return the labels."""
        return np.array(self.values, dtype=self.dtype)


class StoredSurrogate(Struct):
    """A surrogate by its name in the registry, and its numbers."""

    name: str
    options: dict[str, float]

    @classmethod
    def of(cls, surrogate: Surrogate | str | None) -> StoredSurrogate | str | None:
        """Return the record of a surrogate; a name is its own record."""
        if not isinstance(surrogate, Surrogate):
            return surrogate
        for name, kind in SURROGATES.items():
            if type(surrogate) is kind:
                return cls(name, asdict(surrogate))
        raise ValueError(f"The surrogate {surrogate!r} is not one of this package, and cannot be written to a file.")


def surrogate_of(stored: StoredSurrogate | str | None) -> Surrogate | str | None:
    """Return the surrogate of a record."""
    return SURROGATES[stored.name](**stored.options) if isinstance(stored, StoredSurrogate) else stored


class StoredLimit(Struct, omit_defaults=True, forbid_unknown_fields=True):
    """A limit; see `Constraint` for its fields."""

    measure: str
    bound: float | tuple[float | None, float | None] | None
    against: str = "pairwise"
    reference: Label = None
    group: Label = None
    columns: tuple[str, ...] | None = None
    classes: tuple[Scalar, ...] | None = None
    within: tuple[str, ...] | None = None
    previous: str | None = None
    surrogate: StoredSurrogate | str | None = None
    margin: str = "probability"
    reserve: tuple[float, ...] = ()

    @classmethod
    def of(cls, limit: Constraint) -> StoredLimit | str:
        """Return the record of a limit, or its text: a quota, or a user's own measure, which a later `fit` asks for."""
        if isinstance(limit, Quota) or (
            not isinstance(limit.measure, str) and limit.measure is not MEASURES.get(limit.measure.name)
        ):
            return str(limit)
        options = {
            each.name: plain(getattr(limit, each.name), each.name)
            for each in fields(limit)
            if each.name not in ("surrogate", "measure")
        }
        return cls(measure=limit.name, surrogate=StoredSurrogate.of(limit.surrogate), **options)

    def restored(self) -> Constraint:
        """Return the limit."""
        kind = CONSTRAINTS.get(self.measure, Constraint)
        options: dict[str, Any] = {
            name: getattr(self, name) for name in self.__struct_fields__ if name not in ("bound", "measure")
        }
        options["surrogate"] = surrogate_of(self.surrogate)
        if kind is Constraint:
            options["measure"] = self.measure
        return kind(self.bound, **options)


NOT_HERE = "not in the file: "


def loss_name(loss: Any) -> str:
    """Return the name of a loss.  That of a user's function says that it is not in the file."""
    return loss if isinstance(loss, str) else NOT_HERE + getattr(loss, "__name__", type(loss).__name__)


class StoredTerm(Struct, omit_defaults=True, forbid_unknown_fields=True):
    """A term that is added to the loss."""

    kind: Literal["L2", "SmoothedL1", "SquaredMeasure"]
    weight: float
    smoothing: float | None = None
    measure: str | None = None
    surrogate: StoredSurrogate | str | None = None

    def restored(self) -> L2 | SmoothedL1 | SquaredMeasure:
        """Return the term."""
        if self.kind == "SquaredMeasure":
            return SquaredMeasure(self.measure or "", self.weight, surrogate_of(self.surrogate))
        return L2(self.weight) if self.smoothing is None else SmoothedL1(self.weight, self.smoothing)


def stored_terms(stated: Any) -> list[StoredTerm | str]:
    """Return the records of the terms that are added to the loss; a term that cannot be written becomes text."""
    found: list[StoredTerm | str] = []
    each: Any
    for each in as_regularizers(stated):
        kind: Any = type(each).__name__
        if isinstance(each, SquaredMeasure):
            limit = StoredLimit.of(each.as_constraint())
            found.append(
                NOT_HERE + limit
                if isinstance(limit, str)
                else StoredTerm(kind, each.weight, measure=limit.measure, surrogate=limit.surrogate)
            )
        elif isinstance(each, L2) and each.of is not None:
            found.append(f"{NOT_HERE}{each!r} of some parameters")
        else:
            found.append(StoredTerm(kind, each.weight, getattr(each, "smoothing", None)))
    return found


def stored_class_weight(stated: Any) -> Any:
    """Return the weights of the classes: a word, or pairs of label and weight."""
    if not isinstance(stated, Mapping):
        return stated
    return [(plain(label, "label"), float(weight)) for label, weight in stated.items()]


class StoredEncoder(Struct, forbid_unknown_fields=True):
    """An encoder, fitted or not."""

    categorical: list[Scalar] | None
    max_categories: int
    scale: bool
    strict: bool
    names: list[str] | None = None
    columns: list[StoredColumn] | None = None

    @classmethod
    def of(cls, encoder: TableEncoder) -> StoredEncoder:
        """Return the record of an encoder."""
        params = {name: plain(value, name) for name, value in encoder.get_params().items()}
        names = [str(name) for name in getattr(encoder, "feature_names_in_", [])] or None
        columns = getattr(encoder, "columns_", None)
        return cls(**params, names=names, columns=columns and [StoredColumn.of(column) for column in columns])

    def restored(self) -> TableEncoder:
        """Return the encoder."""
        encoder = TableEncoder(
            categorical=self.categorical, max_categories=self.max_categories, scale=self.scale, strict=self.strict
        )
        if self.columns is not None:
            both = ((each.number, each.category) for each in self.columns)
            encoder.columns_ = tuple(column for pair in both for column in pair if column is not None)
            encoder.n_features_in_ = len(self.columns)
        if self.names is not None:
            encoder.feature_names_in_ = np.array(self.names, dtype=object)
        return encoder


class StoredColumn(Struct, omit_defaults=True, forbid_unknown_fields=True):
    """A column of an encoder, of numbers or of categories."""

    number: NumberColumn | None = None
    category: CategoryColumn | None = None

    @classmethod
    def of(cls, column: NumberColumn | CategoryColumn) -> StoredColumn:
        """Return the record of a column."""
        return cls(number=column) if isinstance(column, NumberColumn) else cls(category=column)
