"""`fairbound train --task regression`: train a model that predicts numbers, and audit it on held-out rows."""

from __future__ import annotations

import shlex
from typing import Any, NoReturn

import numpy as np
import typer

from fairbound._errors import render
from fairbound._files import write_file
from fairbound._json import encode, plain
from fairbound._study_settings import StudyChoices
from fairbound.cli.endings import KEPT, NOT_KEPT
from fairbound.cli.names import option_name
from fairbound.cli.options import ReadingOptions, held_out
from fairbound.cli.output import Output, out_folder

OTHERS = (
    *("--positive", "--negative", "--multiclass", "--weight", "--memory", "--resume", "--checkpoint", "--objective"),
    *("--select", "--surrogate", "--confidence", "--loss", "--class-weight", "--regularizer", "--no-group-worse"),
)
"""Options of `train` that a regression does not take."""


def train_regression(
    source: str, out: str, require: Any, reading: ReadingOptions, test: str, choices: StudyChoices, output: Output
) -> NoReturn:
    """Read the rows, train, write the folder, and show the verdict and the audit."""
    typed = {word.partition("=")[0] for word in shlex.split(output.command)}
    if not typed.isdisjoint(OTHERS):
        refused = ", ".join(option for option in OTHERS if option in typed)
        raise ValueError(f"--task regression does not take {refused}; leave this out.")
    share, test_file = held_out(test)
    from fairbound.cli.inputs import is_known_dataset, load_parts
    from fairbound.cli.studying import show_columns
    from fairbound.estimator import ConstrainedRegressor, TableEncoder, read_inputs, read_strata
    from fairbound.evaluation import audit_regression
    from fairbound.fairness import parse_constraint
    from fairbound.studies import MODEL_FOLDER, StudySettings, make_base, remarks

    if is_known_dataset(source):
        raise ValueError(f"The label of the data set {source!r} has classes, and a regression predicts numbers.")
    chosen = StudySettings.build(require or (), **{**choices.get_params(deep=False), "test_size": share})
    if chosen.select is not None:
        raise ValueError(f"The quota 'select {chosen.select}' is about decisions, and a regression predicts numbers.")
    model = ConstrainedRegressor(chosen.limits, margin=chosen.margin_of(chosen.limits), groups=chosen.groups)
    model.set_params(hidden=chosen.hidden, training=chosen.training, random_state=chosen.seed)
    model.set_params(base=make_base(chosen.model, chosen.seed, "Regressor"))
    with out_folder(out) as folder:
        with output.stage(f"Reading {source}"):
            data, tested = load_parts(source, test_file, reading, quiet=True, quantity=True)
        output.notes(render(note, option_name) for note in remarks(data))
        show_columns(output, data)
        where = "the held-out rows" if share or tested else "the training rows"
        if tested is None:
            data, tested = data.split(share, random_state=chosen.seed, scale=False) if share else (data, data)
        with output.stage("Training"):
            model.set_params(encoder=TableEncoder(max_categories=data.max_categories))
            model.fit(data.frame(), data.numbers, sensitive_features=data.sensitive)
        model.by_name_ = True
        model.formats_ = {name: each for name, each in data.formats.items() if name in data.schema}
        y, new, fitted = np.asarray(tested.numbers), tested.frame(), model.result_
        predicted = model.predict(new)
        groups = {**tested.sensitive, **read_strata(chosen.limits, read_inputs(new), tested.sensitive)}
        limits = [parse_constraint(each.limit) for each in fitted.limits]  # their quantiles are values now
        audit = audit_regression(y, predicted, groups, limits, groups=chosen.groups.combine)
        broken = [f"{each.limit} on the training rows" for each in fitted.limits if not each.kept]
        reached = zip(limits, audit.limits[: len(limits)], strict=True)
        broken += [f"{limit} on {where}" for limit, found in reached if not limit.keeps(found.value)]
        removed = 1.0 - np.square(y - predicted).sum() / np.square(y - np.mean(np.asarray(data.numbers))).sum()
        kept = (
            f"Kept on {' and on '.join({'the training rows': 0, where: 0})}." if limits else "No limit was asked for."
        )
        verdict = f"NOT KEPT: {'; '.join(dict.fromkeys(broken))}." if broken else kept
        verdict += f" The model removes {removed:.1%} of the squared loss of a constant on {where}."
        model.save(folder / MODEL_FOLDER)
        record = plain({"verdict": verdict, "kept": not broken, "removed": removed, "audit": audit, "fit": fitted})
        write_file(folder / "audit.json", encode(record, indent=2))
    output.text("\n".join([f"\n{verdict}\n\n{audit}", *fitted.about_new_rows]))
    output.text(f"Written to {out}: model, audit.json.")
    output.result({"command": "train", "out": out, **record})
    raise typer.Exit(KEPT if not broken and removed > 0.0 else NOT_KEPT)
