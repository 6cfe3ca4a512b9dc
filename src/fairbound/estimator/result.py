"""The record of a fit, in plain values: `print` it, show it in a notebook, or take it as a dictionary or JSON.

All measures are computed from the decisions of `predict` on the training rows.  `Constraint.keeps` decides whether a
limit is kept.
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fairbound._json import Number, as_record, plain
from fairbound._text_tables import Page, TextTable
from fairbound._words import as_text, count, number
from fairbound.data import make_frame
from fairbound.estimator.base_result import BaseResult
from fairbound.estimator.confidence import claim_of_choice
from fairbound.estimator.messages import OPTIMALITY
from fairbound.estimator.objectives import Reached
from fairbound.estimator.reached import GroupResult, LimitResult, TrialResult
from fairbound.estimator.small_groups import SmallGroup
from fairbound.evaluation import Certificate, Forecast, MarginResult
from fairbound.training import PHASES, FitRecord


@dataclass(frozen=True, kw_only=True)
class FitResult(FitRecord, Page):
    """The outcome of a fit: what the solver says (`FitRecord`), and the decisions of `predict`.

    Attributes
    ----------
    message : str
        The outcome in a sentence or two.  If no model keeps all limits, it names those that conflict.
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
    eval_rows, eval_accuracy : int and float, or None
        The number of validation rows, and the accuracy on them.
    certificate : Certificate or None
        With `confidence=`: the certificate of the returned model on the calibration rows.  If no model passed, that of
        the strictest one, which was tested first.
    trials : tuple of TrialResult
        The models that were tested, strictest first.
    forecast : Forecast or None
        The expected values of the limits on new rows; None without limits.
    margin : MarginResult or None
        With `margin=`: how much stricter than asked the limits were trained.
    notes : tuple of str
    base : BaseResult or None
        With a base: the origin of its scores, its accuracy and measures, and the differences between it and the model.
    reached : Reached or None
        With an objective such as a cost: its value, that of the best constant and that without limits.
    task : {"classification", "regression"}
        A regression has no decisions: `accuracy` is then the share of the loss of the best constant prediction that the
        model removes (R² for the squared loss), and groups have means in place of rates.
    """

    message: str
    rows: int
    accuracy: float
    constant_accuracy: float
    gain: float
    loss: Number
    objective: Number
    limits: tuple[LimitResult, ...]
    groups: tuple[GroupResult, ...]
    small_groups: tuple[SmallGroup, ...]
    missing: dict[str, int]
    pos_label: Hashable | None = None
    eval_rows: int | None = None
    eval_accuracy: float | None = None
    certificate: Certificate | None = None
    trials: tuple[TrialResult, ...] = ()
    forecast: Forecast | None = None
    margin: MarginResult | None = None
    notes: tuple[str, ...] = ()
    base: BaseResult | None = None
    reached: Reached | None = None
    task: Literal["classification", "regression"] = "classification"

    @property
    def kept(self) -> bool:
        """Whether the decisions keep every limit on the training rows."""
        return all(limit.kept for limit in self.limits)

    @property
    def history(self) -> Any:
        """The iterations as a DataFrame of pandas, polars or pyarrow, or a dictionary of arrays if none is installed.

        It has the phase, loss and accuracy of each iteration, and for each limit its measure, violation and multiplier.
        """
        names = list(dict.fromkeys(name for row in self.iterations for name in row))
        return make_frame({name: _column([row.get(name) for row in self.iterations]) for name in names})

    @property
    def phases(self) -> dict[str, str]:
        """A description of each phase in the history."""
        names = dict.fromkeys(row.get("phase") for row in self.iterations)
        return {name: PHASES[name] for name in names if name in PHASES}

    @property
    def certified(self) -> bool | None:
        """Whether the model passed on the calibration rows; None without `confidence=`."""
        return None if self.certificate is None else self.certificate.passed

    @property
    def claim(self) -> str:
        """The claim about unseen rows; empty without `confidence=`."""
        return "" if self.certificate is None else claim_of_choice(self.certificate)

    @property
    def about_new_rows(self) -> list[str]:
        """Sentences about the margin and the forecast; empty without limits."""
        return [
            *(self.margin.lines(self.forecast) if self.margin else ()),
            *(self.forecast.lines(advise=not self.margin and not self.certificate) if self.forecast else ()),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; numbers that are not finite become None."""
        return plain(self)

    def to_json(self, **options: Any) -> str:
        """Return the dictionary as text; options go to `json.dumps`."""
        return json.dumps(self.to_dict(), **options)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> FitResult:
        """Return a record from the dictionary of `to_dict`."""
        return as_record(values, cls)

    def __post_init__(self) -> None:
        shapes: dict[str, Any] = {}
        for group in self.groups:
            shape = {label: list(rates) for label, rates in group.rates.items()}
            if shapes.setdefault(group.grouping, shape) != shape:
                raise ValueError(f"the groups of {group.grouping!r} do not have the same rates")

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
        notes += self.about_new_rows
        if self.claim:
            notes.append(self.claim)
        elif self.base is None:
            notes.append("Measures come from the model's own decisions on the training rows; unseen rows can differ.")
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
                ("accuracy" if self.task == "classification" else "loss removed", accuracy),
                *([("gain over the best constant", f"{100 * self.gain:+.2f} points")] if self.reached is None else []),
                *([(self.reached.name, self.reached.compared)] if self.reached is not None else []),
                *([("loss", number(self.loss, 4) + self._least_loss())] if self.task == "classification" else []),
                *([("optimality", OPTIMALITY[self.status])] if self.status in OPTIMALITY else []),
                *([("KKT residual", self._residual())] if self.kkt_residual is not None else []),
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

    def _residual(self) -> str:
        return f"{self.kkt_residual:.1g}, of the problem with surrogates"

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
                trial.name,
                f"{trial.accuracy:.2%}",
                f"{100 * trial.confidence:g}%",
                "PASS" if trial.passed else "no pass",
                "; ".join(trial.bounds),
                "<- returned" if trial.returned else "",
            )
            for trial in self.trials
        )
        return TextTable(
            "Models tested, in this order", ("model", "accuracy", "confidence", "test", "bounds", ""), rows
        )

    def _group_tables(self) -> list[TextTable]:
        tables = []
        for name in dict.fromkeys(group.grouping for group in self.groups):
            groups = [group for group in self.groups if group.grouping == name]
            for label in groups[0].rates:
                shown = list(groups[0].rates[label])
                where = f", class {label}" if len(groups[0].rates) > 1 else f", positive label {label}"
                where = where if self.task == "classification" else ""
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


def _column(values: list[Any]) -> NDArray[Any]:
    """Return a column of the history: words, flags, or numbers with NaN where there is none."""
    known = [value for value in values if value is not None]
    if any(isinstance(value, str) for value in known):
        return np.array(values, dtype=object)
    if len(known) == len(values) and all(isinstance(value, bool) for value in known):
        return np.array(values)
    return np.array([math.nan if value is None else float(value) for value in values])


def _yes(kept: bool | None) -> str:
    return "-" if kept is None else "yes" if kept else "NO"
