"""Boosted trees under a limit: the trees stay as they are, and a correction on top of them keeps the limit."""

from sklearn.ensemble import HistGradientBoostingClassifier

from fairbound import ConstrainedClassifier, audit, load_dataset


def main() -> None:
    """Compare the trees alone with the corrected trees on new rows."""
    train, test = load_dataset("law").split(test_size=0.3, random_state=0)
    trees = HistGradientBoostingClassifier(max_iter=50, random_state=0)
    clf = ConstrainedClassifier("disparate_impact >= 0.9", base=trees)
    clf.fit(train.frame(), train.y, sensitive_features={"race": train.groups("race")})
    print(clf.result_)

    print("\non new rows")
    alone = trees.fit(train.X, train.y).predict(test.X)
    for name, decisions in {"trees alone": alone, "corrected": clf.predict(test.frame())}.items():
        ratio = audit(test.y, decisions, {"race": test.groups("race")}).measure("disparate_impact")
        print(f"  {name:12} accuracy {(decisions == test.y).mean():.2%}, ratio {ratio.value:.3f}")


if __name__ == "__main__":
    main()
