"""Views of a study: a short dictionary of its numbers, tables, and the folder with all its files."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairbound._files import CONTENT, draft_beside, json_bytes, publish
from fairbound._words import TextTable, group_text, number
from fairbound.fairness import shortest
from fairbound.studies.parts import columns_taken, label_values
from fairbound.studies.plan import write_lock

if TYPE_CHECKING:
    from fairbound.studies.running import Study


RATES = ("selection_rate", "true_positive_rate", "false_positive_rate")


def metrics_of(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return the most important numbers of a summary."""
    parts = {name: part for name, part in summary["parts"].items() if part is not None}
    held_out = summary["parts"]["held_out"]
    return {
        "status": summary["run"]["status"],
        "message": summary["run"]["message"],
        "conflicts": summary["run"]["conflicts"],
        "kept": is_kept(summary),
        "limits": [
            {key: limit[key] for key in ("text", "measure", "loss_price", "training", "held_out")}
            for limit in summary["limits"]
        ],
        "certificate": None if held_out is None else _verdicts(held_out["certificate"]),
        "calibration": _verdicts(summary["calibration"]),
        "accuracy": {name: part["accuracy"] for name, part in parts.items()},
        "groups": {
            name: {model: rates_by_group(part, model) for model in ("before", "after") if part[model] is not None}
            for name, part in parts.items()
        },
        "rows": {name: part["rows"] for name, part in parts.items()},
        "seconds": summary["run"]["seconds"],
        "interrupted": bool(summary["run"]["interrupted"]),
        "reproduction": summary["reproduction"],
        "notes": summary["notes"],
    }


def is_kept(summary: Mapping[str, Any]) -> bool:
    """Return whether every limit is kept on the training rows and on the held-out rows.

    With `confidence=`, the test on the calibration rows is about new rows, and must be passed.  Then a value on the
    held-out rows that chance explains does not count, only the verdict FAIL.
    """
    limits, held_out, calibration = summary["limits"], summary["parts"]["held_out"], summary["calibration"]
    if not all(limit["training"]["after"]["kept"] for limit in limits):
        return False
    if calibration is not None and calibration["verdict"] != "PASS":
        return False
    if held_out is None or not limits:
        return True
    if calibration is not None:
        return bool(held_out["certificate"]["verdict"] != "FAIL")
    return all(limit["held_out"]["after"]["kept"] is not False for limit in limits)


def rates_by_group(part: Mapping[str, Any], model: str = "after") -> list[dict[str, Any]]:
    """Return the rates of each group; with several classes those of each class."""
    return [
        {
            "grouping": group["grouping"],
            "group": group["group"],
            "everyone": group["everyone"],
            "rows": group["rows"],
            "rates": {
                rate.replace("_", " ") + (f" of {label}" if len(group["rates"]) > 1 else ""): rates[rate]["value"]
                for label, rates in group["rates"].items()
                for rate in RATES
            },
        }
        for group in part[model]["groups"]
    ]


def _verdicts(certificate: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if certificate is None:
        return None
    return {
        "verdict": certificate["verdict"],
        "confidence": certificate["confidence"],
        "rows": certificate["rows"],
        "limits": [
            {key: limit[key] for key in ("limit", "verdict", "value", "bounds", "reason")}
            for limit in certificate["limits"]
        ],
    }


def summary_tables(summary: Mapping[str, Any]) -> list[TextTable]:
    """Return tables of accuracy and rates by group, before and after, and of the limits."""
    tables = [_overview_table(summary)]
    tables += [_class_table(summary)] if len(summary["classes"]) > 2 else []
    return [*tables, *([_limit_table(summary)] if summary["limits"] else [])]


def _shown_part(summary: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[str]]:
    """Return the held-out rows if there are some, else the training rows; and the models: "before", "after"."""
    part = summary["parts"]["held_out"] or summary["parts"]["training"]
    return part, [model for model in ("before", "after") if part[model] is not None]


def _groups(part: Mapping[str, Any], models: Sequence[str]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield the name of each group, and its rates by each model."""
    several = len(part["after"]["missing"]) > 1  # with several sensitive columns, names of groups may repeat
    for groups in zip(*(rates_by_group(part, model) for model in models), strict=True):
        name = group_text(None if groups[0]["everyone"] else groups[0]["group"])
        yield f"{groups[0]['grouping']}: {name}" if several else name, list(groups)


def _class_table(summary: Mapping[str, Any]) -> TextTable:
    """Return one line for each group and class, with its rates side by side."""
    part, models = _shown_part(summary)
    lines = []
    for name, groups in _groups(part, models):
        for label in part["after"]["groups"][0]["rates"]:
            rates = [f"{rate.replace('_', ' ')} of {label}" for rate in RATES]
            cells = [" -> ".join(number(group["rates"][rate], 4) for group in groups) for rate in rates]
            lines.append((name, label, *cells))
    said = " (no limit -> with limits)" if len(models) == 2 else ""
    header = ("group", "class", *(rate.replace("_", " ") for rate in RATES))
    return TextTable(f"Rates of each class{said}", header, tuple(lines), left=2)


def _overview_table(summary: Mapping[str, Any]) -> TextTable:
    """Return accuracy and, with two classes, the rates by group."""
    part, models = _shown_part(summary)
    where = "training rows" if summary["parts"]["held_out"] is None else "held-out rows"
    headings = ("no limit", "with limits") if len(models) == 2 else ("no limit" if not summary["limits"] else "",)
    accuracy = part["accuracy"]
    rows = [
        ("accuracy", *(f"{accuracy[model]['value']:.2%}" for model in models)),
        (
            "gain over the best constant prediction",
            *(f"{100 * (accuracy[model]['value'] - accuracy['constant']):+.2f} points" for model in models),
        ),
    ]
    if len(summary["classes"]) == 2:
        for name, groups in _groups(part, models):
            for rate in groups[0]["rates"]:
                rows.append((f"{rate}, {name}", *(number(group["rates"][rate], 4) for group in groups)))
    return TextTable(f"{part['rows']:,} {where}", ("", *headings), tuple(rows))


def _limit_table(summary: Mapping[str, Any]) -> TextTable:
    """Return a table of the value of each limit on each part of the rows, and the verdicts."""
    held_out = summary["parts"]["held_out"]
    certificate = held_out["certificate"] if held_out is not None else None
    calibration = summary["calibration"]
    header = ["limit", "training rows", "kept"]
    header += ["held-out rows", f"verdict, {100 * summary['confidence']:g}%"] if certificate is not None else []
    header += ["calibration"] if calibration is not None else []
    rows = []
    for position, limit in enumerate(summary["limits"]):
        reached = limit["training"]["after"]
        row = [limit["text"], number(reached["value"], 4), "kept" if reached["kept"] else "NOT KEPT"]
        if certificate is not None:
            row += [number(limit["held_out"]["after"]["value"], 4), certificate["limits"][position]["verdict"]]
        if calibration is not None:
            row += [calibration["limits"][position]["verdict"]]
        rows.append(tuple(row))
    return TextTable("Limits", tuple(header), tuple(rows))


def frontier_lines(frontier: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the points of a frontier as lines of a table of numbers."""
    return [_line(point) for point in frontier["points"]]


def _line(point: Mapping[str, Any]) -> dict[str, Any]:
    line: dict[str, Any] = {"bound": point["bound"], "status": point["status"]}
    for name in ("training", "held_out"):
        part = point[name]
        if part is not None:
            line |= {
                f"{name}_value": part["value"],
                f"{name}_kept": part["kept"],
                f"{name}_lower": part["lower"],
                f"{name}_upper": part["upper"],
                f"{name}_accuracy": part["accuracy"]["value"],
                f"{name}_accuracy_lower": part["accuracy"]["lower"],
                f"{name}_accuracy_upper": part["accuracy"]["upper"],
                f"{name}_gain": part["gain"],
            }
    return line | {"loss_price": point["loss_price"], "accuracy_price": point["accuracy_price"]}


def frontier_table(frontier: Mapping[str, Any]) -> TextTable:
    """Return a table of the values, accuracies and prices of each bound."""
    lines = frontier_lines(frontier)
    held_out = "held_out_value" in lines[0]
    header = ["bound", "training rows", "kept", "accuracy", "gain"]
    header += ["held-out rows", "accuracy", "gain"] if held_out else []
    rows = []
    for line in lines:
        row = [
            shortest(line["bound"]),
            number(line["training_value"], 4),
            "kept" if line["training_kept"] else "NOT KEPT",
            f"{line['training_accuracy']:.2%}",
            f"{100 * line['training_gain']:+.2f}",
        ]
        if held_out:
            row += [
                number(line["held_out_value"], 4),
                f"{line['held_out_accuracy']:.2%}",
                f"{100 * line['held_out_gain']:+.2f}",
            ]
        row.append("-" if line["accuracy_price"] is None else f"{line['accuracy_price']:.2f}")
        rows.append(tuple(row))
    return TextTable(frontier["description"], (*header, "points for the next 0.01"), tuple(rows))


GAIN = "Gain: points of accuracy over the best constant prediction, which keeps any ratio or difference."
"""Explains a column of `frontier_table`."""


def interruption_of(study: Study) -> str:
    """Return the finished part of an interrupted study, as the end of the sentence "The folder has ..."."""
    if not study.interrupted:
        return ""
    if not study.settings.limits:
        return "the model at the time of the interrupt."
    if not study.limits:
        return "the model without limits at the time of the interrupt; the limits were not tried."
    if study.frontier:
        finished = ", ".join(shortest(point.bound) for point in study.frontier)
        return f"the {len(study.frontier)} of {len(study.settings.bounds)} bounds that were finished: {finished}."
    state = "keeps every limit" if study.result.kept else "does not keep every limit"
    uncertified = " and is not certified" if study.result.certified is False else ""
    return f"the best model found so far, which {state} on the training rows{uncertified}."


def page_of(study: Study) -> tuple[str, list[TextTable], list[str]]:
    """Return heading, tables and notes of a study that has been run."""
    summary = study.summary
    heading = study.describe()
    if summary["limits"]:
        heading += f" {summary['run']['message']}"
    tables = summary_tables(summary)
    if summary["frontier"] is not None:
        tables.append(frontier_table(summary["frontier"]))
    notes = [] if summary["frontier"] is None else [GAIN]
    notes += summary["run"]["new_rows"]
    notes += [study.result.claim] if study.result.certified else []
    return heading, tables, [*notes, *rows_without_group(summary), *summary["notes"]]


def rows_without_group(summary: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each sensitive column in which some rows have no group, or one that was left out."""
    return [
        f"{missing:,} {name.replace('_', '-')} {'row has' if missing == 1 else 'rows have'} no known {grouping}, "
        f"or one that the limits leave out: counted in the accuracy, and in no rate of {grouping}."
        for name, part in summary["parts"].items()
        if part is not None
        for grouping, missing in part["after"]["missing"].items()
        if missing
    ]


# --- folder ----------------------------------------------------------------------------------------------------------

# The folder of a study contains
#
#     limits.lock      the limits and settings with their hash, from before training
#     model/           the model with the limits
#     metrics.json     the most important numbers
#     summary.json     everything; report.html and model-card.md are made from it
#
# With a frontier, frontier.json and frontier.csv take the place of metrics.json, and models/ has a model for each
# bound.


MODEL_FOLDER = "model"
"""Where in the folder of a study its model is."""
STUDY_FILES = (
    *("summary.json", "report.html", "model-card.md", "metrics.json", "frontier.json", "frontier.csv", "limits.lock"),
    f"{MODEL_FOLDER}/model.json",
    "models/*/model.json",
)
"""What a study writes; other files in its folder belong to the user, and stay when a study is replaced."""


def write_study(study: Study, place: Path, *, overwrite: bool, models: bool) -> dict[str, Any]:
    """Write everything to a folder, which appears at `place` when it is complete; return the main numbers."""
    from fairbound.report import holds_summary

    taken = place.exists() or place.is_symlink()
    if taken and not (overwrite and place.is_dir() and holds_summary(place)):
        remedy = "it is not a study, so it is not replaced" if overwrite else "overwrite=True replaces a study"
        raise FileExistsError(f"{place} exists already; {remedy}. Give another folder, or remove it first.")
    with draft_beside(place) as draft:
        folder = draft / CONTENT
        folder.mkdir()
        found = write_files(study, folder, place, models=models)
        publish(folder, place, replace=taken, ours=STUDY_FILES)
    return found


def write_files(study: Study, folder: Path, place: Path, *, models: bool = True) -> dict[str, Any]:
    """Write everything into an empty folder, which will be moved to `place`; return the main numbers."""
    from fairbound.report import write_report

    write_lock(study.lock, folder)  # the command line has written it before training
    study.after.save(folder / MODEL_FOLDER)
    if models:
        for point in study.frontier:
            point.classifier.save(folder / "models" / shortest(point.bound))
    write_report(study.summary, folder)
    read = {"label": label_values(study.data), "taken": columns_taken(study.data, study.name_of)}
    if study.frontier:
        return _write_frontier(study.summary, read, folder, place)
    found = {**metrics_of(study.summary), **read}
    found["files"] = _files(folder, place, "metrics.json")
    (folder / "metrics.json").write_bytes(json_bytes(found))
    return found


def _write_frontier(summary: Mapping[str, Any], read: Mapping[str, Any], folder: Path, place: Path) -> dict[str, Any]:
    lines = frontier_lines(summary["frontier"])
    with (folder / "frontier.csv").open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(lines[0]))
        writer.writeheader()
        writer.writerows(lines)
    found = {
        "limit": summary["frontier"]["limit"],
        "kept": all(line["training_kept"] for line in lines),
        "points": lines,
        "interrupted": bool(summary["run"]["interrupted"]),
        "reproduction": summary["reproduction"],
        **read,
    }
    (folder / "frontier.json").write_bytes(json_bytes(found))
    return {**found, "files": _files(folder, place)}


def _files(folder: Path, place: Path, *further: str) -> list[str]:
    return [str(place / name) for name in sorted([*(each.name for each in folder.iterdir()), *further])]
