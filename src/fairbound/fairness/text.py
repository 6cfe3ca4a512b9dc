"""Limits in words: read from text, one or several, and named for tables.

>>> parse_constraint("demographic_parity <= 0.05")
DemographicParity(0.05)
>>> parse_constraint("selection_rate[female] >= 0.3")
Constraint((0.3, None), measure='selection_rate', group='female')
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from fairbound._registry import lookup
from fairbound.fairness.constraints import CONSTRAINTS, FOR_CLASSES, Constraint
from fairbound.fairness.measures import MEASURES

LONGEST = 1000
"""Characters that the text of a limit may have."""

_SHOWN = 80  # characters of a text that a message repeats

# Every pattern matches in one way only, so that reading takes time in proportion to the length of the text.
_SPACE = re.compile(r"\s*")
_NUMBER = re.compile(r"[-+]?(?:inf\b|(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?%?)")
_SIGN = re.compile("<=|>=|[<>≤≥]")
_NAME = re.compile(r"[^\W\d]\w*")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')


def parse_constraint(text: str) -> Constraint:
    """Read a limit such as "disparate_impact >= 0.8", "demographic_parity(sex) <= 0.05 against overall".

    A rate of a group is `rate[group]`, as in "selection_rate[female] >= 0.3" or "0.1 <= selection_rate <= 0.4".
    A limit in one direction has an infinite side: "0.8 <= disparate_impact <= inf against white".  With several classes
    some of them can be named: "demographic_parity <= 0.1 for class high".  A percentage is a bound, too: "80%".

    A name that could be taken for a part of the sentence stands in double quotes: `against "overall"` compares with a
    group of that name.
    """
    if not isinstance(text, str):
        raise TypeError(f'A limit in words is text such as "disparate_impact >= 0.8", not {type(text).__name__}.')
    if len(text) > LONGEST:
        raise ValueError(
            f"The limit {_shown(text)} has {len(text):,} characters, but {LONGEST:,} are allowed. "
            'Write it like "disparate_impact >= 0.8".'
        )
    sentence = _read(text)
    if sentence is not None and (sentence.name in MEASURES or not _meant(text)):
        return _built(sentence, text)
    meant = " or ".join(f'"{each}"' for each in _meant(text))
    advice = f"Did you mean {meant}?" if meant else 'Write it like "disparate_impact >= 0.8".'
    raise ValueError(f"Cannot read the limit {_shown(text)}. {advice}")


@dataclass
class _Sentence:
    """The parts of a limit in words, as they were read."""

    name: str
    sign: str
    bound: float
    low: float | None = None
    columns: tuple[str, ...] | None = None
    group: str | None = None
    against: str | None = None
    reference: str | None = None
    classes: tuple[str, ...] | None = None


class _UnreadableError(Exception):
    """The text does not go on as a limit does."""


class _Reader:
    """Reads a text from left to right; whatever is taken, blanks behind it are taken, too."""

    def __init__(self, text: str) -> None:
        self.text, self.place = text, 0
        self.take(_SPACE)

    def take(self, pattern: re.Pattern[str] | str) -> str | None:
        """Take what matches here, or nothing."""
        found = re.compile(re.escape(pattern) if isinstance(pattern, str) else pattern).match(self.text, self.place)
        if found is None:
            return None
        space = _SPACE.match(self.text, found.end())
        self.place = space.end() if space else found.end()
        return found[0]

    def must(self, pattern: re.Pattern[str] | str) -> str:
        """Take what matches here; there must be something."""
        found = self.take(pattern)
        if found is None:
            raise _UnreadableError
        return found

    def value(self, plain: str) -> tuple[str, bool]:
        """Take a name, in quotes or of the plain characters; say whether it was quoted."""
        quoted = self.take(_QUOTED)
        if quoted is None:
            return self.must(re.compile(plain)).strip(), False
        try:
            return json.loads(quoted, strict=False), True
        except ValueError:
            raise _UnreadableError from None

    def values(self, plain: str) -> tuple[str, ...]:
        """Take names with commas between them."""
        found = [self.value(plain)[0]]
        while self.take(","):
            found.append(self.value(plain)[0])
        return tuple(found)

    def number(self) -> float:
        """Take a number; a percentage is a hundredth."""
        text = self.must(_NUMBER)
        found = float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
        if math.isinf(found) and "inf" not in text:
            raise _UnreadableError  # more than a double can hold
        return found


def _read(text: str) -> _Sentence | None:
    """Return the parts of a limit; None where the text is none."""
    reader = _Reader(text)
    try:
        low = None
        if _NUMBER.match(text, reader.place):
            low = reader.number()
            if reader.must(_SIGN) not in ("<", "<=", "≤"):
                return None
        found = _Sentence(reader.must(_NAME), sign="", bound=math.nan, low=low)
        if reader.take("("):
            found.columns = reader.values(r"[^\s,()\"][^,()]*")
            reader.must(")")
        if reader.take("["):
            found.group, _ = reader.value(r"[^\s\[\]\"][^\[\]]*")
            reader.must("]")
        found.sign = {"≤": "<=", "≥": ">="}.get(sign := reader.must(_SIGN), sign)
        found.bound = reader.number()
        if reader.take(re.compile(r"against\b")):
            reference, quoted = reader.value(rf'(?s:[^\s"](?:(?!{FOR_CLASSES.pattern}).)*)')
            if reference in ("overall", "pairwise") and not quoted:
                found.against = reference
            else:
                found.reference = reference
        if reader.take(re.compile(r"for\s+class(?:es)?\b")):
            found.classes = reader.values(r"[^\s,\"][^,]*")
    except _UnreadableError:
        return None
    return found if reader.place == len(text) else None


def _built(sentence: _Sentence, text: str) -> Constraint:
    """Make the limit that a sentence states."""
    measure = lookup(MEASURES, sentence.name, "measure")
    options: dict[str, Any] = {
        name: value
        for name in ("columns", "group", "against", "reference", "classes")
        if (value := getattr(sentence, name)) is not None
    }
    kind = CONSTRAINTS.get(measure.name, Constraint)
    if kind is Constraint:
        options["measure"] = measure.name
    at_least, bound = sentence.sign.startswith(">"), sentence.bound
    if sentence.low is not None:
        if at_least:
            raise ValueError(
                f'Cannot read the limit {_shown(text)}: write two sides as "0.1 <= {measure.name} <= 0.4".'
            )
        low = sentence.low
        return kind((None if low == -math.inf else low, None if bound == math.inf else bound), **options)
    if 2 <= bound <= 100 and measure.largest <= 1:
        raise ValueError(
            f"{measure.name}: bound={bound!r} must lie between 0 and {measure.largest:g}. Did you mean {bound:g}%?"
        )
    if measure.comparison == "value":
        return kind((bound, None) if at_least else (None, bound), **options)
    if at_least != measure.larger_is_stricter:
        sign = ">=" if measure.larger_is_stricter else "<="
        stricter = "larger" if measure.larger_is_stricter else "smaller"
        raise ValueError(
            f"{_shown(text)}: {measure.name} is a {measure.comparison}, where {stricter} is stricter; "
            f"write {measure.name} {sign} {bound:g}."
        )
    return kind(bound, **options)


_REPAIRS: tuple[tuple[re.Pattern[str], str], ...] = (
    *(
        (re.compile(rf"\b{name.replace('_', '[ _-]?')}(?![\w-])", re.IGNORECASE), name)
        for name in sorted(MEASURES, key=len, reverse=True)
    ),
    (re.compile(r"\b(?:(?:is|of|be) )?(?:at least|no less than|not below|greater than|more than|above|over)\b"), ">="),
    (re.compile(r"\b(?:(?:is|of|be) )?(?:at most|no more than|not above|less than|smaller than|below|under)\b"), "<="),
    (re.compile("=>"), ">="),
    (re.compile("=<"), "<="),
    (re.compile(r"(?<=\d) ?(?:percent|per cent|%)"), "%"),
    (re.compile(r"(?<=\d),(?=\d)"), "."),
    (re.compile(rf"^\s*({_NUMBER.pattern})\s*<=?\s*([^<>=]+)$"), r"\2 >= \1"),
    (re.compile(rf"^\s*({_NUMBER.pattern})\s*>=?\s*([^<>=]+)$"), r"\2 <= \1"),
)
"""What people write for a limit, and how a limit is written."""


def _meant(text: str) -> list[str]:
    """Return the limits that an unreadable text may stand for: none, one, or two where it says "=" only."""
    for pattern, written in _REPAIRS:
        text = pattern.sub(written, text)
    equal = re.compile(r"(?<![<>=])={1,2}(?![<>=])")
    found = []
    for candidate in [equal.sub(sign, text) for sign in (">=", "<=")] if equal.search(text) else [text]:
        sentence = _read(candidate)
        if sentence is not None and sentence.name in MEASURES:
            try:
                found.append(str(_built(sentence, candidate)))
            except ValueError:
                continue
    return found


def _shown(text: str) -> str:
    """Return a text for a message, the beginning of a long one."""
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")


def as_constraints(constraints: Constraint | str | Iterable[Constraint | str] | None) -> tuple[Constraint, ...]:
    """One or several limits, as objects or as text, as a tuple; None is none."""
    if constraints is None:
        return ()
    if isinstance(constraints, Constraint | str) or not isinstance(constraints, Iterable):
        constraints = (constraints,)
    result = []
    for constraint in constraints:
        if isinstance(constraint, str):
            constraint = parse_constraint(constraint)
        if not isinstance(constraint, Constraint):
            raise TypeError(
                f"{constraint!r} is not a constraint: give for example DisparateImpact(0.8) or "
                '"disparate_impact >= 0.8".'
            )
        result.append(constraint)
    return tuple(result)


def distinct_texts(constraints: Iterable[Constraint]) -> list[str]:
    """Return each limit in words, with a number where the same words stand for several: names of columns.

    >>> limit = parse_constraint("disparate_impact >= 0.8")
    >>> distinct_texts([limit, limit])
    ['disparate_impact >= 0.8', 'disparate_impact >= 0.8 (2)']
    """
    seen: Counter[str] = Counter()
    texts = []
    for constraint in constraints:
        text = str(constraint)
        seen[text] += 1
        texts.append(text if seen[text] == 1 else f"{text} ({seen[text]})")
    return texts
