"""The scikit-learn regressor whose predictions keep stated limits.

It trains as the classifier does, and shares columns, groups, bases, forecast and margin with it.  `predict` does not
need the group, and the prediction for a row does not depend on the other rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin

from fairbound._errors import InputError
from fairbound._model_settings import Base, Callback, Groups, Loss, Margin, Training
from fairbound._settings import Range
from fairbound.data import ColumnFormat
from fairbound.estimator.feature_names import learn_names
from fairbound.estimator.fitted_model import FittedModel
from fairbound.estimator.inputs import read_inputs
from fairbound.estimator.parameters import checked, settled_seed
from fairbound.estimator.regression import RegressionFitting
from fairbound.estimator.result import FitResult
from fairbound.estimator.rows import read_data
from fairbound.fairness import Constraint
from fairbound.training import Passes


@dataclass(eq=False, repr=False)
class ConstrainedRegressor(RegressorMixin, FittedModel):
    """A regression trained under limits on measured disparities between groups.

    Limits are in the unit of y: "mean_difference <= 1000" on the mean predictions of groups, "group_loss <= 0.3" on the
    mean loss of each group, and limits on the shares of the groups above some values, such as "demographic_parity <=
    0.1 at quantiles 25%, 50%, 75%" or "disparate_impact >= 0.8 at 20000, 50000".

    Parameters
    ----------
    constraints : Constraint, str, or several
        The limits.  Without any, the result is a plain regression.
    hidden : sequence of int, torch.nn.Module, or function of (n_inputs, n_outputs)
        Widths of the hidden layers; () gives a linear model.  Or your own network with one output.
    base : regressor, or Base, optional
        Any scikit-learn regressor.  The model is then v · prediction of the base + correction, as for the classifier.
    loss : "squared", "absolute", "quantile(0.9)", or Loss
        What training minimises, and what limits on `group_loss` are about.
    margin : "auto", float, or None
        Train with room for new rows, as for the classifier.
    sensitive_columns : column name or number, or several, optional
        The columns of X that hold the groups; then `fit(X, y)` needs nothing else.
    groups : {"each", "intersection", "both"}, or Groups
        How groups are read.
    encoder : "auto", transformer, or None
        How X is encoded.
    training : "auto", int, or Training
        How the model is trained.
    random_state : int, RandomState or None
        Seed of the initial parameters of a network, and of the folds of a base.
    callbacks : function, or sequence of functions
        Each is called with every row of the history.
    verbose : int
        1 prints a line for each phase, 2 for each iteration.

    Attributes
    ----------
    unit_ : Unit
        The prediction is `unit_.centre + unit_.scale · output of model_`.
    model_ : LinearModel or torch.nn.Module
        The trained model of standardised targets, in double precision.
    coef_, intercept_ : arrays
        For linear models: `encoder_.transform(X) @ coef_ + intercept_` are the predictions.
    result_ : FitResult
        Status, limits and reached values, prices, means by group, history.  Its `accuracy` is the share of the loss of
        the best constant prediction that the model removes: R² for the squared loss.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> women = rng.random(500) < 0.5
    >>> X = rng.normal(size=(500, 3)) + women[:, None]
    >>> model = ConstrainedRegressor("mean_difference <= 0.1").fit(X, X.sum(axis=1), sensitive_features=women)
    >>> predicted = model.predict(X)
    >>> bool(abs(predicted[women].mean() - predicted[~women].mean()) <= 0.1)
    True
    """

    __metadata_request__fit: ClassVar[dict[str, bool]] = {"sensitive_features": True}

    # A regression has no such parameters; the parts that it shares with the classifier ask for them.
    objective: ClassVar[str] = "loss"
    confidence: ClassVar[None] = None
    pos_label: ClassVar[None] = None

    constraints: Constraint | str | Iterable[Constraint | str] | Any = ()
    _: KW_ONLY
    hidden: Sequence[int] | Callable[[int, int], Any] | Any = ()
    base: Base | Any = None
    loss: Loss | Any = "squared"
    margin: Margin = None
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
        y: Any,
        *,
        sensitive_features: Any = None,
        sample_weight: Any = None,
        constraint_weight: Any = None,
    ) -> Self:
        """Train under the limits.

        Parameters
        ----------
        X : table or array of shape (n, columns)
        y : sequence of n numbers
        sensitive_features : table, mapping or array of groups, or names of columns of X, optional
            Required with limits, unless `sensitive_columns` is set.
        sample_weight, constraint_weight : sequence of n numbers, optional
            Weights in the loss, and in the limits if these differ.
        """
        started = time.perf_counter()
        params = checked(self)
        if params.groups.no_group_worse or params.base.correction != "columns":
            raise InputError("A regression has no {groups.no_group_worse=} and no {base.correction=}.", "Leave it out.")
        params.random_state = settled_seed(self.random_state, Passes())
        inputs = read_inputs(X)
        data = read_data(params, inputs, y, sensitive_features, sample_weight, constraint_weight)
        fitting = RegressionFitting(params, data)
        result = fitting.run()
        learn_names(self, inputs)
        self.formats_: dict[str, ColumnFormat] = {}
        self.by_name_ = False
        self.unit_ = fitting.unit
        self.group_columns_, self.left_columns_ = data.group_columns, data.left_columns
        self.encoder_, self.encoded_names_ = fitting.encoder, fitting.input_names
        self.model_ = fitting.model
        self._scores = None
        if fitting.base is not None:
            self._scores = fitting.base.completed(inputs.without(data.left_columns), data.positions)
        self.n_iter_ = len(result.iterations)
        self.result_: FitResult = replace(result, seconds=time.perf_counter() - started)
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return the prediction for each row."""
        z = self._outputs(X)[:, 0]
        return self.unit_.centre + self.unit_.scale * z

    @property
    def coef_(self) -> NDArray[np.float64]:
        """The prediction per unit of each column in `encoded_names_`."""
        return self.unit_.scale * self._linear()[0][0]

    @property
    def intercept_(self) -> float:
        """The prediction if every encoded column is 0."""
        return self.unit_.centre + self.unit_.scale * float(self._linear()[1][0])
