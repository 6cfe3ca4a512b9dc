"""The record of a fit, in plain values: `print` it, show it in a notebook, or take it as a dictionary or JSON.

All measures are computed from the decisions of `predict` on the training rows.  `Constraint.keeps` decides whether a
limit is kept.
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from fairbound._records import as_json, read_record
from fairbound._tables import TextTable, page_as_html, page_as_text
from fairbound._words import as_text, count, number
from fairbound.estimator.confidence import claim_of_choice
from fairbound.estimator.messages import OPTIMALITY
from fairbound.estimator.scores import BaseResult
from fairbound.estimator.small_groups import SmallGroup
from fairbound.evaluation import Certificate
from fairbound.fairness import RATES, Cells, group_sums
from fairbound.sqp import Status
from fairbound.training import PHASES, Assessment, TrainingResult, loss_price

SHOWN_RATES = ("selection_rate", "true_positive_rate", "false_positive_rate", "accuracy")


@dataclass(frozen=True)
class LimitResult:
    """A limit and the value that the decisions reach.

    Attributes
    ----------
    limit : str
        The limit as text, in the form that `parse_constraint` reads.
    reached : float
        The measure of the decisions: the least ratio, the largest difference, or the worst rate.
    surrogate : float
        The same measure, computed from the differentiable surrogate.
    kept : bool
    price : float or None
        Loss per unit by which the bound is tightened.  None for a pair of bounds, and if the model was trained for a
        stricter bound.
    eval_reached : float or None
        The measure on the validation rows; None without validation rows, or if it is undefined there.
    eval_kept : bool or None
    """

    limit: str
    reached: float
    surrogate: float
    kept: bool
    price: float | None = None
    eval_reached: float | None = None
    eval_kept: bool | None = None


@dataclass(frozen=True)
class GroupResult:
    """A group of the training rows and its rates by the decisions; with several classes, by class.

    Attributes
    ----------
    grouping : str
    group : group
    rows : int
    rates : dict
        For each class whose selection is counted: the rates by name, None if undefined.
    """

    grouping: str
    group: Hashable
    rows: int
    rates: dict[str, dict[str, float | None]]


@dataclass(frozen=True)
class TrialResult:
    """A model that was tested on the calibration rows.

    Attributes
    ----------
    strictness : float
        How much stricter than asked it was trained: 0 for the bound itself, 1 for the strictest possible bound.
    accuracy : float
        On the training rows.
    passed : bool
        Whether it passed for every limit.
    returned : bool
    bounds : tuple of str
        For each limit, the bound on its measure at the confidence level, such as "at least 0.8123".
    """

    strictness: float
    accuracy: float
    passed: bool
    returned: bool
    bounds: tuple[str, ...]


@dataclass(frozen=True)
class FitResult:
    """The outcome of a fit.

    Attributes
    ----------
    status : Status
    message : str
        What was reached, in a sentence or two.  If no model keeps all limits, it names those that conflict.
    rows : int
    pos_label : label, or None
        The positive one of two classes, which selection rates count.
    accuracy, constant_accuracy, gain : float
        Accuracy of the decisions, by sample weight; that of the best constant prediction; their difference.
    loss, objective : float
        Mean loss, without and with regularisation.
    limits : tuple of LimitResult
    groups : tuple of GroupResult
    small_groups : tuple of SmallGroup
        Groups that were left out of the limits, or merged.
    missing : dict
        Rows in no group, by grouping.
    conflicts : tuple of str
        If no model was found that keeps every limit: the comparisons that are hardest to keep together.
    solver : str
    passes : int
        Passes over the training rows with gradients.
    value_passes : int
        Passes without gradients.
    seconds : float
    eval_rows, eval_accuracy : int and float, or None
        The number of validation rows, and the accuracy on them.
    certificate : Certificate or None
        With `confidence=`: the certificate of the returned model on the calibration rows.  If no model passed, that of
        the strictest one, which was tested first.
    trials : tuple of TrialResult
        The models that were tested, strictest first.
    least_loss : float or None
        The least loss found under the limits.  The returned model may have up to 5% more, and better accuracy.
    notes : tuple of str
    base : BaseResult or None
        With a base: the origin of its scores, its accuracy and measures, and the differences between it and the model.
    history : list of dict
        One row for each iteration.
    """

    status: Status
    message: str
    rows: int
    accuracy: float
    constant_accuracy: float
    gain: float
    loss: float
    objective: float
    limits: tuple[LimitResult, ...]
    groups: tuple[GroupResult, ...]
    small_groups: tuple[SmallGroup, ...]
    missing: dict[str, int]
    solver: str
    passes: int
    value_passes: int
    seconds: float
    pos_label: Hashable | None = None
    eval_rows: int | None = None
    eval_accuracy: float | None = None
    certificate: Certificate | None = None
    trials: tuple[TrialResult, ...] = ()
    conflicts: tuple[str, ...] = ()
    least_loss: float | None = None
    notes: tuple[str, ...] = ()
    base: BaseResult | None = None
    history: list[dict[str, Any]] = field(default_factory=list, repr=False)

    @property
    def kept(self) -> bool:
        """Whether the decisions keep every limit on the training rows."""
        return all(limit.kept for limit in self.limits)

    @property
    def phases(self) -> dict[str, str]:
        """A description of each phase in the history."""
        names = dict.fromkeys(row.get("phase") for row in self.history)
        return {name: PHASES[name] for name in names if name in PHASES}

    @property
    def certified(self) -> bool | None:
        """Whether the model passed on the calibration rows; None without `confidence=`."""
        return None if self.certificate is None else self.certificate.passed

    @property
    def claim(self) -> str:
        """The claim about unseen rows; empty without `confidence=`."""
        return "" if self.certificate is None else claim_of_choice(self.certificate)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; numbers that are not finite become None."""
        certificate = None if self.certificate is None else self.certificate.to_dict()
        return as_json(
            {**asdict(replace(self, certificate=None)), "status": self.status.value, "certificate": certificate}
        )

    def to_json(self, **options: Any) -> str:
        """Return the dictionary as text; options go to `json.dumps`."""
        return json.dumps(self.to_dict(), **options)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> FitResult:
        """Return the record that `to_dict` has written."""
        certificate = values.get("certificate")
        found = read_record(cls, {**values, "certificate": None}, "result")
        found = replace(
            found,
            limits=tuple(map(_with_infinities, found.limits)),
            certificate=None if certificate is None else Certificate.from_dict(certificate),
        )
        shapes: dict[str, Any] = {}
        for group in found.groups:
            shape = {label: list(rates) for label, rates in group.rates.items()}
            if shapes.setdefault(group.grouping, shape) != shape:
                raise ValueError(f"the groups of {group.grouping!r} do not have the same rates")
        return found

    def _page(self) -> tuple[str, list[TextTable], list[str]]:
        heading = f"Status: {self.status.value}. {self.message}"
        tables = [self._overview()]
        if self.limits:
            tables.append(self._limit_table())
        if self.base is not None:
            tables.append(self.base.table([limit.limit for limit in self.limits]))
        if self.certificate is not None:
            tables.append(
                self.certificate.limit_table(f"Certificate ({count(self.certificate.rows)} calibration rows)")
            )
            tables.append(self._trial_table())
        tables += self._group_tables()
        notes = [str(each) for each in self.small_groups]
        notes += [
            f"{name}: {count(rows)} rows have no known group and count in no limit of {name}."
            for name, rows in self.missing.items()
            if rows
        ]
        if any(limit.eval_kept is False for limit in self.limits):
            notes.append("A limit that holds on the training rows is not kept on the validation rows.")
        notes += self.notes
        if self.base is not None:
            notes.append(self.base.scored)
        notes.append(
            self.claim or "Measures are of the model's own decisions on the training rows; unseen rows can differ."
        )
        return heading, tables, notes

    def _overview(self) -> TextTable:
        accuracy = f"{self.accuracy:.2%}"
        if self.eval_accuracy is not None:
            accuracy += f" (validation: {self.eval_accuracy:.2%} of {count(self.eval_rows or 0)} rows)"
        return TextTable(
            "Fit",
            (),
            (
                ("training rows", count(self.rows)),
                *([("positive label", str(self.pos_label))] if self.pos_label is not None else []),
                ("accuracy", accuracy),
                ("gain over the best constant", f"{100 * self.gain:+.2f} points"),
                ("loss", number(self.loss, 4) + self._least_loss()),
                *([("optimality", OPTIMALITY[self.status])] if self.status in OPTIMALITY else []),
                ("solver", self.solver),
                ("passes over the rows", f"{self.passes} with gradients, {self.value_passes} without"),
                ("time", f"{self.seconds:.2f} s"),
            ),
            left=2,
        )

    def _least_loss(self) -> str:
        if self.least_loss is None or not self.limits or self.least_loss >= self.loss - 5e-5:
            return ""
        return f" (least found under the limits: {number(self.least_loss, 4)})"

    def _limit_table(self) -> TextTable:
        watched = any(limit.eval_reached is not None for limit in self.limits)
        header = ("limit", "reached", "kept", "price in loss", *(("validation", "kept") if watched else ()))
        rows = tuple(
            (
                limit.limit,
                number(limit.reached, 4),
                "yes" if limit.kept else "NO",
                "-" if limit.price is None else f"{limit.price:.3g}",
                *((number(limit.eval_reached, 4), _yes(limit.eval_kept)) if watched else ()),
            )
            for limit in self.limits
        )
        return TextTable("Limits", header, rows)

    def _trial_table(self) -> TextTable:
        rows = tuple(
            (
                f"{100 * trial.strictness:g}% stricter" if trial.strictness else "as asked",
                f"{trial.accuracy:.2%}",
                "PASS" if trial.passed else "no pass: stop",
                "; ".join(trial.bounds),
                "<- returned" if trial.returned else "",
            )
            for trial in self.trials
        )
        return TextTable("Models tested, in this order", ("trained for", "accuracy", "test", "bounds", ""), rows)

    def _group_tables(self) -> list[TextTable]:
        tables = []
        for name in dict.fromkeys(group.grouping for group in self.groups):
            groups = [group for group in self.groups if group.grouping == name]
            for label in groups[0].rates:
                shown = [rate for rate in SHOWN_RATES if rate in groups[0].rates[label]]
                where = f", class {label}" if len(groups[0].rates) > 1 else f", positive label {label}"
                tables.append(
                    TextTable(
                        f"{name}: rates{where}",
                        ("group", "rows", *(rate.replace("_", " ") for rate in shown)),
                        tuple(
                            (
                                as_text(each.group),
                                count(each.rows),
                                *(number(each.rates[label][rate]) for rate in shown),
                            )
                            for each in groups
                        ),
                    )
                )
        return tables

    def __str__(self) -> str:
        return page_as_text(*self._page())

    def _repr_html_(self) -> str:
        return page_as_html(*self._page())


def limit_results(
    training: TrainingResult, assessment: Assessment, watched: Mapping[int, float | None] | None
) -> tuple[LimitResult, ...]:
    """Return one result for each limit, from the assessment of the decisions of `predict`."""
    system, found = assessment.system, []
    for position, constraint in enumerate(system.constraints):
        single = constraint.bound is not None and not isinstance(constraint.bound, tuple)
        price = None
        if single and training.multipliers is not None:
            price = loss_price(system, position, training.multipliers, assessment.counts) + 0.0
        there = None if watched is None else watched[position]
        found.append(
            LimitResult(
                limit=str(constraint),
                reached=assessment.measured[position],
                surrogate=assessment.measured_surrogate[position],
                kept=constraint.keeps(assessment.measured[position]),
                price=price,
                eval_reached=there,
                eval_kept=None if there is None else constraint.keeps(there),
            )
        )
    return tuple(found)


def group_results(cells: Cells, assessment: Assessment) -> tuple[GroupResult, ...]:
    """Return the rates of every group, by the decisions of `predict`."""
    found = []
    atoms = cells.index // cells.n_labels
    for grouping in cells.groupings:
        rates: dict[str, dict[str, list[float]]] = {}
        for outcome in cells.outcomes:
            sums = group_sums(assessment.counts, cells, grouping, outcome)
            rates[str(cells.classes[outcome])] = {name: RATES[name](sums).tolist() for name in SHOWN_RATES}
        for position, group in enumerate(grouping.groups):
            found.append(
                GroupResult(
                    grouping.name,
                    group,
                    int((grouping.membership[position][atoms] > 0).sum()),
                    {
                        label: {name: _known(each[position]) for name, each in named.items()}
                        for label, named in rates.items()
                    },
                )
            )
    return tuple(found)


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _with_infinities(limit: LimitResult) -> LimitResult:
    """Return a limit as it was before it was written to JSON, which has no infinities."""
    reached, surrogate = (math.inf if math.isnan(value) else value for value in (limit.reached, limit.surrogate))
    return replace(limit, reached=reached, surrogate=surrogate)


def _yes(kept: bool | None) -> str:
    return "-" if kept is None else "yes" if kept else "NO"
