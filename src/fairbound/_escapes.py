"""Text made harmless for a terminal, a page or a spreadsheet."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable
from typing import Any

_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # controls, marks of direction and width, half characters, separators

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def visible(text: str, *, keep: str = "") -> str:
    r"""Return text with escapes in place of characters that control a terminal or are invisible.

    These are control characters, marks of direction, marks without width, and line separators; `keep` lists exceptions.

    >>> print(visible("\x1b[31mred\x1b[0m, \u202eleft, one\ntwo"))
    \x1b[31mred\x1b[0m, \u202eleft, one\ntwo
    >>> visible("café 東京", keep="\n")
    'café 東京'
    """
    if text.isprintable():
        return text
    return "".join(
        character.encode("unicode_escape", "surrogatepass").decode("ascii")
        if unicodedata.category(character) in _HIDDEN and character not in keep
        else character
        for character in text
    )


def without_hidden(word: str) -> str:
    """Return a word without the characters that are never seen, such as soft hyphens and marks of direction."""
    return word if word.isascii() else "".join(each for each in word if unicodedata.category(each) != "Cf")


def hidden_in(words: Iterable[str]) -> str:
    r"""Return the characters of words that are never seen, by their codes and names; empty if there are none.

    >>> hidden_in(["yes", "yes\u200b", "\u200eno"])
    'U+200B ZERO WIDTH SPACE, U+200E LEFT-TO-RIGHT MARK'
    """
    found = sorted({each for word in words for each in word if unicodedata.category(each) == "Cf"})
    return ", ".join(f"U+{ord(each):04X} {unicodedata.name(each, 'without a name')}" for each in found)


def escaped_json(written: str) -> str:
    r"""Escape in JSON the same characters as `visible` does, by JSON's own escapes, so that it reads back the same.

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
    """Return a cell of a CSV file; put an apostrophe before a text that a spreadsheet would run as a formula.

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
