"""A study: a data set in parts, a model without limits and one with them, a frontier, and their summary."""

from fairbound.studies.candidates import Alternative, Alternatives, read_search
from fairbound.studies.first_look import columns_taken, label_values, remarks
from fairbound.studies.folder import MODEL_FOLDER, STUDY_FILES, write_files
from fairbound.studies.judged import Baseline, Judgement
from fairbound.studies.lock import trained_rows, write_lock
from fairbound.studies.measured import Decisions, SweptPoint, summarize
from fairbound.studies.parts import table_backend, with_sensitive
from fairbound.studies.plan import SearchPlan, Tolerance, compared_measures, grids
from fairbound.studies.running import Study, study
from fairbound.studies.search import AlternativeSearch, alternatives, as_baseline
from fairbound.studies.settings import StudySettings, make_base, usual_bounds
from fairbound.studies.summary import (
    LimitFacts,
    LimitOnPart,
    LimitValue,
    ModelInput,
    ModelInputs,
    PointOnPart,
    PointSummary,
    Summary,
    WorstPair,
    holds_summary,
    is_kept,
    read_summary,
)
from fairbound.studies.tables import (
    GAIN,
    frontier_table,
    summary_tables,
)

__all__ = [
    "GAIN",
    "MODEL_FOLDER",
    "STUDY_FILES",
    "Alternative",
    "AlternativeSearch",
    "Alternatives",
    "Baseline",
    "Decisions",
    "Judgement",
    "LimitFacts",
    "LimitOnPart",
    "LimitValue",
    "ModelInput",
    "ModelInputs",
    "PointOnPart",
    "PointSummary",
    "SearchPlan",
    "Study",
    "StudySettings",
    "Summary",
    "SweptPoint",
    "Tolerance",
    "WorstPair",
    "alternatives",
    "as_baseline",
    "columns_taken",
    "compared_measures",
    "frontier_table",
    "grids",
    "holds_summary",
    "is_kept",
    "label_values",
    "make_base",
    "read_search",
    "read_summary",
    "remarks",
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
