"""What a training problem knows of its model, and the linear model, which needs numpy alone.

A problem asks a model for the outputs of a chunk of rows, and hands it cotangents: the derivatives of terms of the
objective with respect to these outputs.  The model adds the gradients with respect to its parameters.  So losses,
surrogates, sums, limits and solvers are the same for all models, and only `network` knows torch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray
from threadpoolctl import ThreadpoolController

from fairbound._errors import need_torch
from fairbound._journal import digest
from fairbound.training.chunks import Floats, Slices
from fairbound.training.sweep import Cotangents

Array = NDArray[Any]
Biases = Callable[[int], Sequence[Floats]]
"""Returns the biases of each constant prediction, for a number of outputs."""


class Model(ABC):
    """A model with a flat vector of parameters.

    Attributes
    ----------
    n_parameters : int
    width : int
        The largest number of values that a layer has for a row.
    """

    n_parameters: int
    width: int

    @property
    def has_modes(self) -> bool:
        """Return whether the outputs may differ between training and evaluation mode."""
        return False

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[Any]:
        """Return the precision of inputs and outputs."""

    @abstractmethod
    def current(self) -> Floats:
        """Return a copy of the parameters as one flat vector."""

    @abstractmethod
    def assign(self, w: Floats) -> None:
        """Set the parameters."""

    def inside(self, w: Floats) -> Floats:
        """Return the parameters within their bounds; most models have none."""
        return w

    @abstractmethod
    def set_precision(self, dtype: DTypeLike) -> None:
        """Change the precision of inputs, outputs and parameters."""

    @abstractmethod
    def copied(self, dtype: DTypeLike) -> Model:
        """Return a copy in this precision."""

    @abstractmethod
    def inputs(self, given: Any, numbers: Any) -> Any:
        """Return the inputs as the model takes them: `numbers`, in the precision of the model, or whole numbers."""

    @abstractmethod
    def check(self, rows: Any) -> None:
        """Raise an error unless the output for each of these rows depends on that row only."""

    @abstractmethod
    def outputs(self, X: Any) -> Array:
        """Return the outputs for some rows, without gradients."""

    @abstractmethod
    def accumulate(self, X: Any, slices: Slices, cotangents: Cotangents, gradients: Floats) -> None:
        """Add the gradients of one chunk of rows to `gradients`, of shape (J, Q, n_parameters).

        `cotangents` is called once with the outputs (n, D) of the chunk, and returns (J, n, D).
        """

    def accumulate_in_present_mode(self, X: Any, slices: Slices, cotangents: Cotangents, gradients: Floats) -> None:
        """Add the gradients as `accumulate` does, in the present mode: all rows at once, by one slice."""
        self.accumulate(X, slices, cotangents, gradients)

    @abstractmethod
    def digest(self) -> bytes:
        """Return a digest of all numbers on which the outputs depend."""

    @abstractmethod
    def constants(self, biases: Biases, rows: Any) -> list[Floats]:
        """Return the parameters of constant predictions; an empty list if the model has no linear output layer."""

    @property
    @abstractmethod
    def linear(self) -> LinearModel | None:
        """Return a linear model with the same parameters, if the model is one linear layer."""

    @abstractmethod
    def last_layer(self, probe: Any, chunks: Iterable[Any]) -> tuple[LinearModel, Array, NDArray[np.int64]] | None:
        """Return the last layer, its inputs for all rows, and the places of its parameters; None if there is none."""

    def set_evaluation_mode(self) -> None:  # noqa: B027  (most models have no modes)
        """Set the model to evaluation mode."""

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Set the model to evaluation mode, and restore its mode afterwards."""
        yield

    @contextmanager
    def one_thread(self) -> Iterator[None]:
        """Compute on one thread."""
        with _blas().limit(limits=1):
            yield


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


class LinearModel(Model):
    """Logits that are linear in the inputs: X Wᵀ + b.

    Its parameters are one flat float64 vector: the weights, output by output, then the biases.  Inputs may be dense, or
    sparse by rows.

    Parameters
    ----------
    n_inputs : int
    n_outputs : int
        1 for two classes, otherwise the number of classes.
    dtype : numpy dtype
        The precision of inputs and outputs.

    `keep_signs` bounds weights by zero.

    Examples
    --------
    >>> model = LinearModel(2)
    >>> model.assign(np.array([1.0, -1.0, 0.5]))
    >>> model.outputs(np.array([[3.0, 1.0]]))
    array([[2.5]])
    """

    def __init__(self, n_inputs: int, n_outputs: int = 1, dtype: DTypeLike = np.float64) -> None:
        self.n_inputs, self.n_outputs = n_inputs, n_outputs
        self.n_parameters, self.width = (n_inputs + 1) * n_outputs, max(n_inputs, n_outputs)
        self._w, self._dtype = np.zeros(self.n_parameters), np.dtype(dtype)
        self._signs: Array | None = None
        self._cut = np.zeros(0, dtype=np.intp)

    @classmethod
    def of(cls, weight: Array, bias: Array) -> Self:
        """Return the model with these weights, (outputs, inputs), and biases."""
        found = cls(weight.shape[1], weight.shape[0])
        found.assign(np.concatenate([weight.reshape(-1), bias]))
        return found

    @property
    def weight(self) -> Floats:
        """Return W, of shape (outputs, inputs)."""
        return self._w[: -self.n_outputs].reshape(self.n_outputs, self.n_inputs)

    @property
    def bias(self) -> Floats:
        """Return b, of shape (outputs,)."""
        return self._w[-self.n_outputs :]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Return the precision of inputs and outputs."""
        return self._dtype

    def __repr__(self) -> str:
        return f"LinearModel({self.n_inputs}, {self.n_outputs})"

    def current(self) -> Floats:
        """Return a copy of the parameters as one flat vector."""
        return self._w.copy()

    def assign(self, w: Floats) -> None:
        """Set the parameters."""
        if w.shape != self._w.shape:
            raise ValueError(f"The model has {self.n_parameters} parameters, but the vector has shape {w.shape}.")
        self._w[:] = w
        if self._signs is not None:
            self._cut = np.flatnonzero(w[: -self.n_outputs] * self._signs < 0.0)
            self._w[self._cut] = 0.0

    def inside(self, w: Floats) -> Floats:
        """Return the parameters with 0 for weights of another sign than those kept: from there they can move again."""
        if self._signs is None:
            return w
        return np.where(w * np.append(self._signs, np.zeros(self.n_outputs)) < 0.0, 0.0, w)

    def keep_signs(self, signs: Array) -> None:
        """Let weights of the only output have these signs or be 0: 1, -1, or 0 for any sign.

        A weight of the other sign counts as 0.  Then the outputs do not depend on it, and neither do derivatives.
        """
        self._signs = signs
        self.assign(self._w)

    def set_precision(self, dtype: DTypeLike) -> None:
        """Change the precision of inputs and outputs; parameters are always float64."""
        self._dtype = np.dtype(dtype)

    def copied(self, dtype: DTypeLike) -> LinearModel:
        """Return a copy in this precision."""
        found = LinearModel(self.n_inputs, self.n_outputs, dtype)
        found._signs = self._signs
        found.assign(self._w)
        return found

    def inputs(self, given: Any, numbers: Any) -> Any:  # noqa: ARG002  (other models take whole numbers)
        """Return the inputs in the precision of the model."""
        if numbers.ndim != 2 or numbers.shape[1] != self.n_inputs:
            raise ValueError(f"The model takes {self.n_inputs} inputs, but X has shape {numbers.shape}.")
        return numbers

    def check(self, rows: Any) -> None:
        """Do nothing: rows are independent."""

    def outputs(self, X: Any) -> Array:
        """Return the outputs for some rows, (n, outputs)."""
        w = self._w if X.dtype == np.float64 else self._w.astype(X.dtype)
        if self.n_outputs == 1:
            return (X @ w[:-1] + w[-1])[:, None]
        return X @ w[: -self.n_outputs].reshape(self.n_outputs, -1).T + w[-self.n_outputs :]

    def accumulate(self, X: Any, slices: Slices, cotangents: Cotangents, gradients: Floats) -> None:
        """Add the gradients of one chunk of rows to `gradients`, of shape (J, Q, n_parameters)."""
        u = cotangents(self.outputs(X)).swapaxes(1, 2)  # (J, D, n)
        u = np.ascontiguousarray(u, dtype=X.dtype).reshape(-1, u.shape[2])
        J, n_weights = len(gradients), self.n_inputs * self.n_outputs
        for segment, start, stop in slices:
            part = u[:, start:stop]
            gradients[:, segment, :n_weights] += (part @ X[start:stop]).reshape(J, -1)
            gradients[:, segment, n_weights:] += part.sum(axis=1).reshape(J, -1)
        gradients[:, :, self._cut] = 0.0

    def add_curvature(self, X: Any, U: Floats, blocks: Floats) -> None:
        """Add Σ_i U_i,ab (x_i, 1)(x_i, 1)ᵀ of some rows to the blocks (a, b) with b ≤ a."""
        dense = not hasattr(X, "toarray")
        X = X.astype(np.float64, copy=False)
        for a in range(self.n_outputs):
            for b in range(a + 1):
                u, block = U[:, a, b], blocks[a, b]
                if dense:
                    block[:-1, :-1] += X.T @ (X * u[:, None])
                else:
                    block[:-1, :-1] += (X.T @ X.multiply(u[:, None])).toarray()
                edge = u @ X
                block[:-1, -1] += edge
                block[-1, :-1] += edge
                block[-1, -1] += u.sum()
        first = blocks[0, 0]
        first[self._cut], first[:, self._cut], first[self._cut, self._cut] = 0.0, 0.0, 1.0  # a step leaves them alone

    def digest(self) -> bytes:
        """Return a digest of the parameters."""
        return digest(self._w) if self._signs is None else digest(self._w, self._signs)

    def constants(self, biases: Biases, rows: Any) -> list[Floats]:  # noqa: ARG002  (other models need rows)
        """Return the parameters of constant predictions: weights of zero, and biases."""
        zeros = np.zeros(self.n_inputs * self.n_outputs)
        return [np.concatenate([zeros, each]) for each in biases(self.n_outputs)]

    @property
    def linear(self) -> LinearModel:
        """Return the model itself."""
        return self

    def last_layer(self, probe: Any, chunks: Iterable[Any]) -> None:
        """Return None."""


def as_model(model: Any) -> Model:
    """Return a `Model` itself, or a torch module as one."""
    if isinstance(model, Model):
        return model
    need_torch("A network needs")
    from fairbound.training.network import NetworkModel

    return NetworkModel(model)
