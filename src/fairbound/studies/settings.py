"""The settings of a study, checked before any rows are read; and the stages of its training."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from fairbound._errors import InputError, argument, bad_value, missing_extra
from fairbound._words import did_you_mean, lookup
from fairbound.fairness import (
    MEASURES,
    Constraint,
    Surrogate,
    as_constraints,
    parse_constraint,
    refuse_contradictions,
    resolve_measure,
    resolve_surrogate,
)

if TYPE_CHECKING:
    from fairbound.estimator import ConstrainedClassifier, FitResult, FittedBase

GROUPS = ("each", "intersection", "both")
SMALL_GROUPS = ("error", "warn", "merge")
NAMED_LOSSES = ("cross_entropy", "hinge")
SOLVERS = ("auto", "quasi-newton", "stochastic")
CONFIDENCE = 0.95
"""Confidence level of intervals and verdicts, if the study asks for none."""

USUAL_RATIOS = (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
USUAL_DIFFERENCES = (0.3, 0.2, 0.15, 0.1, 0.075, 0.05, 0.02)

_NETWORK = re.compile(r"mlp:\d+(?:[,x]\d+)*")
BASES = ("boosted", "lightgbm", "forest")
"""Models over a base: its score, and a linear correction."""

Callback = Callable[[dict[str, Any]], bool | None]
Stage = Callable[[str], AbstractContextManager[Callback | None]]
"""Returns a context for each stage of the training, given its name; the context yields the callback of the fits."""


def named_stages(callback: Callback | None) -> Stage:
    """Return stages that call `callback` with each row of the history and, as "stage", their name."""

    def stage(name: str) -> AbstractContextManager[Callback | None]:
        return nullcontext(None if callback is None else lambda row: callback({"stage": name, **row}))

    return stage


@dataclass(frozen=True, kw_only=True)
class StudySettings:
    """The limits of a study, and how its models are trained and tested; `study` documents the fields."""

    limits: tuple[Constraint, ...] = ()
    bounds: tuple[float, ...] = ()
    model: str = "auto"
    test_size: float = 0.2
    confidence: float | None = None
    margin: float | str | None = "auto"
    seed: int = 0
    groups: str = "each"
    small_groups: str = "error"
    min_group_size: int = 10
    no_group_worse: bool | str = False
    max_categories: int = 50
    loss: str = "cross_entropy"
    class_weight: str | None = None
    regularizers: tuple[str, ...] = ()
    surrogates: tuple[str, ...] = ()
    solver: str = "auto"
    batch_size: int | None = None
    epochs: int | None = None
    constraint_share: float | None = None

    @classmethod
    def build(
        cls,
        limits: Constraint | str | Iterable[Constraint | str] = (),
        bounds: Sequence[float] | None = None,
        **settings: Any,
    ) -> StudySettings:
        """Read the limits and the bounds, and check everything."""
        constraints = as_constraints(limits)
        settings["limits"] = constraints
        settings["bounds"] = () if bounds is None else frontier_bounds(constraints, bounds)
        for name in ("regularizers", "surrogates"):
            stated = settings.get(name) or ()
            settings[name] = (stated,) if isinstance(stated, str) else tuple(stated)
        return cls(**settings)

    def __post_init__(self) -> None:
        hidden_layers(self.model)
        _check_choice("groups", self.groups, GROUPS)
        _check_choice("small_groups", self.small_groups, SMALL_GROUPS)
        _check_choice("loss", self.loss, NAMED_LOSSES)
        _check_choice("solver", self.solver, SOLVERS)
        if self.constraint_share is not None and not 0 < self.constraint_share <= 1:
            raise bad_value("constraint_share", self.constraint_share, "a share of the rows, above 0 and at most 1")
        with_surrogates(self.limits, self.surrogates)
        if self.class_weight is not None:
            _check_choice("class_weight", self.class_weight, ("balanced",))
        if self.regularizers:
            from fairbound.training import as_regularizers

            as_regularizers(self.regularizers)
        if not 0 <= self.test_size < 1:
            raise bad_value("test_size", self.test_size, "a share of the rows, from 0 (hold none out) to below 1")
        for limit in self.limits:
            if limit.bound is None:
                raise InputError(
                    "{name} has bound=None, so it limits nothing.", "Give it a bound, or leave it out.", name=limit.name
                )
        refuse_contradictions(self.limits)
        if self.confidence is not None:
            self._check_confidence(self.confidence)
        if self.margin not in (None, "auto"):
            self._check_margin(self.margin)

    def _check_confidence(self, confidence: float) -> None:
        if self.no_group_worse:
            raise InputError(
                "{no_group_worse=} and {confidence=} cannot be combined: the floors are rates on the training rows.",
                "Use one of them.",
            )
        if not 0.5 <= confidence < 1:
            raise bad_value("confidence", confidence, "a number from 0.5 to below 1, such as 0.95")
        if not self.limits:
            raise InputError("{confidence=} needs at least one limit.", "Add it with {limits=}.")
        if self.bounds:
            raise InputError(
                "{confidence=} and {bounds=} cannot be combined.",
                "Trace the frontier first, and then train for a confidence at the bound that you choose.",
            )
        if self.small_groups != "error":
            raise InputError(
                "{confidence=} covers every group, so {small_groups=policy} is not allowed.",
                "Use {small_groups='error'}.",
                policy=self.small_groups,
            )
        for limit in self.limits:
            if limit.name == "covariance":
                raise InputError(
                    "{confidence=} does not work with {limit}: no confidence bound of a covariance is known.",
                    limit=str(limit),
                )

    def _check_margin(self, margin: Any) -> None:
        if isinstance(margin, str) or not 0 < margin < 1:
            raise bad_value("margin", margin, "auto, none, or a probability above 0 and below 1, such as 0.8")
        if not self.limits:
            raise InputError("{margin=} needs at least one limit.", "Add it with {limits=}.")
        for name in ("confidence", "bounds"):
            if getattr(self, name):
                raise InputError("{margin=} and {other} cannot be combined.", "Leave one out.", other=argument(name))

    def margin_of(self, limits: Sequence[Constraint]) -> float | str | None:
        """Return the margin of a fit under these limits; "auto" is none where something else decides."""
        from fairbound.training import Processes

        decided = self.confidence is not None or self.bounds or Processes.present() is not None
        return None if not limits or (self.margin == "auto" and decided) else self.margin

    @property
    def hidden(self) -> tuple[int, ...]:
        """Widths of the hidden layers."""
        return hidden_layers(self.model)

    @property
    def level(self) -> float:
        """Confidence level of intervals and verdicts."""
        return CONFIDENCE if self.confidence is None else self.confidence

    def classifier(
        self,
        limits: Sequence[Constraint],
        pos_label: str | None,
        callback: Callback | None,
        base: FittedBase | None = None,
    ) -> ConstrainedClassifier:
        """Return a classifier with these settings under some of the limits, not fitted yet.

        `base` is that of a model which is fitted already; without it, the base is trained with the classifier.
        """
        from fairbound.estimator import ConstrainedClassifier

        return ConstrainedClassifier(
            list(with_surrogates(limits, self.surrogates)),
            hidden=self.hidden,
            base=make_base(self.model, self.seed) if base is None else base,
            pos_label=pos_label,
            groups=self.groups,
            small_groups=self.small_groups,
            min_group_size=self.min_group_size,
            no_group_worse=self.no_group_worse if limits else False,
            max_categories=self.max_categories,
            loss=self.loss,
            class_weight=self.class_weight,
            regularizers=self.regularizers,
            solver=self.solver,
            batch_size=self.batch_size,
            epochs=self.epochs,
            constraint_share=self.constraint_share,
            confidence=self.confidence if limits else None,
            margin=self.margin_of(limits),  # type: ignore[arg-type]  # "auto" or a number, as checked
            random_state=self.seed,
            callbacks=() if callback is None else [callback],
        )

    def as_call(self) -> str:
        """Return the call of `study` with these settings, without those that have their default.

        >>> StudySettings.build("disparate_impact >= 0.8", seed=3).as_call()
        "fairbound.study(data, ['disparate_impact >= 0.8'], seed=3)"
        """
        given = ["data", repr([str(limit) for limit in self.limits])]
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name != "limits" and value != each.default:
                given.append(f"{each.name}={list(value) if isinstance(value, tuple) else value!r}")
        return f"fairbound.study({', '.join(given)})"


def with_floors(limits: tuple[Constraint, ...], result: FitResult) -> tuple[Constraint, ...]:
    """Return the limits and, with `no_group_worse`, the floors that the fit has added to them."""
    return (*limits, *(parse_constraint(each.limit) for each in result.limits[len(limits) :]))


def with_surrogates(limits: Sequence[Constraint], stated: Sequence[str]) -> tuple[Constraint, ...]:
    """Return the limits with the surrogates stated by name and scale: one for all of them, or one for each.

    >>> with_surrogates([parse_constraint("disparate_impact >= 0.8")], ["sigmoid:20"])[0].surrogate
    Sigmoid(scale=20.0)
    """
    if not stated or not limits:
        return tuple(limits)
    if len(stated) not in (1, len(limits)):
        raise InputError(
            "{surrogates=} has {count} surrogates for {limits} limits.",
            "Give one for all limits, or one for each limit in their order.",
            count=len(stated),
            limits=len(limits),
        )
    found = [as_surrogate(each) for each in stated]
    return tuple(replace(limit, surrogate=found[min(place, len(found) - 1)]) for place, limit in enumerate(limits))


def as_surrogate(text: str) -> Surrogate:
    """Return a surrogate from its name and, after a colon, its scale."""
    name, colon, scale = text.partition(":")
    surrogate = resolve_surrogate(name)
    try:
        return replace(surrogate, scale=float(scale)) if colon else surrogate
    except ValueError as error:
        raise bad_value(
            "surrogates", text, "the name of a surrogate and its scale, a number above 0, as in sigmoid:20"
        ) from error


def hidden_layers(model: str) -> tuple[int, ...]:
    """Return the widths of the hidden layers; a model over a base has none.

    >>> hidden_layers("linear"), hidden_layers("mlp:32"), hidden_layers("mlp:64,32"), hidden_layers("boosted")
    ((), (32,), (64, 32), ())
    """
    if model in ("auto", "linear", *BASES):
        return ()
    known = isinstance(model, str) and _NETWORK.fullmatch(model)
    widths = tuple(int(width) for width in re.findall(r"\d+", model)) if known else (0,)
    if 0 in widths:
        raise bad_value(
            "model",
            model,
            f"auto, linear, {', '.join(BASES)}, or mlp: and the widths of hidden layers",
            "Examples are boosted, mlp:32 and mlp:64,32.",
        )
    return widths


def make_base(model: str, seed: int) -> Any:
    """Return the base of a model, not fitted yet; None for linear models and networks.

    >>> make_base("boosted", 0)
    HistGradientBoostingClassifier(random_state=0)
    """
    if model not in BASES:
        return None
    if model == "lightgbm":
        try:
            from lightgbm import LGBMClassifier
        except ImportError as error:
            raise missing_extra("The model lightgbm needs", "lightgbm", "lightgbm") from error
        return LGBMClassifier(random_state=seed, verbose=-1)
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

    return (HistGradientBoostingClassifier if model == "boosted" else RandomForestClassifier)(random_state=seed)


def usual_bounds(measure: str) -> tuple[float, ...]:
    """Return bounds that suit a measure, from loose to strict.

    >>> usual_bounds("equal_opportunity")[:3]
    (0.3, 0.2, 0.15)
    """
    known = lookup(MEASURES, measure, "measure")
    _check_comparison(known.comparison, measure)
    if known.comparison == "covariance":
        raise InputError("A covariance has no usual bounds.", "Give {bounds=}, such as 0.05, 0.02 and 0.01.")
    return USUAL_RATIOS if known.larger_is_stricter else USUAL_DIFFERENCES


def frontier_bounds(limits: Sequence[Constraint], bounds: Sequence[float]) -> tuple[float, ...]:
    """Return the bounds of a frontier from loose to strict: the given ones and that of the first limit."""
    if not limits:
        raise InputError("{bounds=} needs a limit: its bound takes these values.", "Add it with {limits=}.")
    swept = limits[0]
    measure = resolve_measure(swept.measure)
    _check_comparison(measure.comparison, measure.name)
    if swept.bound is None or isinstance(swept.bound, tuple):
        raise InputError(
            "{bounds=} needs a limit with one bound, but {limit} has two.", "Give a limit with one.", limit=str(swept)
        )
    values = {float(swept.bound), *map(float, bounds)}
    for bound in values:
        swept.with_bound(bound)  # raises for a bound that its measure cannot have
    return tuple(sorted(values, reverse=not measure.larger_is_stricter))


def _check_comparison(comparison: str, measure: str) -> None:
    if comparison == "value":
        raise InputError("{measure!r} is a group's own rate; a frontier compares groups.", measure=measure)


def _check_choice(name: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise InputError(
            "{given} must be one of {known}.{near}",
            given=argument(name, value),
            known=", ".join(known),
            near=did_you_mean(value, known),
        )
