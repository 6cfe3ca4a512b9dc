"""The scikit-learn classifier whose decisions keep stated limits: its parameters, `fit`, `frontier` and `save`.

`predictor` has `predict` and all other methods that take new rows.

`result_` is counted from the decisions that `predict` makes on the training rows.  With a base model it is counted on
cross-fitted rows: each is scored by a base that has not seen it (`fairbound.estimator.cross_fitting`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Literal, Self

from sklearn.base import ClassifierMixin, clone
from sklearn.utils import Tags
from torch import nn

from fairbound.data import ColumnFormat, Source
from fairbound.estimator.certified import set_apart
from fairbound.estimator.columns import learn_names
from fairbound.estimator.fitting import Fitting
from fairbound.estimator.frontier import FrontierModel, frontier_models
from fairbound.estimator.inputs import Inputs, read_inputs
from fairbound.estimator.modules import last_network
from fairbound.estimator.parameters import (
    ALLOWED,
    NamedParameters,
    check_early_stopping,
    check_frontier,
    check_margin,
    checked_resume,
)
from fairbound.estimator.predictor import Predictor
from fairbound.estimator.result import FitResult
from fairbound.estimator.rows import Data, read_data, read_further
from fairbound.estimator.shared import fit_shared
from fairbound.estimator.sources import from_source
from fairbound.fairness import Constraint
from fairbound.training import Effort, Passes, Processes, resumed


class ConstrainedClassifier(Predictor, ClassifierMixin, NamedParameters):
    """A classifier trained under limits on measured disparities between groups.

    Parameters
    ----------
    constraints : Constraint, str, or several
        The limits, such as `DisparateImpact(0.8)` or "disparate_impact >= 0.8".  Without any, the result is a plain
        classifier, which needs no groups.
    hidden : sequence of int
        Widths of the hidden layers; () gives a linear model.
    module : torch.nn.Module, or function of (n_inputs, n_outputs), optional
        Your own network, in place of `hidden`.  A module is copied, a function is called.  It returns logits: one per
        row for two classes, one per class for more.
    base : classifier, optional
        Any scikit-learn classifier with `predict_proba` or `decision_function`, such as boosted trees, a forest or a
        pipeline.  The model is then v · base score + correction.  The correction is computed from the columns; `hidden`
        sets its layers.  Boosters get categories as codes, pipelines get X unchanged, all others the encoded columns.
    cv : int, splitter, or "prefit"
        The folds for the scores of the training rows, with the same shares of labels and groups.  Each row is scored by
        a base that has not seen it.  "prefit" uses a fitted base as it is: give rows that it has not seen.
    ensemble : bool
        Whether `predict` averages the base models of the folds, in place of one base refitted on all rows.
    correction : {"columns", "groups", "both"}
        The inputs of the correction: the encoded columns; estimates of the group; or both.  Copies of the base estimate
        the group from the columns.  This needs large groups, and the model then contains an estimate of the group.
    objective : {"accuracy", "loss"}
        What is best under the limits: the most accurate decisions, or the least loss.
    solver : {"auto", "quasi-newton", "stochastic"}
        How to train: by passes over all rows, or by mini-batches first and passes over all rows at the end.  "auto"
        takes mini-batches only for very large data.  Networks with Dropout or BatchNorm need "stochastic".
    batch_size, epochs, constraint_share : numbers, optional
        For mini-batches: rows per batch, passes (half of them without limits), share of rows for the limits (1/3).
    early_stopping : bool
        If True, return the model with the least loss on the rows of `eval_set`, among those that keep the limits on the
        training rows.  `fit` then needs `eval_set`.
    loss : str or function of (logits, labels)
        "cross_entropy", "hinge", or a function that returns one value per row, as torch's losses do with
        `reduction="none"`.
    regularizers : sequence of SquaredMeasure, SmoothedL1, L2, or texts such as "demographic_parity * 2"
        Terms added to the loss: a measure's squared surrogate with its weight (1/λ in the paper), or a norm.
    class_weight : "balanced", dict of label to number, or None
        Weights of the classes in the loss, as in scikit-learn.  Limits and accuracy are not weighted.
    threshold : float
        With two classes, the decision is positive if the positive probability exceeds this.
    l2 : float or "auto"
        Weight of ½‖w‖² in the objective; with a base, w are the weights of the correction only.  "auto" is 1 / rows, as
        in scikit-learn, with fan-in times the weight in networks; with a base, 1 / (rows of the smallest group).
    pos_label : label, optional
        The positive one of two classes, which selection rates count.  By default it is 1 of (0, 1) and (-1, 1), true of
        (false, true), yes of (no, yes).  Else it is the last in sorted order; a warning says if a limit depends on it.
    confidence : float, optional
        Keep the limits on unseen rows, too, at this confidence level, such as 0.95.  A part of the rows is held back
        for calibration.  Models from strict to loose are trained on the others and tested on that part; the confidence
        level accounts for all tests.  The loosest model that passes is returned, with its certificate.
    margin : "auto", float, or None
        Tighten the limits in training just enough that, by the forecast in `result_`, they hold on new rows with this
        probability, such as 0.8; "auto" is 2/3.  All rows are trained on.  Unlike `confidence`, it proves nothing.
    forecast : bool
        Whether `result_.forecast` says what the limits will be on new rows.  It takes five fits more.
    calibration_size : float
        The share of the rows that `confidence` holds back, with the same shares of labels and groups.
    sensitive_columns : column name or number, or several, optional
        The columns of X that hold the groups; then `fit(X, y)` needs nothing else.
    sensitive_as_input : bool
        Whether these columns are also inputs of the model.  `predict` then needs them.
    groups : {"each", "intersection", "both"}
        With several group columns: limit each of them, their intersections, or both.
    missing_groups : {"ignore", "group"}
        Rows whose group is missing either count in the loss only, or form their own group.
    small_groups : {"error", "warn", "merge"}
        What to do with groups of fewer than `min_group_size` rows: raise an error, leave them out of the limits with a
        warning, or merge them.
    min_group_size : int
    no_group_worse : bool, or name of a rate
        If set, no group's selection rate (or the named rate) may fall below that in the model without limits, which is
        trained first.  So the limits are kept by raising rates only.  `result_.limits` lists these floors, too.
    constraint_weight : {"same", "none"} or array of shape (n,)
        Weights of the rows in the limits: the sample weights, equal weights, or this array.
    preprocessing : "auto", transformer, or None
        How X is encoded: "auto" uses a `TableEncoder`; a transformer is copied and fitted on the training rows; None
        accepts numbers only.  With None, built-in networks still scale their inputs, and a `module` gets them as is.
    categorical : sequence of column names or numbers, optional
        Columns of numbers that are categories, such as codes.
    max_categories : int
        Largest number of 0/1 columns that encode one category.
    effort : Effort, optional
        The phases of the solver.
    warm_start : bool
        Whether `fit` starts from the model of the last fit, and keeps its preprocessing.
    random_state : int, RandomState or None
        Seed of the initial parameters, of mini-batches, and of the rows that are held back.  The same number gives the
        same model, bit for bit, for the same number of threads.  None draws a seed.
    device : str or torch.device, optional
        Where the network is trained, such as "cuda".  Predictions are always made on the CPU, in double precision.
    distributed : {"auto", "off"}
        Inside a process group of torch.distributed, "auto" fits one model to the rows of all processes.
    callbacks : function, or sequence of functions
        Each is called with every row of the history.  If one returns True, the fit ends with the best model found.
    verbose : int
        1 prints a line for each phase, 2 for each iteration.

    Attributes
    ----------
    classes_ : array
        The labels, in order.
    pos_label_ : label, or None
        The positive one of two classes.
    group_columns_, left_columns_ : tuples of int
        Positions of the columns of X that hold groups, and of those that are not inputs.
    n_features_in_ : int
    feature_names_in_ : array of str
        Set if the columns of X have names.  A model of files or of a study finds them in tables with further columns.
    encoder_ : transformer, or None
        Encodes X as numbers.
    encoded_names_ : list of str
        The inputs of the module.
    module_ : torch.nn.Module
        The trained network, in double precision.
    base_ : FittedBase, or None
        The base that scores new rows; its `estimators` are the fitted ones.
    base_score_ : array, or None
        The cross-fitted scores of the rows of X, in the form of `base_score=`.  Rows that were not trained on (weight
        0, or held back for calibration) are scored as new rows.
    coef_, intercept_ : arrays
        For linear models: `encoder_.transform(X) @ coef_.T + intercept_` are the logits.  The encoder scales numbers.
    n_iter_ : int
    calibration_ : recalibration, or None
        Set by `recalibrate`.
    certificate_ : Certificate, or None
        With `confidence=`: the verdicts on the limits from the calibration rows.
    result_ : FitResult
        Status, limits and reached values, prices, rates by group, history.  Prints as tables.

    Examples
    --------
    >>> from fairbound import load_dataset
    >>> law = load_dataset("law")
    >>> clf = ConstrainedClassifier("disparate_impact >= 0.8")
    >>> clf.fit(law.frame(), law.y, sensitive_features=law.sensitive["race"]).result_.kept
    True
    >>> clf.predict(law.frame())[:3]
    array([1, 1, 1])
    """

    # With metadata routing enabled, groups are routed to `fit` without `set_fit_request`.
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"sensitive_features": True}

    _parameter_constraints = ALLOWED  # checked by `_validate_params`

    def __init__(
        self,
        constraints: Constraint | str | Iterable[Constraint | str] = (),
        *,
        hidden: Sequence[int] = (),
        module: nn.Module | Callable[[int, int], nn.Module] | None = None,
        base: Any = None,
        cv: Any = 5,
        ensemble: bool = False,
        correction: str = "columns",
        objective: Literal["accuracy", "loss"] = "accuracy",
        solver: str = "auto",
        batch_size: int | None = None,
        epochs: int | None = None,
        constraint_share: float | None = None,
        early_stopping: bool = False,
        loss: Any = "cross_entropy",
        regularizers: Any = (),
        class_weight: Any = None,
        threshold: float = 0.5,
        l2: float | Literal["auto"] = "auto",
        pos_label: Any = None,
        confidence: float | None = None,
        margin: float | Literal["auto"] | None = None,
        forecast: bool = True,
        calibration_size: float = 0.3,
        sensitive_columns: Any = None,
        sensitive_as_input: bool = False,
        groups: str = "each",
        missing_groups: str = "ignore",
        small_groups: str = "error",
        min_group_size: int = 10,
        no_group_worse: bool | str = False,
        constraint_weight: Any = "same",
        preprocessing: Any = "auto",
        categorical: Sequence[Any] | None = None,
        max_categories: int = 50,
        effort: Effort | None = None,
        warm_start: bool = False,
        random_state: Any = 0,
        device: Any = None,
        distributed: Literal["auto", "off"] = "auto",
        callbacks: Sequence[Callable[[dict[str, Any]], bool | None]] = (),
        verbose: int = 0,
    ) -> None:
        self.constraints = constraints
        self.hidden = hidden
        self.module = module
        self.base = base
        self.cv = cv
        self.ensemble = ensemble
        self.correction = correction
        self.objective = objective
        self.solver = solver
        self.batch_size, self.epochs, self.constraint_share = batch_size, epochs, constraint_share
        self.early_stopping = early_stopping
        self.loss = loss
        self.regularizers = regularizers
        self.class_weight = class_weight
        self.threshold = threshold
        self.l2 = l2
        self.pos_label = pos_label
        self.confidence = confidence
        self.margin = margin
        self.forecast = forecast
        self.calibration_size = calibration_size
        self.sensitive_columns = sensitive_columns
        self.sensitive_as_input = sensitive_as_input
        self.groups = groups
        self.missing_groups = missing_groups
        self.small_groups = small_groups
        self.min_group_size = min_group_size
        self.no_group_worse = no_group_worse
        self.constraint_weight = constraint_weight
        self.preprocessing = preprocessing
        self.categorical = categorical
        self.max_categories = max_categories
        self.effort = effort
        self.warm_start = warm_start
        self.random_state = random_state
        self.device = device
        self.distributed = distributed
        self.callbacks = callbacks
        self.verbose = verbose

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        sample_weight: Any = None,
        constraint_weight: Any = None,
        base_score: Any = None,
        eval_set: tuple[Any, ...] | None = None,
        calibration_set: tuple[Any, ...] | None = None,
        resume: str | os.PathLike[str] | Passes | None = None,
    ) -> Self:
        """Train under the limits.

        Parameters
        ----------
        X : table or array of shape (n, columns), path, Source or Arrow stream
            A pandas, polars or pyarrow table with numbers, text and missing values; an array; a sparse matrix.  Or rows
            that need not fit in memory: the path of a Parquet file, of a folder of them, or of a CSV file; an object
            with `__arrow_c_stream__`, such as a DuckDB relation; or a `Source`, which says how they are read.  Then
            `y`, `sensitive_features` and `sample_weight` are names of columns, and other columns are inputs.  The rows
            are encoded into a scratch folder on disk, and read from there in every pass.
        y : sequence of n labels, or name of a column
            Two or more classes.
        sensitive_features : table, mapping or array of groups, or names of columns of X, optional
            Required with limits, unless `sensitive_columns` is set.  Missing values are allowed.  In a mapping, a
            column may be a table of probabilities with one column for each group.
        sample_weight : sequence of n numbers, optional
            Weights in the loss and, unless `constraint_weight` says otherwise, in the limits.
        constraint_weight : sequence of n numbers, optional
            Weights in the limits; overrides the parameter of this name.
        base_score : array of shape (n,) or (n, classes), optional
            Scores of an external model, in place of `base`, for rows that it has not seen.  They are logits (of the
            second of two classes, or of each of several), or probabilities of all classes as from `predict_proba`.
            Predictions then need scores, too.  `eval_set` and `calibration_set` have them as fourth entry.
        eval_set : tuple (X, y) or (X, y, groups), optional
            Validation rows, not trained on.  Accuracy and limits on them are recorded at each iteration and reported.
            If the groups are columns of X, they are taken from this X as well.
        calibration_set : tuple (X, y) or (X, y, groups), optional
            With `confidence=`: your own calibration rows, in place of a share of the training rows.  They must not
            have been used for anything that led to the model.
        resume : path, optional
            A file for the journal of the fit.  It is written every few seconds, and removed at the end.  If the fit is
            killed, call `fit` again with the same file, and it continues.
        """
        started = time.perf_counter()
        others = {"base_score": base_score, "eval_set": eval_set, "calibration_set": calibration_set}
        given = {"constraint_weight": constraint_weight, **others}
        if Source.of(X) is not None:
            fitted, _ = from_source(self, "fit", X, y, sensitive_features, sample_weight, resume=resume, **given)
            stated = self.get_params(deep=False)
            self.__dict__.update({name: each for name, each in vars(fitted).items() if name not in stated})
            self.by_name_ = True  # its columns have been named one by one
            return self
        if self.distributed == "auto" and (processes := Processes.present()) is not None:
            return fit_shared(self, processes, X, y, sensitive_features, sample_weight, resume, given)
        self._validate_params()
        check_early_stopping(self, eval_set)
        check_margin(self)
        inputs = read_inputs(X)
        data = read_data(self, inputs, y, sensitive_features, sample_weight, constraint_weight, base_score)
        further = partial(read_further, self, inputs, data, sensitive_features)
        validation = None if eval_set is None else further("eval_set", eval_set)
        data, calibration = set_apart(self, data, calibration_set, further)
        encoder, module = last_network(self, inputs, data) if self.warm_start else (None, None)
        with resumed(checked_resume(self, resume)) as passes:
            fitting = Fitting(self, data, passes, encoder, module)
            result = fitting.run(validation, calibration)
        return self._adopt(inputs, data, fitting, replace(result, seconds=time.perf_counter() - started))

    def _adopt(self, inputs: Inputs, data: Data, fitting: Fitting, result: FitResult) -> Self:
        """Set the fitted attributes."""
        learn_names(self, inputs)
        self.by_name_ = False
        self.classes_ = fitting.classes
        self.pos_label_ = fitting.cells.classes[1] if len(self.classes_) == 2 else None
        self.threshold_ = float(self.threshold)
        self.group_columns_, self.left_columns_ = data.group_columns, data.left_columns
        self.encoder_ = fitting.encoder
        self.formats_: dict[str, ColumnFormat] = {}
        self.encoded_names_ = fitting.input_names
        self._scores = None
        if fitting.base is not None:
            self._scores = fitting.base.completed(inputs.without(data.left_columns), data.positions)
        self.module_ = fitting.module
        self.n_iter_ = len(result.iterations)
        self.calibration_ = None
        self.certificate_ = result.certificate
        self.result_ = result
        return self

    def frontier(
        self,
        X: Any,
        y: Any,
        bounds: Sequence[float],
        *,
        position: int = 0,
        sensitive_features: Any = None,
        sample_weight: Any = None,
        constraint_weight: Any = None,
        base_score: Any = None,
        resume: str | os.PathLike[str] | Passes | None = None,
    ) -> tuple[FrontierModel, ...]:
        """Train a classifier for each of several bounds of one limit.  The estimator itself is not changed.

        All bounds share the model without limits.  Each model is the one that `fit` finds for its bound, unless a
        stricter one is clearly more accurate and takes its place.  Every classifier has a `result_` of its own.

        Parameters
        ----------
        X, y, sensitive_features, sample_weight, constraint_weight, base_score, resume
            As for `fit`.
        bounds : sequence of float
        position : int
            Index in `constraints` of the limit that the bounds are for.
        """
        if Source.of(X) is not None:
            given = {"constraint_weight": constraint_weight, "base_score": base_score, "resume": resume}
            named = y, sensitive_features, sample_weight
            _, models = from_source(self, "frontier", X, *named, bounds=bounds, position=position, **given)
            for each in models:
                each.classifier.by_name_ = True
            return tuple(models)
        self._validate_params()
        check_frontier(self)
        inputs = read_inputs(X)
        data = read_data(self, inputs, y, sensitive_features, sample_weight, constraint_weight, base_score)
        with resumed(checked_resume(self, resume)) as passes:
            found = Fitting(self, data, passes).frontier(bounds, position)
        return self._adopt_frontier(inputs, data, found)

    def _adopt_frontier(self, inputs: Inputs, data: Data, found: Sequence[Any]) -> tuple[FrontierModel, ...]:
        models = []
        for _, fitting, record in found:
            limits = [each for each in fitting.constraints if each not in fitting.floors]
            model = clone(self).set_params(constraints=limits, base=self.base)
            models.append(model._adopt(inputs, data, fitting, record))
        return frontier_models([point for point, _, _ in found], models)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.categorical = True
        tags.input_tags.allow_nan = self.preprocessing is not None
        return tags
