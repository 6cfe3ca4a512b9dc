"""The optimism of a fit: how much worse a limit is on new rows than on the training rows, beyond chance.

To measure it, a second model is fitted to a part of the training rows, by the phases of the whole fit.  It starts from
the model without limits of the whole, which has not used the groups.  From there it finds its own model without limits
first: the whole fit stops where its decisions are as accurate as without limits, and so must the fit to the part.

Let d be the difference of c̄ between the other rows and those of the part.  For a model fitted to the part, d is its
optimism plus chance.  For the model fitted to all rows, d is chance alone.  Subtracting the two gives the optimism of a
fit to the part.  The optimism of the whole fit is smaller, by a power of the share of the rows.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fairbound.estimator.modules import logits
from fairbound.evaluation import Optimism, RateDistribution
from fairbound.fairness import Cells, ConstraintSystem, decide, decision_indicators
from fairbound.training import Effort, Phase, TrainingProblem, choose_effort, fit, is_small, on_other_rows

MOST_ROWS = 20_000
"""The part has at most this many rows, but at least a fifth of them."""

SMALL_SHARE, LARGE_SHARE = 0.8, 0.5
"""The largest share of the rows in the part, for fits with few rows and with many.

The optimism of few rows is large, so the part must be close to the whole; that of many needs many other rows.
"""

FALL = 0.75
"""The optimism falls with the number of rows to this power: 1 for smooth measures, 2/3 for counts of decisions."""

NO_OPTIMISM = Optimism()


def rate_distribution(
    system: ConstraintSystem,
    decisions: Tensor,
    multipliers: Tensor | None = None,
    optimism: Optimism = NO_OPTIMISM,
    asked: int | None = None,
    *,
    constant: bool = False,
) -> RateDistribution:
    """Return the distribution of the rates on new rows, from the decisions about the rows of the system.

    `optimism` is that of `measure_optimism`; the limits after the first `asked` ones have no forecast.  With
    `constant`, the model decides alike for every row that there may be.
    """
    cells = system.cells
    indicators = decision_indicators(decisions, cells.outcomes)
    counts, spread = cells.sums(indicators), system.rate_spread(indicators, added=0.0 if constant else 0.5)
    rates = system.rates(counts.expand(len(system.surrogates), -1, -1)).numpy()
    price = np.zeros(len(spread)) if multipliers is None else (system.coefficients.T @ multipliers).numpy()
    way = spread.numpy() @ price  # the direction of the optimism
    size = math.sqrt(max(0.0, float(price @ way)))
    kappa = optimism.at(size)
    shift, doubt = kappa.value * way, kappa.error * way
    return RateDistribution(system, rates, shift, spread.numpy(), asked, doubt, kappa.value * size)


def is_constant(problem: TrainingProblem, module: nn.Module, Z: NDArray[np.float64], decisions: Tensor) -> bool:
    """Return whether a module decides alike for all inputs, and clearly so, which it will do on new rows as well.

    Its logits must be further from any other decision than they are from each other.
    """
    if bool((decisions != decisions[0]).any()):
        return False
    found = logits(module, Z, problem.cells.n_labels)
    width = float((found.amax(dim=0) - found.amin(dim=0)).max())
    towards = torch.ones(1, 1) if found.shape[1] == 1 else -2.0 * torch.eye(found.shape[1])[decisions[:1]]
    moved = (found + width * towards, found - width * towards)
    return all(bool((decide(each, problem.threshold) == decisions).all()) for each in moved)


def measure_optimism(
    problem: TrainingProblem,
    Z: NDArray[np.float64],
    decisions: Tensor,
    multipliers: Tensor,
    free: Tensor,
    loss_weights: Any = None,
    effort: Effort | None = None,
    objective: str = "loss",
) -> Optimism:
    """Return κ: the optimism of the limits is κ·A·Σ·Aᵀ·y.  Raise ValueError if the rows are too few to be divided.

    κ is fitted to the one number yᵀ·(optimism of c), because single rows of c are too noisy.  If the part is at most
    half of the rows, it is the mean of two parts without a row in common, because fits differ by luck as well.

    Parameters
    ----------
    problem : TrainingProblem
    Z : array of shape (n, columns)
        Inputs of the module, in the row order of the cells.
    decisions : Tensor of shape (n,)
        The decisions of the fitted model.
    multipliers : Tensor of shape (m,)
    free : Tensor
        Parameters of the model without limits.
    loss_weights, effort, objective
        Of the fit, if they were stated.
    """
    system = problem.system
    spread = torch.from_numpy(rate_distribution(system, decisions).spread)
    price = system.coefficients.T @ multipliers
    scale = float(price @ spread @ price)
    if scale <= 0.0:
        return NO_OPTIMISM  # no limit binds, so the fit had no reason to fit noise
    small = is_small(len(problem.cells), problem.n_parameters)
    parts = choose_parts(problem.cells, SMALL_SHARE if small else LARGE_SHARE)
    if bool(parts[0].all()):
        raise ValueError("none would be outside the part.")
    # The part must be fitted like the whole: a hurried fit stays near the model without limits, and has less optimism.
    # The accurate phase lowers the optimism, so the part needs it, too; only small fits are measured without it.
    whole = replace(choose_effort(len(Z), problem.n_parameters) if effort is None else effort, starts=1)
    # The part of a small fit is most of its rows, and its model without limits is near that of the whole.
    whole = replace(whole, worth=math.inf, free=one_iteration(whole)) if small else whole
    measured, options = [], {"objective": objective, "effort": whole}
    for inside in parts:
        weights = None if loss_weights is None else np.asarray(loss_weights)[inside.numpy()]
        lost = _optimism_of_part(problem, Z, decisions, free, inside, loss_weights=weights, **options)
        share = float(inside.to(torch.float64).mean())
        measured.append(share**FALL * float(multipliers @ lost) / scale)
    return Optimism.of_parts(measured, math.sqrt(scale))


def _optimism_of_part(
    problem: TrainingProblem, Z: NDArray[np.float64], decisions: Tensor, free: Tensor, inside: Tensor, **options: Any
) -> Tensor:
    """Return the optimism in c̄ of a model that is fitted to a part of the rows."""
    part, others = problem.cells.take(inside), problem.cells.take(~inside)
    trial = on_other_rows(problem, part)
    trial.assign(free)
    fit(trial, Z[inside.numpy()], solver="quasi-newton", **options)
    refitted = decide(logits(trial.module, Z, problem.cells.n_labels), problem.threshold)

    def gap(decided: Tensor) -> Tensor:
        return _exact(problem.system, others, decided[~inside]) - _exact(problem.system, part, decided[inside])

    return torch.nan_to_num(gap(refitted) - gap(decisions), 0.0, 0.0, 0.0)


def choose_parts(cells: Cells, largest: float) -> list[Tensor]:
    """Return masks of one part or of two disjoint ones: a share of each cell, or of each label if rows are divided."""
    share = min(largest, max(0.2, MOST_ROWS / cells.n_rows))
    strata = cells.index if cells.division is None else cells.of_rows(cells.labels)
    order = torch.from_numpy(np.random.default_rng(0).permutation(len(strata)))
    order = order[torch.argsort(strata[order], stable=True)]
    counts = torch.bincount(strata)
    place = torch.arange(len(strata)) - (torch.cumsum(counts, 0) - counts)[strata[order]]
    size, whole = torch.ceil(share * counts)[strata[order]], counts[strata[order]]
    second = (place >= torch.maximum(whole - size, size)) | (whole == 1)  # a stratum of one row is in both
    chosen = [place < size, second][: 2 if share <= LARGE_SHARE else 1]
    return [cells.of_entries(each[torch.argsort(order)]) for each in chosen]


def one_iteration(effort: Effort) -> Phase:
    """Return a phase that assesses the known model without limits."""
    return replace(effort.free, iterations=min(1, effort.free.iterations))


def _exact(system: ConstraintSystem, cells: Cells, decisions: Tensor) -> Tensor:
    """Return c̄ on some of the rows."""
    return replace(system, cells=cells).exact(cells.sums(decision_indicators(decisions, cells.outcomes)))
