"""What each bound costs: a model for each of six bounds, and the curve of accuracy over the ratio on new rows."""

from fairbound import ConstrainedClassifier, audit, load_dataset

BOUNDS = [0.80, 0.85, 0.90, 0.95, 0.97, 0.99]


def main() -> None:
    """Train the frontier, and print what its models reach on rows that were not trained on."""
    train, test = load_dataset("law").split(test_size=0.3, random_state=0)
    clf = ConstrainedClassifier("disparate_impact >= 0.8")
    points = clf.frontier(train.frame(), train.y, BOUNDS, sensitive_features={"race": train.groups("race")})
    print(points)
    print("\nbound  accuracy on new rows  ratio there")
    for point in points:
        decisions = point.classifier.predict(test.frame())
        ratio = audit(test.y, decisions, {"race": test.groups("race")}).measure("disparate_impact").value
        bar = "#" * round(400 * ((decisions == test.y).mean() - 0.85))
        print(f"{point.bound:5.2f}  {(decisions == test.y).mean():20.2%}  {ratio:11.3f}  {bar}")


if __name__ == "__main__":
    main()
