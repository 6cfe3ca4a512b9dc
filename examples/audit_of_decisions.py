"""Audit decisions that any system made: here the rule "an LSAT score of at least 36 is admitted"."""

from fairbound import audit, load_dataset


def main() -> None:
    """Print every measure with its interval, then the impact ratios of New York City's Local Law 144."""
    law = load_dataset("law")
    admitted = (law.X[:, law.feature_names.index("lsat")] >= 36).astype(int)
    groups = {"race": law.groups("race"), "sex": law.groups("sex")}

    found = audit(law.y, admitted, groups)
    print(found)
    ratio = found.measure("disparate_impact", "race")
    print(f"\nby race: {ratio.value:.3f}, 95% interval {ratio.lower:.3f} to {ratio.upper:.3f}")

    tables = audit(None, admitted, groups, groups="both").to_ll144(  # without labels, and with the intersections
        audit_date="2026-03-31",
        distribution_date="2026-01-01",
        source="applications of the year 2025",
        explanation="all applicants; admitted from a test score of 36",
    )
    print()
    print(tables.to_csv())


if __name__ == "__main__":
    main()
