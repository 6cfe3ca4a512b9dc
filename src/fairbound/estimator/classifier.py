"""The scikit-learn face: a classifier whose decisions keep stated limits.

    fit       tables to numbers, rows to cells, a module to its optimum under the limits
    predict   numbers, logits in double precision, decisions; the group is not needed, and nothing is random

What `result_` says is counted from the decisions that `predict` makes on the training rows.  With a base model it is
counted on cross-fitted rows: each is scored by a base that has not seen it (`fairbound.estimator.cross_fitting`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import Tags
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from fairbound._errors import InputError
from fairbound._parameters import nested_parameters, with_parameters
from fairbound.data import ColumnFormat
from fairbound.estimator.certified import check_confident, hold_back
from fairbound.estimator.correction import Corrected, read_base_score
from fairbound.estimator.cross_fitting import FittedBase
from fairbound.estimator.encoding import encode, encoded_units
from fairbound.estimator.fitting import Fitting
from fairbound.estimator.forward import class_probabilities, logits
from fairbound.estimator.frontier import FrontierModel, frontier_models
from fairbound.estimator.groups import align_groups
from fairbound.estimator.inputs import Inputs, read_inputs
from fairbound.estimator.labels import read_labels, read_weights
from fairbound.estimator.names import check_names, learn_names
from fairbound.estimator.recalibration import Recalibration, fit_recalibration
from fairbound.estimator.result import FitResult
from fairbound.estimator.rows import Data, read_data, read_further
from fairbound.fairness import Cells, Constraint, as_constraints, decide, logit
from fairbound.training import Effort

ENCODED_AT_ONCE = 2**16
"""Rows that are made numbers at once when predicting; bounds the memory."""


class ConstrainedClassifier(ClassifierMixin, BaseEstimator):
    """A classifier trained under limits on measured disparities between groups.

    Parameters
    ----------
    constraints : Constraint, str, or several
        The limits, as `DisparateImpact(0.8)` or "disparate_impact >= 0.8".  None at all gives a plain classifier, which
        needs no groups.
    hidden : sequence of int
        Widths of the hidden layers; () is a linear model.
    module : torch.nn.Module, or function of (n_inputs, n_outputs), optional
        A network of your own, in place of `hidden`: copied, or made by the function.  It gives one output per row for
        two classes, one per class for more: logits.
    base : classifier, optional
        Any classifier of scikit-learn's kind with `predict_proba` or `decision_function`: boosted trees, a forest, a
        pipeline.  The model is then v · base score + a correction from the columns, which `hidden` shapes.  Boosters
        see categories and missing values as such, pipelines see X as it is, all others the encoded columns.
    cv : int, splitter, or "prefit"
        The folds that score the training rows, each by a base that has not seen it, with the same shares of labels and
        groups.  "prefit" takes a base that is fitted already, as it is: give rows that it has not seen.
    ensemble : bool
        Whether `predict` averages the folds' base models, in place of one that is refitted on all rows.
    correction : {"columns", "groups", "both"}
        What corrects the base: the encoded columns; estimates of the group, made from the columns by copies of the
        base; or both.  Estimates need large groups, and the model then contains an estimate of the group.
    objective : {"loss", "cross_entropy", "accuracy"}
        What is best under the limits.  "loss" is the cross-entropy (and, among models within 5% of the least, the
        accuracy); "accuracy" seeks accurate decisions alone, whose probabilities mean little.
    solver : {"auto", "quasi-newton", "stochastic"}
    threshold : float
        With two classes the positive one is decided for when its probability exceeds this.
    l2 : float
        Weight of ½‖w‖² in the objective; a little keeps the optimum finite.
    pos_label : label, optional
        The positive of two classes, which selection rates count.  By default 1 of 0 and 1 or of -1 and 1, true of false
        and true, yes of no and yes; of other labels the last in sorted order, with a warning if a limit depends on it.
    confidence : float, optional
        Keep the limits on unseen rows, too, with this probability of not being wrong, such as 0.95: a part of the rows
        is held back, a sequence of models from strict to loose is trained on the others and tested on that part, and
        the most accurate of those that pass before the first failure is returned, with its certificate.
    calibration_size : float
        The share of the rows that a confidence holds back, drawn with the same shares of labels and groups.
    sensitive_columns : column name or number, or several, optional
        The columns of X that hold the groups; then `fit(X, y)` needs nothing else.
    sensitive_as_input : bool
        Whether these columns are also inputs of the model, which `predict` then needs.
    groups : {"each", "intersection", "both"}
        With several group columns: limit each of them, their intersections, or both.
    missing_groups : {"ignore", "group"}
        Rows whose group is missing count in the loss and in no limit; or are a group of their own.
    small_groups : {"error", "warn", "merge"}
        What to do with groups of fewer than `min_group_size` rows: refuse, leave them out of the limits with a warning,
        or merge them.
    min_group_size : int
    constraint_weight : {"same", "none"} or array of shape (n,)
        Weights of the rows in the limits: the sample weights, all equal, or these.
    preprocessing : "auto", transformer, or None
        How X becomes numbers: by a `TableEncoder`, or a transformer of your own (a copy of which is fitted on the
        training rows).  None takes numbers only; a network of ours still scales them, a `module` gets them as they are.
    categorical : sequence of column names or numbers, optional
        Columns that are categories although they hold numbers.
    max_categories : int
        The most 0/1 columns that one category becomes.
    effort : Effort, optional
        The phases of the solver.
    warm_start : bool
        Whether `fit` starts from the model of the last fit, and keeps its preprocessing.
    random_state : int, RandomState or None
        Of the first weights, of mini-batches, and of the rows that are held back.  The same number gives the same
        model, bit for bit, for the same number of threads; None draws one.
    device : str or torch.device, optional
        Where the network is trained, such as "cuda"; predictions are always made on the processor, in double precision.
    callbacks : function, or sequence of functions
        Each is called with every row of the history; one that returns True ends the fit with the best found.
    verbose : int
        1 writes a line for each phase, 2 for each iteration.

    Attributes
    ----------
    classes_ : array
        The labels, in order.
    pos_label_ : label, or None
        The positive class of two.
    group_columns_, left_columns_ : tuples of int
        The columns of X that hold the groups, and those that are no inputs.
    n_features_in_ : int
    feature_names_in_ : array of str
        Where the columns of X have names.
    encoder_ : transformer, or None
        What makes numbers of X.
    encoded_names_ : list of str
        The inputs of the module.
    module_ : torch.nn.Module
        The trained network, in double precision.
    base_ : FittedBase, or None
        The base that scores new rows; its `estimators` are the fitted ones.
    base_score_ : array, or None
        The scores of the training rows that counted, as `base_score=` of `predict` takes them.
    coef_, intercept_ : arrays
        For linear models: logits per unit of the encoded columns before their scaling, so in the units of X.
    n_iter_ : int
    calibration_ : recalibration, or None
        Set by `recalibrate`.
    certificate_ : Certificate, or None
        With a confidence: what the calibration rows say about the limits.
    result_ : FitResult
        Status, limits and what was reached, prices, rates by group, history; prints as a table.

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

    # With metadata routing the groups find their way without a word from the user; `set_fit_request` changes that.
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"sensitive_features": True}

    _parameter_constraints = {  # noqa: RUF012 (scikit-learn's own form)
        "objective": [StrOptions({"loss", "cross_entropy", "accuracy"})],
        "solver": [StrOptions({"auto", "quasi-newton", "stochastic"})],
        "threshold": [Interval(Real, 0, 1, closed="neither")],
        "l2": [Interval(Real, 0, None, closed="left")],
        "confidence": [Interval(Real, 0.5, 1, closed="left"), None],
        "calibration_size": [Interval(Real, 0, 1, closed="neither")],
        "sensitive_as_input": ["boolean"],
        "groups": [StrOptions({"each", "intersection", "both"})],
        "missing_groups": [StrOptions({"ignore", "group"})],
        "small_groups": [StrOptions({"error", "warn", "merge"})],
        "min_group_size": [Interval(Integral, 1, None, closed="left")],
        "constraint_weight": [StrOptions({"same", "none"}), "array-like"],
        "ensemble": ["boolean"],
        "correction": [StrOptions({"columns", "groups", "both"})],
        "preprocessing": [StrOptions({"auto"}), HasMethods(["fit", "transform"]), None],
        "max_categories": [Interval(Integral, 2, None, closed="left")],
        "effort": [Effort, None],
        "warm_start": ["boolean"],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

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
        objective: str = "loss",
        solver: str = "auto",
        threshold: float = 0.5,
        l2: float = 1e-5,
        pos_label: Any = None,
        confidence: float | None = None,
        calibration_size: float = 0.3,
        sensitive_columns: Any = None,
        sensitive_as_input: bool = False,
        groups: str = "each",
        missing_groups: str = "ignore",
        small_groups: str = "error",
        min_group_size: int = 10,
        constraint_weight: Any = "same",
        preprocessing: Any = "auto",
        categorical: Sequence[Any] | None = None,
        max_categories: int = 50,
        effort: Effort | None = None,
        warm_start: bool = False,
        random_state: Any = 0,
        device: Any = None,
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
        self.threshold = threshold
        self.l2 = l2
        self.pos_label = pos_label
        self.confidence = confidence
        self.calibration_size = calibration_size
        self.sensitive_columns = sensitive_columns
        self.sensitive_as_input = sensitive_as_input
        self.groups = groups
        self.missing_groups = missing_groups
        self.small_groups = small_groups
        self.min_group_size = min_group_size
        self.constraint_weight = constraint_weight
        self.preprocessing = preprocessing
        self.categorical = categorical
        self.max_categories = max_categories
        self.effort = effort
        self.warm_start = warm_start
        self.random_state = random_state
        self.device = device
        self.callbacks = callbacks
        self.verbose = verbose

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sensitive_features: Any = None,
        sample_weight: Any = None,
        constraint_weight: Any = None,
        base_score: Any = None,
        eval_set: tuple[Any, ...] | None = None,
        calibration_set: tuple[Any, ...] | None = None,
    ) -> Self:
        """Train under the limits.

        Parameters
        ----------
        X : table or array of shape (n, columns)
            pandas, polars or pyarrow tables with numbers, words and missing values; arrays; sparse matrices.
        y : sequence of n labels
            Of two or more classes.
        sensitive_features : table, mapping or array of groups, or names of columns of X, optional
            Needed with limits, unless `sensitive_columns` names them.  Missing values are allowed.
        sample_weight : sequence of n numbers, optional
            Weights in the loss, and by `constraint_weight` in the limits.
        constraint_weight : sequence of n numbers, optional
            Weights in the limits, in place of the parameter of this name.
        base_score : array of shape (n,) or (n, classes), optional
            Scores of a model that lives elsewhere, in place of `base`, for rows that it has not seen: logits of the
            second of two classes, logits of each of several, or probabilities of all classes as `predict_proba` gives
            them.  Predictions then need them, too, and `eval_set` and `calibration_set` have them as fourth.
        eval_set : tuple (X, y) or (X, y, groups), optional
            Rows that are not trained on, on which accuracy and limits are watched and reported.  Groups that are
            columns of X are found there as in X.
        calibration_set : tuple (X, y) or (X, y, groups), optional
            With a confidence: rows of your own to test models on, in place of a part of the training rows.  They must
            have had no part in anything that led to the model.
        """
        self._validate_params()
        inputs = read_inputs(X)
        data = read_data(self, inputs, y, sensitive_features, sample_weight, constraint_weight, base_score)
        further = partial(read_further, self, inputs, data, sensitive_features)
        validation = None if eval_set is None else further("eval_set", eval_set)
        data, calibration = self._set_apart(data, calibration_set, further)
        encoder, module = self._last(inputs, data) if self.warm_start else (None, None)
        fitting = Fitting(self, data, encoder, module)
        return self._adopt(inputs, data, fitting, fitting.run(validation, calibration))

    def _adopt(self, inputs: Inputs, data: Data, fitting: Fitting, result: FitResult) -> Self:
        """Take over what a fit has found."""
        learn_names(self, inputs)
        self.classes_ = fitting.classes
        self.pos_label_ = fitting.cells.classes[1] if len(self.classes_) == 2 else None
        self.threshold_ = float(self.threshold)
        self.group_columns_, self.left_columns_ = data.group_columns, data.left_columns
        self.encoder_ = fitting.encoder
        self.formats_: dict[str, ColumnFormat] = {}
        self.encoded_names_ = fitting.input_names
        self._scores = fitting.base
        self.module_ = fitting.module
        self.n_iter_ = len(result.history)
        self.calibration_: Recalibration | None = None
        self.certificate_ = result.certificate
        self.result_ = result
        return self

    def predict(self, X: Any, *, base_score: Any = None) -> NDArray[Any]:
        """Return the decided label of each row; `base_score` replaces the scores of the base."""
        return self._labels(decide(self._logits(X, base_score), self.threshold_))

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, base_score: Any = None) -> float:
        """Return the share of rows that are decided right, by weight."""
        decided = self.predict(X) if base_score is None else self.predict(X, base_score=base_score)
        labels = read_labels(y, len(decided), type(self).__name__)
        right = np.array([one == other for one, other in zip(labels.tolist(), decided.tolist(), strict=True)])
        return float(np.average(right, weights=read_weights(sample_weight, len(decided), "sample_weight")))

    def predict_proba(self, X: Any, *, base_score: Any = None) -> NDArray[np.float64]:
        """Return the probabilities of the classes, in the order of `classes_`."""
        z = self._logits(X, base_score)
        p = class_probabilities(z) if self.calibration_ is None else self.calibration_(z)
        return (p.flip(1) if self._flipped else p).numpy()

    def decision_function(self, X: Any, *, base_score: Any = None) -> NDArray[np.float64]:
        """Return the logits: of two classes that of the second, beyond the threshold; of more, one for each class."""
        z = self._logits(X, base_score)
        if z.shape[1] > 1:
            return z.numpy()
        margin = z[:, 0] - logit(self.threshold_)
        return (-margin if self._flipped else margin).numpy()

    def recalibrate(self, X: Any, y: Any, *, sample_weight: Any = None, base_score: Any = None) -> Self:
        """Fit the probabilities to rows that training has not seen, without moving a decision.

        Each side of the threshold is mapped onto itself, monotonically, so `predict` and with it every limit stays as
        it is; only `predict_proba` changes.
        """
        z = self._logits(X, base_score)
        labels = read_labels(y, len(z), type(self).__name__)
        places = {label: place for place, label in enumerate(self.classes_.tolist())}
        unknown = [label for label in np.unique(labels).tolist() if label not in places]
        if unknown:
            raise ValueError(f"y has the label {unknown[0]!r}, which is none of classes_: {list(places)}.")
        codes = np.array([places[label] for label in labels.tolist()])
        weights = read_weights(sample_weight, len(z), "sample_weight")
        self.calibration_ = fit_recalibration(z, 1 - codes if self._flipped else codes, weights, self.threshold_)
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
    ) -> tuple[FrontierModel, ...]:
        """Train a classifier for each of several bounds of one of the limits; the estimator itself stays as it is.

        Each bound starts from its neighbour, from loose to strict.  Every classifier is fitted, with the record of its
        own solve as `result_`, as `fit` would leave it.

        Parameters
        ----------
        X, y, sensitive_features, sample_weight, constraint_weight, base_score
            As for `fit`.
        bounds : sequence of float
        position : int
            Which of the limits the bounds are for.
        """
        self._validate_params()
        if self.confidence is not None:
            raise InputError(
                "A frontier is trained without a confidence, but {confidence=value}.",
                "Set it to None, and call fit with the bound that you choose.",
                value=self.confidence,
            )
        inputs = read_inputs(X)
        data = read_data(self, inputs, y, sensitive_features, sample_weight, constraint_weight, base_score)
        found = Fitting(self, data).frontier(bounds, position)
        models = [
            clone(self)
            .set_params(constraints=list(fitting.constraints), base=self.base)
            ._adopt(inputs, data, fitting, record)
            for _, fitting, record in found
        ]
        return frontier_models([point for point, _, _ in found], models)

    def settle_groups(self, cells: Cells) -> Cells:
        """Return the cells of any rows with the groups that the limits speak of.

        Groups of few training rows, which the limits left out or merged, are left out or merged there, too.
        """
        check_is_fitted(self)
        known: dict[str, list[Any]] = {}
        for each in self.result_.groups:
            known.setdefault(each.grouping, []).append(each.group)
        policy = self.small_groups if self.result_.limits else "error"
        return align_groups(cells, known, self.result_.small_groups, policy)  # type: ignore[arg-type]  # as checked

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the model as a folder of JSON and safetensors, without any code in it; `fairbound.load` reads it.

        A model in that place is replaced in one step.  Other files there are replaced with `overwrite=True` only, and a
        folder that holds folders never is.  If `path` is a link, the folder that it leads to is replaced.
        """
        from fairbound.persistence import save_estimator

        check_is_fitted(self)
        save_estimator(self, path, overwrite=overwrite)

    def to_onnx(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the model, its preprocessing inside, as one ONNX file; needs the extra `onnx`.

        Where all columns are numbers the input is a matrix "X"; else each column is an input of its own, of shape
        (n, 1), numbers with NaN or words with "" where a value is missing.  The columns of the groups are left out.
        The outputs are "label", "probabilities" and "margin".  A file that `to_onnx` has written is replaced; any other
        with `overwrite=True` only.
        """
        from fairbound.persistence import export_onnx

        check_is_fitted(self)
        export_onnx(self, path, overwrite=overwrite)

    @property
    def coef_(self) -> NDArray[np.float64]:
        """Logits per unit of each column of `encoded_names_`, before its scaling; one row, or one for each class."""
        return self._linear()[0]

    @property
    def intercept_(self) -> NDArray[np.float64]:
        """Logits where every column is 0."""
        return self._linear()[1]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; with `deep` those of the limits, too, as `constraints__disparate_impact__bound`."""
        params = super().get_params(deep=deep)
        return {**params, **nested_parameters("constraints", self._known_constraints())} if deep else params

    def set_params(self, **params: Any) -> Self:
        """Set parameters, also those of single limits, as `constraints__disparate_impact__bound=0.9`."""
        prefix = "constraints__"
        nested = {key.removeprefix(prefix): value for key, value in params.items() if key.startswith(prefix)}
        super().set_params(**{key: value for key, value in params.items() if not key.startswith(prefix)})
        if nested:
            self.constraints = with_parameters("constraints", self._known_constraints(), nested)
        return self

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.categorical = True
        tags.input_tags.allow_nan = self.preprocessing is not None
        return tags

    @property
    def _flipped(self) -> bool:
        """Whether the positive class, the last one to the model, is the first of `classes_`."""
        return len(self.classes_) == 2 and self.pos_label_ == self.classes_.tolist()[0]

    def _labels(self, decisions: Tensor) -> NDArray[Any]:
        return self.classes_[:: -1 if self._flipped else 1][decisions.numpy()]

    def _logits(self, X: Any, base_score: Any = None) -> Tensor:
        """Logits of new rows, in the order of the model's classes."""
        check_is_fitted(self)
        inputs = self._read_new(X)
        scores, parts = None if base_score is None else read_base_score(base_score, inputs.n_rows), []
        for start in range(0, inputs.n_rows, ENCODED_AT_ONCE):
            rows = slice(start, start + ENCODED_AT_ONCE)
            part = inputs.take(rows) if inputs.n_rows > ENCODED_AT_ONCE else inputs
            given = None if scores is None else scores[rows]
            parts.append(logits(self.module_, self._numbers(part, given), len(self.classes_)))
        found = torch.cat(parts)
        if not torch.isfinite(found).all():
            row = int(torch.nonzero(~torch.isfinite(found).all(dim=1))[0])
            raise ValueError(f"The network gives NaN or infinity for row {row} of X: its numbers are too large for it.")
        return found

    def _numbers(self, inputs: Inputs, base_score: Any) -> NDArray[np.float64]:
        """Inputs of the module: the encoded columns and, with a base, its scores or those given."""
        Z = encode(self.encoder_, inputs)
        if self._scores is not None:
            return self._scores.join_new(Z, inputs, base_score)
        if base_score is not None:
            raise ValueError("base_score= is given, but the model was fitted without a base: leave it out.")
        return Z

    @property
    def base_(self) -> FittedBase | None:
        """The base that scores new rows; None without one, and where its scores are given."""
        check_is_fitted(self)
        return None if self._scores is None else self._scores.fitted

    @property
    def base_score_(self) -> NDArray[np.float64] | None:
        """The scores of the training rows, as `base_score=` takes them; None without a base."""
        check_is_fitted(self)
        if self._scores is None or self._scores.training.shape[1] > 1:
            return None if self._scores is None else self._scores.training
        return self._scores.training[:, 0] * (-1.0 if self._flipped else 1.0)

    def _read_new(self, X: Any) -> Inputs:
        inputs = read_inputs(X)
        learnt = getattr(self, "feature_names_in_", None)
        asked = [position for position in self.group_columns_ if position not in self.left_columns_]
        if inputs.names is not None and learnt is not None:
            absent = [repr(learnt[position]) for position in asked if learnt[position] not in inputs.names]
        else:
            absent = [f"number {each}" for each in asked if inputs.n_columns == self.n_features_in_ - len(asked)]
        if absent:
            raise ValueError(
                f"X lacks the column {absent[0]}, which was made an input of the model by sensitive_as_input=True, so "
                "predictions need it; train without that to predict without the group."
            )
        return check_names(self, inputs, self.left_columns_, level=5)

    def _set_apart(
        self, data: Data, calibration_set: Any, further: Callable[[str, Any], Data]
    ) -> tuple[Data, Data | None]:
        """Return the rows to train on, and with a confidence those to test on."""
        if self.confidence is None:
            if calibration_set is not None:
                raise InputError("{calibration_set=} needs {confidence=}.", "Give both, or neither.")
            return data, None
        check_confident(self, data)
        if calibration_set is None:
            return hold_back(self, data)
        return data, further("calibration_set", calibration_set)

    def _last(self, inputs: Inputs, data: Data) -> tuple[Any, nn.Module | None]:
        """Encoder and module of the last fit, to start from."""
        if not hasattr(self, "module_"):
            return None, None
        check_names(self, inputs)
        if (self._scores is None) != (self.base is None and data.base_score is None):
            raise ValueError(
                "warm_start=True starts from the last model, and only one of the two has a base: set warm_start=False "
                "to begin anew."
            )
        if self.module is None:
            network = self.module_.correction if isinstance(self.module_, Corrected) else self.module_
            linear = [part for part in network.modules() if isinstance(part, nn.Linear)]
            before, now = tuple(part.out_features for part in linear[:-1]), tuple(self.hidden)
            if before != now:
                raise ValueError(
                    f"warm_start=True starts from the last network, which has hidden={before!r}, but hidden={now!r} is "
                    "asked for: set warm_start=False to begin anew."
                )
        classes = len(np.unique(data.y))
        if classes != len(self.classes_):
            raise ValueError(
                f"warm_start=True starts from the last network, which decides between {len(self.classes_)} classes, "
                f"but y has {classes}: set warm_start=False to begin anew."
            )
        return self.encoder_, self.module_

    def _known_constraints(self) -> tuple[Constraint, ...]:
        """The limits, where they can be read; what is wrong with the others is said by `fit`."""
        try:
            return as_constraints(self.constraints)
        except (TypeError, ValueError):
            return ()

    def _linear(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        check_is_fitted(self)
        layer = self.module_[0] if isinstance(self.module_, nn.Sequential) and len(self.module_) == 1 else self.module_
        if type(layer) is not nn.Linear:
            raise AttributeError(f"{type(self).__name__} has coefficients only if it is linear (hidden=(), no module).")
        weight = layer.weight.detach().numpy()
        bias = np.zeros(len(weight)) if layer.bias is None else layer.bias.detach().numpy()
        encoder = self.encoder_ if self._scores is None or self._scores.uses_columns else None
        means, scales = encoded_units(encoder, weight.shape[1])
        sign = -1.0 if self._flipped else 1.0
        with np.errstate(over="ignore", invalid="ignore"):  # a column of numbers near 1e300 has no unit of its own
            coefficients = weight / scales
            return sign * coefficients, sign * (bias - coefficients @ means)


def load(
    path: str | os.PathLike[str], *, module: nn.Module | Callable[[int, int], nn.Module] | None = None
) -> ConstrainedClassifier:
    """Read a model that `ConstrainedClassifier.save` has written.

    Parameters
    ----------
    path : path of the folder
    module : torch.nn.Module, or function of (n_inputs, n_outputs), optional
        Needed for a network of your own that is not a plain `nn.Sequential` of linear layers and activations: it gets
        the weights.

    Raises
    ------
    ModelFileError
        If there is no model, or it is damaged, foreign, or written by a newer version.  No code is ever run.
    """
    from fairbound.persistence import load_estimator

    return load_estimator(ConstrainedClassifier, path, module)
