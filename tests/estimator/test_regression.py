"""A regression under limits: kept on the training rows, optimal, and the same as independent computations."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import QuantileRegressor, Ridge
from sklearn.utils.estimator_checks import check_estimator

from fairbound import ConstrainedClassifier, ConstrainedRegressor, LimitWarning, Loss, Training, certify, load
from fairbound.cli.output import load_model
from fairbound.fairness import parse_constraint
from fairbound.sqp import Status


def incomes(seed: int = 0, n: int = 600) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return columns, incomes and groups: b earns more, and its incomes are harder to predict."""
    rng = np.random.default_rng(seed)
    group = np.where(rng.random(n) < 0.4, "b", "a")
    X = rng.normal(size=(n, 5)) + 0.8 * (group == "b")[:, None]
    noise = rng.normal(size=n) * np.where(group == "b", 1.2, 0.6)
    return X, 30000 + 9000 * (X[:, 0] + 0.7 * X[:, 1] + 0.5 * (group == "b") + noise), group


def losses(y: np.ndarray, p: np.ndarray, name: str) -> np.ndarray:
    """Return the loss of each row."""
    u = y - p
    if name == "squared":
        return u**2
    q = 0.5 if name == "absolute" else float(name[9:-1])
    return np.maximum(q * u, (q - 1) * u) * (2 if name == "absolute" else 1)


def reached(y: np.ndarray, p: np.ndarray, group: np.ndarray, limit: str, loss: str) -> float:
    """Return the measure of a limit by plain numpy."""
    name, *rest = limit.split()
    a, b = p[group == "a"], p[group == "b"]
    if name == "mean_difference":
        return abs(a.mean() - b.mean())
    if name.startswith("group_loss"):
        each = losses(y, p, loss)
        return max(each[group == one].mean() for one in ("a", "b"))
    values = [float(each.rstrip(",")) for each in rest[rest.index("at") + 1 :]]
    shares = [((a > value).mean(), (b > value).mean()) for value in values]
    if name == "disparate_impact":
        return min(min(pair) / max(pair) if max(pair) else 1.0 for pair in shares)
    return max(abs(one - other) for one, other in shares)


LIMITS = [
    "mean_difference <= 2000",
    "mean_difference <= 0",
    "group_loss <= {}",
    "disparate_impact >= 0.8 at 25000, 40000",
    "demographic_parity <= 0.05 at quantiles 25%, 50%, 75%",
]


@pytest.mark.filterwarnings("ignore:The model keeps the limits on its training rows:UserWarning")
@pytest.mark.parametrize("loss", ["squared", "absolute", "quantile(0.8)"])
@pytest.mark.parametrize("limit", LIMITS)
def test_limits_are_kept_as_numpy_counts_them(limit: str, loss: str) -> None:
    X, y, group = incomes()
    free = ConstrainedRegressor("group_loss <= 1e12", loss=loss).fit(X, y, sensitive_features=group)
    limit = limit.format(1.02 * free.result_.limits[0].reached)
    model = ConstrainedRegressor(limit, loss=loss, training=Training(forecast=False))
    model.fit(X, y, sensitive_features=group)
    (found,) = model.result_.limits
    value = reached(y, model.predict(X), group, found.limit, loss)
    assert found.kept
    assert value == pytest.approx(found.reached, rel=1e-9, abs=1e-6)
    bound = float(found.limit.split()[2])
    scale = y.std() ** {"mean_difference": 1, "group_loss": 2 if loss == "squared" else 1}.get(limit.split()[0], 0)
    assert value >= bound if ">=" in limit else value <= bound + 1e-8 * scale
    assert losses(y, model.predict(X), loss).mean() == pytest.approx(model.result_.loss)
    assert model.result_.loss < model.result_.reached.constant


def test_without_limits_it_is_ridge() -> None:
    X, y, _ = incomes()
    Z, target = (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()
    ridge = Ridge(alpha=0.5).fit(Z, target)
    model = ConstrainedRegressor().fit(X, y)
    assert np.abs(model.predict(X) - y.mean() - y.std() * ridge.predict(Z)).max() < 1e-5 * y.std()
    np.testing.assert_allclose(model.encoder_.transform(X) @ model.coef_ + model.intercept_, model.predict(X))
    assert model.result_.accuracy == pytest.approx(model.score(X, y))


def test_a_quantile_is_that_of_scikit_learn() -> None:
    X, y, _ = incomes(n=300)
    other = QuantileRegressor(quantile=0.8, alpha=0.0).fit(X, y)
    model = ConstrainedRegressor(loss=Loss("quantile(0.8)", l2=0.0)).fit(X, y)
    ours, theirs = (losses(y, each.predict(X), "quantile(0.8)").mean() for each in (model, other))
    assert theirs <= ours <= 1.01 * theirs


def test_a_limit_on_means_gives_the_constrained_least_squares() -> None:
    X, y, group = incomes()
    A = np.column_stack([X, np.ones(len(X))])
    row = A[group == "b"].mean(axis=0) - A[group == "a"].mean(axis=0)
    system = np.block([[A.T @ A, row[:, None]], [row[None], np.zeros((1, 1))]])
    w = np.linalg.solve(system, np.append(A.T @ y, 1500.0))[:-1]
    limit = ConstrainedRegressor("mean_difference <= 1500", loss=Loss("squared", l2=0.0))
    limit.fit(X, y, sensitive_features=group)
    assert np.abs(limit.predict(X) - A @ w).max() < 1e-3 * y.std()


def test_a_limit_on_group_losses_is_as_good_as_a_general_solver() -> None:
    X, y, group = incomes()
    A, target = np.column_stack([X, np.ones(len(X))]), (y - y.mean()) / y.std()
    parts = [(A[group == each], target[group == each]) for each in ("a", "b")]

    def loss(w: np.ndarray, rows: tuple[np.ndarray, np.ndarray]) -> float:
        return float(np.mean((rows[0] @ w - rows[1]) ** 2))

    free = np.linalg.lstsq(A, target, rcond=None)[0]
    least = minimize(loss, free, args=(parts[1],)).fun
    bound = 0.5 * (least + loss(free, parts[1]))
    found = minimize(
        loss, free, args=((A, target),), constraints={"type": "ineq", "fun": lambda w: bound - loss(w, parts[1])}
    )
    model = ConstrainedRegressor(f"group_loss[b] <= {bound * y.var()}", loss=Loss("squared", l2=0.0))
    model.fit(X, y, sensitive_features=group)
    assert model.result_.kept
    assert model.result_.loss / y.var() == pytest.approx(found.fun, rel=1e-4)


def test_limits_that_nothing_keeps_are_named() -> None:
    X, y, group = incomes()
    with pytest.warns(LimitWarning, match="does not keep every limit"):
        model = ConstrainedRegressor("group_loss <= 1000").fit(X, y, sensitive_features=group)
    assert model.result_.status is Status.INFEASIBLE
    assert "group_loss(b)" in model.result_.message


@pytest.mark.filterwarnings("ignore:The model keeps the limits on its training rows:UserWarning")
@pytest.mark.parametrize("options", [{"base": HistGradientBoostingRegressor(max_iter=20)}, {"hidden": (4,)}])
def test_bases_and_networks(options: dict) -> None:
    if "hidden" in options:
        pytest.importorskip("torch")
    X, y, group = incomes()
    model = ConstrainedRegressor("mean_difference <= 2000", **options).fit(X, y, sensitive_features=group)
    assert model.result_.kept
    assert model.result_.accuracy > 0.4
    if "base" in options:
        assert model.result_.base.reached[0] > 3000
        assert model.result_.base.accuracy > model.result_.accuracy


def test_a_margin_makes_the_forecast_hold() -> None:
    X, y, group = incomes()
    model = ConstrainedRegressor("mean_difference <= 2000", margin=0.9).fit(X, y, sensitive_features=group)
    assert model.result_.forecast.holds >= 0.9
    assert model.result_.limits[0].reached < 1900
    assert "mean_difference <= 2000 was trained with a margin" in str(model.result_)


def test_the_estimator_follows_the_rules_of_scikit_learn() -> None:
    check_estimator(ConstrainedRegressor(), on_skip=None)


@pytest.mark.filterwarnings("ignore:The model keeps the limits on its training rows:UserWarning")
@pytest.mark.parametrize(
    "options", [{}, {"base": "lightgbm"}, {"base": HistGradientBoostingRegressor(max_iter=5)}, {"hidden": (4,)}]
)
def test_a_saved_model_predicts_the_same(options: dict, tmp_path: Path) -> None:
    if options.get("base") == "lightgbm":
        options = {"base": pytest.importorskip("lightgbm").LGBMRegressor(n_estimators=5, verbose=-1)}
    elif "base" in options:
        pytest.importorskip("skops")
    elif "hidden" in options:
        pytest.importorskip("torch")
    X, y, group = incomes()
    limits = ["mean_difference <= 2000", "disparate_impact >= 0.5 at quantiles 50%"]
    model = ConstrainedRegressor(limits, training=Training(iterations=5), **options)
    model.fit(X, y, sensitive_features=group).save(tmp_path / "model")
    read = load(tmp_path / "model")
    np.testing.assert_array_equal(read.predict(X), model.predict(X))
    assert str(read.result_) == str(model.result_)
    assert list(map(str, read.constraints)) == limits


def test_a_classifier_keeps_limits_on_its_scores() -> None:
    X, y, group = incomes()
    label = (y > np.median(y)).astype(int)
    limits = ["disparate_impact >= 0.7 at 0.3, 0.7", "mean_difference <= 0.1", "group_loss <= 0.7"]
    model = ConstrainedClassifier(limits, margin=0.9).fit(X, label, sensitive_features=group)
    p = model.predict_proba(X)[:, 1]
    for value in (0.3, 0.7):
        shares = [(p[group == each] > value).mean() for each in ("a", "b")]
        assert min(shares) >= 0.7 * max(shares)
    assert abs(p[group == "a"].mean() - p[group == "b"].mean()) <= 0.1
    entropy = -np.log(np.where(label == 1, p, 1 - p))
    assert max(entropy[group == each].mean() for each in ("a", "b")) <= 0.7
    assert model.result_.forecast.holds >= 0.8
    for limit in limits:
        with pytest.raises(ValueError, match="is about scores, but only decisions are counted"):
            certify(label, model.predict(X), group, limit)
    with pytest.raises(ValueError, match="not all of these are about decisions"):
        ConstrainedClassifier("equal_impact >= 0.8 at 0.7").fit(X, label, sensitive_features=group)


def test_clauses_come_in_any_order() -> None:
    one = parse_constraint("disparate_impact >= 0.8 within grade against A at 0.3, 0.5")
    assert (
        one
        == parse_constraint(str(one))
        == parse_constraint("disparate_impact >= 0.8 at 0.3, 0.5 against A within grade")
    )
    assert (one.within, one.reference, one.at) == (("grade",), "A", (0.3, 0.5))
    share = parse_constraint("demographic_parity <= 5% at quantiles 10%, 0.5")
    assert share.at == ("10%", "50%")
    assert parse_constraint(str(share)) == share


def test_commands_refuse_a_model_of_numbers(tmp_path: Path) -> None:
    X, y, _ = incomes()
    ConstrainedRegressor().fit(X, y).save(tmp_path / "model")
    with pytest.raises(ValueError, match="predicts numbers, and this command needs decisions"):
        load_model(str(tmp_path / "model"))
