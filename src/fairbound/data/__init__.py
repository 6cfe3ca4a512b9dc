"""Tables in, numbers out: `Dataset`, splits, loaders with checksums, and data with planted disparities.

This room knows neither torch nor the other rooms.
"""

from fairbound.data.catalogue import DATASETS
from fairbound.data.dataset import Dataset, Split
from fairbound.data.loading import load_dataset
from fairbound.data.planted import PlantedData, PlantedRule, PlantedTruth, make_disparate_data

__all__ = [
    "DATASETS",
    "Dataset",
    "PlantedData",
    "PlantedRule",
    "PlantedTruth",
    "Split",
    "load_dataset",
    "make_disparate_data",
]
