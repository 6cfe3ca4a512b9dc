"""Appending columns to a file leaves its other columns unchanged."""

from __future__ import annotations

import csv
import datetime as dt
import io
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairbound.data import ArrowTable, copy_writer, open_batches

NEW = {"new": np.array(["yes", "no"])}


def extended(path, out, added=NEW, exact=False, **options):
    source = open_batches(path, **options)
    with copy_writer(out, source, exact=exact) as writer:
        for first, table in source.batches(source.names):
            writer.write(table, {name: values[first : first + table.num_rows] for name, values in added.items()})
    return out


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "cp1252"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("last", [True, False])
def test_every_value_of_a_text_file_stays(tmp_path, encoding, end, last):
    lines = ['id,name,"q",e', "", '00001,  x ,"a, ""b""",1e3', "  ", ' NA,"two@lines",\t,ö']
    text = end.join(line.replace("@", end) for line in lines) + (end if last else "")
    (tmp_path / "a.csv").write_bytes(text.encode(encoding))
    out = extended(tmp_path / "a.csv", tmp_path / "b.csv", encoding=encoding)
    with out.open(newline="", encoding=encoding) as stream:
        assert list(csv.reader(stream)) == [
            ["id", "name", "q", "e", "new"],
            ["00001", "  x ", 'a, "b"', "1e3", "yes"],
            [" NA", f"two{end}lines", "\t", "ö", "no"],
        ]


def test_another_ending_of_the_name_is_another_delimiter(tmp_path):
    (tmp_path / "a.csv").write_text('a,b\n x ,"1\t2"\n00001,"say ""x"""\n')
    out = extended(tmp_path / "a.csv", tmp_path / "b.tsv")
    with out.open(newline="") as stream:
        assert list(csv.reader(stream, delimiter="\t")) == [
            ["a", "b", "new"], [" x ", "1\t2", "yes"], ["00001", 'say "x"', "no"],
        ]  # fmt: skip
    back = extended(out, tmp_path / "c.csv", {"more": NEW["new"]})
    assert back.read_text().splitlines()[0] == "a,b,new,more"
    (tmp_path / "s.csv").write_text("a;b\n1;2\n3;4\n")
    assert extended(tmp_path / "s.csv", tmp_path / "t.csv", delimiter=";").read_text() == "a;b;new\n1;2;yes\n3;4;no\n"


FIELDS = st.text(st.sampled_from(' ab0.,;"\n\t=é'), max_size=5)


@given(
    rows=st.lists(st.tuples(FIELDS, FIELDS, FIELDS), min_size=1, max_size=4),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    delimiter=st.sampled_from([",", ";"]),
)
def test_values_of_text_in_any_quoting(tmp_path_factory, rows, quoting, delimiter):
    folder = tmp_path_factory.mktemp("text")
    text = io.StringIO()
    csv.writer(text, quoting=quoting, delimiter=delimiter).writerows([("x", "y", "z"), *rows])
    (folder / "a.csv").write_text(text.getvalue(), newline="")
    added = {"new": np.arange(len(rows))}
    out = extended(folder / "a.csv", folder / "b.csv", added, delimiter=delimiter)
    packed = extended(folder / "a.csv", folder / "b.parquet", added, delimiter=delimiter)
    with out.open(newline="") as stream:
        found = list(csv.reader(stream, delimiter=delimiter))
    assert found[1:] == [[*row, str(place)] for place, row in enumerate(rows)]
    table = pq.read_table(packed)
    # In a field that begins with blanks and a quote, which csv.writer puts in quotes, nothing is ambiguous.
    assert [tuple(row.values()) for row in table.to_pylist()] == [(*row, place) for place, row in enumerate(rows)]


def test_text_becomes_parquet_as_it_is_written(tmp_path):
    (tmp_path / "a.csv").write_text(" id ,name,n\n00001, x ,1e3\nNA,,True\n")
    table = pq.read_table(extended(tmp_path / "a.csv", tmp_path / "b.parquet"))
    assert table.to_pydict() == {
        "id": ["00001", "NA"], "name": [" x ", ""], "n": ["1e3", "True"], "new": ["yes", "no"],
    }  # fmt: skip


def test_what_a_spreadsheet_would_run(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n=1,-x\n@c,+d\n")
    added = {"=new": np.array(["=HYPERLINK(1)", "-1"])}
    out = extended(tmp_path / "a.csv", tmp_path / "b.csv", added)
    assert out.read_text() == "a,b,'=new\n=1,-x,'=HYPERLINK(1)\n@c,+d,-1\n"  # theirs as it is, ours without a formula
    out = extended(tmp_path / "a.csv", tmp_path / "c.csv", added, exact=True)
    assert out.read_text() == "a,b,=new\n=1,-x,=HYPERLINK(1)\n@c,+d,-1\n"
    assert pq.read_table(extended(tmp_path / "a.csv", tmp_path / "b.parquet", added))["=new"][0].as_py()[0] == "="


def test_words_that_the_encoding_lacks(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n1,2\n3,4\n")
    with pytest.raises(ValueError, match=r"'ж'.*encoding of a\.csv, 'iso8859-1'"):
        extended(tmp_path / "a.csv", tmp_path / "b.csv", {"new": np.array(["ж", "x"])}, encoding="latin-1")


def rich_table():
    """Columns of every kind, each with a null."""
    big = [2**64 - 1, None]
    moment = dt.datetime(2020, 1, 2, 3, 4, 5, 678901)
    table = pa.table(
        {
            "u": pa.array(big, pa.uint64()),
            "i": pa.array([2**53 + 1, None], pa.int64()),
            "f": pa.array([0.1, float("nan")], pa.float32()),
            "s": pa.array(["00001", None]),
            "na": pa.array(["NA", ""], pa.large_string()),
            "blank": pa.array([" x ", "1e3"]),
            "b": pa.array([True, None]),
            "d": pa.array(["x", None]).dictionary_encode(),
            "money": pa.array([Decimal("1.10"), None], pa.decimal128(20, 2)),
            "t": pa.array([moment, None], pa.timestamp("ns", "Europe/Berlin")),
            "day": pa.array([0, None], pa.date32()),
            "list": pa.array([[1, None], None], pa.list_(pa.int64())),
            "part": pa.array([{"a": 1}, None], pa.struct([("a", pa.int8())])),
            "bytes": pa.array([b"\x00\xff", None], pa.binary()),
            "a.b": pa.array([1, 2], pa.int8()),
        }
    )
    fields = [field.with_metadata({"unit": field.name}) for field in table.schema]
    return table.cast(pa.schema(fields, {"who": "me"}))


def test_a_parquet_file_keeps_types_values_nulls_and_metadata(tmp_path):
    pq.write_table(rich_table(), tmp_path / "a.parquet")
    before = pq.read_table(tmp_path / "a.parquet")
    after = pq.read_table(extended(tmp_path / "a.parquet", tmp_path / "b.parquet"))
    kept = after.drop_columns("new")
    assert kept.schema.equals(before.schema, check_metadata=True)
    assert str(kept.to_pydict()) == str(before.to_pydict())  # by their text, because NaN differs from itself
    assert after["new"].to_pylist() == ["yes", "no"]


def test_a_table_of_pandas_is_one_afterwards(tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(
        {"id": pd.array([2**63, None], dtype="UInt64"), "c": pd.Categorical(["x", "y"])},
        index=pd.Index([7, 9], name="key"),
    )
    frame.to_parquet(tmp_path / "a.parquet")
    after = pd.read_parquet(extended(tmp_path / "a.parquet", tmp_path / "b.parquet"))
    pd.testing.assert_frame_equal(after[["id", "c"]], pd.read_parquet(tmp_path / "a.parquet"))


def test_a_parquet_file_as_text(tmp_path):
    pq.write_table(rich_table(), tmp_path / "a.parquet")
    with extended(tmp_path / "a.parquet", tmp_path / "b.csv").open(newline="", encoding="utf-8") as stream:
        first, second = csv.DictReader(stream)
    assert (first["u"], first["i"], first["s"], first["na"]) == (str(2**64 - 1), str(2**53 + 1), "00001", "NA")
    assert (first["blank"], second["blank"], first["b"], first["money"]) == (" x ", "1e3", "True", "1.10")
    assert (first["t"][:19], first["day"], first["bytes"]) == ("2020-01-02 04:04:05", "1970-01-01", "00ff")
    assert (first["list"], first["part"]) == ("[1, null]", '{"a": 1}')
    assert float(first["f"]) == np.float32(0.1)
    assert second["f"] == "NaN"
    assert {second[name] for name in ("u", "i", "s", "b", "d", "money", "t", "day", "list", "part", "bytes")} == {""}


def test_columns_from_no_file(tmp_path):
    columns = {"a": np.array([1, 2]), "b": np.array([0.5, np.nan]), "c": np.array(["x", None], dtype=object)}
    source = ArrowTable.of(columns)
    for name in ("a.csv", "a.parquet"):
        with copy_writer(tmp_path / name, source) as writer:
            writer.write(source.table, NEW)
    assert (tmp_path / "a.csv").read_text() == "a,b,c,new\n1,0.5,x,yes\n2,,,no\n"
    assert pq.read_table(tmp_path / "a.parquet")["c"].to_pylist() == ["x", None]
