"""The definition of a data set of the catalogue: its file, how to parse it, and what its columns mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from fairbound.data.columns import Column
from fairbound.data.delimited import read_delimited
from fairbound.data.files import DataFile, Place, open_verified
from fairbound.data.parquet import read_parquet
from fairbound.data.table import Columns

Parser = Callable[[list[BinaryIO], str], Columns]


def parse_plain(streams: list[BinaryIO], name: str) -> Columns:
    """Read a Parquet file, if the name ends in ".parquet", or a CSV file with a line of column names."""
    reader = read_parquet if name.endswith(".parquet") else read_delimited
    return reader(streams[0], place=name)


@dataclass(frozen=True)
class SensitiveColumn:
    """A sensitive column: its name for users, the column of the file, and the word for each of its codes."""

    name: str
    column: str
    labels: Mapping[Any, str]


@dataclass(frozen=True)
class PaperEncoding:
    """How the paper's experiments encode a data set (see `fairbound.data.paper`).

    Parameters
    ----------
    sensitive : SensitiveColumn
        The one sensitive column of the experiments.
    input_codes : mapping
        Word of the sensitive column → its number among the inputs.
    flip_label : bool
        Whether label 1 of the experiments is 0 in the file.
    robust : bool
        Whether `RobustScaler` is applied over all rows before the split.
    draw : int, optional
        Number of rows drawn first.
    """

    sensitive: SensitiveColumn
    input_codes: Mapping[str, float]
    flip_label: bool = False
    robust: bool = True
    draw: int | None = None


@dataclass(frozen=True)
class Source:
    """The definition of a data set.

    Parameters
    ----------
    file : DataFile
        The file with the rows.
    inputs : tuple of Column
        The schema of the inputs.
    sensitive : tuple of SensitiveColumn
        The sensitive columns; they are inputs only with `sensitive_as_input`.
    target : str
        Column of the label, which holds 0 and 1 after parsing.
    target_names : pair of str
        Words for the labels 0 and 1.
    description : str
        Where the rows come from.
    parse : callable
        Returns the columns from the open file (or the members of the archive) and its name.
    paper : PaperEncoding, optional
        For the data sets of the paper.
    """

    file: DataFile
    inputs: tuple[Column, ...]
    sensitive: tuple[SensitiveColumn, ...]
    target: str
    target_names: tuple[str, str]
    description: str
    parse: Parser = parse_plain
    paper: PaperEncoding | None = None

    def read(self, place: Place) -> Columns:
        """Return the columns of the verified file."""
        with open_verified(self.file, place) as streams:
            return self.parse(streams, self.file.filename)


def codes(*values: int) -> dict[int, str]:
    """Return labels for categories that have no names but their codes."""
    return {value: str(value) for value in values}
