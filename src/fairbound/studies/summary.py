"""The summary of a study: one typed record.  `summary.json` is its JSON; report, card and tables read it.

"Before" is the model without limits, "after" the one with them.  Rates, measures and intervals are those of `audit`,
verdicts those of `certify`.  Accuracy is over all rows, including those without a known group.  Labels and groups are
text.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from fairbound._files import begins_with
from fairbound._json import decode, encode
from fairbound._words import count
from fairbound.estimator import FitResult, Reached
from fairbound.evaluation import Audit, Certificate, Estimate, GroupAudit, MeasureAudit, Verdict
from fairbound.fairness import resolve_measure

SCHEMA = "fairbound.summary"
SUMMARY_FILE = "summary.json"
UNCHANGED = 0.005
"""A measure that moved by less than half a point is called unchanged."""


class LimitFacts(Struct, frozen=True):
    """What a limit asks for.

    Attributes
    ----------
    text : str
        The limit as text, in the form that `parse_constraint` reads.
    measure, description, comparison : str
    lower, upper : float or None
        Its bounds; None where it has none.
    against : str
    group : str or None
    classes : tuple of str, or None
    groupings : tuple of str
    """

    text: str
    measure: str
    description: str
    comparison: str
    lower: float | None
    upper: float | None
    against: str
    group: str | None
    classes: tuple[str, ...] | None
    groupings: tuple[str, ...]

    @property
    def bounds(self) -> list[float]:
        """The bounds that it has."""
        return [bound for bound in (self.lower, self.upper) if bound is not None]


class LimitValue(Struct, frozen=True):
    """The value of a limit's measure on given rows, and whether it is kept there; None if it is undefined."""

    value: float | None
    kept: bool | None


class WorstPair(Struct, frozen=True):
    """The groups (one or two) that a value comes from with their rates; the group None is everyone."""

    grouping: str
    label: str | None
    rate: str
    groups: tuple[tuple[str | None, float], ...]


class LimitOnPart(Struct, frozen=True):
    """The values of one limit on given rows."""

    after: LimitValue
    before: LimitValue | None = None
    worst: WorstPair | None = None


class Accuracies(Struct, frozen=True):
    """The accuracy of both models, and of the best constant prediction."""

    after: Estimate
    before: Estimate | None
    constant: float

    @property
    def gain(self) -> float:
        """The accuracy minus that of the best constant prediction."""
        return (self.after.value or 0.0) - self.constant

    @property
    def cost(self) -> float | None:
        """The accuracy that the limits cost."""
        return None if self.before is None else (self.before.value or 0.0) - (self.after.value or 0.0)


class PartSummary(Struct, frozen=True):
    """The rows of one part: accuracy, the value of each limit, the audits, and on held-out rows the certificate."""

    accuracy: Accuracies
    limits: tuple[LimitOnPart, ...]
    after: Audit
    before: Audit | None = None
    certificate: Certificate | None = None

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.after.rows

    @property
    def audits(self) -> dict[str, Audit]:
        """The audits by "before", if there is one, and "after"."""
        return {**({} if self.before is None else {"before": self.before}), "after": self.after}


class Change(Struct, frozen=True):
    """A measure of one grouping before and after, and whether a limit asked for it."""

    before: MeasureAudit
    after: MeasureAudit
    asked: bool

    @property
    def change(self) -> float | None:
        """The difference of the values; None if one is undefined."""
        old, new = self.before.value, self.after.value
        return None if old is None or new is None else new - old

    @property
    def direction(self) -> Literal["nearer", "further apart", "unchanged"] | None:
        """Whether the groups came closer to each other."""
        if self.change is None:
            return None
        if abs(self.change) < UNCHANGED:
            return "unchanged"
        rose = self.change > 0
        return "nearer" if rose == resolve_measure(self.after.measure).larger_is_stricter else "further apart"

    @property
    def intervals_apart(self) -> bool:
        """Whether the two intervals do not overlap."""
        old, new = self.before, self.after
        if old.lower is None or old.upper is None or new.lower is None or new.upper is None:
            return False
        return old.upper < new.lower or new.upper < old.lower


class PointOnPart(Struct, frozen=True):
    """One point of a frontier on one part of the rows: the measure with its interval, accuracy, and rates by group."""

    value: float | None
    kept: bool | None
    lower: float | None
    upper: float | None
    accuracy: Estimate
    gain: float
    groups: tuple[GroupAudit, ...]


class PointSummary(Struct, frozen=True):
    """One point of a frontier; prices are per unit of tightening."""

    bound: float
    text: str
    status: str
    loss_price: float | None
    accuracy_price: float | None
    training: PointOnPart
    held_out: PointOnPart | None


class ModelInput(Struct, frozen=True):
    """An input of the model, with its coefficient (for a class, if there are several) or importance."""

    name: str
    value: float
    label: str | None = None


class ModelInputs(Struct, frozen=True):
    """The largest of all coefficients or importances, the largest first; `rows` names the part they come from."""

    kind: Literal["coefficients", "importances"]
    rows: str
    total: int
    inputs: tuple[ModelInput, ...]


class LabelWord(Struct, frozen=True):
    """A value of the label, its rows, and what it counts as: "positive", "negative", or a class."""

    value: str
    rows: int
    counts_as: str


class TakenColumn(Struct, frozen=True):
    """A column of a file whose kind is not obvious, and the option that changes it."""

    column: str
    kind: str
    remark: str
    example: str
    option: str


class Summary(Struct, frozen=True, kw_only=True, tag_field="schema", tag=SCHEMA):
    """Everything that a study found.

    Attributes
    ----------
    version : int
        An incompatible change of this record raises it.
    title, target : str
    classes, class_names : tuple of str
        The labels, and words for them; of two classes the second is the positive one.
    confidence : float
        The confidence level of all intervals and verdicts.
    kept : bool
        Whether every limit is kept on the training rows and on the held-out rows.  With `confidence=`, the model must
        have passed on the calibration rows, and the held-out rows must not refute a limit.
    limits : tuple of LimitFacts
    training, held_out : PartSummary
    calibration : tuple of LimitOnPart
        The limits on the calibration rows; empty without them.
    fit : FitResult or None
        The record of the fit.
    frontier : tuple of PointSummary
        Models for several bounds of the first limit, from loose to strict.
    model : ModelInputs or None
    interrupted : str
        After an interrupt: the finished part, as the end of the sentence "The folder has ...".
    label : tuple of LabelWord
    taken : tuple of TakenColumn
    reproduction : dict
        The facts needed to repeat the run.
    notes : tuple of str
    """

    version: Literal[1] = 1
    title: str
    target: str
    classes: tuple[str, ...]
    class_names: tuple[str, ...]
    confidence: float
    kept: bool
    limits: tuple[LimitFacts, ...]
    training: PartSummary
    held_out: PartSummary | None
    calibration: tuple[LimitOnPart, ...] = ()
    fit: FitResult | None = None
    frontier: tuple[PointSummary, ...] = ()
    model: ModelInputs | None = None
    interrupted: str = ""
    label: tuple[LabelWord, ...] = ()
    taken: tuple[TakenColumn, ...] = ()
    reproduction: dict[str, Any]
    notes: tuple[str, ...] = ()

    @property
    def parts(self) -> dict[str, PartSummary]:
        """The parts by name, "held-out" first if there is one."""
        return {**({} if self.held_out is None else {"held-out": self.held_out}), "training": self.training}

    @property
    def main(self) -> PartSummary:
        """The held-out rows if there are some, else the training rows."""
        return self.held_out or self.training

    @property
    def main_rows(self) -> Literal["held-out", "training"]:
        """The name of the main part."""
        return "training" if self.held_out is None else "held-out"

    @property
    def reached(self) -> Reached | None:
        """What the decisions bring on the training rows, by an objective such as a cost."""
        return None if self.fit is None else self.fit.reached

    @property
    def useless(self) -> bool:
        """Whether the model is no better than a constant prediction or, by an objective, than a constant decision."""
        return (self.main.accuracy.gain if self.reached is None else self.reached.gain) <= 0

    @property
    def names(self) -> dict[str, str]:
        """The words for the labels."""
        return dict(zip(self.classes, self.class_names, strict=True))

    @property
    def certificates(self) -> dict[str, Certificate]:
        """The certificates, by the rows that they are of; the first one is that of the claim."""
        found = {
            "calibration": None if self.fit is None else self.fit.certificate,
            "held-out": None if self.held_out is None else self.held_out.certificate,
        }
        return {rows: each for rows, each in found.items() if each is not None}

    @property
    def changes(self) -> list[Change]:
        """Each measure before and after, on the main part; empty without a model before."""
        asked = {(limit.measure, grouping) for limit in self.limits for grouping in limit.groupings}
        before, after = self.main.before, self.main.after
        if before is None:
            return []
        return [
            Change(old, new, (new.measure, new.grouping) in asked)
            for old, new in zip(before.measures, after.measures, strict=True)
        ]

    def sizes(self) -> Iterator[tuple[str, int]]:
        """Yield the name and the number of rows of each part, in the order of their use."""
        yield "training", self.training.rows
        if "calibration" in self.certificates:
            yield "calibration", self.certificates["calibration"].rows
        if self.held_out is not None:
            yield "held-out", self.held_out.rows

    def rows_without_group(self) -> list[str]:
        """Return a sentence for each sensitive column in which rows have no group, or one that was left out."""
        return [
            f"{count(missing)} {rows} {'row has' if missing == 1 else 'rows have'} no known {grouping}, or one that "
            f"the limits leave out: counted in the accuracy, and in no rate of {grouping}."
            for rows, part in self.parts.items()
            for grouping, missing in part.after.missing.items()
            if missing
        ]

    def to_json(self) -> str:
        """Return the content of summary.json."""
        return encode(self, indent=1).decode() + "\n"


def is_kept(summary: Summary) -> bool:
    """Return whether every limit counts as kept; see `Summary.kept`."""
    if not all(limit.after.kept for limit in summary.training.limits):
        return False
    calibration = summary.certificates.get("calibration")
    if calibration is not None and not calibration.passed:
        return False
    if summary.held_out is None or summary.held_out.certificate is None:
        return True
    if calibration is not None:  # a value on the held-out rows that chance explains does not count
        return summary.held_out.certificate.verdict is not Verdict.FAIL
    return all(limit.after.kept is not False for limit in summary.held_out.limits)


def settled(summary: Summary) -> Summary:
    """Return the summary as it is read from its file, with `kept`: a report does not depend on where it comes from."""
    return decode(encode(msgspec.structs.replace(summary, kept=is_kept(summary))), Summary)


def read_summary(path: str | Path) -> Summary:
    """Return the summary in a JSON file."""
    try:
        return decode(Path(path).read_bytes(), Summary)
    except ValueError as error:
        raise ValueError(f"{path} is not a summary: {error}. Give the summary.json of a run.") from None


def holds_summary(folder: Path) -> bool:
    """Return whether a folder has a summary of fairbound."""
    return begins_with(folder / SUMMARY_FILE, f'"schema": "{SCHEMA}"'.encode())
