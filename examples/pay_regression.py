"""Pay: predict salaries whose means differ by at most 4,000 between women and men, without the sex of new staff."""

import numpy as np

from fairbound import ConstrainedRegressor
from fairbound.evaluation import audit_regression


def staff(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return years, grades and hours, the salaries, and the sex: women have lower grades and are paid less."""
    rng = np.random.default_rng(seed)
    sex = np.where(rng.random(rows) < 0.45, "woman", "man")
    years = rng.gamma(4.0, 3.0, rows)
    grade = np.round(np.clip(rng.normal(5.0, 2.0, rows) - 1.0 * (sex == "woman"), 1, 10))
    hours = np.where(rng.random(rows) < np.where(sex == "woman", 0.4, 0.1), 0.6, 1.0)
    pay = 24_000 + 900 * years + 4_000 * grade - 2_500 * (sex == "woman") + rng.normal(0, 5_000, rows)
    return np.column_stack([years, grade, hours]), pay * hours, sex


def main() -> None:
    """Fit without and with the limit, and audit new rows."""
    X, pay, sex = staff(4_000, seed=0)
    new, earned, theirs = staff(4_000, seed=1)
    limit = "mean_difference <= 4000"
    for limits in [], [limit]:
        model = ConstrainedRegressor(limits, margin="auto").fit(X, pay, sensitive_features=sex)
        predicted = model.predict(new)
        error = np.sqrt(np.mean((predicted - earned) ** 2))
        apart = predicted[theirs == "man"].mean() - predicted[theirs == "woman"].mean()
        print(f"{len(limits)} limits: error {error:,.0f}, men {apart:+,.0f} on new rows")
    print(model.result_)
    print(audit_regression(earned, predicted, theirs, [limit, "disparate_impact >= 0.8 at quantiles 75%"]))


if __name__ == "__main__":
    main()
