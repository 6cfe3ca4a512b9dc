"""A first model under a limit: who passes the bar exam, with selection rates by race within nine tenths."""

from fairbound import ConstrainedClassifier, audit, certify, load_dataset


def main() -> None:
    """Train without a limit and with one, and compare both on rows that neither has seen."""
    train, test = load_dataset("law").split(test_size=0.2, random_state=0)
    groups = {"race": train.groups("race")}
    models = {
        "no limit": ConstrainedClassifier(),
        "limit": ConstrainedClassifier("disparate_impact >= 0.9"),
        "limit with room for new rows": ConstrainedClassifier("disparate_impact >= 0.9", margin="auto"),
    }
    print(f"{len(test):,} new rows{'':26}accuracy  ratio  verdict on 0.8")
    for name, clf in models.items():
        clf.fit(train.frame(), train.y, sensitive_features=groups)
        decisions = clf.predict(test.frame())  # needs no group
        there = {"race": test.groups("race")}
        ratio = audit(test.y, decisions, there).measure("disparate_impact").value
        verdict = certify(test.y, decisions, there, "disparate_impact >= 0.8").verdict.value
        print(f"{name:40} {(decisions == test.y).mean():.2%}  {ratio:.3f}  {verdict}")
    print()
    print(models["limit with room for new rows"].result_)


if __name__ == "__main__":
    main()
