"""What the benchmarks of the field share: results and scores on disk, tables on a page, pictures."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from lightgbm import LGBMClassifier
from sklearn.model_selection import StratifiedKFold, cross_val_predict

Array = np.ndarray


def data_file(*parts: str, source: str) -> Path:
    """Return a file of the folder that FAIRBOUND_DATA names; end with a sentence if it is missing."""
    path = Path(os.environ.get("FAIRBOUND_DATA", "."), *parts)
    if not path.exists():
        raise SystemExit(f"{path} is missing: get it from {source}, and name its folder in FAIRBOUND_DATA.")
    return path


class Results:
    """Results of runs, one line of JSON for each; a run that the file holds is not repeated."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.runs: list[dict[str, Any]] = []
        if path.exists():
            self.runs = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

    def find(self, **key: Any) -> dict[str, Any] | None:
        """Return the run with these values."""
        return next((run for run in self.runs if all(run.get(name) == value for name, value in key.items())), None)

    def get(self, make: Callable[[], Mapping[str, Any]], **key: Any) -> dict[str, Any]:
        """Return the run with these values; make and store it if there is none."""
        found = self.find(**key)
        if found is None:
            found = {**key, **make()}
            self.runs.append(found)
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(found) + "\n")
        print(json.dumps(found), flush=True)
        return found


def cross_fitted(path: Path, base: LGBMClassifier, X: Any, y: Array, *others: Any) -> tuple[list[Array], float]:
    """Return the base's probabilities of the training rows, each from a fold without it, and of other rows.

    The second value is the processor time.  Scores are stored, so that many bounds can be tried on them.
    """
    if path.exists():
        with np.load(path) as stored:
            return [stored[f"arr_{place}"] for place in range(1 + len(others))], float(stored["seconds"])
    start = time.process_time()
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    scores = [cross_val_predict(base, X, y, cv=folds, method="predict_proba")]
    base.fit(X, y)
    scores += [base.predict_proba(other) for other in others]
    seconds = time.process_time() - start
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".part.npz")
    np.savez(draft, *scores, seconds=seconds)
    draft.replace(path)
    return scores, seconds


def write_between(page: Path, name: str, lines: Sequence[str]) -> None:
    """Write lines into a page, between the comments `<!-- name -->` and `<!-- end of name -->`."""
    first, last = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
    whole = page.read_text(encoding="utf-8")
    head, found, rest = whole.partition(first)
    _, end, tail = rest.partition(last)
    if not (found and end):
        raise SystemExit(f"{page} has no lines {first.strip()} and {last.strip()} to write between.")
    page.write_text("".join([head, first, "\n", "\n".join(lines), "\n\n", last, tail]), encoding="utf-8")


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table in Markdown."""
    return [f"| {' | '.join(line)} |" for line in (heads, ["---"] * len(heads), *rows)]


def said_versions(*names: str) -> str:
    """Return versions and the date, in one sentence."""
    found = []
    for name in names:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"{name} (absent)")
    return f"Python {platform.python_version()}, {', '.join(found)}; {date.today():%d %B %Y}."


def draw(
    path: Path, labels: tuple[str, str], series: Mapping[str, tuple[Sequence[tuple[float, float]], Mapping[str, Any]]]
) -> None:
    """Draw accuracy, in percent, against a measure: for each name, its points and their style."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "fairbound"
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7.5, 4.2))
    for name, (points, style) in series.items():
        across, up = zip(*sorted(points), strict=True) if points else ((), ())
        axes.plot(across, [100 * accuracy for accuracy in up], label=name, **{"markersize": 6, **style})
    axes.set_xlabel(labels[0])
    axes.set_ylabel(labels[1])
    axes.legend(frameon=False, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
