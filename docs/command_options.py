"""Put the help of every command in place of the mark in docs/reference/command_line.md, when the pages are built."""

from __future__ import annotations

from typing import Any

import typer

from fairbound.cli.program import make_program

MARK = "<!-- options -->\n"
WIDE = {"terminal_width": 110, "max_content_width": 110}


def sections(command: Any, context: typer.Context) -> str:
    """Return the help of a command as a section; of a group, those of its commands."""
    below = getattr(command, "commands", None)
    if below is None:
        return f"### {context.command_path}\n\n```text\n{command.get_help(context)}\n```\n\n"
    return "".join(
        sections(each, typer.Context(each, parent=context, info_name=name, **WIDE)) for name, each in below.items()
    )


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return the page with the options; mkdocs calls this for every page."""
    if MARK not in markdown:
        return markdown
    program = typer.main.get_command(make_program())
    return markdown.replace(MARK, sections(program, typer.Context(program, info_name="fairbound")))
