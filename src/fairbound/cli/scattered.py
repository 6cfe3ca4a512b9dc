"""Columns of words too many to tell apart, which are seldom meant as inputs: identifiers, dates, names."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fairbound.cli.study import Part
    from fairbound.estimator import ConstrainedClassifier


def scattered_columns(rows: Part, classifier: ConstrainedClassifier) -> list[str]:
    """Return a sentence for each column most of whose training rows the model sees as "(other)"."""
    from fairbound.data import is_missing

    said = []
    for column in classifier.encoder_.columns_:
        if not getattr(column, "other", False):  # a column of numbers has no such field
            continue
        values = rows.data.table.columns[column.name]
        sizes = Counter(values[~is_missing(values)].tolist())
        told = sum(size for _, size in sizes.most_common(len(column.words)))
        if 2 * told < sizes.total():
            said.append(
                f"Column {column.name!r} has {len(sizes):,} different values in {sizes.total():,} training rows; the "
                f"model tells {len(column.words)} of them apart, in {told:,} rows. Leave out an identifier with "
                f"--ignore {column.name}; make numbers of dates, and fewer categories of codes."
            )
    return said
