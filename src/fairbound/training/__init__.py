"""Train a model under constraints: models, the training problem, batches, the phases of a fit, and the frontier.

This package connects `fairbound.fairness`, which evaluates constraints, with `fairbound.sqp`, which optimises.
"""

from fairbound._model_settings import Effort
from fairbound.training.assessment import (
    Assessment,
    GapSums,
    RateSupport,
    gap_sums,
    gap_sums_of_rows,
    rates_on_a_handful,
    surrogate_gaps,
)
from fairbound.training.fitting import choose_solver, fit, on_rows, tighten
from fairbound.training.frontiers import (
    FitSeries,
    Frontier,
    FrontierPoint,
    SeriesPoint,
    frontier,
    loss_price,
    prices_in_accuracy,
)
from fairbound.training.losses import (
    L2,
    LOSSES,
    LinearTerm,
    SmoothedL1,
    SquaredMeasure,
    as_regularizers,
)
from fairbound.training.mini_batches import FullBatch, StratifiedBatches
from fairbound.training.models import accepts, assign, blank_linear, evaluation_mode, flatten, make_model, trainable
from fairbound.training.passes import Passes, open_journal, resumed
from fairbound.training.phases import PHASES
from fairbound.training.problem import Batch, TrainingProblem
from fairbound.training.processes import Processes, SharedRows
from fairbound.training.rows import MatrixRows, Rows
from fairbound.training.sweep import SweepTotals
from fairbound.training.trainer import TrainingResult, assess_now, choose_status, train

__all__ = [
    "L2",
    "LOSSES",
    "PHASES",
    "Assessment",
    "Batch",
    "Effort",
    "FitSeries",
    "Frontier",
    "FrontierPoint",
    "FullBatch",
    "GapSums",
    "LinearTerm",
    "MatrixRows",
    "Passes",
    "Processes",
    "RateSupport",
    "Rows",
    "SeriesPoint",
    "SharedRows",
    "SmoothedL1",
    "SquaredMeasure",
    "StratifiedBatches",
    "SweepTotals",
    "TrainingProblem",
    "TrainingResult",
    "accepts",
    "as_regularizers",
    "assess_now",
    "assign",
    "blank_linear",
    "choose_solver",
    "choose_status",
    "evaluation_mode",
    "fit",
    "flatten",
    "frontier",
    "gap_sums",
    "gap_sums_of_rows",
    "loss_price",
    "make_model",
    "on_rows",
    "open_journal",
    "prices_in_accuracy",
    "rates_on_a_handful",
    "resumed",
    "surrogate_gaps",
    "tighten",
    "train",
    "trainable",
]
