"""Runs in parallel processes: the same numbers, progress, and an interrupt that keeps what is finished."""

from dataclasses import replace

import pytest
from tests.experiments.made_up import outcome, part

from fairbound.experiments import protocol
from fairbound.experiments.running import complete, fingerprint, load_rows, perform
from fairbound.experiments.runs import Evidence, Results

ROWS = 1000


@pytest.fixture(scope="module")
def setting():
    return Evidence("law", fingerprint(load_rows("law", limit=ROWS)), epochs=3)


@pytest.mark.slow
def test_two_processes_give_what_one_gives(setting, tmp_path):
    runs = [setting.limited(bound) for bound in (0.8, 0.85, 0.9)]
    results, seen = Results(tmp_path / "results.jsonl"), []
    complete(runs, results, jobs=2, limit=ROWS, report=lambda *numbers: seen.append(numbers))
    for run in runs:
        assert results[run].train == perform(run, limit=ROWS).train
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_what_is_there_is_not_run_again(setting):
    results, seen = Results(), []
    complete([setting.free_run()], results, limit=ROWS)
    complete(
        [setting.free_run(), setting.limited(0.9)], results, limit=ROWS, report=lambda *numbers: seen.append(numbers)
    )
    assert seen == [(1, 1)]
    complete([setting.free_run()], results, limit=ROWS, report=lambda *_: pytest.fail("nothing was missing"))


@pytest.mark.slow
def test_an_interrupt_keeps_what_is_finished(setting, tmp_path):
    path = tmp_path / "results.jsonl"

    def interrupt(finished: int, _: int) -> None:
        if finished == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        complete(
            [setting.limited(0.5 + k / 100) for k in range(8)], Results(path), jobs=2, limit=ROWS, report=interrupt
        )
    assert len(Results(path)) == 2


def test_a_run_that_fails_says_why(setting):
    with pytest.raises(ValueError, match="must lie between 0 and 1"):
        complete([setting.limited(1.5)], Results(), limit=ROWS)


@pytest.mark.parametrize(
    ("ratio", "found"),
    # The ratio falls smoothly from 1 at strong penalties to 0.5 at weak ones, or jumps past the target.
    [(lambda penalty: 0.5 + 0.5 / (1 + penalty / 0.16), True), (lambda penalty: 0.5 if penalty > 1 else 1.0, False)],
)
def test_a_search_asks_step_by_step_and_ends(setting, ratio, found):
    """Bisection of the penalty: at most twelve fits, each asked for when the last is known."""
    setting, asked = replace(setting, results=Results()), []
    while (step := setting.search(0.9)).next is not None:
        asked.append(step.next.penalty)
        setting.results.add(outcome(step.next, part(0.8, ratio(step.next.penalty))))
    assert step.found is found
    assert len(step.fits) == len(asked) <= protocol.SEARCH_FITS
    if found:
        assert asked[-1] == pytest.approx(0.04, rel=0.2)  # ± 0.01 of the ratio is about an eighth of λ there
    else:
        assert len(asked) == protocol.SEARCH_FITS
