"""The names of the package itself."""

import subprocess
import sys
from pathlib import Path

import pytest

import fairbound


def test_every_public_name_has_a_home() -> None:
    assert set(fairbound.__all__) == set(fairbound._HOMES)
    assert all(getattr(fairbound, name) is not None for name in fairbound.__all__)
    assert set(fairbound.__all__) <= set(dir(fairbound))


def test_importing_the_package_does_not_import_torch() -> None:
    code = "import sys, fairbound; raise SystemExit('torch' in sys.modules or 'sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


AUDITING = """
import sys
from fairbound import DisparateImpact, Measure, audit, certify, load_dataset, parse_constraint, rate_limit
rows = [0, 1] * 50, [0, 1, 1, 1] * 25, ["a", "a", "b", "b"] * 25
assert audit(*rows, sample_weight=[1, 2, 3, 4] * 25, groups="both").measure("equalized_odds").value is not None
assert certify(*rows, ["disparate_impact >= 0.1", "selection_rate >= 0.1", "covariance <= 0.2"]).limits
load_dataset("law")
"""

COMMAND = """
import sys
from fairbound.cli.program import program
try:
    program()({arguments!r}, prog_name="fairbound")
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


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'FairClassifier'"):
        _ = fairbound.FairClassifier
