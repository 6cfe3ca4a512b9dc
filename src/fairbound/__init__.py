"""fairbound: classifiers trained under stated, hard limits on measured group disparities.

`__all__` lists the names that most users need; `StochasticSQP` and `StratifiedBatches`, which need torch, come beside
them.  The building blocks below them live in `fairbound.fairness`,
`fairbound.sqp`, `fairbound.training`, `fairbound.evaluation`, `fairbound.estimator`, `fairbound.data` and
`fairbound.persistence`; docs/reference has a page for each.
"""

# Names are imported on first use.  `import fairbound`, the command line's help and its messages about arguments
# therefore do not wait for torch.
from importlib import import_module
from typing import TYPE_CHECKING, Any

from fairbound._version import __version__ as __version__

if TYPE_CHECKING:
    from fairbound._errors import LimitWarning
    from fairbound._model_settings import Base, Confidence, Groups, Loss, Training
    from fairbound.data import Dataset, load_dataset, make_disparate_data, read_table
    from fairbound.estimator import ConstrainedClassifier, ConstrainedRegressor, make_fairness_scorer
    from fairbound.evaluation import Monitor, audit, certify
    from fairbound.fairness import (
        AccuracyParity,
        Constraint,
        Covariance,
        DemographicParity,
        DisparateImpact,
        EqualImpact,
        EqualizedOdds,
        EqualOpportunity,
        Measure,
        PredictiveEquality,
        PredictiveParity,
        Representation,
        rate_limit,
    )
    from fairbound.persistence import ModelFileError, load
    from fairbound.sqp import StochasticSQP as StochasticSQP
    from fairbound.studies import alternatives, study
    from fairbound.training import StratifiedBatches as StratifiedBatches
    from fairbound.training import TrainingProblem

__all__ = [
    "AccuracyParity",
    "Base",
    "Confidence",
    "ConstrainedClassifier",
    "ConstrainedRegressor",
    "Constraint",
    "Covariance",
    "Dataset",
    "DemographicParity",
    "DisparateImpact",
    "EqualImpact",
    "EqualOpportunity",
    "EqualizedOdds",
    "Groups",
    "LimitWarning",
    "Loss",
    "Measure",
    "ModelFileError",
    "Monitor",
    "PredictiveEquality",
    "PredictiveParity",
    "Representation",
    "Training",
    "TrainingProblem",
    "alternatives",
    "audit",
    "certify",
    "load",
    "load_dataset",
    "make_disparate_data",
    "make_fairness_scorer",
    "rate_limit",
    "read_table",
    "study",
]

# Where each public name is defined.
_HOMES = {
    name: f"fairbound.{room}"
    for room, names in {
        "_errors": "LimitWarning",
        "_model_settings": "Base Confidence Groups Loss Training",
        "data": "Dataset load_dataset make_disparate_data read_table",
        "estimator": "ConstrainedClassifier ConstrainedRegressor make_fairness_scorer",
        "evaluation": "Monitor audit certify",
        "fairness": "AccuracyParity Constraint Covariance DemographicParity DisparateImpact EqualImpact "
        "EqualOpportunity EqualizedOdds Measure PredictiveEquality PredictiveParity Representation rate_limit",
        "persistence": "ModelFileError load",
        "sqp": "StochasticSQP",
        "studies": "alternatives study",
        "training": "StratifiedBatches TrainingProblem",
    }.items()
    for name in names.split()
}


def __getattr__(name: str) -> Any:
    """Import a public name from the module that defines it."""
    if name not in _HOMES:
        raise AttributeError(f"module 'fairbound' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
