"""Tables as plain text and as HTML, and values as JSON: what the audit and the certificate are shown with."""

from __future__ import annotations

import html
import math
import textwrap
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairbound._text import visible

_WIDTH = 110


@dataclass(frozen=True)
class Table:
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


def page_as_text(heading: str, tables: Iterable[Table], notes: Iterable[str]) -> str:
    """Return heading, tables and notes, an empty line between them; heading and notes are wrapped."""
    return "\n\n".join(
        [_wrapped(heading), *(table.as_text() for table in tables), "\n".join(_wrapped(note) for note in notes)]
    )


def _wrapped(text: str) -> str:
    return textwrap.fill(visible(text), _WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def page_as_html(heading: str, tables: Iterable[Table], notes: Iterable[str]) -> str:
    """Return the same page for a notebook."""
    paragraphs = "".join(f"<p>{_escaped(note)}</p>" for note in notes)
    body = "".join(table.as_html() for table in tables)
    return f"<div><p><strong>{_escaped(heading)}</strong></p>{body}{paragraphs}</div>"


def _escaped(text: str) -> str:
    return html.escape(visible(text))


def number(value: float | None, digits: int = 3) -> str:
    """Return a number in few digits; a dash where there is none."""
    if value is None or math.isnan(value):
        return "-"
    return f"{value:.{digits}f}" if math.isfinite(value) else str(value)


def at_least(value: float) -> str:
    """Return a bound from below in four digits, rounded down so that it stays one.

    >>> at_least(0.79999), at_least(0.8), at_least(1 - 0.9)
    ('0.7999', '0.8000', '0.1000')
    """
    return number(math.floor(1e4 * value + 1e-6) / 1e4 if math.isfinite(1e4 * value) else value, 4)


def at_most(value: float) -> str:
    """Return a bound from above in four digits, rounded up so that it stays one.

    >>> at_most(0.80001), at_most(0.1 + 0.2)
    ('0.8001', '0.3000')
    """
    return number(math.ceil(1e4 * value - 1e-6) / 1e4 if math.isfinite(1e4 * value) else value, 4)


def count(value: float) -> str:
    """Return a count, or a sum of weights, with commas."""
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"


def percent(confidence: float) -> str:
    """Return a confidence in percent, as in 95% and 99.9%.

    >>> percent(0.95), percent(0.999)
    ('95%', '99.9%')
    """
    return f"{round(100.0 * confidence, 6):g}%"


def as_json(value: Any) -> Any:
    """Return a value that JSON has: tuples as lists, numbers that are not finite as null, anything else as text."""
    if isinstance(value, bool | int | str) or value is None:
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key_text(key): as_json(entry) for key, entry in value.items()}
    if isinstance(value, tuple | list):
        return [as_json(entry) for entry in value]
    return str(value)


def key_text(key: Hashable) -> str:
    """Return a group or a label as the key of a JSON object; the values of an intersection are joined.

    >>> key_text(("female", 3)), key_text(True)
    ('female & 3', 'True')
    """
    return " & ".join(map(str, key)) if isinstance(key, tuple) else str(key)
