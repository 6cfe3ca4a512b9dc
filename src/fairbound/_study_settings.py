"""The settings of studies and of searches for alternatives, besides limits and bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from importlib.util import find_spec
from typing import Annotated, Literal

from fairbound._model_settings import Groups, Loss, Margin, Quantity, Training
from fairbound._settings import IN_PYTHON, Level, Range, Seed, Settings, Share, Shell

KINDS = ("linear", *(["mlp:16"] if find_spec("torch") else []), "boosted")
"""The kinds of candidates that a search trains by default."""


@dataclass(frozen=True, repr=False)
class FrontierChoices(Settings):
    """How the models of a frontier are trained and tested.

    Parameters
    ----------
    model : auto|linear|mlp:32|boosted|lightgbm|forest
        A linear model, a network with these hidden layers (mlp:64,32), or trees with a linear correction; auto chooses
        between linear and boosted by cross-validated loss.
    test_size : float
        Share of the rows to hold out, from 0 to below 1.
    seed : int
        Seed of all random draws: the parts of the data, the initial parameters.
    objective : str
        What is best under the limits: accuracy, loss, balanced_accuracy, "cost(false_positive=1, false_negative=5)", or
        "profit(column)" with the column of the data that says what a positive decision gains.
    select : str
        A quota: the share or the number of the training rows to select, such as 10% or 100; the threshold follows it.
    groups : {"each", "intersection", "both"}, or Groups
    loss : str, or Loss
        Its function and its regularisers by name.
    surrogates : str or sequence of str
        The surrogate of all limits, or of each in order, such as "sigmoid:20"; by default that of the measure.
    training : "auto", int, or Training
    """

    _: KW_ONLY
    model: str = "auto"
    test_size: Annotated[float, Range(least=0, below=1), IN_PYTHON] = 0.2
    seed: Seed = 0
    objective: Annotated[str, Shell(str, "OBJECTIVE")] = "accuracy"
    select: Quantity = None
    groups: Groups = Groups()
    loss: Loss = Loss()
    surrogates: Annotated[str | Sequence[str], Shell(list[str], "NAME:SCALE...")] = ()
    training: Training = Training()


@dataclass(frozen=True, repr=False)
class StudyChoices(FrontierChoices):
    """How the models of a study are trained and tested, besides the fields of `FrontierChoices`.

    Parameters
    ----------
    confidence : float, optional
        Keep the limits on unseen rows with this confidence; holds out calibration rows.
    margin : "auto", float, or None
        Tighten the limits just enough to hold on new rows with this probability, by the forecast; auto is two thirds,
        but nothing with a confidence, with bounds, or in several processes.  None, or none, keeps the limits on the
        training rows alone.
    """

    confidence: Level | None = None
    margin: Annotated[Literal["none"] | Margin, Shell(str, "auto|PROBABILITY|none")] = "auto"


@dataclass(frozen=True, repr=False)
class SearchChoices(Settings):
    """How the candidates of a search are trained, compared and chosen.

    Parameters
    ----------
    models : sequence of str
        Kinds of candidates, as the model of a study; by default linear, mlp:16 (if torch is installed) and boosted.
    within : str
        How much worse than the baseline an alternative may be: points of accuracy or auc, or log_loss.
    choosing_size : float
        The share of the rows for choosing a candidate.
    final_size : float
        The share of the rows that evaluate the chosen one.
    confidence : float
        The confidence level of the intervals, below 1.
    seed : int
        Seed of all random draws: the parts of the data, the initial parameters.
    groups : {"each", "intersection", "both"}, or Groups
    """

    _: KW_ONLY
    models: Annotated[Sequence[str], Shell(list[str], "KIND...")] = KINDS
    within: Annotated[str, Shell(str, '"METRIC AMOUNT"')] = "accuracy 0.5"
    choosing_size: Share = 0.2
    final_size: Share = 0.2
    confidence: Level = 0.95
    seed: Seed = 0
    groups: Groups = Groups()
