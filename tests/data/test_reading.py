"""Users' own files."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.refusals import refused, says

from fairbound.data import Dataset, Roles, Source, read_rows, read_table
from fairbound.data.labels import code_labels
from fairbound.data.schema import Categorical, Numeric

LOANS = """id,income,job,region,sex,age group,approved
1,2100,cook,1,f,young,no
2,,nurse,2,m,old,yes
3,1800,cook,1,f,?,yes
4,2500.5,?,3,,old,no
"""


@pytest.fixture
def loans(tmp_path):
    """Write a small file, with the given text or as it is, and return its path."""

    def write(text: str | bytes = LOANS, name: str = "loans.csv"):
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write


def read(path, **options) -> Dataset:
    return read_table(path, **{"target": "approved", "sensitive": "sex", "positive": "yes", "ignore": "id"} | options)


def test_a_file_with_numbers_words_and_gaps(loans):
    data = read(loans(), sensitive=["sex", "age group"])
    assert repr(data) == "Dataset 'loans': 4 rows, 5 features, 2 values missing, sensitive: sex, age group"
    assert data.feature_names == ("income", "job=cook", "job=nurse", "job=(missing)", "region")
    np.testing.assert_array_equal(data.X[1], [np.nan, 0, 1, 0, 2])
    assert data.y.tolist() == [0, 1, 1, 0]
    assert data.target_names == ("no", "yes")
    assert data.groups("sex").tolist() == ["f", "m", "f", None]
    assert data.groups("age group").tolist() == ["young", "old", None, "old"]
    assert data.schema == {
        "income": Numeric("income"),
        "job": Categorical("job", {"cook": "cook", "nurse": "nurse", None: "(missing)"}),
        "region": Numeric("region"),
    }
    assert data.target == "approved"
    assert says(data.description, "loans.csv", "approved: 0 for 'no' (2 rows), 1 for 'yes' (2 rows)")


def test_the_frame_has_the_raw_columns(loans):
    frame = read(loans()).frame(sensitive=True, target=True)
    assert list(frame.columns) == ["income", "job", "region", "age group", "sex", "approved"]
    assert frame["job"].isna().tolist() == [False, False, False, True]
    assert frame["region"].dtype == np.int64
    assert frame["job"].dtype == "category"


def test_a_data_set_that_was_read_can_be_described_and_split(loans):
    data = read(loans(LOANS + LOANS.split("\n", 1)[1]))
    assert data.describe().n_missing_group == 2
    train, test = data.split(0.5, by=[])
    assert len(train) == len(test) == 4


def test_codes_are_categories_when_named(loans):
    data = read(loans(), categorical="region")
    assert data.categorical == ("job", "region", "age group")
    assert data.schema["region"] == Categorical("region", {1: "1", 2: "2", 3: "3"})
    assert [name for name in data.feature_names if "region" in name] == ["region=1", "region=2", "region=3"]


def test_sensitive_columns_as_inputs(loans):
    data = read(loans(), sensitive_as_input=True)
    assert {"sex=f", "sex=m", "sex=(missing)"} <= set(data.feature_names)


def test_no_sensitive_column(loans):
    data = read_table(loans(), target="approved", positive="yes")
    assert data.sensitive == {}
    assert "sex" in data.schema


def test_groups_that_are_numbers_stay_whole_beside_missing_ones(loans):
    data = read(loans("g,x,approved\n1,1,no\n,2,yes\n2,3,yes\n"), sensitive="g", ignore=())
    assert data.groups().tolist() == [1, None, 2]


def test_the_rarest_values_share_a_column(loans):
    words = ["a"] * 5 + ["b"] * 4 + ["c"] * 3 + list("defgh")
    text = "x,w,approved\n" + "\n".join(f"{i},{w},{'no' if i % 2 else 'yes'}" for i, w in enumerate(words))
    data = read(loans(text), sensitive=(), ignore=(), max_categories=4)
    assert data.feature_names == ("x", "w=a", "w=b", "w=c", "w=(other)")
    assert data.X[:, -1].sum() == 5
    assert data.frame()["w"].tolist() == words
    exact = read(loans(text), sensitive=(), ignore=(), max_categories=8)
    assert exact.feature_names == ("x", *(f"w={word}" for word in "abcdefgh"))
    gaps = read(loans(text + "\n98,,no\n99,,yes\n"), sensitive=(), ignore=(), max_categories=4)
    assert gaps.feature_names == ("x", "w=a", "w=b", "w=(missing)", "w=(other)")


def test_words_of_ours_that_the_file_has_too(loans):
    data = read(loans("w,approved\n(missing),no\n,yes\nx,yes\n"), sensitive=(), ignore=())
    assert data.feature_names == ("w=(missing)", "w=x", "w=((missing))")


def test_tabs_and_semicolons(loans):
    for delimiter, name in (("\t", "loans.tsv"), (";", "loans.csv"), ("|", "loans.txt")):
        path = loans(LOANS.replace(",", delimiter), name)
        data = read(path, delimiter=None if name.endswith(".tsv") else delimiter)
        assert data.feature_names == read(loans(name="plain.csv")).feature_names


@pytest.mark.parametrize(
    ("values", "positive", "codes", "words"),
    [
        ([0, 1, 1], None, [0, 1, 1], ("0", "1")),
        ([0.0, 1.0], None, [0, 1], ("0", "1")),
        (["False", "True"], None, [0, 1], ("False", "True")),
        ([1, 2], 1, [1, 0], ("2", "1")),
        ([1.0, 2.0], "1", [1, 0], ("2", "1")),
        (["no", "yes"], "no", [1, 0], ("yes", "no")),
        (["False", "True"], True, [0, 1], ("False", "True")),
        (["low", "mid", "top"], "top", [0, 0, 1], ("not top", "top")),
        (["low", "mid", "top"], None, [0, 1, 2], ("low", "mid", "top")),
        ([3, 1, 2], None, [2, 0, 1], ("1", "2", "3")),
        ([0.5, 1.5], 1.5, [0, 1], ("0.5", "1.5")),
    ],
)
def test_codes_of_labels(values, positive, codes, words):
    found = code_labels(np.array(values), "t", positive)
    assert found[0].tolist() == codes
    assert found[1] == words


@pytest.mark.parametrize(
    ("values", "positive", "words"),
    [
        (["yes", "yes"], None, ["'t'", "(target=)", "only the value 'yes'"]),
        ([1, 1], 1, ["only the value '1'"]),
        (["bad", "good"], None, ["'bad' (1 row), 'good' (1 row)", "with positive="]),
        ([1, 2], None, ["'1' (1 row), '2' (1 row)"]),
        (["no", "yes"], "Yes", ["never 'Yes' (positive=)", "Did you mean 'yes'?", "'no' (1 row)"]),
        (list(range(30)), None, ["30 different values", "at most 20", "ConstrainedRegressor", "positive="]),
        ([1.0, np.nan, 0.0, np.nan], 1, ["no value in 2 of 4 rows", "first in row 2", "drop_unlabelled=True"]),
        (np.array(["a", None, "b"], dtype=object), "a", ["no value in 1 of 3 rows"]),
    ],
)
def test_labels_that_cannot_be_used(values, positive, words):
    with refused(*words):
        code_labels(np.asarray(values), "t", positive)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"target": "aproved"}, ["loans.csv", "'aproved' (target=)", "Did you mean 'approved'?", "It has 'id', "]),
        ({"sensitive": "SEX"}, ["'SEX' (sensitive=)", "Did you mean 'sex'?"]),
        ({"sensitive": ["sex", "race"]}, ["'race' (sensitive=). It has"]),
        ({"categorical": ["regio"]}, ["'regio' (categorical=)", "Did you mean 'region'"]),
        ({"sensitive": ["sex", "sex"]}, ["'sex'", "twice", "target=", "sensitive=", "ignore=", "weight="]),
        ({"sensitive": "approved"}, ["'approved'", "twice"]),
        ({"sensitive": "id"}, ["'id'", "twice"]),
        ({"ignore": ["id", "income", "job", "region", "age group"]}, ["no column left for the inputs"]),
        ({"inputs": ["income", "sex"]}, ["'sex'", "inputs=", "Name it once"]),
        ({"delimiter": ";;"}, ["delimiter=';;'", "one character"]),
        ({"delimiter": '"'}, ["one character"]),
        ({"max_categories": 1}, ["max_categories=1", "at least 2"]),
        ({"positive": "maybe"}, ["never 'maybe'"]),
    ],
)
def test_bad_arguments(loans, options, words):
    with refused(*words):
        read(loans(), **options)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,approved\n1,yes\n", ["only the value 'yes'"]),
        ("a,b,approved\n1,,yes\n2,,no\n", ["'b' of loans.csv", "no value in any row", "ignore="]),
        ("a,approved\n1,yes\ninf,no\n", ["'a' of loans.csv", "inf in row 2", "finite"]),
        ("a,approved\n1,yes\n-1e999,no\n", ["-inf in row 2"]),
        (",a,approved\n0,1,yes\n1,2,no\n", ["Column 1 of loans.csv", "no name", "ignore=['']"]),
        ("a,approved\n1,yes\n2\n", ["Row 2 of loans.csv", "1 field"]),
        ("", ["loans.csv is empty"]),
    ],
)
def test_bad_files(loans, text, words):
    with refused(*words):
        read(loans(text), sensitive=(), ignore=())


def test_an_unnamed_column_can_be_left_out(loans):
    data = read(loans(",a,approved\n0,1,yes\n1,2,no\n"), sensitive=(), ignore="")
    assert data.feature_names == ("a",)


def test_columns_that_are_left_out_may_be_anything(loans):
    data = read(loans("a,b,c,approved\n1,,inf,yes\n2,,1,no\n"), sensitive=(), ignore=["b", "c"])
    assert data.feature_names == ("a",)


def test_a_column_to_leave_out_must_be_there(loans, tmp_path):
    with refused("loans.csv", "'nosuch' (ignore=)", "It has 'id'"):
        read(loans(), ignore="nosuch")
    pq = pytest.importorskip("pyarrow.parquet")
    pa = pytest.importorskip("pyarrow")
    path = tmp_path / "loans.parquet"
    pq.write_table(pa.table({"id": [1, 2], "income": [1, 2], "approved": [0, 1]}), path)
    with refused("loans.parquet", "'incom' (ignore=)", "Did you mean 'income'"):
        read_table(path, target="approved", ignore=["id", "incom"])


def test_a_misspelt_column_to_leave_out_is_no_input(loans):
    with refused("loans.csv", "'idd' (ignore=)", "Did you mean 'id'?"):
        read(loans(), ignore="idd")


@pytest.mark.parametrize(
    ("start", "words"),
    [
        (b"PK\x03\x04rest", "a zip archive or an Excel workbook"),
        (b"\x1f\x8brest", r"compressed \(gzip\)"),
        (b"\xd0\xcf\x11\xe0rest", "an old Excel workbook"),
    ],
)
def test_files_that_are_taken_for_text(tmp_path, start, words):
    (tmp_path / "loans.csv").write_bytes(start)
    with pytest.raises(ValueError, match=f"loans.csv is {words}; give a text file"):
        read_table(tmp_path / "loans.csv", target="approved")


def test_no_such_file_and_a_folder(loans, tmp_path):
    loans()
    with refused("no file", "loan.csv", "Did you mean 'loans.csv'?", error=FileNotFoundError):
        read(tmp_path / "loan.csv")
    with pytest.raises(FileNotFoundError, match=r"There is no file .*nowhere"):
        read(tmp_path / "nowhere" / "loans.csv")
    with refused("is a folder", error=IsADirectoryError):
        read(tmp_path)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"path": 5}, ["path=5", "path of a file"]),
        ({"path": None}, ["path=None"]),
        ({"target": None}, ["target=None", "name of a column"]),
        ({"target": ["approved"]}, ["target=['approved']", "name of a column"]),
        ({"sensitive": 3}, ["sensitive=3", "a list of strings"]),
        ({"sensitive": None}, ["sensitive=None"]),
        ({"sensitive": [3]}, ["sensitive=[3]"]),
        ({"categorical": {"job": 1, 2: 3}}, ["categorical={'job': 1, 2: 3}"]),
        ({"ignore": 1.5}, ["ignore=1.5"]),
        ({"missing": None}, ["missing=None"]),
        ({"missing": [None]}, ["missing=[None]"]),
        ({"max_categories": "many"}, ["max_categories='many'", "a whole number"]),
        ({"max_categories": 2.5}, ["max_categories=2.5"]),
        ({"max_categories": True}, ["max_categories=True"]),
        ({"sensitive_as_input": "yes"}, ["sensitive_as_input='yes'", "True or False"]),
        ({"encoding": None}, ["encoding=None", "name of an encoding"]),
    ],
)
def test_arguments_of_the_wrong_type(loans, options, words):
    path = options.pop("path") if "path" in options else loans()
    with refused(*words, error=TypeError):
        read(path, **options)


def test_other_arguments_that_are_wrong(loans):
    with refused("delimiter=3", "one character"):
        read(loans(), delimiter=3)
    with refused("decimal=';'", "'.' or ','"):
        read(loans(), decimal=";")
    with refused("encoding='x'", "'utf-8'"):
        read(loans(), encoding="x")


def test_one_mark_is_one_mark(loans):
    data = read(loans("w,approved\nNA,no\nN,yes\nx,yes\n"), sensitive=(), ignore=(), missing="NA")
    assert data.feature_names == ("w=N", "w=x", "w=(missing)")  # and not the letters N and A


def test_inputs_may_be_written_with_separators_and_marks(loans):
    text = 'a,b,c,approved\n"45,5","$1,000",-,no\n"3","$20",1,yes\n'
    data = read(loans(text), sensitive=(), ignore=())
    np.testing.assert_array_equal(data.X, [[45.5, 1000, np.nan], [3, 20, 1]])
    as_words = read(loans(text), sensitive=(), ignore=(), categorical=["a", "c"])
    assert as_words.schema["a"] == Categorical("a", {"3": "3", "45,5": "45,5"})
    assert as_words.schema["c"] == Categorical("c", {"-": "-", "1": "1"})
    assert read(loans('a,approved\n"1,234",no\n2,yes\n'), sensitive=(), ignore=(), decimal=",").X[0, 0] == 1.234


def test_labels_groups_and_codes_keep_their_zeros_and_their_words(loans):
    text = "g,z,x,approved\n01,08001,1,01\nunknown,10115,2,02\n1,08001,3,02\n"
    data = read(loans(text), sensitive="g", ignore=(), categorical="z", positive="01")
    assert data.groups().tolist() == ["01", "unknown", "1"]
    assert data.target_names == ("02", "01")
    assert list(data.schema["z"].labels) == ["08001", "10115"]


def test_another_file_is_read_as_the_first(loans):
    first = read(loans("c,x,approved\n01,$5,no\nA1,$6,yes\n"), sensitive=(), ignore=())
    second = read(loans("c,x,approved\n01,$5,no\n02,n/a,yes\n"), sensitive=(), ignore=(), like=first)
    assert second.table.columns["c"].tolist() == ["01", "02"]
    np.testing.assert_array_equal(second.table.columns["x"], [5, np.nan])
    with refused("'x'", "'7' in row 2 of loans.csv", "the sign $"):
        read(loans("c,x,approved\n01,$5,no\n02,7,yes\n"), sensitive=(), ignore=(), like=first)


def test_formats_go_with_the_rows(loans):
    data = read(loans(LOANS + LOANS.split("\n", 1)[1]))
    train, test = data.split(0.5, by=[])
    assert train.formats == test.formats == data.formats == data.take([0, 1]).formats
    assert set(data.formats) == {"income", "job", "region", "sex", "age group", "approved"}
    assert type(data.split(0.5, by=[]).joined().formats["income"]) is type(data.formats["income"])


def test_text_of_parquet_is_text_and_nothing_is_missing_but_nulls(tmp_path):
    table = pa.table({"w": ["01", "NA", "", None, " x "], "n": [1, 2, 3, 4, 5], "y": [0, 1, 1, 0, 1]})
    pq.write_table(table, tmp_path / "t.parquet")
    data = read_table(tmp_path / "t.parquet", target="y")
    assert data.table.columns["w"].tolist() == ["01", "NA", None, None, "x"]
    assert data.formats["w"].missing == ("",)
    marked = read_table(tmp_path / "t.parquet", target="y", missing=["NA"])
    assert marked.table.columns["w"].tolist() == ["01", None, "", None, "x"]


def test_numbers_beyond_all_floats_are_named(loans):
    with refused("'a' of loans.csv", "inf in row 2"):
        read(loans(f"a,approved\n1,yes\n{'9' * 5_000},no\n"), sensitive=(), ignore=())


def test_parquet_gives_what_the_text_gives(loans, tmp_path):
    path = loans()
    frame = pd.read_csv(path, na_values="?").assign(job=lambda frame: frame["job"].astype("category"))
    frame.to_parquet(tmp_path / "loans.parquet")
    text, packed = read(path), read(tmp_path / "loans.parquet")
    assert packed.feature_names == text.feature_names
    np.testing.assert_array_equal(packed.X, text.X)
    np.testing.assert_array_equal(packed.y, text.y)
    assert packed.groups().tolist() == text.groups().tolist()
    assert packed.schema == text.schema


def test_kinds_of_parquet_columns(tmp_path):
    table = pa.table(
        {
            "i": pa.array([1, 2, 3], pa.int8()),
            "gap": pa.array([1, None, 3], pa.uint32()),
            "f": pa.array([1.5, None, 2.5], pa.float32()),
            "big": pa.array([2**63, 1, 2], pa.uint64()),
            "money": pa.array([1, 2, None], pa.decimal128(5, 2)),
            "b": [True, False, None],
            "s": pa.array(["x", None, "y"], pa.large_string()),
            "when": pa.array([0, 90_000, 200_000], pa.timestamp("s")),
            "day": pa.array([19_753, None, 2], pa.date32()),
            "long": pa.array([0, 1, 2], pa.duration("s")),
            "y": [0, 1, 1],
        }
    )
    pq.write_table(table, tmp_path / "t.parquet")
    with refused("'long' of t.parquet", "duration[s]", "numbers, dates or text", "ignore="):
        read_table(tmp_path / "t.parquet", target="y")
    data = read_table(tmp_path / "t.parquet", target="y", ignore="long")
    assert data.table.columns["when"].tolist() == [0, 1, 2]  # days; the time of day is dropped
    assert data.table.columns["day"][[0, 2]].tolist() == [19_753, 2]
    columns = data.table.columns
    assert {name: columns[name].dtype.kind for name in columns} == {
        "i": "i", "gap": "f", "f": "f", "big": "f", "money": "f", "b": "O", "s": "O", "when": "i", "day": "f",
    }  # fmt: skip
    assert columns["b"].tolist() == ["True", "False", None]
    np.testing.assert_array_equal(columns["gap"], [1, np.nan, 3])


def test_parquet_files_that_cannot_be_read(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": [1, 2], "y": [0, 1]}), path)
    path.write_bytes(path.read_bytes()[:40])
    with refused("t.parquet", "not a Parquet file"):
        read_table(path, target="y")
    pq.write_table(pa.table({"a": [], "y": []}), path)
    with pytest.raises(ValueError, match=r"t\.parquet has no row"):
        read_table(path, target="y")
    pq.write_table(pa.table([[1], [2]], names=["a", "a"]), path)
    with pytest.raises(ValueError, match=r"Two columns of t\.parquet are named 'a'"):
        read_table(path, target="y")


@given(data=st.data())
def test_damaged_parquet_is_refused_or_read(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("damaged") / "t.parquet"
    table = pa.table(
        {"a": [1.5, 2.5, None] * 9, "s": pa.array(["x", "y", "é"] * 9).dictionary_encode(), "y": [0, 1, 1] * 9}
    )
    pq.write_table(table, path, compression="none")
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(4, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content[: data.draw(st.integers(5, len(content)))])
    said = "t.parquet"
    try:
        read_table(path, target="y", positive=1)
    except ValueError as error:
        said = str(error)
    assert "t.parquet" in said or "'y'" in said


def test_parquet_without_pyarrow_names_the_extra(tmp_path, monkeypatch):
    pq.write_table(pa.table({"a": [1, 2], "y": [0, 1]}), tmp_path / "t.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r'pip install "\.\[data\]"'):
        read_table(tmp_path / "t.parquet", target="y")


@pytest.mark.parametrize("memory", [0, None])
def test_each_pass_over_a_file_tells_its_rows(loans, memory):
    told = []
    roles = Roles(source=Source(loans(), positive="yes", ignore="id", memory=memory), target="approved")
    data = read_rows(roles, tell=lambda *each: told.append(each)).data
    assert told == [("Learning the formats", 4, 0 if memory == 0 else 4), ("Reading the rows", 4, 4)]
    assert len(data) == 4


def test_columns_without_a_role_are_not_read():
    table = pa.table({"a": [1, 2], "empty": pa.nulls(2), "pairs": [[1, 2], [3, 4]], "y": [0, 1]})
    assert read_table(table, target="y", inputs="a").feature_names == ("a",)


def test_numbers_are_no_dates():
    with refused("'d' of the table has the type int64", "dates= names columns of text"):
        read_table(pa.table({"d": [20240131, 20240201], "y": [0, 1]}), target="y", dates="d")


def test_a_stream_with_two_columns_of_one_name():
    batch = pa.record_batch([pa.array([1, 2])] * 2, names=["a", "a"])
    with refused("Two columns of the stream are named 'a'"):
        read_table(pa.RecordBatchReader.from_batches(batch.schema, [batch]), target="a")
