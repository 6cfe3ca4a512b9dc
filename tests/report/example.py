"""A realistic summary, made when the tests run: the Law School data, with and without a limit, on a split."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from fairbound import DisparateImpact, TrainingProblem, load_dataset
from fairbound._json import as_record, plain
from fairbound.estimator import FitResult, FrontierModel, LimitResult
from fairbound.fairness import Cells, decide
from fairbound.sqp import Status
from fairbound.studies import Decisions, Summary, SweptPoint, summarize
from fairbound.training import fit, frontier, make_model
from fairbound.training.frontiers import loss_price

LIMIT = DisparateImpact(0.9)
BOUNDS = (0.8, 0.85, 0.88, 0.9, 0.92, 0.95, 0.98)


def fit_result(**changes: Any) -> FitResult:
    """Return the record of a fit of which little is known."""
    known: dict[str, Any] = {
        "status": Status.FEASIBLE,
        "message": "",
        "rows": 8,
        "accuracy": 0.75,
        "constant_accuracy": 0.5,
        "gain": 0.25,
        "loss": 0.5,
        "objective": 0.5,
        "limits": (),
        "groups": (),
        "small_groups": (),
        "missing": {},
        "solver": "quasi-newton",
        "passes": 1,
        "value_passes": 1,
        "seconds": 1.0,
    }
    return FitResult(**{**known, **changes})


def decisions(module: torch.nn.Module, X: np.ndarray) -> np.ndarray:
    """Decide each row."""
    dtype = next(module.parameters()).dtype
    with torch.no_grad():
        return decide(module(torch.as_tensor(X, dtype=dtype)).reshape(len(X), -1).numpy(), 0.5)


def scores(module: torch.nn.Module, X: np.ndarray) -> np.ndarray:
    """Return the probability of the positive class for each row."""
    dtype = next(module.parameters()).dtype
    with torch.no_grad():
        return torch.sigmoid(module(torch.as_tensor(X, dtype=dtype)).reshape(-1)).numpy()


def frontier_point(bound: float, loss_price: float | None = None, accuracy_price: float | None = None) -> FrontierModel:
    """Return a point of a frontier of which only the record is known."""
    fitted = SimpleNamespace(result_=fit_result())
    return FrontierModel(bound, fitted, loss_price, accuracy_price)


class Values(dict[str, Any]):
    """The values of a summary's JSON, and the summary that they make."""

    summary: Summary


@contextmanager
def edited(summary: Summary) -> Iterator[Values]:
    """Yield the JSON of a summary; at the end, `summary` of it is what the changed JSON says."""
    values = Values(plain(summary))
    yield values
    values.summary = as_record(dict(values), Summary)


@cache
def law_pieces() -> dict[str, Any]:
    """Train before and after, and a frontier; return the arguments of `summarize`."""
    data = load_dataset("law")
    parts = data.split(test_size=0.3, random_state=0)
    cells = Cells.build(parts.train.y, {"race": parts.train.groups("race")})
    found: dict[str, list[np.ndarray]] = {}
    for name, limits in {"before": [], "after": [LIMIT]}.items():
        module = make_model(data.X.shape[1], generator=torch.Generator().manual_seed(1))
        problem = TrainingProblem(module, "binary_cross_entropy", limits, cells)
        result = fit(problem, parts.train.X)
        found[name] = [decisions(module, part.X) for part in parts]
        held_out_scores = scores(module, parts.test.X)
    price = loss_price(result.assessment, 0, result.multipliers)
    record = fit_result(
        **result.facts(),
        message=result.message,
        limits=(LimitResult(str(LIMIT), 0.9, 0.9, True, price),),
    )
    swept = frontier(problem, parts.train.X, BOUNDS)
    points = []
    for point in swept:
        swept.use(point)
        training, held_out = (decisions(module, part.X) for part in parts)
        points.append(SweptPoint(point=point, training=training, held_out=held_out))
    training, held_out = (
        Decisions(
            y=part.y,
            sensitive_features={"race": part.groups("race")},
            before=found["before"][place],
            after=found["after"][place],
            scores=held_out_scores if place == 1 else None,
        )
        for place, part in enumerate(parts)
    )
    return {
        "limits": [LIMIT],
        "training": training,
        "held_out": held_out,
        "title": "Passing the bar exam",
        "target": "passing the bar exam",
        "class_names": dict(enumerate(data.target_names)),
        "result": record,
        "frontier": points,
        "reproduction": {
            "command": 'fairbound train law.csv --target pass_bar --sensitive race --require "disparate_impact >= 0.9"',
            "version": "0.1.0",
            "seed": 1,
            "created": "2026-01-31",
            "model": "linear",
            "data": {"name": "law.csv", "sha256": "0123456789abcdef" * 4, "rows": len(data)},
            "columns": list(data.feature_names),
            "libraries": {"torch": torch.__version__.split("+")[0], "numpy": np.__version__},
        },
        "notes": ["The column sex is not among the groups of this run."],
    }


@cache
def law_summary() -> Summary:
    """Return the summary of the pieces."""
    return summarize(**law_pieces())


HOSTILE = (
    "<script>window.hacked = 1</script>",
    "\"><img src=x onerror='window.hacked = 2'>",
    "</script><script>window.hacked = 3</script>",
    "{{ 7 * 7 }} {% raw %} ${8 * 8} `a|b` *c* [d](javascript:window.hacked=4)",
    "--><!-- ]]> &lt;b&gt; \u2028 end",
)


@cache
def hostile_summary() -> Summary:
    """Return a summary in which every text that a user gives looks like a program."""
    generator = np.random.default_rng(0)
    n = 400
    groups = np.array(HOSTILE)[generator.integers(0, len(HOSTILE), n)]
    y = generator.integers(0, 2, n)
    before, after = (np.where(generator.random(n) < 0.8, y, 1 - y) for _ in range(2))
    rows = Decisions(y=y, sensitive_features={HOSTILE[0]: groups}, before=before, after=after)
    limit = DisparateImpact(0.5, reference=HOSTILE[1])
    return summarize(
        limit,
        rows,
        rows,
        title=HOSTILE[0],
        target=HOSTILE[1],
        class_names={0: HOSTILE[2], 1: HOSTILE[0]},
        result=fit_result(
            message=HOSTILE[1],
            solver=HOSTILE[2],
            conflicts=HOSTILE,
            iterations=[{"phase": name, "f": 0.5, "violation": 0.1, "step_length": 1.0} for name in HOSTILE],
        ),
        frontier=[SweptPoint(point=frontier_point(bound), training=after, held_out=after) for bound in (0.4, 0.5)],
        reproduction={
            HOSTILE[0]: HOSTILE[1],
            "command": HOSTILE[2],
            "data": {"name": HOSTILE[0], "rows": 1, "sha256": HOSTILE[3]},
        },
        notes=HOSTILE,
    )


@cache
def large_summary() -> Summary:
    """Return a summary of 25 groups with long names, 50 points and 1,000 iterations."""
    generator = np.random.default_rng(1)
    n = 5000
    names = np.array(
        [f"group {place:02d} of people who live in the district of the river" for place in range(24)] + ["x" * 90]
    )
    parts = []
    for _ in range(2):
        groups, y = names[generator.integers(0, 25, n)], generator.integers(0, 2, n)
        before, after = (np.where(generator.random(n) < 0.75, y, 1 - y) for _ in range(2))
        parts.append(Decisions(y=y, sensitive_features={"district": groups}, before=before, after=after))
    training, held_out = parts
    bounds = np.linspace(0.5, 0.99, 50)
    found = summarize(
        "disparate_impact >= 0.8",
        training,
        held_out,
        title="Twenty-five districts",
        result=fit_result(
            iterations=[
                {
                    "epoch": epoch,
                    "loss": 0.3 + float(np.exp(-epoch / 100)),
                    "accuracy": 0.8,
                    "surrogate_violation": float(np.exp(-epoch / 80)),
                    "exact_violation": float(np.exp(-epoch / 60)) if epoch < 700 else 0.0,
                    "kept": epoch >= 700,
                    "step_length": 0.5,
                }
                for epoch in range(1000)
            ],
        ),
        frontier=[SweptPoint(point=frontier_point(0.8, 0.1, 0.02), training=training.after, held_out=held_out.after)],
    )
    # The same point fifty times over, moved a little: counting fifty models would take long and show no more.
    with edited(found) as values:
        (point,) = values["frontier"]
        values["frontier"] = [_moved(point, float(bound)) for bound in bounds]
    return values.summary


def _moved(point: dict[str, Any], bound: float) -> dict[str, Any]:
    moved = json.loads(json.dumps(point))
    moved |= {"bound": bound, "text": f"disparate_impact >= {bound:.2f}"}
    for part in ("training", "held_out"):
        reached = moved[part]
        shift = bound - reached["value"]
        reached["kept"] = True
        for key in ("value", "lower", "upper"):
            reached[key] = min(1.0, max(0.0, reached[key] + shift))
            reached["accuracy"][key] += 0.05 - 0.1 * bound
        for group in reached["groups"]:
            for rate in group["rates"]["1"].values():
                for key in rate:
                    rate[key] = min(1.0, max(0.0, rate[key] + 0.2 * (bound - 0.75)))
    return moved
