"""The parts of a study's rows.

    training      rows that models are trained on
    calibration   with `confidence=`: rows that models are tested on before one is chosen
    held_out      rows for the evaluation, used for nothing else

All draws are stratified by label and groups, and use one seed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from fairbound._errors import (
    InputError,
    InputTypeError,
)
from fairbound._values import find_value
from fairbound._words import did_you_mean, listed
from fairbound.data import (
    DATASETS,
    Backend,
    Dataset,
    has_probabilities,
    installed_backend,
    is_missing,
)
from fairbound.fairness import Constraint
from fairbound.studies.settings import StudySettings

if TYPE_CHECKING:
    from fairbound.estimator import Inputs

CALIBRATION = 0.3
"""Share of the rows that are not held out, on which models are tested for a confidence."""

BACKENDS: tuple[Backend, ...] = ("pyarrow", "polars", "pandas")

MOST_SMALL_GROUPS = 10
"""A column of numbers with more small groups than this is considered a quantity."""


# Advice for error messages.
RATE_OF_ONE_GROUP = "For the rate of one group, give it in square brackets: [{name}]."

SENSITIVE_TOO = "Name it with {sensitive=}, too."

LARGER_GROUPS = "Join them with other groups in the data, or train without {confidence=}."

FEWER_GROUPS = (
    "Leave them out of the limits with {groups.small='warn'}, or make one group of them with {groups.small='merge'}."
)


@dataclass(frozen=True)
class Part:
    """Rows as inputs of estimators and of the evaluation: a table, labels as text, groups by column."""

    data: Dataset
    X: Any = field(repr=False)
    y: Any = field(repr=False)
    strata: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, data: Dataset, limits: tuple[Constraint, ...] = ()) -> Part:
        """Make the table, with the first library that is installed, and the strata that limits name."""
        table = data.frame(backend=table_backend())
        strata = {}
        if any(limit.within or limit.previous for limit in limits):
            from fairbound.estimator import read_inputs, read_strata

            strata = read_strata(limits, read_inputs(table), data.sensitive)
        return cls(data, table, data.words(), strata)

    @cached_property
    def inputs(self) -> Inputs:
        """The table, shared by the models of a study, so that its rows are encoded once."""
        from fairbound.estimator import share_inputs

        return share_inputs(self.X, self.data.table.folder)

    def __len__(self) -> int:
        return len(self.data)

    @property
    def sensitive(self) -> Mapping[str, Any]:
        """The groups, by column, and the strata of limits."""
        return {**self.data.sensitive, **self.strata}

    @property
    def weight(self) -> Any:
        """The weight of each row; None if all are equal."""
        return self.data.weight


@dataclass(frozen=True)
class Parts:
    """All parts of a study."""

    training: Part
    calibration: Part | None
    held_out: Part | None

    @classmethod
    def draw(cls, data: Dataset, settings: StudySettings, held_out: Dataset | None = None) -> Parts:
        """Draw the parts; given held-out rows replace drawn ones."""
        if data.n_rows < 2:
            raise InputError("{name} has one row.", "Give more to train on and to hold out.", name=data.name)
        refuses_small = bool(settings.limits) and settings.groups.small == "error"
        if refuses_small:
            check_group_sizes(data, settings)
        # Both draws use the same numbers: one order of the rows is cut twice.
        rest, calibration = data, None
        if held_out is None and settings.test_size > 0:
            rest, held_out = data.split(settings.test_size, random_state=settings.seed, scale=False)
        if settings.confidence is not None:
            rest, calibration = rest.split(CALIBRATION, random_state=settings.seed, scale=False)
        if refuses_small and settings.groups.combine != "each":
            check_group_sizes(rest, settings)  # draws are stratified on columns, not on their intersections
        return cls(
            Part.of(rest, settings.limits),
            None if calibration is None else Part.of(calibration, settings.limits),
            None if held_out is None else Part.of(held_out, settings.limits),
        )


def is_known(data: Dataset) -> bool:
    """Return whether these are rows of a data set of `load_dataset`."""
    return data.path is None and data.name in DATASETS


def with_sensitive(data: Dataset, sensitive: str | Sequence[str] | None) -> Dataset:
    """Return the data with the named sensitive columns; None keeps all, or the first one of a known data set."""
    if not isinstance(data, Dataset):
        raise InputTypeError(
            "{data=} must be a Dataset, but it is of type {kind}.",
            "read_table and load_dataset return one.",
            kind=type(data).__name__,
        )
    if sensitive is None:
        names = list(data.sensitive)[: 1 if is_known(data) else None]
    else:
        names = [sensitive] if isinstance(sensitive, str) else list(sensitive)
    return data.changed(sensitive={name: data.groups(name) for name in names})


def check_limited_columns(limits: Sequence[Constraint], data: Dataset, groups: str) -> None:
    """Raise an error, before training, if a limit names a column that is not sensitive; skip intersections."""
    for limit in limits:
        for name in limit.columns or ():
            if groups == "each" and name not in data.sensitive:
                is_group = any(name in map(str, values.tolist()) for values in data.sensitive.values())
                remedy = RATE_OF_ONE_GROUP if is_group else SENSITIVE_TOO
                raise InputError(
                    "{limit!r} is about the groups of {name!r}, which is not among the sensitive columns ({known}).",
                    remedy,
                    limit=str(limit),
                    name=name,
                    known=", ".join(data.sensitive),
                )
    check_limited_groups(limits, data, groups)


def check_limited_groups(limits: Sequence[Constraint], data: Dataset, groups: str) -> None:
    """Reject a limit on a group that no column has before anything is trained; intersections are made later."""
    if groups != "each" or any(map(has_probabilities, data.sensitive.values())):
        return
    for limit in limits:
        wanted = limit.group if limit.group is not None else limit.reference
        if wanted is None or str(wanted).startswith("(other"):  # `small_groups="merge"` makes such a group
            continue
        columns = {name: data.sensitive[name] for name in limit.columns or data.sensitive}
        known = {
            name: sorted(everywhere(data, Counter(values[~is_missing(values)].tolist())), key=str)
            for name, values in columns.items()
        }
        if all(find_value(wanted, each) is None for each in known.values()):
            raise InputError(
                "{limit!r} names the group {wanted!r}, which no row has.{near} Known groups: {known}.",
                limit=str(limit),
                wanted=wanted,
                near=did_you_mean(str(wanted), [str(group) for each in known.values() for group in each]),
                known="; ".join(f"{name}: {listed(each)}" for name, each in known.items()),
            )


def everywhere(data: Dataset, counted: Counter[Any]) -> Counter[Any]:
    """Return the counts of the rows of all processes that share the data."""
    if data.processes is None:
        return counted
    found = Counter[Any]()
    for each in data.processes.gather(counted):
        found.update(each)
    return found


def check_group_sizes(data: Dataset, settings: StudySettings) -> None:
    """Raise an error, before training, for groups of few rows: a drawn part may have no row of them."""
    least = settings.groups.min_size
    for name, values in _group_columns(data, settings.groups.combine).items():
        if has_probabilities(values):
            continue  # the fit itself checks the expected sizes
        sizes = everywhere(data, Counter(values[~is_missing(values)].tolist()))
        few = {group: rows for group, rows in sizes.items() if rows < least}
        if not few:
            continue
        if len(few) > MOST_SMALL_GROUPS and values.dtype.kind in "iuf":
            raise InputError(
                "Column {name!r} ({sensitive=}) has {count:,} different numbers, most of them in few rows.",
                "Sort them into groups when reading the file, for example with {bands=cuts}.",
                name=name,
                count=len(sizes),
                cuts={name: middle(values)},
            )
        # A confidence covers every group, so no group can be left out or merged.
        remedy = LARGER_GROUPS if settings.confidence is not None else FEWER_GROUPS
        raise InputError(
            "Column {name!r} ({sensitive=}) has groups of fewer than {least} rows ({groups.min_size=}): {groups}.",
            remedy,
            name=name,
            least=least,
            groups=", ".join(f"{group!r} with {rows}" for group, rows in list(few.items())[:5]),
        )


def _group_columns(data: Dataset, groups: str) -> dict[str, Any]:
    """Return the groups by column, with their intersection if `groups` asks for it."""
    columns = dict(data.sensitive)
    if groups == "each" or len(columns) < 2 or any(map(has_probabilities, columns.values())):
        return columns
    joined = np.array([" & ".join(map(str, row)) for row in zip(*columns.values(), strict=True)], dtype=object)
    joined[np.any([is_missing(values) for values in columns.values()], axis=0)] = None
    return {**(columns if groups == "both" else {}), " & ".join(columns): joined}


def middle(values: Any) -> list[float]:
    """Return two cuts that make groups of about equal size, as an example of bands."""
    cuts = np.unique(np.nanquantile(values, (1 / 3, 2 / 3)).round()).tolist()
    return [int(cut) if float(cut).is_integer() else cut for cut in cuts]


def table_backend() -> Backend:
    """Return the fastest library for tables that is installed, or "dict"."""
    return installed_backend(BACKENDS)
