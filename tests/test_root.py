"""The names of the package itself."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import fairbound

PACKAGE = Path(fairbound.__file__).parent


def test_every_public_name_has_a_home() -> None:
    assert set(fairbound._HOMES) == {*fairbound.__all__, "StochasticSQP", "StratifiedBatches"}  # these need torch
    assert all(getattr(fairbound, name) is not None for name in fairbound._HOMES)
    assert set(fairbound.__all__) <= set(dir(fairbound))


def test_there_are_about_thirty_names() -> None:
    assert 25 <= len(fairbound.__all__) <= 36


@pytest.mark.parametrize("room", sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py")))
def test_no_function_hides_the_module_of_its_name(room: str) -> None:
    modules = {path.stem for path in (PACKAGE / room).glob("*.py")}
    public = getattr(import_module(f"fairbound.{room}"), "__all__", [])
    assert modules.isdisjoint(public)


def test_importing_the_package_does_not_import_torch() -> None:
    code = "import sys, fairbound; raise SystemExit('torch' in sys.modules or 'sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


AUDITING = """
import sys
from fairbound import DisparateImpact, Measure, audit, certify, load_dataset, rate_limit
from fairbound.fairness import parse_constraint
rows = [0, 1] * 50, [0, 1, 1, 1] * 25, ["a", "a", "b", "b"] * 25
assert audit(*rows, sample_weight=[1, 2, 3, 4] * 25, groups="both").measure("equalized_odds").value is not None
assert certify(*rows, ["disparate_impact >= 0.1", "selection_rate >= 0.1", "covariance <= 0.2"]).limits
load_dataset("law")
"""

COMMAND = """
import sys
from fairbound.cli.program import make_program
try:
    make_program()({arguments!r}, prog_name="fairbound")
except SystemExit as stop:
    assert stop.code in (0, 1), stop.code
"""


@pytest.mark.parametrize(
    "code",
    [
        AUDITING,
        COMMAND.format(arguments=["--help"]),
        COMMAND.format(arguments=["audit", "x.csv", "--target", "y", "--prediction", "p", "--sensitive", "g"]),
        COMMAND.format(
            arguments=["certify", "x.csv", "--target=y", "--prediction=p", "--sensitive=g", "--require=accuracy >= 0.1"]
        ),
    ],
    ids=["library", "help", "audit", "certify"],
)
def test_an_audit_does_not_import_torch(code: str, tmp_path: Path) -> None:
    rows = [f"{row % 2},{row // 2 % 2},{'fm'[row % 3 == 0]}" for row in range(60)]
    (tmp_path / "x.csv").write_text("\n".join(["y,p,g", *rows]))
    code += "\nsys.exit('torch was loaded' if 'torch' in sys.modules else 0)"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_fit_does_not_import_sympy(tmp_path: Path) -> None:
    # Some calls of torch import it on first use; that would double the time of a first small fit.
    code = """
import sys
from fairbound import ConstrainedClassifier, load
rows, y, groups = [[i % 7, i % 3] for i in range(60)], [i % 7 > 3 for i in range(60)], [i % 2 for i in range(60)]
limited = ConstrainedClassifier("disparate_impact >= 0.8", hidden=(2,)).fit(rows, y, sensitive_features=groups)
limited.save("model")
load("model").predict(rows)
sys.exit('sympy was loaded' if 'sympy' in sys.modules else 0)
"""
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'FairClassifier'"):
        _ = fairbound.FairClassifier
