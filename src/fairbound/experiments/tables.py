"""Tables, written as CSV with exact numbers, or as Markdown and HTML with rounded ones."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

from fairbound._text import for_spreadsheet, visible

Value = str | float | int | bool | None


@dataclass(frozen=True)
class Column:
    """A heading, and the format specification of its numbers, such as ".2f"."""

    heading: str
    form: str = ""

    def write(self, value: Value) -> str:
        """Return a value as text; empty for None."""
        if value is None:
            return ""
        if isinstance(value, bool):
            return "yes" if value else "no"
        return value if isinstance(value, str) else format(value, self.form)


Columns = Sequence[Column | str]


@dataclass(frozen=True)
class ResultTable:
    """A title, columns and rows of plain values."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Value, ...], ...]

    @classmethod
    def build(cls, title: str, columns: Columns, rows: Sequence[Sequence[Value]]) -> ResultTable:
        """Build a table.  A column of text may be given by its heading alone."""
        made = tuple(Column(column) if isinstance(column, str) else column for column in columns)
        for row in rows:
            if len(row) != len(made):
                raise ValueError(f"{title}: a row has {len(row)} values for {len(made)} columns.")
        return cls(title, made, tuple(map(tuple, rows)))

    def written(self) -> list[list[str]]:
        """Return the rows as text."""
        return [[column.write(value) for column, value in zip(self.columns, row, strict=True)] for row in self.rows]

    def to_csv(self, *, exact: bool = False) -> str:
        """Return headings and values at full precision.

        Unless `exact`, text that a spreadsheet would run as a formula is escaped.
        """
        cell = (lambda value: value) if exact else for_spreadsheet
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([cell(column.heading) for column in self.columns])
        writer.writerows([["" if value is None else cell(value) for value in row] for row in self.rows])
        return text.getvalue()

    def to_markdown(self) -> str:
        """Return a Markdown table with numbers aligned to the right."""
        lines = [
            [column.heading for column in self.columns],
            ["---:" if column.form else "---" for column in self.columns],
            *self.written(),
        ]
        return (
            "\n".join("| " + " | ".join(visible(cell).replace("|", r"\|") for cell in line) + " |" for line in lines)
            + "\n"
        )
