"""The results file: an interrupt loses at most the run under way."""

import pytest
from tests.experiments.made_up import outcome, part

from fairbound.experiments.runs import Evidence, Results

SETTING = Evidence("law", "rows", epochs=3)


def test_what_was_added_is_there_when_the_file_is_opened_again(tmp_path):
    path = tmp_path / "results.jsonl"
    results = Results(path)
    made = outcome(SETTING.limited(0.8), part(0.9, 0.8))
    results.add(made)
    again = Results(path)
    assert len(again) == 1
    assert again[SETTING.limited(0.8)] == made
    assert SETTING.limited(0.9) not in again
    assert again.missing([SETTING.limited(0.9), SETTING.limited(0.8), SETTING.limited(0.9)]) == [SETTING.limited(0.9)]


@pytest.mark.parametrize("cut", [1, 20, 200])
def test_a_line_cut_short_is_dropped_and_the_file_goes_on(tmp_path, cut):
    path = tmp_path / "results.jsonl"
    results = Results(path)
    for bound in (0.8, 0.9):
        results.add(outcome(SETTING.limited(bound), part(0.9, bound)))
    path.write_bytes(path.read_bytes()[:-cut])
    again = Results(path)
    assert list(again) == [SETTING.limited(0.8)]
    again.add(outcome(SETTING.limited(0.9), part(0.9, 0.9)))
    assert len(Results(path)) == 2


def test_a_file_that_has_only_a_cut_line_is_empty(tmp_path):
    path = tmp_path / "results.jsonl"
    Results(path).add(outcome(SETTING.free_run(), part(0.9, 0.5)))
    path.write_bytes(path.read_bytes()[:50])
    assert len(Results(path)) == 0
    assert path.read_bytes() == b""


@pytest.mark.parametrize("text", ["not JSON\n", "{}\n", '{"run": {}}\n', "[]\n", "my notes", "lines\nof my notes"])
def test_a_foreign_file_is_refused_and_left_alone(tmp_path, text):
    path = tmp_path / "results.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"results.jsonl, line 1\b.*fairbound reproduce"):
        Results(path)
    assert path.read_text(encoding="utf-8") == text


def test_results_of_another_version_need_not_have_the_same_fields(tmp_path):
    path = tmp_path / "results.jsonl"
    path.write_text('{"version": "9.0", "run": {"a field": 1}}\n', encoding="utf-8")
    results = Results(path)
    assert (len(results), results.outdated) == (0, 1)
