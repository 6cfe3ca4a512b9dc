"""The scikit-learn classifier: inputs, groups, encoder, fit, confidence, result, predictions and scorers."""

from fairbound._warnings import InputScaleWarning, LimitWarning, PositiveLabelWarning, SmallGroupWarning
from fairbound.estimator.classifier import ConstrainedClassifier
from fairbound.estimator.encoder import FARTHEST, CategoryColumn, NumberColumn, TableEncoder
from fairbound.estimator.forward import FeedForward
from fairbound.estimator.frontier import FrontierModel
from fairbound.estimator.recalibration import Recalibration, SidedMap, Temperature
from fairbound.estimator.result import FitResult
from fairbound.estimator.scoring import make_fairness_scorer

__all__ = [
    "FARTHEST",
    "CategoryColumn",
    "ConstrainedClassifier",
    "FeedForward",
    "FitResult",
    "FrontierModel",
    "InputScaleWarning",
    "LimitWarning",
    "NumberColumn",
    "PositiveLabelWarning",
    "Recalibration",
    "SidedMap",
    "SmallGroupWarning",
    "TableEncoder",
    "Temperature",
    "make_fairness_scorer",
]
