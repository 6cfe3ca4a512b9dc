"""A file full of escape sequences: none of them reaches the terminal, and none a page or a table."""

from __future__ import annotations

import json
import unicodedata

import numpy as np
import pytest
from tests.cli.helpers import write_csv

ESCAPE = "\x1b]0;owned\x07"
SEX, LABEL, INPUT, JOB = (f"{name}{ESCAPE}\x9b31m\u202e" for name in ("sex", "label", "input", "job"))
WOMEN, MEN = f"=f{ESCAPE}\u2066", "+m\x1b[2J\u200b|<script>alert(1)</script>"
BAD, GOOD = "bad\x1b[31m\n\nfairbound: all is well", "good\x9d52;c;\x07"
FILE = "loans\x1b[31m\u202e.csv"
LIMIT = "disparate_impact >= 0.5"


def hidden(text: str) -> list[str]:
    return [
        character
        for character in text
        if unicodedata.category(character) in {"Cc", "Cf", "Cs", "Zl", "Zp"} and character not in "\n"
    ]


@pytest.fixture
def planted(tmp_path):
    rng = np.random.default_rng(0)
    rows = [
        (round(x, 2), ("cook\x1b[5m", "smith")[place % 2], (WOMEN, MEN)[place % 3 == 0], (BAD, GOOD)[x + noise > 0])
        for place, (x, noise) in enumerate(rng.normal(size=(300, 2)).tolist())
    ]
    decided = [(*row, row[-1]) for row in rows]
    return write_csv(tmp_path / FILE, (INPUT, JOB, SEX, LABEL, f"decision{ESCAPE}"), decided)


def rows_of(*more):
    # The names have more semicolons than commas, so the delimiter that is found would be the wrong one.
    return ["--target", LABEL, "--sensitive", SEX, "--positive", GOOD, "--delimiter", ",", *more]


DECIDED = rows_of("--prediction", f"decision{ESCAPE}")


@pytest.mark.parametrize(
    "arguments",
    [
        ["audit", FILE, *DECIDED, "--require", LIMIT],
        ["audit", FILE, *DECIDED, "--json"],
        ["certify", FILE, *DECIDED, "--require", LIMIT],
        ["certify", FILE, *DECIDED, "--require", LIMIT, "--json"],
        ["audit", FILE, *rows_of("--prediction", JOB)],
        ["audit", FILE, *DECIDED, "--weight", JOB],
        ["audit", FILE, *DECIDED, "--groups", ESCAPE],
        ["audit", FILE, *DECIDED, "--sensitive", f"{SEX}x"],
        ["audit", f"{FILE}x", *DECIDED],
        ["audit", FILE, *DECIDED, "--require", f"{ESCAPE} >= 0.5"],
        ["audit", FILE, *DECIDED, f"--{ESCAPE}"],
        [f"audit{ESCAPE}"],
        ["data", "describe", FILE, *rows_of()],
        ["data", "describe", FILE, *rows_of("--ignore", ESCAPE)],
        ["train", FILE, *rows_of("--out", f"run{ESCAPE}", "--model", ESCAPE, "--require", LIMIT)],
    ],
)
def test_nothing_hidden_is_printed(fairbound, planted, arguments):
    found = fairbound(*arguments)
    assert found.code in (0, 1, 2)
    assert found.stdout + found.stderr
    assert hidden(found.stdout) == []
    assert hidden(found.stderr) == []
    if "--json" in arguments:
        assert WOMEN in [group["group"] for group in json.loads(found.stdout).get("groups", [{"group": WOMEN}])]


def test_training_and_its_files(fairbound, planted, tmp_path):
    given = rows_of("--require", LIMIT, "--ignore", f"decision{ESCAPE}", "--out", "run")
    trained = fairbound("train", FILE, *given)
    assert trained.code in (0, 1), trained.stderr
    seen = [
        trained,
        fairbound("predict", "run", FILE, "--delimiter", ",", "--out", "out.csv"),
        fairbound("report", "run", "--out", "again.html"),
        fairbound("frontier", FILE, *given[:-1], "swept", "--bounds", "0.5"),
    ]
    for each in seen:
        assert each.code in (0, 1), each.stderr
        assert hidden(each.stdout + each.stderr) == []
    assert (tmp_path / "again.html").is_file()
    card = (tmp_path / "run" / "model-card.md").read_text(encoding="utf-8")
    assert hidden(card) == []
    assert "<script>" not in card
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "<script>alert(1)" not in page
    shown = page[: page.index("<script>")]
    assert [each for each in hidden(shown) if each not in "\t\r"] == []
    assert "\\x1b" in shown
