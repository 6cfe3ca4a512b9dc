"""JSON by msgspec, typed both ways.  Numbers that are not finite are null; groups are words, numbers or tuples."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from fairbound._words import as_text

Scalar = bool | int | float | str | None
Label = Scalar | tuple[Scalar, ...]
"""A label or a group; that of an intersection is a tuple."""

if TYPE_CHECKING:
    Number = float
else:

    class _FloatKind(type):
        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, float)

    class Number(metaclass=_FloatKind):
        """The annotation of a float that may be NaN."""


def encode(value: Any) -> bytes:
    """Return a value as JSON; records become objects, and what JSON does not have becomes text."""
    return msgspec.json.encode(value, enc_hook=_written)


def as_json(value: Any) -> Any:
    """Return a value as what reads back from its JSON.

    >>> as_json({"a": (1, float("nan"))})
    {'a': [1, None]}
    """
    return msgspec.json.decode(encode(value))


def text_keys(by_group: Mapping[str, Mapping[Hashable, Any]]) -> dict[str, dict[str, Any]]:
    """Return values by grouping and group with the groups as text, as JSON needs them."""
    return {grouping: {as_text(group): value for group, value in found.items()} for grouping, found in by_group.items()}


def decode(data: bytes | msgspec.Raw, kind: Any = Any) -> Any:
    """Parse JSON as the type of an annotation; ValueError if it is not JSON, or of another type."""
    try:
        return msgspec.json.decode(data, type=kind, dec_hook=_read)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def read_value(kind: Any, value: Any) -> Any:
    """Return a value of parsed JSON as the type of an annotation, or raise ValueError.

    >>> read_value(tuple[Number, ...], [1, None])
    (1.0, nan)
    """
    return msgspec.convert(value, kind, dec_hook=_read)


def _written(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else str(value)


def _read(kind: Any, value: Any) -> Any:
    if kind is Number:
        return math.nan if value is None else msgspec.convert(value, float)
    if kind is Hashable:
        return msgspec.convert(value, Label)
    raise NotImplementedError(f"{kind!r} is not read from files")
