"""The strata of conditional limits: columns of X, or of the groups, within whose levels groups are compared.

Beside the groups they are columns named "within grade"; `Cells` compares the groups in each of their strata.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairbound._errors import InputError, Message, bad_value
from fairbound._words import listed
from fairbound.data import as_word, into_bands, is_missing
from fairbound.estimator.inputs import Inputs
from fairbound.fairness import FROM, WITHIN, Constraint


def places_before(constraints: tuple[Constraint, ...], inputs: Inputs) -> tuple[int, ...]:
    """Return the positions of the columns of X with earlier decisions, which are no inputs of a model."""
    names = {limit.previous for limit in constraints}
    return tuple(place for place, name in enumerate(inputs.names or ()) if name in names)


_BANDS = re.compile(r"(.*\S)\s*\(([^()]*)\)")


def read_strata(
    constraints: tuple[Constraint, ...], inputs: Inputs, groups: Mapping[str, NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    """Return the columns of strata, and of earlier decisions, that the limits name and the groups do not have yet."""
    earlier = dict.fromkeys(limit.previous for limit in constraints if limit.previous is not None)
    if len(earlier) > 1:
        raise InputError(
            "Limits on changed decisions name {columns}, but a fit compares with one column of earlier decisions.",
            columns=listed(earlier),
        )
    found = {}
    for limit in constraints:
        before = f"{FROM}{limit.previous}"
        if limit.previous is not None and before not in groups:
            said = Message("The limit {limit}", limit=str(limit))
            found[before] = inputs.values(inputs.position(limit.previous, said))
        name = f"{WITHIN}{limit.factor}"
        if limit.within is not None and name not in groups:
            parts = [_levels(each, limit, inputs, groups) for each in limit.within]
            found[name] = parts[0] if len(parts) == 1 else _joined(parts)
    return found


def check_names_of_groups(constraints: tuple[Constraint, ...], groups: Mapping[str, NDArray[Any]]) -> None:
    """Raise an error for a column that would be read as strata, or as earlier decisions, that no limit names."""
    named = {name for limit in constraints for name in (f"{WITHIN}{limit.factor}", f"{FROM}{limit.previous}")}
    for name in groups if constraints else ():
        if name.startswith((WITHIN, FROM)) and name not in named:
            raise InputError(
                "The column {name!r} of groups is named like strata or earlier decisions, but no limit names it.",
                "Give it another name.",
                name=name,
            )


def _levels(factor: str, limit: Constraint, inputs: Inputs, groups: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    """Return the level of each row as text, None if it is missing: of a column, or of bands such as "age(30, 50)"."""
    banded = _BANDS.fullmatch(factor)
    column = banded[1] if banded else factor
    said = Message("The limit {limit}", limit=str(limit))
    if banded:
        try:
            cuts = [float(each) for each in banded[2].split(",")]
        except ValueError:
            raise bad_value(
                "within", factor, "a column, or a column with the cuts of bands, as in age(30, 50)"
            ) from None
        return into_bands(inputs.numbers(inputs.position(column, said)), cuts, column)
    values = groups[column] if column in groups else inputs.values(inputs.position(column, said))
    gaps = is_missing(values)
    return np.array([None if gap else as_word(value) for value, gap in zip(values.tolist(), gaps, strict=True)], object)


def _joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    rows = zip(*(part.tolist() for part in parts), strict=True)
    return np.array([None if None in row else " & ".join(row) for row in rows], dtype=object)
