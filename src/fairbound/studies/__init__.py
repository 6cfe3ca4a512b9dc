"""A study: a data set in parts, a model without limits and one with them, a frontier, and their summary."""

from fairbound.studies.candidates import Alternative, Alternatives
from fairbound.studies.judged import Baseline, Judgement
from fairbound.studies.measured import Decisions, SweptPoint
from fairbound.studies.parts import columns_taken, label_values, remarks, table_backend, with_sensitive
from fairbound.studies.plan import (
    LOCK_FILE,
    SearchPlan,
    Tolerance,
    compared_measures,
    grids,
    trained_rows,
    write_lock,
)
from fairbound.studies.running import Study, study
from fairbound.studies.search import AlternativeSearch, alternatives, as_baseline
from fairbound.studies.settings import StudySettings, usual_bounds
from fairbound.studies.summary import summarize
from fairbound.studies.tables import (
    GAIN,
    MODEL_FOLDER,
    STUDY_FILES,
    frontier_table,
    metrics_of,
    rows_without_group,
    summary_tables,
    write_files,
)

__all__ = [
    "GAIN",
    "LOCK_FILE",
    "MODEL_FOLDER",
    "STUDY_FILES",
    "Alternative",
    "AlternativeSearch",
    "Alternatives",
    "Baseline",
    "Decisions",
    "Judgement",
    "SearchPlan",
    "Study",
    "StudySettings",
    "SweptPoint",
    "Tolerance",
    "alternatives",
    "as_baseline",
    "columns_taken",
    "compared_measures",
    "frontier_table",
    "grids",
    "label_values",
    "metrics_of",
    "remarks",
    "rows_without_group",
    "study",
    "summarize",
    "summary_tables",
    "table_backend",
    "trained_rows",
    "usual_bounds",
    "with_sensitive",
    "write_files",
    "write_lock",
]
