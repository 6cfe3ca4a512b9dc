"""fairbound: classifiers trained under stated, hard limits on measured group disparities."""

# Names are imported when they are first used: `import fairbound`, and with it the command line's help and its messages
# about arguments, does not wait for torch.
from importlib import import_module
from typing import TYPE_CHECKING, Any

from fairbound._version import __version__ as __version__

if TYPE_CHECKING:
    from fairbound._warnings import InputScaleWarning, LimitWarning, PositiveLabelWarning
    from fairbound.data import Dataset, load_dataset, make_disparate_data, read_table
    from fairbound.estimator import ConstrainedClassifier, FitResult, TableEncoder, load, make_fairness_scorer
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
    from fairbound.persistence import ModelFileError
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
    "InputScaleWarning",
    "LimitWarning",
    "Measure",
    "ModelFileError",
    "NegativePredictiveParity",
    "PositiveLabelWarning",
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

_HOMES = {
    "InputScaleWarning": "fairbound._warnings",
    "LimitWarning": "fairbound._warnings",
    "PositiveLabelWarning": "fairbound._warnings",
    "Dataset": "fairbound.data",
    "load_dataset": "fairbound.data",
    "make_disparate_data": "fairbound.data",
    "read_table": "fairbound.data",
    "ConstrainedClassifier": "fairbound.estimator",
    "load": "fairbound.estimator",
    "audit": "fairbound.evaluation",
    "certify": "fairbound.evaluation",
    "AccuracyParity": "fairbound.fairness",
    "Cells": "fairbound.fairness",
    "Constraint": "fairbound.fairness",
    "ConstraintSystem": "fairbound.fairness",
    "Covariance": "fairbound.fairness",
    "DemographicParity": "fairbound.fairness",
    "DisparateImpact": "fairbound.fairness",
    "EqualImpact": "fairbound.fairness",
    "EqualizedOdds": "fairbound.fairness",
    "EqualOpportunity": "fairbound.fairness",
    "Measure": "fairbound.fairness",
    "NegativePredictiveParity": "fairbound.fairness",
    "PredictiveEquality": "fairbound.fairness",
    "PredictiveParity": "fairbound.fairness",
    "Representation": "fairbound.fairness",
    "Sufficiency": "fairbound.fairness",
    "parse_constraint": "fairbound.fairness",
    "rate_limit": "fairbound.fairness",
    "FitResult": "fairbound.estimator",
    "ModelFileError": "fairbound.persistence",
    "TableEncoder": "fairbound.estimator",
    "make_fairness_scorer": "fairbound.estimator",
    "QuasiNewtonSQP": "fairbound.sqp",
    "Status": "fairbound.sqp",
    "StochasticSQP": "fairbound.sqp",
    "L2": "fairbound.training",
    "FullBatch": "fairbound.training",
    "SmoothedL1": "fairbound.training",
    "SquaredMeasure": "fairbound.training",
    "StratifiedBatches": "fairbound.training",
    "TrainingProblem": "fairbound.training",
    "TrainingResult": "fairbound.training",
    "fit": "fairbound.training",
    "frontier": "fairbound.training",
    "make_model": "fairbound.training",
    "train": "fairbound.training",
}


def __getattr__(name: str) -> Any:
    """Import a public name from its home, once."""
    if name not in _HOMES:
        raise AttributeError(f"module 'fairbound' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
