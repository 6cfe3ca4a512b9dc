"""Groups estimated from names and places (BISG): surgeo's table of probabilities, used as it is.

It needs `pip install surgeo`.
"""

import numpy as np
import pandas as pd
import surgeo

from fairbound import ConstrainedClassifier, audit

RACES = ["white", "black", "api", "native", "multiple", "hispanic"]


def race_probabilities(surnames: pd.Series, places: pd.Series) -> pd.DataFrame:
    """Return the probability of each group for each person; a row of NaN where the name or the place is unknown."""
    found = surgeo.SurgeoModel().get_probabilities(surnames, places)[RACES]
    return found.div(found.sum(axis=1), axis=0)  # rounded numbers add up to a little more or less than 1


def main() -> None:
    """Train under a limit between groups that are known with probabilities only."""
    rng = np.random.default_rng(0)
    names = rng.choice(["SMITH", "GARCIA", "NGUYEN", "WASHINGTON", "MILLER", "LOPEZ"], 6000)
    places = rng.choice(["10001", "60629", "94110", "30314", "77036"], 6000)
    race = race_probabilities(pd.Series(names), pd.Series(places))
    income = rng.normal(0.0, 1.0, 6000) + np.where(np.isin(names, ["SMITH", "MILLER"]), 0.6, 0.0)
    repaid = (income + rng.normal(0.0, 1.0, 6000) > 0).astype(int)
    table = pd.DataFrame({"income": income, "debts": rng.normal(0.0, 1.0, 6000)})

    groups = {"race": race[["white", "black", "api", "hispanic"]]}  # the others are too few to be measured
    clf = ConstrainedClassifier("disparate_impact >= 0.9").fit(table, repaid, sensitive_features=groups)
    print(clf.result_)
    print(audit(repaid, clf.predict(table), groups).measure("disparate_impact"))


if __name__ == "__main__":
    main()
