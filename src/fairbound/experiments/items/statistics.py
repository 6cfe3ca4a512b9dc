"""Table 1: statistics of the data sets, beside the printed numbers."""

from __future__ import annotations

from fairbound.experiments.plans import Evidence
from fairbound.experiments.protocol import STATISTICS, TITLES
from fairbound.experiments.sections import Check
from fairbound.experiments.tables import ResultTable

ACS_REASON = (
    "The printed draw is from all 195,665 rows of California; these are 50,000 of the rows that were loaded, "
    "drawn anew."
)

SHARES = 1e-3
"""Tolerance for shares.  The printed ones have three digits for Law, and the last is not always rounded correctly."""


def measured(evidence: Evidence) -> dict[str, float]:
    """Return the statistics by their printed names.  S = 1 means men, or White people on Law.

    The paper's column for Law describes the training rows, and the other columns all rows.
    """
    counts = evidence.split.train.describe().counts
    if evidence.setting.dataset != "law":
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


def _write(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.4f}"


def tabulate(evidence: Evidence) -> list[ResultTable]:
    """Return our statistics beside the printed ones."""
    printed = STATISTICS[evidence.setting.dataset]
    rows = [[name, _write(value), _write(printed[name])] for name, value in measured(evidence).items()]
    return [
        ResultTable.build(f"{TITLES[evidence.setting.dataset]}, statistics", ["statistic", "ours", "printed"], rows)
    ]


def check(evidence: Evidence) -> list[Check]:
    """Check that the counts equal the printed ones."""
    ours, printed = measured(evidence), STATISTICS[evidence.setting.dataset]
    counts = [name for name, value in ours.items() if isinstance(value, int)]
    same = [name for name in counts if ours[name] == printed[name]]
    near = max(abs(value - printed[name]) for name, value in ours.items() if name not in counts)
    figures = (
        f"{TITLES[evidence.setting.dataset]}: {len(same)} of {len(counts)} counts as printed, "
        f"shares and statistics within {near:.4f}; those of the paper means all counts, and shares within {SHARES:g}."
    )
    holds = len(same) == len(counts) and near <= SHARES
    because = ACS_REASON if evidence.setting.dataset == "acsincome" else ""
    return [Check("The data are those of the paper.", holds, figures, "" if holds else because)]
