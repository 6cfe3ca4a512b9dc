"""The commands of the pages are run in their order; those of docs/command_line.md print what the page shows."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest
from tests.cli.helpers import LOAN_COLUMNS, loan_rows, write_csv

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "command_line.md"
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ANY_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"# exit code (\d+)$")


def commands(text: str) -> list[tuple[str, list[str]]]:
    """Return each command of the page with the lines that it is shown to print."""
    found: list[tuple[str, list[str]]] = []
    for block in BLOCK.findall(text):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line.removeprefix("$ "), []))
            else:
                found[-1][1].append(line)
    return found


def run_as_shown(fairbound, command: str, shown: list[str]) -> None:
    """Run a command of a page; it must print what the page shows, and end as the page says."""
    program, *arguments = shlex.split(command, comments=True)
    assert program == "fairbound"
    result = fairbound(*arguments)
    stated = CODE.search(command)
    assert result.code == (int(stated[1]) if stated else 0), command
    # The lines shown come in this order, with others between them only where the page has dots.
    printed = (result.stdout or result.stderr).splitlines()
    gap = False
    for line in shown:
        if line == "...":
            gap = True
            continue
        place = printed.index(line) if gap else 0
        assert printed[place : place + 1] == [line], command
        printed, gap = printed[place + 1 :], False
    assert gap or not shown or not printed, command


def test_the_page_shows_what_its_commands_do(fairbound):
    listed = commands(PAGE.read_text(encoding="utf-8"))
    assert len(listed) >= 9
    for command, shown in listed:
        run_as_shown(fairbound, command, shown)


def test_the_page_of_the_monitor_shows_what_its_programs_and_commands_do(fairbound):
    page, namespace = (ROOT / "docs" / "monitor.md").read_text(encoding="utf-8"), {}
    compared = 0
    for language, content in ANY_BLOCK.findall(page):
        if language == "python":
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                exec(compile(content, "monitor.md", "exec"), namespace)
            printed = output.getvalue()
        elif language == "console":
            for command, shown in commands(f"```console\n{content}```"):
                run_as_shown(fairbound, command, shown)
                compared += bool(shown)
        else:
            assert (language, content) == ("text", printed)
            compared += 1
    assert compared >= 3


@pytest.mark.parametrize("name", ["lender", "hr_vendor", "engineer"])
def test_the_page_for_a_reader_goes_from_a_table_to_its_documents(fairbound, name):
    page, namespace = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8"), {}
    run = 0
    for language, content in ANY_BLOCK.findall(page):
        if language == "python":
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(content, page, "exec"), namespace)
        else:
            for command, shown in commands(f"```{language}\n{content}```"):
                run_as_shown(fairbound, command, shown)
                run += 1
    assert run >= 2


def test_the_page_lists_every_command(fairbound):
    page = PAGE.read_text(encoding="utf-8")
    for name in ("train", "predict", "audit", "certify", "monitor", "frontier", "report", "data", "demo", "reproduce"):
        assert f"| `fairbound {name}` |" in page


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "docs" / "index.md"], ids=lambda page: page.stem)
def test_the_commands_of_a_first_page_run_on_files_with_these_columns(fairbound, loans, tmp_path, page):
    write_csv(tmp_path / "decisions.csv", (*LOAN_COLUMNS, "decision"), [(*row, row[-1]) for row in loan_rows(300)])
    given = [
        shlex.split(line) for line, _ in commands(page.read_text(encoding="utf-8")) if line.startswith("fairbound")
    ]
    assert given
    for _, *arguments in given:
        result = fairbound(*arguments)
        assert result.code == 0, (arguments, result.stderr)
        assert result.stdout
