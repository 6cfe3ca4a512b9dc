"""The roles of the columns of a table: label, groups, weights and inputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from fairbound._errors import InputError, InputTypeError, argument, bad_value
from fairbound._words import did_you_mean
from fairbound.data.arrow import is_date, is_text
from fairbound.data.bands import into_bands
from fairbound.data.batches import Batches
from fairbound.data.probabilities import name_probabilities
from fairbound.data.schema import group_values
from fairbound.data.source import Source, as_names


@dataclass(frozen=True, kw_only=True)
class Roles:
    """The columns of a source and their roles; `read_table` and `Source` document the fields.

    With `quantity`, the target is a number to predict: all rows have one label, and `Dataset.numbers` has the target.
    """

    source: Source
    target: str
    sensitive: Sequence[str] = ()
    weight: str | None = None
    sensitive_as_input: bool = False
    max_categories: int = 50
    quantity: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.target, str):
            raise InputTypeError("{target=value} must be the name of a column.", value=self.target)
        object.__setattr__(self, "sensitive", as_names(self.sensitive, "sensitive"))
        if not isinstance(self.weight, str | None):
            raise InputTypeError("{weight=value} must be the name of a column.", value=self.weight)
        if not isinstance(self.sensitive_as_input, bool):
            raise InputTypeError("{sensitive_as_input=value} must be True or False.", value=self.sensitive_as_input)
        most = self.max_categories
        if not isinstance(most, int) or isinstance(most, bool):
            raise InputTypeError("{max_categories=value} must be a whole number.", value=most)
        if most < 2:
            raise bad_value("max_categories", most, "at least 2")

    def inputs(self, names: Sequence[str], groups: Sequence[str]) -> list[str]:
        """Return the columns that are inputs; `groups` are no inputs, unless `sensitive_as_input` says so."""
        left = {self.target, self.weight, *self.source.ignore, *(() if self.sensitive_as_input else groups)}
        named = self.source.inputs
        return [name for name in names if name not in left and (not named or name in named)]

    def check(self, rows: Batches, further: Sequence[str] = ()) -> list[tuple[str, list[str]]]:
        """Raise an error if a column does not exist, has two roles, or cannot be read; `further` ones are no inputs.

        Return the columns of each sensitive column: its own, or those of probabilities.
        """
        listed = name_probabilities(self.sensitive, rows.names)
        groups = [column for _, columns in listed for column in columns]
        weights = () if self.weight is None else (self.weight,)
        asked: dict[str, Sequence[str]] = {"ignore": self.source.ignore, "target": (self.target,), "sensitive": groups}
        asked |= {"inputs": self.source.inputs, "dates": self.source.dates}
        asked |= {"categorical": self.source.categorical, "weight": weights, "base_score": further}
        for role, names in asked.items():
            for name in names:  # also for `ignore`: a misspelt column would become an input
                rows.check_column(name, argument(role))
        for name in self.source.dates:
            if rows.is_typed and not (is_text(rows.kind(name)) or is_date(rows.kind(name))):
                raise InputError(
                    "Column {column!r} of {place} has the type {kind}, but {dates=} names columns of text.",
                    "Give the dates as text, such as 2024-01-31, or numbers that mean days without {dates=}.",
                    column=name,
                    place=rows.place,
                    kind=rows.kind(name),
                )
        counted = Counter([self.target, *groups, *self.source.ignore, *weights, *further])
        twice = [name for name, count in counted.items() if count > 1]
        if twice:
            raise InputError(
                "Column {column!r} is named twice among {target=}, {sensitive=}, {ignore=} and {weight=}.",
                "Name it once.",
                column=twice[0],
            )
        if "" in rows.names and "" not in self.source.ignore and not self.source.inputs:
            raise InputError(
                "Column {position} of {place} has no name.",
                "Give it one, or leave it out with {ignore=['']}.",
                position=list(rows.names).index("") + 1,
                place=rows.place,
            )
        for name in self.source.bands or ():
            if [name] not in [columns for _, columns in listed]:
                raise InputError(
                    "{bands=} names {column!r}, which is not a sensitive column.{near}",
                    "Name it with {sensitive=}, too.",
                    column=name,
                    near=did_you_mean(name, groups),
                )
        inputs = self.inputs(rows.names, (*groups, *further))
        other = [name for name in self.source.inputs if name not in inputs]
        if other:
            raise InputError(
                "Column {column!r} is named with {inputs=}, but it is the label, a group or a weight, or is left out.",
                "Name it once.",
                column=other[0],
            )
        if not inputs:
            raise ValueError(
                f"{rows.place} has no column left for the inputs; give at least one besides label and groups."
            )
        rows.check(dict.fromkeys((*inputs, self.target, *groups, *weights, *further), "an input"))
        return listed

    def groups(self, name: str, values: NDArray[Any]) -> NDArray[Any]:
        """Return the groups of a sensitive column, in bands if `bands` has cuts for it."""
        bands = self.source.bands or {}
        return into_bands(values, bands[name], name) if name in bands else group_values(values)
