"""Whatever the table and the settings: summary, exit code, saved records and a recount by hand agree."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from tests.cli.helpers import write_csv

from fairbound.cli.output import load_model
from fairbound.studies import Study

NAMES = ("everyone", "overall", "all", "(other)", "(missing)", "a & b", "x", "true", "7", 'say "no"', "[y]")
LEAST = 12


class Case:
    """A random table of people in groups of odd names and sizes, and how to train on it."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.classes = ["no", "yes"] if rng.random() < 0.7 else ["high", "low", "mid"]
        self.columns = ["kind", "place"][: rng.integers(1, 3)]
        self.combine = str(rng.choice(["each", "intersection", "both"])) if len(self.columns) > 1 else "each"
        self.small = str(rng.choice(["warn", "merge", "error"], p=[0.4, 0.4, 0.2]))
        n = int(rng.integers(150, 300))
        groups = {}
        for name in self.columns:
            known = rng.choice(NAMES, int(rng.integers(2, 5)), replace=False)
            shares = rng.dirichlet(np.ones(len(known))) + (0.25 if self.small == "error" else 0.02)
            groups[name] = rng.choice(known, n, p=shares / shares.sum()).astype(object)
            if rng.random() < 0.5:
                groups[name][rng.random(n) < 0.05] = ""
        shift = (groups["kind"] == groups["kind"][0]).astype(float)
        score = rng.normal(size=n) + shift
        label = np.digitize(
            score + rng.normal(size=n), np.quantile(score, np.linspace(0, 1, len(self.classes) + 1)[1:-1])
        )
        self.header = ("score", "other", *self.columns, "label")
        other = rng.normal(size=n).round(3)
        self.rows = list(zip(score.round(3), other, *groups.values(), np.array(self.classes)[label], strict=True))
        self.limits = [f"disparate_impact >= {rng.choice([0.5, 0.7, 0.9])}"]
        if rng.random() < 0.5:
            self.limits.append(f"demographic_parity <= {rng.choice([0.1, 0.3])}")
        if rng.random() < 0.5:
            self.limits.append(f"selection_rate >= {rng.choice([0.1, 0.3])}")

    def arguments(self) -> list[str]:
        """Options of train and frontier alike."""
        label = ["--positive", "yes"] if len(self.classes) == 2 else ["--multiclass"]
        settings = ["--groups", self.combine, "--small-groups", self.small, "--min-group-size", str(LEAST)]
        return ["--target", "label", *label, "--sensitive", *self.columns, *settings, "--test", "0.3", "--json"]


class Recount:
    """Groups and rates of some rows, by numpy alone."""

    def __init__(self, case: Case, training: dict[str, np.ndarray], columns: dict[str, np.ndarray]) -> None:
        self.groups: dict[str, dict[object, np.ndarray]] = {}
        there = _groupings(case, columns)
        for name, values in _groupings(case, training).items():
            here = there[name]
            sizes = {
                group: sum(each == group for each in values) for group in dict.fromkeys(values) if group is not None
            }
            few = [group for group, rows in sizes.items() if rows < LEAST]
            pool = list(few)
            if few and case.small == "merge":
                for group in sorted(sizes, key=lambda each: (sizes[each], sorted(sizes, key=str).index(each))):
                    if group not in pool and sum(sizes[each] for each in pool) < LEAST:
                        pool.append(group)
            kept = {group: np.array([each == group for each in here]) for group in sizes if group not in pool}
            unseen = [each for each in dict.fromkeys(here) if each is not None and each not in sizes]
            if case.small == "error":
                kept |= {group: np.array([each == group for each in here]) for group in unseen}
            if few and case.small == "merge":
                kept["pool"] = np.array([each in pool or each in unseen for each in here])
            self.groups[name] = kept

    def rates(self, prediction: np.ndarray, label: str) -> list[list[float]]:
        """Return the selection rates of one class by grouping, of groups with rows."""
        return [
            [float(np.mean(prediction[rows] == label)) for rows in groups.values() if rows.any()]
            for groups in self.groups.values()
        ]

    def measured(self, limit: str, prediction: np.ndarray, classes: list[str]) -> float | None:
        """Return the value of a limit: over all groupings and classes the worst."""
        wanted = classes[1:] if len(classes) == 2 else classes
        rates = [found for label in wanted for found in self.rates(prediction, label)]
        if limit.startswith("selection_rate"):
            return min(itertools.chain(*rates), default=None)
        rates = [found for found in rates if len(found) > 1]
        if limit.startswith("demographic_parity"):
            return max((max(found) - min(found) for found in rates), default=None)
        return min((1.0 if max(found) == 0 else min(found) / max(found) for found in rates), default=None)


def _groupings(case: Case, columns: dict[str, np.ndarray]) -> dict[str, list[object]]:
    """Return the group of each row, None where it is not known, for each grouping."""
    single = {
        name: [None if value in (None, "") else value for value in columns[name].tolist()] for name in case.columns
    }
    crossed = [None if None in pair else pair for pair in zip(*single.values(), strict=True)]
    found = single if case.combine in ("each", "both") or len(single) == 1 else {}
    return found if case.combine == "each" or len(single) == 1 else {**found, " & ".join(single): crossed}


def _keeps(limit: str, value: float) -> bool:
    bound = float(limit.split()[-1])
    return value >= bound - 1e-12 if ">=" in limit else value <= bound + 1e-12


def _check_model(case, study, model, limits, said) -> None:
    """Compare the record of a saved model, and what the summary says, with a recount of `predict`."""
    training = study.training
    decided = model.predict(training.X)
    recount = Recount(case, training.sensitive, training.sensitive)
    assert model.result_.accuracy == pytest.approx(np.mean(decided == training.y), abs=1e-12)
    for place, limit in enumerate(limits):
        value = recount.measured(limit, decided, case.classes)
        record = model.result_.limits[place]
        assert record.limit == limit
        assert record.reached == pytest.approx(value, abs=1e-9)
        assert record.kept == _keeps(limit, value)
        if said[place] is not None:
            assert (said[place]["value"], said[place]["kept"]) == (record.reached, record.kept)
    for name, groups in recount.groups.items():
        records = {each.group: each for each in model.result_.groups if each.grouping == name}
        assert len(records) == len(groups)
        for group, rows in groups.items():
            each = records[group] if group != "pool" else list(records.values())[-1]
            assert each.rows == rows.sum()
            for label, rates in each.rates.items():
                assert rates["selection_rate"] == pytest.approx(np.mean(decided[rows] == label), abs=1e-12)


def _captured(monkeypatch) -> list[Study]:
    found: list[Study] = []
    whole = Study.run

    def run(self, *arguments, **options):
        found.append(self)
        return whole(self, *arguments, **options)

    monkeypatch.setattr(Study, "run", run)
    return found


def _read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def _check(fairbound, tmp_path, monkeypatch, seed: int) -> int:
    """Train and trace a frontier on a random table; return how many models were compared."""
    case, studies = Case(seed), _captured(monkeypatch)
    table = write_csv(tmp_path / f"t{seed}.csv", case.header, case.rows)
    requirements = [word for limit in case.limits for word in ("--require", limit)]
    train = fairbound("train", table, *case.arguments(), *requirements, "--out", f"train{seed}")
    assert train.code in (0, 1, 2), train.stderr
    if train.code == 2:  # such as groups that are too small together: said before anything is written
        assert not (tmp_path / f"train{seed}").exists()
        return 0
    run, study = tmp_path / f"train{seed}", studies[-1]
    summary = _read(run / "summary.json")
    model = load_model(str(run))
    _check_model(case, study, model, case.limits, [limit["after"] for limit in summary["training"]["limits"]])
    held_out, kept = study.held_out, model.result_.kept
    recount = Recount(case, study.training.sensitive, held_out.sensitive)
    for limit, found in zip(case.limits, summary["held_out"]["limits"], strict=True):
        value = recount.measured(limit, model.predict(held_out.X), case.classes)
        assert found["after"]["value"] == (None if value is None else pytest.approx(value, abs=1e-9))
        kept = kept and (value is None or _keeps(limit, value))
    assert summary["kept"] == kept
    accuracy = summary["held_out"]["accuracy"]
    assert (train.code == 0) == (kept and accuracy["after"]["value"] > accuracy["constant"])
    bounds = [0.5, 0.8, 0.8 + 1e-9]
    swept = fairbound(
        "frontier", table, *case.arguments(), *requirements[2:], "--bounds", *bounds, "--out", f"frontier{seed}"
    )
    assert swept.code in (0, 1), swept.stderr
    run = tmp_path / f"frontier{seed}"
    points = _read(run / "summary.json")["frontier"]
    assert len(points) == len(list((run / "models").iterdir())) == 3
    for bound, point in zip(bounds, points, strict=True):
        limits = [f"disparate_impact >= {bound!r}", *case.limits[1:]]
        reached = point["training"]
        each = load_model(str(run / "models" / repr(bound)))
        _check_model(case, studies[-1], each, limits, [reached, *[None] * (len(limits) - 1)])
        assert each.result_.accuracy == pytest.approx(point["training"]["accuracy"]["value"], abs=1e-12)
    chosen = _read(run / "summary.json")
    assert [limit["after"]["kept"] for limit in chosen["training"]["limits"]] == [
        limit.kept for limit in load_model(str(run)).result_.limits
    ]
    return 4


@pytest.mark.parametrize("seed", [0, 3, pytest.param(4, marks=pytest.mark.slow)])
def test_everything_agrees(fairbound, tmp_path, monkeypatch, seed):
    _check(fairbound, tmp_path, monkeypatch, seed)


@pytest.mark.slow
def test_everything_agrees_in_a_hundred_cases(fairbound, tmp_path, monkeypatch):
    compared = sum(_check(fairbound, tmp_path, monkeypatch, seed) for seed in range(100, 200))
    assert compared > 200
