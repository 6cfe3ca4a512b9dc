"""The command line: a thin skin over the library, `fairbound …` or `python -m fairbound …`.

One module for each group of commands.  Importing them loads neither torch nor scikit-learn: each command imports what
it uses when it runs, so that `--help` and errors about arguments answer at once.

    exit code 0    done, and every limit asked for is kept
    exit code 1    a limit is not kept, or not certified
    exit code 2    bad input: one sentence on standard error, nothing written
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

EXTRA = 'The command line needs typer and rich: pip install "fairbound[cli]".'


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program with the given arguments, by default those of the process, and exit."""
    try:
        import rich  # noqa: F401  # an extra, and said here once for all commands
        import typer  # noqa: F401
    except ImportError:
        sys.stderr.write(f"fairbound: {EXTRA}\n")
        sys.exit(2)
    from fairbound.cli.program import program

    program()(args=None if arguments is None else list(arguments), prog_name="fairbound")
