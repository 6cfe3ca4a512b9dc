"""The command line, `fairbound …` or `python -m fairbound …`: a thin layer over the library.

One module for each group of commands.  Importing them loads neither torch nor scikit-learn.  Each command imports
what it uses when it runs, so that `--help` and errors about arguments are fast.  Exit codes are in `program`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from fairbound._errors import missing_extra


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program with the given arguments, by default those of the process, and exit."""
    try:
        import rich  # noqa: F401  # an extra, and said here once for all commands
        import typer  # noqa: F401
    except ImportError:
        sys.stderr.write(f"fairbound: {missing_extra('The command line needs', 'typer and rich', 'cli')}\n")
        sys.exit(2)
    # By default, threads of OpenMP use the processor while they wait.  Boosted trees have many short parallel sections,
    # so on a busy machine the waiting took five times as long as the work.  Libraries read this setting when they load.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from fairbound.cli.program import make_program

    make_program()(args=None if arguments is None else list(arguments), prog_name="fairbound")
