"""Tables and pages of them, as plain text and as HTML."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fairbound._errors import NameOf, python_name, render
from fairbound._text import visible

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
