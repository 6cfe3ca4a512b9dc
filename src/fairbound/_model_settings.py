"""The settings of a model that come in records: how groups are read, what training minimises, how it is solved.

They are parameters of `ConstrainedClassifier`, of `study` and of `alternatives`; the command line has options for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar, Literal

from fairbound._errors import InputError, argument, both_given
from fairbound._settings import IN_PYTHON, Count, Level, Range, Settings, Share, Shell


@dataclass(frozen=True, repr=False)
class Groups(Settings):
    """How the groups of the limits are read.

    Parameters
    ----------
    combine : str
        With several sensitive columns: the groups of each column, their intersections, or both.
    missing : str
        Rows whose group is missing count in the loss only, or form a group of their own.
    small : str
        Groups of few rows: raise an error, leave them out of the limits with a warning, or merge them.
    min_size : int
        Groups with fewer rows count as small.
    as_input : bool
        Whether columns that hold groups are also inputs of the model.  `predict` then needs them.
    weight : str
        The weights of the rows in the limits: those in the loss, or none.
    no_group_worse : bool, or name of a rate
        Keep the limits by raising rates only: no group's selection rate (or the named rate) falls below that without
        limits.
    """

    place: ClassVar[str] = "groups"

    combine: Literal["each", "intersection", "both"] = "each"
    _: KW_ONLY
    missing: Annotated[Literal["ignore", "group"], IN_PYTHON] = "ignore"
    small: Literal["error", "warn", "merge"] = "error"
    min_size: Count = 10
    as_input: Annotated[bool, IN_PYTHON] = False
    weight: Annotated[Literal["same", "none"], IN_PYTHON] = "same"
    no_group_worse: bool | str = False


@dataclass(frozen=True, repr=False)
class Loss(Settings):
    """What training minimises.

    Parameters
    ----------
    function : str, or function of (logits, labels)
        The loss that training minimises.  A function returns one value per row, as torch's losses do with
        `reduction="none"`.
    l2 : float or "auto"
        Weight of ½‖w‖²; with a base, w are the weights of the correction only.  "auto" is 1 / rows, as in scikit-learn,
        with fan-in times the weight in networks; with a base, 1 / (rows of the smallest group, at least 1% of all).
    class_weight : "balanced", dict of label to number, or None
        Give all classes the same weight in the loss, or each its own; not in limits.
    regularizers : sequence of SquaredMeasure, SmoothedL1, L2, or texts
        A term added to the loss: "demographic_parity * 2" (a squared measure), "l1 * 0.001" or "l2 * 0.01".
    """

    place: ClassVar[str] = "loss"

    function: Annotated[Any, Shell(Literal["cross_entropy", "hinge"])] = "cross_entropy"
    _: KW_ONLY
    l2: Annotated[Literal["auto"] | Annotated[float, Range(least=0)], IN_PYTHON] = "auto"
    class_weight: Literal["balanced"] | Mapping[Any, float] | None = None
    regularizers: Annotated[Any, Shell(list[str], "TERM...")] = ()


@dataclass(frozen=True, repr=False)
class Effort(Settings):
    """How much work a fit may do.

    Parameters
    ----------
    epochs : int or "auto"
        Passes over the rows by mini-batches, half of them without limits; 0 trains by whole passes only.  "auto" is 20
        if a batch size is stated or the data are very large, and else 0.
    batch_size : int, optional
        Rows of a mini-batch; by default a fiftieth of the rows, between 64 and 8,192.
    constraint_share : float
        The share of the rows on which mini-batches evaluate the limits, at most 50,000 rows.
    learning_rate : float
        First learning rate of Adam, which trains without limits by mini-batches.
    iterations : int
        Largest number of iterations of one solve.  A linear model takes 3 to 8, a network up to this.
    mixture : float
        Share of the smoothed error in the objective, in [0, 1); the rest is the loss, which bounds the margins.
    touches : int
        Largest number of moves of the bounds by the gap between smoothed and exact values.
    sample : int
        Rows of the sample on which a fit of more than twice as many rows begins; a twentieth of the rows if that is
        more.
    free : bool
        Whether the model without limits is trained first; otherwise the fit starts from the module as it is.
    """

    place: ClassVar[str] = "effort"

    epochs: Annotated[Literal["auto"] | Annotated[int, Range(least=0)], Shell(str, "auto|NUMBER")] = "auto"
    _: KW_ONLY
    batch_size: Count | None = None
    constraint_share: Annotated[float, Range(above=0, most=1), Shell(float, "SHARE")] = 1 / 3
    learning_rate: Annotated[float, Range(above=0), IN_PYTHON] = 0.02
    iterations: Annotated[Count, IN_PYTHON] = 80
    mixture: Annotated[float, Range(least=0, below=1), IN_PYTHON] = 0.8
    touches: Annotated[int, Range(least=0), IN_PYTHON] = 8
    sample: Annotated[Count, IN_PYTHON] = 10_000
    free: Annotated[bool, IN_PYTHON] = True

    @property
    def solver(self) -> Literal["auto", "quasi-newton", "stochastic"]:
        """By whole passes, by mini-batches first, or whichever suits the size of the data."""
        if self.epochs == 0:
            return "quasi-newton"
        return "auto" if self.epochs == "auto" and self.batch_size is None else "stochastic"

    @property
    def passes(self) -> int:
        """The number of epochs, if there are mini-batches."""
        return 20 if self.epochs == "auto" else self.epochs


@dataclass(frozen=True, repr=False)
class Training(Effort):
    """How a model is trained, besides the parameters of `Effort`.

    Parameters
    ----------
    early_stopping : bool
        If True, return the model with the least loss on the rows of `eval_set`, among those that keep the limits on the
        training rows.  `fit` then needs `eval_set`.
    forecast : bool
        Whether `result_.forecast` says what the limits will be on new rows.  It takes five fits more.
    warm_start : bool
        Whether `fit` starts from the model of the last fit, and keeps its encoder.
    device : str or torch.device, optional
        Where the network is trained, such as "cuda".  Predictions are always made on the CPU, in double precision.
    monotonic : dict of column to 1 or -1, optional
        For a linear model of two classes or of numbers: when such a column rises, the score of the positive label, or
        the prediction, does not fall (1), or does not rise (-1).  A base has constraints of its own, which its
        correction keeps.
    distributed : {"auto", "off"}
        Inside a process group of torch.distributed, "auto" fits one model to the rows of all processes.
    """

    place: ClassVar[str] = "training"

    early_stopping: Annotated[bool, IN_PYTHON] = False
    forecast: Annotated[bool, IN_PYTHON] = True
    warm_start: Annotated[bool, IN_PYTHON] = False
    device: Annotated[Any, IN_PYTHON] = None
    monotonic: Annotated[Mapping[Any, int] | None, IN_PYTHON] = None
    distributed: Annotated[Literal["auto", "off"], IN_PYTHON] = "auto"


@dataclass(frozen=True, repr=False)
class Base(Settings):
    """A base model, and how the correction is trained over it.

    Parameters
    ----------
    classifier : classifier
        Any scikit-learn classifier with `predict_proba` or `decision_function`, such as boosted trees, a forest or a
        pipeline.  Boosters get categories as codes, pipelines get X unchanged, all others the encoded columns.
    cv : int, splitter, or "prefit"
        The folds for the scores of the training rows, with the same shares of labels and groups.  Each row is scored by
        a base that has not seen it.  "prefit" uses a fitted base as it is: give rows that it has not seen.
    ensemble : bool
        Whether `predict` averages the base models of the folds, in place of one base refitted on all rows.
    correction : {"columns", "groups", "both", "best"}
        The inputs of the correction: the encoded columns; estimates of the group; both; or what does best in
        cross-validation.  Copies of the base estimate the group from the columns.  This needs large groups, and the
        model then contains an estimate of the group.  Without limits it has the columns.
    """

    place: ClassVar[str] = "base"

    classifier: Any
    _: KW_ONLY
    cv: Any = 5
    ensemble: bool = False
    correction: Literal["columns", "groups", "both", "best"] = "columns"


@dataclass(frozen=True, repr=False)
class Confidence(Settings):
    """The confidence that limits are kept on unseen rows, and the rows that show it.

    Parameters
    ----------
    level : float
        Keep the limits on unseen rows with this confidence; holds out calibration rows.
    calibration_size : float
        The share of the rows that are held back, with the same shares of labels and groups.
    """

    place: ClassVar[str] = "confidence"

    level: Level
    _: KW_ONLY
    calibration_size: Annotated[Share, IN_PYTHON] = 0.3


Margin = Annotated[Literal["auto"] | Annotated[float, Range(above=0, below=1)] | None, Shell(str, "auto|PROBABILITY")]
"""The type of `margin=`: a probability; "auto" is 2/3, so that limits are twice as likely to hold as to break."""

Quantity = Annotated[str | Count | None, Shell(str, "SHARE%|NUMBER")]
"""The type of `select=`: a share such as "10%", or a number of rows."""

Callback = Callable[[dict[str, Any]], bool | None]
"""Called with each row of the history; if it returns True, the fit ends with the best model found."""


def refuse_conflicts(
    limits: Sequence[Any],
    *,
    confidence: Confidence | None,
    margin: float | str | None,
    training: Training,
    bounds: Sequence[float] = (),
) -> None:
    """Raise an error for settings that do not go together; `bounds` are those of a frontier."""
    level = None if confidence is None else confidence.level
    choosing: dict[str, Any] = {"confidence": level, "margin": margin, "bounds": list(bounds) or None}
    chosen = [argument(name, value) for name, value in choosing.items() if value is not None]
    if len(chosen) > 1:
        raise both_given(chosen[0], chosen[1], "which model to choose")
    if level is not None and all(limit.bound is None for limit in limits):
        raise InputError(
            "{confidence=level} needs at least one limit with a bound.", "Add it with {constraints=}.", level=level
        )
    if level is not None and training.warm_start:
        raise InputError(
            "{confidence=level} tests on rows that no model has seen, also none that {training.warm_start=True} starts "
            "from.",
            "Leave one of them out.",
            level=level,
        )
