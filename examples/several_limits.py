"""Several limits at once, and the cost of each: two group columns, three measures, and a lower limit for one group."""

from fairbound import ConstrainedClassifier, EqualOpportunity, load_dataset, rate_limit

LIMITS = {
    "race, selection": "disparate_impact(race) >= 0.9",
    "race, errors": EqualOpportunity(0.05, columns="race"),
    "sex, selection": "demographic_parity(sex) <= 0.01",
    "a floor": rate_limit("true_positive_rate", group="Non-White", lower=0.92),
}


def main() -> None:
    """Add one limit after the other, and print the last result."""
    train, test = load_dataset("law").split(test_size=0.2, random_state=0)
    X, y = train.frame(), train.y
    groups = {"race": train.groups("race"), "sex": train.groups("sex")}
    clf = ConstrainedClassifier().fit(X, y)
    print(f"{'no limit':18} accuracy {clf.result_.accuracy:.4f}")
    limits = []
    for name, limit in LIMITS.items():
        limits.append(limit)
        clf = ConstrainedClassifier(list(limits)).fit(X, y, sensitive_features=groups)
        kept = "all kept" if clf.result_.kept else "NOT KEPT"
        print(f"+ {name:16} accuracy {clf.result_.accuracy:.4f}  {kept}")
    print()
    print(clf.result_)
    print()
    print(f"accuracy on the test part: {clf.score(test.frame(), test.y):.4f}")


if __name__ == "__main__":
    main()
