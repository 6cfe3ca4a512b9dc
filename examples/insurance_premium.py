"""Premiums: predict claims so that no region is served much worse than another, and few groups pay the top premiums.

The mean error of each region is limited (bounded group loss), and the shares of the age groups that pay more than 600
and more than 900.
"""

import numpy as np

from fairbound import ConstrainedRegressor


def policies(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Return power, mileage and bonus, the yearly claims, and the region and age group of each policy."""
    rng = np.random.default_rng(seed)
    region = rng.choice(["north", "south"], rows, p=[0.8, 0.2])
    age = rng.choice(["under 25", "25 and over"], rows, p=[0.2, 0.8])
    power, mileage = rng.normal(100, 25, rows), rng.gamma(3.0, 4.0, rows)
    bonus = np.clip(rng.normal(0.6, 0.2, rows) + 0.2 * (age == "under 25"), 0.3, 1.2)
    slope = np.where(region == "south", 38.0, 20.0)
    claims = 100 + 2.0 * power + slope * mileage + 250 * bonus + rng.normal(0, 90, rows)
    return np.column_stack([power, mileage, bonus]), claims, {"region": region, "age": age}


def main() -> None:
    """Fit with each set of limits, and print what is kept and what it costs."""
    X, claims, groups = policies(3_000, seed=0)
    plain = ConstrainedRegressor("group_loss(region) <= 1e9").fit(X, claims, sensitive_features=groups)
    worst = plain.result_.limits[0].reached
    bounded = f"group_loss(region) <= {0.8 * worst:.0f}"
    for limits in [bounded], [bounded, "demographic_parity(age) <= 0.05 at 600, 900"]:
        model = ConstrainedRegressor(limits, margin="auto").fit(X, claims, sensitive_features=groups)
        print(model.result_.message)
        for limit in model.result_.limits:
            print(f"  {limit.limit}: reached {limit.reached:,.3f}, {'kept' if limit.kept else 'NOT KEPT'}")
        error = np.sqrt(np.mean((model.predict(X) - claims) ** 2))
        print(f"  error {error:,.1f}; without limits {np.sqrt(np.mean((plain.predict(X) - claims) ** 2)):,.1f}")


if __name__ == "__main__":
    main()
