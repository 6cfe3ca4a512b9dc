"""LinearPost: the decisions of least expected error under limits on rates, by a linear program over joint posteriors.

An own implementation of *Optimal Group Fair Classifiers from Linear Post-Processing* (Xian and Zhao, arXiv 2405.04025)
for two classes and ratios of selection rates.  With estimates q_i = P(group, label | x_i), h_i in [0, 1] is the
probability to select row i:

    min_h  Σ_i h_i (1 − 2 P(y = 1 | x_i))     subject to   δ r_a − r_b ≤ 0 for all pairs of groups
    r_g = Σ_i P(g | x_i) h_i / Σ_i P(g | x_i)

Its dual solution λ has one number per group, and decides for every row, also for new ones:

    select x   if   2 P(y = 1 | x) − 1 > Σ_g λ_g P(g | x)
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import numpy as np
from scipy.optimize import linprog

Array = np.ndarray


def linear_post(joint: Array, ratio: float) -> Callable[[Array], Array]:
    """Return the rule of the program, from cross-fitted joint posteriors of shape (n, groups, 2)."""
    of_group, positive = joint.sum(axis=2), joint[:, :, 1].sum(axis=1)
    totals = of_group.sum(axis=0)
    pairs = list(permutations(range(len(totals)), 2))
    shares = of_group / totals
    rows = np.array([ratio * shares[:, one] - shares[:, other] for one, other in pairs])
    found = linprog((1 - 2 * positive) / len(joint), A_ub=rows, b_ub=np.zeros(len(pairs)), bounds=(0, 1))
    shift = np.zeros(len(totals))
    for (one, other), price in zip(pairs, -found.ineqlin.marginals, strict=True):
        shift[one] += price * ratio
        shift[other] -= price
    shift *= len(joint) / totals
    return lambda new: 2 * new[:, :, 1].sum(axis=1) - 1 > new.sum(axis=2) @ shift
