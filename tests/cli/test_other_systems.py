"""What other systems lack, taken away from this one: Windows has no SIGHUP and no fcntl."""

from __future__ import annotations

from tests.cli.helpers import LOAN_COLUMNS, loan_rows, write_csv
from tests.cli.processes import call

WINDOWS = """
import signal, sys
del signal.SIGHUP
sys.modules["fcntl"] = None
sys.argv[0] = "fairbound"
from fairbound.cli import main
main(sys.argv[1:])
"""


def test_a_run_needs_nothing_that_windows_lacks(tmp_path):
    write_csv(tmp_path / "loans.csv", LOAN_COLUMNS, loan_rows(300))
    limit = ["--sensitive", "sex", "--require", "disparate_impact >= 0.5", "--quiet"]
    done = call(["train", "loans.csv", "--target", "approved", *limit, "--out", "run"], tmp_path, program=WINDOWS)
    assert done.returncode in (0, 1), done.stderr
    assert (tmp_path / "run" / "summary.json").exists()
