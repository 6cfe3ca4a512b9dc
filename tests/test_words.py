"""Names, groups and lists as text; and text of files and users, which moves no terminal, page or spreadsheet."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairbound import audit, certify
from fairbound._escapes import escaped_json, for_spreadsheet, visible
from fairbound._text_tables import TextTable
from fairbound._words import EVERYONE, as_text, at_least, at_most, did_you_mean, group_text, listed
from fairbound.experiments.exhibits import ResultTable
from fairbound.report.templating import escaped

MEASURES = ["disparate_impact", "demographic_parity", "equal_opportunity", "equalized_odds", "selection_rate"]
DATASETS = ["law", "dutch", "adult", "acsincome", "acsincome_us"]


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("Sex", ["race", "sex"], "sex"),
        ("sxe", ["race", "sex"], "sex"),
        ("sexx", ["race", "sex"], "sex"),
        ("eech", ["each", "intersection"], "each"),
        ("lae", DATASETS, "law"),
        ("idd", ["id", "sex"], "id"),
        ("aproved", ["approved", "income"], "approved"),
        ("is-recid", ["is_recid", "recid"], "is_recid"),
        ("disparate", MEASURES, "disparate_impact"),
        ("equal_odds", MEASURES, "equalized_odds"),
        ("equal oportunity", MEASURES, "equal_opportunity"),
        ("acs", DATASETS, "acsincome"),
    ],
)
def test_a_slip_of_the_hand_finds_the_name(name, known, meant):
    assert did_you_mean(name, known) == f" Did you mean {meant!r}?"


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("adult", ["law", "dutch", "acsincome"]),
        ("id", ["sex", "ad"]),
        ("a", ["age", "b"]),
        ("age", ["sex", "race"]),
        ("fairness", MEASURES),
        ("income", ["outcome", "sex"]),
        ("", ["sex"]),
        ("sex", []),
    ],
)
def test_a_name_that_is_merely_similar_is_not_offered(name, known):
    assert did_you_mean(name, known) == ""


def test_what_is_not_text_is_compared_as_text():
    assert did_you_mean(None, ["none"]) == " Did you mean 'none'?"


def test_a_group_called_everyone_is_told_from_everyone():
    texts = [group_text(group) for group in (None, "everyone", "'everyone'", '"everyone"', ("everyone",), "Everyone")]
    assert texts[0] == EVERYONE
    assert len(set(texts)) == len(texts) - 1  # ("everyone",) is the same group as "everyone"
    assert texts[5] == "Everyone"


def test_groups_of_an_intersection_read_the_same_from_json():
    assert as_text(("f", 3)) == as_text(["f", 3]) == "f & 3"


@given(value=st.floats(-2.0, 2.0))
def test_bounds_are_rounded_outwards(value):
    # At least and at most promise something; 1e-9 is the rounding that 0.8 is allowed to have.
    assert float(at_least(value)) <= value + 1e-9
    assert float(at_most(value)) >= value - 1e-9
    assert float(at_most(value)) - float(at_least(value)) <= 1.1e-4


def test_a_list_shows_the_beginning_of_what_is_long():
    assert listed(range(30), 3) == "0, 1, 2, …"
    assert len(listed(["x" * 1000])) < 100
    assert listed([]) == ""


HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
PLANTED = "\x1b]0;title\x07\x9b31m\u202egnp.exe\u2066\u200b\u2028\r\n\x7f\ud800"


def hidden(text: str, keep: str = "") -> list[str]:
    return [character for character in text if unicodedata.category(character) in HIDDEN and character not in keep]


@given(st.text(st.characters(), max_size=30))
def test_nothing_hidden_is_left(text):
    assert hidden(visible(text)) == []
    assert hidden(visible(text, keep="\n"), keep="\n") == []
    assert visible(visible(text)) == visible(text)
    if not hidden(text):
        assert visible(text) == text


@given(st.text(st.characters(), max_size=30))
def test_json_reads_back_the_same(text):
    written = escaped_json(json.dumps([text], ensure_ascii=False))
    assert hidden(written) == []
    assert json.loads(written) == [text]


@given(st.text(st.characters(), max_size=30))
def test_no_cell_is_a_formula(text):
    cell = for_spreadsheet(text)
    assert hidden(cell) == []
    if cell.startswith(("=", "+", "-", "@")):
        assert float(cell) is not None


@pytest.mark.parametrize("value", ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(1)", "\t=1", "\r=1"])
def test_formulas_get_an_apostrophe_unless_the_exact_text_is_wanted(value):
    table = ResultTable("title", (value,), ("",), ((value,),))
    for line in table.to_csv().splitlines():
        assert line.lstrip('"').startswith("'")
    assert table.to_csv(exact=True).count(value) == 2


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_markdown_has_no_links_tags_or_cells(text):
    written = escaped(text)
    assert hidden(written) == []
    assert "<" not in written
    assert "://" not in written
    for mark in "`*_[]|!#":
        assert all(written[place - 1] == "\\" or written[place - 1] == "&" for place in _places(written, mark))


def _places(text: str, mark: str) -> list[int]:
    return [place for place, character in enumerate(text) if character == mark]


def test_links_and_images_are_text_in_markdown():
    written = escaped("![x](https://a.b) <img src=x> www.a.b me@a.b\n\n# T | `c`")
    assert written == (
        "\\!\\[x\\](https&#58;//a.b) &lt;img src=x&gt; www&#46;a.b me&#64;a.b \\# T \\| \\`c\\`"
    )  # fmt: skip


def test_results_of_the_library_show_what_is_hidden():
    y, decision = [0, 1] * 40, [0, 1, 1, 1] * 20
    groups = {PLANTED: [PLANTED, "b\n  c  1"] * 40}
    for found in (
        audit(y, decision, groups),
        certify(y, decision, groups, ["disparate_impact >= 0.8", "selection_rate >= 0.1"]),
        audit([PLANTED, "b"] * 40, ["b", PLANTED, "b", "b"] * 20, ["x", "y"] * 40),
    ):
        assert hidden(str(found), keep="\n") == []
        assert hidden(found._repr_html_(), keep="\n") == []
        assert "\\x1b]0;title" in str(found)
    table = TextTable("a\nb", ("h\x1b",), (("one\ntwo",),))
    assert table.as_text() == "a\\nb\n  h\\x1b\n  one\\ntwo"
