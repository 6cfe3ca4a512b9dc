"""The columns that a base sees, in one of three forms.

    raw       the table as given: for pipelines, and for models that are already fitted
    codes     numbers with NaN for missing values, categories as codes: for boosters that split on categories
    encoded   the encoded columns of the correction: for all other models

`choose_columns` chooses the form.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fairbound.estimator.base_kinds import is_a, wants_raw
from fairbound.estimator.chosen_encoder import encode, fitted_encoder
from fairbound.estimator.columns import CategoryColumn
from fairbound.estimator.encoder import TableEncoder
from fairbound.estimator.inputs import Inputs, dense
from fairbound.estimator.parameters import Parameters
from fairbound.estimator.rows import Data

Floats = NDArray[np.float64]

MOST_CODES = 10_000
"""Most categories of a column, for boosters that state no limit.  If there are more, the rarest share one code."""


BOOSTERS = (
    *("HistGradientBoostingClassifier", "HistGradientBoostingRegressor"),
    *("LGBMClassifier", "LGBMRegressor"),
)


class Columns(Protocol):
    """The form in which a base gets the columns of X."""

    def fitted(self, data: Data) -> Columns:
        """Return the same form; a transformer that learns from labels is fitted again on these rows."""
        ...

    def table(self, inputs: Inputs) -> Any:
        """Return the input of the base."""
        ...


@dataclass(frozen=True, eq=False)
class RawColumns:
    """The table as given."""

    def fitted(self, data: Data) -> RawColumns:  # noqa: ARG002 (as the protocol)
        """Return itself: nothing is learnt."""
        return self

    def table(self, inputs: Inputs) -> Any:
        """Return X without the columns of the groups."""
        return inputs.native


@dataclass(frozen=True, eq=False)
class CodedColumns:
    """Numbers as they are, categories as codes, NaN for missing values.  All training rows determine the codes."""

    encoder: TableEncoder

    def fitted(self, data: Data) -> CodedColumns:  # noqa: ARG002 (as the protocol)
        """Return itself: nothing is learnt from labels."""
        return self

    @property
    def categories(self) -> list[int]:
        """Positions of the columns that are codes."""
        return [position for position, column in enumerate(self.encoder.columns_) if isinstance(column, CategoryColumn)]

    def table(self, inputs: Inputs) -> Floats:
        """Return one column of numbers or codes for each column of X."""
        parts = []
        for position, column in enumerate(self.encoder.columns_):
            if isinstance(column, CategoryColumn):
                codes = column.codes(column.read(inputs, position)).astype(np.float64)
                parts.append(np.where(codes < 0, np.nan, codes))
            else:
                parts.append(inputs.numbers(position))
        return np.stack(parts, axis=1)


@dataclass(frozen=True, eq=False)
class EncodedColumns:
    """The columns of an encoder.  The user's own transformer may learn from labels, so each fold fits a copy."""

    params: Parameters | None
    encoder: Any

    def fitted(self, data: Data) -> EncodedColumns:
        """Return itself; the user's own transformer is copied and fitted on these rows."""
        if self.params is None:
            return self
        return EncodedColumns(self.params, fitted_encoder(self.params, data))

    def table(self, inputs: Inputs) -> Floats:
        """Return the encoded rows."""
        return dense(encode(self.encoder, inputs))


def choose_columns(params: Parameters, data: Data, encoder: Any) -> Columns:
    """Return the columns in the form that suits the base.

    Parameters
    ----------
    params : Parameters
    data : Data
        The training rows.
    encoder : transformer, or None
        The fitted encoder of the correction.
    """
    base, stated = params.base.classifier, params.encoder
    if wants_raw(base):
        return RawColumns()
    if encoder is not None and not isinstance(encoder, TableEncoder):
        return EncodedColumns(params, encoder)
    if not is_a(base, *BOOSTERS) or stated is None:
        return EncodedColumns(None, encoder)
    categorical = stated.categorical if isinstance(stated, TableEncoder) else None
    # HistGradientBoostingClassifier has a bin for each category; "(missing)" may take one more.
    most = max(2, base.max_bins - 1) if hasattr(base, "max_bins") else MOST_CODES
    codes = TableEncoder(categorical=categorical, max_categories=most, scale=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the encoder of the correction has warned about these columns
        return CodedColumns(codes.fit(data.inputs, sample_weight=data.loss_weights))
