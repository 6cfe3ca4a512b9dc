"""The scikit-learn classifier: inputs, groups, encoder, fit, confidence, result, predictions and scorers."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fairbound._errors import (
    ForecastWarning,
    InputScaleWarning,
    LimitWarning,
    PositiveLabelWarning,
    SmallGroupWarning,
    need_torch,
)
from fairbound.estimator.base import BaseModel
from fairbound.estimator.base_columns import CodedColumns, EncodedColumns, RawColumns
from fairbound.estimator.base_kinds import base_name, is_a
from fairbound.estimator.base_result import BaseResult
from fairbound.estimator.classifier import ConstrainedClassifier
from fairbound.estimator.columns import FARTHEST, CategoryColumn, NumberColumn
from fairbound.estimator.correction import ScoreScale
from fairbound.estimator.cross_fitting import FittedBase
from fairbound.estimator.encoder import TableEncoder
from fairbound.estimator.frontier import FrontierModel, FrontierModels
from fairbound.estimator.inputs import Inputs, read_inputs, share_inputs
from fairbound.estimator.models import logits, model_inputs
from fairbound.estimator.objectives import Objective, Reached
from fairbound.estimator.parameters import checked
from fairbound.estimator.posteriors import GroupPosterior
from fairbound.estimator.reached import LimitResult
from fairbound.estimator.recalibration import Recalibration, SidedMap, Temperature
from fairbound.estimator.regression import Unit
from fairbound.estimator.regressor import ConstrainedRegressor
from fairbound.estimator.result import FitResult
from fairbound.estimator.scores import BaseScores, cross_fitted_scores
from fairbound.estimator.scoring import make_fairness_scorer
from fairbound.estimator.small_groups import settle_small_groups
from fairbound.estimator.sources import as_trained, new_inputs
from fairbound.estimator.strata import read_strata
from fairbound.training import L2, LOSSES, LinearModel, SmoothedL1, SquaredMeasure, as_model, as_regularizers

if TYPE_CHECKING:
    from fairbound.estimator.networks import Corrected, FeedForward

__all__ = [
    "FARTHEST",
    "L2",
    "LOSSES",
    "BaseModel",
    "BaseResult",
    "BaseScores",
    "CategoryColumn",
    "CodedColumns",
    "ConstrainedClassifier",
    "ConstrainedRegressor",
    "Corrected",
    "EncodedColumns",
    "FeedForward",
    "FitResult",
    "FittedBase",
    "ForecastWarning",
    "FrontierModel",
    "FrontierModels",
    "GroupPosterior",
    "InputScaleWarning",
    "Inputs",
    "LimitResult",
    "LimitWarning",
    "LinearModel",
    "NumberColumn",
    "Objective",
    "PositiveLabelWarning",
    "RawColumns",
    "Reached",
    "Recalibration",
    "ScoreScale",
    "SidedMap",
    "SmallGroupWarning",
    "SmoothedL1",
    "SquaredMeasure",
    "TableEncoder",
    "Temperature",
    "Unit",
    "as_model",
    "as_regularizers",
    "as_trained",
    "base_name",
    "checked",
    "cross_fitted_scores",
    "is_a",
    "logits",
    "make_fairness_scorer",
    "model_inputs",
    "new_inputs",
    "read_inputs",
    "read_strata",
    "settle_small_groups",
    "share_inputs",
]


def __getattr__(name: str) -> Any:
    if name in ("Corrected", "FeedForward"):
        need_torch("Networks need")
        return getattr(import_module("fairbound.estimator.networks"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
