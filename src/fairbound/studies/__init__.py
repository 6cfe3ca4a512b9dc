"""A study: a data set in parts, a model without limits and one with them, a frontier, and their summary."""

from fairbound.studies.frontier import SweptPoint
from fairbound.studies.measured import Decisions
from fairbound.studies.parts import columns_taken, label_values, remarks, table_backend, with_sensitive
from fairbound.studies.running import Study, study
from fairbound.studies.settings import StudySettings, usual_bounds
from fairbound.studies.summary import summarize
from fairbound.studies.tables import GAIN, MODEL_FOLDER, frontier_table, metrics_of, summary_tables, write_files

__all__ = [
    "GAIN",
    "MODEL_FOLDER",
    "Decisions",
    "Study",
    "StudySettings",
    "SweptPoint",
    "columns_taken",
    "frontier_table",
    "label_values",
    "metrics_of",
    "remarks",
    "study",
    "summarize",
    "summary_tables",
    "table_backend",
    "usual_bounds",
    "with_sensitive",
    "write_files",
]
