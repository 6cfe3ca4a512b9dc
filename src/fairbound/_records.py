"""Write values as JSON, and read dataclasses from it, with each field checked against its annotation."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
import numpy as np

from fairbound._words import as_text

Record = TypeVar("Record")

LARGEST_INTEGER = 2**63


def read_record(kind: type[Record], values: Any, what: str = "") -> Record:
    """Return the dataclass that a JSON object describes.  Unknown fields, and missing ones without default, are errors.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Point:
    ...     x: float
    ...     names: tuple[str, ...] = ()
    >>> read_record(Point, {"x": 1, "names": ["a"]})
    Point(x=1, names=('a',))
    >>> read_record(Point, {"x": "one"})
    Traceback (most recent call last):
    ...
    ValueError: x is 'one', not a number
    """
    what = what or kind.__name__
    if not isinstance(values, dict):
        raise _wrong(what, values, "an object")
    hints = _hints(kind)  # type: ignore[arg-type]  # a class is hashable
    known = {field.name: field for field in fields(kind) if field.init}  # type: ignore[arg-type]  # a dataclass
    unknown = sorted(set(values) - set(known))
    if unknown:
        raise ValueError(f"{what} has the unknown field {unknown[0]!r:.80}")
    missing = [
        name
        for name, field in known.items()
        if name not in values and field.default is MISSING and field.default_factory is MISSING
    ]
    if missing:
        raise ValueError(f"{what} has no {missing[0]!r}")
    return kind(**{name: read_value(hints[name], value, name) for name, value in values.items()})


def read_value(hint: Any, value: Any, what: str) -> Any:
    """Return a JSON value as the type of an annotation, or raise ValueError.

    Numbers must be finite; null becomes NaN for a float, because JSON has no NaN.  Lists become tuples if the
    annotation is a tuple.  Groups (`Hashable`) are words, numbers or tuples of them.
    """
    if hint is Any:
        return value
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return _one_of(inner, value, what)
    if hint is Hashable:
        return tuple(_scalar(each, what) for each in value) if isinstance(value, list) else _scalar(value, what)
    if origin is Literal:
        if not isinstance(value, Hashable) or value not in inner:
            raise _wrong(what, value, f"one of {', '.join(map(repr, inner))}")
        return value
    if origin in (tuple, list):
        return _sequence(origin, inner, value, what)
    if origin in (dict, Mapping):
        if not isinstance(value, dict):
            raise _wrong(what, value, "an object")
        return {key: read_value(inner[1], entry, f"{what}, {key:.40}") for key, entry in value.items()}
    if isinstance(hint, type) and is_dataclass(hint):
        return read_record(hint, value, what)
    if isinstance(hint, type) and issubclass(hint, Enum):
        if value not in [each.value for each in hint]:
            raise _wrong(what, value, f"one of {', '.join(repr(each.value) for each in hint)}")
        return hint(value)
    return _plain(hint, value, what)


def _plain(hint: Any, value: Any, what: str) -> Any:
    if hint is bool or hint is str:
        if not isinstance(value, hint):
            raise _wrong(what, value, "true or false" if hint is bool else "text")
        return value
    if hint is float and value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong(what, value, "a number")
    if isinstance(value, float) and not (hint is float and math.isfinite(value)):
        raise _wrong(what, value, "a finite number" if hint is float else "a whole number")
    if abs(value) > LARGEST_INTEGER and isinstance(value, int):
        raise ValueError(f"{what} is a number that is too large")
    if hint not in (int, float):
        raise TypeError(f"{what} has the annotation {hint!r}, which is not read from files")
    return value


def _scalar(value: Any, what: str) -> Any:
    if value is None or isinstance(value, bool | str):
        return value
    return _plain(float if isinstance(value, float) else int, value, what)


def _one_of(kinds: tuple[Any, ...], value: Any, what: str) -> Any:
    if value is None and NoneType in kinds:
        return None
    problems = []
    for kind in kinds:
        if kind is not NoneType:
            try:
                return read_value(kind, value, what)
            except ValueError as error:
                problems.append(error)
    raise problems[0]


def _sequence(origin: Any, inner: tuple[Any, ...], value: Any, what: str) -> Any:
    if not isinstance(value, list):
        raise _wrong(what, value, "a list")
    if origin is list or inner[-1] is Ellipsis:
        return origin(read_value(inner[0], each, what) for each in value)
    if len(value) != len(inner):
        raise ValueError(f"{what} has {len(value)} values, not {len(inner)}")
    return tuple(read_value(kind, each, what) for kind, each in zip(inner, value, strict=True))


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _wrong(what: str, value: Any, expected: str) -> ValueError:
    shown = repr(value) if isinstance(value, str | int | float | None) else type(value).__name__
    return ValueError(f"{what} is {shown:.80}, not {expected}")


def as_json(value: Any) -> Any:
    """Convert a value for JSON: records and arrays, too; numbers that are not finite to null, other types to text.

    A record with `to_dict` has that form, another dataclass its fields.
    """
    if isinstance(value, bool | int | str) or value is None:
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if is_dataclass(value):
        return value.to_dict() if hasattr(value, "to_dict") else as_json(vars(value))
    if isinstance(value, Mapping):
        return {as_text(key): as_json(entry) for key, entry in value.items()}
    if isinstance(value, tuple | list):
        return [as_json(entry) for entry in value]
    if isinstance(value, Enum):
        return as_json(value.value)
    return as_json(value.tolist()) if isinstance(value, np.ndarray) else str(value)


def as_record(values: Any, kind: type[Record]) -> Record:
    """Return the dataclass that JSON values describe; lists become tuples where a value must have a hash.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Counted:
    ...     rows: int
    >>> as_record({"rows": "one"}, Counted)
    Traceback (most recent call last):
    ...
    msgspec.ValidationError: Expected `int`, got `str` - at `$.rows`
    """
    return msgspec.convert(values, kind, dec_hook=_hashable_or_array)


def _hashable_or_array(kind: type, value: Any) -> Any:
    if kind is np.ndarray:
        return np.array(value, dtype=np.float64)
    return tuple(value) if isinstance(value, list) else value
