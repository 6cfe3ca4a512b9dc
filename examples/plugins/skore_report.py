"""Measures of disparity in a report of skore, beside its own metrics.

It needs `pip install skore`.
"""

import skore

from fairbound import ConstrainedClassifier, audit, load_dataset


def main() -> None:
    """Report accuracy, rank and the ratio of selection rates on new rows."""
    train, test = load_dataset("law").split(test_size=0.2, random_state=0)
    clf = ConstrainedClassifier("disparate_impact >= 0.9", margin="auto")
    clf.fit(train.frame(), train.y, sensitive_features=train.groups("race"))
    report = skore.EstimatorReport(clf, X_test=test.frame(), y_test=test.y, pos_label=1)

    def disparate_impact(model: ConstrainedClassifier, rows: object, labels: object) -> float:
        return audit(labels, model.predict(rows), test.groups("race")).measure("disparate_impact").value

    report.metrics.add(disparate_impact, greater_is_better=True)
    print(report.metrics.summarize().frame())


if __name__ == "__main__":
    main()
