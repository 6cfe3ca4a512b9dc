"""Limits on rows that nobody has seen: plain fits, fits with a margin, and certified ones, and their forecasts.

Data: ACSIncome, all states 2018 (765,670 rows).  Each draw takes 50,000 rows for training and 20,000 for calibration.
The remaining rows stand for the population; they are called the truth.  The limits are on the ratio of selection
rates, by sex or by race.  By race, groups of fewer than 500 training rows are left out of the data.

    plain       trained under the limit itself on the training rows
    margin      `margin="auto"`, on the same rows
    certified   `confidence=0.95`, tested on the calibration rows
    truth       trained under the limit on the truth itself: what a model that keeps it there costs (not by default)

`--results` names a file with one line of JSON for each model; an interrupted run continues from it.  `--out` writes the
tables as Markdown.  `--tables-only` trains nothing.  The data file is needed: see `load_dataset`.

`--planted` runs small fits on made-up rows instead: two groups, two columns that matter, and columns of noise.  There
40,000 further rows stand for the population.  The last table compares the probabilities of the forecasts with how often
the limits held.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from _shared import planted_rows
from rich.console import Console

from fairbound import ConstrainedClassifier, Dataset, DisparateImpact, load_dataset

TRAINING, CALIBRATION, LEAST = 50_000, 20_000, 500
KINDS = ("plain", "margin", "certified", "truth")
SETTINGS: dict[str, tuple[str, float, tuple[int, ...]]] = {
    "sex-0.8": ("sex", 0.8, ()),
    "sex-0.9": ("sex", 0.9, ()),
    "race-0.8": ("race", 0.8, ()),
    "sex-0.8-hidden": ("sex", 0.8, (32,)),
    "sex-0.9-hidden": ("sex", 0.9, (32,)),
}
"""Column of groups, limit, and widths of hidden layers."""


@dataclass(frozen=True)
class Outcome:
    """One model of one draw: its forecast, and what it reaches on the truth; None if no model was certified."""

    setting: str
    kind: str
    draw: int
    ratio: float | None
    accuracy: float | None
    expected: float | None
    lower: float | None
    upper: float | None
    holds: float | None
    seconds: float

    @property
    def key(self) -> tuple[str, str, int]:
        """Return the key of the model."""
        return self.setting, self.kind, self.draw


def group_codes(data: Dataset, column: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the names of the groups, and the place of each row's group among them."""
    return np.unique(data.groups(column).astype(str), return_inverse=True)


def judge(data: Dataset, coded: tuple[np.ndarray, np.ndarray], setting: str, kind: str, draw: int) -> Outcome:
    """Train one model, and measure it on the truth; `coded` has the groups of all rows, by `group_codes`."""
    column, bound, hidden = SETTINGS[setting]
    names, codes = coded
    order = np.random.default_rng(draw).permutation(len(data))
    training, calibration = order[:TRAINING], order[TRAINING : TRAINING + CALIBRATION]
    truth = np.sort(order[TRAINING + CALIBRATION :])
    large = np.bincount(codes[training], minlength=len(names)) >= LEAST
    training, calibration, truth = (rows[large[codes[rows]]] for rows in (training, calibration, truth))
    if kind == "truth":
        training = truth
    clf = ConstrainedClassifier(DisparateImpact(bound), hidden=hidden)
    further: dict[str, Any] = {}
    if kind == "margin":
        clf.set_params(margin="auto")
    if kind == "certified":
        clf.set_params(confidence=0.95)
        further["calibration_set"] = data.X[calibration], data.y[calibration], {column: names[codes[calibration]]}
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what they warn of is what is counted here
        clf.fit(data.X[training], data.y[training], sensitive_features={column: names[codes[training]]}, **further)
    seconds = time.process_time() - start
    ratio = accuracy = None
    if kind != "certified" or clf.result_.certified:
        decided, there = clf.predict(data.X[truth]), codes[truth]
        rates = [float(decided[there == group].mean()) for group in np.flatnonzero(large)]
        ratio, accuracy = min(rates) / max(rates), float((decided == data.y[truth]).mean())
    found = clf.result_.forecast
    limit = found.limits[0] if found is not None and found.limits else None
    said = (None,) * 4 if limit is None else (limit.expected, limit.lower, limit.upper, limit.holds)
    return Outcome(setting, kind, draw, ratio, accuracy, *said, seconds)


PLANTED = {
    "600 x 5, 0.8": (600, 5, 0.8),
    "600 x 13, 0.8": (600, 13, 0.8),
    "600 x 33, 0.9": (600, 33, 0.9),
    "1500 x 13, 0.8": (1500, 13, 0.8),
    "3000 x 13, 0.9": (3000, 13, 0.9),
}
"""Rows, columns, and limit."""

PLANTED_KINDS = {"plain": None, "margin 0.6": 0.6, "margin 0.8": 0.8}


def judge_planted(setting: str, kind: str, draw: int) -> Outcome:
    """Train one model on planted rows, and measure it on 40,000 others."""
    n, columns, bound = PLANTED[setting]
    X, y, group = planted_rows(n, columns, draw)
    there, labels, groups = planted_rows(40_000, columns, 10_000 + draw)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = ConstrainedClassifier(DisparateImpact(bound), margin=PLANTED_KINDS[kind])
        clf.fit(X, y, sensitive_features=group)
    seconds = time.process_time() - start
    decided = clf.predict(there)
    rates = [float(decided[groups == name].mean()) for name in (0, 1)]
    (limit,) = clf.result_.forecast.limits
    said = (limit.expected, limit.lower, limit.upper, limit.holds)
    return Outcome(setting, kind, draw, min(rates) / max(rates), float((decided == labels).mean()), *said, seconds)


def read_results(path: Path | None) -> dict[tuple[str, str, int], Outcome]:
    """Return the outcomes of an earlier run."""
    if path is None or not path.exists():
        return {}
    found = [Outcome(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
    return {each.key: each for each in found}


HEADINGS = [
    "limit",
    "model",
    "draws",
    "keeps the limit on the truth",
    "none certified",
    "mean ratio",
    "mean shortfall",
    "accuracy",
    "points below plain",
    "truth in the 90% interval",
    "mean forecast",
    "mean probability to hold",
    "seconds",
]


def bound_of(setting: str) -> float:
    """Return the limit of a setting."""
    return SETTINGS[setting][1] if setting in SETTINGS else PLANTED[setting][2]


def summarise(outcomes: Sequence[Outcome], setting: str) -> Iterator[list[str]]:
    """Yield one row of the table for each kind of model."""
    bound = bound_of(setting)
    plain = {each.draw: each.accuracy for each in outcomes if (each.setting, each.kind) == (setting, "plain")}
    for kind in dict.fromkeys((*KINDS, *PLANTED_KINDS)):
        draws = [each for each in outcomes if (each.setting, each.kind) == (setting, kind)]
        if not draws:
            continue
        returned = [each for each in draws if each.ratio is not None]
        forecast = [each for each in returned if each.expected is not None]
        costs = [100 * (plain[each.draw] - each.accuracy) for each in returned if each.draw in plain]
        kept = sum(each.ratio >= bound for each in returned)
        inside = sum(each.lower <= each.ratio <= each.upper for each in forecast)
        yield [
            setting,
            kind,
            str(len(draws)),
            f"{kept} of {len(returned)}",
            str(len(draws) - len(returned)),
            _mean([each.ratio for each in returned], 4),
            _mean([max(0.0, bound - each.ratio) for each in returned], 4),
            _mean([100 * each.accuracy for each in returned], 2) + "%",
            _mean(costs, 2) if kind != "plain" else "",
            f"{inside} of {len(forecast)}",
            _mean([each.expected for each in forecast], 4),
            _mean([each.holds for each in forecast], 2),
            _mean([each.seconds for each in draws], 1),
        ]


CLASSES = (0.0, 0.05, 0.2, 0.4, 0.6, 0.8, 1.0)
"""Ends of the classes of forecasts, by their probability to hold."""


def calibration(outcomes: Sequence[Outcome]) -> Iterator[list[str]]:
    """Yield one row for each class of forecasts: how many limits held on the truth, and how many were said to."""
    told = [each for each in outcomes if each.ratio is not None and each.holds is not None]
    for low, high in pairwise(CLASSES):
        there = [each for each in told if low <= each.holds < high or each.holds == high == 1.0]
        if there:
            held = sum(each.ratio >= bound_of(each.setting) for each in there)
            said = sum(each.holds for each in there)
            yield [f"{low:g} to {high:g}", str(len(there)), f"{said:.1f}", str(held)]


def _mean(values: Sequence[float], digits: int) -> str:
    return f"{statistics.mean(values):.{digits}f}" if values else "-"


CALIBRATION_HEADINGS = ["probability to hold, by the forecast", "fits", "expected to hold", "held on the truth"]


def as_markdown(rows: Sequence[Sequence[str]], headings: Sequence[str]) -> str:
    """Return a table as Markdown."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main() -> None:
    """Run the draws and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="number of the first draw")
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS[:3]))
    parser.add_argument("--results", type=Path, help="JSON lines to go on from, and to add to")
    parser.add_argument("--out", type=Path, help="write the table as Markdown")
    parser.add_argument("--tables-only", action="store_true", help="train nothing")
    parser.add_argument("--planted", action="store_true", help="small fits on planted data instead")
    options, console = parser.parse_args(), Console(width=200)
    settings = list(PLANTED) if options.planted else options.settings
    kinds = list(PLANTED_KINDS) if options.planted else options.kinds
    known = read_results(options.results)
    wanted = [
        (setting, kind, draw)
        for draw in range(options.first, options.first + options.draws)
        for setting in settings
        for kind in kinds
        if (setting, kind, draw) not in known
    ]
    if wanted and not options.tables_only:
        try:
            data = None if options.planted else load_dataset("acsincome_us")
        except FileNotFoundError as error:
            console.print(f"Skipped: {error}", highlight=False)
            return
        columns = {SETTINGS[setting][0] for setting in settings} if data is not None else ()
        coded = {column: group_codes(data, column) for column in columns}
        for key in wanted:
            outcome = judge_planted(*key) if data is None else judge(data, coded[SETTINGS[key[0]][0]], *key)
            known[key] = outcome
            console.print(json.dumps(asdict(outcome)), highlight=False)
            if options.results is not None:
                with options.results.open("a", encoding="utf-8") as stream:
                    stream.write(json.dumps(asdict(outcome)) + "\n")
    found = list(known.values())
    tables = [
        as_markdown([row for setting in (*SETTINGS, *PLANTED) for row in summarise(found, setting)], HEADINGS),
        as_markdown(list(calibration([each for each in found if each.kind != "certified"])), CALIBRATION_HEADINGS),
    ]
    console.print("\n".join(tables), highlight=False)
    if options.out is not None:
        options.out.write_text("\n".join(tables), encoding="utf-8")


if __name__ == "__main__":
    main()
