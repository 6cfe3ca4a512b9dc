"""The notebooks are those of the pages, and run."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")

DOCS = Path(__file__).parents[1] / "docs"
WITH_TABLES = {"training", "auditing", "any_model"}
MAKE = runpy.run_path(str(DOCS / "make_notebooks.py"))


@pytest.mark.parametrize("page", MAKE["PAGES"])
def test_a_notebook_is_that_of_its_page(page: str) -> None:
    written = (DOCS / "notebooks" / f"{page}.ipynb").read_text(encoding="utf-8")
    assert written == MAKE["notebook"](page), "run `make notebooks`"


@pytest.mark.parametrize("page", MAKE["PAGES"])
def test_a_notebook_runs_and_shows_its_results(page: str, tmp_path: Path) -> None:
    if page == "any_model":
        pytest.importorskip("xgboost")
    notebook = nbformat.read(DOCS / "notebooks" / f"{page}.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", ())]
    assert shown
    if page in WITH_TABLES:
        assert any("<table" in each.get("text/html", "") for each in shown)
