"""Adult: whether a person's income is above 50,000 dollars, by the US census of 1994 (UCI Machine Learning Repository).

The rows are those of `adult.data`, then those of `adult.test`. The files have no line of column names. Values are
separated by a comma and a blank, and `?` means missing. The second file starts with a line that begins with `|`, and
has a full stop after every label. The weight of a record (`fnlwgt`) is not an input. Of the two columns of education,
only the ordered one is (`education-num`).
"""

from __future__ import annotations

from typing import BinaryIO

import numpy as np

from fairbound.data.columns import Categorical, Numeric, decode
from fairbound.data.delimited import read_delimited
from fairbound.data.files import DataFile, SensitiveColumn, Source
from fairbound.data.table import Columns

_HEADER = (
    "age workclass fnlwgt education education-num marital-status occupation relationship race sex capital-gain "
    "capital-loss hours-per-week native-country income"
)
COLUMNS = _HEADER.split()
_LABELS = {"<=50K": 0, ">50K": 1, "<=50K.": 0, ">50K.": 1}


def parse_adult(streams: list[BinaryIO], name: str) -> Columns:
    """Return the columns of both files, one after the other, with the label as 0 and 1."""
    parts = [read_delimited(stream, place=name, header=COLUMNS, comment="|") for stream in streams]
    columns = {column: np.concatenate([part[column] for part in parts]) for column in COLUMNS}
    return columns | {"income": decode("income", columns["income"], _LABELS)}


def _words(name: str, words: str, missing: bool = False) -> Categorical:
    labels: dict[str | None, str] = {word: word for word in words.split()}
    return Categorical(name, labels | ({None: "(missing)"} if missing else {}))


ADULT = Source(
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
        _words(
            "workclass",
            "Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov Without-pay Never-worked",
            missing=True,
        ),
        Numeric("education-num"),
        _words(
            "marital-status",
            "Married-civ-spouse Divorced Never-married Separated Widowed Married-spouse-absent Married-AF-spouse",
        ),
        _words(
            "occupation",
            "Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty Handlers-cleaners "
            "Machine-op-inspct Adm-clerical Farming-fishing Transport-moving Priv-house-serv Protective-serv "
            "Armed-Forces",
            missing=True,
        ),
        _words("relationship", "Wife Own-child Husband Not-in-family Other-relative Unmarried"),
        Numeric("capital-gain"),
        Numeric("capital-loss"),
        Numeric("hours-per-week"),
        _words(
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
