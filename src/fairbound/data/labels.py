"""Code the label of a user's table as integers.

For common pairs such as no and yes, convention decides which value is favourable (`conventional_positive`).  For all
other pairs it is never guessed: the user names it.  If different spellings of a value would get different codes, an
error is raised.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairbound._errors import InputError, argument
from fairbound._escapes import hidden_in, without_hidden
from fairbound._positive_label import conventional_positive
from fairbound._words import did_you_mean, listed
from fairbound.data.schema import is_missing

if TYPE_CHECKING:
    from fairbound.data.dataset import Dataset

MOST_CLASSES = 20  # a column with more values is probably a quantity
_SHOWN = 20  # largest number of values in a message
_MARKS = " \t.,;:!'\"`´’‘“”"  # ignored around a word; + and - are not, because A+ is not A
_DASHES = str.maketrans("‐‑‒–—−", "------")
_DIGITS = 15  # a float holds up to this many decimal digits exactly
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]{1,3})?")


class LabelValue(NamedTuple):
    """One value of the label column of a file.

    Attributes
    ----------
    value : str
        The value, as text.
    rows : int
        Number of rows of the file that have it.
    code : int
        Its label code.
    """

    value: str
    rows: int
    code: int


class CodedLabels(NamedTuple):
    """Label codes, their names, and each value of the column with its code."""

    codes: NDArray[np.int64]
    names: tuple[str, ...]
    values: tuple[LabelValue, ...]


def code_labels(
    values: NDArray[Any],
    target: str,
    positive: Any = None,
    negative: Any = None,
    *,
    rows: NDArray[np.int64] | None = None,
) -> CodedLabels:
    """Return the label codes, their names, and every value of the column with its number of rows and code.

    Parameters
    ----------
    values : array of shape (n,)
        The column.
    target : str
        Its name.
    positive : object or sequence of objects, optional
        The favourable values, which become 1; all others become 0. It can be omitted for common pairs, such as 0 and 1
        or no and yes, and for three or more values, which are coded in their order.
    negative : object or sequence of objects, optional
        All other values. If given, a value that is in neither `positive` nor `negative` raises an error.

    rows : array of shape (n,), optional
        The number of rows that each value stands for; 1 by default.

    Raises
    ------
    ValueError
        If the label is not usable, or if values that differ in spelling only (`Yes` and `yes`, `>50K` and `>50K.`)
        would get different codes, unless all of them are named.

    Examples
    --------
    >>> codes, names, values = code_labels(np.array(["no", "yes", "no"]), "approved", positive="yes")
    >>> codes, names
    (array([0, 1, 0]), ('no', 'yes'))
    >>> values
    (LabelValue(value='no', rows=2, code=0), LabelValue(value='yes', rows=1, code=1))
    """
    check_labelled(values, target)
    distinct, code = np.unique(values, return_inverse=True)
    words = [as_word(value) for value in distinct.tolist()]
    counted = dict(zip(words, np.bincount(code, rows).astype(int).tolist(), strict=True))
    if len(words) < 2:
        raise InputError(
            "Column {column!r} ({target=}) has only the value {value!r}.",
            "Give a label with at least two values.",
            column=target,
            value=words[0],
        )
    if positive is None:
        if negative is not None:
            raise InputError(
                "{negative=} was given without {positive=}.", "Name the favourable values with {positive=}."
            )
        names = _classes(counted, target)
        sides = dict(zip(names, range(len(names)), strict=True))
    else:
        favourable = _given_values(positive, counted, target, "positive")
        others = None if negative is None else _given_values(negative, counted, target, "negative")
        sides = _binary_codes(counted, target, favourable, others)
        _check_spelling(counted, target, sides, {*favourable, *(others or ())})
        names = (
            _common_name([word for word in words if sides[word] == 0], counted) or f"not {_joined(favourable)}",
            _common_name(favourable, counted, first=True) or _joined(favourable),
        )
    listed_values = tuple(LabelValue(word, counted[word], sides[word]) for word in words)
    return CodedLabels(np.array([sides[word] for word in words], dtype=np.int64)[code], names, listed_values)


def code_like(values: NDArray[Any], like: Dataset, *, rows: NDArray[np.int64] | None = None) -> CodedLabels:
    """Return the label codes of other rows, with the codes that the values have in another data set."""
    codes = {each.value: each.code for each in like.label_values}
    words = [as_word(value) for value in values.tolist()]
    counted = Counter[str]()
    for word, count in zip(words, np.ones(len(words), np.int64) if rows is None else rows, strict=True):
        counted[word] += int(count)
    for word, count in counted.items():
        if word not in codes:
            raise InputError(
                "Column {column!r} ({target=}) has the value {value!r} in {rows:,} rows, but the label of {like!r} has "
                "only {known}.",
                "Correct these values, or leave the rows out.",
                column=like.target,
                value=word,
                rows=count,
                like=like.name,
                known=listed(codes),
            )
    known = tuple(LabelValue(word, count, codes[word]) for word, count in sorted(counted.items()))
    return CodedLabels(np.array([codes[word] for word in words], dtype=np.int64), tuple(like.target_names), known)


def check_labelled(values: NDArray[Any], target: str) -> None:
    """Raise an error if a row has no label."""
    gaps = is_missing(values)
    if gaps.any():
        raise InputError(
            "Column {column!r} ({target=}) has no value in {gaps:,} of {rows:,} rows, first in row {row}.",
            "Drop these rows with {drop_unlabelled=True}.",
            column=target,
            gaps=gaps.sum(),
            rows=len(values),
            row=np.flatnonzero(gaps)[0] + 1,
        )


def _classes(counted: dict[str, int], target: str) -> tuple[str, ...]:
    """Return the classes of a label without `positive`: each value is a class; of two the favourable one is last."""
    words = list(counted)
    families = _spelling_variants(words)
    if families:
        alike = _alike(families, counted)
        raise InputError(
            "Column {column!r} ({target=}) has values that differ in spelling only: {alike}.",
            "Name every favourable value, for example {positive=example}, or write each class in one way in the file.",
            column=target,
            alike=alike,
            example=families[-1],
        )
    if len(words) == 2:
        favourable = conventional_positive(words)
        if favourable is None:
            raise InputError(
                "Column {column!r} ({target=}) has the values {values}.",
                "Name the favourable one with {positive=}.",
                column=target,
                values=_with_rows(words, counted),
            )
        return tuple(sorted(words, key=lambda word: word == favourable))
    if len(words) > MOST_CLASSES:
        raise InputError(
            "Column {column!r} ({target=}) has {found:,} different values, but a label has at most {most}.",
            "Sort the values into classes, or name the favourable ones with {positive=}. In Python, "
            "ConstrainedRegressor predicts numbers.",
            column=target,
            found=len(words),
            most=MOST_CLASSES,
        )
    return tuple(words)


def _given_values(given: Any, counted: dict[str, int], target: str, side: str) -> list[str]:
    """Return the values given as `positive` or `negative` as words; each must occur in the column."""
    several = isinstance(given, Iterable) and not isinstance(given, str | bytes | np.generic)
    words = list(dict.fromkeys(as_word(value) for value in (given if several else [given])))
    if not words:
        raise InputError(
            "{side} names no value.",
            "Name at least one value of column {column!r}.",
            side=argument(side),
            column=target,
        )
    for word in words:
        if word not in counted:
            raise InputError(
                "Column {column!r} ({target=}) is never {value!r} ({side}).{near} It has {known}.",
                column=target,
                value=word,
                side=argument(side),
                near=did_you_mean(word, counted),
                known=_with_rows(counted, counted),
            )
    return words


def _binary_codes(
    counted: dict[str, int], target: str, positive: Sequence[str], negative: Sequence[str] | None
) -> dict[str, int]:
    """Return 1 for the favourable values and 0 for the others."""
    if negative is not None:
        twice = [word for word in positive if word in negative]
        if twice:
            raise InputError("{value!r} is named by both {positive=} and {negative=}.", "Name it once.", value=twice[0])
        unnamed = [word for word in counted if word not in positive and word not in negative]
        if unnamed:
            raise InputError(
                "Column {column!r} ({target=}) has values that neither {positive=} nor {negative=} names: {values}.",
                "Name each of them, or leave out {negative=}.",
                column=target,
                values=_with_rows(unnamed, counted),
            )
    sides = {word: int(word in positive) for word in counted}
    if all(sides.values()):
        raise InputError(
            "{positive=} names every value of column {column!r} ({target=}).",
            "Leave at least one value that is not favourable.",
            column=target,
        )
    return sides


def _check_spelling(counted: dict[str, int], target: str, sides: dict[str, int], named: set[str]) -> None:
    """Raise an error if two spellings of one value get different codes, unless both were named."""
    split = [
        family
        for family in _spelling_variants(list(counted))
        if len({sides[word] for word in family}) == 2 and not named.issuperset(family)
    ]
    if not split:
        return
    alike = _alike(split, counted, sides)
    positive = [word for word in counted if sides[word] == 1 or any(word in family for family in split)]
    raise InputError(
        "Column {column!r} ({target=}) has values that differ in spelling only and would count as different outcomes: "
        "{alike}.",
        "If they mean the same, give {positive=favourable}. If not, name all others with {negative=}.",
        column=target,
        alike=alike,
        favourable=positive,
    )


def _spelling_variants(words: Sequence[str]) -> list[list[str]]:
    """Return the groups of words that differ in spelling only."""
    found: dict[str, list[str]] = {}
    for word in words:
        found.setdefault(_normal_spelling(word), []).append(word)
    return [family for family in found.values() if len(family) > 1]


def _normal_spelling(word: str) -> str:
    """Return a normal form of a word: without differences of width, case, blanks, surrounding marks, or 1.0 and 1.

    Characters that are never seen make no difference either.

    >>> [_normal_spelling(word) for word in (">50K.", " YES", "Ｙｅｓ", "1.0", "01", "A+", "-")]
    ['>50k', 'yes', 'yes', '1', '1', 'a+', '-']
    """
    plain = unicodedata.normalize("NFKC", without_hidden(word)).translate(_DASHES).casefold()
    plain = " ".join(plain.split())
    if len(plain) <= _DIGITS and _NUMBER.fullmatch(plain):
        return as_word(float(plain))
    return plain.strip(_MARKS) or plain


def _common_name(words: Sequence[str], counted: dict[str, int], *, first: bool = False) -> str | None:
    """Return one word for values that differ in spelling only: the first or the most frequent; else None."""
    if len({_normal_spelling(word) for word in words}) > 1:
        return None
    return words[0] if first else max(words, key=lambda word: counted[word])


def _joined(words: Sequence[str]) -> str:
    return " or ".join(words[:3]) + (" or others" if len(words) > 3 else "")


def _with_rows(words: Iterable[str], counted: dict[str, int], sides: dict[str, int] | None = None) -> str:
    """Return values with their numbers of rows, and optionally whether they are positive, for a message."""
    known = list(words)
    shown = [
        f"{word!r} ({counted[word]:,} {'row' if counted[word] == 1 else 'rows'}"
        + ("" if sides is None else ", positive" if sides[word] else ", negative")
        + ")"
        for word in known[:_SHOWN]
    ]
    return ", ".join(shown) + (", …" if len(known) > _SHOWN else "")


def _alike(families: Sequence[Sequence[str]], counted: dict[str, int], sides: dict[str, int] | None = None) -> str:
    """Return words that differ in spelling only, with the characters in them that are never seen, for a message."""
    hidden = hidden_in(word for family in families for word in family)
    shown = "; ".join(_with_rows(family, counted, sides) for family in families[:5])
    return shown + (f"; some have {hidden}, which cannot be seen" if hidden else "")


def sides_in_words(values: Sequence[LabelValue], names: Sequence[str]) -> str:
    """Return which values of the column have which code, with their numbers of rows, as text.

    >>> sides_in_words((LabelValue("no", 2, 0), LabelValue("yes", 1, 1)), ("no", "yes"))
    "0 for 'no' (2 rows), 1 for 'yes' (1 row)"
    """
    counted = {each.value: each.rows for each in values}
    sides = ([each.value for each in values if each.code == code] for code in range(len(names)))
    return ", ".join(f"{code} for {_with_rows(side, counted)}" for code, side in enumerate(sides))


def as_word(value: Any) -> str:
    """Return a value as text, whole numbers without a decimal point, so that 1, 1.0 and "1" are equal."""
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)
