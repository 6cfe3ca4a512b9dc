"""Arrow columns and their types: read a column as numbers or text, and find the type that several files share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairbound._errors import missing_extra
from fairbound.data.formats import EXACT_DIGITS

TEXTS = ("string", "large_string", "string_view")


def import_pyarrow(task: str = "Reading tables in batches needs") -> Any:
    """Return pyarrow, or raise an error with the pip line."""
    try:
        import pyarrow as pa
    except ImportError as error:
        raise missing_extra(task, "pyarrow", "data") from error
    return pa


def column_values(column: Any, *, codes: bool = False) -> NDArray[Any]:
    """Return a pyarrow column as numbers or text.

    Whole numbers are int64 if all fit and none is missing; other numbers are floats.  Dates are days since 1970-01-01,
    without the time of day.  Codes of labels, groups and categories must stay apart: if a float would round one of
    them, all are text; so are dates.
    """
    pa = import_pyarrow()
    types = pa.types
    kind = plain_type(column.type)
    column = column.cast(kind)
    if is_date(kind):
        days = column.cast(pa.date32(), safe=False)
        column = days.cast(pa.string() if codes else pa.int32())
        kind = column.type
    if types.is_boolean(kind) or str(kind) in TEXTS:
        texts = [None if value is None else str(value) for value in column.to_pylist()]
        return np.array(texts, dtype=object) if column.null_count else np.asarray(texts)
    if is_whole(kind) and not column.null_count:
        try:
            return np.asarray(column.cast(pa.int64()).to_numpy(), dtype=np.int64)
        except pa.ArrowInvalid:  # a number of more than 64 bits
            pass
    # `safe=False`: integers beyond 53 bits are rounded, as in text files.
    numbers = np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)
    exact = 10.0**EXACT_DIGITS / 10.0 ** (kind.scale if types.is_decimal(kind) else 0)
    if codes and not types.is_floating(kind) and (np.abs(numbers) >= exact).any():
        shown = "f" if types.is_decimal(kind) else "d"
        return np.array([None if each is None else format(each, shown) for each in column.to_pylist()], dtype=object)
    return numbers


def plain_type(kind: Any) -> Any:
    """Return the type of the values of a dictionary column; return any other type unchanged."""
    return kind.value_type if import_pyarrow().types.is_dictionary(kind) else kind


def is_supported(kind: Any) -> bool:
    """Return whether a pyarrow type is numbers, dates or text."""
    types, kind = import_pyarrow().types, plain_type(kind)
    tests = (types.is_integer, types.is_floating, types.is_null, types.is_decimal, types.is_boolean)
    return str(kind) in TEXTS or is_date(kind) or any(test(kind) for test in tests)


def is_date(kind: Any) -> bool:
    """Return whether a pyarrow type is dates, with or without a time of day."""
    types = import_pyarrow().types
    return bool(types.is_date(kind) or types.is_timestamp(kind))


def is_whole(kind: Any) -> bool:
    """Return whether a pyarrow type has whole numbers only."""
    types = import_pyarrow().types
    return types.is_integer(kind) or (types.is_decimal(kind) and kind.scale == 0)


def is_text(kind: Any) -> bool:
    """Return whether a pyarrow type is text or truth values, which are read as words."""
    return str(plain_type(kind)) in ("bool", *TEXTS)


def common_type(kinds: Sequence[Any]) -> Any:
    """Return the type of all files if they agree, else a type that holds all values; None if there is none."""
    pa = import_pyarrow()
    if all(kind == kinds[0] for kind in kinds):
        return kinds[0]
    plain = {kind for kind in map(plain_type, kinds) if not pa.types.is_null(kind)}
    if len(plain) == 1:
        return plain.pop()
    if all(str(kind) in TEXTS for kind in plain):
        return pa.large_string()
    if all(map(is_date, plain)):
        return pa.date32()
    if not all(is_supported(kind) and not is_text(kind) and not is_date(kind) for kind in plain):
        return None
    if not all(map(is_whole, plain)):
        return pa.float64()
    narrow = all(pa.types.is_integer(kind) and not pa.types.is_uint64(kind) for kind in plain)
    return pa.int64() if narrow else pa.decimal256(76, 0)
