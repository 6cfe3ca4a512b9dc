"""Counts of the package: its mass, and one `fairbound train` and one `fairbound frontier` on the Law School data.

The mass is the number of code lines and of tokens by package; docstrings and comments do not count.

Of the runs: how many functions and modules a run goes through, how often it crosses from one room of the package to
another, and how often the same rows are sorted, the same limits compiled and the same columns encoded.  The forecast of
a model for new rows needs fits to parts of the rows, which are counted by themselves.  A crossing is a call of a
function of one room by a function of another, properties included; the tools at the top of the package (`_files`,
`_words`) belong to no room.  Most crossings are made once for each pass over the rows, so the number of passes is
printed beside them.  Nothing is timed, so the figures are the same on every machine.

    .venv/bin/python benchmarks/house.py --mass
    .venv/bin/python benchmarks/house.py --crossings
"""

import argparse
import ast
import contextlib
import io
import os
import sys
import tempfile
import tokenize
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import fairbound
from fairbound.cli.program import make_program

PACKAGE = str(Path(fairbound.__file__).parent) + os.sep
TRAIN = ["train", "law", "--require", "disparate_impact >= 0.9", "--quiet"]
BOUNDS = ("0.8", "0.85", "0.9", "0.95")
FRONTIER = ["frontier", "law", "--measure", "disparate_impact", "--bounds", *BOUNDS, "--quiet"]
COUNTED = ("Cells.build", "encode_labels", "as_constraints", "ConstraintSystem.build")
ENCODER = "TableEncoder.encode"
FIT = "Continuation.keep_limits"
FORECAST = ("Outlook.tighten", "Outlook.forecast_all")
PASSES = "TrainingProblem.sweep"
SOLVER = {"training", "fairness", "sqp"}
NOT_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


def weigh_source(source: str) -> tuple[int, int]:
    """Return the number of code lines and of tokens of a module; docstrings and comments do not count."""
    texts = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    ]
    skipped = {line for node in texts for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    tokens = [
        token
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type not in NOT_CODE and token.start[0] not in skipped
    ]
    return len({line for token in tokens for line in range(token.start[0], token.end[0] + 1)}), len(tokens)


def measure_mass(folder: Path = Path(PACKAGE)) -> dict[str, tuple[int, int]]:
    """Return the number of code lines and of tokens by package, the heaviest first; "root" has the modules of none."""
    lines, tokens = Counter[str](), Counter[str]()
    for path in sorted(folder.rglob("*.py")):
        inside = path.relative_to(folder).parts
        package = inside[0] if len(inside) > 1 else "root"
        weight = weigh_source(path.read_text(encoding="utf-8"))
        lines[package] += weight[0]
        tokens[package] += weight[1]
    return {package: (many, tokens[package]) for package, many in lines.most_common()}


class House:
    """Counts calls by function, crossings by pair of rooms, and encodings by set of rows, while it is switched on."""

    def __init__(self) -> None:
        self.places: dict[CodeType, tuple[str, str] | None] = {}
        self.calls: Counter[str] = Counter()
        self.crossings: Counter[tuple[str, str]] = Counter()
        self.encoded: Counter[int] = Counter()
        self.fits: Counter[int] = Counter()
        self.forecasts, self.for_forecasts = 0, 0  # now under way; crossings in them

    def place(self, code: CodeType) -> tuple[str, str] | None:
        """Return the module of a function, as a path within the package, and its room; None outside of the package."""
        if code not in self.places:
            inside = code.co_filename.removeprefix(PACKAGE)
            self.places[code] = None if inside == code.co_filename else (inside, inside.split(os.sep)[0])
        return self.places[code]

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Count one event of `sys.setprofile`."""
        if event in ("call", "return") and frame.f_code.co_qualname in FORECAST:
            self.forecasts += 1 if event == "call" else -1
        here = self.place(frame.f_code) if event == "call" else None
        if here is None or frame.f_code.co_name == "<module>":
            return
        name = frame.f_code.co_qualname
        self.calls[f"{here[0]}:{name}"] += 1
        if name == ENCODER:
            self.encoded[frame.f_locals["inputs"].n_rows] += 1
        if name == FIT:
            problem = frame.f_locals["problem"]
            self.fits[problem.cells.n_rows] += bool(problem.system.constraints)
        there = None if frame.f_back is None else self.place(frame.f_back.f_code)
        if there is not None and there[1] != here[1] and not {here[1][0], there[1][0]} & {"_"}:
            self.crossings[there[1], here[1]] += 1
            self.for_forecasts += self.forecasts

    def count(self, run: Callable[[], None]) -> None:
        """Run something with the counters on."""
        sys.setprofile(self)
        try:
            run()
        finally:
            sys.setprofile(None)

    def of(self, name: str) -> int:
        """Return the calls of the function whose qualified name that is, in whichever module it is defined."""
        return sum(calls for function, calls in self.calls.items() if function.partition(":")[2] == name)

    @property
    def outside_solver(self) -> int:
        """Return the crossings that are not between the rooms of the solver."""
        return sum(calls for rooms, calls in self.crossings.items() if not SOLVER.issuperset(rooms))


def command(arguments: Sequence[str]) -> Callable[[], None]:
    """Return a function that runs a command of fairbound in this process, without a word."""

    def run() -> None:
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            try:
                make_program()([*arguments, "--out", str(Path(folder) / "run")], prog_name="fairbound")
            except SystemExit as stop:
                if stop.code not in (0, 1):
                    raise

    return run


def main() -> None:
    """Print the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--crossings", action="store_true", help="list the crossings by pair of rooms")
    parser.add_argument("--mass", action="store_true", help="count code lines and tokens by package, and run nothing")
    options = parser.parse_args()
    write = sys.stdout.write
    if options.mass:
        mass = measure_mass()
        sums = tuple(map(sum, zip(*mass.values(), strict=True)))
        for package, (lines, tokens) in (*mass.items(), ("all", sums)):
            write(f"{package:12} {lines:7,} lines {tokens:8,} tokens\n")
        return
    command(TRAIN)()  # imports are no part of a run
    train, frontier = House(), House()
    train.count(command(TRAIN))
    frontier.count(command(FRONTIER))
    modules = {name.partition(":")[0] for name in train.calls}
    write(f"train: {len(train.calls):,} functions in {len(modules)} modules\n")
    crossings = f"{train.crossings.total():,}, {train.for_forecasts:,} of them for the forecast"
    write(f"  {'crossings between rooms':<28} {crossings}\n")
    write(f"  {'outside the solver':<28} {train.outside_solver:,}\n")
    write(f"  {'passes over the rows':<28} {train.of(PASSES):,}\n")
    for name in COUNTED:
        write(f"  {name:<28} {train.of(name)}\n")
    for rows, times in train.encoded.items():
        write(f"  {ENCODER + f', {rows:,} rows':<28} {times}\n")
    rows = max(frontier.fits)
    part = frontier.fits.total() - frontier.fits[rows]
    write(f"frontier: {len(BOUNDS)} bounds, {frontier.fits[rows]} fits under limits to all {rows:,} rows\n")
    write(f"  {'fits to a part of the rows':<28} {part}\n")
    if options.crossings:
        for (one, other), calls in train.crossings.most_common():
            write(f"  {one:>12} -> {other:<12} {calls:,}\n")


if __name__ == "__main__":
    main()
