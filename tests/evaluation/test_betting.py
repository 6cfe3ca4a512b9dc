"""E-processes: their expectation is at most 1 while the limit is kept, for every rate, order of groups and past."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from fairbound.evaluation.e_processes import MEMORIES, EProcesses

LINES = {"ratio": (0.8, 0.0), "directed ratio": (1.25, 0.0), "difference": (1.0, -0.1), "equal": (1.0, 0.0)}
LAYOUTS = ["ababababab", "aabbaabbab", "aaaaabaaab", "bbbbabbbba", "aaaaabbbbb"]
PASTS = {  # rows and positive outcomes that the players remember, and how many rows have passed
    "none": ((0, 0, 0, 0), 0),
    "far below": ((400, 20, 400, 300), 1998),
    "below": ((200, 60, 300, 150), 3998),
    "kept": ((200, 150, 200, 90), 100),
    "none selected": ((300, 0, 300, 100), 0),
    "all selected": ((300, 90, 300, 300), 0),
}


def started(line, past, copies):
    slope, shift = LINES.get(line, line)
    processes = EProcesses.start(np.full(copies, slope), np.full(copies, shift))
    counts, passed = PASTS[past]
    processes.counts[:] = counts
    processes.rows[:] = passed
    capital = processes.log_evidence  # the reserve of that many rows is smaller: begin with evidence 1 again
    processes.log_invested -= capital[:, None]
    return processes, np.exp(processes.log_evidence)


def evidence_of_all_paths(line, layout, past):
    """Return the evidence after each row for every sequence of outcomes, (2^n, n), in units of that at the start."""
    outcomes = np.array(list(itertools.product([0.0, 1.0], repeat=len(layout))))
    processes, start = started(line, past, len(outcomes))
    waiting, found = np.zeros((len(outcomes), 4)), []
    for place, group in enumerate(layout):
        first = 0 if group == "a" else 2
        waiting[:, first] += 1
        waiting[:, first + 1] += outcomes[:, place]
        if processes.is_complete(waiting).all():
            processes.play(waiting)
            waiting[:] = 0
        found.append(np.exp(processes.log_evidence) / start)
    return outcomes, np.array(found).T


def probabilities(outcomes, rates):
    return np.prod(np.where(outcomes > 0, rates, 1.0 - np.asarray(rates)), axis=1)


@pytest.mark.parametrize("past", PASTS)
@pytest.mark.parametrize("line", LINES)
def test_theorem_the_expected_evidence_is_at_most_one_at_the_limit_and_inside(line, past):
    slope, shift = LINES[line]
    for layout in LAYOUTS:
        outcomes, evidence = evidence_of_all_paths(line, layout, past)
        stopped = evidence[np.arange(len(evidence)), _first_above(evidence, 1.1)]
        for r in np.linspace(0.0, 1.0, 11):
            for p in {min(max(slope * r + shift + inside, 0.0), 1.0) for inside in (0.0, 0.05, 0.3)}:
                if p < slope * r + shift - 1e-12:
                    continue
                weight = probabilities(outcomes, [p if group == "a" else r for group in layout])
                assert (weight @ evidence).max() <= 1.0 + 1e-9
                assert weight @ stopped <= 1.0 + 1e-9  # looking after each row, and stopping when it suits


def _first_above(evidence, level):
    above = evidence >= level
    return np.where(above.any(axis=1), above.argmax(axis=1), evidence.shape[1] - 1)


@pytest.mark.parametrize("past", ["far below", "below"])
def test_rates_may_drift_while_each_block_keeps_the_limit(past):
    outcomes, evidence = evidence_of_all_paths("ratio", "ababababab", past)
    seconds = np.array([0.9, 0.1, 0.5, 1.0, 0.05])
    rates = np.stack([0.8 * seconds, seconds], axis=1).ravel()
    assert (probabilities(outcomes, rates) @ evidence).max() <= 1.0 + 1e-9


def test_evidence_grows_where_the_limit_is_broken():
    outcomes, evidence = evidence_of_all_paths("ratio", "ababababab", "below")
    weight = probabilities(outcomes, [0.3 if group == "a" else 0.5 for group in "ababababab"])
    assert weight @ np.log(evidence[:, -1]) > 0.01


@pytest.mark.parametrize("past", ["none", "far below", "none selected"])
def test_a_limit_on_one_rate(past):
    outcomes, evidence = evidence_of_all_paths((0.0, 0.4), "a" * 10, past)
    for p in (0.4, 0.5, 0.9, 1.0):
        assert (probabilities(outcomes, [p] * 10) @ evidence).max() <= 1.0 + 1e-9
    assert probabilities(outcomes, [0.05] * 10) @ evidence[:, -1] > 1.0


def test_nothing_is_staked_while_the_limit_seems_to_be_kept():
    _, evidence = evidence_of_all_paths("ratio", "abab", "kept")
    assert np.allclose(evidence, 1.0, rtol=0, atol=1e-12)


def test_evidence_stays_finite_and_above_its_reserve_whatever_happens():
    rng = np.random.default_rng(0)
    processes = EProcesses.start([0.8, 0.0, 1.0], [0.0, 0.5, -0.2])
    for step in range(300):
        sizes = rng.integers(1, 200, (3, 2)).astype(float)
        share = (step // 50) % 2  # all selected, none selected, and again
        processes.play(np.stack([sizes[:, 0], sizes[:, 0] * share, sizes[:, 1], sizes[:, 1] * (1 - share)], axis=1))
        assert np.isfinite(processes.log_evidence).all()
    epochs = np.floor(processes.rows[:, None] / MEMORIES)
    assert (processes.log_evidence >= np.log((1.0 / (epochs + 2.0)).mean(axis=1)) - 1e-12).all()
