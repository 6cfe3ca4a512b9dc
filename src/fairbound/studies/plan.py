"""The plan of a search, fixed before training: measures, bounds, kinds of models and a tolerance."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from fairbound._errors import InputError, argument, bad_value
from fairbound._settings import IN_PYTHON
from fairbound._study_settings import SearchChoices
from fairbound.fairness import Measure, parse_constraint, resolve_measure
from fairbound.studies.judged import Judgement
from fairbound.studies.settings import StudySettings, hidden_layers

RATIOS = (0.7, 0.8, 0.9, 0.95)

DIFFERENCES = (0.15, 0.1, 0.05, 0.02)

_WITHIN = re.compile(r"\s*(accuracy|auc|log_loss)\s+(\d*\.?\d+)\s*")


@dataclass(frozen=True)
class Tolerance:
    """How much worse than the baseline a model may be: in points of accuracy or AUC, or in log loss."""

    metric: str
    amount: float

    @classmethod
    def parse(cls, text: str) -> Tolerance:
        """Read a text such as "accuracy 0.5".

        >>> Tolerance.parse("accuracy 0.5")
        Tolerance(metric='accuracy', amount=0.5)
        """
        found = _WITHIN.fullmatch(text) if isinstance(text, str) else None
        if found is None:
            raise bad_value("within", text, "accuracy, auc or log_loss and an amount, as in 'accuracy 0.5' (points)")
        return cls(found[1], float(found[2]))

    def holds(self, judged: Judgement, baseline: Judgement) -> bool:
        """Return whether a model is within the tolerance of the baseline."""
        if self.metric == "log_loss":
            ours, theirs = judged.log_loss, baseline.log_loss
            return ours is not None and theirs is not None and ours - theirs <= self.amount + 1e-12
        one, other = (getattr(each, self.metric) for each in (judged, baseline))
        if one is None or other is None or one.value is None or other.value is None:
            return False
        return bool(other.value - one.value <= self.amount / 100.0 + 1e-12)

    def __str__(self) -> str:
        return (
            f"{self.amount:g} of log loss"
            if self.metric == "log_loss"
            else f"{self.amount:g} point{'s' * (self.amount != 1)} of {self.metric.replace('auc', 'AUC')}"
        )


@dataclass(frozen=True, repr=False)
class SearchPlan(SearchChoices):
    """Everything that is fixed before training begins.

    Parameters
    ----------
    measures : tuple of Measure
    bounds : dict of the name of a measure to its bounds
    """

    measures: Annotated[Any, IN_PYTHON] = ()
    bounds: Annotated[Any, IN_PYTHON] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.models, str):
            object.__setattr__(self, "models", (self.models,))
        Tolerance.parse(self.within)
        for kind in self.models:
            try:
                hidden_layers(kind)
            except InputError as error:
                raise error.with_facts(argument=argument("models", kind)) from None
            for measure in self.measures:
                self.settings(kind, measure)

    @property
    def tolerance(self) -> Tolerance:
        """How much worse than the baseline an alternative may be."""
        return Tolerance.parse(self.within)

    def settings(self, kind: str, measure: Measure) -> StudySettings:
        """Return the settings of one frontier."""
        side = ">=" if measure.larger_is_stricter else "<="
        bounds = self.bounds[measure.name]
        return StudySettings.build(
            parse_constraint(f"{measure.name} {side} {bounds[0]!r}"),
            bounds,
            model=kind,
            test_size=0.0,
            seed=self.seed,
            groups=self.groups,
        )

    def as_call(self) -> str:
        """Return the call of `alternatives` with this plan."""
        plan = self.as_dict()
        given = {
            "bounds": plan["bounds"],
            "models": plan["models"],
            **{name: value for name, value in self.changed().items() if name not in ("measures", "bounds", "models")},
        }
        written = ", ".join(f"{name}={value!r}" for name, value in given.items())
        return f"fairbound.alternatives(data, {plan['measures']}, {written})"

    def as_dict(self) -> dict[str, Any]:
        """Return the plan in plain values."""
        return {
            **vars(self),
            "measures": [measure.name for measure in self.measures],
            "groups": self.groups.get_params(),
            "bounds": {name: list(bounds) for name, bounds in self.bounds.items()},
            "models": list(self.models),
            "tolerance": vars(self.tolerance),
        }


def compared_measures(measures: Any) -> tuple[Measure, ...]:
    """Return the measures of a search; raise an error unless they are ratios or differences."""
    several = [measures] if isinstance(measures, str | Measure) else list(measures)
    if not several:
        raise InputError("{measures=} is empty.", "Name at least one, such as disparate_impact.")
    found = tuple(resolve_measure(measure) for measure in several)
    for measure in found:
        if measure.comparison not in ("ratio", "difference"):
            raise InputError(
                "{name!r} is neither a ratio nor a difference between groups.",
                "Name such a measure, for example disparate_impact.",
                name=measure.name,
            )
    return found


def grids(measures: tuple[Measure, ...], given: Any) -> dict[str, tuple[float, ...]]:
    """Return the bounds of each measure from loose to strict: the given ones, or four by default."""
    if given is not None and not isinstance(given, Mapping):
        if len(measures) > 1:
            raise InputError(
                "{bounds=} is one grid, but there are several measures.", "Give a mapping of measures to bounds."
            )
        given = {measures[0].name: given}
    found = {}
    for measure in measures:
        usual = RATIOS if measure.larger_is_stricter else DIFFERENCES
        chosen = usual if given is None or measure.name not in given else given[measure.name]
        found[measure.name] = tuple(sorted({float(each) for each in chosen}, reverse=not measure.larger_is_stricter))
    return found
