"""The examples of docs/audit.md and docs/certificate.md run, and print what the pages show."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", ["audit.md", "certificate.md"])
def test_the_page_shows_what_its_programs_print(page):
    namespace: dict[str, object] = {}
    printed = ""
    compared = 0
    for language, content in BLOCK.findall((DOCS / page).read_text(encoding="utf-8")):
        if language == "python":
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                exec(compile(content, page, "exec"), namespace)
            printed = output.getvalue()
        elif language == "text":
            assert content == printed
            compared += 1
    assert compared == 1
