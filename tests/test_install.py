"""What an install is enough for: the first use with the core alone, the command line with its one extra.

A subprocess gets a Python in which every distribution is missing that the dependencies in pyproject.toml do not bring
along. What is installed here beyond them cannot help.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from tests.cli.helpers import LOAN_COLUMNS, LOANS, loan_rows, write_csv

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)

WITHOUT = '''
import sys
from importlib.machinery import PathFinder

MISSING = frozenset({names!r})


class Finder(PathFinder):
    """Finds nothing of what is not installed."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in MISSING else super().find_spec(name, path, target)


sys.meta_path[:] = [Finder if each is PathFinder else each for each in sys.meta_path]
'''


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def closure(requirements: list[str]) -> set[str]:
    """Return the distributions that an install of these requirements brings along, by their plain names."""
    found: set[tuple[str, frozenset[str]]] = set()
    pending = [Requirement(text) for text in requirements]
    while pending:
        wanted = pending.pop()
        if wanted.marker is not None and not wanted.marker.evaluate({"extra": ""}):
            continue
        name, extras = plain(wanted.name), frozenset(wanted.extras)
        if (name, extras) in found:
            continue
        found.add((name, extras))
        if name == "fairbound":
            listed = [text for extra in extras for text in PROJECT["optional-dependencies"][extra]]
            pending += [Requirement(text) for text in listed]
            continue
        for text in metadata.requires(name) or ():
            each = Requirement(text)
            if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
                each.marker = None
                pending.append(each)
    return {name for name, _ in found}


def missing_modules(requirements: list[str]) -> list[str]:
    """Return the top-level modules that are installed here and that the requirements do not bring along."""
    there = closure(requirements)
    owners = metadata.packages_distributions()
    return sorted(name for name, dists in owners.items() if there.isdisjoint(map(plain, dists)) and name != "fairbound")


@pytest.fixture
def run(tmp_path):
    """Return a function that runs Python where nothing but some requirements is installed."""

    def call(requirements: list[str], *arguments: str, stdin: str = "") -> str:
        folder = tmp_path / "without"
        folder.mkdir(exist_ok=True)
        text = WITHOUT.replace("{names!r}", repr(missing_modules(requirements)))
        (folder / "sitecustomize.py").write_text(text, encoding="utf-8")
        environment = {**os.environ, "PYTHONPATH": str(folder), "NO_COLOR": "1"}
        environment.pop("FAIRBOUND_DATA", None)
        done = subprocess.run(
            [sys.executable, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=environment,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return call


def test_the_wheel_has_every_file_of_the_package():
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"][
        "package-data"
    ]
    package = ROOT / "src" / "fairbound"
    there = {file for file in package.rglob("*") if file.is_file() and file.suffix not in (".py", ".pyc")}
    taken = {
        file
        for name, globs in patterns.items()
        for pattern in globs
        for file in (ROOT / "src").joinpath(*name.split(".")).glob(pattern)
    }
    assert there <= taken


CORE = PROJECT["dependencies"]
CLI = [*CORE, "fairbound[cli]"]


def test_the_core_has_no_library_for_tables():
    missing = missing_modules(CORE)
    assert {"torch", "pandas", "polars", "pyarrow", "typer"} <= set(missing)
    assert {"numpy", "scipy", "sklearn", "narwhals"}.isdisjoint(missing)


def test_the_first_use_of_the_readme_needs_the_core_alone(run):
    section = README.split("## First use")[1].split("\n## ")[0]
    blocks = BLOCK.findall(section)
    assert len(blocks) >= 2
    program = "".join(blocks) + "\nimport sys\nprint('loaded:', *{'pandas', 'polars', 'pyarrow'} & set(sys.modules))"
    printed = run(CORE, "-W", "error", "-", stdin=program)
    assert "Status: " in printed
    assert printed.splitlines()[-1] == "loaded:"


@pytest.mark.parametrize(
    "install",
    [
        pytest.param(CLI, id="extra"),
        pytest.param(["typer", "rich", "jinja2", *CORE], id="without tables", marks=pytest.mark.slow),
    ],
)
def test_the_command_line_needs_one_extra(run, tmp_path, install):
    write_csv(tmp_path / "loans.csv", LOAN_COLUMNS, loan_rows(400))
    run(install, "-m", "fairbound", "train", "loans.csv", *LOANS, "--out", "run", "--quiet")
    assert (tmp_path / "run" / "report.html").is_file()
    printed = run(install, "-m", "fairbound", "predict", "run", "loans.csv", "--out", "decided.csv", "--json")
    assert json.loads(printed)["rows"] == 400


@pytest.mark.slow
def test_the_command_line_reads_parquet_with_its_one_extra(run, tmp_path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = dict(zip(LOAN_COLUMNS, map(list, zip(*loan_rows(400), strict=True)), strict=True))
    columns["income"] = [float(value) if value else None for value in columns["income"]]
    parquet.write_table(pa.table(columns), tmp_path / "loans.parquet")
    run(CLI, "-m", "fairbound", "train", "loans.parquet", *LOANS, "--out", "run", "--quiet")


@pytest.mark.slow
def test_the_demo_needs_one_extra(run):
    assert "report.html" in run(CLI, "-m", "fairbound", "demo")


def test_nothing_names_an_install_that_does_not_exist():
    """The package is not published: it is installed from its source code.  The README shows the line to come, too."""
    root = Path(__file__).parent.parent
    for path in [*root.glob("src/**/*.py"), *root.glob("src/**/*.html"), *root.glob("docs/*.md")]:
        found = re.search(r"pip install (--upgrade )?[\"']?fairbound.*", path.read_text(encoding="utf-8"))
        assert found is None, f"{path}: {found and found[0]}"
