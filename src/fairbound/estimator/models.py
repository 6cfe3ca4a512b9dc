"""The model of a fit: linear, which needs numpy alone, or a network, which needs torch; and its outputs for new rows.

Outputs for new rows are reproducible: they do not depend on the other rows, nor on the number of threads.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairbound._errors import InputError, need_torch
from fairbound.estimator.exact import ExactLinear
from fairbound.estimator.feature_names import check_names
from fairbound.estimator.inputs import Inputs, dense
from fairbound.estimator.parameters import Parameters
from fairbound.fairness import as_logits
from fairbound.training import LinearModel, TrainingProblem, as_model

if TYPE_CHECKING:
    from fairbound.estimator.rows import Data

DOUBLE_UP_TO = 5e6
"""Rows times parameters up to which training runs in double precision."""


def first_model(
    own: Any,
    hidden: Any,
    *,
    shape: tuple[int, int],
    n_labels: int,
    seed: int,
    generator: Any = None,
    n_scores: int = 0,
) -> Any:
    """Return the model to train: a `LinearModel`, or a torch module.

    Parameters
    ----------
    own : torch.nn.Module, function of (n_inputs, n_outputs), or None
        The user's module, which is copied, or a function that makes one.
    hidden : sequence of int
        Widths of the hidden layers of a built-in model; none for a linear model.
    shape : tuple of int
        Shape of the inputs, (rows, columns).
    n_labels : int
    seed, generator
        The random state of the initial parameters: `seed` for the user's function, `generator` for a built-in network.
    n_scores : int
        The number of base scores among the inputs, which are the last ones.  With a base the model starts as the base.
    """
    n_rows, n_inputs = shape
    if own is not None and n_scores:
        raise InputError(
            "{hidden=} is a network of your own, but the model over base scores must begin as the base.",
            "Give the widths of the hidden layers of the correction, or leave it out.",
        )
    if is_linear(own, hidden):
        found: Any = starting_linear(n_inputs, n_labels, n_scores)
    else:
        from fairbound.estimator.networks import first_network

        sizes = {"n_inputs": n_inputs, "n_labels": n_labels, "n_scores": n_scores}
        found = first_network(own, hidden, seed=seed, generator=generator, **sizes)
    if own is None:
        model = as_model(found)
        model.set_precision(np.float64 if n_rows * model.n_parameters <= DOUBLE_UP_TO else np.float32)
    return found


def is_linear(own: Any, hidden: Any) -> bool:
    """Return whether the parameters `module` and `hidden` ask for a linear model."""
    return own is None and hasattr(hidden, "__len__") and not len(hidden)


def new_generator(params: Parameters, seed: int) -> Any:
    """Return the random generator of torch for networks and mini-batches; None if neither is asked for."""
    by_batches = params.training.solver == "stochastic"
    if is_linear(params.module, params.hidden) and not by_batches:
        return None
    need_torch("Training by mini-batches needs" if by_batches else "A network needs")
    import torch

    return torch.Generator().manual_seed(seed)


def starting_linear(n_inputs: int, n_labels: int, n_scores: int = 0) -> LinearModel:
    """Return a linear model of zeros; with base scores as its last inputs, one that equals the base."""
    n_outputs = 1 if n_labels == 2 else n_labels
    weight = np.zeros((n_outputs, n_inputs))
    if n_scores:
        weight[:, n_inputs - n_scores :] = np.eye(n_scores)
    return LinearModel.of(weight, np.zeros(n_outputs))


def copied_model(model: Any, solver: str) -> Any:
    """Return a copy of the last fit's model, in training mode for mini-batches, which leave it in evaluation mode."""
    copied = copy.deepcopy(model)
    return copied.train() if solver == "stochastic" and not isinstance(copied, LinearModel) else copied


def on_device(model: Any, device: Any) -> Any:
    """Return the model, wrapped if it must compute on another device than the processor."""
    if device is None or isinstance(model, LinearModel):
        return model
    from fairbound.estimator.networks import moved

    return moved(model, device)


def try_model(model: Any, Z: Any) -> None:
    """Raise a clear error if a model cannot take the inputs."""
    if not isinstance(model, LinearModel):
        from fairbound.estimator.networks import try_module

        try_module(model, Z)


def use_double(model: Any) -> None:
    """Convert a trained model to double precision, on the processor."""
    if isinstance(model, LinearModel):
        model.set_precision(np.float64)
    else:
        import torch

        model.to("cpu", torch.float64)


def model_inputs(model: Any, Z: Any) -> Any:
    """Return Z as the model accepts it: sparse if it is linear, integers if it accepts nothing else."""
    if isinstance(model, LinearModel):
        return Z
    from fairbound.estimator.networks import module_inputs

    return module_inputs(model, dense(Z))


def last_model(estimator: Any, inputs: Inputs, data: Data) -> tuple[Any, Any]:
    """Return encoder and model of the last fit, for a warm start; None for both before the first fit."""
    if not hasattr(estimator, "model_"):
        return None, None
    check_names(estimator, inputs)
    check_same_model(estimator, data)
    return estimator.encoder_, estimator.model_


def check_same_model(estimator: Any, data: Data) -> None:
    """Raise an error if the last model does not fit the present parameters or labels, for a warm start."""
    bases = estimator._scores is not None, estimator.base.classifier is not None or data.base_score is not None
    classes = len(estimator.classes_), len(np.unique(data.y))
    known: list[tuple[str, ...]]
    known = [("a base" if each else "no base", f"{count} classes") for each, count in zip(bases, classes, strict=True)]
    if estimator.module is None:
        widths = hidden_widths(estimator.model_), tuple(estimator.hidden)
        known = [(*each, f"hidden={width}") for each, width in zip(known, widths, strict=True)]
    if known[0] != known[1]:
        raise InputError(
            "{training.warm_start=True} starts from the last model, which has {before}, but {now} are asked for.",
            "Leave it out to start again.",
            before=", ".join(known[0]),
            now=", ".join(known[1]),
        )


def hidden_widths(model: Any) -> tuple[int, ...]:
    """Return the widths of the hidden layers of a built-in model."""
    if isinstance(model, LinearModel):
        return ()
    from fairbound.estimator.networks import widths

    return widths(model)


def coefficients(model: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Return the weights and biases of a linear model or module; None for others."""
    if isinstance(model, LinearModel):
        return model.weight, model.bias
    from fairbound.estimator.networks import linear_layer

    return linear_layer(model)


def score_slope(model: Any) -> float:
    """Return v, the factor of the base score of the last class."""
    weight = model.weight if isinstance(model, LinearModel) else model.score.weight.detach()
    return float(weight[-1, -1])


def plain_model(problem: TrainingProblem) -> Any:
    """Return the model of a problem: a `LinearModel`, or a torch module."""
    return getattr(problem.model, "module", problem.model)


def logits(model: Any, X: Any, n_labels: int) -> NDArray[np.float64]:
    """Return the logits of rows, (n, D), from a model in double precision."""
    if isinstance(model, LinearModel):
        return as_logits(ExactLinear(model.weight, model.bias)(X), n_labels)
    from fairbound.estimator.networks import network_outputs

    return as_logits(network_outputs(model, X), n_labels)
