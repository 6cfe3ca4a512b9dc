"""Tables and pages of them, as plain text and as HTML."""

from __future__ import annotations

import html
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from fairbound._errors import NameOf, python_name, render
from fairbound._escapes import visible

_WIDTH = 110

COLUMN = ' scope="col"'

# A notebook has no style of its own for captions, and little for cells.
TABLE = ' style="border-collapse: collapse; margin: 0.8em 0"'
CAPTION = ' style="text-align: left; font-weight: bold; padding-bottom: 0.2em"'
CELL = ' style="padding: 0.1em 1.2em 0.1em 0; text-align: {}"'


@dataclass(frozen=True)
class TextTable:
    """A title, a header and rows of text; the first `left` columns are aligned to the left, the others to the right.

    If `header` is empty, no header is shown.
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

    def __str__(self) -> str:
        return self.as_text()

    def as_html(self, *, plain: bool = False) -> str:
        """Return the table with everything escaped; `plain` leaves the alignment to the style of the page."""

        def row(line: Sequence[str], tag: str, scope: str = "") -> str:
            aligned = ("" if plain else CELL.format("left" if k < self.left else "right") for k in range(len(line)))
            cells = (
                f"<{tag}{scope}{style}>{_escaped(cell)}</{tag}>" for cell, style in zip(line, aligned, strict=True)
            )
            return f"<tr>{''.join(cells)}</tr>"

        head = f"<thead>{row(self.header, 'th', COLUMN)}</thead>" if self.header else ""
        body = "".join(row(line, "td") for line in self.rows)
        table, caption = ("", "") if plain else (TABLE, CAPTION)
        return f"<table{table}><caption{caption}>{_escaped(self.title)}</caption>{head}<tbody>{body}</tbody></table>"


def data_frame(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Return a pandas data frame with a line for each dictionary."""
    try:
        return import_module("pandas").DataFrame(rows)
    except ImportError:
        raise ImportError("to_frame needs pandas, which is not installed: pip install pandas") from None


def axes_of_plot() -> Any:
    """Return new axes of matplotlib."""
    try:
        return import_module("matplotlib.pyplot").subplots()[1]
    except ImportError:
        raise ImportError("plot needs matplotlib, which is not installed: pip install matplotlib") from None


def page_as_text(heading: str, tables: Iterable[TextTable], notes: Iterable[str], name_of: NameOf = python_name) -> str:
    """Return heading, tables and notes as text, with empty lines between them; heading and notes are wrapped.

    If a note is a `Message`, `name_of` gives the names of its arguments.
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


class Page(ABC):
    """A result that `print` shows as a page of tables, and a notebook as HTML."""

    __slots__ = ()

    @abstractmethod
    def _page(self) -> tuple[str, list[TextTable], list[str]]:
        """Return the heading, the tables and the notes."""

    def to_text(self, name_of: NameOf = python_name) -> str:
        """Return the page as text; `name_of` gives the names of arguments in it, by default those of Python."""
        return page_as_text(*self._page(), name_of)

    def __str__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        return page_as_html(*self._page())
