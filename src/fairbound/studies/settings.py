"""The settings of a study, checked before any rows are read; and the stages of its training."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

from fairbound._errors import InputError, bad_value, missing_extra
from fairbound._model_settings import Callback, Confidence, refuse_conflicts
from fairbound._settings import IN_PYTHON
from fairbound._study_settings import StudyChoices
from fairbound._words import lookup
from fairbound.fairness import (
    MEASURES,
    Constraint,
    Quota,
    Surrogate,
    as_constraints,
    parse_constraint,
    resolve_measure,
    resolve_surrogate,
    without_quota,
)

if TYPE_CHECKING:
    from fairbound.estimator import ConstrainedClassifier, FitResult, FittedBase

CONFIDENCE = 0.95
"""Confidence level of intervals and verdicts, if the study asks for none."""

USUAL_RATIOS = (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
USUAL_DIFFERENCES = (0.3, 0.2, 0.15, 0.1, 0.075, 0.05, 0.02)

_NETWORK = re.compile(r"mlp:\d+(?:[,x]\d+)*")
BASES = ("boosted", "lightgbm", "forest")
"""Models over a base: its score, and a linear correction."""

Stage = Callable[[str], AbstractContextManager[Callback | None]]
"""Returns a context for each stage of the training, given its name; the context yields the callback of the fits."""


def named_stages(callback: Callback | None) -> Stage:
    """Return stages that call `callback` with each row of the history and, as "stage", their name."""

    def stage(name: str) -> AbstractContextManager[Callback | None]:
        return nullcontext(None if callback is None else lambda row: callback({"stage": name, **row}))

    return stage


@dataclass(frozen=True, repr=False)
class StudySettings(StudyChoices):
    """The limits of a study, and how its models are trained and tested.

    Parameters
    ----------
    limits : tuple of Constraint
    bounds : tuple of float
        The bounds of the first limit, from loose to strict; empty without a frontier.
    """

    limits: Annotated[Any, IN_PYTHON] = ()
    bounds: Annotated[Any, IN_PYTHON] = ()

    @classmethod
    def build(
        cls,
        limits: Constraint | str | Iterable[Constraint | str] = (),
        bounds: Sequence[float] | None = None,
        **settings: Any,
    ) -> StudySettings:
        """Read the limits and the bounds, and check everything."""
        constraints, quota = without_quota(as_constraints(limits))
        if quota is not None:
            settings["select"] = str(quota).removeprefix("select ")
        return cls(
            limits=constraints, bounds=() if bounds is None else frontier_bounds(constraints, bounds), **settings
        )

    def __post_init__(self) -> None:
        super().__post_init__()
        hidden_layers(self.model)
        if isinstance(self.surrogates, str):
            object.__setattr__(self, "surrogates", (self.surrogates,))
        with_surrogates(self.limits, self.surrogates)
        if self.select is not None:
            Quota.of(self.select)
        if self.objective != "accuracy":
            from fairbound.estimator import Objective

            Objective.of(self.objective)
        if self.loss.regularizers:
            from fairbound.training import as_regularizers

            as_regularizers(self.loss.regularizers)
        for limit in self.limits:
            if limit.bound is None:
                raise InputError(
                    "{name} has bound=None, so it limits nothing.", "Give it a bound, or leave it out.", name=limit.name
                )
        refuse_conflicts(
            self.limits,
            confidence=None if self.confidence is None else Confidence(self.confidence),
            margin=None if self.margin in ("auto", "none") else self.margin,
            training=self.training,
            bounds=self.bounds,
        )

    def margin_of(self, limits: Sequence[Constraint]) -> Any:
        """Return the margin of a fit under these limits; "auto" is none where something else decides."""
        decided = self.confidence is not None or self.bounds
        return None if not limits or self.margin == "none" or (self.margin == "auto" and decided) else self.margin

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
        max_categories: int = 50,
    ) -> ConstrainedClassifier:
        """Return a classifier with these settings under some of the limits, not fitted yet.

        `base` is that of a model which is fitted already; without it, the base is trained with the classifier.
        """
        from fairbound.estimator import ConstrainedClassifier, TableEncoder

        return ConstrainedClassifier(
            [*with_surrogates(limits, self.surrogates), *([] if self.select is None else [Quota.of(self.select)])],
            hidden=self.hidden,
            base=make_base(self.model, self.seed) if base is None else base,
            objective=self.objective,
            pos_label=pos_label,
            groups=self.groups if limits else replace(self.groups, no_group_worse=False),
            encoder=TableEncoder(max_categories=max_categories),
            loss=self.loss,
            training=self.training,
            confidence=self.confidence if limits else None,
            margin=self.margin_of(limits),
            random_state=self.seed,
            callbacks=() if callback is None else [callback],
        )

    def as_call(self) -> str:
        """Return the call of `study` with these settings, without those that have their default.

        >>> StudySettings.build("disparate_impact >= 0.8", seed=3).as_call()
        "fairbound.study(data, ['disparate_impact >= 0.8'], seed=3)"
        """
        stated = {name: value for name, value in self.changed().items() if name != "limits"}
        given = ["data", repr([str(limit) for limit in self.limits])]
        given += [f"{name}={list(value) if isinstance(value, tuple) else value!r}" for name, value in stated.items()]
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


def make_base(model: str, seed: int, kind: str = "Classifier") -> Any:
    """Return the base of a model, not fitted yet, of the kind Classifier or Regressor; None without a base.

    >>> make_base("boosted", 0)
    HistGradientBoostingClassifier(random_state=0)
    """
    if model not in BASES:
        return None
    if model == "lightgbm":
        try:
            return getattr(import_module("lightgbm"), f"LGBM{kind}")(random_state=seed, verbose=-1)
        except ImportError as error:
            raise missing_extra("The model lightgbm needs", "lightgbm", "lightgbm") from error
    name = "HistGradientBoosting" if model == "boosted" else "RandomForest"
    return getattr(import_module("sklearn.ensemble"), f"{name}{kind}")(random_state=seed)


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
