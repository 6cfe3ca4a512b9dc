"""Search for less discriminatory alternatives: train models under a grid of bounds, and compare them with a baseline.

The rows are divided into three parts:

    training   to train the candidates: each kind of model without limits and under each bound, from loose to strict,
               each fit starting from the one before
    choosing   to evaluate the candidates and the baseline, and to choose one: the candidate within the tolerance that
               has the best value of the first measure
    final      to evaluate the chosen candidate and the baseline; no choice depends on these rows

Grid, tolerance and seed are fixed, written and hashed before training begins (`limits.lock`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from time import process_time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairbound._errors import InputError
from fairbound._model_settings import Callback
from fairbound._settings import takes
from fairbound._study_settings import SearchChoices
from fairbound.data import Dataset, draw_parts
from fairbound.evaluation import holm
from fairbound.fairness import Measure
from fairbound.studies.candidates import Alternative, Alternatives
from fairbound.studies.judged import Baseline, Decided, Judge, Judgement, better, decided_by, dominates
from fairbound.studies.lock import content_hash, locked, reproduction_of, rows_hash
from fairbound.studies.parts import Part, with_sensitive
from fairbound.studies.plan import SearchPlan, compared_measures, grids
from fairbound.studies.running import Study
from fairbound.studies.settings import Stage, named_stages

if TYPE_CHECKING:
    from fairbound.estimator import ConstrainedClassifier


SEEN = (
    "The baseline was trained on rows of this table, so it has seen rows that it is judged by here, and looks more "
    "accurate than on new rows: an alternative may be within the tolerance and not be found. Compare on other rows."
)
ASSUMED = (
    "The comparison assumes that the baseline was not trained on these rows. Otherwise it looks more accurate here "
    "than on new rows, and an alternative within the tolerance may not be found."
)


class Trained(NamedTuple):
    """A model that is not evaluated yet: its kind, the limit of its training, and the seconds of its fit."""

    kind: str
    limit: str | None
    model: ConstrainedClassifier
    seconds: float


@takes(SearchChoices)
def alternatives(
    data: Dataset,
    measures: str | Measure | Iterable[str | Measure] = "disparate_impact",
    *,
    baseline: Any = None,
    baseline_score: Any = None,
    threshold: float = 0.5,
    bounds: Sequence[float] | Mapping[str, Sequence[float]] | None = None,
    sensitive: str | Sequence[str] | None = None,
    callback: Callback | None = None,
    **choices: Any,
) -> Alternatives:
    """Search for less discriminatory alternatives to a baseline.

    Parameters
    ----------
    data : Dataset
        From `read_table` or `load_dataset`, with two labels.
    measures : measure, its name, or several
        The first one decides which alternative is chosen.
    baseline : model, or sequence of n decisions, optional
        A fitted model with `predict`, such as one that `fairbound.load` returns, or decisions about the rows of `data`
        in the words or codes of its label.  By default the most accurate of the models trained without limits.
    baseline_score : sequence of n numbers, optional
        Scores behind the decisions; without decisions, rows with a score of at least `threshold` are selected.
    threshold : float
    bounds : sequence of float, or mapping of measure to them, optional
        The grid; by default four bounds for each measure.
    sensitive : str or sequence of str, optional
    callback : function of a dictionary, optional
        Called at every iteration; if it returns True, the search ends with the models trained so far.
    **choices
        How candidates are trained, compared and chosen: the fields of `SearchChoices`.

    Returns
    -------
    Alternatives

    Examples
    --------
    >>> from fairbound import load_dataset
    >>> law = load_dataset("law").take(range(4000))
    >>> found = alternatives(law, bounds=[0.8, 0.9], models=["linear"])
    >>> len(found.candidates)
    3
    """
    resolved = compared_measures(measures)
    plan = SearchPlan(measures=resolved, bounds=grids(resolved, bounds), **choices)
    given = as_baseline(baseline, baseline_score, threshold)
    return AlternativeSearch(with_sensitive(data, sensitive), plan, given).run(callback)


def as_baseline(
    baseline: Any, scores: Any, threshold: float, *, name: str | None = None, trained_on: str | None = None
) -> Baseline | None:
    """Return the given baseline; None if there is none, so that a trained model becomes the baseline."""
    if hasattr(baseline, "predict"):
        return Baseline(name or "the given model", model=baseline, trained_on=trained_on)
    if baseline is None and scores is None:
        return None
    return Baseline(name or "the given decisions", decisions=baseline, scores=scores, threshold=threshold)


class AlternativeSearch:
    """A search: its rows, baseline and plan.  `alternatives` makes and runs it."""

    def __init__(self, data: Dataset, plan: SearchPlan, baseline: Baseline | None = None) -> None:
        if len(data.target_names) != 2:
            raise InputError(
                "A search needs two labels, but {name} has {count}.", name=data.name, count=len(data.target_names)
            )
        if data.weight is not None:
            raise InputError("A search counts rows, so they cannot have a {weight=}.", "Read the data without it.")
        if plan.choosing_size + plan.final_size >= 1:
            raise InputError("{choosing_size=} and {final_size=} leave no rows to train on.", "Give smaller shares.")
        if baseline is not None:
            baseline.check(len(data))
        self.data, self.plan, self.baseline = data, plan, baseline
        everyone = np.arange(len(data))
        rest, self.final_rows = self._draw(everyone, plan.final_size)
        self.training_rows, self.choosing_rows = self._draw(rest, plan.choosing_size / (1 - plan.final_size))
        self.training = data.take(self.training_rows)
        self.choosing = Part.of(data.take(self.choosing_rows))
        self.command = plan.as_call()
        self.interrupted = False
        rows = {"rows": len(data), "rows_sha256": rows_hash(data)}
        if baseline is None:
            self.baseline_rows = ""
        else:
            self.baseline_rows = SEEN if baseline.trained_on == rows["rows_sha256"] else ASSUMED
        self.lock = locked({"search": plan.as_dict(), "baseline": self._describe_baseline(), **rows})

    def _describe_baseline(self) -> dict[str, str]:
        """Return the baseline in plain values; raise an error if it does not fit the rows or the tolerance."""
        if self.baseline is None:
            return {"name": "the most accurate of the models trained without limits"}
        decided = self.baseline.decide(self.choosing, self.choosing_rows)
        metric = self.plan.tolerance.metric
        if metric != "accuracy" and (decided.scores is None or (metric == "log_loss" and not decided.probabilities)):
            raise InputError(
                "{within=} needs {metric}, but the baseline has no {needed}.",
                "Give {baseline_score=}, or a tolerance of accuracy.",
                metric=metric,
                needed="scores" if decided.scores is None else "scores between 0 and 1",
            )
        return {"name": self.baseline.name, "choosing_decisions_sha256": content_hash(decided.decisions.tolist())}

    def _draw(self, rows: NDArray[np.int64], share: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        part = self.data.take(rows)
        columns = [part.groups(name) for name in part.sensitive]
        kept, drawn = draw_parts(part.y, columns, share, self.plan.seed, part.places)
        return rows[kept], rows[drawn]

    def run(self, callback: Callback | None = None, *, stage: Stage | None = None) -> Alternatives:
        """Train the candidates, evaluate them, and choose one."""
        stage = stage or named_stages(None)
        started = datetime.now(UTC).isoformat(timespec="seconds")
        trained = self._train(callback, stage)
        with stage("Judging"):
            found = self._judge(trained)
        first = self.plan.settings(self.plan.models[0], self.plan.measures[0])
        parts = {"training": self.training_rows, "choosing": self.choosing_rows, "final": self.final_rows}
        log = {
            "started": started,
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            "lock": self.lock,
            "plan": self.plan.as_dict(),
            "interrupted": self.interrupted,
            "baseline_rows": self.baseline_rows,
            "parts": {name: {"rows": len(rows), "sha256": content_hash(rows.tolist())} for name, rows in parts.items()},
            **{key: value for key, value in reproduction_of(self.data, first, self.command).items() if key != "model"},
        }
        return Alternatives(plan=self.plan, log=log, **found)

    def _train(self, callback: Callback | None, stage: Stage) -> list[Trained]:
        """Train every kind without limits and under each bound of each measure."""
        found: list[Trained] = []
        for kind in self.plan.models:
            free: ConstrainedClassifier | None = None
            for measure in self.plan.measures:
                if self.interrupted:
                    return found
                begun = process_time()
                study = Study(self.training, self.plan.settings(kind, measure))
                with stage(f"Training {kind}, {measure.name}"):
                    study.run(callback, free=free)
                self.interrupted = study.interrupted
                each = (process_time() - begun) / (len(study.frontier) + (free is None))
                if free is None:
                    free = study.after if study.before is None else study.before
                    found.append(Trained(kind, None, free, each))
                fitted = [point.classifier for point in study.frontier]
                found += [Trained(kind, str(model.constraints[0]), model, each) for model in fitted]
        return found

    def _judge(self, trained: list[Trained]) -> dict[str, Any]:
        """Evaluate all candidates and the baseline, choose one, and evaluate that one on the final rows."""
        plan = self.plan
        decided = [decided_by(each.model, self.choosing) for each in trained]
        baseline = self.baseline or self._most_accurate(trained, decided)
        beside = baseline.decide(self.choosing, self.choosing_rows)
        options: dict[str, Any] = {"confidence": plan.confidence, "groups": plan.groups.combine}
        judge = Judge(self.choosing, beside, plan.measures, **options)
        reference = judge.judge(beside)
        judged = [judge.judge(each) for each in decided]
        free = sum(each.limit is None for each in trained)
        adjusted = holm([each.paired.p for each in judged], choices=1 if self.baseline else free)
        candidates = tuple(
            Alternative(
                *each,
                judged=found,
                adjusted_p=p,
                within=plan.tolerance.holds(found, reference),
                undominated=not any(dominates(plan.measures, other, found) for other in judged),
            )
            for each, found, p in zip(trained, judged, adjusted, strict=True)
        )
        chosen = self._choose(candidates, reference)
        return {
            "baseline": baseline.name,
            "reference": reference,
            "candidates": candidates,
            "chosen": chosen,
            "final": None if chosen is None else self._evaluate_final(baseline, chosen, options),
            "model": baseline.model,
        }

    def _most_accurate(self, trained: list[Trained], decided: list[Decided]) -> Baseline:
        """Return the most accurate of the models without limits, on the choosing rows."""
        free = [
            (float((found.decisions == self.choosing.data.y).mean()), each)
            for each, found in zip(trained, decided, strict=True)
            if each.limit is None
        ]
        _, best = max(free, key=lambda pair: pair[0])
        return Baseline(f"{best.kind}, no limit", model=best.model)

    def _choose(self, candidates: Sequence[Alternative], reference: Judgement) -> Alternative | None:
        """Return the eligible candidate with the best value of the first measure; None if no candidate is eligible.

        An eligible candidate is within the tolerance, better than the baseline in the first measure, and no worse in
        the others.
        """
        first, *others = self.plan.measures
        eligible = [
            each
            for each in candidates
            if each.within
            and better(first, each.judged.measures[first.name], reference.measures[first.name])
            and not any(
                better(other, reference.measures[other.name], each.judged.measures[other.name]) for other in others
            )
        ]

        def nearness(each: Alternative) -> tuple[float, float]:
            value = each.judged.measures[first.name].value or 0.0
            return (value if first.larger_is_stricter else -value), each.judged.accuracy.value or 0.0

        return max(eligible, key=nearness, default=None)

    def _evaluate_final(
        self, baseline: Baseline, chosen: Alternative, options: Mapping[str, Any]
    ) -> dict[str, Judgement]:
        """Evaluate the chosen model and the baseline on the final rows, which were not used before."""
        part = Part.of(self.data.take(self.final_rows))
        beside = baseline.decide(part, self.final_rows)
        judge = Judge(part, beside, self.plan.measures, **options)
        return {"baseline": judge.judge(beside), "chosen": judge.judge(decided_by(chosen.model, part))}
