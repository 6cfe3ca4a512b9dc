"""Make a notebook of each page in PAGES: `python docs/make_notebooks.py`, or `make notebooks`.

A block of Python becomes a cell, in which `print(value)` becomes `display(value)`, so that values are shown as tables.
What a page says it prints is left out: the notebook prints it itself.
"""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

DOCS = Path(__file__).parent
PAGES = ["training", "decisions", "new_rows", "auditing", "any_model", "researcher"]

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```\n?", re.MULTILINE | re.DOTALL)
PRINT = re.compile(r"^print\((?=[\w.]+(?:\([^()]*\))?\))", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:|#)([^)]+)\)")
OUTPUT = {"text", "console"}


def notebook(page: str) -> str:
    """Return the notebook of a page, as JSON."""
    text, cells, end = (DOCS / f"{page}.md").read_text(encoding="utf-8"), [], 0
    for block in [*BLOCK.finditer(text), None]:
        words = text[end : block.start() if block else None].strip()
        if words and words != "prints":
            cells.append(new_markdown_cell(LINK.sub(r"](../\1)", words)))
        if block is None:
            break
        kind, program = block.groups()
        if kind == "python":
            cells.append(new_code_cell(PRINT.sub("display(", program).rstrip()))
        elif kind not in OUTPUT or program.startswith("$"):
            cells.append(new_markdown_cell(block.group().strip()))
        end = block.end()
    for number, cell in enumerate(cells):
        cell["id"] = f"{page}-{number}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return nbformat.writes(new_notebook(cells=cells, metadata={"kernelspec": kernel})) + "\n"


if __name__ == "__main__":
    for page in PAGES:
        (DOCS / "notebooks" / f"{page}.ipynb").write_text(notebook(page), encoding="utf-8")
