"""The record of the base of a fit, compared with the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fairbound._json import Number
from fairbound._text_tables import TextTable
from fairbound._words import number

SHOWN = 8
"""Number of columns in a printed record."""


@dataclass(frozen=True)
class FormResult:
    """A form of the correction in cross-validation, on rows that its models have not seen.

    Attributes
    ----------
    correction : str
        Its name, a value of `Base(correction=...)`.
    accuracy : float
        With an objective such as a cost: the share of what is at stake that is won.
    reached : tuple of float
        The measure of each limit.
    value : float
        The accuracy where the line from the base to this form meets the limits, by which forms are compared.
    """

    correction: str
    accuracy: float
    reached: tuple[Number, ...]
    value: float


@dataclass(frozen=True)
class BaseResult:
    """The base of a fit, compared with the model on the training rows.

    Attributes
    ----------
    name : str
        The class of the base.
    scored : str
        A sentence on how the training rows were scored.
    accuracy : float
        The accuracy of the base alone.
    reached : tuple of float
        The measure of each limit by the decisions of the base alone.
    changed : float or None
        The weighted share of rows for which the model and the base alone decide differently; None in a regression.
    moved : dict
        The size of the correction for each column of X, in logits, the largest first.  It is the mean absolute change
        of the logit when the column is set to its mean.
    correction : str
        The inputs of the correction: "columns", "groups" or "both".
    forms : tuple of FormResult
        What each of these would have given, if they were chosen by cross-validation.
    """

    name: str
    scored: str
    accuracy: float
    reached: tuple[Number, ...]
    changed: float | None
    moved: dict[str, float]
    correction: str = "columns"
    forms: tuple[FormResult, ...] = ()

    def table(self, limits: Sequence[str]) -> TextTable:
        """Return a table of the base alone, and of the differences between the model and the base."""
        return TextTable(
            f"Base: {self.name}",
            (),
            (
                ("accuracy of the base alone", f"{self.accuracy:.2%}"),
                *(
                    (f"{limit}, by the base alone", number(value, 4))
                    for limit, value in zip(limits, self.reached, strict=True)
                ),
                *([("decisions changed", f"{self.changed:.2%}")] if self.changed is not None else []),
                *(
                    (
                        f"correction={each.correction!r}, cross-validated" + self._taken(each),
                        f"{each.accuracy:.2%} at {', '.join(number(value, 4) for value in each.reached)}",
                    )
                    for each in self.forms
                ),
                *(
                    (f"correction by {column}, in logits", number(size, 3))
                    for column, size in list(self.moved.items())[:SHOWN]
                ),
            ),
            left=1,
        )

    def _taken(self, form: FormResult) -> str:
        return " (taken)" if form.correction == self.correction else ""
