"""The columns of files that are read in parts, and their roles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fairbound._errors import argument
from fairbound.data import TableStream, check_named_once, refuse_probabilities


@dataclass(frozen=True, kw_only=True)
class FileColumns:
    """The columns of a file and their roles; `read_table` documents the fields.

    `test_size` is the share of rows that are held out at random; `seed` determines which.
    """

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
    cell_weights: bool = True
    max_categories: int = 50
    test_size: float = 0.0
    seed: int = 0

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the columns of label and groups."""
        return (self.target, *self.sensitive)

    def inputs(self, names: Sequence[str]) -> list[str]:
        """Return the columns that are inputs."""
        left = {self.target, self.weight, *self.ignore, *(() if self.sensitive_as_input else self.sensitive)}
        return [name for name in names if name not in left]

    def check(self, stream: TableStream) -> None:
        """Raise an error if a column does not exist, has two roles, or cannot be an input."""
        refuse_probabilities(self.sensitive, (*stream.names, *stream.dropped))
        roles = {"ignore": self.ignore, "target": (self.target,), "sensitive": self.sensitive}
        roles |= {"categorical": self.categorical, "weight": () if self.weight is None else (self.weight,)}
        for role, names in roles.items():
            for name in names:
                if name not in (*stream.names, *stream.dropped):
                    stream.check({name: argument(role)})
        check_named_once([self.target, *self.sensitive, *self.ignore, *roles["weight"]])
        inputs = self.inputs(stream.names)
        if not inputs:
            raise ValueError(f"{stream.place} has no column left for the inputs; give at least one besides the label.")
        stream.check(dict.fromkeys((*inputs, *self.keys), "an input"))
