"""The roles of the columns of a table: label, groups, weights, categories, and inputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from fairbound._errors import InputError, InputTypeError, argument, bad_value
from fairbound._words import did_you_mean
from fairbound.data.bands import into_bands
from fairbound.data.batches import Batches
from fairbound.data.columns import group_values
from fairbound.data.probabilities import name_probabilities


@dataclass(frozen=True, kw_only=True)
class Roles:
    """The columns of a table and their roles; `read_table` documents the fields."""

    target: str
    sensitive: tuple[str, ...] = ()
    positive: Any = None
    negative: Any = None
    weight: str | None = None
    bands: Mapping[str, Sequence[float]] = field(default_factory=dict)
    categorical: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    sensitive_as_input: bool = False
    drop_unlabelled: bool = False
    max_categories: int = 50

    @classmethod
    def build(cls, *, target: Any, **given: Any) -> Roles:
        """Return the roles; one name or several may be given for each.  Values of wrong types are errors."""
        if not isinstance(target, str):
            raise InputTypeError("{target=value} must be the name of a column.", value=target)
        for name in ("sensitive", "categorical", "ignore"):
            given[name] = tuple(_names(given.get(name, ()), name))
        found = cls(target=target, **given | {"bands": given.get("bands") or {}})
        if not isinstance(found.weight, str | None):
            raise InputTypeError("{weight=value} must be the name of a column.", value=found.weight)
        if not isinstance(found.sensitive_as_input, bool):
            raise InputTypeError("{sensitive_as_input=value} must be True or False.", value=found.sensitive_as_input)
        most = found.max_categories
        if not isinstance(most, int) or isinstance(most, bool):
            raise InputTypeError("{max_categories=value} must be a whole number.", value=most)
        if most < 2:
            raise bad_value("max_categories", most, "at least 2")
        return found

    def inputs(self, names: Sequence[str], groups: Sequence[str]) -> list[str]:
        """Return the columns that are inputs; `groups` are no inputs, unless `sensitive_as_input` says so."""
        left = {self.target, self.weight, *self.ignore, *(() if self.sensitive_as_input else groups)}
        return [name for name in names if name not in left]

    def check(self, source: Batches, further: Sequence[str] = ()) -> list[tuple[str, list[str]]]:
        """Raise an error if a column does not exist, has two roles, or cannot be read; `further` ones are no inputs.

        Return the columns of each sensitive column: its own, or those of probabilities.
        """
        listed = name_probabilities(self.sensitive, source.names)
        groups = [column for _, columns in listed for column in columns]
        weights = () if self.weight is None else (self.weight,)
        asked = {"ignore": self.ignore, "target": (self.target,), "sensitive": groups}
        asked |= {"categorical": self.categorical, "weight": weights, "base_score": further}
        for role, names in asked.items():
            for name in names:  # also for `ignore`: a misspelt column would become an input
                source.check_column(name, argument(role))
        check_named_once([self.target, *groups, *self.ignore, *weights, *further])
        if "" in source.names and "" not in self.ignore:
            raise InputError(
                "Column {position} of {place} has no name.",
                "Give it one, or leave it out with {ignore=['']}.",
                position=list(source.names).index("") + 1,
                place=source.place,
            )
        for name in self.bands:
            if [name] not in [columns for _, columns in listed]:
                raise InputError(
                    "{bands=} names {column!r}, which is not a sensitive column.{near}",
                    "Name it with {sensitive=}, too.",
                    column=name,
                    near=did_you_mean(name, groups),
                )
        inputs = self.inputs(source.names, (*groups, *further))
        if not inputs:
            raise ValueError(
                f"{source.place} has no column left for the inputs; give at least one besides label and groups."
            )
        source.check(dict.fromkeys((*inputs, self.target, *groups, *weights, *further), "an input"))
        return listed

    def groups(self, name: str, values: NDArray[Any]) -> NDArray[Any]:
        """Return the groups of a sensitive column, in bands if `bands` has cuts for it."""
        return into_bands(values, self.bands[name], name) if name in self.bands else group_values(values)


def _names(given: Any, name: str) -> list[str]:
    """Return one or several names as a list."""
    listed_names = [given] if isinstance(given, str) else given
    if not isinstance(listed_names, Collection) or not all(isinstance(name, str) for name in listed_names):
        raise InputTypeError("{argument} must be a string, or a list of strings.", argument=argument(name, given))
    return list(listed_names)


def check_named_once(names: Iterable[str]) -> None:
    """Raise an error if a column has two roles; `names` lists label, groups, ignored columns and weights."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise InputError(
            "Column {column!r} is named twice among {target=}, {sensitive=}, {ignore=} and {weight=}.",
            "Name it once.",
            column=twice[0],
        )
