"""The scikit-learn classifier: inputs, groups, encoder, fit, confidence, result, predictions and scorers."""

from fairbound._errors import (
    ForecastWarning,
    InputScaleWarning,
    LimitWarning,
    PositiveLabelWarning,
    SmallGroupWarning,
)
from fairbound.estimator.base import BaseModel, CodedColumns, EncodedColumns, RawColumns, base_name, is_a
from fairbound.estimator.classifier import ConstrainedClassifier
from fairbound.estimator.columns import FARTHEST, CategoryColumn, NumberColumn
from fairbound.estimator.correction import BaseResult, Corrected, ScoreScale
from fairbound.estimator.cross_fitting import FittedBase
from fairbound.estimator.encoder import TableEncoder, module_inputs
from fairbound.estimator.frontier import FrontierModel
from fairbound.estimator.inputs import Inputs, share_inputs
from fairbound.estimator.modules import FeedForward
from fairbound.estimator.parameters import checked
from fairbound.estimator.reached import LimitResult
from fairbound.estimator.recalibration import Recalibration, SidedMap, Temperature
from fairbound.estimator.result import FitResult
from fairbound.estimator.scores import BaseScores, GroupPosterior, cross_fitted_scores
from fairbound.estimator.scoring import make_fairness_scorer
from fairbound.training import L2, LOSSES, SmoothedL1, SquaredMeasure, as_regularizers

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
    "Corrected",
    "EncodedColumns",
    "FeedForward",
    "FitResult",
    "FittedBase",
    "ForecastWarning",
    "FrontierModel",
    "GroupPosterior",
    "InputScaleWarning",
    "Inputs",
    "LimitResult",
    "LimitWarning",
    "NumberColumn",
    "PositiveLabelWarning",
    "RawColumns",
    "Recalibration",
    "ScoreScale",
    "SidedMap",
    "SmallGroupWarning",
    "SmoothedL1",
    "SquaredMeasure",
    "TableEncoder",
    "Temperature",
    "as_regularizers",
    "base_name",
    "checked",
    "cross_fitted_scores",
    "is_a",
    "make_fairness_scorer",
    "module_inputs",
    "share_inputs",
]
