"""What all tests share: data that may be absent, fitted models, hypothesis' settings, and torch's threads."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pooch  # noqa: F401 - its log keeps the stream of the moment it is imported, which a single test may replace
import pytest
import torch

from fairbound import ConstrainedClassifier, Dataset, load_dataset

# The tests solve many small problems, for which handing work to other threads costs more than the work itself.
# The package never sets this; here it also keeps the workers of pytest-xdist from fighting for the cores.
torch.set_num_threads(1)

# No test measures time, so none has a deadline. In CI a red run must come from the change and not from the draw.
hypothesis.settings.register_profile("default-fairbound", deadline=None, print_blob=True)
hypothesis.settings.register_profile("ci-fairbound", deadline=None, print_blob=True, derandomize=True)
hypothesis.settings.load_profile("ci-fairbound" if os.environ.get("CI") else "default-fairbound")


def absent(reason: str, allowed: bool = False) -> None:
    """Skip with a reason; in CI, where everything must be at hand, fail unless the absence is `allowed`."""
    if os.environ.get("CI") and not allowed:
        pytest.fail(f"{reason} (CI is set, so this is a failure and not a skip)", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def data_file() -> Callable[[str], Path]:
    """Return a function that gives the path of a file in the data folder, or skips the test."""

    def find(filename: str) -> Path:
        folder = os.environ.get("FAIRBOUND_DATA")
        if not folder or not (Path(folder) / filename).is_file():
            # A public CI service cannot have the files that we may not ship; it says so with this variable.
            allowed = bool(os.environ.get("FAIRBOUND_WITHOUT_DATA"))
            absent(f"needs {filename}: set the environment variable FAIRBOUND_DATA to a folder that has it", allowed)
        return Path(folder or "") / filename

    return find


@pytest.fixture(scope="session")
def dutch_file(data_file: Callable[[str], Path]) -> Path:
    """Return the path of the Dutch census data; for tests that call `load_dataset("dutch")`."""
    return data_file("dutch.csv")


@pytest.fixture(scope="session")
def acsincome_file(data_file: Callable[[str], Path]) -> Path:
    """Return the path of the Californian ACSIncome data; for tests that call `load_dataset("acsincome")`."""
    return data_file("acsincome_ca_2018_sample.csv")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Start a browser for the pages of one test file."""
    program = shutil.which("chromium")
    if program is None:
        absent("needs a browser: apt-get install chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        absent("needs playwright: pip install playwright")
    with sync_playwright() as playwright:
        # The sandbox needs rights that containers lack; the pages are our own.
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def law() -> Dataset:
    """Every third row of the Law School data: 6,933 rows.  With fewer, a random search takes six times as long."""
    data = load_dataset("law")
    return data.take(range(0, len(data), 3))


@pytest.fixture(scope="session")
def race(law):
    return law.sensitive["race"]


@pytest.fixture(scope="session")
def limited(law, race) -> ConstrainedClassifier:
    """A linear model of the table under a ratio that binds; not to be changed."""
    return ConstrainedClassifier("disparate_impact >= 0.9").fit(law.frame(), law.y, sensitive_features={"race": race})


@pytest.fixture(scope="session")
def network(law, race) -> ConstrainedClassifier:
    """A network under the same ratio; not to be changed."""
    clf = ConstrainedClassifier("disparate_impact >= 0.9", hidden=(8, 4))
    return clf.fit(law.X, law.y, sensitive_features=race)
