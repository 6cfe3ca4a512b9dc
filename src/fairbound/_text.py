"""Escape text from files and users for its destination: a terminal, a page, or a spreadsheet; and tables as text."""

from __future__ import annotations

import html
import json
import textwrap
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from fairbound._errors import NameOf, python_name, render

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


# --- tables ---------------------------------------------------------------------------------------------------------

# Tables and pages of them, as plain text and as HTML.


_WIDTH = 110


@dataclass(frozen=True)
class TextTable:
    """A title, a header and rows of text; the first `left` columns are aligned to the left, the others to the right.

    An empty header has none shown.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: int = 1

    def as_text(self) -> str:
        """Return the table with aligned columns, two spaces apart."""
        given = [self.header, *self.rows] if self.header else list(self.rows)
        lines = [tuple(map(visible, line)) for line in given]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        written = [
            "  ".join(
                cell.ljust(width) if column < self.left else cell.rjust(width)
                for column, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        ]
        return "\n".join([visible(self.title), *(f"  {line}" for line in written)])

    def as_html(self) -> str:
        """Return the table with everything escaped."""

        def cells(line: Sequence[str], tag: str) -> str:
            return "".join(
                f'<{tag} style="text-align: {"left" if column < self.left else "right"}">{_escaped(cell)}</{tag}>'
                for column, cell in enumerate(line)
            )

        body = "".join(f"<tr>{cells(line, 'td')}</tr>" for line in self.rows)
        head = f"<thead><tr>{cells(self.header, 'th')}</tr></thead>" if self.header else ""
        return f"<table><caption>{_escaped(self.title)}</caption>{head}<tbody>{body}</tbody></table>"


def data_frame(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Return a pandas data frame with a line for each dictionary."""
    try:
        return import_module("pandas").DataFrame(rows)
    except ImportError:
        raise ImportError("to_frame needs pandas, which is not installed: pip install pandas") from None


def page_as_text(heading: str, tables: Iterable[TextTable], notes: Iterable[str], name_of: NameOf = python_name) -> str:
    """Return heading, tables and notes, an empty line between them; heading and notes are wrapped.

    Notes that are messages name arguments as `name_of` does.
    """
    return "\n\n".join(
        [
            _wrapped(heading),
            *(table.as_text() for table in tables),
            "\n".join(_wrapped(render(note, name_of)) for note in notes),
        ]
    )


def _wrapped(text: str) -> str:
    return textwrap.fill(visible(text), _WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def page_as_html(heading: str, tables: Iterable[TextTable], notes: Iterable[str]) -> str:
    """Return the same page for a notebook."""
    paragraphs = "".join(f"<p>{_escaped(note)}</p>" for note in notes)
    body = "".join(table.as_html() for table in tables)
    return f"<div><p><strong>{_escaped(heading)}</strong></p>{body}{paragraphs}</div>"


def _escaped(text: str) -> str:
    return html.escape(visible(text))
