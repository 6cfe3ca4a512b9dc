"""Search over the limit and the width of the network, in a pipeline, with a fairness measure as a score.

scikit-learn's metadata routing passes the groups to `fit`, where the limits need them, and to the scorer.
"""

import numpy as np
import sklearn
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from fairbound import ConstrainedClassifier, audit, load_dataset, make_fairness_scorer

LEAST_RATIO = 0.85


def most_accurate_within_the_limit(results: dict) -> int:
    """Choose the most accurate setting whose held-out ratio is large enough; if there is none, the largest ratio."""
    kept = results["mean_test_ratio"] >= LEAST_RATIO
    return int(np.argmax(np.where(kept, results["mean_test_accuracy"], results["mean_test_ratio"] - 1)))


def main() -> None:
    """Run the search, and evaluate the chosen model on held-out rows."""
    train, test = load_dataset("law").split(test_size=0.2, random_state=0)
    prepare = ColumnTransformer([("words", OneHotEncoder(), ["fulltime"])], remainder=StandardScaler())
    search = GridSearchCV(
        Pipeline([("prepare", prepare), ("model", ConstrainedClassifier("disparate_impact >= 0.8"))]),
        {"model__constraints__disparate_impact__bound": [0.8, 0.9], "model__hidden": [(), (4,)]},
        scoring={"accuracy": "accuracy", "ratio": make_fairness_scorer("disparate_impact")},
        refit=most_accurate_within_the_limit,
        cv=3,
    )
    with sklearn.config_context(enable_metadata_routing=True):
        search.fit(train.frame(), train.y, sensitive_features=train.groups("race"))

    print("held-out scores of the search")
    for setting, accuracy, ratio in zip(
        search.cv_results_["params"],
        search.cv_results_["mean_test_accuracy"],
        search.cv_results_["mean_test_ratio"],
        strict=True,
    ):
        bound, hidden = setting["model__constraints__disparate_impact__bound"], setting["model__hidden"]
        chosen = " <- chosen" if setting == search.best_params_ else ""
        print(f"  trained for {bound}, hidden={hidden!s:5}  accuracy {accuracy:.4f}  ratio {ratio:.3f}{chosen}")
    found = audit(test.y, search.predict(test.frame()), {"race": test.groups("race")}).measure("disparate_impact")
    print(f"on the test part: ratio {found.value:.3f}, 95% interval {found.lower:.3f} to {found.upper:.3f}")


if __name__ == "__main__":
    main()
