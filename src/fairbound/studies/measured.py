"""Make the summary of a study: count the decisions of its models on each part of the rows, and test the limits."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fairbound._words import as_text
from fairbound.evaluation import (
    Audit,
    Scores,
    Tally,
    audit_tally,
    audited_measures,
    certify_tally,
    check_scores,
    overall_accuracy,
    rate_name,
)
from fairbound.fairness import Cells, Combine, Constraint, ConstraintSystem, Grouping, as_constraints, resolve_measure
from fairbound.studies.summary import (
    Accuracies,
    LimitFacts,
    LimitOnPart,
    LimitValue,
    ModelInputs,
    PartSummary,
    PointOnPart,
    PointSummary,
    Summary,
    WorstPair,
    settled,
)

if TYPE_CHECKING:
    from fairbound.estimator import FitResult, FrontierModel
    from fairbound.training import FrontierPoint

RATES_SHOWN = ("selection_rate", "true_positive_rate", "false_positive_rate", "accuracy")
"""The rates that each point of a frontier has for each group; the audits of the run itself have all."""


@dataclass(frozen=True, kw_only=True)
class Decisions:
    """Rows, and the decisions of one or two models about them.

    Parameters
    ----------
    y : sequence of n labels
    sensitive_features : mapping or table of columns, or array of shape (n,) or (n, columns)
    after : sequence of n labels
        The decisions of the model that the summary is about.
    before : sequence of n labels, optional
        The decisions of the model trained without limits.
    sample_weight : sequence of n numbers, optional
    largest_weight : float, optional
        The largest weight that a row can have by design; the certificate of weighted rows needs it.
    repeats : array of shape (n,), optional
        How many rows each of these rows stands for.
    scores : sequence of n numbers, optional
        The scores of the model that the summary is about, such as probabilities of the positive class.  Only for two
        classes, and rows of equal weight.
    """

    y: Any
    sensitive_features: Any
    after: Any
    before: Any = None
    sample_weight: Any = None
    largest_weight: float | None = None
    repeats: Any = None
    scores: Any = None


@dataclass(frozen=True, kw_only=True)
class SweptPoint:
    """One point of a frontier: its record, and the decisions of its model on each part.

    Parameters
    ----------
    point : FrontierModel or FrontierPoint
    training, held_out : sequences of labels
        In the order of the rows of the summary's parts; held_out only if there is such a part.
    """

    point: FrontierModel | FrontierPoint
    training: Any
    held_out: Any = None


def summarize(
    limits: Constraint | str | Iterable[Constraint | str],
    training: Decisions,
    held_out: Decisions | None = None,
    *,
    title: str = "",
    target: str = "label",
    class_names: Mapping[Hashable, str] | None = None,
    result: FitResult | None = None,
    frontier: Sequence[SweptPoint] | None = None,
    model: ModelInputs | None = None,
    reproduction: Mapping[str, Any] | None = None,
    notes: Sequence[str] = (),
    confidence: float = 0.95,
    groups: Combine = "each",
    pos_label: Hashable | None = None,
    settle: Callable[[Cells], Cells] | None = None,
    **facts: Any,
) -> Summary:
    """Return the summary of a run.

    Parameters
    ----------
    limits : Constraint, str, or several of them
        The limits of the model "after"; none if it was trained without limits.
    training, held_out : Decisions
    title : str
        By default made from `target`.
    target : str
        The name of the label.
    class_names : mapping of label to str, optional
        Words for the labels.
    result : FitResult, optional
        The record of the fit of the model "after": history, prices, and the certificate of the calibration rows.  The
        certificate of the held-out rows is computed here.
    frontier : sequence of SweptPoint, optional
        Models for several bounds of the first limit, from loose to strict.
    model : ModelInputs, optional
    reproduction : mapping, optional
        The facts needed to repeat the run.  The report formats `command`, `version`, `seed`, `created`, `model`, `data`
        (a mapping with `name`, `sha256`, `rows`), `columns` and `libraries`, and shows all other entries as text.
    notes : sequence of str
        Sentences about the data, such as which groups were left out.
    confidence : float
    groups : {"each", "intersection", "both"}
    pos_label : label, optional
    settle : function of Cells, optional
        Returns the cells with the groups of the limits.  Give `ConstrainedClassifier.settle_groups` of a model that
        merged small groups or left them out.
    **facts
        Further fields of `Summary`.

    Examples
    --------
    >>> rows = Decisions(y=[0, 1] * 50, sensitive_features=["a"] * 50 + ["b"] * 50, after=[0, 1] * 50)
    >>> summary = summarize("disparate_impact >= 0.8", rows)
    >>> summary.training.limits[0].after
    LimitValue(value=1.0, kept=True)
    """
    constraints = as_constraints(limits)
    labels = [label for part in (training, held_out) if part is not None for label in np.asarray(part.y).tolist()]
    classes = tuple(dict.fromkeys(labels))
    both = {"training": training, "held_out": held_out}
    parts = {
        name: CountedPart(rows, constraints, confidence, groups, pos_label, classes, settle)
        for name, rows in both.items()
        if rows is not None
    }
    main = list(parts.values())[-1]
    names = tuple(map(as_text, main.tally.cells.classes))
    words = {as_text(label): name for label, name in (class_names or {}).items()}
    certificate = None if result is None else result.certificate
    return settled(
        Summary(
            title=title or f"Predicting {target}",
            target=target,
            classes=names,
            class_names=tuple(words.get(name, name) for name in names),
            confidence=confidence,
            kept=False,
            limits=tuple(_facts(limit, main.groupings(place)) for place, limit in enumerate(constraints)),
            training=parts["training"].summary(),
            held_out=parts["held_out"].summary(certified=bool(constraints)) if held_out is not None else None,
            calibration=()
            if certificate is None
            else tuple(
                LimitOnPart(LimitValue(found.value, None if found.value is None else limit.keeps(found.value)))
                for limit, found in zip(constraints, certificate.limits, strict=False)  # not of floors
            ),
            fit=result,
            frontier=() if frontier is None else tuple(_points(constraints, frontier, parts)),
            model=model,
            reproduction=dict(reproduction or {}),
            notes=tuple(notes),
            **facts,
        )
    )


def _facts(limit: Constraint, groupings: tuple[str, ...]) -> LimitFacts:
    measure = resolve_measure(limit.measure)
    lower, upper = limit.limits
    if not isinstance(limit.bound, tuple):  # one number: a ratio from below, the size of a difference from above
        lower, upper = (lower, np.inf) if measure.larger_is_stricter else (-np.inf, upper)
    return LimitFacts(
        text=str(limit),
        measure=measure.name,
        description=measure.description,
        comparison=measure.comparison,
        lower=float(lower) if np.isfinite(lower) else None,
        upper=float(upper) if np.isfinite(upper) else None,
        against=limit.against if limit.reference is None else as_text(limit.reference),
        group=None if limit.group is None else as_text(limit.group),
        classes=None if limit.classes is None else tuple(map(as_text, limit.classes)),
        groupings=groupings,
    )


def _in_words(grouping: Grouping) -> Grouping:
    """Return a grouping whose groups, and the strata of a factor, are text."""
    divided = grouping.divided if grouping.within else ()
    parts = tuple((as_text(group), as_text(stratum)) for group, stratum in divided)
    return replace(grouping, groups=tuple(map(as_text, grouping.groups)), parts=parts)


class CountedPart:
    """One part of the rows.

    The rows are sorted into cells once, and measures and limits are compiled once; each model's decisions are counted
    in them.  `classes` are those of all parts; one part need not have all of them.
    """

    def __init__(
        self,
        rows: Decisions,
        limits: tuple[Constraint, ...],
        confidence: float,
        groups: Combine,
        pos_label: Hashable | None,
        classes: tuple[Hashable, ...],
        settle: Callable[[Cells], Cells] | None,
    ) -> None:
        self.rows, self.limits, self.confidence = rows, limits, confidence
        found = Tally.build(
            rows.y,
            rows.after,
            rows.sensitive_features,
            sample_weight=rows.sample_weight,
            largest_weight=rows.largest_weight,
            groups=groups,
            pos_label=pos_label,
            repeats=rows.repeats,
            classes=classes,
        )

        def in_words(cells: Cells) -> Cells:
            cells = cells if settle is None else settle(cells)
            groupings = tuple(_in_words(each) for each in cells.groupings)
            return replace(cells, classes=tuple(map(as_text, cells.classes)), groupings=groupings)

        self.tally = replace(found, powers=tuple((in_words(cells), sums) for cells, sums in found.powers))
        measures = audited_measures(self.tally)
        together = self.tally.compile_together([*measures, *limits])
        self.measures = together.select(range(len(measures)))
        self.systems = [together.select([len(measures) + position]) for position in range(len(limits))]

    def groupings(self, place: int) -> tuple[str, ...]:
        """Return the groupings that a limit compares."""
        return tuple(dict.fromkeys(block.grouping.name for block in self.systems[place].blocks))

    def summary(self, *, certified: bool = False) -> PartSummary:
        """Return accuracies, values of limits, and audits; `certified` says whether the limits are tested."""
        rows, level = self.rows, self.confidence
        before = None if rows.before is None else self.tally.with_decisions(rows.before)
        scores = None if rows.scores is None or self.tally.weighted else Scores(check_scores(rows.scores), "")
        audit = self._audit(self.tally, scores)
        if audit.scores is not None:
            curves = tuple(each.thinned() for each in audit.scores.curves)
            audit = replace(audit, scores=replace(audit.scores, curves=curves))
        after, constant = overall_accuracy(self.tally, level)
        return PartSummary(
            Accuracies(after, None if before is None else overall_accuracy(before, level)[0], constant),
            tuple(
                LimitOnPart(
                    LimitValue(**self.tally.checked(system)),
                    None if before is None else LimitValue(**before.checked(system)),
                    _worst_pair(system, self.tally),
                )
                for system in self.systems
            ),
            audit,
            None if before is None else self._audit(before),
            certify_tally(
                self.tally,
                self.limits,
                level,
                weights_bounded=rows.largest_weight is not None,
                systems=self.systems,
            )
            if certified
            else None,
        )

    def _audit(self, tally: Tally, scores: Scores | None = None) -> Audit:
        return audit_tally(tally, self.confidence, system=self.measures, scores=scores)

    def point(self, limit: Constraint, prediction: Any) -> PointOnPart:
        """Return measure, accuracy and rates by group of one model under a bound of the first limit."""
        tally, confidence = self.tally.with_decisions(prediction), self.confidence
        system = replace(self.systems[0], constraints=(limit,))  # the compared groups do not depend on the bound
        accuracy, constant = overall_accuracy(tally, confidence)
        measure = resolve_measure(limit.measure)
        known = [i for i, each in enumerate(self.measures.constraints) if resolve_measure(each.measure) is measure]
        compiled = self.measures.select(known) if known else None
        audited = audit_tally(tally, confidence, [] if measure.comparison == "value" else [measure], system=compiled)
        ends = [(found.lower, found.upper) for found in audited.measures if found.grouping in self.groupings(0)]
        # The audit compares all pairs of groups.  If the limit does so, too, it has the same interval.
        whole = len(ends) == 1 and limit.against == "pairwise" and limit.reference is None and limit.classes is None
        lower, upper = ends[0] if whole else (None, None)
        groups = (
            replace(each, rates={k: {name: rates[name] for name in RATES_SHOWN} for k, rates in each.rates.items()})
            for each in audited.groups
        )
        gain = Accuracies(accuracy, None, constant).gain
        return PointOnPart(
            **tally.checked(system), lower=lower, upper=upper, accuracy=accuracy, gain=gain, groups=tuple(groups)
        )


def _worst_pair(system: ConstraintSystem, tally: Tally) -> WorstPair | None:
    """Return the groups that determine the value of a limit, with their rates; None if the value is undefined."""
    (found,) = tally.worst(system)
    if found is None:
        return None
    measure, block = resolve_measure(system.constraints[0].measure), found.block
    groups = (*block.grouping.groups, None)
    several = tally.cells.n_labels > 2 and measure.per_class
    return WorstPair(
        block.grouping.name,
        as_text(tally.cells.classes[block.outcome]) if several else None,
        rate_name(block.rate, measure.name),
        tuple(
            (groups[place], float(rate))  # type: ignore[misc]  # the groups are text
            for place, rate in zip(found.places[: 1 if measure.comparison == "value" else 2], found.rates, strict=False)
        ),
    )


def _points(
    limits: tuple[Constraint, ...], points: Sequence[SweptPoint], parts: Mapping[str, CountedPart]
) -> Iterator[PointSummary]:
    """Yield the points of a frontier: of the first limit, whose bounds vary."""
    limit = limits[0]
    for each in points:
        here = limit.with_bound(float(each.point.bound))
        yield PointSummary(
            bound=float(each.point.bound),
            text=str(here),
            status=each.point.result.status.value,
            loss_price=each.point.loss_price,
            accuracy_price=each.point.accuracy_price,
            training=parts["training"].point(here, each.training),
            held_out=parts["held_out"].point(here, each.held_out) if "held_out" in parts else None,
        )
