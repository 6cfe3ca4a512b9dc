"""Load and prepare data: `Dataset`, splits, public data sets with checksums, your own files, and synthetic data.

Nothing here depends on torch or on the other packages of `fairbound`.
"""

from fairbound.data.columns import (
    Column,
    as_probabilities,
    group_values,
    has_probabilities,
    into_bands,
    is_missing,
    is_protected_name,
    name_probabilities,
    refuse_probabilities,
)
from fairbound.data.dataset import Dataset, Split
from fairbound.data.draws import Stratum, as_seed, by_stratum, draw_parts, find_cuts, numbers
from fairbound.data.files import Place, cache_folder
from fairbound.data.formats import MISSING, ColumnFormat
from fairbound.data.labels import CodedLabels, LabelValue, as_word, code_labels
from fairbound.data.loading import DATASETS, STATE, YEAR, load_dataset
from fairbound.data.planted import PlantedData, PlantedRule, PlantedTruth, make_disparate_data
from fairbound.data.reading import check_named_once, column_schema, read_table
from fairbound.data.sources import ACSINCOME_CA_SAMPLE, Source, census_source
from fairbound.data.strata import Description
from fairbound.data.streams import RowCounts, TableStream, ValueCodes, as_numbers, blocks
from fairbound.data.table import (
    Backend,
    SuspectedLeak,
    Table,
    Taken,
    find_leaks,
    installed_backend,
    make_frame,
    no_column,
    taken_for,
)
from fairbound.data.tablefile import TableFile, column_values
from fairbound.data.writing import append_columns, extend_text, new_fields, text_blocks, typed_copy, write_columns

__all__ = [
    "ACSINCOME_CA_SAMPLE",
    "DATASETS",
    "MISSING",
    "STATE",
    "YEAR",
    "Backend",
    "CodedLabels",
    "Column",
    "ColumnFormat",
    "Dataset",
    "Description",
    "LabelValue",
    "Place",
    "PlantedData",
    "PlantedRule",
    "PlantedTruth",
    "RowCounts",
    "Source",
    "Split",
    "Stratum",
    "SuspectedLeak",
    "Table",
    "TableFile",
    "TableStream",
    "Taken",
    "ValueCodes",
    "append_columns",
    "as_numbers",
    "as_probabilities",
    "as_seed",
    "as_word",
    "blocks",
    "by_stratum",
    "cache_folder",
    "census_source",
    "check_named_once",
    "code_labels",
    "column_schema",
    "column_values",
    "draw_parts",
    "extend_text",
    "find_cuts",
    "find_leaks",
    "group_values",
    "has_probabilities",
    "installed_backend",
    "into_bands",
    "is_missing",
    "is_protected_name",
    "load_dataset",
    "make_disparate_data",
    "make_frame",
    "name_probabilities",
    "new_fields",
    "no_column",
    "numbers",
    "read_table",
    "refuse_probabilities",
    "taken_for",
    "text_blocks",
    "typed_copy",
    "write_columns",
]
