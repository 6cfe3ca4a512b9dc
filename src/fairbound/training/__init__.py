"""Models, the training problem, batches and the trainer: where fairness and optimisation meet."""

from fairbound.training.assessment import Assessment
from fairbound.training.batches import FullBatch, StratifiedBatches
from fairbound.training.effort import Effort, Phase
from fairbound.training.fit import choose_solver, fit
from fairbound.training.frontier import Frontier, FrontierPoint, PathPoint, follow_path, frontier
from fairbound.training.losses import LOSSES
from fairbound.training.models import make_model
from fairbound.training.problem import Batch, TrainingProblem
from fairbound.training.regularizers import L2, SmoothedL1, SquaredMeasure
from fairbound.training.rows import Rows
from fairbound.training.support import RateSupport, rates_on_a_handful
from fairbound.training.trainer import TrainingResult, train

__all__ = [
    "L2",
    "LOSSES",
    "Assessment",
    "Batch",
    "Effort",
    "Frontier",
    "FrontierPoint",
    "FullBatch",
    "PathPoint",
    "Phase",
    "RateSupport",
    "Rows",
    "SmoothedL1",
    "SquaredMeasure",
    "StratifiedBatches",
    "TrainingProblem",
    "TrainingResult",
    "choose_solver",
    "fit",
    "follow_path",
    "frontier",
    "make_model",
    "rates_on_a_handful",
    "train",
]
