"""The names of the package itself."""

import subprocess
import sys

import pytest

import fairbound


def test_every_public_name_has_a_home() -> None:
    assert set(fairbound.__all__) == set(fairbound._HOMES)
    assert all(getattr(fairbound, name) is not None for name in fairbound.__all__)
    assert set(fairbound.__all__) <= set(dir(fairbound))


def test_importing_the_package_does_not_import_torch() -> None:
    code = "import sys, fairbound; raise SystemExit('torch' in sys.modules or 'sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'FairClassifier'"):
        _ = fairbound.FairClassifier
