"""A study: a model without limits and one with them, trained on the same rows and compared on held-out rows."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from html import escape
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from fairbound._errors import InputError, NameOf, python_name, render
from fairbound._model_settings import Callback
from fairbound._settings import takes
from fairbound._study_settings import StudyChoices
from fairbound._text_tables import TextTable, page_as_html, page_as_text
from fairbound.data import Dataset, count_rows
from fairbound.fairness import Constraint, shortest
from fairbound.studies.first_look import columns_taken, label_values, remarks
from fairbound.studies.fit_notes import base_notes, collected_warnings, small_group_notes
from fairbound.studies.folder import write_study
from fairbound.studies.importance import explain
from fairbound.studies.judged import scores_by
from fairbound.studies.lock import reproduction_of, study_lock
from fairbound.studies.measured import Decisions, SweptPoint, summarize
from fairbound.studies.model_choice import choose_model
from fairbound.studies.parts import Part, check_limits, study_parts, with_sensitive
from fairbound.studies.settings import Stage, StudySettings, make_base, named_stages, with_floors
from fairbound.studies.summary import Summary
from fairbound.studies.tables import GAIN, frontier_table, summary_tables

if TYPE_CHECKING:
    from fairbound.estimator import ConstrainedClassifier, FitResult, FittedBase, FrontierModel
    from fairbound.training import Passes


@takes(StudyChoices)
def study(
    data: Dataset,
    limits: Constraint | str | Iterable[Constraint | str] = (),
    *,
    bounds: Sequence[float] | None = None,
    sensitive: str | Sequence[str] | None = None,
    held_out: Dataset | None = None,
    callback: Callback | None = None,
    resume: str | os.PathLike[str] | None = None,
    **settings: Any,
) -> Study:
    """Train a model without limits and one with them, and compare both on held-out rows.

    This is what `fairbound train` does; with `bounds` it is what `fairbound frontier` does.

    Parameters
    ----------
    data : Dataset
        From `read_table` or `load_dataset`.
    limits : Constraint, str, or several
        Such as `DisparateImpact(0.8)` or "disparate_impact >= 0.8".  Without any, only one model is trained.
    bounds : sequence of float, optional
        Further bounds of the first limit.  A model is trained for each, and `frontier` has them all.
    sensitive : str or sequence of str, optional
        The sensitive columns; by default all of the data, but only the first of a data set of `load_dataset`.
    held_out : Dataset, optional
        Rows to hold out; they replace those that would be drawn.
    callback : function of a dictionary, optional
        Called with every row of the history; "stage" names the model.  If it returns True, training ends early.
    resume : path, optional
        A folder for the journal of the run, as for `ConstrainedClassifier.fit`.
    **settings
        How the models are trained and tested: the fields of `StudyChoices`.

    Examples
    --------
    >>> from fairbound import load_dataset
    >>> found = study(load_dataset("law"), "disparate_impact >= 0.9")
    >>> found.result.kept  # on the training rows; `found.kept` asks for the held-out rows, too
    True
    >>> found.after.predict(found.held_out.X)[:2].tolist()
    ['passed the bar', 'passed the bar']
    """
    data = with_sensitive(data, sensitive)
    found = Study(data, StudySettings.build(limits, bounds, **settings), held_out=held_out)
    from fairbound.training import resumed

    with resumed(resume) as found.passes:
        return found.run(callback)


class Study:
    """A data set, limits, a model without limits and one with them; `study` makes and runs it.

    Parameters
    ----------
    data : Dataset
    settings : StudySettings
    held_out : Dataset, optional
        Rows to hold out; they replace those that would be drawn.
    command : str, optional
        The command that repeats the study; by default the call.
    name_of : function, optional
        Returns the name of an argument for notes; by default as in Python.

    Attributes
    ----------
    training, calibration, held_out : Part
        The rows, each with `X`, `y`, `sensitive` and `weight`; calibration and held-out rows may be None.
    limits : tuple of Constraint
        The limits of the model `after`.
    before : ConstrainedClassifier or None
        The model without limits; None if there is nothing to compare it with.
    after : ConstrainedClassifier
        The model with the limits, or the only model.
    frontier : tuple of FrontierModel
        With `bounds`: a fitted classifier for each bound, from loose to strict.
    lock : dict
        Limits and settings with their hash, made before training.
    remarks : list of str
        What to know about the data before training.
    passes : Passes or None
        With the journal of the run, if it has one; None before `run`.
    """

    before: ConstrainedClassifier | None
    after: ConstrainedClassifier
    frontier: tuple[FrontierModel, ...] = ()
    passes: Passes | None = None

    def __init__(
        self,
        data: Dataset,
        settings: StudySettings,
        *,
        held_out: Dataset | None = None,
        command: str = "",
        name_of: NameOf = python_name,
    ) -> None:
        if settings.confidence is not None and data.weight is not None:
            raise InputError("{confidence=} tests on rows of equal weight.", "Leave out {weight=} or {confidence=}.")
        if held_out is not None:
            held_out = with_sensitive(held_out, list(data.sensitive))
        self.data, self.settings = data, settings
        self.training, self.calibration, self.held_out = study_parts(data, settings, held_out)
        check_limits(self.training, settings)
        self.limits, self.lock = settings.limits, study_lock(data, settings)
        self.command, self.name_of, self._warnings = command or settings.as_call(), name_of, list[str]()
        self._choice = list[str]()
        self.remarks = [render(note, name_of) for note in remarks(data)]

    def run(self, callback: Callback | None = None, *, stage: Stage | None = None, free: Any = None) -> Self:
        """Train the models.

        Parameters
        ----------
        callback : function of a dictionary, optional
            As for `study`.
        stage : function of str, optional
            In place of `callback`: returns a context for each stage of the training, given its name.  The context
            yields the function that is called with the rows of the history, or None.
        free : ConstrainedClassifier, optional
            The model without limits, if it was trained on these rows already.
        """
        started = time.perf_counter()
        try:
            return self._run(stage or named_stages(callback), free)
        finally:
            self.seconds = time.perf_counter() - started

    def _run(self, stage: Stage, free: Any) -> Self:
        from fairbound.training import Passes

        self.passes = self.passes or Passes()
        if self.settings.model == "auto":
            with stage("Choosing the model"):
                choice = choose_model(self.training, self.settings, self.positive)
            self.settings = replace(self.settings, model=choice.model)
            self._choice = [choice.reason]
        if free is None:
            with stage("Training without limits") as watch:
                free = self._fit((), watch)
        self.before, self.after, self.limits = None, free, ()
        if self.interrupted or not self.settings.limits:
            return self
        if self.settings.bounds:
            with stage(f"Training for {len(self.settings.bounds)} bounds") as watch:
                found = self._trace(watch)
            self.frontier = tuple(point for point in found if not self.interrupted or _is_finished(point))
            if self.frontier:
                self._choose(free)
            return self
        name = "Training under the limits" if self.settings.confidence is None else "Training for the confidence"
        with stage(name) as watch:
            after = self._fit(self.settings.limits, watch)
        self.before, self.after, self.limits = free, after, with_floors(self.settings.limits, after.result_)
        return self

    @property
    def result(self) -> FitResult:
        """The record of the fit of `after`."""
        return self.after.result_

    @property
    def interrupted(self) -> bool:
        """Whether a callback ended training."""
        return self.passes is not None and self.passes.stopped

    @property
    def kept(self) -> bool:
        """Whether every limit is kept on the training rows and on the held-out rows.

        With `confidence`, the model must have passed on the calibration rows, and the held-out rows refute no limit.
        """
        return self.summary.kept

    @property
    def interruption(self) -> str:
        """What was finished before an interrupt, as the end of "The folder has ..."; empty without an interrupt."""
        if not self.interrupted:
            return ""
        if not self.settings.limits:
            return "the model at the time of the interrupt."
        if not self.limits:
            return "the model without limits at the time of the interrupt; the limits were not tried."
        if self.frontier:
            finished = ", ".join(shortest(point.bound) for point in self.frontier)
            return f"the {len(self.frontier)} of {len(self.settings.bounds)} bounds that were finished: {finished}."
        state = "keeps every limit" if self.result.kept else "does not keep every limit"
        uncertified = " and is not certified" if self.result.certified is False else ""
        return f"the best model found so far, which {state} on the training rows{uncertified}."

    @property
    def positive(self) -> str | None:
        """The positive one of two labels."""
        return str(self.data.target_names[1]) if len(self.data.target_names) == 2 else None

    @cached_property
    def summary(self) -> Summary:
        """Everything that the study found."""
        training, of_training = self._decisions(self.training)
        held_out, of_held_out = (None, []) if self.held_out is None else self._decisions(self.held_out)
        return summarize(
            self.limits,
            training,
            held_out,
            target=self.data.target,
            result=replace(self.result, seconds=self.seconds),
            model=explain(self.after, self.training, self.held_out, self.settings),
            frontier=[
                SweptPoint(point=point, training=here, held_out=there)
                for point, here, there in zip_longest(self.frontier, of_training, of_held_out)
            ]
            or None,
            reproduction=reproduction_of(self.data, self.settings, self.command, self.lock),
            notes=[render(note, self.name_of) for note in self._notes()],
            interrupted=self.interruption,
            confidence=self.settings.level,
            groups=self.settings.groups.combine,
            pos_label=self.positive,
            settle=self.after.settle_groups,
            label=tuple(label_values(self.data)),
            taken=tuple(columns_taken(self.data, self.name_of)),
        )

    def write(self, folder: str | os.PathLike[str], *, overwrite: bool = False, models: bool = True) -> None:
        """Write the model, its numbers and its report to a folder, which appears only when it is complete.

        Parameters
        ----------
        folder : path
        overwrite : bool
            Whether an existing study is replaced.  Anything else is never replaced.
        models : bool
            With `bounds`: whether to write the model of every bound, or only the chosen one.
        """
        write_study(self, Path(folder), overwrite=overwrite, models=models)

    def describe(self) -> str:
        """Return the data and the sizes of the parts in a sentence."""
        sizes = [f"{self.training.data.n_rows:,} for training"]
        if self.calibration is not None:
            sizes.append(f"{self.calibration.data.n_rows:,} for calibration")
        sizes.append(f"{self.held_out.data.n_rows:,} held out" if self.held_out is not None else "none held out")
        positive = f" (positive: {self.positive})" if self.positive is not None else ""
        return (
            f"{self.data.name}: {self.data.n_rows:,} rows, {', '.join(sizes)}. Label: {self.data.target}{positive}. "
            f"Groups: {', '.join(self.data.sensitive)}."
        )

    def __repr__(self) -> str:
        state = f"{self.result.status.value}" if hasattr(self, "after") else "not run"
        return f"<Study of {self.data.name!r}: {', '.join(map(str, self.settings.limits)) or 'no limits'}; {state}>"

    def __str__(self) -> str:
        return page_as_text(*self._page()) if hasattr(self, "after") else self.describe()

    def _repr_html_(self) -> str:
        return page_as_html(*self._page()) if hasattr(self, "after") else f"<p>{escape(self.describe())}</p>"

    def _page(self) -> tuple[str, list[TextTable], list[str]]:
        """Return heading, tables and notes; the verdict comes first."""
        from fairbound.report import in_short

        summary, tables = self.summary, summary_tables(self.summary)
        tables += [frontier_table(summary)] if summary.frontier else []
        notes = [*([GAIN] if summary.frontier else []), *self.about_new_rows, *summary.rows_without_group()]
        return " ".join([self.describe(), *in_short(summary)]), tables, [*notes, *summary.notes]

    @property
    def about_new_rows(self) -> list[str]:
        """The margin, the forecast, and what a confidence claims."""
        claim = [self.result.claim] if self.result.certified else []  # if no model passed, the message says so
        return [*self.result.about_new_rows, *claim]

    def _fit(self, limits: Sequence[Constraint], callback: Callback | None) -> ConstrainedClassifier:
        """Train on the training rows; with a confidence, test on the calibration rows."""
        apart, (base, rows) = self.calibration if limits else None, self._rows(limited=bool(limits))
        with collected_warnings() as self._warnings:
            fitted = self._classifier(limits, callback, base).fit(
                **rows, calibration_set=None if apart is None else (apart.X, apart.y, apart.sensitive)
            )
        self._release(fitted)
        return fitted

    def _classifier(self, limits: Sequence[Constraint], callback: Callback | None, base: Any) -> ConstrainedClassifier:
        return self.settings.classifier(limits, self.positive, callback, base, self.data.max_categories)

    def _trace(self, callback: Callback | None) -> tuple[FrontierModel, ...]:
        """Train a classifier for each bound of the first limit."""
        base, rows = self._rows(limited=True)
        with collected_warnings():  # the records of the models say the same
            classifier = self._classifier(self.settings.limits, callback, base)
            found = classifier.frontier(**rows, bounds=self.settings.bounds)
        self._warnings = []
        for each in found:
            self._release(each.classifier)
        return found

    def _rows(self, *, limited: bool) -> tuple[FittedBase | None, dict[str, Any]]:
        """Return the base of the model without limits, which is cross-fitted once, and the rows to fit."""
        base, scores = (self.after.base_, self.after.base_score_) if limited else (None, None)
        rows = self.training
        return base, {
            "X": rows.inputs,
            "y": rows.y,
            "sensitive_features": rows.sensitive,
            "sample_weight": rows.weight,
            "base_score": scores,
            "resume": self.passes,
        }

    def _release(self, fitted: ConstrainedClassifier) -> None:
        """Make a fitted classifier independent of this study: no callbacks, its base, the columns by name."""
        fitted.callbacks, fitted.by_name_ = (), True
        fitted.base = make_base(self.settings.model, self.settings.seed)  # `fit` trains it again
        fitted.formats_ = {name: form for name, form in self.data.formats.items() if name in self.data.schema}

    def _choose(self, free: ConstrainedClassifier) -> None:
        """Take the model of the first limit's own bound; if that was not finished, the one in the middle."""
        swept, *others = self.settings.limits
        bounds = [point.bound for point in self.frontier]
        place = bounds.index(swept.bound) if swept.bound in bounds else len(bounds) // 2
        chosen = self.frontier[place]
        own = (swept.with_bound(chosen.bound), *others)
        self.before, self.after, self.limits = free, chosen.classifier, with_floors(own, chosen.result)

    def _decisions(self, part: Part) -> tuple[Decisions, list[Any]]:
        """Return the decisions about a part, and those of the models of a frontier.

        In several processes these are the decisions of all; without weights, rows that are alike are one.
        """
        own = {"y": part.y, "after": self._decide(self.after, part)}
        if self.before is not None:
            own["before"] = self._decide(self.before, part)
        points = {f"point {place}": self._decide(each.classifier, part) for place, each in enumerate(self.frontier)}
        if part.data.processes is None:
            scores = scores_by(self.after, part) if part is self.held_out and part.weight is None else None
            named: dict[str, Any] = {"sensitive_features": part.sensitive, "sample_weight": part.weight}
            return Decisions(**own, **named, scores=scores), [*points.values()]
        own |= points | {f"group {name}": values for name, values in part.sensitive.items()}
        rows = np.ones(len(part), dtype=np.int64)
        if part.weight is None:
            own, rows = count_rows(own)
        else:
            own["weight"] = part.weight
        found = part.data.processes.gather((own, rows))
        whole = {name: np.concatenate([columns[name] for columns, _ in found]) for name in own}
        decisions = Decisions(
            y=whole["y"],
            sensitive_features={name: whole[f"group {name}"] for name in part.sensitive},
            before=whole.get("before"),
            after=whole["after"],
            sample_weight=whole.get("weight"),
            repeats=np.concatenate([each for _, each in found]) if part.weight is None else None,
        )
        return decisions, [whole[name] for name in points]

    def _decide(self, classifier: ConstrainedClassifier, part: Part) -> Any:
        """Return the decisions about a part; a base scores training rows by models that have not seen them."""
        if not len(part):  # of several processes, one may have no held-out row
            return classifier.classes_[:0]
        scores = classifier.base_score_ if part is self.training else None
        return classifier.predict(part.inputs) if scores is None else classifier.predict(part.inputs, base_score=scores)

    def _notes(self) -> list[str]:
        """Return remarks about the data, warnings, and at the end where the rows come from."""
        return [
            *self.remarks,
            *self._choice,
            *(text for text in self._warnings if self.result.message not in text),  # it is shown by itself
            *small_group_notes(self.result),
            *self.result.notes,
            *base_notes(self.result),
            self.data.description,
        ]


def _is_finished(point: FrontierModel) -> bool:
    """Return whether a bound was reached before an interrupt; a degenerate model does not count, as it needs no fit."""
    return point.result.kept and point.result.status.value != "degenerate"
