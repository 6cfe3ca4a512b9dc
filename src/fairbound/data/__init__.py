"""Tables in, numbers out: `Dataset`, splits, loaders with checksums, your own files, and planted disparities.

This room knows neither torch nor the other rooms.
"""

from fairbound.data.bands import into_bands
from fairbound.data.catalogue import DATASETS
from fairbound.data.dataset import Dataset, Split
from fairbound.data.description import Description
from fairbound.data.labels import LabelValue
from fairbound.data.leaks import SuspectedLeak
from fairbound.data.loading import load_dataset
from fairbound.data.planted import PlantedData, PlantedRule, PlantedTruth, make_disparate_data
from fairbound.data.reading import read_table
from fairbound.data.table import Table

__all__ = [
    "DATASETS",
    "Dataset",
    "Description",
    "LabelValue",
    "PlantedData",
    "PlantedRule",
    "PlantedTruth",
    "Split",
    "SuspectedLeak",
    "Table",
    "into_bands",
    "load_dataset",
    "make_disparate_data",
    "read_table",
]
