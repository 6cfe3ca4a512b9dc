"""The result of a search for less discriminatory alternatives: the candidates, the chosen one, and the log."""

from __future__ import annotations

import csv
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from fairbound._escapes import for_spreadsheet
from fairbound._files import as_utf8, fresh_folder, json_bytes
from fairbound._json import as_record, decode, plain
from fairbound._text_tables import Page, TextTable, data_frame
from fairbound._words import at_least, at_most, count, group_text, number, p_text
from fairbound.evaluation import Estimate
from fairbound.fairness import Measure
from fairbound.studies.folder import MODEL_FOLDER
from fairbound.studies.judged import Judgement, better
from fairbound.studies.lock import write_lock

if TYPE_CHECKING:
    from fairbound.estimator import ConstrainedClassifier
    from fairbound.studies.plan import SearchPlan

CHOSEN_ON = (
    "Each interval holds by itself, and each p-value for a named baseline: they are not adjusted for the number of "
    "models. Adjusted p-values are in the log and the CSV file. The model was chosen on the rows of the table, so its "
    "numbers there are too optimistic. Its numbers on the final rows are not."
)
LOG_FILE = "search.json"
TABLE_FILE = "alternatives.csv"


@dataclass(frozen=True)
class Alternative:
    """A model of the search.

    Attributes
    ----------
    kind : str
        Such as "linear" or "boosted".
    limit : str or None
        The limit of its training; None without limits.
    model : ConstrainedClassifier
    seconds : float
        Processor time of its fit; models that were trained together share their time equally.
    judged : Judgement
        Its evaluation on the choosing rows.
    adjusted_p : float
        The p-value of the paired test of its accuracy, adjusted for the number of candidates (Holm), and of models that
        might have been the baseline.
    within : bool
        Whether it is within the tolerance of the baseline.
    undominated : bool
        Whether no other candidate beats it in accuracy and every measure.
    """

    kind: str
    limit: str | None
    model: ConstrainedClassifier = field(repr=False)
    seconds: float
    judged: Judgement = field(repr=False)
    adjusted_p: float
    within: bool
    undominated: bool

    @property
    def name(self) -> str:
        """The kind and the limit."""
        return f"{self.kind}, {self.limit or 'no limit'}"

    @property
    def status(self) -> str:
        """The status of its fit."""
        return self.model.result_.status.value

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the model."""
        fit = self.model.result_
        own = {"name": self.name, "status": self.status, "kept": fit.kept, "training_accuracy": fit.accuracy}
        return {**own, **{name: value for name, value in vars(self).items() if name != "model"}}


@dataclass(frozen=True)
class Alternatives(Page):
    """The result of `alternatives`.

    Use it through `print`, `to_frame()`, `to_dict()` and `write(folder)`.

    Attributes
    ----------
    plan : SearchPlan
        What was fixed before training began.
    log : dict
        Times, seeds, versions, the hash of the data, the parts of the rows, and the lock.
    baseline : str
        The name of the baseline.
    reference : Judgement
        The baseline on the choosing rows.
    candidates : tuple of Alternative
    chosen : Alternative or None
        The candidate within the tolerance that has the best value of the first measure; None if none is better than
        the baseline.
    final : dict or None
        `Judgement` of the "baseline" and the "chosen" one, on rows that had no part in training or choosing.
    model : object or None
        The baseline, if it is a model.
    """

    plan: SearchPlan
    log: dict[str, Any] = field(repr=False)
    baseline: str
    reference: Judgement = field(repr=False)
    candidates: tuple[Alternative, ...] = field(repr=False)
    chosen: Alternative | None
    final: dict[str, Judgement] | None = field(repr=False)
    model: Any = field(repr=False, default=None)

    @property
    def undominated(self) -> tuple[Alternative, ...]:
        """The candidates that no other one beats in accuracy and every measure, on the choosing rows."""
        return tuple(each for each in self.candidates if each.undominated)

    @property
    def sentence(self) -> str:
        """What the search found within the tolerance, for each measure."""
        if any(each.within for each in self.candidates):
            return " ".join(self._within(measure) for measure in self.plan.measures)
        rows = f"on {count(self.reference.rows)} held-out rows"
        return f"{self._searched} is within {self.plan.tolerance} of the baseline ({rows})."

    @property
    def _searched(self) -> str:
        models = "model" if len(self.candidates) == 1 else "models"
        return f"Among the {len(self.candidates)} {models} searched, none"

    def _within(self, measure: Measure) -> str:
        searched = self._searched
        inside = [each.judged.measures[measure.name].value for each in self.candidates if each.within]
        values = [value for value in inside if value is not None]
        where = f"(on {count(self.reference.rows)} held-out rows; the baseline has {{value}})."
        where = where.format(value=number(self.reference.measures[measure.name].value, 4))
        if not values:
            return f"{searched} within {self.plan.tolerance} has a defined {measure.name} {where}"
        a_measure = f"{'an' if measure.name[0] in 'aeiou' else 'a'} {measure.name}"
        if measure.larger_is_stricter:
            return f"{searched} within {self.plan.tolerance} has {a_measure} above {at_most(max(values))} {where}"
        return f"{searched} within {self.plan.tolerance} has {a_measure} below {at_least(min(values))} {where}"

    @property
    def note(self) -> str:
        """What the numbers assume."""
        return f"{CHOSEN_ON} {self.log['baseline_rows']}".rstrip()

    @property
    def verdict(self) -> str:
        """The evaluation of the chosen model on the final rows, in a sentence."""
        if self.chosen is None or self.final is None:
            if any(each.within for each in self.candidates):
                return "No candidate within the tolerance has a smaller disparity than the baseline: none is chosen."
            return "No candidate is within the tolerance: none is chosen."
        before, after = self.final["baseline"], self.final["chosen"]
        moved = "; ".join(
            f"{measure.name} {_shown(after.measures[measure.name])} instead of {_shown(before.measures[measure.name])}"
            for measure in self.plan.measures
        )
        paired = after.paired
        first = self.plan.measures[0]
        doubts = []
        if not better(first, after.measures[first.name], before.measures[first.name]):
            doubts.append(f"Its smaller disparity ({first.name}) is not confirmed on the final rows.")
        if not self.plan.tolerance.holds(after, before):
            doubts.append(f"On the final rows it is not within {self.plan.tolerance} of the baseline.")
        found = (
            f"Chosen: {self.chosen.name}. On {count(after.rows)} final rows, which had no part in training or "
            f"choosing: {moved}; accuracy {after.accuracy.value:.2%} instead of {before.accuracy.value:.2%} "
            f"({100 * paired.difference:+.2f} points, McNemar p: {p_text(paired.p)}); {count(after.changed)} decisions "
            "change."
        )
        return " ".join([found, *doubts])

    def to_dict(self) -> dict[str, Any]:
        """Return the complete log of the search as JSON values."""
        return plain(
            {
                "schema": "fairbound.search",
                "version": 1,
                **{("fairbound" if key == "version" else key): value for key, value in self.log.items()},
                "baseline": {"name": self.baseline, "judged": self.reference},
                "candidates": [{**each.to_dict(), "seed": self.plan.seed} for each in self.candidates],
                "chosen": None if self.chosen is None else self.chosen.name,
                "final": self.final,
                "sentence": self.sentence,
                "verdict": self.verdict,
                "note": self.note,
            }
        )

    def lines(self) -> list[dict[str, Any]]:
        """Return a line for the baseline and for each candidate, with plain numbers."""
        found = [{"model": self.baseline, "role": "baseline", **_numbers(self.reference)}]
        for each in self.candidates:
            known = {"model": each.name, "role": "chosen" if each is self.chosen else "candidate"}
            further = {"within": each.within, "undominated": each.undominated, "status": each.status}
            found.append({**known, **_numbers(each.judged), "mcnemar_p_adjusted": each.adjusted_p, **further})
        return found

    def to_frame(self) -> Any:
        """Return a pandas data frame with a line for the baseline and for each candidate."""
        return data_frame(self.lines())

    def tables(self) -> list[TextTable]:
        """Return a table of the candidates, and one of the decisions that the chosen one changes."""
        names = [measure.name for measure in self.plan.measures]
        header = ("model", "", "accuracy", "AUC", "log loss", *names, "changed", "p (McNemar)")
        rows = [(f"baseline: {self.baseline}", "", *self._texts(self.reference))]
        for each in self.candidates:
            marks = "chosen" if each is self.chosen else "within" if each.within else ""
            marks += "*" if each.undominated else ""
            rows.append((each.name, marks, *self._texts(each.judged)))
        tables = [
            TextTable(f"On {count(self.reference.rows)} held-out rows (* undominated)", header, tuple(rows), left=2)
        ]
        if self.chosen is not None and self.final is not None:
            tables.append(
                TextTable(
                    f"Decisions that {self.chosen.name} changes, on the final rows",
                    ("groups of", "group", "rows", "now selected", "no longer selected"),
                    tuple(
                        (each.grouping, group_text(each.group), count(each.rows), count(each.gained), count(each.lost))
                        for each in self.final["chosen"].groups
                    ),
                    left=2,
                )
            )
        return tables

    def _texts(self, judged: Judgement) -> tuple[str, ...]:
        return (
            f"{judged.accuracy.value:.2%}",
            "-" if judged.auc is None else number(judged.auc.value),
            number(judged.log_loss),
            *(str(estimate) for estimate in judged.measures.values()),
            count(judged.changed),
            p_text(judged.paired.p) if judged.changed else "-",
        )

    def _page(self) -> tuple[str, list[TextTable], list[str]]:
        heading = f"Search for alternatives: {len(self.candidates)} models beside {self.baseline}"
        return heading, self.tables(), [self.sentence, self.verdict, self.note]

    def write(self, folder: str | Path) -> None:
        """Write log, table, report and the chosen model to a new folder, which appears only when it is complete."""
        place = Path(folder)
        if place.exists() or place.is_symlink():
            raise FileExistsError(f"{place} exists already. Give another folder, or remove it first.")
        with fresh_folder(place) as inner:
            self.write_files(inner)

    def write_files(self, folder: Path) -> None:
        """Write everything into a folder, which may already have the lock."""
        from fairbound.report import search_to_html

        write_lock(self.log["lock"], folder)
        found = self.to_dict()
        (folder / LOG_FILE).write_bytes(json_bytes(found))
        lines = self.lines()
        with (folder / TABLE_FILE).open("w", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, list(lines[-1]), restval="")
            writer.writeheader()
            writer.writerows([{key: for_spreadsheet(value) for key, value in line.items()} for line in lines])
        (folder / "report.html").write_bytes(as_utf8(search_to_html(self)))
        if self.chosen is not None:
            self.chosen.model.save(folder / MODEL_FOLDER)


class _Candidate(Struct):
    name: str
    within: bool
    judged: Judgement


class _Plan(Struct):
    measures: list[str]


class _Lock(Struct):
    sha256: str
    written: str


class _Search(Struct):
    """What a document reads from a search."""

    sentence: str
    verdict: str
    note: str
    chosen: str | None
    candidates: list[_Candidate]
    plan: _Plan
    data: dict[str, Any]
    lock: _Lock


def read_search(path: str | Path) -> dict[str, Any]:
    """Return the log of a search from its file."""
    try:
        found = decode(Path(path).read_bytes())
    except ValueError as error:
        raise ValueError(f"{path} is not a search: {error}. Give the search.json of a search.") from None
    if not isinstance(found, dict) or found.get("schema") != "fairbound.search":
        raise ValueError(f"{path} is not a search. Give the search.json of a search.")
    try:
        as_record(found, _Search)
    except ValueError as error:
        raise ValueError(f"{path} was changed after the search: {error}. Give the file that it has written.") from None
    return found


def _numbers(judged: Judgement) -> dict[str, Any]:
    """Return an evaluation as numbers by name, with the ends of each interval."""
    estimates = {"accuracy": judged.accuracy, "auc": judged.auc or Estimate(), **judged.measures}
    ends = {
        f"{name}{end and '_'}{end}": getattr(found, end or "value")
        for name, found in estimates.items()
        for end in ("", "lower", "upper")
    }
    further = {"accuracy_difference": judged.paired.difference, "mcnemar_p": judged.paired.p}
    return {**ends, "log_loss": judged.log_loss, "changed": judged.changed, **further}


def _shown(estimate: Estimate) -> str:
    if estimate.value is None:
        return "undefined"
    return f"{number(estimate.value)} ({number(estimate.lower)} to {number(estimate.upper)})"
