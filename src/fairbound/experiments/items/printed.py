"""Tables 1, 2 and 4, beside the printed numbers: statistics of the data, and limits on one or two measures."""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter

from fairbound.experiments.claims import Check, check
from fairbound.experiments.exhibits import ResultTable, Value, table
from fairbound.experiments.protocol import DATASETS, EPOCHS, PRINTED, SCENARIOS
from fairbound.experiments.runs import Evidence

OTHER_DRAW = (
    "The printed draw is from all 195,665 rows of California; these are 50,000 of the rows that were loaded, "
    "drawn anew."
)

SHARES = 1e-3
"""Tolerance for shares.  The printed ones have three digits for Law, and the last is not always rounded correctly."""

ROUNDING = 0.05
"""Accuracies within this many points are equal: 8 of the 16,638 rows of Law."""

SPREAD = 1.2
"""Points of accuracy between seeds of the paper's own program on Dutch (78.00 to 79.19 at 0.8)."""

MET = {"train": 1e-3, "test": 0.02}
"""The largest violation that counts as kept.  The surrogates of the paper's solver leave gaps of the first size.

The fast solver leaves none.  The rates of test rows vary more, since they come from a few thousand people.
"""


def measured(evidence: Evidence) -> dict[str, float]:
    """Return the statistics by their printed names.  S = 1 means men, or White people on Law.

    The paper's column for Law describes the training rows, and the other columns all rows.
    """
    counts = evidence.split.train.describe().counts
    if evidence.dataset != "law":
        counts = counts + evidence.split.test.describe().counts
    (n00, n01), (n10, n11) = counts.tolist()
    s0, s1, y0, y1 = n00 + n01, n10 + n11, n00 + n10, n01 + n11
    r0, r1 = n01 / s0, n11 / s1
    return {
        "rows": s0 + s1, "S = 1": s1, "S = 0": s0, "Y = 1": y1, "Y = 0": y0,
        "Y = 1, S = 1": n11, "Y = 1, S = 0": n01, "Y = 0, S = 1": n10, "Y = 0, S = 0": n00,
        "P(Y=1 | S=1)": r1, "P(Y=1 | S=0)": r0, "P(S=1 | Y=1)": n11 / y1, "P(S=0 | Y=1)": n01 / y1,
        "DPVRL": abs(r1 - r0), "DRIVRL": abs(n11 - n01) / y1, "DIRL": min(r0, r1) / max(r0, r1),
        "all zero": y0 / (s0 + s1), "all one": y1 / (s0 + s1),
    }  # fmt: skip


def tabulate_statistics(evidence: Evidence) -> ResultTable:
    """Return our statistics beside the printed ones."""
    printed = PRINTED["statistics"][evidence.dataset]
    both = ((name, value, printed[name]) for name, value in measured(evidence).items())
    return table(
        f"{DATASETS[evidence.dataset]}, statistics",
        [(name, *(f"{n:,}" if isinstance(n, int) else f"{n:.4f}" for n in found)) for name, *found in both],
        *((heading, "", itemgetter(place)) for place, heading in enumerate(("statistic", "ours", "printed"))),
    )


def check_statistics(evidence: Evidence) -> Iterator[Check]:
    """Check that the counts equal the printed ones."""
    dataset, ours = evidence.dataset, measured(evidence)
    printed = PRINTED["statistics"][dataset]
    counts = [name for name, value in ours.items() if isinstance(value, int)]
    same = [name for name in counts if ours[name] == printed[name]]
    near = max(abs(value - printed[name]) for name, value in ours.items() if name not in counts)
    holds = len(same) == len(counts) and near <= SHARES
    drawn = OTHER_DRAW if dataset == "acsincome" else ""
    numbers = {"same": len(same), "counts": len(counts), "near": near, "tolerance": SHARES}
    yield check("data", holds, drawn, data=DATASETS[dataset], **numbers)


def tabulate_limits(evidence: Evidence, bound: float) -> ResultTable:
    """Return our rows, each followed by the printed one."""
    rows: list[tuple[Value, ...]] = []
    for name in SCENARIOS:
        part = evidence[evidence.scenario(name, bound)].part
        shares = (part.accuracy, part.group_accuracy(1), part.group_accuracy(0))
        by_surrogate, exact = (
            tuple(part.violation(measure, bound, by) for measure in SCENARIOS["both"])
            for by in ("surrogate", "decisions")
        )
        rows.append((name, "ours", *(100 * share for share in shares), *by_surrogate, *exact))
        rows.append((name, "printed", *PRINTED["limits"][str(bound)][evidence.dataset][name]))
    title = f"{evidence.title}: ratio {bound:g} (S = 1 is {part.groups[1]}, S = 0 is {part.groups[0]}"
    if evidence.part == "test" or evidence.batches:
        title += "; the printed rows are of training rows and whole batches"
    numbers = ("accuracy, %", "S = 1, %", "S = 0, %", "c DI", "c EI", "c̄ DI", "c̄ EI")
    return ResultTable(f"{title})", ("limits", "whose", *numbers), ("", "", *[".4f"] * 7), tuple(rows))


def check_limits(evidence: Evidence, bound: float) -> Iterator[Check]:
    """Check that the printed accuracies are reached, and that both limits are kept at a cost."""
    points = {name: evidence[evidence.scenario(name, bound)] for name in SCENARIOS}
    if evidence.part == "train":
        for name in SCENARIOS:
            yield _check_printed(evidence, name, bound)
    di, ei = (points["both"].part.violation(measure, bound) for measure in SCENARIOS["both"])
    tolerance, title = MET[evidence.part], evidence.title
    yield check("together", max(di, ei) <= tolerance, title=title, bound=bound, di=di, ei=ei, tolerance=tolerance)
    di, ei, both = (point.accuracy for point in points.values())
    holds = both <= min(di, ei) + ROUNDING
    yield check("dearer", holds, title=title, bound=bound, both=both, di=di, ei=ei, tolerance=ROUNDING)


def _check_printed(evidence: Evidence, name: str, bound: float) -> Check:
    outcome, dataset = evidence[evidence.scenario(name, bound)].outcome, evidence.dataset
    ours, stated = 100 * outcome.train.accuracy, PRINTED["limits"][str(bound)][dataset][name][0]
    numbers = {"data": DATASETS[dataset], "scenario": name, "bound": bound, "ours": ours, "stated": stated}
    if evidence.solver == "fast":
        kept = "kept exactly" if outcome.kept else "NOT kept"
        return check("fast", ours >= stated and outcome.kept, **numbers, kept=kept)
    # Rounding for Law, whose solution is unique; the spread of seeds for networks.
    low, high = PRINTED["spread"][str(bound)].get(dataset, (stated, stated)) if name == "only DI" else (stated, stated)
    reach = ROUNDING if dataset == "law" or high > low else SPREAD
    because = "Seeds and orders of arithmetic end at different local solutions of the same problem."
    rows = measured(evidence)["rows"] != PRINTED["statistics"][dataset]["rows"]
    if rows or evidence.batches or evidence.epochs != EPOCHS:
        because = "These runs have fewer rows or epochs than the paper's, or use mini-batches where it does not."
    elif dataset == "acsincome":
        because = "These are other rows: a draw from the loaded rows, while the paper drew from all of California."
    low, high = low - reach, high + reach
    return check("printed", low <= ours <= high, because, **numbers, low=low, high=high)
