"""Objectives, overall and conditional limits, quotas and stability: kept on random problems, and compared on new rows.

python benchmarks/decisions.py --part kept --problems 200     every kind of limit and objective, counted by numpy
python benchmarks/decisions.py --part numbers --problems 200  limits on means, losses and shares of a regression
python benchmarks/decisions.py --part batches                 `predict(X, select=100)` in 10,000 batches with ties
python benchmarks/decisions.py --part new-rows --splits 5     costs, quotas and strata against plain thresholds
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter
from itertools import combinations

import numpy as np
import pandas as pd
from fairlearn.metrics import MetricFrame
from sklearn.linear_model import LogisticRegression

from fairbound import ConstrainedClassifier, ConstrainedRegressor, load_dataset
from fairbound._model_settings import Training
from fairbound.fairness import parse_constraint

QUICK = Training(forecast=False)
KINDS = {
    "selection_rate <= 0.3": "accuracy",
    "recall >= 0.7": "accuracy",
    "false_positive_rate <= 0.1": "accuracy",
    "precision[overall] >= 0.75": "accuracy",
    "disparate_impact >= 0.8 within s": "accuracy",
    "demographic_parity <= 0.1 within s": "accuracy",
    "equal_opportunity <= 0.15 within s": "accuracy",
    "changed <= 5% from old": "accuracy",
    "changed[overall] <= 3% from old": "accuracy",
    "disparate_impact >= 0.8": "cost(false_positive=1, false_negative=5)",
    "demographic_parity <= 0.05": "balanced_accuracy",
    "equal_impact >= 0.8": "profit(gain)",
    "disparate_impact >= 0.85": "select",
    "demographic_parity <= 0.08": "select",
}


def draw(seed: int) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Return a random problem of 150 to 500 rows."""
    rng = np.random.default_rng(seed)
    n, columns = int(rng.integers(150, 500)), int(rng.integers(2, 6))
    group = np.where(rng.random(n) < rng.uniform(0.3, 0.7), "a", "b")
    x = rng.normal(size=(n, columns)) + rng.uniform(0, 0.8) * (group == "a")[:, None]
    x = np.round(x, int(rng.integers(0, 4)))  # ties in some problems
    y = (x @ rng.normal(size=columns) + rng.normal(size=n) > rng.uniform(-0.5, 0.8)).astype(int)
    table = pd.DataFrame(x, columns=[f"x{each}" for each in range(columns)])
    table["s"] = np.where(rng.random(n) < 0.5, "u", "v")
    table["old"] = (x[:, 0] > 0).astype(int)
    return table.assign(gain=np.where(y == 1, 2.0, -3.0) * rng.uniform(0.5, 2, n)), y, group


def measured(limit: str, d: np.ndarray, y: np.ndarray, g: np.ndarray, table: pd.DataFrame) -> float:
    """Return the measure of a limit, from its definition."""
    name = limit.split()[0].split("[")[0]
    inside = {"equal_opportunity": y == 1, "equal_impact": y == 1, "recall": y == 1, "false_positive_rate": y == 0}
    counted = inside.get(name, d == 1 if name == "precision" else np.ones(len(y), bool))
    values = {"precision": y, "changed": d != table["old"].to_numpy()}.get(name, d)
    everyone = np.zeros(len(y), int)
    strata = table["s"].to_numpy() if "within" in limit else everyone

    def rate(rows: np.ndarray) -> float:
        rows = rows & counted
        return float(values[rows].mean()) if rows.any() else 0.0

    if name in ("selection_rate", "recall", "false_positive_rate", "precision", "changed"):
        groups = everyone if "[overall]" in limit else g
        rates = [rate(groups == each) for each in np.unique(groups)]
        return min(rates) if ">=" in limit else max(rates)
    pairs = []
    for stratum in np.unique(strata):
        rates = [rate((strata == stratum) & (g == each)) for each in np.unique(g)]
        pairs += list(combinations(rates, 2))
    if name in ("disparate_impact", "equal_impact"):
        return min(min(pair) / max(pair) if max(pair) else 1.0 for pair in pairs)
    return max(abs(a - b) for a, b in pairs)


def kept(problems: int) -> None:
    """Fit each kind to random problems; count the limits by numpy."""
    for limit, objective in KINDS.items():
        found: Counter[str] = Counter()
        for seed in range(problems):
            table, y, g = draw(seed)
            limits, options = [limit, "select 20%"], {}
            if objective != "select":
                limits, options = limit, {"objective": objective}
            own = [*(["old"] if "old" not in limit else []), *(["gain"] if "gain" not in objective else [])]
            X = table.drop(columns=own)
            try:
                clf = ConstrainedClassifier(limits, training=QUICK, **options).fit(X, y, sensitive_features=g)
            except ValueError as error:  # a group or stratum with too few rows
                found["refused: " + str(error)[:40]] += 1
                continue
            d, result = clf.predict(X), clf.result_
            value, bound = measured(limit, d, y, g, table), limit.split()[2]
            bound = float(bound.rstrip("%")) / (100 if "%" in bound else 1)
            holds = value >= bound - 1e-12 if ">=" in limit else value <= bound + 1e-12
            right = abs(value - result.limits[0].reached) < 1e-9 and holds == result.kept
            if objective == "select":
                tied = np.isclose(clf.decision_function(X), clf.decision_function(X)[d == 0].max(), rtol=0, atol=1e-9)
                right &= d.sum() <= int(0.2 * len(y) + 1e-9) < d.sum() + tied.sum()
            if result.reached is not None:
                cost = np.where(d > y, 1, 5 * (d < y)).mean()
                balanced = np.mean([(d[y == k] == k).mean() for k in (0, 1)])
                by_name = {"cost": cost, "balanced_accuracy": balanced, "profit": (table["gain"] * d).mean()}
                right &= abs(by_name[objective.split("(")[0]] - result.reached.value) < 1e-9
            named = bool(result.conflicts) or result.kept
            found[("kept" if holds else "infeasible, named") if right and named else f"WRONG in {seed}"] += 1
        print(f"{limit:36s} {objective:42s} {dict(found)}", flush=True)


NUMBERS = {
    "mean_difference <= {:.9g}": "squared",
    "mean_difference <= {:.9g} against overall": "absolute",
    "group_loss <= {:.9g}": "squared",
    "group_loss[a] <= {:.9g}": "quantile(0.7)",
    "demographic_parity <= 0.05 at quantiles 30%, 70%": "squared",
    "disparate_impact >= 0.8 at quantiles 50%": "absolute",
}


def measured_number(limit: str, y: np.ndarray, p: np.ndarray, g: np.ndarray, loss: str) -> float:
    """Return the measure of a limit on numbers, by fairlearn's MetricFrame."""
    name, options = limit.split()[0].split("[")[0], limit.split(" at ")

    def of_groups(values: np.ndarray) -> np.ndarray:
        found = MetricFrame(metrics=lambda _, v: v.mean(), y_true=y, y_pred=values, sensitive_features=g)
        return found.by_group.to_numpy(dtype=float)

    if name == "mean_difference":
        means = of_groups(p)
        return float(np.abs(means - p.mean()).max() if "overall" in limit else np.ptp(means))
    if name == "group_loss":
        losses = (y - p) ** 2 if loss == "squared" else pinball(y, p, float(loss[9:-1]))
        found = of_groups(losses)
        return float(found[0] if "[a]" in limit else found.max())
    shares = [of_groups((p > float(value)).astype(float)) for value in options[1].split(",")]
    if name == "disparate_impact":
        return float(min(each.min() / each.max() if each.max() else 1.0 for each in shares))
    return float(max(np.ptp(each) for each in shares))


def pinball(y: np.ndarray, p: np.ndarray, quantile: float) -> np.ndarray:
    """Return the pinball loss of each row."""
    return np.maximum(quantile * (y - p), (quantile - 1.0) * (y - p))


def numbers(problems: int) -> None:
    """Fit regressions to random problems; measure the limits by fairlearn."""
    for text, loss in NUMBERS.items():
        found: Counter[str] = Counter()
        for seed in range(problems):
            table, _, g = draw(seed)
            X, rng = table.drop(columns=["s", "old", "gain"]).to_numpy(), np.random.default_rng(seed)
            y = X @ rng.normal(size=X.shape[1]) + rng.uniform(0, 1) * (g == "a") + rng.normal(size=len(g))
            y = rng.uniform(0.1, 1e4) * y + rng.uniform(-1e5, 1e5)
            free = ConstrainedRegressor(text.format(1e12), loss=loss, training=QUICK).fit(X, y, sensitive_features=g)
            factor = rng.uniform(0.93, 1.05) if "loss" in text else rng.uniform(0.0, 1.1)
            limit = text.format(factor * free.result_.limits[0].reached)
            model = ConstrainedRegressor(limit, loss=loss, training=QUICK).fit(X, y, sensitive_features=g)
            (result,), p = model.result_.limits, model.predict(X)
            value, bound = measured_number(result.limit, y, p, g, loss), float(limit.split()[2])
            unit = model.unit_.of(parse_constraint(limit))
            holds = value >= bound - 1e-12 if ">=" in limit else value <= bound + 2e-9 * unit
            right = abs(value - result.reached) < 1e-8 * unit and holds == result.kept
            named = bool(model.result_.message.partition("conflict: ")[2]) or result.kept
            found[("kept" if holds else "infeasible, named") if right and named else f"WRONG in {seed}"] += 1
        print(f"{text:56s} {loss:14s} {dict(found)}", flush=True)


def batches() -> None:
    """Select 100 rows in 10,000 batches, many of whose scores are equal."""
    table, y, _ = draw(0)
    X = np.round(table[["x0", "x1"]].to_numpy())
    clf = ConstrainedClassifier(training=QUICK).fit(X, y)
    rng, wrong = np.random.default_rng(0), 0
    for _ in range(10_000):
        batch = X[rng.integers(0, len(X), int(rng.integers(100, 400)))]
        z, chosen = clf.decision_function(batch), clf.predict(batch, select=100) == 1
        again = clf.predict(batch, select=100) == 1
        best = z[chosen].min() >= z[~chosen].max(initial=-np.inf)
        wrong += not (chosen.sum() == 100 and best and (again == chosen).all())
    print(f"select=100 in 10,000 batches: {wrong} wrong")


def ratio(d: np.ndarray, g: np.ndarray) -> float:
    """Return the ratio of selection rates."""
    rates = [d[g == each].mean() for each in np.unique(g)]
    return min(rates) / max(max(rates), 1e-12)


def mean_cost(d: np.ndarray, y: np.ndarray) -> float:
    """Return the mean cost, 1 for a false positive and 5 for a false negative."""
    return float(np.where(d > y, 1, 5 * (d < y)).mean())


def plain_at_limit(score: np.ndarray, y: np.ndarray, g: np.ndarray, asked: float) -> np.ndarray:
    """Return decisions by one threshold on a plain score: the cheapest of those that keep the ratio."""
    cuts = [(score > cut).astype(int) for cut in np.quantile(score, np.linspace(0, 1, 200))]
    kept = [d for d in cuts if ratio(d, g) >= asked]
    return (min(kept, key=lambda d: mean_cost(d, y)) if kept else 0 * g.astype(bool)) > 0


def new_rows(splits: int) -> None:
    """Compare cost and quota on held-out rows with a plain fit and its best threshold that keeps the limit."""
    for name in ("law", "dutch", "acsincome"):
        data = load_dataset(name)
        groups = np.asarray(next(iter(data.sensitive.values())))
        rows = []
        for seed in range(splits):
            order = np.random.default_rng(seed).permutation(len(data.y))[:8000]
            X, y, g = data.frame().iloc[order], np.asarray(data.y)[order], groups[order]
            a, b = slice(0, 4000), slice(4000, None)
            cost = {"objective": "cost(false_positive=1, false_negative=5)"}
            ours = ConstrainedClassifier("disparate_impact >= 0.9", training=QUICK, **cost)
            ours.fit(X[a], y[a], sensitive_features=g[a])
            plain = LogisticRegression(max_iter=2000)
            Z = ours.encoder_.transform(X)
            score = plain.fit(Z[a], y[a]).decision_function(Z)
            best = plain_at_limit(score[a], y[a], g[a], 0.9)
            cut = score[a][best].min(initial=np.inf)
            d, e = ours.predict(X[b]), (score[b] >= cut).astype(int)
            quota = ConstrainedClassifier(["disparate_impact >= 0.9", "select 20%"], training=QUICK)
            quota.fit(X[a], y[a], sensitive_features=g[a])
            f, top = quota.predict(X[b], select="20%"), (score[b] >= np.quantile(score[b], 0.8)).astype(int)
            hits = [float(y[b][each == 1].mean()) for each in (f, top)]
            rows.append(
                [
                    mean_cost(d, y[b]),
                    ratio(d, g[b]),
                    mean_cost(e, y[b]),
                    ratio(e, g[b]),
                    hits[0],
                    ratio(f, g[b]),
                    hits[1],
                    ratio(top, g[b]),
                ]
            )
        mean = np.round(np.mean(rows, axis=0), 4).tolist()
        print(
            f"{name:10s} cost {mean[0]} at ratio {mean[1]}; one threshold {mean[2]} at {mean[3]}. "
            f"Quota: precision {mean[4]} at {mean[5]}; the plain best {mean[6]} at {mean[7]}",
            flush=True,
        )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=("kept", "numbers", "batches", "new-rows"), default="kept")
    parser.add_argument("--problems", type=int, default=200)
    parser.add_argument("--splits", type=int, default=5)
    stated = parser.parse_args()
    parts = {
        "kept": lambda: kept(stated.problems),
        "numbers": lambda: numbers(stated.problems),
        "batches": batches,
        "new-rows": lambda: new_rows(stated.splits),
    }
    parts[stated.part]()
