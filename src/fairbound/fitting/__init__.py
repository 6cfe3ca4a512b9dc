"""One fit, from whatever the user has to a trained module and its record: rows, groups, module, result."""

from fairbound.fitting.confident import check_confident, hold_back
from fairbound.fitting.data import Data, read_data, read_further
from fairbound.fitting.encoding import encode, encoded_names, encoded_units
from fairbound.fitting.fitting import Fitting
from fairbound.fitting.frontier import FrontierModel, frontier_models
from fairbound.fitting.groups import SmallGroup, align_groups
from fairbound.fitting.result import FitResult, GroupResult, LimitResult, TrialResult

__all__ = [
    "Data",
    "FitResult",
    "Fitting",
    "FrontierModel",
    "GroupResult",
    "LimitResult",
    "SmallGroup",
    "TrialResult",
    "align_groups",
    "check_confident",
    "encode",
    "encoded_names",
    "encoded_units",
    "frontier_models",
    "hold_back",
    "read_data",
    "read_further",
]
