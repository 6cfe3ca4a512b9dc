"""Pages do what they show: programs run, commands end as stated, and both print what stands below them."""

from __future__ import annotations

import contextlib
import io
import re
import runpy
import shlex
from importlib.util import find_spec
from pathlib import Path

import pytest
import sklearn
from tests.cli.helpers import LOAN_COLUMNS, loan_rows, write_csv
from tests.conftest import absent

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference" / "command_line.md"
PAGES = [ROOT / "README.md", REFERENCE, *sorted(DOCS.glob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"# exit code (\d+)$")


def check_lines(shown: list[str], printed: list[str], what: str) -> None:
    """Check that the lines shown were printed in this order, with others between them only where the page has dots."""
    gap = False
    for line in shown:
        if line.strip() == "...":
            gap = True
            continue
        place = printed.index(line) if gap and line in printed else 0
        assert printed[place : place + 1] == [line], what
        printed, gap = printed[place + 1 :], False
    assert gap or not shown or not printed, what


def commands(content: str) -> list[tuple[str, list[str]]]:
    """Return the commands of a block, each with the lines that it is shown to print."""
    parts = re.split(r"^\$ ", content, flags=re.MULTILINE)[1:]
    return [(lines[0], lines[1:]) for lines in (part.splitlines() for part in parts)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_does_what_it_shows(fairbound, loans, tmp_path, page):
    write_csv(tmp_path / "decisions.csv", (*LOAN_COLUMNS, "decision"), [(*row, row[-1]) for row in loan_rows(300)])
    text = page.read_text(encoding="utf-8")
    if "import XGBClassifier" in text and find_spec("xgboost") is None:
        absent("needs xgboost: pip install xgboost-cpu")
    namespace: dict[str, object] = {"__name__": "__page__"}
    before, printed = "", ""
    with sklearn.config_context():  # programs may change scikit-learn's settings
        for found in BLOCK.finditer(text):
            language, content = found.groups()
            if language == "python":
                # Tracebacks then show the line of the page.
                program = "\n" * text.count("\n", 0, found.start(2)) + content
                with contextlib.redirect_stdout(io.StringIO()) as output:
                    exec(compile(program, str(page), "exec"), namespace)
                printed = output.getvalue()
            elif language == "text" and before == "python":
                check_lines(content.splitlines(), printed.splitlines(), content)
            elif language == "console":
                for command, shown in commands(content):
                    program, *arguments = shlex.split(command, comments=True)
                    if program == "fairbound":  # others are tested elsewhere, or take hours
                        result = fairbound(*arguments)
                        stated = CODE.search(command)
                        assert result.code == (int(stated[1]) if stated else 0), (command, result.stderr)
                        check_lines(shown, (result.stdout or result.stderr).splitlines(), command)
            before = language


def test_the_reference_of_the_commands_has_all_of_them_with_their_options():
    add_options = runpy.run_path(str(DOCS / "command_options.py"))["on_page_markdown"]
    page = add_options(REFERENCE.read_text(encoding="utf-8"))
    names = set(re.findall(r"^### fairbound (\w+)", page, re.MULTILINE))
    assert len(names) == 11
    assert names == set(re.findall(r"^\| `fairbound (\w+)` \|", page, re.MULTILINE))
    assert {"--require", "--checkpoint", "--significance", "--within"} <= set(
        re.findall(r"^  (--[a-z-]+)", page, re.MULTILINE)
    )
