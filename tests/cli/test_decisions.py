"""`fairbound audit` and `fairbound certify`."""

from __future__ import annotations

import json

import pytest
from tests.cli.helpers import write_csv

ROWS = ["--target", "approved", "--prediction", "decision", "--positive", "yes"]
LIMIT = "disparate_impact >= 0.8"


def test_audit_prints_every_group_and_measure(fairbound, decisions):
    found = fairbound("audit", decisions, *ROWS, "--sensitive", "sex")
    assert (found.code, found.stderr) == (0, "")
    assert "Audit of 800 rows, positive label 'yes'" in found.stdout
    assert "female" in found.stdout
    assert "0.571" in found.stdout  # 160/400 over 280/400


@pytest.mark.parametrize(
    ("limits", "code"),
    [([LIMIT], 1), (["disparate_impact >= 0.5"], 0), (["disparate_impact >= 0.5", "demographic_parity <= 0.1"], 1)],
)
def test_audit_with_limits_has_an_exit_code(fairbound, decisions, limits, code):
    found = fairbound("audit", decisions, *ROWS, "--sensitive", "sex", "--require", *limits, "--json")
    assert found.code == code
    listed = json.loads(found.stdout)["limits"]
    assert [entry["limit"] for entry in listed] == limits
    assert all(entry["kept"] for entry in listed) == (code == 0)
    table = fairbound("audit", decisions, *ROWS, "--sensitive", "sex", "--require", *limits)
    assert ("NOT KEPT" in table.stdout) == (code == 1)


def test_a_limit_exactly_at_its_bound_is_kept(fairbound, tmp_path):
    # 80 of 100 over 100 of 100: the ratio is the bound itself.
    rows = [(place % 2, int(group == "b" or place < 80), group) for group in "ab" for place in range(100)]
    path = write_csv(tmp_path / "x.csv", ("y", "p", "g"), rows)
    given = ["--target", "y", "--prediction", "p", "--sensitive", "g", "--quiet"]
    assert fairbound("audit", path, *given, "--require", LIMIT).code == 0
    assert fairbound("audit", path, *given, "--require", "disparate_impact >= 0.801").code == 1


def test_quiet_says_nothing_but_the_exit_code(fairbound, decisions):
    found = fairbound("audit", decisions, *ROWS, "--sensitive", "sex", "--require", LIMIT, "--quiet")
    assert (found.code, found.stdout, found.stderr) == (1, "", "")


@pytest.mark.parametrize(
    ("limit", "verdict", "code"),
    [("disparate_impact >= 0.3", "PASS", 0), (LIMIT, "FAIL", 1), ("disparate_impact >= 0.57", "INCONCLUSIVE", 1)],
)
def test_certify_has_a_verdict_and_an_exit_code(fairbound, decisions, limit, verdict, code):
    found = fairbound("certify", decisions, *ROWS, "--sensitive", "sex", "--require", limit)
    assert found.code == code
    assert found.stdout.startswith(f"Certificate: {verdict} (800 rows, 95% confidence)")
    as_json = json.loads(
        fairbound("certify", decisions, *ROWS, "--sensitive", "sex", "--require", limit, "--json").stdout
    )
    assert (as_json["command"], as_json["verdict"]) == ("certify", verdict)


def test_intersections_and_weights(fairbound, tmp_path):
    rows = [
        (place % 2, (place // 4) % 2, "fm"[place % 3 == 0], "xy"[place % 5 == 0], 1 + place % 2) for place in range(400)
    ]
    path = write_csv(tmp_path / "w.csv", ("y", "p", "sex", "race", "w"), rows)
    given = ["--target", "y", "--prediction", "p", "--json"]
    both = json.loads(fairbound("audit", path, *given, "--sensitive", "sex", "race", "--groups", "intersection").stdout)
    assert {group["group"] for group in both["groups"]} == {"f & x", "f & y", "m & x", "m & y", "everyone"}
    assert json.loads(fairbound("audit", path, *given, "--sensitive", "sex", "--weight", "w").stdout)["weighted"]
    refused = fairbound("certify", path, *given, "--sensitive", "sex", "--weight", "w", "--require", "accuracy >= 0.1")
    assert refused.code == 1
    assert json.loads(refused.stdout)["limits"][0]["verdict"] == "NOT CERTIFIABLE"
    bounded = fairbound(
        "certify", path, *given, "--sensitive", "sex", "--weight", "w", "--largest-weight", 2, "--require",
        "accuracy >= 0.1",
    )  # fmt: skip
    assert bounded.code == 0


def test_several_classes_and_the_favourable_one_of_them(fairbound, tmp_path):
    rows = [
        (("good", "fair", "bad")[place % 3], ("good", "fair", "bad")[place % 2], "ab"[place % 2]) for place in range(90)
    ]
    path = write_csv(tmp_path / "x.csv", ("y", "p", "g"), rows)
    given = ["--target", "y", "--prediction", "p", "--sensitive", "g", "--json"]
    assert json.loads(fairbound("audit", path, *given, "--multiclass").stdout)["classes"] == ["bad", "fair", "good"]
    binary = json.loads(fairbound("audit", path, *given, "--positive", "good").stdout)
    assert binary["classes"] == ["not good", "good"]
    assert "give one of both" in fairbound("audit", path, *given, "--positive", "good", "--multiclass").sentence


def test_numbers_and_words_of_the_label_are_compared_as_words(fairbound, tmp_path):
    rows = [(place % 2, f"{place // 2 % 2}.0", "ab"[place % 3 == 0]) for place in range(60)]
    path = write_csv(tmp_path / "x.csv", ("y", "p", "g"), rows)
    assert fairbound("audit", path, "--target", "y", "--prediction", "p", "--sensitive", "g", "--quiet").code == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--groups", "all"], "--groups is 'all'. Give one of each, intersection, both."),
        (["--require", "disparate_impact > > 1"], "Cannot read the limit 'disparate_impact > > 1'"),
        (["--require", "disparate_impct >= 0.8"], "Did you mean 'disparate_impact'?"),
        (["--confidence", "95"], "confidence"),
        (["--delimiter", "ab"], "--delimiter is 'ab'; give one character"),
        (["--weight", "w"], "decisions.csv has no column 'w' (--weight)."),
    ],
)
@pytest.mark.parametrize("command", ["audit", "certify"])
def test_bad_options_are_one_sentence(fairbound, decisions, command, arguments, words):
    given = [*ROWS, "--sensitive", "sex", *([] if "--require" in arguments else ["--require", LIMIT])]
    refused = fairbound(command, decisions, *given, *arguments)
    assert (refused.code, refused.stdout) == (2, "")
    assert words in refused.sentence


def test_an_unparsable_limit_is_found_before_the_file_is_read(fairbound, tmp_path):
    (tmp_path / "x.csv").write_bytes(b"\xff\xff")  # no text at all
    refused = fairbound("audit", "x.csv", *ROWS, "--sensitive", "sex", "--require", "fairness!")
    assert "Cannot read the limit 'fairness!'" in refused.sentence
    assert "x.csv is not text" in fairbound("audit", "x.csv", *ROWS, "--sensitive", "sex").sentence


def test_missing_decisions_and_decisions_that_are_no_labels(fairbound, tmp_path):
    given = ["--target", "y", "--prediction", "p", "--sensitive", "g"]
    path = write_csv(tmp_path / "a.csv", ("y", "p", "g"), [(0, "", "a"), (1, 1, "b"), (0, 1, "b")])
    assert (
        "Column 'p' (--prediction) has no value in 1 of 3 rows, first in row 1"
        in fairbound("audit", path, *given).sentence
    )
    path = write_csv(tmp_path / "b.csv", ("y", "p", "g"), [(0, 0.4, "a"), (1, 1, "b"), (0, 1, "b")])
    assert "prediction contains" in fairbound("audit", path, *given).sentence
