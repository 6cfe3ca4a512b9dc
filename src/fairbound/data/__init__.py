"""Load and prepare data: `Dataset`, splits, public data sets with checksums, your own files, and synthetic data.

Nothing here depends on torch or on the other packages of `fairbound`.
"""

from fairbound.data.arrow import column_values, import_pyarrow
from fairbound.data.bands import into_bands
from fairbound.data.batches import ArrowTable, Batches
from fairbound.data.catalogue import ACSINCOME_CA_SAMPLE, DATASETS, CatalogueEntry
from fairbound.data.census import census_source
from fairbound.data.columns import count_rows, store
from fairbound.data.dataset import Dataset, Split
from fairbound.data.description import Description
from fairbound.data.download import cache_folder
from fairbound.data.draws import as_seed, draw_parts
from fairbound.data.files import Place
from fairbound.data.formats import MISSING, ColumnFormat
from fairbound.data.labels import LabelValue, as_word, code_labels
from fairbound.data.leaks import SuspectedLeak
from fairbound.data.loading import STATE, YEAR, load_dataset
from fairbound.data.names import is_protected_name
from fairbound.data.planted import PlantedData, PlantedTruth, make_disparate_data
from fairbound.data.probabilities import as_probabilities, has_probabilities, name_probabilities
from fairbound.data.reading import read_columns, read_rows, read_table
from fairbound.data.roles import Roles
from fairbound.data.schema import Banded, Categorical, Column, Numeric, group_values, is_missing
from fairbound.data.source import Source, open_batches
from fairbound.data.streams import is_stream, stream_batches
from fairbound.data.table import Backend, Table, installed_backend, make_frame
from fairbound.data.writing import copy_writer

__all__ = [
    "ACSINCOME_CA_SAMPLE",
    "DATASETS",
    "MISSING",
    "STATE",
    "YEAR",
    "ArrowTable",
    "Backend",
    "Banded",
    "Batches",
    "CatalogueEntry",
    "Categorical",
    "Column",
    "ColumnFormat",
    "Dataset",
    "Description",
    "LabelValue",
    "Numeric",
    "Place",
    "PlantedData",
    "PlantedTruth",
    "Roles",
    "Source",
    "Split",
    "SuspectedLeak",
    "Table",
    "as_probabilities",
    "as_seed",
    "as_word",
    "cache_folder",
    "census_source",
    "code_labels",
    "column_values",
    "copy_writer",
    "count_rows",
    "draw_parts",
    "group_values",
    "has_probabilities",
    "import_pyarrow",
    "installed_backend",
    "into_bands",
    "is_missing",
    "is_protected_name",
    "is_stream",
    "load_dataset",
    "make_disparate_data",
    "make_frame",
    "name_probabilities",
    "open_batches",
    "read_columns",
    "read_rows",
    "read_table",
    "store",
    "stream_batches",
]
