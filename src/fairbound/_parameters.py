"""Parameter names for the objects in a list, as for `set_params`: `constraints__disparate_impact__bound`.

The objects are frozen dataclasses with a `name`; a repeated name gets a number, `disparate_impact_2`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from fairbound._words import did_you_mean


def object_names(objects: Sequence[Any]) -> list[str]:
    """Return a unique name for each object.

    >>> from types import SimpleNamespace as Thing
    >>> object_names([Thing(name="a"), Thing(name="b"), Thing(name="a")])
    ['a', 'b', 'a_2']
    """
    names: list[str] = []
    for each in objects:
        name, count = each.name, 1
        while name in names:
            count += 1
            name = f"{each.name}_{count}"
        names.append(name)
    return names


def nested_parameters(prefix: str, objects: Sequence[Any]) -> dict[str, Any]:
    """Return every object, and every field of every object, by its parameter name."""
    found: dict[str, Any] = {}
    for name, each in zip(object_names(objects), objects, strict=True):
        found[f"{prefix}__{name}"] = each
        found |= {f"{prefix}__{name}__{field.name}": getattr(each, field.name) for field in fields(each)}
    return found


def with_parameters(prefix: str, objects: Sequence[Any], changes: Mapping[str, Any]) -> list[Any]:
    """Return the objects with some fields changed; the keys of `changes` have no prefix."""
    names, result = object_names(objects), list(objects)
    known = nested_parameters(prefix, objects)
    by_object: dict[str, dict[str, Any]] = {}
    for key, value in changes.items():
        if f"{prefix}__{key}" not in known:
            hint = did_you_mean(f"{prefix}__{key}", known)
            raise ValueError(
                f"Invalid parameter {prefix}__{key!s}: there is no such limit, or it has no such parameter.{hint} "
                f"Limits: {', '.join(names) or 'none'}."
            )
        name, _, field = key.partition("__")
        if field:
            by_object.setdefault(name, {})[field] = value
        else:
            result[names.index(name)] = value
    for name, values in by_object.items():
        position = names.index(name)
        result[position] = replace(result[position], **values)
    return result
