"""Match decisions with labels by their values; read decisions without labels, and batch by batch.

A decision counts as the label with the same value: 1, 1.0, True, "1" and "true" are the same value, "Yes" and "yes" are
not.  A decision that equals no label raises an error.  With `positive_decision`, decisions may have any two values.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairbound._errors import InputError, Message, argument
from fairbound._values import exact_array, is_gap
from fairbound._words import listed
from fairbound.fairness import Constraint, conventional_positive, resolve_measure

_WHOLE = re.compile(r"(0|-?[1-9]\d{0,17})(\.0+)?")
_USUAL = ("no", "yes", "n", "y", "negative", "positive")


def canonical(value: Any) -> Any:
    """Return whole numbers and truth values, also as text, as int; return other values unchanged.

    >>> [canonical(value) for value in (True, 1.0, "1", "1.0", "false", "01", "yes", 0.5)]
    [1, 1, 1, 1, 0, '01', 'yes', 0.5]
    """
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, bool) or (isinstance(value, float) and value.is_integer()):
        return int(value)
    if isinstance(value, str):
        whole = _WHOLE.fullmatch(value)
        return int(whole[1]) if whole else {"true": 1, "false": 0}.get(value.lower(), value)
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
    if positive_decision is None:
        return decisions.places(classes[1] if len(classes) == 2 and nameable else None)
    if len(classes) != 2:
        problem = "{positive_decision=value} needs two labels, but {y} has {count}: {labels}."
        raise decisions.refused(problem, value=positive_decision, count=len(classes))
    return decisions.are(positive_decision).astype(np.int64)


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
        never = Message("{decisions} is never {labels}", decisions=names[1], labels=_in_words(positives))
        raise decisions.unmatched(never, positives[0])
    return found


def read_decisions(
    prediction: Any, positive_decision: Hashable | None = None
) -> tuple[NDArray[np.int64], tuple[Hashable, ...]]:
    """Read decisions without labels: return the index of each decision, and the distinct decisions in order.

    If there are two, the second one selects.  It is `positive_decision`, or 1 of 0 and 1, or the usual one of a pair
    such as "no" and "yes"; one of the pair may be absent.  More than two decisions are kept as they are.
    """
    decisions = _Decisions(prediction, np.shape(exact_array(prediction))[0], (), ("y", argument("prediction")))
    distinct = by_kind({canonical(value) for value in decisions.distinct})
    if positive_decision is not None:
        selected, positive = decisions.are(positive_decision), canonical(positive_decision)
        others = [value for value in distinct if value != positive]
        negative = others[0] if others else 0 if positive == 1 else f"not {positive}"
        return selected.astype(np.int64), (negative, positive)
    if any(map(_is_score, distinct)):
        raise decisions.refused(
            "{decisions} has the values {values}, which look like scores.",
            "Give scores with {score=}, and decisions with {prediction=}.",
        )
    pair = tuple(distinct) if len(distinct) > 2 else _usual_pair(distinct)
    if not pair:
        raise decisions.refused(
            "{decisions} has the values {values}, and there are no labels to compare them with.",
            "Name the decision that selects with {positive_decision=}.",
        )
    return decisions.codes({value: pair.index(canonical(value)) for value in decisions.distinct}), pair


def _usual_pair(values: Sequence[Any]) -> tuple[Any, ...]:
    """Return the pair (negative, positive) if convention decides, else nothing; one of the pair may be absent."""
    if set(values) <= {0, 1}:
        return 0, 1
    pairs = [values] if len(values) == 2 else [[values[0], other] for other in _USUAL] if len(values) == 1 else []
    found = next((pair for pair in pairs if conventional_positive(pair) is not None), ())
    return tuple(sorted(found, key=lambda value: value == conventional_positive(found)))


def read_two_values(
    values: Any, known: tuple[Hashable, Hashable], positive: Hashable, name: str, stated_by: str
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
    name, stated_by : str
        The name of the values in messages, and of the argument that states the positive value.
    """
    given = _Decisions(values, np.shape(exact_array(values))[0], (), ("y", name))
    distinct = by_kind({canonical(value) for value in given.distinct})
    low, high = known
    if high is None:
        pair = _usual_pair(distinct) if positive is None else (None, canonical(positive))
        if not pair:
            problem = "{decisions} has the values {values}."
            raise given.refused(problem, "Name the positive one with {argument}.", argument=argument(stated_by))
        low, high = pair
    others = [value for value in distinct if value != high]
    low = others[0] if low is None and others else low
    strange = [value for value in others if value != low]
    if strange:
        raise given.refused(
            "{decisions} contains {value!r}, but must have two values, {low!r} and {high!r}.",
            "Write each of the two in one way in all batches.",
            value=strange[0],
            low=low,
            high=high,
        )
    return given.codes({value: canonical(value) == high for value in given.distinct}, bool), (low, high)


class _Decisions:
    """The decisions, their distinct values, and the labels to match them with."""

    def __init__(self, prediction: Any, n_rows: int, labels: Sequence[Hashable], names: tuple[str, str]) -> None:
        array = exact_array(prediction)
        array = array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array
        self.labels, (self.y_name, self.name) = labels, names
        self.values = array.tolist()
        self.distinct: list[Any] = []
        if array.shape != (n_rows,):
            problem = "{decisions} must have one label per row, shape ({rows},), but has shape {shape}."
            raise self.refused(problem, rows=n_rows, shape=array.shape)
        try:
            self.distinct = list(dict.fromkeys(self.values))
            gap = any(map(is_gap, self.distinct))
        except TypeError:  # a list, or another value without a hash
            gap = True
        if gap:
            row, value = next((row, value) for row, value in enumerate(self.values, 1) if _is_no_value(value))
            remedy = "Give one value per row, and leave out rows without a decision."
            raise self.refused("{decisions} contains {value!r} in row {row}.", remedy, value=value, row=row)

    def refused(self, problem: str, remedy: str = "", /, **facts: Any) -> InputError:
        """Return an error about the decisions."""
        named = {"y": self.y_name, "decisions": self.name}
        return InputError(
            problem, remedy, **named, labels=_in_words(self.labels), values=_in_words(self.distinct), **facts
        )

    def unmatched(self, problem: Message, positive: Hashable | None) -> InputError:
        """Return the error that shows both sets of values and says what to do."""
        if any(map(_is_score, self.distinct)):
            remedy = "Give decisions in the labels of {y}, not scores or probabilities."
        elif positive is None or len(self.distinct) > 2:
            remedy = "Give decisions in the labels of {y}."
        else:
            remedy = "Name the decision that counts as {positive!r} with {positive_decision=}."
        both = "{problem}: {y} has the values {labels}, and {decisions} has the values {values}."
        return self.refused(both, remedy, problem=problem, positive=positive)

    def codes(self, coded: Mapping[Any, Any], kind: type = np.int64) -> NDArray[Any]:
        """Return the code of each row, from those of the distinct values."""
        return np.array([coded[value] for value in self.values], dtype=kind)

    def places(self, positive: Hashable | None) -> NDArray[np.int64]:
        """Return the index of the label of each decision; a decision that equals no label raises an error."""
        known: dict[Any, int] = {label: place for place, label in enumerate(self.labels)}
        alike: dict[Any, int] = {canonical(label): place for place, label in enumerate(self.labels)}
        if len(alike) < len(known):  # labels such as "1" and "1.0" have the same value; match them by their text
            alike = {}
        found = {value: known.get(value, alike.get(canonical(value))) for value in self.distinct}
        for value, place in found.items():
            if place is None:
                problem = "{decisions} contains {value!r}, which is not a label of {y}"
                raise self.unmatched(Message(problem, decisions=self.name, value=value, y=self.y_name), positive)
        return self.codes(found)

    def are(self, positive_decision: Hashable) -> NDArray[np.bool_]:
        """Return which decisions equal the positive one; raise an error if the negative ones are ambiguous."""
        wanted, stated = canonical(positive_decision), {"value": positive_decision}
        distinct = {canonical(value) for value in self.distinct}
        if len(distinct) > 2:
            raise self.refused(
                "{positive_decision=value} needs decisions of two values, but {decisions} has {values}.",
                "Write every decision as one of two values, and leave out rows that are not decided yet.",
                **stated,
            )
        if len({str(value).strip().casefold() for value in distinct}) < len(distinct):
            problem = "{decisions} has the values {values}, which differ only in case or blanks."
            raise self.refused(problem, "Write each decision in one way.")
        # If all decisions are equal, the positive value may be absent.  Accept it if it is a label, or 1 beside all 0.
        absent = {canonical(label) for label in self.labels} | ({1} if distinct == {0} else set())
        if wanted not in distinct and (len(distinct) == 2 or wanted not in absent):
            problem = "{decisions} is never {value!r} ({positive_decision=}). It has the values {values}."
            raise self.refused(problem, **stated)
        return self.codes({value: canonical(value) == wanted for value in self.distinct}, bool)


def _is_no_value(value: Any) -> bool:
    """Return whether a value is missing, or has no hash, such as a list."""
    try:
        return is_gap(value) or hash(value) is None
    except TypeError:
        return True


def _is_score(value: Any) -> bool:
    """Return whether a value is a number between 0 and 1, or its text; files may keep long numbers as text."""
    try:
        return 0.0 < float(value) < 1.0
    except (TypeError, ValueError, OverflowError):
        return False


def by_kind(values: Iterable[Any]) -> list[Any]:
    """Return values of any kinds in a fixed order: numbers, then words, then others by their text."""
    return sorted(
        values,
        key=lambda each: (
            (0, each) if isinstance(each, bool | int | float) else (1 + (type(each) is not str), str(each))
        ),
    )


def _in_words(values: Iterable[Any]) -> str:
    """Return the values in order as text; only the first ones if there are many."""
    return listed(by_kind(values), 10)


def check_needs_no_labels(limits: Iterable[Constraint]) -> None:
    """Raise an error if a limit compares decisions with labels; for rows that have no labels."""
    for limit in limits:
        if resolve_measure(limit.measure).uses_label:
            raise InputError(
                "{limit} compares decisions with labels, but the rows have none.",
                "Give labels with {y=}, or a measure of decisions alone, such as disparate_impact.",
                limit=limit.name,
            )
