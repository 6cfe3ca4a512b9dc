"""The penalty of the parameters of a model, or of its correction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairbound.estimator.correction import correction_weights
from fairbound.estimator.groups import smallest_sample
from fairbound.fairness import Cells, Constraint
from fairbound.training import L2, LinearModel, LinearTerm

if TYPE_CHECKING:
    from fairbound.estimator.scores import BaseScores

Floats = NDArray[np.float64]

LEAST_SHARE = 0.01
"""Share of the rows below which a group does not decide the penalty of a correction.  (Measured: docs/solver.md.)"""


def prior_precisions(model: Any) -> Floats:
    """Return one number per parameter: 1 for a weight of a linear model, and for a weight of a network its fan-in.

    Weights of variance 1 / fan-in keep the size of the activations from layer to layer, as in every usual
    initialisation.  Biases have no prior, hence 0.
    """
    if isinstance(model, LinearModel):
        return np.repeat([1.0, 0.0], [model.n_inputs * model.n_outputs, model.n_outputs])
    tensors = [each for each in model.parameters() if each.requires_grad]
    network = sum(each.ndim > 1 for each in tensors) > 1
    fans = [each.numel() // each.shape[0] if each.ndim > 1 else 0 for each in tensors]
    sizes = [float(fan if network else min(fan, 1)) for fan in fans]
    return np.repeat(sizes, [each.numel() for each in tensors])


def penalties(
    l2: float | str,
    model: Any,
    n_inputs: int,
    base: BaseScores | None,
    constraints: Sequence[Constraint],
    cells: Cells,
) -> list[L2 | LinearTerm]:
    """Return the penalty of the parameters.  With a base it is on the correction only; add the term of a given base.

    The automatic weight is 1 / n: mean loss + ½‖w‖²/n, times n, is the negative log-posterior of n rows if each
    coefficient is normal with standard deviation 1 a priori, as in scikit-learn's LogisticRegression.  A correction
    must be reliable for the smallest group, so there n is the number of rows of that group; but at least 1% of all
    rows, or a group of thirty rows would hold back the correction of all.

    Rows count by their weight.
    """
    if base is None and l2 == "auto":
        return [L2(cells.row_weight / float(cells.totals.sum()), prior_precisions(model))]
    if base is None:
        return [L2(float(l2))] if l2 else []
    rows = float(cells.totals.sum()) / cells.row_weight
    weight = 1.0 / max(smallest_sample(constraints, cells), LEAST_SHARE * rows) if l2 == "auto" else float(l2)
    if not weight:
        return [*base.held]
    return [L2(weight, correction_weights(model, n_inputs - base.n_others)), *base.held]
