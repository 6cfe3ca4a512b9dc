"""The two files of versions agree with the ranges of pyproject.toml; the files that name our own version agree."""

from __future__ import annotations

import re
import tomllib
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from fairbound import __version__

ROOT = Path(__file__).parents[1]


def _ranges() -> dict[str, Requirement]:
    """Return the requirements of users and tests, by name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    tools = ("dev", "docs", "notebooks", "release")
    extras = {name: each for name, each in project["optional-dependencies"].items() if name not in tools}
    stated = [Requirement(text) for text in chain(project["dependencies"], *extras.values())]
    return {canonicalize_name(each.name): each for each in stated if each.name != "fairbound"}


def _pins(filename: str) -> dict[str, str]:
    lines = (ROOT / filename).read_text(encoding="utf-8").splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pairs}


@pytest.mark.parametrize("name", sorted(_ranges()))
def test_the_tested_version_is_in_the_range(name: str) -> None:
    assert _ranges()[name].specifier.contains(_pins("constraints.txt")[name])


@pytest.mark.parametrize("name", sorted(set(_ranges()) - {"torch"}))
def test_the_oldest_version_is_the_lower_end_of_the_range(name: str) -> None:
    (lower,) = [each.version for each in _ranges()[name].specifier if each.operator == ">="]
    oldest = _pins("constraints-min.txt")[name]
    assert _ranges()[name].specifier.contains(oldest)
    assert oldest.startswith(lower), f"pyproject.toml allows {lower}, constraints-min.txt tests {oldest}"


def test_the_version_is_that_of_the_changelog_and_of_the_citation() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    latest = re.search(r"^## (\d+\.\d+\.\d+) - (\d{4}-\d{2}-\d{2})$", changelog, re.MULTILINE)
    assert latest is not None, "CHANGELOG.md has no dated section"
    citation = dict(
        line.split(": ", 1) for line in (ROOT / "CITATION.cff").read_text(encoding="utf-8").splitlines() if ": " in line
    )
    assert (citation["version"], citation["date-released"]) == latest.groups()
    assert __version__ == latest.group(1)


def test_a_release_has_each_kind_of_change_once() -> None:
    for release in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## ")[1:]:
        kinds = re.findall(r"^### (\w+)$", release, re.MULTILINE)
        order = [kind for kind in ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security") if kind in kinds]
        assert kinds == order, release.splitlines()[0]


def test_the_workflow_runs_ci_on_every_python_from_the_oldest_that_is_allowed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    (matrix,) = re.findall(r"^\s+python: \[(.*)\]$", workflow, re.MULTILINE)
    oldest = int(project["requires-python"].removeprefix(">=3."))
    assert re.findall(r"3\.(\d+)", matrix) == [str(minor) for minor in range(oldest, 15)]
    assert re.search(r"^\s+- run: \.ci/run$", workflow, re.MULTILINE)
