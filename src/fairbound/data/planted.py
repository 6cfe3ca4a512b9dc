"""Synthetic data with planted disparities, whose rates are known in closed form.

Each row has a group a with probability `shares[a]`, a label y = 1 with probability b_a = `base_rates[a]`, and inputs

    x₀ = (y − ½)·s + ε                      s = `label_signal`, ε standard normal: the only input that depends on y
    x_{1+k} = (a is the k-th group)·t + ε   t = `group_signal`: one proxy for each group
    further columns = ε                     noise

So, given y, x₀ does not depend on the group. The *aware* rule is the most accurate one that uses x₀ and the group. It
selects if P(y = 1 | x₀, a) ≥ ½. The log odds of y given x₀ are logit(b_a) + s·x₀, so this means x₀ ≥ θ_a =
−logit(b_a)/s. The *blind* rule is the most accurate one that uses x₀ only; its one θ follows from the base rate of all
rows. A rule with thresholds θ has the rates

    TPR_a = Φ(s/2 − θ_a)     FPR_a = Φ(−s/2 − θ_a)     selection rate = b_a·TPR_a + (1 − b_a)·FPR_a.

So the blind rule keeps equalised odds exactly, and demographic parity only if the base rates are equal. The most
accurate rule on all inputs is between the two; the larger t, the nearer it is to the aware rule.

Conventions
-----------
K groups, in the order of `base_rates`; every rate is an array of shape (K,) in that order.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import logit, ndtr

from fairbound.data.arrays import FloatArray
from fairbound.data.dataset import Dataset


@dataclass(frozen=True, eq=False)
class PlantedRule:
    """A rule that selects if x₀ ≥ the threshold of the group, with its rates in the population, by group."""

    thresholds: FloatArray
    selection_rates: FloatArray
    true_positive_rates: FloatArray
    false_positive_rates: FloatArray
    accuracies: FloatArray


@dataclass(frozen=True, eq=False)
class PlantedTruth:
    """The population of the synthetic data.

    Attributes
    ----------
    groups : tuple
        The groups, in the order of all arrays.
    shares, base_rates : array of shape (K,)
        Share of each group among the rows, and of label 1 within each group.
    aware : PlantedRule
        The most accurate rule that uses x₀ and the group.
    blind : PlantedRule
        The most accurate rule that uses x₀ only.
    """

    groups: tuple[Hashable, ...]
    shares: FloatArray
    base_rates: FloatArray
    aware: PlantedRule
    blind: PlantedRule


class PlantedData(NamedTuple):
    """A sample and its population."""

    dataset: Dataset
    truth: PlantedTruth


def make_disparate_data(
    n: int,
    *,
    base_rates: Mapping[Hashable, float],
    shares: Mapping[Hashable, float] | None = None,
    label_signal: float = 2.0,
    group_signal: float = 1.0,
    n_noise: int = 2,
    seed: int | np.random.Generator = 0,
) -> PlantedData:
    """Draw rows from groups with known base rates.

    Parameters
    ----------
    n : int
        Number of rows.
    base_rates : mapping of group to float
        Probability of label 1 in each group, above 0 and below 1. The keys are the groups, all of one type.
    shares : mapping of group to float, optional
        Probability of each group; they sum to 1. By default all are equal.
    label_signal : float
        Strength s of the signal of the label in x₀, positive: 0.5 is weak, 4 nearly separates the labels.
    group_signal : float
        Strength t of the signal of the group in the proxies; 0 makes them noise.
    n_noise : int
        Number of noise columns.
    seed : int or numpy.random.Generator
        Seed of the draw; global generators are not used.

    Returns
    -------
    PlantedData
        The sample, with the sensitive column "group", and its population.

    Examples
    --------
    >>> data, truth = make_disparate_data(1000, base_rates={"a": 0.6, "b": 0.3}, seed=1)
    >>> data
    Dataset 'planted': 1,000 rows, 5 features, sensitive: group
    >>> truth.blind.true_positive_rates.round(3)
    array([0.816, 0.816])
    >>> truth.aware.selection_rates.round(3)
    array([0.616, 0.269])
    """
    groups = tuple(base_rates)
    rates = _probabilities("base_rates", base_rates)
    weights = np.full(len(groups), 1 / len(groups)) if shares is None else _shares(groups, shares)
    _check_sizes(n, label_signal, group_signal, n_noise)

    random = np.random.default_rng(seed)
    member = random.choice(len(groups), size=n, p=weights)
    y = (random.random(n) < rates[member]).astype(np.int64)
    label_column = ((y - 0.5) * label_signal)[:, None]
    proxies = np.eye(len(groups))[member] * group_signal
    means = np.concatenate([label_column, proxies, np.zeros((n, n_noise))], axis=1)
    dataset = Dataset(
        name="planted",
        X=means + random.standard_normal(means.shape),
        y=y,
        sensitive={"group": np.array(groups)[member]},
        feature_names=[
            "label_signal",
            *(f"proxy_{group}" for group in groups),
            *(f"noise_{i}" for i in range(n_noise)),
        ],
        description="Drawn by make_disparate_data, with known rates.",
    )
    aware = _rule(rates, logit(rates), label_signal)
    blind = _rule(rates, np.full(len(groups), logit(weights @ rates)), label_signal)
    return PlantedData(dataset, PlantedTruth(groups, weights, rates, aware, blind))


def _rule(base_rates: FloatArray, log_odds: FloatArray, signal: float) -> PlantedRule:
    """Return the most accurate rule if the prior log odds of label 1 are `log_odds`."""
    thresholds = -log_odds / signal
    true_positive, false_positive = ndtr(signal / 2 - thresholds), ndtr(-signal / 2 - thresholds)
    return PlantedRule(
        thresholds=thresholds,
        selection_rates=base_rates * true_positive + (1 - base_rates) * false_positive,
        true_positive_rates=true_positive,
        false_positive_rates=false_positive,
        accuracies=base_rates * true_positive + (1 - base_rates) * (1 - false_positive),
    )


def _probabilities(name: str, values: Mapping[Hashable, float]) -> FloatArray:
    if not values:
        raise ValueError(f"{name} is empty; give at least one group.")
    for group, value in values.items():
        if not 0 < value < 1:
            raise ValueError(f"{name}[{group!r}] is {value!r}; give a probability above 0 and below 1.")
    return np.array(list(values.values()), dtype=np.float64)


def _shares(groups: tuple[Hashable, ...], shares: Mapping[Hashable, float]) -> FloatArray:
    if set(shares) != set(groups):
        raise ValueError(
            f"shares names the groups {list(shares)}, but base_rates {list(groups)}; name the same groups."
        )
    ordered = {group: shares[group] for group in groups}
    weights = np.ones(1) if ordered == {groups[0]: 1} else _probabilities("shares", ordered)
    if abs(weights.sum() - 1) > 1e-9:  # allow for rounding of decimal fractions only
        raise ValueError(f"shares sum to {weights.sum():g}; they are probabilities and must sum to 1.")
    return weights


def _check_sizes(n: int, label_signal: float, group_signal: float, n_noise: int) -> None:
    if n < 1:
        raise ValueError(f"n is {n!r}; give at least one row.")
    if not (np.isfinite(label_signal) and label_signal > 0):
        raise ValueError(f"label_signal is {label_signal!r}; give a positive number.")
    if not np.isfinite(group_signal):
        raise ValueError(f"group_signal is {group_signal!r}; give a finite number, 0 for none.")
    if n_noise < 0:
        raise ValueError(f"n_noise is {n_noise!r}; give a number of columns, 0 or more.")
