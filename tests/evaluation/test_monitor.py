"""The monitor: what it counts, when it raises an alarm, what it refuses, and its state file."""

from __future__ import annotations

import json
import math
import time
from datetime import date

import numpy as np
import pytest
from tests.refusals import says

from fairbound import Measure, Monitor, certify, rate_limit
from fairbound.evaluation import EProcesses
from fairbound.fairness import MEASURES, Constraint, DisparateImpact, selection_rate

LIMIT = "disparate_impact >= 0.8"


def rows(n, rates, seed=0):
    """Return decisions and groups, with these selection rates."""
    rng = np.random.default_rng(seed)
    group = rng.choice(sorted(rates), n)
    decision = (rng.random(n) < np.array([rates[each] for each in group])).astype(int)
    return decision.tolist(), group.tolist()


def watched(limits, batches, **settings):
    monitor = Monitor(limits, **settings)
    for batch in batches:
        monitor.update(*batch)
    return monitor


def test_row_by_row_the_evidence_is_the_mean_of_both_e_processes():
    decisions, groups = rows(400, {"a": 0.25, "b": 0.6})
    monitor = Monitor(LIMIT)
    processes, waiting, both = EProcesses.start([0.8, 0.8], [0.0, 0.0]), np.zeros((2, 4)), False
    for row, (decision, group) in enumerate(zip(decisions, groups, strict=True)):
        monitor.update([decision], [group])
        both = both or len(set(groups[: row + 1])) == 2
        if both:
            new = np.array([group == groups[0], group == groups[0] and decision], dtype=float)
            other = np.array([group != groups[0], group != groups[0] and decision], dtype=float)
            waiting += np.array([[*new, *other], [*other, *new]])
            done = processes.is_complete(waiting)
            processes.play(np.where(done[:, None], waiting, 0.0))
            waiting[done] = 0.0
        expected = np.logaddexp(*processes.log_evidence) - math.log(2.0)
        assert monitor.limits[0].log_evidence == pytest.approx(expected, abs=1e-9)
    assert monitor.rows == 400
    assert monitor.alarm


@pytest.mark.parametrize(
    ("limit", "kept", "broken"),
    [
        ("disparate_impact >= 0.8", {"a": 0.5, "b": 0.55}, {"a": 0.3, "b": 0.6}),
        ("demographic_parity <= 0.1", {"a": 0.5, "b": 0.55}, {"a": 0.6, "b": 0.3}),
        ("selection_rate >= 0.3", {"a": 0.4, "b": 0.9}, {"a": 0.1, "b": 0.9}),
        ("selection_rate <= 0.6", {"a": 0.4, "b": 0.5}, {"a": 0.4, "b": 0.85}),
        ("selection_rate[b] <= 0.6", {"a": 0.9, "b": 0.5}, {"a": 0.4, "b": 0.85}),
    ],
)
def test_an_alarm_where_a_limit_is_broken_and_none_where_it_is_kept(limit, kept, broken):
    assert not watched(limit, [rows(500, kept, seed) for seed in range(6)]).alarm
    found = watched(limit, [rows(500, broken, seed) for seed in range(6)])
    assert found.alarm
    assert "ALARM at row" in str(found)
    assert max(each.log_evidence for each in found.limits[0].requirements) > 3.0


def test_directed_limits_and_references_watch_only_their_side():
    limit = DisparateImpact((0.8, None), reference="b")
    found = watched(limit, [rows(800, {"a": 0.6, "b": 0.3, "c": 0.5}, seed) for seed in range(3)])
    assert not found.alarm  # a and c are above b, which the limit allows
    assert len(found.limits[0].requirements) == 2
    assert watched(limit, [rows(800, {"a": 0.2, "b": 0.6, "c": 0.6}, seed) for seed in range(3)]).alarm


def test_a_batch_sorted_by_group_loses_nothing():
    decisions, groups = rows(3000, {"a": 0.3, "b": 0.5})
    order = np.argsort(groups, kind="stable")
    mixed = watched(LIMIT, [(decisions, groups)])
    ordered = watched(LIMIT, [(np.array(decisions)[order], np.array(groups)[order])])
    assert ordered.limits[0].log_evidence == pytest.approx(mixed.limits[0].log_evidence, abs=1e-9)
    assert ordered.alarm


SORTED = {
    "decision": lambda decision, outcome, group: np.lexsort((decision,)),
    "decision, descending": lambda decision, outcome, group: np.lexsort((-decision,)),
    "outcome": lambda decision, outcome, group: np.lexsort((decision, outcome)),
    "group, then decision": lambda decision, outcome, group: np.lexsort((decision, group)),
    "decision, in turn": lambda decision, outcome, group: np.lexsort((np.where(group == "a", -decision, decision),)),
}


def sorted_stream(rng, order, batches, size):
    """Return whether a stream raises an alarm whose limits hold exactly, and whose batches are sorted."""
    monitor = Monitor([LIMIT, "equal_opportunity <= 0.2"])
    for _ in range(batches):
        group, outcome = rng.choice(["a", "b"], size), rng.integers(0, 2, size)
        decision = (rng.random(size) < np.where(group == "a", 0.8, 1.0) * np.where(outcome == 1, 0.8, 0.3)).astype(int)
        rows = SORTED[order](decision, outcome, group)
        monitor.update(decision[rows], group[rows], outcome[rows])
    return monitor.alarm


@pytest.mark.parametrize("order", SORTED)
def test_a_batch_sorted_by_decision_or_outcome_raises_no_false_alarm(order):
    """In the order of the file, nearly every stream sorted by decision raised an alarm."""
    rng = np.random.default_rng(0)
    assert sum(sorted_stream(rng, order, 1, 3000) for _ in range(20)) == 0


def test_the_order_of_rows_is_drawn_from_the_seed_in_the_state(tmp_path):
    batch = rows(900, {"a": 0.4, "b": 0.6})
    found = {seed: watched(LIMIT, [batch, batch], seed=seed) for seed in (0, 1)}
    again = watched(LIMIT, [batch], seed=1)
    again.save(tmp_path / "state.json")
    again = Monitor.load(tmp_path / "state.json")
    again.update(*batch)
    assert again.to_dict() == found[1].to_dict()
    assert found[0].limits[0].log_evidence != found[1].limits[0].log_evidence
    for seed in (-1, True, "0"):
        with pytest.raises(ValueError, match=r"seed.*at least 0"):
            Monitor(LIMIT, seed=seed)


def test_groups_have_one_form_in_all_batches():
    """A stray word makes a column text; its other groups are still the same as before."""
    decision = [1, 0] * 20
    numbers = watched(LIMIT, [(decision, [1, 2, 1, 2.5] * 10)] * 2)
    words = watched(LIMIT, [(decision, [1, 2, 1, 2.5] * 10), (decision, ["1", "2", "1.0", "2.50"] * 10)])
    assert words.to_dict() == numbers.to_dict()
    stray = watched(LIMIT, [(decision, [1, 2] * 20), (decision, ["1", "2"] * 19 + ["x", "2"])])
    assert len(stray.limits[0].requirements) == 6
    assert says(stray.notes[0], "x (sensitive_feature) from row 41", "earlier group in other words")
    codes = watched("selection_rate >= 0.1", [([1] * 6, ["01", "1", "TRUE", "-0.0", "0", "1e3"])])
    assert len(codes.limits[0].requirements) == 5
    text = Monitor("disparate_impact >= 0.8", groups="each")
    text.update([1, 0], {"insured": [True, False]})
    text.update([1, 0], {"insured": ["True", "False"]})
    assert len(text.limits[0].requirements) == 2
    reference = watched(DisparateImpact(0.8, reference="1.0"), [(decision, ["1.0", "2.0", "3", "2.0"] * 10)])
    assert len(reference.limits[0].requirements) == 4  # not 6, as between all pairs, nor 0


def test_an_alarm_stays():
    monitor = watched(LIMIT, [rows(1000, {"a": 0.2, "b": 0.7})])
    first = monitor.alarms[0]
    assert first is not None
    for seed in range(20):
        monitor.update(*rows(1000, {"a": 0.7, "b": 0.6}, seed))
    assert monitor.alarms[0] == first
    assert first.row == 1000


def test_with_several_limits_each_needs_more_evidence():
    monitor = Monitor([LIMIT, "selection_rate >= 0.1"], confidence=0.9)
    assert monitor.threshold == pytest.approx(20.0)
    assert Monitor(LIMIT).threshold == pytest.approx(20.0)
    monitor.update(*rows(2000, {"a": 0.2, "b": 0.7}))
    assert [each is not None for each in monitor.alarms] == [True, False]


RATES = [name for name, each in MEASURES.items() if each.comparison == "value" and name != "share_of_selected"]


@pytest.mark.parametrize("name", RATES)
def test_rates_agree_with_a_certificate(name):
    rng = np.random.default_rng(3)
    y, decision, group = rng.integers(0, 2, 300), rng.integers(0, 2, 300), rng.choice(["a", "b"], 300)
    limit = rate_limit(name, lower=0.01, upper=0.99)
    monitor = Monitor(limit)
    for part in np.array_split(np.arange(300), 4):
        monitor.update(decision[part], group[part], y[part])
    expected = {each.group: each.value for each in certify(y, decision, group, limit).rates}
    assert len(monitor.limits[0].requirements) == 4
    for each in monitor.limits[0].requirements:
        assert each.rates == (pytest.approx(expected["a" if "(a)" in each.text else "b"], abs=1e-12),)


def test_equalized_odds_watches_both_rates():
    rng = np.random.default_rng(0)
    y, group = rng.integers(0, 2, 4000), rng.choice(["a", "b"], 4000)
    decision = np.where(y == 1, 1, (rng.random(4000) < np.where(group == "a", 0.1, 0.5)).astype(int))
    monitor = watched("equalized_odds <= 0.1", [(decision, group, y)])
    assert monitor.alarm
    assert "false_positive_rate" in monitor.limits[0].strongest.text
    assert len(monitor.limits[0].requirements) == 4


def test_without_evidence_the_requirement_of_the_least_margin_is_most_in_doubt():
    rng = np.random.default_rng(2)
    groups = np.array(["f", "m"] * 300)
    monitor = Monitor("disparate_impact >= 0.8")
    monitor.update((rng.random(600) < np.where(groups == "f", 0.42, 0.5)).astype(int), groups)
    found = {each.text: each for each in monitor.limits[0].requirements}
    doubted = found["selection_rate(f) >= 0.8 selection_rate(m)"]
    rates = dict(zip("fm", doubted.rates, strict=True))
    assert doubted.margin == pytest.approx(rates["f"] - 0.8 * rates["m"])
    assert all(each.log_evidence <= 0 for each in found.values())
    assert monitor.limits[0].strongest == doubted
    assert doubted.log_evidence < max(each.log_evidence for each in found.values())  # money was lost on it
    limit = Monitor("selection_rate <= 0.6")
    limit.update([1, 0, 0, 1], list("aabb"))
    assert [each.margin for each in limit.limits[0].requirements] == pytest.approx([0.1, 0.1])


def test_a_new_group_joins_without_changing_the_evidence():
    monitor = watched(LIMIT, [rows(600, {"a": 0.42, "b": 0.6})])
    before = monitor.limits[0].log_evidence
    assert before != 0.0
    monitor.update([1], ["c"])
    assert monitor.limits[0].log_evidence == pytest.approx(before, abs=1e-12)
    assert len(monitor.limits[0].requirements) == 6
    assert any("c (sensitive_feature) from row 601" in note for note in monitor.notes)
    for seed in range(8):
        monitor.update(*rows(500, {"a": 0.5, "b": 0.6, "c": 0.2}, seed))
    assert monitor.alarm
    assert "(c)" in monitor.limits[0].strongest.text


def test_rows_without_a_group_count_in_no_rate():
    monitor = watched(LIMIT, [([1, 1, 0, 1], ["a", None, "b", float("nan")])])
    assert monitor.rows == 4
    assert {each.rows for each in monitor.limits[0].requirements} == {(1, 1)}


def test_intersections_and_columns():
    decision, sex, race = [1, 0, 1, 0] * 5, ["f", "m"] * 10, ["x", "x", "y", "y"] * 5
    columns = {"sex": sex, "race": race}
    assert len(watched(LIMIT, [(decision, columns)]).limits[0].requirements) == 4
    assert len(watched(LIMIT, [(decision, columns)], groups="intersection").limits[0].requirements) == 12
    assert len(watched("disparate_impact(race) >= 0.8", [(decision, columns)]).limits[0].requirements) == 2
    with pytest.raises(ValueError, match=r"'age'.*'sex', 'race'"):
        watched("disparate_impact(age) >= 0.8", [(decision, columns)])


def test_a_group_whose_counterpart_has_not_come_waits():
    monitor = watched(LIMIT, [([1, 0], ["a", "b"]), ([1] * 50, ["a"] * 50)])
    assert monitor.limits[0].log_evidence == 0.0
    monitor.update([0] * 20, ["b"] * 20)
    assert monitor.limits[0].requirements[0].rows == (51, 21)
    assert "nothing to watch yet" in str(watched(LIMIT, [([1], ["a"])]))


def test_a_column_of_identifiers_is_refused():
    with pytest.raises(ValueError, match="'sensitive_feature' has 1,001 groups"):
        Monitor("selection_rate[3] >= 0.1").update([1] * 1001, list(range(1001)))


@pytest.mark.parametrize(("groups", "words"), [(600, "more than 10,000 requirements"), (200_000, "200,000 groups")])
def test_identifiers_are_refused_before_the_work(groups, words):
    """Requirements on all their pairs took minutes and gigabytes."""
    started = time.process_time()
    with pytest.raises(ValueError, match=words):
        Monitor(LIMIT).update([1] * groups, [f"p{number}" for number in range(groups)])
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ("covariance <= 0.1", "covariance"),
        (DisparateImpact(0.8, against="overall"), "includes the group"),
        ("representation <= 0.2", "shares of the selected"),
        (DisparateImpact(None), "no bound"),
        (DisparateImpact(0.8, classes=("x",)), "classes"),
        (
            Constraint(0.1, measure=Measure("own", (lambda g: selection_rate(g) ** 2,), "difference")),
            "user-defined rate",
        ),
    ],
)
def test_what_cannot_be_monitored_is_refused_in_a_sentence(limit, words):
    with pytest.raises(ValueError, match=f"cannot be monitored: .*{words}"):
        Monitor(limit)


@pytest.mark.parametrize(
    ("batch", "words"),
    [
        ({"prediction": [1, 2], "sensitive_features": ["a", "b"]}, "contains 2"),
        ({"prediction": [1, None], "sensitive_features": ["a", "b"]}, "row 2"),
        ({"prediction": [1, 0], "sensitive_features": ["a"]}, "2 rows"),
        ({"prediction": [], "sensitive_features": []}, "no rows"),
        ({"prediction": [1, 0], "sensitive_features": {"sex": ["a", "b"]}}, "earlier batches"),
        ({"prediction": [1, 0], "sensitive_features": ["a", "b"], "y": [1]}, "1 rows"),
        ({"prediction": [1], "sensitive_features": ["a"], "name": "monday"}, "counted already"),
        ({"prediction": [1], "sensitive_features": {"overall": ["a"]}}, "named 'overall', which means everyone"),
    ],
)
def test_a_bad_batch_leaves_the_monitor_unchanged(batch, words, tmp_path):
    monitor = Monitor(LIMIT)
    monitor.update(*rows(50, {"a": 0.4, "b": 0.6}), name="monday")
    monitor.save(tmp_path / "before.json")
    with pytest.raises(ValueError, match=words):
        monitor.update(**batch)
    monitor.save(tmp_path / "after.json")
    assert (tmp_path / "after.json").read_bytes() == (tmp_path / "before.json").read_bytes()


def test_labels_are_needed_by_limits_on_them():
    with pytest.raises(ValueError, match=r"equal_opportunity.*y="):
        Monitor("equal_opportunity <= 0.1").update([1, 0], ["a", "b"])


def test_two_values_in_any_words_and_batches_with_one_of_them():
    monitor = Monitor(LIMIT, positive_decision="hired")
    monitor.update(["rejected"] * 3, ["a", "b", "b"])
    monitor.update(["hired", "rejected"], ["a", "b"])
    assert monitor.limits[0].requirements[0].rates == (0.5, 0.0)
    with pytest.raises(ValueError, match="contains 'Hired'"):
        monitor.update(["Hired"], ["a"])
    with pytest.raises(ValueError, match="positive_decision="):
        Monitor(LIMIT).update(["good", "bad"], ["a", "b"])


def test_a_batch_is_recognised_by_name_and_by_content():
    monitor = Monitor(LIMIT)
    monitor.update([1, 0], ["a", "b"], name="monday", digest="11")
    assert monitor.has_counted("monday", "11")
    assert not monitor.has_counted("tuesday", "22")
    with pytest.raises(ValueError, match="monday was counted already, with other content"):
        monitor.has_counted("monday", "22")
    with pytest.raises(ValueError, match="tuesday has the same content as monday"):
        monitor.update([1, 0], ["a", "b"], name="tuesday", digest="11")


def labelled_rows(n, seed):
    rng = np.random.default_rng(seed)
    columns = {"sex": rng.choice(["f", "m"], n).tolist(), "race": rng.choice([1, 2, 3], n).tolist()}
    y, decision = (
        rng.integers(0, 2, n),
        (rng.random(n) < np.where(np.array(columns["sex"]) == "f", 0.4, 0.6)).astype(int),
    )
    return decision.tolist(), columns, y.tolist()


def test_a_monitor_that_is_saved_and_loaded_after_each_batch_is_the_same(tmp_path):
    limits = ["disparate_impact(sex) >= 0.8", "equalized_odds <= 0.1", "selection_rate[f] >= 0.3"]
    whole, path = Monitor(limits, groups="both"), tmp_path / "state.json"
    Monitor(limits, groups="both").save(path)
    for seed in range(6):
        batch = labelled_rows(1 if seed == 3 else 200, seed)
        whole.update(*batch, name=f"batch {seed}", digest=str(seed))
        part = Monitor.load(path)
        part.update(*batch, name=f"batch {seed}", digest=str(seed))
        part.save(path)
    whole.save(tmp_path / "whole.json")
    assert path.read_bytes() == (tmp_path / "whole.json").read_bytes()
    assert Monitor.load(path).to_dict() == whole.to_dict()
    json.dumps(whole.to_dict(), allow_nan=False)


def test_dates_as_groups_and_labels_of_numpy_are_the_same_after_loading(tmp_path):
    days, path = [date(2026, 1, 30), date(2026, 1, 31)], tmp_path / "state.json"
    Monitor(["demographic_parity <= 0.5"], pos_label=np.unique(["no", "yes"])[1]).save(path)
    for _ in range(2):
        monitor = Monitor.load(path)
        monitor.update(["no", "yes"] * 20, {"day": np.array(days * 20, dtype=object)})
        monitor.save(path)
    assert [group for group, _ in monitor.known["day"]] == ["2026-01-30", "2026-01-31"]


def test_the_state_of_a_stream_of_single_rows_stays_small(tmp_path):
    monitor = Monitor(LIMIT)
    for row in range(807):
        monitor.update([row % 2], ["ab"[row % 3 == 0]])
    monitor.save(tmp_path / "state.json")
    assert (tmp_path / "state.json").stat().st_size < 20_000
    assert Monitor.load(tmp_path / "state.json").n_batches == 807
    assert 200 <= len(monitor.history) <= 400
    assert monitor.history[-1] == (monitor.rows, (monitor.limits[0].log_evidence,))


BROKEN = {
    "empty": lambda state: b"",
    "cut off": lambda state: state[:-100],
    "foreign": lambda state: b'{"model": 1}',
    "a list": lambda state: b"[1, 2]",
    "not text": lambda state: b"\xff\xfe\x00",
    "another version": lambda state: state.replace(b'"version":4', b'"version":99'),
    "no version": lambda state: state.replace(b'"version":4,', b""),
    "no state": lambda state: state[: state.index(b',"state"')] + b"}",
    "another number": lambda state: state.replace(b'"confidence":0.95', b'"confidence":0.9'),
    "rows": lambda state: state.replace(b'"rows":50,', b'"rows":51,', 1),
    "another limit": lambda state: state.replace(b">= 0.8", b">= 0.7"),
    "nested": lambda state: state.replace(b'"state":', b'"state":' + b"[" * 100_000),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_corrupt_or_foreign_state_is_refused_in_one_sentence(broken, tmp_path):
    path = tmp_path / "state.json"
    watched(LIMIT, [rows(50, {"a": 0.4, "b": 0.6})]).save(path)
    Monitor.load(path)
    state = path.read_bytes()
    path.write_bytes(BROKEN[broken](state))
    assert path.read_bytes() != state
    with pytest.raises(ValueError, match=r"state\.json cannot be used as the state of a monitor: ") as error:
        Monitor.load(path)
    assert "\n" not in str(error.value)
    assert str(error.value).endswith(".")


def test_other_kinds_of_files_are_refused(tmp_path):
    with pytest.raises(IsADirectoryError, match="is a folder"):
        Monitor.load(tmp_path)
    with pytest.raises(FileNotFoundError):
        Monitor.load(tmp_path / "none.json")


def test_a_measure_of_ones_own_cannot_be_saved(tmp_path):
    own = Constraint(0.1, measure=Measure("gap", (selection_rate,), "difference"))
    with pytest.raises(ValueError, match="cannot be saved"):
        watched(own, [([1, 0], ["a", "b"])]).save(tmp_path / "state.json")
