"""A model whose limit holds for new people, with an error probability of at most 5%: `confidence=`."""

from fairbound import ConstrainedClassifier, certify, load_dataset


def main() -> None:
    """Train for a confidence, read the certificate, and test the model once more on rows that took no part."""
    train, test = load_dataset("law").split(test_size=0.3, random_state=0)
    clf = ConstrainedClassifier("disparate_impact >= 0.8", confidence=0.95)
    clf.fit(train.frame(), train.y, sensitive_features={"race": train.groups("race")})
    if not clf.result_.certified:
        raise SystemExit("No model passed. More rows, or a looser limit, would help.")
    print(clf.certificate_)
    print("\nA second test, on rows that took no part:")
    print(certify(test.y, clf.predict(test.frame()), {"race": test.groups("race")}, "disparate_impact >= 0.8"))


if __name__ == "__main__":
    main()
