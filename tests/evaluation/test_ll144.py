"""Tables of impact ratios: against a computation of their own, row by row, and hand-made cases."""

from __future__ import annotations

import csv
import io
import random
import statistics
from datetime import date
from html.parser import HTMLParser

import pytest
from tests.refusals import refused, says

from fairbound.evaluation import audit

FEMALE, MALE = "Female", "Male"


def people(seed: int, n: int = 600) -> list[dict[str, object]]:
    """Made-up people; some of unknown sex or race, one race under 2%, scores with many ties."""
    draw = random.Random(seed)
    return [
        {
            "sex": draw.choice([FEMALE] * 10 + [MALE] * 9 + [None]),
            "race": draw.choices(["Asian", "Black", "Hispanic", "Other", None], [30, 30, 35, 1, 4])[0],
            "selected": draw.random() < 0.3,
            "score": draw.randint(0, 12),
        }
        for _ in range(n)
    ]


def expected(rows, columns, *, kind, leave_out):
    """Compute one table from the definitions, without the library."""
    median = statistics.median(row["score"] for row in rows)
    counts: dict[tuple, list[int]] = {}
    unknown = 0
    for row in rows:
        category = tuple(row[column] for column in columns)
        if None in category:
            unknown += 1
            continue
        chosen = row["selected"] if kind == "selection" else row["score"] > median
        number = counts.setdefault(category, [0, 0])
        number[0] += 1
        number[1] += chosen
    small = {category for category, (n, _) in counts.items() if leave_out and n / len(rows) < 0.02}
    rates = {category: x / n for category, (n, x) in counts.items()}
    highest = max(rate for category, rate in rates.items() if category not in small)
    return unknown, {
        " & ".join(category): (n, x, x / n, None if category in small else rates[category] / highest)
        for category, (n, x) in counts.items()
    }


def audited(rows, kind):
    groups = {name: [row[name] for row in rows] for name in ("sex", "race")}
    if kind == "scoring":
        return audit(None, None, groups, score=[row["score"] for row in rows], groups="both")
    return audit(None, [int(row["selected"]) for row in rows], groups, groups="both")


@pytest.mark.parametrize("kind", ["selection", "scoring"])
@pytest.mark.parametrize("note", [None, "too few people to compare"])
@pytest.mark.parametrize("seed", range(6))
def test_every_cell_is_that_of_an_independent_computation(kind, note, seed):
    rows = people(seed)
    found = audited(rows, kind).to_ll144(small_category_note=note)
    assert found.kind == kind
    assert found.people == len(rows)
    assert [table.grouping for table in found.tables] == ["sex", "race", "sex & race"]
    some_left_out = False
    for table, columns in zip(found.tables, (["sex"], ["race"], ["sex", "race"]), strict=True):
        unknown, wanted = expected(rows, columns, kind=kind, leave_out=note is not None)
        assert table.unknown == unknown
        assert {each.name: (each.applicants, each.selected) for each in table.categories} == {
            name: line[:2] for name, line in wanted.items()
        }
        for each in table.categories:
            assert each.rate == pytest.approx(wanted[each.name][2], abs=1e-15)
            if wanted[each.name][3] is None:
                assert (each.impact_ratio, each.left_out) == (None, True)
                some_left_out = True
            else:
                assert each.impact_ratio == pytest.approx(wanted[each.name][3], abs=1e-15)
                assert not each.left_out
    assert some_left_out == (note is not None)
    if kind == "scoring":
        assert found.median == statistics.median(row["score"] for row in rows)


def test_a_score_at_the_median_is_not_above_it_and_unknown_people_shift_the_median():
    # Scores 1, 2, 2, 2, 3 and, of unknown sex, 9 and 9: the median of all seven is 2; of the known five it is 2, too.
    sex = [FEMALE, FEMALE, MALE, MALE, MALE, None, None]
    found = audit(None, None, {"sex": sex}, score=[1, 2, 2, 2, 3, 9, 9]).to_ll144()
    (table,) = found.tables
    assert (found.median, table.unknown) == (2, 2)
    assert [(each.name, each.applicants, each.selected) for each in table.categories] == [(FEMALE, 2, 0), (MALE, 3, 1)]
    assert [each.impact_ratio for each in table.categories] == [0.0, 1.0]
    # Four people of unknown sex at 9: the median of all is 3, and nobody whose sex is known is above it.
    found = audit(None, None, {"sex": [*sex, None, None]}, score=[1, 2, 2, 2, 3, 9, 9, 9, 9]).to_ll144()
    assert found.median == 3
    assert [each.impact_ratio for each in found.tables[0].categories] == [None, None]


def test_an_even_number_of_scores_has_a_median_between_two():
    found = audit(None, None, {"sex": [FEMALE, MALE, FEMALE, MALE]}, score=[1, 2, 3, 4]).to_ll144()
    assert found.median == 2.5
    assert [each.rate for each in found.tables[0].categories] == [0.5, 0.5]


def test_exactly_two_percent_is_not_under_two_percent():
    def categories(small):
        race = ["a"] * 49 + ["b"] * (51 - small) + ["c"] * small  # 100 people
        decided = [1] * 20 + [0] * (80 - small) + [1] * small
        return audit(None, decided, {"race": race}).to_ll144(small_category_note="few").tables[0]

    two = categories(2)
    assert not two.category("c").left_out
    assert two.category("a").impact_ratio == pytest.approx(20 / 49)  # everybody of c is selected
    one = categories(1)
    assert one.category("c").left_out
    assert one.category("c").rate == 1.0
    assert one.category("a").impact_ratio == 1.0  # c is no longer the category that others are divided by


def test_ratios_that_cannot_be_had_are_explained():
    nobody = audit(None, ["no"] * 4, {"sex": [FEMALE, FEMALE, MALE, None]}).to_ll144()
    assert [each.impact_ratio for each in nobody.tables[0].categories] == [None, None]
    assert any(says(note, "sex", "is 0", "no impact ratio") for note in nobody.notes)
    assert any(says(note, "(unknown)", "none of the rates") for note in nobody.notes)
    many = {"race": [f"r{number % 60}" for number in range(600)]}
    every = audit(None, [1, 0, 0] * 200, many).to_ll144(small_category_note="few")
    assert all(each.left_out for each in every.tables[0].categories)
    assert any(says(note, "race", "every category", "no impact ratio") for note in every.notes)
    assert not any("unknown" in note for note in every.notes)


def test_a_ratio_just_below_four_fifths_keeps_its_side():
    decided = [1] * 3_998 + [0] * 6_002 + [1] * 5_000 + [0] * 5_000
    found = audit(None, decided, {"sex": [FEMALE] * 10_000 + [MALE] * 10_000}).to_ll144()
    assert "<td>0.7996</td>" in found.to_html()
    assert "<td>1.000</td>" in found.to_html()


def test_what_cannot_be_counted_is_refused_with_its_reason():
    sex = [FEMALE, MALE, FEMALE, MALE]
    with refused("'maybe', 'no', 'yes'", "two values", "not decided"):
        audit(None, ["no", "yes", "maybe", "no"], {"sex": sex}).to_ll144()
    with refused("weights", "sample_weight="):
        audit(None, [0, 1, 0, 1], {"sex": sex}, sample_weight=[1, 2, 1, 2]).to_ll144()


def test_csv_and_html_have_the_same_numbers_and_every_fact():
    found = audited(people(0), "selection").to_ll144(
        audit_date=date(2026, 3, 31),
        distribution_date="2025-12-01",
        source="applications of 2025",
        explanation="all <open> positions",
        small_category_note="fewer than 2% | by far",
    )
    lines = list(csv.DictReader(io.StringIO(found.to_csv())))
    for table in found.tables:
        for each in table.categories:
            (line,) = [line for line in lines if (line["table"], line["category"]) == (table.grouping, each.name)]
            assert (int(line["applicants"]), int(line["selected"])) == (each.applicants, each.selected)
            assert float(line["selection_rate"]) == each.rate
            assert line["impact_ratio"] == ("" if each.impact_ratio is None else repr(each.impact_ratio))
    about = {line["category"]: line["note"] for line in lines if line["table"] == "about"}
    assert about["Date of the audit"] == "2026-03-31"
    assert about["Distribution date of the tool"] == "2025-12-01"
    assert about["Categories under 2% left out"] == "fewer than 2% | by far"
    page = found.to_html()
    for text in ("2026-03-31", "2025-12-01", "applications of 2025", "left out (under 2%)", "(unknown)"):
        assert text in page
    assert "all &lt;open&gt; positions" in page
    assert "all <open>" not in page


def test_the_fragment_is_balanced_and_has_neither_style_nor_script():
    opened: list[str] = []

    class Balance(HTMLParser):
        def handle_starttag(self, tag, attrs):
            assert tag not in ("style", "script", "html", "body")
            assert all(name in ("class", "scope") for name, _ in attrs)
            opened.append(tag)

        def handle_endtag(self, tag):
            assert opened.pop() == tag

    reader = Balance()
    reader.feed(audited(people(1), "scoring").to_ll144().to_html())
    assert opened == []


def test_what_is_not_stated_is_shown_as_such_and_nothing_claims_more():
    written = audited(people(2), "selection").to_ll144()
    assert written.to_html().count("not stated") == 4
    assert "may be left out, with a justification" in written.to_html()
    for text in (str(written), written.to_html(), written.to_csv()):
        assert "complian" not in text.lower()


def test_a_category_that_a_spreadsheet_would_run_is_escaped():
    found = audit(None, [1, 0, 1, 0], {"sex": ["=1+1", "=1+1", "f", "f"]}).to_ll144()
    assert "sex,'=1+1,2,1" in found.to_csv()


def test_what_the_tables_cannot_be_made_of_is_refused():
    decided, sex, race = [1, 0, 1, 0], ["f", "m"] * 2, ["a", "a", "b", "b"]
    with refused("groups='both'", "sex, race"):
        audit(None, decided, {"sex": sex, "race": race}).to_ll144()
    with refused("score="):
        audit(None, decided, {"sex": sex}).to_ll144(rate="scoring")
    with refused("sample_weight="):
        audit(None, decided, {"sex": sex}, sample_weight=[1, 2, 1, 2]).to_ll144()
    with refused("audit_date", "31.3.2026", "2026-03-31"):
        audit(None, decided, {"sex": sex}).to_ll144(audit_date="31.3.2026")
    with refused("rate", "'mean'"):
        audit(None, decided, {"sex": sex}).to_ll144(rate="mean")
    with refused("min_group_size="):
        audit(None, decided * 2, {"race": list("aabbcdcd")}, min_group_size=3).to_ll144()
