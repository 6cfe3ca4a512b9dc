"""Tests of selection rates: compare each group with the most selected one, and test whether chance may explain it.

With n rows and x selections in a group, m and y in the reference group, and rates p = x/n and r = y/m:

    ratio                 p / r, and whether it is below four fifths (29 CFR 1607.4 D)
    standard deviations   Z = (p − r) / √(q(1 − q)(1/n + 1/m)),  q = (x + y)/(n + m): the two-sample test, pooled
    exact p               Fisher's exact test of the table [[x, n − x], [y, m − y]], two-sided
    shortfall             n·r − x, the selections missing at the reference rate; n·q − x at the pooled rate
    one-person flip       whether one more selection in the group brings the ratio to four fifths; and whether the
                          group would have the higher rate if one selection went to it instead of to the reference
                          group (Questions and Answers on the Uniform Guidelines, 44 FR 11996)

The reference group is the one that the user names, or else the one with the highest selection rate in its column.
Groups under 2% of the column's rows are not taken by default, unless all groups are so small.  Otherwise every group
would be compared with the rate of a few people, and the tests would have almost no power.  (The Guidelines ask for
determinations about groups of at least 2%, 29 CFR 1607.15 A (2).)

The p-value is that of the exact test if a cell of the table has an expected count below five (q·n, q·m, (1 − q)·n or
(1 − q)·m), else that of Z.  If several groups are compared with the reference, there are also adjusted p-values
(`p_values`): Holm's for a named reference group, and those of the studentised range for the most selected group, which
the same rows have chosen.  If all rates are equal, the probability that any adjusted p-value is below a level is at
most about that level; "about", because Z is normal only in the limit.

The interval of a ratio follows from simultaneous exact intervals of all rates of the column.  It is mostly wider than
the tests; a note names the groups about which the two disagree.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from scipy import special

from fairbound._json import as_json
from fairbound._text_tables import TextTable, data_frame
from fairbound._words import as_level, beside, count, group_text, number, p_text
from fairbound.evaluation.audit_records import OfGroup, find_group
from fairbound.evaluation.intervals import binomial_interval
from fairbound.evaluation.p_values import beside_the_highest, holm

FOUR_FIFTHS = 0.8
"""The ratio below which a selection rate counts as substantially different (29 CFR 1607.4 D)."""

SMALL_SHARE = 0.02
"""A group below this share of the rows is not taken as the reference, and may be left out of impact ratios."""

FEW_EXPECTED = 5.0
"""If the expected count of a cell is below this, the exact test replaces that of Z."""


@dataclass(frozen=True)
class SelectionTest(OfGroup):
    """The selection rate of one group, compared with that of the reference group.

    Attributes
    ----------
    grouping : str
        The sensitive column, or columns.
    group, reference : group
    rows, selected : int
        Of the group.
    rate, reference_rate : float
    ratio : float
        Rate over reference rate; 1 if nobody is selected in either group.
    lower, upper : float
        Interval of the ratio.  The intervals of all groups of the grouping are simultaneous (Bonferroni).
    below_four_fifths : bool
    standard_deviations : float
        Z; negative if the group is selected less often.  0 if everybody or nobody is selected.
    z_p, exact_p : float
        Two-sided p-values of Z and of Fisher's exact test.
    exact : bool
        Whether cells are so small that `p` is the exact p-value.
    adjusted_p : float
        `p`, adjusted for the number of groups compared, and for the choice of the reference unless it was named.
    shortfall, pooled_shortfall : float
        Selections missing at the reference rate, and at the pooled rate of both groups; negative for a surplus.
    one_more_reverses : bool
        Whether one more selection in the group brings a ratio below four fifths to four fifths or above.
    one_different_exceeds : bool
        Whether the ratio is below four fifths, but the group would have the higher rate if one selection of the
        reference group went to it instead.
    """

    grouping: str
    group: Hashable
    reference: Hashable
    rows: int
    selected: int
    rate: float
    reference_rate: float
    ratio: float
    lower: float
    upper: float
    below_four_fifths: bool
    standard_deviations: float
    z_p: float
    exact_p: float
    exact: bool
    adjusted_p: float
    shortfall: float
    pooled_shortfall: float
    one_more_reverses: bool
    one_different_exceeds: bool

    @property
    def p(self) -> float:
        """The p-value: that of the exact test if cells are small, else that of Z."""
        return self.exact_p if self.exact else self.z_p

    def to_dict(self) -> dict[str, Any]:
        """Return everything as a dictionary of JSON values."""
        return as_json({**vars(self), "p": self.p})


@dataclass(frozen=True)
class Significance:
    """Tests of the selection rates of an audit; `Audit.significance` makes it.

    Use it through `print`, `to_dict()`, `to_frame()`, or `tests`.

    Attributes
    ----------
    tests : tuple of SelectionTest
    confidence : float
    notes : tuple of str
        How to read the tests.
    """

    tests: tuple[SelectionTest, ...]
    confidence: float
    notes: tuple[str, ...] = ()

    def test(self, group: Hashable, grouping: str | None = None) -> SelectionTest:
        """Return the test of a group; `grouping` is needed if several groupings have such a group."""
        return find_group(self.tests, group, grouping)

    def to_dict(self) -> list[dict[str, Any]]:
        """Return the tests as dictionaries of JSON values."""
        return as_json(self.tests)

    def to_frame(self) -> Any:
        """Return a pandas data frame with a line for each test."""
        return data_frame([{**vars(test), "p": test.p} for test in self.tests])

    def tables(self) -> list[TextTable]:
        """Return two tables for each grouping: the ratios with their tests, and the missing selections."""
        ratios = ("group", "selected", "rows", "rate", f"ratio, {as_level(self.confidence)}")
        missing = ("group", "four fifths", "one more reverses", "one different exceeds")
        found = []
        for grouping in dict.fromkeys(test.grouping for test in self.tests):
            tests = [test for test in self.tests if test.grouping == grouping]
            beside_whom = f"{group_text(tests[0].reference)} ({number(tests[0].reference_rate)})"
            found += [
                TextTable(
                    f"{grouping}: selection rates beside {beside_whom}",
                    (*ratios, "std. dev.", "p", "test", "adjusted p"),
                    tuple(_ratio_line(test) for test in tests),
                ),
                TextTable(
                    f"{grouping}: selections missing",
                    (*missing, "at reference rate", "at pooled rate"),
                    tuple(_missing_line(test) for test in tests),
                ),
            ]
        return found

    def __str__(self) -> str:
        return "\n\n".join([*(table.as_text() for table in self.tables()), "\n".join(self.notes)]).strip()


def _ratio_line(test: SelectionTest) -> tuple[str, ...]:
    ratio = f"{beside(test.ratio, [FOUR_FIFTHS], 3)} [{number(test.lower)}, {number(test.upper)}]"
    counted = test.name, count(test.selected), count(test.rows), number(test.rate), ratio
    which = "exact" if test.exact else "Z"
    return *counted, number(test.standard_deviations, 2), p_text(test.p), which, p_text(test.adjusted_p)


def _missing_line(test: SelectionTest) -> tuple[str, ...]:
    below = test.below_four_fifths
    flips = (test.one_more_reverses, test.one_different_exceeds)
    told = (("yes" if flip else "no") if below else "-" for flip in flips)
    missing = number(test.shortfall, 1), number(test.pooled_shortfall, 1)
    return test.name, "below" if below else "reached", *told, *missing


def compare_selections(
    grouping: str,
    counts: Sequence[tuple[Hashable, int, int]],
    *,
    reference: Hashable | None = None,
    confidence: float = 0.95,
) -> tuple[SelectionTest, ...]:
    """Compare the selection rate of each group with that of a reference group.

    Parameters
    ----------
    grouping : str
        The name of the column.
    counts : sequence of (group, rows, selected)
        Groups without rows are left out.
    reference : group, optional
        By default the most selected group among those with at least 2% of the rows; among all if there are none.
    confidence : float
        The simultaneous confidence of the intervals of the ratios.

    Examples
    --------
    >>> (test,) = compare_selections("sex", [("f", 40, 12), ("m", 50, 25)])
    >>> print(f"{test.ratio:.2f} {test.standard_deviations:.2f} {test.shortfall:.1f} {test.one_more_reverses}")
    0.60 -1.92 8.0 False
    """
    known = [(group, int(rows), int(selected)) for group, rows, selected in counts if rows > 0]
    if len(known) < 2:
        return ()
    if reference is None:
        least = SMALL_SHARE * sum(rows for _, rows, _ in known)
        large = [each for each in known if each[1] >= least] or known
        base = max(large, key=lambda each: each[2] / each[1])  # the first of several that are equal
    else:
        matching = [each for each in known if reference in (each[0], group_text(each[0]))]
        if not matching:
            named = ", ".join(group_text(each[0]) for each in known)
            raise ValueError(f"Unknown reference group {reference!r} in {grouping!r}. Known groups: {named}.")
        base = matching[0]
    level = 1.0 - (1.0 - confidence) / len(known)
    tests = [_pair(grouping, each, base, level) for each in known if each is not base]
    adjusted = (beside_the_highest if reference is None else holm)(test.p for test in tests)
    return tuple(replace(test, adjusted_p=p) for test, p in zip(tests, adjusted, strict=True))


def notes_on(
    tests: Sequence[SelectionTest], grouping: str, *, named: bool, confidence: float = 0.95
) -> tuple[str, ...]:
    """Return notes on the tests of one grouping.

    `named` tells whether the user has named the reference group, `confidence` is that of the intervals.
    """
    if not tests:
        return (f"{grouping}: there is one group only, so nothing is compared.",)
    notes = []
    higher = [f"{test.name} {number(test.rate)}" for test in tests if test.rate > test.reference_rate]
    if higher and not named:
        taken = "groups under 2% of the rows are not taken as the reference, even if their rate is higher"
        notes.append(f"{grouping}: {taken} ({', '.join(higher)}).")
    level = 1.0 - confidence
    for within, what in (
        (True, "contains 1, but the adjusted p is at most"),
        (False, "excludes 1, but the adjusted p is above"),
    ):
        apart = [
            test.name
            for test in tests
            if (test.lower <= 1.0 <= test.upper) == within and (test.adjusted_p <= level) == within
        ]
        if apart:
            notes.append(f"{grouping}: the interval {what} {level:.3g} ({', '.join(apart)}).")
    return tuple(notes)


INTERVALS = (
    "Intervals of ratios are exact, hold for all groups of a column at once, and follow from the intervals of two "
    "rates. So they are mostly wider than the tests: an interval may contain 1 although the adjusted p is small. The "
    "adjusted p shows whether rates differ, the interval how much."
)


def _pair(
    grouping: str, focal: tuple[Hashable, int, int], base: tuple[Hashable, int, int], level: float
) -> SelectionTest:
    """Return the test of one group, not yet adjusted for the others."""
    from scipy import stats  # here, because its import takes as long as an audit

    (group, n, x), (reference, m, y) = focal, base
    rate, other, pooled = x / n, y / m, (x + y) / (n + m)
    spread = math.sqrt(pooled * (1.0 - pooled) * (1.0 / n + 1.0 / m))
    z = (rate - other) / spread if spread > 0 else 0.0
    lower, upper = (ends.tolist() for ends in binomial_interval([x, y], [n, m], level))
    below = not _reaches_four_fifths(x, n, y, m)
    return SelectionTest(
        grouping=grouping,
        group=group,
        reference=reference,
        rows=n,
        selected=x,
        rate=rate,
        reference_rate=other,
        ratio=_quotient(rate, other),
        lower=_quotient(lower[0], upper[1]),
        upper=_quotient(upper[0], lower[1]),
        below_four_fifths=below,
        standard_deviations=z,
        z_p=float(special.erfc(abs(z) / math.sqrt(2.0))),
        exact_p=float(stats.fisher_exact([[x, n - x], [y, m - y]]).pvalue),
        exact=min(pooled, 1.0 - pooled) * min(n, m) < FEW_EXPECTED,
        adjusted_p=math.nan,
        shortfall=n * other - x,
        pooled_shortfall=n * pooled - x,
        one_more_reverses=below and x < n and _reaches_four_fifths(x + 1, n, y, m),
        one_different_exceeds=below and x < n and (x + 1) * m > (y - 1) * n,
    )


def _quotient(part: float, whole: float) -> float:
    if whole > 0:
        return part / whole
    return 1.0 if part <= 0 else math.inf


def _reaches_four_fifths(x: int, n: int, y: int, m: int) -> bool:
    """Return whether x/n is at least four fifths of y/m; computed in whole numbers, so that exactly 4/5 counts."""
    return 5 * x * m >= 4 * y * n
