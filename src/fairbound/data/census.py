"""ACSIncome: whether a person's income is above 50,000 dollars, from the American Community Survey of the US census.

It is the task of Ding, Hardt, Miller, Schmidt, *Retiring Adult: New Datasets for Fair Machine Learning*, 2021. It
uses the person records of a state and year with

    AGEP > 16,   PINCP > 100,   WKHP > 0,   PWGTP ≥ 1

ten of their columns, and the label PINCP > 50,000. The records are public files of the Census (PUMS, one year),
`csv_p<state>.zip` with the member `psam_p<number>.csv` (until 2016 `ss<year>p<state>.csv`). No checksums are
published, so the checksum of the first download is recorded. Since 2019 the column RELP is called RELSHIPP and has
other codes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import BinaryIO

import numpy as np

from fairbound._errors import InputError, bad_value
from fairbound._words import lookup
from fairbound.data.arrays import Arrays
from fairbound.data.catalogue import ACSINCOME_CA_SAMPLE, RELATIONSHIP_2019, STATES, CatalogueEntry
from fairbound.data.delimited import read_delimited
from fairbound.data.files import DataFile

CENSUS = "https://www2.census.gov/programs-surveys/acs/data/pums"


FIRST_YEAR, NEW_RELATIONSHIP, NEW_NAMES = 2014, 2019, 2017


UNPUBLISHED = (2020,)  # too few answers in that year: the Census published only experimental files of another form


INCOME, TARGET = 50_000, "PINCP"


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
    new = year >= NEW_RELATIONSHIP

    def parse(streams: list[BinaryIO], name: str) -> Arrays:
        return parse_person_file(streams[0], name, RELATIONSHIP_2019.name if new else "RELP")

    return replace(
        ACSINCOME_CA_SAMPLE,
        file=DataFile(
            filename=f"{year}/1-Year/csv_p{short}.zip",
            sha256=None,
            origin=f"US Census Bureau, ACS PUMS {year}, one year, person file of {letters}",
            url=f"{CENSUS}/{year}/1-Year/csv_p{short}.zip",
            members={member: None},
        ),
        inputs=tuple(RELATIONSHIP_2019 if new and each.name == "RELP" else each for each in ACSINCOME_CA_SAMPLE.inputs),
        description=f"ACSIncome, {letters} {year}, all rows (person file of the Census, filter of Ding et al. 2021).",
        parse=parse,
        paper=ACSINCOME_CA_SAMPLE.paper if (letters, year) == ("CA", 2018) else None,
    )


def parse_person_file(stream: BinaryIO, name: str, relationship: str = "RELP") -> Arrays:
    """Return the columns of ACSIncome from a person file, with the published filter, order and label."""
    inputs = ["AGEP", "COW", "SCHL", "MAR", "OCCP", "POBP", relationship, "WKHP", "SEX", "RAC1P"]
    needed = [*inputs, TARGET, "PWGTP"]
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
    chosen = (raw["AGEP"] > 16) & (raw[TARGET] > 100) & (raw["WKHP"] > 0) & (raw["PWGTP"] >= 1)
    if not chosen.any():
        raise ValueError(f"{name} has no person above 16 with work and an income; ACSIncome needs some.")
    columns = {column: _whole(raw[column][chosen]) for column in inputs}
    return columns | {TARGET: (raw[TARGET][chosen] > INCOME).astype(np.int64)}


def _whole(values: np.ndarray) -> np.ndarray:
    """Return whole numbers as integers; they were floats because of missing values, which the filter has removed."""
    return values.astype(np.int64) if np.isfinite(values).all() and (values == values.round()).all() else values
