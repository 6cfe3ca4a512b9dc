"""JSON from records, and JSON parsed as the type of an annotation, by msgspec.

Numbers that are not finite are null.  Groups are words, numbers or tuples of them.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, get_origin

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


def as_json(value: Any) -> Any:
    """Return a value for JSON: a record by its `to_dict` or its fields, keys as text, other types as text.

    >>> as_json({("a", 1): (1, float("nan"))})
    {'a & 1': [1, None]}
    """
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    elif isinstance(value, Enum):
        value = value.value
    elif is_dataclass(value):
        value = value.to_dict() if hasattr(value, "to_dict") else vars(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {as_text(key): as_json(entry) for key, entry in value.items()}
    return [as_json(entry) for entry in value] if isinstance(value, tuple | list) else str(value)


def encode(record: Any, indent: int | None = None) -> bytes:
    """Return a record as JSON; keys of any type become text.

    >>> encode({("a", 1): (np.float64(0.5), float("nan"))})
    b'{"a & 1":[0.5,null]}'
    """
    found = msgspec.json.encode(record, enc_hook=_plain)
    return found if indent is None else msgspec.json.format(found, indent=indent)


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else as_text(value)  # a tuple is a key


def plain(record: Any) -> Any:
    """Return a record as dictionaries, lists, text and numbers; numbers that are not finite become None."""
    return msgspec.json.decode(encode(record))


def decode(data: bytes | msgspec.Raw, kind: Any = Any) -> Any:
    """Parse JSON as the type of an annotation; ValueError if it is not JSON, or of another type."""
    try:
        return msgspec.json.decode(data, type=kind, dec_hook=_read)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def as_record(values: Any, kind: Any) -> Any:
    """Return values of parsed JSON as the type of an annotation, or raise ValueError.

    >>> as_record([1, None], tuple[Number, ...])
    (1.0, nan)
    """
    return msgspec.convert(values, kind, dec_hook=_read)


def _read(kind: Any, value: Any) -> Any:
    if kind is Number:
        return math.nan if value is None else msgspec.convert(value, float)
    if kind is Hashable:
        return msgspec.convert(value, Label)
    if np.ndarray in (kind, get_origin(kind)):
        return np.array(value, dtype=np.float64)
    raise NotImplementedError(f"{kind!r} is not read from files")
