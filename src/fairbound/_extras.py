"""The error for a missing optional package: it says what to install."""

from __future__ import annotations


def missing_extra(what: str, packages: str, extra: str) -> ImportError:
    """Return the error of a part whose packages are not installed.

    >>> print(missing_extra("Reading Parquet files needs", "pyarrow", "data"))
    Reading Parquet files needs pyarrow: run pip install ".[data]" in the folder of fairbound's source code.
    """
    return ImportError(f'{what} {packages}: run pip install ".[{extra}]" in the folder of fairbound\'s source code.')
