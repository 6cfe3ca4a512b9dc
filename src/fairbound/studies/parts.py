"""The parts of a study's rows.

    training      rows that models are trained on
    calibration   with `confidence=`: rows that models are tested on before one is chosen
    held_out      rows for the evaluation, used for nothing else

All draws are stratified by label and groups, and use one seed.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from fairbound._errors import InputError, InputTypeError, LimitWarning
from fairbound.data import DATASETS, Backend, Dataset, Table, installed_backend
from fairbound.fairness import Cells, Constraint, ConstraintSystem
from fairbound.studies.settings import StudySettings

if TYPE_CHECKING:
    from fairbound.estimator import Inputs

CALIBRATION = 0.3
"""Share of the rows that are not held out, on which models are tested for a confidence."""

BACKENDS: tuple[Backend, ...] = ("pyarrow", "polars", "pandas")

# Advice for error messages.
RATE_OF_ONE_GROUP = "For the rate of one group, give it in square brackets: [{name}]."

SENSITIVE_TOO = "Name it with {sensitive=}, too."

BANDS = "Sort them into groups when reading the file, for example with {bands=cuts}."


@dataclass(frozen=True)
class Part:
    """Rows as inputs of estimators and of the evaluation: a table, labels as text, groups by column."""

    data: Dataset
    X: Any = field(repr=False)
    y: Any = field(repr=False)
    strata: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, data: Dataset, limits: tuple[Constraint, ...] = ()) -> Part:
        """Make the table, with the first library that is installed, and the strata that limits name.

        Earlier decisions that limits name are no inputs.
        """
        table, strata = data.frame(backend=table_backend()), {}
        if any(limit.within or limit.previous for limit in limits):
            from fairbound.estimator import read_inputs, read_strata

            strata = read_strata(limits, read_inputs(table), data.sensitive)
            earlier = {limit.previous for limit in limits}
            kept = [column for column in data.table.schema if column.name not in earlier]
            raw = Table(kept, data.table.columns, data.table.formats)
            data = data.changed(raw=raw, X=None, feature_names=None)
            table = data.frame(backend=table_backend())
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


def study_parts(
    data: Dataset, settings: StudySettings, held_out: Dataset | None = None
) -> tuple[Part, Part | None, Part | None]:
    """Return the rows for training, for calibration and held out; given held-out rows replace drawn ones."""
    if data.n_rows < 2:
        raise InputError("{name} has one row.", "Give more to train on and to hold out.", name=data.name)
    # Both draws use the same numbers: one order of the rows is cut twice.
    rest, calibration = data, None
    if held_out is None and settings.test_size > 0:
        rest, held_out = data.split(settings.test_size, random_state=settings.seed, scale=False)
    if settings.confidence is not None:
        rest, calibration = rest.split(CALIBRATION, random_state=settings.seed, scale=False)
    return (
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


def check_limits(rows: Part, settings: StudySettings) -> None:
    """Raise an error, before training, for a limit on unknown columns or groups, and for groups that are too small.

    Several processes, each of which has a share of the rows, see this in the fit.
    """
    limits, groups, known = settings.limits, settings.groups, rows.data.sensitive
    for limit in limits:
        for name in limit.columns or ():
            if groups.combine == "each" and name not in known:
                is_group = any(name in map(str, values.tolist()) for values in known.values())
                remedy = RATE_OF_ONE_GROUP if is_group else SENSITIVE_TOO
                raise InputError(
                    "{limit!r} is about the groups of {name!r}, which is not among the sensitive columns ({known}).",
                    remedy,
                    limit=str(limit),
                    name=name,
                    known=", ".join(known),
                )
    if not limits or rows.data.processes is not None:
        return
    from fairbound.estimator import settle_small_groups

    cells = Cells.build(rows.y, rows.sensitive, groups=groups.combine)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LimitWarning)  # the fit warns
            cells, _ = settle_small_groups(cells, limits, groups.small, groups.min_size)
    except InputError as error:
        problem, numbers = error.problem.template, known.get(error.facts.get("grouping", ""))
        if "count" in error.facts and numbers is not None:
            cuts = {error.facts["grouping"]: middle(numbers)}
            raise InputError(problem, BANDS, **error.facts, cuts=cuts) from None
        raise
    ConstraintSystem.build(limits, cells)


def middle(values: Any) -> list[float]:
    """Return two cuts that make groups of about equal size, as an example of bands."""
    cuts = np.unique(np.nanquantile(values, (1 / 3, 2 / 3)).round()).tolist()
    return [int(cut) if float(cut).is_integer() else cut for cut in cuts]


def table_backend() -> Backend:
    """Return the fastest library for tables that is installed, or "dict"."""
    return installed_backend(BACKENDS)
