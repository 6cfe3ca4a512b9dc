"""Escape text from files and users for its destination: a terminal, a page, or a spreadsheet."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # controls, marks of direction and width, half characters, separators
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def visible(text: str, *, keep: str = "") -> str:
    r"""Return text in which characters that a terminal obeys, or that nobody sees, are written as escapes.

    These are control characters, marks of direction and of no width, and line separators; `keep` names exceptions.

    >>> print(visible("\x1b[31mred\x1b[0m, \u202eleft, one\ntwo"))
    \x1b[31mred\x1b[0m, \u202eleft, one\ntwo
    >>> visible("café 東京", keep="\n")
    'café 東京'
    """
    if text.isprintable():
        return text
    return "".join(
        _escape(character) if unicodedata.category(character) in _HIDDEN and character not in keep else character
        for character in text
    )


def _escape(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def escaped_json(written: str) -> str:
    r"""Return JSON in which the characters that `visible` escapes are escaped in JSON's way: it reads back the same.

    >>> print(escaped_json('["\u202e, \u009b"]'))
    ["\u202e, \u009b"]
    """
    if written.isprintable():
        return written
    return "".join(
        json.dumps(character)[1:-1] if unicodedata.category(character) in _HIDDEN and character != "\n" else character
        for character in written
    )


def for_spreadsheet(value: Any) -> Any:
    """Return a cell of a CSV file that no spreadsheet runs as a formula: such a text gets an apostrophe in front.

    >>> [for_spreadsheet(cell) for cell in ("=1+1", "@SUM(A1)", "-0.5", "a=b", -0.5)]
    ["'=1+1", "'@SUM(A1)", '-0.5', 'a=b', -0.5]
    """
    if not isinstance(value, str):
        return value
    shown = visible(value)
    return f"'{shown}" if value.startswith(_FORMULA) and not _is_number(value) else shown


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text.isprintable()
