"""What a solve trains: the parameters of the whole model, or of its last layer, which is linear in its inputs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fairbound.training.chunks import Floats
from fairbound.training.problem import TrainingProblem
from fairbound.training.regularizers import L2, LinearTerm, Regularizer
from fairbound.training.rows import Rows


@dataclass(frozen=True)
class Stage:
    """Parameters that are trained, on given rows: those of the whole model, or of its last layer.

    `places` are those of the layer's parameters among all parameters; the others stay as they are in `whole`.
    """

    problem: TrainingProblem
    rows: Rows
    places: NDArray[np.int64] | None = None
    whole: Floats | None = None

    def local(self, w: Floats) -> Floats:
        """Return the parameters of this stage, of those of the whole model."""
        return w if self.places is None else w[self.places]

    def lift(self, w: Floats) -> Floats:
        """Return the parameters of the whole model."""
        if self.places is None or self.whole is None:
            return w
        found = self.whole.copy()
        found[self.places] = w
        return found


def last_layer(whole: Stage, w: Floats) -> Stage:
    """Return the stage of the last layer at w, in double precision; `whole` if the model has none of its own.

    Its inputs, the features of the rows, must fit in memory.
    """
    problem, rows = whole.problem, whole.rows
    problem.assign(w)
    found = problem.model.last_layer(rows.probe(), (chunk.X for chunk in rows.chunks(problem.chunk_rows)))
    if found is None:
        return whole
    layer, features, places = found
    inner = problem.with_model(layer, [_restricted(each, places) for each in problem.regularizers])
    return Stage(inner, replace(rows, X=features, given=None), places, problem.current())


def _restricted(regularizer: Regularizer, places: NDArray[np.int64]) -> Regularizer:
    """Return a regulariser of all parameters as one of those at `places`; the others are constant."""
    if isinstance(regularizer, L2) and regularizer.of is not None:
        return replace(regularizer, of=regularizer.of[places])
    if isinstance(regularizer, LinearTerm):
        return LinearTerm(regularizer.slope[places], regularizer.origin[places])
    return regularizer
