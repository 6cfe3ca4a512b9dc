"""`fairbound audit` and `fairbound certify`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.helpers import write_csv
from tests.refusals import says

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
    assert "give only one" in fairbound("audit", path, *given, "--positive", "good", "--multiclass").sentence


def test_numbers_and_words_of_the_label_are_compared_as_words(fairbound, tmp_path):
    rows = [(place % 2, f"{place // 2 % 2}.0", "ab"[place % 3 == 0]) for place in range(60)]
    path = write_csv(tmp_path / "x.csv", ("y", "p", "g"), rows)
    assert fairbound("audit", path, "--target", "y", "--prediction", "p", "--sensitive", "g", "--quiet").code == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--groups", "all"], "'all' must be one of each, intersection, both."),
        (["--require", "disparate_impact > > 1"], "Cannot read the limit 'disparate_impact > > 1'"),
        (["--require", "disparate_impct >= 0.8"], "Did you mean 'disparate_impact'?"),
        (["--confidence", "95"], "confidence"),
        (["--delimiter", "ab"], "--delimiter 'ab' must be one character"),
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
    assert says(fairbound("audit", path, *given).sentence, "'p' (--prediction)", "1 of 3 rows", "row 1")
    path = write_csv(tmp_path / "b.csv", ("y", "p", "g"), [(0, 0.4, "a"), (1, 1, "b"), (0, 1, "b")])
    sentence = fairbound("audit", path, *given).sentence
    assert says(sentence, "'p' (--prediction) contains 0.4", "not a label", "'y' (--target)")


@pytest.fixture
def graded(tmp_path):
    """Return a file with three grades and decisions of 0 and 1: a third of the women, two thirds of the men."""
    rows = [
        (("good", "fair", "bad")[place % 3], int(place % 3 < chosen), sex)
        for sex, chosen in (("female", 1), ("male", 2))
        for place in range(300)
    ]
    return write_csv(tmp_path / "graded.csv", ("grade", "decision", "sex"), rows)


GRADED = ["--target", "grade", "--prediction", "decision", "--sensitive", "sex", "--positive", "good"]


@pytest.mark.parametrize("command", ["audit", "certify"])
def test_decisions_in_other_codes_than_the_label_are_refused(fairbound, graded, command):
    refused = fairbound(command, graded, *GRADED, "--require", LIMIT)
    assert (refused.code, refused.stdout) == (2, "")
    for words in ("'bad', 'fair', 'good'", "the values 0, 1", "counts as 'good' with --positive-decision"):
        assert words in refused.sentence


def test_the_decision_that_counts_as_positive_is_named(fairbound, graded):
    given = [*GRADED, "--positive-decision", "1", "--require", LIMIT]
    failed = fairbound("certify", graded, *given, "--json")
    assert failed.code == 1
    rates = {rate["group"]: rate["value"] for rate in json.loads(failed.stdout)["rates"]}
    assert rates == {"female": pytest.approx(1 / 3), "male": pytest.approx(2 / 3)}
    shown = fairbound("audit", graded, *given).stdout
    table = [line.split() for line in shown.splitlines()[2:7]]
    assert table == [
        ["label", "bad", "not", "good", "200"],
        ["label", "fair", "not", "good", "200"],
        ["label", "good", "good", "200"],
        ["decision", "0", "not", "good", "300"],
        ["decision", "1", "good", "300"],
    ]
    turned = json.loads(fairbound("audit", graded, *GRADED, "--positive-decision", "0", "--json").stdout)
    assert turned["groups"][0]["rates"]["good"]["selection_rate"]["value"] == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("labels", "decided", "options", "words"),
    [
        ("012", "01", ["--positive", "2"], "is never '2'"),
        ("012", "013", ["--positive", "1"], "contains 3"),
        ("012", "013", ["--multiclass"], "contains 3"),
        ("012", "01", ["--positive", "2", "--positive-decision", "yes"], "is never 'yes' (--positive-decision)"),
        ("012", "012", ["--multiclass", "--positive-decision", "1"], "--positive-decision '1' needs two labels"),
        ("ab", "01", ["--positive", "b"], "'a', 'b'"),
        ("ab", "abc", ["--positive", "b", "--positive-decision", "c"], "decisions of two values"),
    ],
)
def test_codes_that_leave_doubts_are_refused(fairbound, tmp_path, labels, decided, options, words):
    rows = [(labels[row % len(labels)], decided[row // 3 % len(decided)], "fm"[row % 2]) for row in range(120)]
    path = write_csv(tmp_path / "x.csv", ("y", "p", "g"), rows)
    refused = fairbound("certify", path, "--target", "y", "--prediction", "p", "--sensitive", "g", *options,
                        "--require", LIMIT)  # fmt: skip
    assert refused.code == 2
    assert words in refused.sentence


def test_true_and_false_are_one_and_zero(fairbound, tmp_path):
    rows = [(row % 2, ("False", "True")[row // 2 % 2], "fm"[row % 3 == 0]) for row in range(120)]
    path = write_csv(tmp_path / "x.csv", ("y", "p", "g"), rows)
    found = fairbound("audit", path, "--target", "y", "--prediction", "p", "--sensitive", "g", "--json")
    assert json.loads(found.stdout)["groups"][-1]["rates"]["1"]["selection_rate"]["value"] == 0.5


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (("cook", "nurse"), "Column 'w' (--weight) must hold numbers only, but has 'cook' in row 1."),
        (("1", ""), "Column 'w' (--weight) has no value in 30 of 60 rows"),
        (("1", "-2"), "Column 'w' (--weight) is -2 in row 2."),
    ],
)
@pytest.mark.parametrize("command", ["audit", "certify"])
def test_a_weight_that_is_no_number_is_named(fairbound, tmp_path, command, weights, words):
    rows = [(row % 2, row // 2 % 2, "fm"[row % 3 == 0], weights[row % 2]) for row in range(60)]
    path = write_csv(tmp_path / "x.csv", ("y", "p", "g", "w"), rows)
    given = ["--target", "y", "--prediction", "p", "--sensitive", "g", "--weight", "w", "--require", LIMIT]
    refused = fairbound(command, path, *given)
    assert (refused.code, refused.sentence[: len(words)]) == (2, words)


def test_small_groups_are_merged_and_named(fairbound, tmp_path):
    groups = ["a"] * 60 + ["b"] * 60 + ["c", "d"] * 8
    rows = [(row % 2, row // 2 % 2, group) for row, group in enumerate(groups)]
    path = write_csv(tmp_path / "x.csv", ("y", "p", "g"), rows)
    given = ["--target", "y", "--prediction", "p", "--sensitive", "g", "--min-group-size", "20"]
    found = json.loads(fairbound("audit", path, *given, "--json").stdout)
    assert found["merged"] == {"g": {"c": 8, "d": 8}}
    assert [(group["group"], group["rows"]) for group in found["groups"]] == [
        ("a", 60), ("b", 60), ("(other)", 16), ("everyone", 136),
    ]  # fmt: skip
    shown = fairbound("audit", path, *given).stdout
    assert says(shown, "g: ", "merged into (other) (c 8, d 8)")
    assert "g: fewer than 30 rows ((other) 16)" in shown
    assert fairbound("audit", path, *given, "--min-group-size", "0").code == 2


def test_an_audit_as_a_page(fairbound, decisions, tmp_path):
    given = [*ROWS, "--sensitive", "sex", "--require", LIMIT, "--out", "audit.html"]
    found = fairbound("audit", decisions, *given)
    assert found.code == 1
    assert "Written to audit.html." in found.stdout
    page = (tmp_path / "audit.html").read_text(encoding="utf-8")
    assert "0.5714" in page
    assert "✗ not kept" in page
    assert "audit.html exists already (--out)" in fairbound("audit", decisions, *given).sentence
    assert "x.pdf (--out) must end in .html" in fairbound("audit", decisions, *given, "--out", "x.pdf").sentence


FULL = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))
from fairbound.cli import main
main(sys.argv[1:])
"""


def test_a_full_disk_is_a_sentence_with_the_path(decisions, tmp_path):
    given = ["audit", str(decisions), *ROWS, "--sensitive", "sex", "--out", str(tmp_path / "audit.html")]
    done = subprocess.run([sys.executable, "-c", FULL, *given], capture_output=True, text=True, check=False)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert str(tmp_path / "audit.html") in done.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["decisions.csv"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_standard_output_on_a_full_disk_is_named(decisions):
    for more in ([], ["--json"]):
        given = [sys.executable, "-m", "fairbound", "audit", str(decisions), *ROWS, "--sensitive", "sex", *more]
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(given, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        assert done.returncode == 2
        assert "standard output: no space left on device" in done.stderr


def test_a_certificate_names_options(fairbound, tmp_path):
    rows = [(row % 2, row // 2 % 2, "fm"[row % 3 == 0], 1 + row % 2) for row in range(120)]
    path = write_csv(tmp_path / "x.csv", ("y", "p", "g", "w"), rows)
    given = ["--target", "y", "--prediction", "p", "--sensitive", "g", "--weight", "w", "--require", LIMIT]
    shown = fairbound("certify", path, *given)
    assert (shown.code, "--largest-weight" in shown.stdout, "largest_weight=" in shown.stdout) == (1, True, False)
    reason = json.loads(fairbound("certify", path, *given, "--json").stdout)["limits"][0]["reason"]
    assert "--largest-weight" in reason
    assert "largest_weight=" not in reason


def test_a_group_called_everyone_has_a_line_of_its_own(fairbound, tmp_path):
    rows = [(row % 2, row // 2 % 2, ("everyone", "b")[row % 3 == 0]) for row in range(120)]
    path = write_csv(tmp_path / "x.csv", ("y", "p", "g"), rows)
    given = ["--target", "y", "--prediction", "p", "--sensitive", "g"]
    counts = [line.split()[:2] for line in fairbound("audit", path, *given).stdout.splitlines()[4:7]]
    assert counts == [["b", "40"], ["'everyone'", "80"], ["everyone", "120"]]
    groups = json.loads(fairbound("audit", path, *given, "--json").stdout)["groups"]
    assert [(each["group"], each["everyone"]) for each in groups] == [
        ("b", False), ("everyone", False), ("everyone", True),
    ]  # fmt: skip


@pytest.fixture
def probable(tmp_path):
    """Decisions about people whose race is an estimate; 60% and 30% of the two kinds are selected."""
    rows = [
        (place % 2, int(place % 10 < (6 if white > 0.5 else 3)), white, round(1 - white, 3), "fm"[place % 2])
        for white in (0.9, 0.2)
        for place in range(100)
    ]
    return write_csv(tmp_path / "x.csv", ("y", "p", "white", "black", "sex"), rows)


GIVEN = ["--target", "y", "--prediction", "p", "--json"]


def test_columns_of_probabilities_are_one_sensitive_column(fairbound, probable):
    found = json.loads(fairbound("audit", probable, *GIVEN, "--sensitive", "race=white,black", "sex").stdout)
    rates = {
        group["group"]: group["rates"]["1"]["selection_rate"]["value"]
        for group in found["groups"]
        if group["grouping"] == "race"
    }
    assert rates["white"] == pytest.approx((0.9 * 60 + 0.2 * 30) / 110)
    assert rates["black"] == pytest.approx((0.1 * 60 + 0.8 * 30) / 90)
    assert found["rows"] == 200
    assert {group["grouping"] for group in found["groups"]} == {"race", "sex"}


def test_a_certificate_of_probable_groups(fairbound, probable):
    given = ["--target", "y", "--prediction", "p", "--sensitive", "race=white,black", "--require"]
    assert fairbound("certify", probable, *given, "disparate_impact >= 0.05", "--quiet").code == 0
    assert "NOT CERTIFIABLE" in fairbound("certify", probable, *given, "covariance <= 0.1").stdout


@pytest.mark.parametrize(
    ("sensitive", "parts"),
    [
        ("race=white,blakc", ("'blakc'", "'black'")),
        ("race=white,sex", ("'sex'", "text", "from 0 to 1")),
        ("race=white,y", ("row 2", "y: 1", "add up to at most 1")),
    ],
)
def test_wrong_columns_of_probabilities(fairbound, probable, sensitive, parts):
    refused = fairbound("audit", probable, *GIVEN, "--sensitive", sensitive)
    assert refused.code == 2
    assert all(part in refused.sentence for part in parts), refused.sentence


@pytest.mark.slow
def test_training_for_probable_groups(fairbound, probable):
    given = ["--target", "y", "--sensitive", "race=white,black", "--ignore", "p", "--model", "linear"]
    found = fairbound("train", probable, *given, "--require", "disparate_impact >= 0.9", "--out", "run", "--json")
    assert found.code == 0
    assert Path("run", "report.html").exists()
