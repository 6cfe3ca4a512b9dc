"""`CatalogueEntry`, the definition of a data set, and the entries of ACSIncome for any state and year."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from fairbound._errors import InputError, bad_value
from fairbound._words import lookup
from fairbound.data.arrow import import_pyarrow
from fairbound.data.batches import ArrowTable
from fairbound.data.columns import Banded, Categorical, Column, Columns, Numeric
from fairbound.data.delimited import read_delimited
from fairbound.data.files import DataFile, Place, open_verified

Parser = Callable[[list[BinaryIO], str], Columns]


def parse_plain(streams: list[BinaryIO], name: str) -> Columns:
    """Read a Parquet file, if the name ends in ".parquet", or a CSV file with a line of column names."""
    if not name.endswith(".parquet"):
        return read_delimited(streams[0], place=name)
    import_pyarrow()
    from pyarrow.parquet import read_table

    return ArrowTable.of(read_table(streams[0]), name).learn().columns()


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

    def read(self, place: Place) -> Columns:
        """Return the columns of the verified file."""
        with open_verified(self.file, place) as streams:
            return self.parse(streams, self.file.filename)


def codes(*values: int) -> dict[int, str]:
    """Return labels for categories that have no names but their codes."""
    return {value: str(value) for value in values}


# --- ACSIncome -------------------------------------------------------------------------------------------------------

# Whether a person's income is above 50,000 dollars, from the American Community Survey of the US census.
#
# It is the task of Ding, Hardt, Miller, Schmidt, *Retiring Adult: New Datasets for Fair Machine Learning*, 2021. It
# uses the person records of a state and year with
#
#     AGEP > 16,   PINCP > 100,   WKHP > 0,   PWGTP ≥ 1
#
# ten of their columns, and the label PINCP > 50,000. The records are public files of the Census (PUMS, one year),
# `csv_p<state>.zip` with the member `psam_p<number>.csv` (until 2016 `ss<year>p<state>.csv`). No checksums are
# published, so the checksum of the first download is recorded. Since 2019 the column RELP is called RELSHIPP and has
# other codes.


CENSUS = "https://www2.census.gov/programs-surveys/acs/data/pums"
FIRST_YEAR, NEW_RELATIONSHIP, NEW_NAMES = 2014, 2019, 2017
UNPUBLISHED = (2020,)  # too few answers in that year: the Census published only experimental files of another form
INCOME = 50_000

# Letters and FIPS number of each state, which the names of the files use; PR is Puerto Rico.
_NUMBERED = (
    "AL01 AK02 AZ04 AR05 CA06 CO08 CT09 DE10 DC11 FL12 GA13 HI15 ID16 IL17 IN18 IA19 KS20 KY21 LA22 ME23 MD24 MA25 "
    "MI26 MN27 MS28 MO29 MT30 NE31 NV32 NH33 NJ34 NM35 NY36 NC37 ND38 OH39 OK40 OR41 PA42 RI44 SC45 SD46 TN47 TX48 "
    "UT49 VT50 VA51 WA53 WV54 WI55 WY56 PR72"
)
STATES = {state[:2]: state[2:] for state in _NUMBERED.split()}

_SEX = SensitiveColumn("sex", "SEX", {2: "female", 1: "male"})
_RACE = SensitiveColumn(
    "race",
    "RAC1P",
    {
        1: "White",
        2: "Black",
        3: "American Indian",
        4: "Alaska Native",
        5: "American Indian or Alaska Native, other",
        6: "Asian",
        7: "Pacific Islander",
        8: "Other",
        9: "Two or more",
    },
)
# Major groups of the Census' classification of occupations; the lists of 2010 and 2018 have the same first codes.
_OCCUPATIONS = Banded(
    "OCCP",
    {
        10: "management",
        500: "business",
        800: "finance",
        1000: "computing and mathematics",
        1300: "engineering",
        1600: "science",
        2000: "community service",
        2100: "law",
        2200: "education",
        2600: "arts and media",
        3000: "medicine",
        3600: "health support",
        3700: "protection",
        4000: "food",
        4200: "cleaning",
        4300: "personal care",
        4700: "sales",
        5000: "office",
        6000: "farming",
        6200: "construction",
        6800: "extraction",
        7000: "repair",
        7700: "production",
        9000: "transport",
        9800: "military",
        9920: "none",
    },
)
_BIRTHPLACES = Banded(
    "POBP",
    {
        1: "USA",
        60: "US islands",
        100: "Europe",
        200: "Asia",
        300: "Northern America",
        303: "Latin America",
        400: "Africa",
        500: "Oceania",
    },
)


def _inputs(relationship: Categorical) -> tuple[Column, ...]:
    return (
        Numeric("AGEP"),
        Categorical("COW", codes(*range(1, 9))),
        Numeric("SCHL"),
        Categorical("MAR", {1: "married", 2: "widowed", 3: "divorced", 4: "separated", 5: "never married"}),
        _OCCUPATIONS,  # about 530 codes: one-hot over the 26 major groups
        _BIRTHPLACES,  # about 220 codes: one-hot over parts of the world
        relationship,
        Numeric("WKHP"),
    )


_RELATIONSHIP = Categorical("RELP", codes(*range(18)))
_RELATIONSHIP_2019 = Categorical("RELSHIPP", codes(*range(20, 39)))
_TARGET = "PINCP"
_TARGET_NAMES = ("income up to 50,000", "income above 50,000")
_PAPER = PaperEncoding(_SEX, {"female": 0.0, "male": 1.0}, robust=False, draw=50_000)
_SAMPLE_ORIGIN = "Census PUMS 2018 by way of GitHub dssg/aequitas"


def _sample(filename: str, sha256: str, description: str, paper: PaperEncoding | None = None) -> CatalogueEntry:
    """Return a sample of ACSIncome 2018 that others have published."""
    return CatalogueEntry(
        file=DataFile(filename=filename, sha256=sha256, origin=_SAMPLE_ORIGIN),
        inputs=_inputs(_RELATIONSHIP),
        sensitive=(_SEX, _RACE),
        target=_TARGET,
        target_names=_TARGET_NAMES,
        description=description,
        paper=paper,
    )


ACSINCOME_CA_SAMPLE = _sample(
    "acsincome_ca_2018_sample.csv",
    "0556c1388f6838565c03d3a7fcf854a4b6a623321472c7f9e892ad0753e25af2",
    "ACSIncome, California 2018 (Ding et al. 2021): a sample of 89,958 of its 195,665 rows.",
    _PAPER,
)
ACSINCOME_US_SAMPLE = _sample(
    "acsincome_us_2018_sample.parquet",
    "85c6cf16c8dbde3f48a8956f0cbc1a6f45620b1efb8af2b1362e97565bb26dd4",
    "ACSIncome, all states 2018 (Ding et al. 2021): a sample of 765,670 of its 1,664,500 rows.",
)


def census_source(state: str, year: int) -> CatalogueEntry:
    """Return the data set of one state and year, from the person file of the Census.

    Parameters
    ----------
    state : str
        Two letters, such as `"CA"`; `"PR"` is Puerto Rico.
    year : int
        2014 or later, and not 2020.
    """
    letters = state.upper() if isinstance(state, str) else state
    number = lookup(STATES, letters, "state")
    if isinstance(year, bool) or not isinstance(year, int) or year < FIRST_YEAR:
        raise bad_value("year", year, f"a whole number from {FIRST_YEAR} on")
    if year in UNPUBLISHED:
        raise InputError(
            "{year=value}: the Census has not published this file for that year.", "Give another year.", value=year
        )
    short = letters.lower()
    member = f"psam_p{number}.csv" if year >= NEW_NAMES else f"ss{year % 100}p{short}.csv"
    relationship = _RELATIONSHIP if year < NEW_RELATIONSHIP else _RELATIONSHIP_2019

    def parse(streams: list[BinaryIO], name: str) -> Columns:
        return parse_person_file(streams[0], name, relationship.name)

    return CatalogueEntry(
        file=DataFile(
            filename=f"{year}/1-Year/csv_p{short}.zip",
            sha256=None,
            origin=f"US Census Bureau, ACS PUMS {year}, one year, person file of {letters}",
            url=f"{CENSUS}/{year}/1-Year/csv_p{short}.zip",
            members={member: None},
        ),
        inputs=_inputs(relationship),
        sensitive=(_SEX, _RACE),
        target=_TARGET,
        target_names=_TARGET_NAMES,
        description=f"ACSIncome, {letters} {year}, all rows (person file of the Census, filter of Ding et al. 2021).",
        parse=parse,
        paper=_PAPER if (letters, year) == ("CA", 2018) else None,
    )


def parse_person_file(stream: BinaryIO, name: str, relationship: str = "RELP") -> Columns:
    """Return the columns of ACSIncome from a person file, with the published filter, order and label."""
    inputs = ["AGEP", "COW", "SCHL", "MAR", "OCCP", "POBP", relationship, "WKHP", "SEX", "RAC1P"]
    needed = [*inputs, _TARGET, "PWGTP"]
    raw = read_delimited(stream, place=name, keep=needed)
    absent = [column for column in needed if column not in raw]
    if absent:
        raise ValueError(f"{name} has no column {absent[0]!r}; give a person file of the Census (PUMS) of that year.")
    words = [column for column in needed if raw[column].dtype.kind not in "if"]
    if words:
        raise ValueError(
            f"Column {words[0]!r} of {name} has values that are not numbers; give a person file of the Census."
        )
    # Children and people without work have NaN; comparisons with NaN are false, so they are not chosen.
    chosen = (raw["AGEP"] > 16) & (raw[_TARGET] > 100) & (raw["WKHP"] > 0) & (raw["PWGTP"] >= 1)
    if not chosen.any():
        raise ValueError(f"{name} has no person above 16 with work and an income; ACSIncome needs some.")
    columns = {column: _whole(raw[column][chosen]) for column in inputs}
    return columns | {_TARGET: (raw[_TARGET][chosen] > INCOME).astype(np.int64)}


def _whole(values: np.ndarray) -> np.ndarray:
    """Return whole numbers as integers; they were floats because of missing values, which the filter has removed."""
    return values.astype(np.int64) if np.isfinite(values).all() and (values == values.round()).all() else values
