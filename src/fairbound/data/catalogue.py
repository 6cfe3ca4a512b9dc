"""The known data sets, which `catalogue.json` describes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any, BinaryIO

import numpy as np

from fairbound.data.arrays import Arrays
from fairbound.data.arrow import import_pyarrow
from fairbound.data.batches import ArrowTable
from fairbound.data.columns import store
from fairbound.data.delimited import read_delimited
from fairbound.data.files import DataFile, Place, open_verified
from fairbound.data.schema import Banded, Categorical, Column, Numeric, decode

Parser = Callable[[list[BinaryIO], str], Arrays]


def parse_plain(streams: list[BinaryIO], name: str) -> Arrays:
    """Read a Parquet file, if the name ends in ".parquet", or a CSV file with a line of column names."""
    if not name.endswith(".parquet"):
        return read_delimited(streams[0], place=name)
    import_pyarrow()
    from pyarrow.parquet import read_table

    return dict(store(ArrowTable.of(read_table(streams[0]), name).learn()).columns)


@dataclass(frozen=True)
class SensitiveColumn:
    """A sensitive column: its name for users, the column of the file, and the word for each of its codes."""

    name: str
    column: str
    labels: Mapping[Any, str]


@dataclass(frozen=True)
class PaperEncoding:
    """How the paper's experiments encode a data set (see `fairbound.data.loading`).

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
class CatalogueEntry:
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

    def read(self, place: Place) -> Arrays:
        """Return the columns of the verified file."""
        with open_verified(self.file, place) as streams:
            return self.parse(streams, self.file.filename)


def _column(given: Any) -> Column:
    """Return a column of the catalogue: the name of a number, or a category with values, labels or bands."""
    if isinstance(given, str):
        return Numeric(given)
    if "starts" in given:
        return Banded(given["name"], dict(given["starts"]))
    labels: dict[Any, str] = dict(given.get("labels") or ((value, str(value)) for value in given["values"]))
    return Categorical(given["name"], labels | ({None: given["missing"]} if "missing" in given else {}))


def _entry(given: Mapping[str, Any], parse: Parser = parse_plain) -> CatalogueEntry:
    """Return an entry of the catalogue."""
    sensitive = tuple(
        SensitiveColumn(each["name"], each["column"], dict(each["labels"])) for each in given["sensitive"]
    )
    paper = given.get("paper")
    if paper is not None:
        named = next(each for each in sensitive if each.name == paper["sensitive"])
        paper = PaperEncoding(**{**paper, "sensitive": named})
    return CatalogueEntry(
        file=DataFile(**{"sha256": None, **given["file"]}),
        inputs=tuple(map(_column, given["inputs"])),
        sensitive=sensitive,
        target=given["target"],
        target_names=tuple(given["target_names"]),
        description=given["description"],
        parse=parse,
        paper=paper,
    )


def parse_law(streams: list[BinaryIO], _: str) -> Arrays:
    """Return the columns of the shipped file, without any extra."""
    table = np.genfromtxt(streams[0], delimiter=",", names=True, dtype=None, encoding="utf-8")
    return {name: table[name] for name in table.dtype.names or ()}


_ADULT_HEADER = (
    "age workclass fnlwgt education education-num marital-status occupation relationship race sex capital-gain "
    "capital-loss hours-per-week native-country income"
)


ADULT_COLUMNS = _ADULT_HEADER.split()


_ADULT_LABELS = {"<=50K": 0, ">50K": 1, "<=50K.": 0, ">50K.": 1}


def parse_adult(streams: list[BinaryIO], name: str) -> Arrays:
    """Return the columns of both files, one after the other, with the label as 0 and 1.

    Adult (census of 1994, UCI Machine Learning Repository) has the rows of `adult.data`, then those of `adult.test`.
    The files have no line of column names. Values are separated by a comma and a blank, and `?` means missing. The
    second file starts with a line that begins with `|`, and has a full stop after every label. The weight of a record
    (`fnlwgt`) is not an input. Of the two columns of education, only the ordered one is (`education-num`).
    """
    parts = [read_delimited(stream, place=name, header=ADULT_COLUMNS, comment="|") for stream in streams]
    columns = {column: np.concatenate([part[column] for part in parts]) for column in ADULT_COLUMNS}
    return columns | {"income": decode("income", columns["income"], _ADULT_LABELS)}


RELATIONSHIP_2019 = Categorical("RELSHIPP", {code: str(code) for code in range(20, 39)})


# To add a data set, add an entry to `catalogue.json`; `load_dataset` and the tests of all data sets find it there.  Use
# only checksums that are published in a citable place.
_CATALOGUE = json.loads(resources.files(__package__).joinpath("catalogue.json").read_text(encoding="utf-8"))


STATES: dict[str, str] = _CATALOGUE["states"]
"""Letters and FIPS number of each state, which the names of the files use; PR is Puerto Rico."""


_PARSERS: dict[str, Parser] = {"law": parse_law, "adult": parse_adult}


DATASETS: dict[str, CatalogueEntry] = {
    name: _entry(given, _PARSERS.get(name, parse_plain)) for name, given in _CATALOGUE["datasets"].items()
}


ACSINCOME_CA_SAMPLE = DATASETS["acsincome"]  # and any state and year: `census_source`
