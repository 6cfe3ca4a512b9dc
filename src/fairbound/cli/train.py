"""`fairbound train` and `fairbound frontier`, which write a study, and `fairbound report`, which renders it again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from fairbound._files import as_utf8, write_file
from fairbound._study_settings import FrontierChoices, StudyChoices
from fairbound.cli.options import TEST, JournalOptions, ReadingOptions, command
from fairbound.cli.output import Output

if TYPE_CHECKING:
    from fairbound.fairness import Constraint
    from fairbound.studies import Study


@command("train")
def train(
    source: str,
    *,
    out: str,
    require: list[str] | None = None,
    reading: ReadingOptions,
    memory: str | None = None,
    test: str = TEST,
    task: Literal["classification", "regression"] = "classification",
    choices: StudyChoices,
    journal: JournalOptions,
    output: Output,
) -> None:
    """Train a model under limits, and evaluate it on held-out rows.

    Writes a folder with the model, its numbers (summary.json), the report (report.html) and a model card.
    Without --require it trains a model without limits, shows its rates by group, and suggests limits. The exit code is
    1 if a limit is not kept on the training rows or on the held-out rows, or if the model is no better than a constant
    prediction. With --confidence it is 1 if no model is certified, or if the held-out rows refute a limit. A regression
    writes the model and audit.json, has the squared loss, and is linear unless --model says otherwise.

    Parameters
    ----------
    source : FILE|DATASET
        A CSV or Parquet file, or the name of a known data set (fairbound data list).
    out : FOLDER
        A folder to create.
    require : LIMIT...
        A limit, such as "disparate_impact >= 0.8".
    memory : SIZE
        Keep rows that would take more memory than this in files, such as 2GB. [default: half of all memory]
    test : SHARE|FILE
        The share of the rows to hold out, 0 for none; or a file of held-out rows.
    task : str
        Predict the classes of the label, or numbers.

    Examples
    --------
    First a model without limits:
      $ fairbound train loans.csv --target approved --sensitive sex --out look
    Keep the four-fifths rule:
      $ fairbound train loans.csv --target approved --sensitive sex --require "disparate_impact >= 0.8" --out model
    Also on unseen rows, with 95% confidence, by a network:
      $ fairbound train loans.csv --target approved --sensitive sex --require "disparate_impact >= 0.8"
          --confidence 0.95 --model mlp:32 --out model
    Kept on the training rows alone, without a margin for new rows:
      $ fairbound train loans.csv --target approved --sensitive sex --require "disparate_impact >= 0.8"
          --margin none --out model
    Two limits:
      $ fairbound train loans.csv --target approved --sensitive sex
          --require "disparate_impact >= 0.8" "equal_opportunity <= 0.1" --out model
    A folder of Parquet files that does not fit in memory:
      $ fairbound train loans/ --target approved --sensitive sex --memory 2GB --require "..." --out model
    Numbers, such as pay:
      $ fairbound train wages.csv --target wage --sensitive sex --require "mean_difference <= 1000" --task regression
          --out model
    The shipped data:
      $ fairbound train law --require "disparate_impact >= 0.9" --out law
    """
    if task == "regression":
        from fairbound.cli.regression import train_regression

        train_regression(source, out, require, reading, test, choices, output)
    from fairbound.cli.studying import exit_after, write_study

    study, found, saved = write_study(
        source, out, lambda: (require or (), None), choices, reading, test, memory, journal, output
    )
    output = saved.output
    _show(output, study, out)
    output.result({"command": "train", "out": out, **found})
    exit_after(study, saved, kept=study.kept)


def _show(output: Output, study: Study, out: str) -> None:
    from fairbound.cli.studying import show_notes, suggest
    from fairbound.report import in_short
    from fairbound.studies import summary_tables

    if output.silent:
        return
    output.text(
        "\n" + "\n".join([*in_short(study.summary), f"{study.result.status.value}: {study.result.message}", ""])
    )
    output.tables(*summary_tables(study.summary))
    output.text()
    show_notes(output, study)
    if not study.settings.limits:
        suggest(output, study.summary)
    output.text(f"Written to {out}: model, summary.json, report.html, model-card.md, limits.lock.")


@command("frontier")
def frontier(
    source: str,
    *,
    out: str,
    reading: ReadingOptions,
    measure: str = "disparate_impact",
    bounds: list[float] | None = None,
    choose: float | None = None,
    require: list[str] | None = None,
    no_models: bool = False,
    memory: str | None = None,
    test: str = TEST,
    choices: FrontierChoices,
    journal: JournalOptions,
    output: Output,
) -> None:
    """Train a model for each of several bounds, and show the cost of each.

    Writes a folder with the table (frontier.csv), a model for each bound, and a report that contains the frontier. The
    exit code is 1 if a bound is not kept on the training rows. After Ctrl-C, finished bounds are kept.

    Parameters
    ----------
    source : FILE|DATASET
        A CSV or Parquet file, or the name of a known data set (fairbound data list).
    out : FOLDER
        A folder to create.
    measure : NAME
        The measure to limit, such as disparate_impact.
    bounds : NUMBER...
        The bounds to try; by default a grid for the measure.
    choose : BOUND
        The bound of the reported model; by default the middle one.
    require : LIMIT...
        A limit, such as "disparate_impact >= 0.8".
    no_models : bool
        Write only the chosen model, not one per bound.
    memory : SIZE
        Keep rows that would take more memory than this in files, such as 2GB. [default: half of all memory]
    test : SHARE|FILE
        The share of the rows to hold out, 0 for none; or a file of held-out rows.

    Examples
    --------
    The ratio of selection rates:
      $ fairbound frontier loans.csv --target approved --sensitive sex --measure disparate_impact --out frontier
    Three bounds:
      $ fairbound frontier loans.csv --target approved --sensitive sex --measure equal_opportunity
          --bounds 0.1 0.05 0.02 --out frontier
    With another limit for every model:
      $ fairbound frontier loans.csv --target approved --sensitive sex --measure disparate_impact
          --require "selection_rate >= 0.2" --out frontier
    """
    from fairbound.cli.studying import exit_after, show_frontier, show_notes, write_study

    def limits() -> tuple[list[Constraint | str], list[float]]:
        limit, grid = swept_limit(measure, bounds, choose)
        return [limit, *(require or ())], grid

    study, found, saved = write_study(
        source, out, limits, choices, reading, test, memory, journal, output, models=not no_models
    )
    output = saved.output
    output.text()
    show_frontier(output, study.summary)
    show_notes(output, study)
    files = f"frontier.csv, model (of {study.limits[0]})" + ("" if no_models else ", models")
    output.text(f"Written to {out}: {files}, report.html, summary.json, model-card.md, limits.lock.")
    output.result({"command": "frontier", "out": out, **found})
    exit_after(study, saved, kept=all(point.training.kept for point in study.summary.frontier))


FORMATS = {"html": "report.html", "markdown": "model-card.md"}
DOCUMENTS = Literal["annex-iv", "california", "colorado", "model-risk", "new-jersey"]


@command("report")
def report(
    run: str,
    *,
    out: str | None = None,
    form: Literal["html", "markdown"] | DOCUMENTS = "html",
    alternatives: str | None = None,
    output: Output,
) -> None:
    """Write the report of a run from its summary, or a document that a rule asks for.

    The page is one self-contained file. A document has what the run knows, and names the gaps that a person must fill:
    annex-iv (EU AI Act), california (FEHA), colorado (10-1-1, NAIC), model-risk (SR 26-2), new-jersey (13:16). --json
    prints the summary.

    Parameters
    ----------
    run : RUN
        A folder that train or frontier has written.
    out : FILE
        The file to write; by default RUN/report.html is replaced, or a document is added.
    form : str
        A web page, a model card (markdown), or a document.
    alternatives : FOLDER
        For documents: the search that fairbound alternatives has written.

    Examples
    --------
    Write the report of a run again:
      $ fairbound report model
    One page to hand on:
      $ fairbound report model --out review.html
    The model card:
      $ fairbound report model --format markdown --out CARD.md
    A sheet for New Jersey, with a search for alternatives:
      $ fairbound report model --format new-jersey --alternatives search
    """
    from fairbound._json import plain
    from fairbound.cli.output import file_of_run, refuse_existing

    if alternatives is not None and form in FORMATS:
        raise ValueError(f"--alternatives is for documents, and --format is {form}; name a document, or leave it out.")
    path = file_of_run(run, "summary.json", "train or frontier")
    from fairbound.report import NAMES, to_document, to_html, to_markdown
    from fairbound.studies import read_search, read_summary

    summary = read_summary(path)
    if form in FORMATS:
        page = to_html(summary) if form == "html" else to_markdown(summary)
    else:
        found = None if alternatives is None else file_of_run(alternatives, "search.json", "alternatives")
        page = to_document(summary, form, search=None if found is None else read_search(found))
    place = Path(out) if out is not None else path.parent / FORMATS.get(form, f"{form}.md")
    # The run's own pages are made from its summary, so they may be replaced.  A document may have been filled in.
    own = out is None and path.name == NAMES["json"] and form in FORMATS
    if not own:
        refuse_existing(place)
    write_file(place, as_utf8(page))
    output.text(f"Written to {place}.")
    output.result({"command": "report", "out": str(place), "summary": plain(summary)})


def swept_limit(measure: str, bounds: Sequence[float] | None, choose: float | None) -> tuple[Constraint, list[float]]:
    """Return the limit with the chosen bound, by default the middle one, and all bounds of a frontier.

    >>> swept_limit("disparate_impact", [0.9, 0.7, 0.8], None)
    (DisparateImpact(0.8), [0.7, 0.8, 0.9])
    """
    from fairbound._words import lookup
    from fairbound.fairness import MEASURES, parse_constraint
    from fairbound.studies import usual_bounds

    known = lookup(MEASURES, measure, "measure")
    given = {*(bounds or usual_bounds(measure)), *([] if choose is None else [choose])}
    grid = sorted(given, reverse=not known.larger_is_stricter)
    chosen = grid[len(grid) // 2] if choose is None else choose
    return parse_constraint(f"{measure} {'>=' if known.larger_is_stricter else '<='} {chosen!r}"), grid
