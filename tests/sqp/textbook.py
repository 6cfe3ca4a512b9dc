"""Textbook nonlinear programs with known solutions, in the form min f(x) subject to lower ≤ c(x) ≤ upper.

HS numbers are those of Hock and Schittkowski, *Test Examples for Nonlinear Programming Codes*, Springer 1981.  Bounds
on variables are rows like any others.  Gradients come from autograd.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from fairbound.sqp.problem import Evaluation

INF = math.inf


@dataclass(frozen=True)
class Textbook:
    """A nonlinear program with its known optimum; it satisfies the protocol `Problem`.

    `optimum` is None where the minimiser is not unique (the value still is); `others` are the values of local
    minimisers that the usual start may lead to.
    """

    name: str
    f: Callable[[Tensor], Tensor]
    c: Callable[[Tensor], Sequence[Tensor]]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    start: tuple[float, ...]
    value: float
    optimum: tuple[float, ...] | None
    others: tuple[float, ...] = ()

    def knows(self, value: float, tolerance: float) -> bool:
        """Whether `value` is that of a known local minimiser."""
        return any(abs(value - known) <= tolerance * max(1.0, abs(known)) for known in (self.value, *self.others))

    def initial_point(self) -> np.ndarray:
        return np.array(self.start, dtype=float)

    def _constraints(self, x: Tensor) -> Tensor:
        rows = list(self.c(x))
        return torch.stack(rows) if rows else x.new_zeros(0)

    def values(self, point: ArrayLike) -> tuple[float, np.ndarray]:
        x = torch.as_tensor(point, dtype=torch.float64)
        with torch.no_grad():
            return float(self.f(x)), self._constraints(x).numpy()

    def evaluate(self, point: ArrayLike) -> Evaluation:
        x = torch.as_tensor(point, dtype=torch.float64).detach().clone().requires_grad_(True)
        with torch.enable_grad():
            f, c = self.f(x), self._constraints(x)
            (g,) = torch.autograd.grad(f, x, retain_graph=True)
            J = [torch.autograd.grad(row, x, retain_graph=True)[0] for row in c]
        matrix = torch.stack(J) if J else x.new_zeros((0, x.numel()))
        return Evaluation(f.item(), g.numpy(), c.detach().numpy(), matrix.numpy(), self.lower, self.upper)


def _rosenbrock(x: Tensor) -> Tensor:
    return 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2


def _hs71_objective(x: Tensor) -> Tensor:
    return x[0] * x[3] * (x[0] + x[1] + x[2]) + x[2]


def _rosen_suzuki_constraints(x: Tensor) -> list[Tensor]:
    s = x**2
    return [
        8 - s.sum() - x[0] + x[1] - x[2] + x[3],
        10 - s[0] - 2 * s[1] - s[2] - 2 * s[3] + x[0] + x[3],
        5 - 2 * s[0] - s[1] - s[2] - 2 * x[0] + x[1] + x[3],
    ]


def _hs100_objective(x: Tensor) -> Tensor:
    return (
        (x[0] - 10) ** 2
        + 5 * (x[1] - 12) ** 2
        + x[2] ** 4
        + 3 * (x[3] - 11) ** 2
        + 10 * x[4] ** 6
        + 7 * x[5] ** 2
        + x[6] ** 4
        - 4 * x[5] * x[6]
        - 10 * x[5]
        - 8 * x[6]
    )


def _hs100_constraints(x: Tensor) -> list[Tensor]:
    return [
        127 - 2 * x[0] ** 2 - 3 * x[1] ** 4 - x[2] - 4 * x[3] ** 2 - 5 * x[4],
        282 - 7 * x[0] - 3 * x[1] - 10 * x[2] ** 2 - x[3] + x[4],
        196 - 23 * x[0] - x[1] ** 2 - 6 * x[5] ** 2 + 8 * x[6],
        -4 * x[0] ** 2 - x[1] ** 2 + 3 * x[0] * x[1] - 2 * x[2] ** 2 - 5 * x[5] + 11 * x[6],
    ]


ROOT2, ROOT3, ROOT7 = math.sqrt(2), math.sqrt(3), math.sqrt(7)

TEXTBOOK: tuple[Textbook, ...] = (
    Textbook(
        "HS6",
        lambda x: (1 - x[0]) ** 2,
        lambda x: [10 * (x[1] - x[0] ** 2)],
        (0,),
        (0,),
        (-1.2, 1.0),
        0.0,
        (1.0, 1.0),
    ),
    Textbook(
        "HS7",
        lambda x: torch.log(1 + x[0] ** 2) - x[1],
        lambda x: [(1 + x[0] ** 2) ** 2 + x[1] ** 2 - 4],
        (0,),
        (0,),
        (2.0, 2.0),
        -ROOT3,
        (0.0, ROOT3),
    ),
    Textbook(
        "HS9",
        lambda x: torch.sin(math.pi * x[0] / 12) * torch.cos(math.pi * x[1] / 16),
        lambda x: [4 * x[0] - 3 * x[1]],
        (0,),
        (0,),
        (0.0, 0.0),
        -0.5,
        None,
    ),
    Textbook(
        "HS10",
        lambda x: x[0] - x[1],
        lambda x: [-3 * x[0] ** 2 + 2 * x[0] * x[1] - x[1] ** 2 + 1],
        (0,),
        (INF,),
        (-10.0, 10.0),
        -1.0,
        (0.0, 1.0),
    ),
    Textbook(
        "HS11",
        lambda x: (x[0] - 5) ** 2 + x[1] ** 2 - 25,
        lambda x: [x[1] - x[0] ** 2],
        (0,),
        (INF,),
        (4.9, 0.1),
        -8.498464223,
        (1.234770450, 1.524661853),
    ),
    Textbook(
        "HS12",
        lambda x: 0.5 * x[0] ** 2 + x[1] ** 2 - x[0] * x[1] - 7 * x[0] - 7 * x[1],
        lambda x: [25 - 4 * x[0] ** 2 - x[1] ** 2],
        (0,),
        (INF,),
        (0.0, 0.0),
        -30.0,
        (2.0, 3.0),
    ),
    Textbook(
        "HS14",
        lambda x: (x[0] - 2) ** 2 + (x[1] - 1) ** 2,
        lambda x: [1 - 0.25 * x[0] ** 2 - x[1] ** 2, x[0] - 2 * x[1] + 1],
        (0, 0),
        (INF, 0),
        (2.0, 2.0),
        9 - 2.875 * ROOT7,
        (0.5 * (ROOT7 - 1), 0.25 * (ROOT7 + 1)),
    ),
    Textbook(
        "HS15",
        _rosenbrock,
        lambda x: [x[0] * x[1] - 1, x[0] + x[1] ** 2, x[0]],
        (0, 0, -INF),
        (INF, INF, 0.5),
        (-2.0, 1.0),
        306.5,
        (0.5, 2.0),
    ),
    Textbook(
        "HS16",
        _rosenbrock,
        lambda x: [x[0] + x[1] ** 2, x[0] ** 2 + x[1], x[0], x[1]],
        (0, 0, -0.5, -INF),
        (INF, INF, 0.5, 1.0),
        (-2.0, 1.0),
        0.25,
        (0.5, 0.25),
        others=(100 * (math.sqrt(0.5) - 0.25) ** 2 + 2.25,),  # at (−½, √½)
    ),
    Textbook(
        "HS22",
        lambda x: (x[0] - 2) ** 2 + (x[1] - 1) ** 2,
        lambda x: [x[0] + x[1], x[1] - x[0] ** 2],
        (-INF, 0),
        (2, INF),
        (2.0, 2.0),
        1.0,
        (1.0, 1.0),
    ),
    Textbook(
        "HS23",
        lambda x: x[0] ** 2 + x[1] ** 2,
        lambda x: [
            x[0] + x[1],
            x[0] ** 2 + x[1] ** 2,
            9 * x[0] ** 2 + x[1] ** 2,
            x[0] ** 2 - x[1],
            x[1] ** 2 - x[0],
            x[0],
            x[1],
        ],
        (1, 1, 9, 0, 0, -50, -50),
        (INF, INF, INF, INF, INF, 50, 50),
        (3.0, 1.0),
        2.0,
        (1.0, 1.0),
    ),
    Textbook(
        "HS24",
        lambda x: ((x[0] - 3) ** 2 - 9) * x[1] ** 3 / (27 * ROOT3),
        lambda x: [x[0] / ROOT3 - x[1], x[0] + ROOT3 * x[1], x[0], x[1]],
        (0, 0, 0, 0),
        (INF, 6, INF, INF),
        (1.0, 0.5),
        -1.0,
        (3.0, ROOT3),
    ),
    Textbook(
        "HS27",
        lambda x: 0.01 * (x[0] - 1) ** 2 + (x[1] - x[0] ** 2) ** 2,
        lambda x: [x[0] + x[2] ** 2],
        (-1,),
        (-1,),
        (2.0, 2.0, 2.0),
        0.04,
        (-1.0, 1.0, 0.0),
    ),
    Textbook(
        "HS28",
        lambda x: (x[0] + x[1]) ** 2 + (x[1] + x[2]) ** 2,
        lambda x: [x[0] + 2 * x[1] + 3 * x[2]],
        (1,),
        (1,),
        (-4.0, 1.0, 1.0),
        0.0,
        (0.5, -0.5, 0.5),
    ),
    Textbook(
        "HS29",
        lambda x: -x[0] * x[1] * x[2],
        lambda x: [x[0] ** 2 + 2 * x[1] ** 2 + 4 * x[2] ** 2],
        (-INF,),
        (48,),
        (1.0, 1.0, 1.0),
        -16 * ROOT2,
        (4.0, 2 * ROOT2, 2.0),
    ),
    Textbook(
        "HS35",
        lambda x: (
            9
            - 8 * x[0]
            - 6 * x[1]
            - 4 * x[2]
            + 2 * x[0] ** 2
            + 2 * x[1] ** 2
            + x[2] ** 2
            + 2 * x[0] * x[1]
            + 2 * x[0] * x[2]
        ),
        lambda x: [x[0] + x[1] + 2 * x[2], x[0], x[1], x[2]],
        (-INF, 0, 0, 0),
        (3, INF, INF, INF),
        (0.5, 0.5, 0.5),
        1 / 9,
        (4 / 3, 7 / 9, 4 / 9),
    ),
    Textbook(
        "HS39",
        lambda x: -x[0],
        lambda x: [x[1] - x[0] ** 3 - x[2] ** 2, x[0] ** 2 - x[1] - x[3] ** 2],
        (0, 0),
        (0, 0),
        (2.0, 2.0, 2.0, 2.0),
        -1.0,
        (1.0, 1.0, 0.0, 0.0),
    ),
    Textbook(
        "HS40",
        lambda x: -x[0] * x[1] * x[2] * x[3],
        lambda x: [x[0] ** 3 + x[1] ** 2, x[0] ** 2 * x[3] - x[2], x[3] ** 2 - x[1]],
        (1, 0, 0),
        (1, 0, 0),
        (0.8, 0.8, 0.8, 0.8),
        -0.25,
        (2 ** (-1 / 3), 2 ** (-1 / 2), 2 ** (-11 / 12), 2 ** (-1 / 4)),
    ),
    Textbook(
        "HS43",
        lambda x: x[0] ** 2 + x[1] ** 2 + 2 * x[2] ** 2 + x[3] ** 2 - 5 * x[0] - 5 * x[1] - 21 * x[2] + 7 * x[3],
        _rosen_suzuki_constraints,
        (0, 0, 0),
        (INF, INF, INF),
        (0.0, 0.0, 0.0, 0.0),
        -44.0,
        (0.0, 1.0, 2.0, -1.0),
    ),
    Textbook(
        "HS48",
        lambda x: (x[0] - 1) ** 2 + (x[1] - x[2]) ** 2 + (x[3] - x[4]) ** 2,
        lambda x: [x.sum(), x[2] - 2 * (x[3] + x[4])],
        (5, -3),
        (5, -3),
        (3.0, 5.0, -3.0, 2.0, -2.0),
        0.0,
        (1.0, 1.0, 1.0, 1.0, 1.0),
    ),
    Textbook(
        "HS60",
        lambda x: (x[0] - 1) ** 2 + (x[0] - x[1]) ** 2 + (x[1] - x[2]) ** 4,
        lambda x: [x[0] * (1 + x[1] ** 2) + x[2] ** 4, x[0], x[1], x[2]],
        (4 + 3 * ROOT2, -10, -10, -10),
        (4 + 3 * ROOT2, 10, 10, 10),
        (2.0, 2.0, 2.0),
        0.03256820025,
        (1.104859024, 1.196674194, 1.535262257),
    ),
    Textbook(
        "HS71",
        _hs71_objective,
        lambda x: [x.prod(), (x**2).sum(), *x],
        (25, 40, 1, 1, 1, 1),
        (INF, 40, 5, 5, 5, 5),
        (1.0, 5.0, 5.0, 1.0),
        17.0140173,
        (1.0, 4.7429994, 3.8211503, 1.3794082),
    ),
    Textbook(
        "HS76",
        lambda x: (
            x[0] ** 2
            + 0.5 * x[1] ** 2
            + x[2] ** 2
            + 0.5 * x[3] ** 2
            - x[0] * x[2]
            + x[2] * x[3]
            - x[0]
            - 3 * x[1]
            + x[2]
            - x[3]
        ),
        lambda x: [x[0] + 2 * x[1] + x[2] + x[3], 3 * x[0] + x[1] + 2 * x[2] - x[3], x[1] + 4 * x[2], *x],
        (-INF, -INF, 1.5, 0, 0, 0, 0),
        (5, 4, INF, INF, INF, INF, INF),
        (0.5, 0.5, 0.5, 0.5),
        -4.681818181,
        (0.2727273, 2.090909, -0.26e-10, 0.5454545),
    ),
    Textbook(
        "HS77",
        lambda x: (x[0] - 1) ** 2 + (x[0] - x[1]) ** 2 + (x[2] - 1) ** 2 + (x[3] - 1) ** 4 + (x[4] - 1) ** 6,
        lambda x: [x[0] ** 2 * x[3] + torch.sin(x[3] - x[4]), x[1] + x[2] ** 4 * x[3] ** 2],
        (2 * ROOT2, 8 + ROOT2),
        (2 * ROOT2, 8 + ROOT2),
        (2.0, 2.0, 2.0, 2.0, 2.0),
        0.24150513,
        (1.166172, 1.182111, 1.380257, 1.506036, 0.6109203),
    ),
    Textbook(
        "HS78",
        lambda x: x.prod(),
        lambda x: [(x**2).sum(), x[1] * x[2] - 5 * x[3] * x[4], x[0] ** 3 + x[1] ** 3],
        (10, 0, -1),
        (10, 0, -1),
        (-2.0, 1.5, 2.0, -1.0, -1.0),
        -2.91970041,
        (-1.717142, 1.595708, 1.827248, -0.763643, -0.763643),
    ),
    Textbook(
        "HS100",
        _hs100_objective,
        _hs100_constraints,
        (0, 0, 0, 0),
        (INF, INF, INF, INF),
        (1.0, 2.0, 0.0, 4.0, 0.0, 1.0, 1.0),
        680.6300573,
        (2.330499, 1.951372, -0.4775414, 4.365726, -0.6244870, 1.038131, 1.594227),
    ),
    Textbook(
        "Maratos",  # full steps from points on the circle increase both objective and violation
        lambda x: 2 * (x[0] ** 2 + x[1] ** 2 - 1) - x[0],
        lambda x: [x[0] ** 2 + x[1] ** 2],
        (1,),
        (1,),
        (math.cos(1.0), math.sin(1.0)),
        -1.0,
        (1.0, 0.0),
    ),
    Textbook(
        "ring",  # two-sided and nonconvex: the lower side of the ring binds
        lambda x: (x[0] - 0.1) ** 2 + 2 * x[1] ** 2,
        lambda x: [x[0] ** 2 + x[1] ** 2],
        (1,),
        (4,),
        (1.5, 1.0),
        0.81,
        (1.0, 0.0),
    ),
    Textbook(
        "unconstrained quadratic",
        lambda x: (x[0] - 1) ** 2 + 10 * (x[1] + 2) ** 2,
        lambda x: [],
        (),
        (),
        (0.0, 0.0),
        0.0,
        (1.0, -2.0),
    ),
)
