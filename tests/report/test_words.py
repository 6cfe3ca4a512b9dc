"""What a report says at its top, for every outcome."""

from __future__ import annotations

import re

import pytest
from sklearn.linear_model import LogisticRegression
from tests.estimator.helpers import quick, toy
from tests.report.example import edited, fit_result, law_summary

from fairbound.report import to_html, to_markdown, words
from fairbound.report.caveats import caveats, remarks
from fairbound.report.numbers import about
from fairbound.sqp import Status
from fairbound.studies import Decisions, ModelInput, ModelInputs, Summary, summarize

ROWS = Decisions(
    y=[0, 1, 1, 0, 1, 0, 1, 0],
    sensitive_features={"side": ["a"] * 4 + ["b"] * 4},
    before=[0, 1, 1, 0, 0, 0, 0, 0],
    after=[0, 1, 1, 1, 1, 0, 0, 0],
)


def changed(
    *,
    verdict: str = "INCONCLUSIVE",
    training: bool = True,
    held_out: bool = True,
    calibration: str | None = None,
    interrupted: str = "",
    forecast: dict | None = None,
) -> Summary:
    """The law summary with other outcomes."""
    with edited(law_summary()) as values:
        for part, kept in (("training", training), ("held_out", held_out)):
            values[part]["limits"][0]["after"]["kept"] = kept
        certificate = values["held_out"]["certificate"]
        certificate["limits"][0]["verdict"] = verdict
        if calibration is not None:
            tested = {**certificate["limits"][0], "verdict": calibration}
            values["fit"]["certificate"] = {**certificate, "limits": [tested]}
        values["interrupted"] = interrupted
        values["fit"]["forecast"] = forecast
    return values.summary


@pytest.mark.parametrize(
    ("outcome", "tone", "said"),
    [
        ({"verdict": "PASS"}, "good", "kept for new rows, with 95% confidence, and on the training rows"),
        (
            {"verdict": "FAIL"},
            "bad",
            "The limit is broken for new rows, with 95% confidence; the limit is kept on the training rows",
        ),
        ({}, "open", "kept among the held-out rows and on the training rows; for new rows it is open"),
        ({"held_out": False}, "bad", "The limit is not kept on the held-out rows (disparate_impact >= 0."),
        ({"training": False}, "bad", "The limit is not kept on the training rows"),
        ({"training": False, "verdict": "PASS"}, "bad", "The limit is not kept on the training rows"),
    ],
)
def test_the_first_sentence(outcome, tone, said):
    verdict, *_ = words.answers(changed(**outcome))
    assert verdict.tone == tone
    assert said in verdict.short


@pytest.mark.parametrize(("holds", "said"), [(0.04, "on new rows a break is likely"), (0.5, "for new rows it is open")])
def test_the_first_sentence_agrees_with_the_forecast(holds, said):
    one = {"limit": "disparate_impact >= 0.9", "expected": 0.9, "lower": 0.8, "upper": 1.0, "holds": holds}
    summary = changed(forecast={"holds": holds, "limits": [one], "rows": "training"})
    assert said in words.answers(summary)[0].short


def test_beyond_the_limit_by_chance_is_said():
    verdict, *_ = words.answers(changed(held_out=False))
    assert verdict.short.endswith("kept on the training rows; for new rows it is open")
    assert "The distance to the limit may be chance." in verdict.sentence


def test_nothing_held_out_claims_nothing_about_new_rows():
    answers = words.answers(summarize("disparate_impact >= 0.1", ROWS))
    assert answers[0].tone == "open"
    assert "No rows were held out" in answers[0].sentence
    assert [answer.short for answer in answers if "new rows" in answer.question] == ["Not known"]
    assert not any("confidence" in answer.sentence for answer in answers)


def test_no_limit_asked_for():
    questions = [answer.question for answer in words.answers(summarize((), ROWS))]
    assert words.answers(summarize((), ROWS))[0].short == "No limit was asked for"
    assert questions[1:] == ["What was asked?", "What did it cost?"]


@pytest.mark.parametrize("outcome", [{"verdict": "PASS"}, {"verdict": "FAIL"}, {}, {"training": False}])
def test_an_interrupt_is_named_first(outcome):
    without, *_ = words.answers(changed(**outcome))
    verdict, *_ = words.answers(changed(**outcome, interrupted="the best model found so far."))
    assert verdict.short.lower() == f"interrupted: {without.short.lower()}"
    assert verdict.sentence.startswith("The run was interrupted. This report is about the best model found so far.")
    assert verdict.tone == ("bad" if without.tone == "bad" else "open")


def test_the_calibration_certificate_carries_the_claim():
    summary = changed(verdict="INCONCLUSIVE", calibration="PASS")
    answers = words.answers(summary)
    assert answers[0].tone == "good"
    assert "calibration rows" in answers[0].sentence
    # Both are printed: the test rows are a second, independent statement.
    assert answers[2].short.endswith("PASS at 95% by the calibration rows; INCONCLUSIVE at 95% by the held-out rows")


def test_a_confidence_that_no_model_reached_comes_first():
    summary = changed(verdict="INCONCLUSIVE", calibration="INCONCLUSIVE")
    verdict = words.answers(summary)[0]
    assert verdict.tone == "bad"
    assert verdict.short.startswith("No model passed for new rows, with 95% confidence")
    assert "Nothing is claimed for new rows" in verdict.sentence


def test_held_out_rows_that_refute_what_the_calibration_rows_show_are_not_passed_over():
    summary = changed(verdict="FAIL", calibration="PASS")
    verdict = words.answers(summary)[0]
    assert verdict.tone == "bad"
    assert "contradict each other" in verdict.short
    assert "Draw new rows." in verdict.sentence


def test_several_limits_are_named():
    summary = summarize(["disparate_impact >= 0.3", "demographic_parity <= 0.1"], ROWS, ROWS)
    verdict, training, *_ = words.answers(summary)
    assert verdict.short == "1 of 2 limits are not kept on the training rows"
    assert [text for text, _ in training.lines] == [
        "demographic_parity <= 0.1",
        "disparate_impact >= 0.3",
    ]  # worst first
    found = dict(training.lines)
    assert found["disparate_impact >= 0.3"].startswith("0.3333 (without limits 0.0000)")
    assert found["demographic_parity <= 0.1"].endswith("from the selection rates of a (0.750) and b (0.250)")


def test_cost_and_gain_of_the_law_model():
    summary = law_summary()
    answers = {answer.question: answer for answer in words.answers(summary)}
    accuracy = summary.held_out.accuracy
    cost = answers["What did it cost?"]
    assert cost.short == f"−{100 * accuracy.cost:.2f} points of accuracy"
    assert f"gain +{100 * accuracy.gain:.2f} points" in cost.sentence
    assert cost.tone == "plain"


def test_no_better_than_a_constant_is_said():
    rows = Decisions(y=[1, 1, 1, 0], sensitive_features=list("abab"), after=[1, 1, 1, 1])
    gain = words.answers(summarize("disparate_impact >= 0.8", rows))[-1]
    assert gain.tone == "bad"
    assert "gain 0.00 points. A constant prediction keeps any ratio" in gain.sentence


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ("disparate_impact >= 0.8", "ratio of selection rates between any two groups of side at least 0.8"),
        (
            "demographic_parity <= 0.1 against overall",
            "difference of selection rates between each group of side and everyone at most 0.1",
        ),
        (
            "0.8 <= disparate_impact <= 1.25 against a",
            "ratio of selection rates between each group of side and group a at least 0.8 and at most 1.25",
        ),
        ("true_positive_rate[b] >= 0.3", "true-positive rate of group b at least 0.3"),
        ("selection_rate <= 0.9", "selection rate of every group of side at most 0.9"),
        ("covariance <= 0.1", "covariance of prediction and group, for groups of side, in size at most 0.1"),
    ],
)
def test_limits_in_words(limit, said):
    assert words.limit_in_words(summarize(limit, ROWS).limits[0]) == said


def test_what_moved_although_nobody_asked():
    texts = words.unasked(law_summary())
    further = [each for each in law_summary().changes if each.direction == "further apart"]
    assert len(texts) == len(further) > 0
    assert not any(text.startswith("disparate impact") for text in texts)
    first = max(further, key=lambda each: abs(each.change))
    assert f"from {first.before.value:.3f} to {first.after.value:.3f}" in texts[0]


def test_rows_that_would_decide_are_listed_by_group():
    needed = {"Non-White": 5403, "White": 28_577}
    with edited(law_summary()) as values:
        values["held_out"]["certificate"]["limits"][0]["rows_needed"] = {"race": needed}
    page = to_html(values.summary)
    for group, rows in needed.items():
        assert f'{group} <span class="note">(race)</span>' in page
        assert f'data-label="Rows that would decide">{rows:,}</td>' in page


def test_caveats_fit_what_was_done():
    with_rows, without = caveats(law_summary()), caveats(summarize((), ROWS))
    assert any("population that the held-out rows were drawn from" in text for text in with_rows)
    assert any("choose a point of the trade-off" in text for text in with_rows)
    assert any("No rows were held out" in text for text in without)
    assert not any("certificate" in text for text in without)


def test_what_is_left_out_is_said():
    rows = Decisions(
        y=[1, 0, 1, 0, 1, 1],
        sensitive_features={"side": ["a", "a", "b", "b", None, "c"]},
        after=[1, 0, 1, 0, 0, 1],
        sample_weight=[1, 2, 1, 1, 1, 1],
    )
    said = " ".join(remarks(summarize((), rows, notes=["Group d was left out."])))
    assert "Group d was left out." in said
    assert "weighted" in said
    assert "1 training row has no known side" in said
    assert "false-positive rate" in said.lower()
    assert "undefined on the training rows for 1 group of side" in said
    assert "leave them out: c." in said
    assert "Fewer than 30 training rows: a (2), b (2), c (1)." in said


def constant(kept: bool = True) -> Summary:
    """A summary of a model that decides the same for everyone, or for all but one group."""
    y = [0, 1, 1, 1] * 50
    after = [1] * 200 if kept else [1] * 100 + [0] * 100
    rows = Decisions(y=y, sensitive_features=["a"] * 100 + ["b"] * 100, before=y, after=after)
    return summarize(
        "disparate_impact >= 0.8", rows, rows, result=fit_result(status=Status.DEGENERATE, conflicts=("x", "y"))
    )


def test_a_degenerate_run_opens_with_that_in_red():
    verdict, *_ = words.answers(constant())
    assert (verdict.tone, verdict.short) == ("bad", "No better than a constant prediction")
    assert "75.00%" in verdict.sentence
    assert "Do not use this model" in verdict.sentence
    page = to_html(constant())
    assert page.index("No better than a constant prediction") < page.index("What was asked?")
    assert 'class="verdict bad"' in page
    assert to_markdown(constant()).splitlines()[2].startswith("**No better than a constant prediction.**")


def test_a_degenerate_run_without_limits_says_so_too():
    rows = Decisions(y=[0, 1, 1, 1] * 5, sensitive_features=["a", "b"] * 10, after=[1] * 20)
    verdict, *_ = words.answers(summarize((), rows))
    assert (verdict.tone, verdict.short) == ("bad", "No better than a constant prediction")


def test_a_limit_that_is_not_kept_comes_before_anything_else_with_its_conflicts():
    summary = constant(kept=False)
    verdict, *_ = words.answers(summary)
    assert verdict.tone == "bad"
    assert verdict.short == "The limit is not kept on the training rows"
    assert "disparate_impact >= 0.8 (reached 0.0000)" in verdict.sentence
    assert "no better than a constant" in verdict.sentence
    for page in (to_html(summary), to_markdown(summary)):
        assert page.index("not kept on the training rows") < page.index(">x<" if "<html" in page else "`x`")


def test_tiles_name_their_limit_and_the_worst_groups():
    _, training, new_rows, _ = words.answers(law_summary())
    for answer in (training, new_rows):  # on the held-out rows a value, and a certificate
        assert {text for text, _ in answer.lines} == {"disparate_impact >= 0.9"}
    assert re.search(r"from the selection rates of Non-White \(0\.\d{3}\) and White \(0\.\d{3}\)", training.lines[0][1])


def test_a_tile_of_many_limits_shows_the_worst_and_counts_the_others():
    limits = [f"disparate_impact >= 0.{place}" for place in range(1, 9)]
    _, training, *_ = words.answers(summarize(limits, ROWS, ROWS))
    assert len(training.lines) == words.MOST_LIMITS + 1
    assert training.lines[-1] == ("", f"and {len(limits) - words.MOST_LIMITS} more in the table below")
    assert training.lines[0][0] == "disparate_impact >= 0.4"  # the first that is not kept: 1/3 is reached


def test_notes_are_said_once_and_the_rest_is_folded():
    notes = [f"Note number {place}." for place in range(12)]
    summary = summarize((), ROWS, notes=[*notes, *notes])
    assert [text for text in remarks(summary) if text.startswith("Note")] == notes
    page = to_html(summary)
    top, folded = page.split("more note")
    assert top.count("<li>Note number") == 5
    assert folded.count("<li>Note number") == 7


def test_what_the_model_goes_by():
    inputs = (ModelInput("age", -0.5), ModelInput("<b>", 0.25))
    model = ModelInputs("coefficients", "training", 40, inputs)
    page = to_html(summarize((), ROWS, model=model))
    assert "2 of 40 coefficients, the largest first" in page
    assert "&lt;b&gt;" in page
    assert "does not say what causes the outcome" in page
    assert "| age | −0.500 |" in to_markdown(summarize((), ROWS, model=model))
    assert "Inputs of the model" not in to_html(summarize((), ROWS))
    shuffled = to_html(summarize((), ROWS, model=ModelInputs("importances", "held-out", 40, inputs)))
    assert "shuffled" in shuffled
    assert "Correction, in logits" not in shuffled
    clf = quick("demographic_parity <= 0.2", base=LogisticRegression())
    X, y, groups = toy()
    record = clf.fit(X, y, sensitive_features=groups).result_
    (column, size), *_ = record.base.moved.items()
    over = ModelInputs("importances", "held-out", 1, (ModelInput(column, 0.25),))
    page = to_html(summarize("demographic_parity <= 0.2", ROWS, model=over, result=record))
    assert re.search(rf'Correction, in logits.*<td class="number">{re.escape(about(size))}</td>', page, re.DOTALL)
