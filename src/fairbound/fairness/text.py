"""Constraints as text: parse them, and name them for tables.

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
from typing import Any, NamedTuple

from fairbound._errors import InputError
from fairbound._words import listed, lookup
from fairbound.fairness.cells import OVERALL
from fairbound.fairness.constraints import CLAUSE, CONSTRAINTS, Constraint, Quota
from fairbound.fairness.measures import LIMITED, OTHER_NAMES
from fairbound.fairness.rates import changed

LONGEST = 1000
"""Largest number of characters of a constraint's text."""

_SHOWN = 80  # largest number of characters of the text that an error message repeats


# Every pattern matches in one way only, so that parsing takes linear time.
_SPACE = re.compile(r"\s*")

_NUMBER = re.compile(r"[-+]?(?:inf\b|(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?%?)")

_SIGN = re.compile("<=|>=|[<>≤≥]")

_NAME = re.compile(r"[^\W\d]\w*")

_QUOTA = re.compile(r"\s*select\s+(.*)")

_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')


def parse_constraint(text: str) -> Constraint:
    """Parse a constraint such as "disparate_impact >= 0.8" or "demographic_parity(sex) <= 0.05 against overall".

    The rate of a group is `rate[group]`, as in "selection_rate[female] >= 0.3"; without a group it is the rate of every
    group, as in "0.1 <= selection_rate <= 0.4"; "precision[overall] >= 0.9" is that of everyone.  A comparison that is
    limited in one direction only has an infinite side: "0.8 <= disparate_impact <= inf against white".  With more than
    two classes, a limit can name those to which it applies: "demographic_parity <= 0.1 for class high".  A bound can be
    a percentage: "80%".  Groups are compared in each stratum of a factor by "disparate_impact >= 0.8 within grade", or
    "within age(30, 50)" with the cuts of bands.  A limit on selection can be about those above given values, "at 20000,
    50000", or "at quantiles 10%, 50%, 90%" of the predictions.  Clauses may come in any order, classes last.

    "select 10%" and "select 100" are quotas, a share or a number of the rows.

    Double quotes enclose a name that would otherwise be read as a keyword: `against "overall"` compares with a group
    named overall.
    """
    if not isinstance(text, str):
        raise TypeError(f'A limit must be text such as "disparate_impact >= 0.8", not {type(text).__name__}.')
    if len(text) > LONGEST:
        raise ValueError(
            f"The limit {_shorten(text)} has {len(text):,} characters, but {LONGEST:,} are allowed. "
            'Write it like "disparate_impact >= 0.8".'
        )
    if quota := _QUOTA.fullmatch(text):
        return Quota.of(quota[1])
    parsed = _parse(text)
    if parsed is not None and (parsed.name in LIMITED or not _suggestions(text)):
        return _build(parsed, text)
    meant = " or ".join(f'"{each}"' for each in _suggestions(text))
    advice = f"Did you mean {meant}?" if meant else 'Write it like "disparate_impact >= 0.8".'
    raise ValueError(f"Cannot read the limit {_shorten(text)}. {advice}")


class _Parsed(NamedTuple):
    """The parts of a constraint's text: its measure, its bounds, and the options of the constraint."""

    name: str
    low: float | None
    sign: str
    bound: float
    options: dict[str, Any]


class _SyntaxError(Exception):
    """The text does not follow the syntax of a constraint."""


class _Scanner:
    """Scans a text from left to right; each token includes the blanks after it."""

    def __init__(self, text: str) -> None:
        self.text, self.place = text, 0
        self.take(_SPACE)

    def take(self, pattern: re.Pattern[str] | str) -> str | None:
        """Consume and return the text that matches at this place; None if there is none."""
        found = re.compile(re.escape(pattern) if isinstance(pattern, str) else pattern).match(self.text, self.place)
        if found is None:
            return None
        space = _SPACE.match(self.text, found.end())
        self.place = space.end() if space else found.end()
        return found[0]

    def must(self, pattern: re.Pattern[str] | str) -> str:
        """Consume and return the text that matches at this place; raise an error if there is none."""
        found = self.take(pattern)
        if found is None:
            raise _SyntaxError
        return found

    def value(self, plain: str) -> tuple[str, bool]:
        """Consume a name, in quotes or matching `plain`; return it and whether it was quoted."""
        quoted = self.take(_QUOTED)
        if quoted is None:
            return self.must(re.compile(plain)).strip(), False
        try:
            return json.loads(quoted, strict=False), True
        except ValueError:
            raise _SyntaxError from None

    def values(self, plain: str) -> tuple[str, ...]:
        """Consume names separated by commas."""
        found = [self.value(plain)[0]]
        while self.take(","):
            found.append(self.value(plain)[0])
        return tuple(found)

    def number(self) -> float:
        """Consume a number or a percentage."""
        text = self.must(_NUMBER)
        found = float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
        if math.isinf(found) and "inf" not in text:
            raise _SyntaxError  # too large for a float
        return found


def _parse(text: str) -> _Parsed | None:
    """Return the parts of a constraint's text, or None if it does not follow the syntax."""
    scanner, low = _Scanner(text), None
    options: dict[str, Any] = {}
    try:
        if _NUMBER.match(text, scanner.place):
            low = scanner.number()
            if scanner.must(_SIGN) not in ("<", "<=", "≤"):
                return None
        name = scanner.must(_NAME)
        if scanner.take("("):
            options["columns"] = scanner.values(r"[^\s,()\"][^,()]*")
            scanner.must(")")
        if scanner.take("["):
            group, quoted = scanner.value(r"[^\s\[\]\"][^\[\]]*")
            options["against" if group == OVERALL and not quoted else "group"] = group
            scanner.must("]")
        sign = scanner.must(_SIGN)
        bound = scanner.number()
        while "classes" not in options and _take_clause(scanner, name, options):
            pass
    except _SyntaxError:
        return None
    found = _Parsed(OTHER_NAMES.get(name, name), low, {"≤": "<=", "≥": ">="}.get(sign, sign), bound, options)
    return found if scanner.place == len(text) else None


def _take_clause(scanner: _Scanner, measure: str, options: dict[str, Any]) -> bool:
    """Consume one clause after the bound, in any order; return whether there was one.  Classes come last."""
    name = rf'(?s:[^\s"](?:(?!{CLAUSE.pattern}).)*)'
    if not {"against", "reference"} & options.keys() and scanner.take(re.compile(r"against\b")):
        reference, quoted = scanner.value(name)
        options["against" if reference in ("overall", "pairwise") and not quoted else "reference"] = reference
    elif measure == changed.__name__ and "previous" not in options and scanner.take(re.compile(r"from\b")):
        options["previous"] = scanner.value(name)[0]
    elif "at" not in options and scanner.take(re.compile(r"at\b")):
        shares = scanner.take(re.compile(r"quantiles?\b")) is not None
        numbers = [scanner.number()]
        while scanner.take(","):
            numbers.append(scanner.number())
        options["at"] = tuple(f"{100.0 * each:.12g}%" if shares else each for each in numbers)
    elif "within" not in options and scanner.take(re.compile(r"within\b")):
        options["within"] = scanner.values(rf'(?s:[^\s",](?:(?!{CLAUSE.pattern})[^,(])*(?:\([^()]*\))?)')
    elif scanner.take(re.compile(r"for\s+class(?:es)?\b")):
        options["classes"] = scanner.values(r"[^\s,\"][^,]*")
    else:
        return False
    return True


def _build(parsed: _Parsed, text: str) -> Constraint:
    """Return the constraint that the parts of a text describe."""
    measure, options = lookup(LIMITED, parsed.name, "measure"), parsed.options
    kind = CONSTRAINTS.get(measure.name, Constraint)
    if kind is Constraint:
        options["measure"] = measure.name
    at_least, bound = parsed.sign.startswith(">"), parsed.bound
    if parsed.low is not None:
        if at_least:
            raise ValueError(
                f'Cannot read the limit {_shorten(text)}: write two sides as "0.1 <= {measure.name} <= 0.4".'
            )
        low = parsed.low
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
            f"{_shorten(text)}: {measure.name} is a {measure.comparison}, where {stricter} is stricter; "
            f"write {measure.name} {sign} {bound:g}."
        )
    return kind(bound, **options)


_REWRITES: tuple[tuple[re.Pattern[str], str], ...] = (
    *(
        (re.compile(rf"\b{name.replace('_', '[ _-]?')}(?![\w-])", re.IGNORECASE), name)
        for name in sorted(LIMITED, key=len, reverse=True)
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
"""Common ways to write constraints, and how to rewrite them in the syntax."""


def _suggestions(text: str) -> list[str]:
    """Return the constraints that the user may have meant: none, one, or, if the text has "=", one for each sign."""
    for pattern, written in _REWRITES:
        text = pattern.sub(written, text)
    equal = re.compile(r"(?<![<>=])={1,2}(?![<>=])")
    found = []
    for candidate in [equal.sub(sign, text) for sign in (">=", "<=")] if equal.search(text) else [text]:
        parsed = _parse(candidate)
        if parsed is not None and parsed.name in LIMITED:
            try:
                found.append(str(_build(parsed, candidate)))
            except ValueError:
                continue
    return found


def _shorten(text: str) -> str:
    """Return a text for an error message, cut if it is long."""
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")


def as_constraints(constraints: Constraint | str | Iterable[Constraint | str] | None) -> tuple[Constraint, ...]:
    """Return constraints as a tuple; they may be given as one or several objects or texts, or as None for no limit."""
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


def without_quota(constraints: Iterable[Constraint]) -> tuple[tuple[Constraint, ...], Quota | None]:
    """Return the limits, and the quota that stands beside them, if there is one."""
    stated = tuple(constraints)
    quotas = [each for each in stated if isinstance(each, Quota)]
    if len(quotas) > 1:
        raise InputError(
            "A model has one quota, but there are {count}: {listed}.", count=len(quotas), listed=listed(quotas)
        )
    return tuple(each for each in stated if each not in quotas), quotas[0] if quotas else None


def distinct_texts(constraints: Iterable[Constraint]) -> list[str]:
    """Return the text of each constraint, numbered if it repeats, so that texts can name columns of a table.

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
