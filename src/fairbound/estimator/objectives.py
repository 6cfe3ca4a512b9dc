"""What is best under the limits, and what each row has at stake.

A decision about a row is right or wrong by what it brings.  With two classes every stated objective is a sum over rows,
and a row has one best decision, its *target*, and a *stake*, which a wrong decision loses:

    accuracy             the label       1
    cost                 the label       the cost of a false positive, or of a false negative
    balanced_accuracy    the label       1 / share of the label
    profit               the decision with the larger gain       the difference of the gains

So targets take the place of labels, and stakes that of weights, in the loss, in the smoothed error and in the choice
among candidates.  Limits keep their labels and weights.  With the loss as objective it is the same, but the error is
left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairbound._errors import InputError, argument, bad_value, both_given, two_classes_only
from fairbound._json import Number
from fairbound._values import as_numbers
from fairbound._words import did_you_mean, number
from fairbound.estimator.inputs import Inputs
from fairbound.training import Assessment

Floats = NDArray[np.float64]

NAMES = ("accuracy", "loss", "cost", "balanced_accuracy", "profit")
ALLOWED = (
    "accuracy, loss, balanced_accuracy, cost(false_positive=1, false_negative=5), profit(column), or an array of gains"
)

_CALL = re.compile(r"\s*(\w+)\s*(?:\(([^()]*)\))?\s*")


class Stakes(NamedTuple):
    """The target and the stake of each row, and what a row brings on average if no target is met, and if all are."""

    targets: NDArray[np.int64]
    weights: Floats
    worst: float
    best: float

    def value(self, share: float) -> float:
        """Return what a row brings on average if this share of the stakes is won."""
        return self.worst + share * (self.best - self.worst)

    def reached(self, text: str, found: Assessment, free: Assessment | None) -> Reached:
        """Return what decisions bring by the objective `text`, from assessments by targets and stakes."""
        alone = None if free is None else self.value(free.accuracy)
        gain = abs(self.best - self.worst) * found.gain
        return Reached(text, self.value(found.accuracy), self.value(found.constant_accuracy), alone, gain)


@dataclass(frozen=True)
class Reached:
    """What the decisions bring by a stated objective, on average over the training rows.

    Attributes
    ----------
    objective : str
        As stated.
    value, constant : float
        Of the decisions, and of the best constant decision: a cost, a share of right decisions, or a profit.
    free : float or None
        Of the model without limits.
    gain : float
        How much better the decisions are than that constant.
    """

    objective: str
    value: Number
    constant: Number
    free: float | None
    gain: Number

    @property
    def name(self) -> str:
        """The name of the value, such as "cost"."""
        return self.objective.partition("(")[0].replace("_", " ")

    @property
    def compared(self) -> str:
        """The value, with those of the best constant decision and of the model without limits."""
        free = "" if self.free is None else f", {number(self.free, 4)} without limits"
        unit = "" if self.name == "balanced accuracy" else " a row"
        return f"{number(self.value, 4)}{unit} (the best constant decision has {number(self.constant, 4)}{free})"

    @property
    def in_words(self) -> str:
        """The value in a sentence."""
        return f"{self.name.capitalize()} {self.compared}."


@dataclass(frozen=True, eq=False)
class Objective:
    """A stated objective.

    Attributes
    ----------
    text : str
    name : str
        One of `NAMES`.
    costs : tuple of two floats
        Of a false positive and of a false negative.
    columns : tuple of str
        The columns with the gains, of the positive decision and, if there are two, of the negative one.
    gains : array of shape (n,) or (n, 2), or None
        The same, as given in place of columns.
    """

    text: str
    name: str
    costs: tuple[float, float] = (1.0, 1.0)
    columns: tuple[str, ...] = ()
    gains: Any = None

    @classmethod
    def of(cls, stated: Any) -> Objective:
        """Read an objective; an array has the gain of each row by its decisions."""
        if not isinstance(stated, str):
            if stated is None or isinstance(stated, bool | int | float) or not hasattr(stated, "__len__"):
                raise bad_value("objective", stated, ALLOWED)
            return cls("profit", "profit", gains=stated)
        found = _CALL.fullmatch(stated)
        name, inside = found.groups() if found else (stated, None)
        if name not in NAMES:
            raise InputError(
                "{objective=stated} must be {allowed}.{near}",
                stated=stated,
                allowed=ALLOWED,
                near=did_you_mean(name, NAMES),
            )
        if name == "cost":
            return cls(stated, name, costs=_costs(stated, inside or ""))
        if name == "profit":
            columns = tuple(each.strip() for each in inside.split(",")) if inside else ()
            if len(columns) > 2 or not all(columns):
                raise _no_gains(stated)
            return cls(stated, name, columns=columns)
        if inside is not None:
            raise bad_value("objective", stated, name)
        return cls(stated, name)

    @property
    def of_training(self) -> Literal["accuracy", "loss"]:
        """What training minimises in the end: the error, or the loss alone."""
        return "loss" if self.name == "loss" else "accuracy"

    @property
    def has_stakes(self) -> bool:
        """Whether rows have other stakes than their weights."""
        return self.name not in ("accuracy", "loss")

    def places(self, inputs: Inputs) -> tuple[int, ...]:
        """Return the positions of the columns of X that have gains."""
        return tuple(inputs.position(each, argument("objective", self.text)) for each in self.columns)

    def read_gains(self, inputs: Inputs) -> Floats | None:
        """Return the gains of both decisions, (n, 2), the negative first; None if the objective is no profit."""
        if self.name != "profit":
            return None
        if places := self.places(inputs):
            given = np.stack([inputs.numbers(each) for each in places], axis=1)
        elif self.gains is None:
            raise _no_gains(self.text)
        else:
            given = as_numbers(self.gains, argument("objective"))
            given = given[:, None] if given.ndim == 1 else given
        if given.ndim != 2 or len(given) != inputs.n_rows or given.shape[1] > 2:
            raise InputError(
                "{objective=} has gains of shape {shape}.",
                "Give one number for each of the {rows} rows, the gain of its positive decision; or two, those of its "
                "positive and of its negative decision.",
                shape=given.shape,
                rows=inputs.n_rows,
            )
        if not np.isfinite(given).all():
            row = int(np.flatnonzero(~np.isfinite(given).all(axis=1))[0])
            raise InputError("{objective=} has no finite gain for row {row}.", "Give each row a number.", row=row)
        if given.shape[1] == 1:
            return np.hstack([np.zeros_like(given), given])
        return given[:, ::-1]

    def check(self, n_labels: int, class_weight: Any) -> None:
        """Raise an error for classes or weights that the objective cannot have."""
        if not self.has_stakes:
            return
        if n_labels > 2 and self.name != "balanced_accuracy":
            raise two_classes_only(
                argument("objective", self.text), n_labels, "Take accuracy, loss or balanced_accuracy."
            )
        if class_weight is not None:
            raise both_given(
                argument("objective", self.text), argument("loss.class_weight", class_weight), "what an error weighs"
            )

    def factors(self, class_weights: Floats) -> Floats:
        """Return the stake of a row of weight 1, by its class, from the total weight of each class."""
        if self.name == "cost":
            return np.array(self.costs)
        if self.name == "balanced_accuracy":
            return float(class_weights.sum()) / (len(class_weights) * np.maximum(class_weights, 1e-12))
        return np.ones(len(class_weights))

    def stakes(
        self,
        labels: NDArray[np.int64],
        weights: Floats,
        gains: Floats | None,
        n_labels: int,
        add: Callable[[NDArray[Any]], NDArray[Any]],
    ) -> Stakes:
        """Return the target and the stake of each row; `add` returns the sum over all processes."""
        if gains is not None:
            with np.errstate(over="ignore", invalid="ignore"):
                more = gains[:, 1] - gains[:, 0]
                stakes = weights * np.abs(more)
                ends = (weights @ end(gains, axis=1) for end in (np.min, np.max))
                sums = add(np.array([*ends, weights.sum(), stakes.sum()]))
            if not np.isfinite(sums).all():
                raise InputError("{objective=}: the gains are too large to be added up.", "Give them in another unit.")
            worst, best, total, stake = sums.tolist()
            if not stake:
                raise InputError("{objective=}: no decision gains anything in any row.", "Give other gains.")
            worst, best = worst / total, best / total
            return Stakes((more > 0).astype(np.int64), stakes, worst, best)
        by_class = add(np.bincount(labels, weights, n_labels).astype(np.float64))
        factors = self.factors(by_class)
        most = float(by_class @ factors / by_class.sum())
        return Stakes(labels, weights * factors[labels], *((most, 0.0) if self.name == "cost" else (0.0, most)))


def _no_gains(stated: str) -> InputError:
    return bad_value("objective", stated, "profit(column), or profit(column, column) with the gain of a refusal")


def _costs(stated: str, inside: str) -> tuple[float, float]:
    """Return the costs of a false positive and of a false negative."""
    names = ("false_positive", "false_negative")
    try:
        given = [part.split("=") for part in inside.split(",")]
        found = {name.strip(): float(value) for name, value in given}
        positive, negative = (found.pop(name) for name in names)
        if found or len(given) != 2 or not all(0 < each < np.inf for each in (positive, negative)):
            raise ValueError
    except (KeyError, ValueError):
        raise bad_value(
            "objective", stated, "cost(false_positive=1, false_negative=5), with two numbers above 0"
        ) from None
    return positive, negative
