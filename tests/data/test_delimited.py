"""The reader of text files, against expected values and against pandas."""

from __future__ import annotations

import csv
import io

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.refusals import refused

from fairbound.data import MISSING, ColumnFormat, open_batches, store
from fairbound.data.formats import MARKS

infer = ColumnFormat("number").read


def columns_of(path, content, keep=None, missing=MISSING, **options):
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return dict(store(open_batches(path, **options).hold(keep).learn(missing=missing)).columns)


@pytest.fixture
def read(tmp_path):
    """Return a function that reads a text into lists."""
    path = tmp_path / "small.csv"
    return lambda content, **options: {
        name: values.tolist() for name, values in columns_of(path, content, **options).items()
    }


def test_kinds_of_columns(tmp_path):
    columns = columns_of(tmp_path / "a.csv", b"i,f,m,w,n\n1,1.5,2,x,y\n-2,1e3,,y,NA\n")
    assert [values.dtype.kind for values in columns.values()] == ["i", "f", "f", "U", "O"]
    assert columns["f"].tolist() == [1.5, 1000.0]
    np.testing.assert_array_equal(columns["m"], [2.0, np.nan])
    assert columns["n"].tolist() == ["y", None]


@pytest.mark.parametrize("word", MISSING)
def test_what_is_missing(tmp_path, word):
    columns = columns_of(tmp_path / "a.csv", f"a,b\n1,x\n{word},{word}\n")
    np.testing.assert_array_equal(columns["a"], [1, np.nan])
    assert columns["b"].tolist() == ["x", None]


def test_what_is_missing_can_be_said(read):
    assert read("a\nNA\n-1\n", missing=["-1"]) == {"a": ["NA", None]}


@pytest.mark.parametrize(
    ("texts", "numbers"),
    [
        (["007", "+5", "-0"], [7, 5, 0]),
        ([" 1 ", "2"], [1, 2]),
        ([".5", "5.", "5e-1", "5E1"], [0.5, 5.0, 0.5, 50.0]),
        (["9223372036854775807", "-9223372036854775808"], [2**63 - 1, -(2**63)]),
        (["9223372036854775808"], [2.0**63]),
        (["inf", "-Infinity"], [np.inf, -np.inf]),
        (["1e999"], [np.inf]),
    ],
)
def test_numbers(texts, numbers):
    found = infer(texts)
    assert found.tolist() == numbers
    assert found.dtype.kind == ("i" if isinstance(numbers[0], int) else "f")


@pytest.mark.parametrize("text", ["1_000", "0x10", "1,5", "١", "1e", "e1", ".", "+", "True", "--1", "1 2", "²"])
def test_no_numbers(text):
    assert ColumnFormat.learn([text, "1"], codes=True).read([text, "1"]).tolist() == [text, "1"]


def test_blanks_and_quotes(read):
    assert read('a ,"b"\n x y ,"y,5"\n"line\nend","say ""hi"""\n') == {
        "a": ["x y", "line\nend"],
        "b": ["y,5", 'say "hi"'],
    }


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends_and_empty_lines(read, end):
    assert read(end.join(["", "a,b", "1,x", "", "  ", "2,y"])) == {"a": [1, 2], "b": ["x", "y"]}


def test_a_single_column_may_have_missing_values_in_quotes(read):
    assert read('a\nx\n""\n\ny\n') == {"a": ["x", None, "y"]}


def test_byte_order_mark_and_other_encodings(read):
    assert read("\ufeffa,b\n1,2\n") == {"a": [1], "b": [2]}
    assert read("ä,b\nö,2\n".encode("latin-1"), encoding="latin-1") == {"ä": ["ö"], "b": [2]}
    assert read("ä,b\nö,2\n".encode("utf-16"), encoding="utf-16") == {"ä": ["ö"], "b": [2]}


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_the_delimiter_is_found(read, delimiter):
    content = 'name;"size, in m";paid\na;1,5;yes\n"b;c";2,5;no\n'.replace(";", delimiter)
    assert read(content) == {"name": ["a", f"b{delimiter}c"], "size, in m": [1.5, 2.5], "paid": ["yes", "no"]}
    assert read(content.encode("utf-16"), encoding="utf-16")["size, in m"] == [1.5, 2.5]


def test_of_several_delimiters_the_first_line_decides(read):
    assert read("a,b;c,d\n1,x;y,2\n") == {"a": [1], "b;c": ["x;y"], "d": [2]}
    assert read("a;b\n1;2\n", delimiter=",") == {"a;b": ["1;2"]}


def test_only_some_columns(read):
    assert read("a,b,c\n1,2,3\n", keep=["c", "a"]) == {"c": [3], "a": [1]}
    assert read("a,b\n1,2\n", keep=["b"]) == {"b": [2]}


def test_a_name_that_occurs_twice_is_numbered(read):
    """ProPublica's file has decile_score and priors_count twice."""
    assert read("a,b, a,a.1\n1,2,3,4\n5,6,7,8\n") == {"a": [1, 5], "b": [2, 6], "a.1": [3, 7], "a.1.1": [4, 8]}
    assert read('\n\n"a\nz","a\nz"\n1,2\n') == {"a\nz": [1], "a\nz.1": [2]}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", r"small\.csv is empty"),
        (b"\n\n", r"small\.csv is empty"),
        (b"a,b\n", r"small\.csv .*column names and no row"),
        (b"a,b\n1,2\n3\n", r"Row 2 of small\.csv has 1 field.* 2 columns"),
        (b"a,b\n1,2\n\n3,4,5\n", r"Row 2 of small\.csv has 3 fields.* 2 columns.*\(','\)"),
        (b'a,b\n"x\ny",2\n3\n', r"Row 2 of small\.csv has 1 field"),
        (
            b'a,b\n1,"x\n2,y\n',
            r"small\.csv ends within a quoted value.*quotes",
        ),
        ("a,b\nx,ö\n".encode("latin-1"), "encoding 'utf-8'.*line 2 .*0xf6"),
        ("a,b\n1,2\n".encode("utf-16"), r"line 1 has the byte 0xff.*encoding=, .*'utf-16'"),
    ],
)
def test_files_that_cannot_be_read(read, content, words):
    with pytest.raises(ValueError, match=words):
        read(content)


def test_the_line_of_a_wrong_byte_is_found_far_into_the_file(read):
    content = b"a,b\n" + b"1,x\n" * 9_999 + b"1,\xff\n"
    with pytest.raises(ValueError, match="line 10001 has the byte 0xff"):
        read(content)


def test_unknown_encoding(read):
    for encoding in ("utf-9", "hex", "undefined", "\0"):
        with refused(f"encoding={encoding!r}", "'utf-8'"):
            read("a\n1\n", encoding=encoding)


@pytest.mark.parametrize("order", ["le", "be"])
@pytest.mark.parametrize("width", [16, 32])
def test_text_without_a_byte_order_mark_says_which_encoding_to_try(read, order, width):
    right = f"utf-{width}-{order}"
    content = "a,b\n1,\u00e4\n".encode(right)
    with refused("small.csv", "zero bytes", f"encoding='utf-16-{order}'"):
        read(content, encoding="latin-1")
    with refused("small.csv", "byte-order mark", f"encoding='{right}'"):
        read(content, encoding=f"utf-{width}")
    assert read(content, encoding=right) == {"a": [1], "b": ["\u00e4"]}
    assert read(("\ufeff" + content.decode(right)).encode(right), encoding=right) == {"a": [1], "b": ["\u00e4"]}
    assert read(("\ufeff" + content.decode(right)).encode(right), encoding=f"utf-{width}")["a"] == [1]


def test_integers_of_any_length_are_numbers():
    assert infer(["9" * 5_000, "1"]).tolist() == [np.inf, 1.0]
    assert infer(["0" * 5_000 + "7", "1"]).tolist() == [7.0, 1.0]


WORDS = st.text(
    alphabet=st.characters(codec="utf-8", exclude_categories=("Cc", "Zs", "Zl", "Zp")), min_size=1, max_size=5
).filter(lambda word: word.lower() not in MARKS)  # beside numbers, these are missing for us and not for pandas
NUMBERS = st.one_of(
    st.integers(-(2**63), 2**63 - 1).map(str),
    st.floats(allow_nan=False).map(repr),
    st.sampled_from(["007", "+1", "1.", ".5", "1E5", "-0"]),
)
CELLS = st.one_of(NUMBERS, st.sampled_from(MISSING), WORDS, st.sampled_from(["a b", 'say "x"', "x,y;z|", "two\nlines"]))


@st.composite
def tables(draw: st.DrawFn) -> list[list[str]]:
    """Columns of numbers, of words and of both, with missing values."""
    rows, columns = draw(st.integers(1, 8)), draw(st.integers(2, 5))
    kinds = [draw(st.sampled_from([NUMBERS, NUMBERS | st.sampled_from(MISSING), WORDS, CELLS])) for _ in range(columns)]
    return [[draw(kind) for kind in kinds] for _ in range(rows)]


@given(
    rows=tables(),
    delimiter=st.sampled_from([",", ";", "\t", "|"]),
    end=st.sampled_from(["\n", "\r\n"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
)
@example(rows=[["1", "2"]], delimiter=",", end="\n", quoting=csv.QUOTE_MINIMAL)
def test_round_trip_against_pandas(tmp_path_factory, rows, delimiter, end, quoting):
    names = [f"c{position}" for position in range(len(rows[0]))]
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator=end, quoting=quoting)
    writer.writerows([names, *rows])
    content = text.getvalue().encode()
    expected = pd.read_csv(
        io.BytesIO(content),
        sep=delimiter,
        na_values=list(MISSING),
        keep_default_na=False,
    )
    found = columns_of(tmp_path_factory.mktemp("text") / "a.csv", content, delimiter=delimiter)
    assert list(found) == list(expected.columns)
    for name, values in found.items():
        other = expected[name]
        if values.dtype.kind in "if":
            if other.dtype.kind not in "iuf":
                # pandas keeps columns of words and of integers beyond 64 bits as they are written; we round the latter.
                other = other.astype(float)
            # Ours are rounded correctly; the parser of pandas 2.2 may miss the last places of numbers beyond 2**53.
            np.testing.assert_allclose(values.astype(float), other.to_numpy(dtype=float), rtol=1e-15, atol=0)
            assert (values.dtype.kind == "i") == (other.dtype.kind == "i")
        else:
            assert values.tolist() == [None if pd.isna(word) else str(word) for word in other]
