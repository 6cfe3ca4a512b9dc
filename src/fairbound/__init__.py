"""fairbound: classifiers trained under stated, hard limits on measured group disparities."""

from fairbound._warnings import LimitWarning
from fairbound.data import Dataset, load_dataset, make_disparate_data, read_table
from fairbound.estimator import ConstrainedClassifier, load
from fairbound.evaluation import audit, certify
from fairbound.fairness import (
    AccuracyParity,
    Cells,
    Constraint,
    ConstraintSystem,
    Covariance,
    DemographicParity,
    DisparateImpact,
    EqualImpact,
    EqualizedOdds,
    EqualOpportunity,
    Measure,
    NegativePredictiveParity,
    PredictiveEquality,
    PredictiveParity,
    Representation,
    Sufficiency,
    parse_constraint,
    rate_limit,
)
from fairbound.fitting import FitResult
from fairbound.persistence import ModelFileError
from fairbound.preprocessing import TableEncoder
from fairbound.scoring import make_fairness_scorer
from fairbound.sqp import QuasiNewtonSQP, Status, StochasticSQP
from fairbound.training import (
    L2,
    FullBatch,
    SmoothedL1,
    SquaredMeasure,
    StratifiedBatches,
    TrainingProblem,
    TrainingResult,
    fit,
    frontier,
    make_model,
    train,
)

__version__ = "0.1.0"

__all__ = [
    "L2",
    "AccuracyParity",
    "Cells",
    "ConstrainedClassifier",
    "Constraint",
    "ConstraintSystem",
    "Covariance",
    "Dataset",
    "DemographicParity",
    "DisparateImpact",
    "EqualImpact",
    "EqualOpportunity",
    "EqualizedOdds",
    "FitResult",
    "FullBatch",
    "LimitWarning",
    "Measure",
    "ModelFileError",
    "NegativePredictiveParity",
    "PredictiveEquality",
    "PredictiveParity",
    "QuasiNewtonSQP",
    "Representation",
    "SmoothedL1",
    "SquaredMeasure",
    "Status",
    "StochasticSQP",
    "StratifiedBatches",
    "Sufficiency",
    "TableEncoder",
    "TrainingProblem",
    "TrainingResult",
    "audit",
    "certify",
    "fit",
    "frontier",
    "load",
    "load_dataset",
    "make_disparate_data",
    "make_fairness_scorer",
    "make_model",
    "parse_constraint",
    "rate_limit",
    "read_table",
    "train",
]
