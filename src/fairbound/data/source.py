"""What is known of a data set before it is read: its file, how to parse it, and what its columns mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from fairbound.data.columns import Column
from fairbound.data.delimited import read_delimited
from fairbound.data.files import DataFile, Place, opened
from fairbound.data.parquet import read_parquet
from fairbound.data.table import Columns

Parser = Callable[[list[BinaryIO], str], Columns]


def parse_plain(streams: list[BinaryIO], name: str) -> Columns:
    """Read a file with a line of column names (CSV), or a Parquet file, by the ending of its name."""
    reader = read_parquet if name.endswith(".parquet") else read_delimited
    return reader(streams[0], place=name)


@dataclass(frozen=True)
class SensitiveColumn:
    """A sensitive column: the name users see, the column of the file, and the word for each of its codes."""

    name: str
    column: str
    labels: Mapping[Any, str]


@dataclass(frozen=True)
class PaperEncoding:
    """How the paper's experiments read a data set (see `fairbound.data.paper`).

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
    """A data set as it is known before it is read.

    Parameters
    ----------
    file : DataFile
        Where the rows are.
    inputs : tuple of Column
        The schema of the inputs.
    sensitive : tuple of SensitiveColumn
        The sensitive columns, which are inputs only when asked for.
    target : str
        Column of the label, which holds 0 and 1 after parsing.
    target_names : pair of str
        Words for the labels 0 and 1.
    description : str
        Where the rows come from.
    parse : callable
        From the open file (or the members of the archive) and its name to the columns.
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
        with opened(self.file, place) as streams:
            return self.parse(streams, self.file.filename)


def codes(*values: int) -> dict[int, str]:
    """Labels of categories whose codes are their only names."""
    return {value: str(value) for value in values}
