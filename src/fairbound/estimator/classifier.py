"""The scikit-learn classifier whose decisions keep stated limits.

`result_` is counted from the decisions that `predict` makes on the training rows.  With a base model it is counted on
cross-fitted rows: each is scored by a base that has not seen it (`fairbound.estimator.cross_fitting`).

`predict` encodes the columns, computes logits in double precision, and compares them with the threshold.  It does not
need the group, it is deterministic, and the decision of a row does not depend on the other rows.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted

from fairbound._errors import together
from fairbound._model_settings import Base, Callback, Confidence, Groups, Loss, Margin, Training, refuse_conflicts
from fairbound._settings import Range, Share
from fairbound.data import ColumnFormat, Source
from fairbound.estimator.certified import set_apart
from fairbound.estimator.correction import read_base_score
from fairbound.estimator.explaining import Explanation, TurningChange, cheapest_changes, contributions
from fairbound.estimator.feature_names import learn_names
from fairbound.estimator.fitted_model import FittedModel
from fairbound.estimator.fitting import Fitting
from fairbound.estimator.frontier import FrontierModels, frontier_models
from fairbound.estimator.further_limits import best_rows
from fairbound.estimator.inputs import Inputs, read_inputs
from fairbound.estimator.models import last_model
from fairbound.estimator.parameters import (
    check_early_stopping,
    check_shared,
    checked,
    present_processes,
    settled_seed,
)
from fairbound.estimator.recalibration import Recalibration, fit_recalibration
from fairbound.estimator.result import FitResult
from fairbound.estimator.rows import Data, read_data, read_further
from fairbound.estimator.sources import from_source
from fairbound.estimator.targets import read_labels, read_weights
from fairbound.fairness import Constraint, decide, logit, probabilities
from fairbound.training import Passes, resumed


@dataclass(eq=False, repr=False)
class ConstrainedClassifier(ClassifierMixin, FittedModel):
    """A classifier trained under limits on measured disparities between groups.

    Rare settings are in records: `groups=Groups(min_size=20)`, and in a search `groups__min_size`.  In place of a
    record, a plain value stands for its first setting: `groups="both"` is `groups=Groups("both")`.

    Parameters
    ----------
    constraints : Constraint, str, or several
        The limits, such as `DisparateImpact(0.8)` or "disparate_impact >= 0.8".  Without any, the result is a plain
        classifier, which needs no groups.  A quota stands beside them: "select 10%" selects this share of the training
        rows, or of their weight, "select 100" this number of them.  The threshold on the probability, `threshold_`,
        follows it exactly, and limits are kept by the selected.  Rows of equal score at the threshold are left out, and
        `result_` says so.  `predict(X, select=100)` selects from another batch of rows.
    hidden : sequence of int, torch.nn.Module, or function of (n_inputs, n_outputs)
        Widths of the hidden layers; () gives a linear model.  Or your own network: a module, which is copied, or a
        function that makes one.  It returns logits: one per row for two classes, one per class for more.
    base : classifier, or Base, optional
        Any scikit-learn classifier with `predict_proba` or `decision_function`, such as boosted trees, a forest or a
        pipeline.  The model is then v · base score + correction.  The correction is computed from the columns; `hidden`
        sets its layers.
    objective : str, or array of gains
        What is best under the limits: "accuracy", "loss", "balanced_accuracy", a cost such as "cost(false_positive=1,
        false_negative=5)", or "profit(column)" with the column of X that says what the positive decision gains; a
        second column has the gain of the negative one.  An array has these gains, (n,) or (n, 2).
    loss : str, function of (logits, labels), or Loss
        What training minimises: "cross_entropy", "hinge", or a function that returns one value per row.  `Loss` has
        also regularisers, `l2` and `class_weight`.
    threshold : float
        With two classes, the decision is positive if the positive probability exceeds this.
    pos_label : label, optional
        The positive one of two classes, which selection rates count.  By default it is 1 of (0, 1) and (-1, 1), true of
        (false, true), yes of (no, yes).  Else it is the last in sorted order; a warning says if a limit depends on it.
    margin : "auto", float, or None
        Tighten the limits in training just enough that, by the forecast in `result_`, they hold on new rows with this
        probability, such as 0.8; "auto" is 2/3.  All rows are trained on.  Unlike `confidence`, it proves nothing.
    confidence : float, or Confidence, optional
        Keep the limits on unseen rows, too, at this confidence level, such as 0.95.  A part of the rows is held back
        for calibration.  Models from strict to loose are trained on the others and tested on that part; the confidence
        level accounts for all tests.  The loosest model that passes is returned, with its certificate.
    sensitive_columns : column name or number, or several, optional
        The columns of X that hold the groups; then `fit(X, y)` needs nothing else.
    groups : {"each", "intersection", "both"}, or Groups
        With several group columns: limit each of them, their intersections, or both.  `Groups` says what happens with
        small groups and missing ones, and more.
    encoder : "auto", transformer, or None
        How X is encoded: "auto" uses a `TableEncoder`; a transformer, such as `TableEncoder(categorical=["code"])`, is
        copied and fitted on the training rows; None accepts numbers only.  With None, built-in networks still scale
        their inputs, and your own module gets them as is.
    training : "auto", int, or Training
        The number of passes by mini-batches, 0 for whole passes only; "auto" takes mini-batches only for very large
        data.  `Training` has their size, early stopping, warm starts, the device, and the effort of the solver.
    random_state : int, RandomState or None
        Seed of the initial parameters, of mini-batches, and of the rows that are held back.  The same number gives the
        same model, bit for bit, for the same number of threads.  None draws a seed.
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
        The inputs of the model.
    model_ : LinearModel or torch.nn.Module
        The trained model, in double precision.
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

    constraints: Constraint | str | Iterable[Constraint | str] | Any = ()
    _: KW_ONLY
    hidden: Sequence[int] | Callable[[int, int], Any] | Any = ()
    base: Base | Any = None
    objective: str | Any = "accuracy"
    loss: Loss | Any = "cross_entropy"
    threshold: Share = 0.5
    pos_label: Any = None
    margin: Margin = None
    confidence: Confidence | float | None = None
    sensitive_columns: Any = None
    groups: Groups | str = "each"
    encoder: Any = "auto"
    training: Training | int | str = "auto"
    random_state: int | np.random.RandomState | None = 0
    callbacks: Callback | Sequence[Callback] | Any = ()
    verbose: bool | Annotated[int, Range(least=0)] = 0

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
            that need not fit in memory: the path of a Parquet file, of a folder of them, of a CSV file or workbook; a
            lazy frame of Polars, or an object with `__arrow_c_stream__`, such as a DuckDB relation; or a `Source`,
            which says how they are read.  Then `y`, `sensitive_features` and `sample_weight` are names of columns, and
            other columns are inputs.  The same holds for a table if `y` is a name.
        y : sequence of n labels, or name of a column
            Two or more classes.
        sensitive_features : table, mapping or array of groups, or names of columns of X, optional
            Required with limits, unless `sensitive_columns` is set.  Missing values are allowed.  In a mapping, a
            column may be a table of probabilities with one column for each group.
        sample_weight : sequence of n numbers, optional
            Weights in the loss and, unless `Groups(weight="none")` says otherwise, in the limits.
        constraint_weight : sequence of n numbers, optional
            Weights in the limits, in place of those.
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
            A folder for the journal of the fit.  It is written after solves, and removed at the end.  If the fit is
            killed, call `fit` again with the same file, and it continues.
        """
        started = time.perf_counter()
        others = {"base_score": base_score, "eval_set": eval_set, "calibration_set": calibration_set}
        given = {"constraint_weight": constraint_weight, **others}
        if Source.of(X, y) is not None:
            fitted, _ = from_source(self, "fit", X, y, sensitive_features, sample_weight, resume=resume, **given)
            stated = self.get_params(deep=False)
            self.__dict__.update({name: each for name, each in vars(fitted).items() if name not in stated})
            return self
        with resumed(resume, present_processes(self)) as passes:
            params, inputs, data = self._read(passes, X, y, sensitive_features, sample_weight, given)
            further = partial(read_further, params, inputs, data, sensitive_features, passes.processes)
            validation = None if eval_set is None else further("eval_set", eval_set)
            data, calibration = set_apart(params, data, calibration_set, further, passes.processes)
            encoder, model = last_model(params, inputs, data) if params.training.warm_start else (None, None)
            fitting = Fitting(params, data, passes, encoder, model)
            result = fitting.run(validation, calibration)
        return self._adopt(inputs, data, fitting, replace(result, seconds=time.perf_counter() - started))

    def _read(
        self,
        passes: Passes,
        X: Any,
        y: Any,
        sensitive_features: Any,
        sample_weight: Any,
        given: Mapping[str, Any],
        bounds: Sequence[float] = (),
    ) -> tuple[Any, Inputs, Data]:
        """Return the checked parameters, the inputs, and the rows; `given` are further arguments of `fit`."""
        seed = settled_seed(self.random_state, passes)
        with together(passes.processes):
            params = checked(self)
            params.random_state = seed
            refuse_conflicts(
                params.constraints,
                confidence=params.confidence,
                margin=params.margin,
                training=params.training,
                bounds=bounds,
            )
            check_early_stopping(params, given.get("eval_set"))
            inputs = read_inputs(X)
            weight, score = given["constraint_weight"], given["base_score"]
            data = read_data(params, inputs, y, sensitive_features, sample_weight, weight, score, scale=False)
            if passes.processes is not None:
                check_shared(params)
        return params, inputs, data.agreed(inputs.n_rows, passes.processes)

    def _adopt(self, inputs: Inputs, data: Data, fitting: Fitting, result: FitResult) -> Self:
        """Set the fitted attributes."""
        learn_names(self, inputs)
        self.by_name_ = False
        self.classes_ = fitting.classes
        self.pos_label_ = fitting.cells.classes[1] if len(self.classes_) == 2 else None
        self.threshold_ = fitting.problem.threshold
        self.group_columns_, self.left_columns_ = data.group_columns, data.left_columns
        self.encoder_ = fitting.encoder
        self.formats_: dict[str, ColumnFormat] = {}
        self.encoded_names_ = fitting.input_names
        self._scores = None
        if fitting.base is not None:
            self._scores = fitting.base.completed(inputs.without(data.left_columns), data.positions)
        self.model_ = fitting.model
        self.n_iter_ = len(result.iterations)
        self.calibration_: Recalibration | None = None
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
    ) -> FrontierModels:
        """Train a classifier for each of several bounds of one limit.  The estimator itself is not changed.

        All bounds share the model without limits.  Every classifier has a `result_` of its own.

        Parameters
        ----------
        X, y, sensitive_features, sample_weight, constraint_weight, base_score, resume
            As for `fit`.
        bounds : sequence of float
        position : int
            Index of the limit that the bounds are for, among those in `constraints`.
        """
        named = y, sensitive_features, sample_weight
        given = {"constraint_weight": constraint_weight, "base_score": base_score}
        if Source.of(X, y) is not None:
            given |= {"resume": resume, "bounds": bounds, "position": position}
            frontier: FrontierModels = from_source(self, "frontier", X, *named, **given)[1]
            return frontier
        with resumed(resume, present_processes(self)) as passes:
            params, inputs, data = self._read(passes, X, *named, given, bounds)
            found = Fitting(params, data, passes).frontier(bounds, position)
        models = []
        for _, fitting, record in found:
            limits = [each for each in fitting.constraints if each not in fitting.floors]
            model = clone(self).set_params(constraints=limits, base=self.base)
            models.append(model._adopt(inputs, data, fitting, record))
        return frontier_models([point for point, _, _ in found], models, position)

    def predict(self, X: Any, *, base_score: Any = None, select: str | int | None = None) -> NDArray[Any]:
        """Return the decided label of each row; `base_score` replaces the scores of the base.

        X is a table or an array, or else any source of rows that `fit` takes, also an iterator of Arrow batches.  These
        are decided batch by batch, and their columns are read as those of the training rows.

        With `select`, such as 100 or "10%", exactly so many rows of X get the positive label: those of the largest
        score, and of rows with equal scores the first ones.  Then the decision about a row depends on the whole batch.
        """
        z = self._outputs(X, base_score)
        return self._labels(decide(z, self.threshold_) if select is None else best_rows(z, select))

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, base_score: Any = None) -> float:
        """Return the accuracy, by weight."""
        decided = self.predict(X) if base_score is None else self.predict(X, base_score=base_score)
        labels = read_labels(y, len(decided), type(self).__name__)
        right = np.array([one == other for one, other in zip(labels.tolist(), decided.tolist(), strict=True)])
        return float(np.average(right, weights=read_weights(sample_weight, len(decided), "sample_weight")))

    def predict_proba(self, X: Any, *, base_score: Any = None) -> NDArray[np.float64]:
        """Return the probabilities of the classes, in the order of `classes_`."""
        z = self._outputs(X, base_score)
        p = probabilities(z) if self.calibration_ is None else self.calibration_(z)
        return p[:, ::-1] if self._flipped else p

    def decision_function(self, X: Any, *, base_score: Any = None) -> NDArray[np.float64]:
        """Return logits: one per class; for two classes that of `classes_[1]`, minus the logit of the threshold."""
        z = self._outputs(X, base_score)
        if z.shape[1] > 1:
            return z
        margin = z[:, 0] - logit(self.threshold_)
        return -margin if self._flipped else margin

    def recalibrate(self, X: Any, y: Any, *, sample_weight: Any = None, base_score: Any = None) -> Self:
        """Calibrate the probabilities on rows that were not trained on, without changing a decision.

        Each side of the threshold is mapped onto itself by an increasing function.  So `predict` and every limit stay
        the same, and only `predict_proba` changes.
        """
        z = self._outputs(X, base_score)
        labels = read_labels(y, len(z), type(self).__name__)
        places = {label: place for place, label in enumerate(self.classes_.tolist())}
        unknown = [label for label in np.unique(labels).tolist() if label not in places]
        if unknown:
            raise ValueError(f"y has the label {unknown[0]!r}, which is not in classes_: {list(places)}.")
        codes = np.array([places[label] for label in labels.tolist()])
        weights = read_weights(sample_weight, len(z), "sample_weight")
        self.calibration_ = fit_recalibration(z, 1 - codes if self._flipped else codes, weights, self.threshold_)
        return self

    def explain(self, X: Any, *, changeable: Sequence[Any] = (), base_score: Any = None) -> Explanation:
        """Return what each column adds to the decision score of each row, and which change would turn the decision.

        The model must be linear, or a linear correction of a base with additive values.

        Parameters
        ----------
        X : table or array of shape (n, columns)
        changeable : sequence of column names or numbers, optional
            For each row, the cheapest change of one of these columns that turns the decision is searched.
        base_score : array, optional
            As for `predict`.
        """
        weight, z, inputs = self._linear()[0], self._outputs(X, base_score), self._read_new(X)
        sign = -1.0 if self._flipped else 1.0
        Z = self._numbers(inputs, None if base_score is None else read_base_score(base_score, inputs.n_rows))
        names, parts = contributions(weight, Z, self._scores, inputs, self.encoder_, self.encoded_names_)
        score, parts = self.decision_function(X, base_score=base_score), sign * parts
        parts = parts if z.shape[1] > 1 else parts[:, :, 0]
        changes: tuple[TurningChange | None, ...] = ()
        if len(changeable):
            decide = partial(self.predict, base_score=base_score)
            changes = cheapest_changes(decide, X, inputs, changeable, self.encoder_)
        return Explanation(names, parts, score - parts.sum(axis=1), changes)

    @property
    def coef_(self) -> NDArray[np.float64]:
        """Logits per unit of each column in `encoded_names_`; one row, or one per class.

        So `encoder_.transform(X) @ coef_.T + intercept_` are the logits, of `classes_[1]` if there are two classes.
        With a base, its scores come after the encoded columns.
        """
        return (-1.0 if self._flipped else 1.0) * self._linear()[0]

    @property
    def intercept_(self) -> NDArray[np.float64]:
        """Logits if every encoded column is 0."""
        return (-1.0 if self._flipped else 1.0) * self._linear()[1]

    @property
    def _flipped(self) -> bool:
        """Whether the positive class, which is the last one for the model, comes first in `classes_`."""
        return len(self.classes_) == 2 and self.pos_label_ == self.classes_.tolist()[0]

    @property
    def _n_labels(self) -> int:
        return len(self.classes_)

    def _labels(self, decisions: NDArray[np.int64]) -> NDArray[Any]:
        return self.classes_[:: -1 if self._flipped else 1][decisions]

    def to_onnx(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the model with its preprocessing as one ONNX file; needs the extra `onnx`.

        If all columns are numbers, the input is a matrix "X".  Otherwise each column is an input of shape (n, 1); a
        missing number is NaN, missing text is "".  Group columns that are not inputs of the model are left out.
        The outputs are "label", "probabilities" and "margin".  An existing file is replaced if `to_onnx` has written
        it, any other only with `overwrite=True`.
        """
        from fairbound.persistence import export_onnx

        check_is_fitted(self)
        export_onnx(self, path, overwrite=overwrite)
