"""Sums over cells give what the library itself measures, and come back from JSON as they were."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.experiments.made_up import outcome, part

from fairbound import audit
from fairbound.data import load_dataset
from fairbound.experiments.protocol import Run
from fairbound.experiments.running import fingerprint, load_rows, make_problem, perform
from fairbound.experiments.runs import Evidence


@pytest.fixture(scope="module")
def setting():
    return Evidence("law", fingerprint(load_rows("law", limit=2000)), epochs=5)


@pytest.fixture(scope="module")
def performed(setting):
    return perform(setting.limited(0.9), limit=2000)


@pytest.mark.slow
def test_a_part_says_what_an_audit_of_the_decisions_says(setting, performed):
    rows = load_rows("law", limit=2000).test
    fast = perform(Evidence("law", setting.data, "fast").limited(0.9), limit=2000)
    problem = make_problem(fast.run, load_rows("law", limit=2000).train)
    # The same training again, to have its decisions at hand.
    from fairbound.training import fit

    fit(problem, load_rows("law", limit=2000).train.X)
    with torch.no_grad():
        decisions = (problem.module(torch.from_numpy(rows.X).float())[:, 0] > 0).numpy().astype(int)
    found = audit(rows.y, decisions, rows.sensitive["race"]).to_dict()
    measures = {entry["measure"]: entry["value"] for entry in found["measures"]}
    assert fast.test.accuracy == pytest.approx(float(np.mean(decisions == rows.y)), abs=1e-12)
    assert fast.test.ratio() == pytest.approx(measures["disparate_impact"], abs=1e-12)
    assert fast.test.ratio("equal_impact") == pytest.approx(measures["equal_impact"], abs=1e-12)
    assert abs(fast.test.covariance()) == pytest.approx(measures["covariance"], abs=1e-12)


def test_totals_are_those_of_the_rows(performed):
    counts = load_rows("law", limit=2000).train.describe().counts
    np.testing.assert_array_equal(np.array(performed.train.totals), counts)
    assert performed.train.groups == ("Non-White", "White")


def test_the_paper_solver_is_judged_by_its_last_iterate(performed):
    """The history ends one step before the last iterate, so they are near but need not be equal."""
    assert len(performed.history["accuracy"]) == 5
    assert performed.train.accuracy == pytest.approx(performed.history["accuracy"][-1], abs=0.1)
    assert performed.processor_seconds > 0
    assert performed.peak_megabytes > 10


def test_a_run_is_repeatable_bit_for_bit(setting, performed):
    again = perform(setting.limited(0.9), limit=2000)
    assert again.train == performed.train
    assert again.test == performed.test


def test_made_up_parts_are_what_they_say():
    made = part(0.8, 0.7, surrogate_ratio=0.75)
    assert made.accuracy == pytest.approx(0.8)
    assert made.group_accuracy(0) == pytest.approx(0.8)
    assert made.ratio() == pytest.approx(0.7)
    assert made.ratio(by="surrogate") == pytest.approx(0.75)
    assert made.violation("disparate_impact", 0.8) == pytest.approx(0.8 * 0.5 - 0.35)
    assert made.covariance() == pytest.approx(0.25 * (0.5 - 0.35))


def test_nobody_selected_keeps_any_ratio():
    assert part(0.5, 1.0, rate=0.0).ratio() == 1.0


@pytest.mark.parametrize(
    "change", [{"seed": 2}, {"scale": 1.0}, {"epochs": 6}, {"solver": "fast"}, {"data": "other"}, {"batches": True}]
)
def test_whatever_changes_the_numbers_changes_the_key(change):
    run = Run("law", "data", "paper", limits=(("disparate_impact", 0.8),))
    assert replace(run, **change).key != run.key


def test_a_fingerprint_tells_rows_apart():
    split = load_dataset("law", protocol="paper")
    assert fingerprint(split) == fingerprint(load_rows("law"))
    assert fingerprint(load_rows("law", limit=100)) != fingerprint(split)


def test_mini_batches_and_penalties_run(setting):
    batches = Evidence("law", setting.data, epochs=2, batches=True)
    for run in (batches.limited(0.9), batches.penalty_run(0.1), batches.penalty_run(0.1, "covariance")):
        found = perform(run, limit=2000)
        assert 0 < found.train.accuracy < 1
        assert len(found.history["loss"]) == 2


def test_a_covariance_that_cannot_bind_limits_nothing(setting):
    free, limited = (
        perform(run, limit=2000)
        for run in (setting.free_run(), setting.limited(0.5, "covariance", surrogate="covariance", scale=1.0))
    )
    assert limited.train.decisions == free.train.decisions
    assert outcome(setting.limited(0.5, "covariance", surrogate="covariance", scale=1.0), limited.train).kept
