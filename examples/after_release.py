"""Watch a limit after release: the population changes in the third month, and the monitor raises an alarm."""

import numpy as np

from fairbound import Monitor

RATES = {"January": (0.48, 0.50), "February": (0.47, 0.50), "March": (0.33, 0.50), "April": (0.33, 0.50)}


def main() -> None:
    """Count the decisions of each month, and stop at the alarm."""
    rng = np.random.default_rng(0)
    monitor = Monitor("disparate_impact >= 0.8")
    for month, (women, men) in RATES.items():
        sex = rng.choice(["female", "male"], 1500)
        selected = rng.random(1500) < np.where(sex == "female", women, men)
        monitor.update(selected.astype(int), sex, name=month)
        rates = [selected[sex == group].mean() for group in ("female", "male")]
        print(f"{month:9} women {rates[0]:.3f}, men {rates[1]:.3f}: {'ALARM' if monitor.alarm else 'no alarm'}")
        if monitor.alarm:
            break
    print()
    print(monitor)


if __name__ == "__main__":
    main()
