"""Train a model under constraints: models, the training problem, batches, the phases of a fit, and the frontier.

This package connects `fairbound.fairness`, which evaluates constraints, with `fairbound.sqp`, which optimises.
Networks, mini-batches and several processes need torch, which is imported when one of their names is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fairbound._errors import need_torch
from fairbound._model_settings import Effort
from fairbound.training.assessment import (
    Assessment,
    GapSums,
    gap_sums,
    surrogate_gaps,
)
from fairbound.training.fitting import fit, on_rows, tighten
from fairbound.training.frontiers import (
    FitSeries,
    Frontier,
    FrontierPoint,
    frontier,
    loss_price,
    prices_in_accuracy,
)
from fairbound.training.losses import LOSSES
from fairbound.training.model import LinearModel, Model, as_model
from fairbound.training.passes import Passes, open_journal, present_processes, resumed
from fairbound.training.phases import PHASES
from fairbound.training.problem import Batch, TrainingProblem
from fairbound.training.quota import probability_at
from fairbound.training.regularizers import L2, LinearTerm, SmoothedL1, SquaredMeasure, as_regularizers
from fairbound.training.result import FitRecord, TrainingResult, assess_now, choose_status
from fairbound.training.rows import Rows
from fairbound.training.support import RateSupport, rates_on_a_handful

if TYPE_CHECKING:
    from fairbound.training.batches import FullBatch, StratifiedBatches
    from fairbound.training.modules import (
        accepts,
        assign,
        blank_linear,
        evaluation_mode,
        make_model,
    )
    from fairbound.training.processes import Processes
    from fairbound.training.trainer import train

_WITH_TORCH = {
    "batches": ("FullBatch", "StratifiedBatches"),
    "modules": ("accepts", "assign", "blank_linear", "evaluation_mode", "make_model"),
    "processes": ("Processes",),
    "trainer": ("train",),
}

__all__ = [
    "L2",
    "LOSSES",
    "PHASES",
    "Assessment",
    "Batch",
    "Effort",
    "FitRecord",
    "FitSeries",
    "Frontier",
    "FrontierPoint",
    "FullBatch",
    "GapSums",
    "LinearModel",
    "LinearTerm",
    "Model",
    "Passes",
    "Processes",
    "RateSupport",
    "Rows",
    "SmoothedL1",
    "SquaredMeasure",
    "StratifiedBatches",
    "TrainingProblem",
    "TrainingResult",
    "accepts",
    "as_model",
    "as_regularizers",
    "assess_now",
    "assign",
    "blank_linear",
    "choose_status",
    "evaluation_mode",
    "fit",
    "frontier",
    "gap_sums",
    "loss_price",
    "make_model",
    "on_rows",
    "open_journal",
    "present_processes",
    "prices_in_accuracy",
    "probability_at",
    "rates_on_a_handful",
    "resumed",
    "surrogate_gaps",
    "tighten",
    "train",
]


def __getattr__(name: str) -> Any:
    for module, names in _WITH_TORCH.items():
        if name in names:
            need_torch(f"fairbound.training.{name} needs")
            return getattr(import_module(f"fairbound.training.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
