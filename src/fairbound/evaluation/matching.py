"""Match decisions with labels by their values; read decisions without labels, and batch by batch.

A decision counts as the label with the same value: 1, 1.0, True, "1" and "true" are the same value, "Yes" and "yes" are
not.  A decision that equals no label raises an error.  With `positive_decision`, decisions may have any two values.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairbound._errors import InputError, Message, argument
from fairbound._errors import argument as named_argument
from fairbound._words import listed
from fairbound.fairness import Constraint, as_array, conventional_positive, is_missing, resolve_measure

_WHOLE = re.compile(r"(0|-?[1-9]\d{0,17})(\.0+)?")
_SHOWN = 10
_USUAL = ("no", "yes", "n", "y", "negative", "positive")


def canonical(value: Any) -> Any:
    """Return whole numbers and truth values, also as text, as int; return other values unchanged.

    >>> [canonical(value) for value in (True, 1.0, "1", "1.0", "false", "01", "yes", 0.5)]
    [1, 1, 1, 1, 0, '01', 'yes', 0.5]
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str):
        whole = _WHOLE.fullmatch(value)
        if whole:
            return int(whole[1])
        return {"true": 1, "false": 0}.get(value.lower(), value)
    return value


def match_decisions(
    prediction: Any,
    classes: Sequence[Hashable],
    n_rows: int,
    *,
    positive_decision: Hashable | None = None,
    names: tuple[str, str] = ("y", "prediction"),
    nameable: bool = True,
) -> NDArray[np.int64]:
    """Return the index in `classes` of the label that each decision counts as.

    Parameters
    ----------
    prediction : sequence of n decisions
    classes : sequence of labels
        The labels of y; of two labels the second is the positive one.
    n_rows : int
        The number of rows.
    positive_decision : value, optional
        The decision that means the positive one of two labels; the other decision means the negative one.
    names : tuple of str
        Names of the labels and the decisions in error messages.
    nameable : bool
        Whether the caller has the argument `positive_decision`, so that a message may recommend it.
    """
    decisions = _Decisions(prediction, n_rows, classes, names)
    if positive_decision is not None:
        if len(classes) != 2:
            raise InputError(
                "{positive_decision=value} needs two labels, but {y} has {count}: {labels}.",
                value=positive_decision,
                y=names[0],
                count=len(classes),
                labels=_listed(classes),
            )
        return decisions.are(positive_decision).astype(np.int64)
    return decisions.places(classes[1] if len(classes) == 2 and nameable else None)


def read_decisions(
    prediction: Any, positive_decision: Hashable | None = None, *, name: str = argument("prediction")
) -> tuple[NDArray[np.int64], tuple[Hashable, ...]]:
    """Read decisions without labels: return the index of each decision, and the distinct decisions in order.

    If there are two, the second one selects.  It is `positive_decision`, or 1 of 0 and 1, or the usual one of a pair
    such as "no" and "yes"; one of the pair may be absent.  More than two decisions are kept as they are.
    """
    decisions = _Decisions(prediction, np.shape(as_array(prediction))[0], (), ("y", name))
    distinct = in_order({canonical(value) for value in decisions.distinct})
    if positive_decision is not None:
        selected = decisions.are(positive_decision)
        positive = canonical(positive_decision)
        others = [value for value in distinct if value != positive]
        negative = others[0] if others else 0 if positive == 1 else f"not {positive}"
        return selected.astype(np.int64), (negative, positive)
    if set(distinct) <= {0, 1}:
        return np.array([canonical(value) for value in decisions.values], dtype=np.int64), (0, 1)
    if any(map(_is_score, distinct)):
        raise InputError(
            "{decisions} has the values {values}, which look like scores.",
            "Give scores with {score=}, and decisions with {prediction=}.",
            decisions=name,
            values=_listed(distinct),
        )
    for other in _USUAL if len(distinct) == 1 else ():  # everybody or nobody is selected
        positive = conventional_positive([distinct[0], other])
        if positive is not None:
            everybody = positive == distinct[0]
            pair = (other, distinct[0]) if everybody else (distinct[0], other)
            return np.full(len(decisions.values), int(everybody), dtype=np.int64), pair
    if len(distinct) <= 2:
        positive = conventional_positive(distinct) if len(distinct) == 2 else None
        if positive is None:
            raise InputError(
                "{decisions} has the values {values}, and there are no labels to compare them with.",
                "Name the decision that selects with {positive_decision=}.",
                decisions=name,
                values=_listed(distinct),
            )
        return read_decisions(prediction, positive, name=name)
    places = {value: place for place, value in enumerate(distinct)}
    return np.array([places[canonical(value)] for value in decisions.values], dtype=np.int64), tuple(distinct)


def read_two_values(
    values: Any, known: tuple[Hashable, Hashable], positive: Hashable, name: str, argument: str
) -> tuple[NDArray[np.bool_], tuple[Hashable, Hashable]]:
    """Return which rows have the positive value, and the pair (negative, positive) with None for unknown values.

    Parameters
    ----------
    values : sequence of n values
        A batch may have only one of the two values.
    known : (negative, positive)
        The values of earlier batches.
    positive : value or None
        The positive value as the user names it.
    name, argument : str
        The name of the values in messages, and of the argument that states the positive value.
    """
    array = as_array(values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise InputError("{name} must have one value per row, but has shape {shape}.", name=name, shape=array.shape)
    given = array.tolist()
    gap = next((row for row, value in enumerate(given) if is_missing(value)), None)
    if gap is not None:
        raise InputError(
            "{name} contains {value!r} in row {row}.",
            "Leave out rows without a value, or give the batch when all values are known.",
            name=name,
            value=given[gap],
            row=gap + 1,
        )
    found = [canonical(value) for value in given]
    distinct = in_order(set(found))
    low, high = known
    if high is None and positive is not None:
        high = canonical(positive)
    elif high is None and set(distinct) <= {0, 1}:
        low, high = 0, 1
    elif high is None:
        high = conventional_positive(distinct) if len(distinct) == 2 else None
        if high is None:
            raise InputError(
                "{name} has the values {values}.",
                "Name the positive one with {argument}.",
                name=name,
                values=listed(distinct, 10),
                argument=named_argument(argument),
            )
    others = [value for value in distinct if value != high]
    if low is None and others:
        low = others[0]
    strange = [value for value in others if value != low]
    if strange:
        raise InputError(
            "{name} contains {value!r}, but must have two values, {low!r} and {high!r}.",
            "Write each of the two in one way in all batches.",
            name=name,
            value=strange[0],
            low=low,
            high=high,
        )
    return np.array([value == high for value in found], dtype=bool), (low, high)


def match_positive(
    prediction: Any,
    labels: Sequence[Hashable],
    positives: Sequence[Hashable],
    n_rows: int,
    *,
    positive_decision: Hashable | None = None,
    names: tuple[str, str] = ("y", "prediction"),
) -> NDArray[np.bool_]:
    """Return which decisions count as one of the labels `positives`; all other labels count as negative.

    With three or more labels, decisions may be coded differently from labels, for example 0 and 1 for the labels 0, 1
    and 2.  So if no decision is positive, an error is raised, unless `positive_decision` is given.
    """
    decisions = _Decisions(prediction, n_rows, labels, names)
    if positive_decision is not None:
        return decisions.are(positive_decision)
    found = np.isin(decisions.places(positives[0]), [labels.index(positive) for positive in positives])
    if not found.any():
        raise decisions.refusal(
            Message("{decisions} is never {labels}", decisions=names[1], labels=_listed(positives)), positives[0]
        )
    return found


def _has_hash(value: Any) -> bool:
    """Return whether a value has a hash; a signalling NaN of `decimal` is `Hashable`, but has none."""
    try:
        hash(value)
    except TypeError:
        return False
    return True


class _Decisions:
    """The decisions, their distinct values, and the labels to match them with."""

    def __init__(self, prediction: Any, n_rows: int, labels: Sequence[Hashable], names: tuple[str, str]) -> None:
        array = as_array(prediction)
        if array.ndim == 2 and array.shape[1] == 1:
            array = array[:, 0]
        self.labels, (self.y_name, self.name) = labels, names
        if array.shape != (n_rows,):
            raise InputError(
                "{decisions} must have one label per row, shape ({rows},) as {y}, but has shape {shape}.",
                decisions=self.name,
                rows=n_rows,
                y=self.y_name,
                shape=array.shape,
            )
        self.values = array.tolist()
        try:
            self.distinct = list(dict.fromkeys(self.values))
        except TypeError as error:
            row = next(row for row, value in enumerate(self.values) if not _has_hash(value))
            raise InputError(
                "{decisions} contains {value!r} in row {row}.",
                "Give one value per row.",
                decisions=self.name,
                value=self.values[row],
                row=row + 1,
            ) from error
        if any(map(is_missing, self.distinct)):
            row = next(row for row, value in enumerate(self.values) if is_missing(value))
            raise InputError(
                "{decisions} contains {value!r} in row {row}, which is not a decision.",
                "Drop the rows without a decision.",
                decisions=self.name,
                value=self.values[row],
                row=row + 1,
            )

    def places(self, positive: Hashable | None) -> NDArray[np.int64]:
        """Return the index of the label of each decision; a decision that equals no label raises an error."""
        known: dict[Any, int] = {label: place for place, label in enumerate(self.labels)}
        alike: dict[Any, int] = {canonical(label): place for place, label in enumerate(self.labels)}
        if len(alike) < len(known):  # labels such as "1" and "1.0" have the same value; match them by their text
            alike = {}
        found: dict[Any, int] = {}
        for value in self.distinct:
            place = known.get(value, alike.get(canonical(value)))
            if place is None:
                raise self.refusal(
                    Message(
                        "{decisions} contains {value!r}, which is not a label of {y}",
                        decisions=self.name,
                        value=value,
                        y=self.y_name,
                    ),
                    positive,
                )
            found[value] = place
        return np.array([found[value] for value in self.values], dtype=np.int64)

    def are(self, positive_decision: Hashable) -> NDArray[np.bool_]:
        """Return which decisions equal the positive one; raise an error if the negative ones are ambiguous."""
        wanted = canonical(positive_decision)
        distinct = {canonical(value) for value in self.distinct}
        if len(distinct) > 2:
            raise InputError(
                "{positive_decision=value} needs decisions of two values, but {decisions} has {values}.",
                "Write every decision as one of two values, and leave out rows that are not decided yet.",
                value=positive_decision,
                decisions=self.name,
                values=_listed(self.distinct),
            )
        if len({str(value).strip().casefold() for value in distinct}) < len(distinct):
            raise InputError(
                "{decisions} has the values {values}, which differ only in case or blanks.",
                "Write each decision in one way.",
                decisions=self.name,
                values=_listed(self.distinct),
            )
        # If all decisions are equal, the positive value may be absent.  Accept it if it is a label, or 1 beside all 0.
        absent = {canonical(label) for label in self.labels} | ({1} if distinct == {0} else set())
        if wanted not in distinct and (len(distinct) == 2 or wanted not in absent):
            raise InputError(
                "{decisions} is never {value!r} ({positive_decision=}). It has the values {values}.",
                decisions=self.name,
                value=positive_decision,
                values=_listed(self.distinct),
            )
        return np.array([canonical(value) == wanted for value in self.values], dtype=bool)

    def refusal(self, problem: Message, positive: Hashable | None) -> InputError:
        """Return the error that shows both sets of values and says what to do."""
        if any(map(_is_score, self.distinct)):
            remedy = "Give decisions in the labels of {y}, not scores or probabilities."
        elif positive is None or len(self.distinct) > 2:
            remedy = "Give decisions in the labels of {y}."
        else:
            remedy = "Name the decision that counts as {positive!r} with {positive_decision=}."
        return InputError(
            "{problem}: {y} has the values {labels}, and {decisions} has the values {values}.",
            remedy,
            problem=problem,
            y=self.y_name,
            labels=_listed(self.labels),
            decisions=self.name,
            values=_listed(self.distinct),
            positive=positive,
        )


def _is_score(value: Any) -> bool:
    """Return whether a value is a number between 0 and 1, or its text; files may keep long numbers as text."""
    try:
        return 0.0 < float(value) < 1.0
    except (TypeError, ValueError, OverflowError):
        return False


def in_order(values: Iterable[Any]) -> list[Any]:
    """Return values of any kinds in a fixed order."""
    return sorted(values, key=_order)


def _listed(values: Iterable[Any]) -> str:
    """Return the values in order as text; only the first ones if there are many."""
    return listed(in_order(values), _SHOWN)


def _order(value: Any) -> tuple[int, Any]:
    if isinstance(value, bool | int | float):
        return 0, value
    return (1, value) if isinstance(value, str) else (2, str(value))


def check_needs_no_labels(limits: Iterable[Constraint]) -> None:
    """Raise an error if a limit compares decisions with labels; for rows that have no labels."""
    for limit in limits:
        if resolve_measure(limit.measure).uses_label:
            raise InputError(
                "{limit} compares decisions with labels, but the rows have none.",
                "Give labels with {y=}, or a measure of decisions alone, such as disparate_impact.",
                limit=limit.name,
            )
