"""The parameters of the classifier: allowed values, and names for the parameters of its limits.

A limit is a frozen dataclass with a `name`.  Its fields have names such as `constraints__disparate_impact__bound`.  A
name that occurs again gets a number, `disparate_impact_2`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from numbers import Integral, Real
from typing import Any

from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from fairbound._words import did_you_mean
from fairbound.fairness import Constraint, as_constraints
from fairbound.training import Effort

ALLOWED: dict[str, list[Any]] = {
    "objective": [StrOptions({"loss", "cross_entropy", "accuracy"})],
    "solver": [StrOptions({"auto", "quasi-newton", "stochastic"})],
    "threshold": [Interval(Real, 0, 1, closed="neither")],
    "l2": [Interval(Real, 0, None, closed="left")],
    "confidence": [Interval(Real, 0.5, 1, closed="left"), None],
    "calibration_size": [Interval(Real, 0, 1, closed="neither")],
    "sensitive_as_input": ["boolean"],
    "groups": [StrOptions({"each", "intersection", "both"})],
    "missing_groups": [StrOptions({"ignore", "group"})],
    "small_groups": [StrOptions({"error", "warn", "merge"})],
    "min_group_size": [Interval(Integral, 1, None, closed="left")],
    "constraint_weight": [StrOptions({"same", "none"}), "array-like"],
    "ensemble": ["boolean"],
    "correction": [StrOptions({"columns", "groups", "both"})],
    "preprocessing": [StrOptions({"auto"}), HasMethods(["fit", "transform"]), None],
    "max_categories": [Interval(Integral, 2, None, closed="left")],
    "effort": [Effort, None],
    "warm_start": ["boolean"],
    "random_state": ["random_state"],
    "verbose": ["verbose"],
}
"""Allowed values by parameter, in scikit-learn's form.  Other parameters are checked where they are used."""


def readable_constraints(stated: Any) -> tuple[Constraint, ...]:
    """Return the limits, or none if they cannot be read: `fit` raises the error, not `get_params`."""
    try:
        return as_constraints(stated)
    except (TypeError, ValueError):
        return ()


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
