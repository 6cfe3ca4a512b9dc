"""The search for alternatives: parts, judgements against scikit-learn and scipy, the choice, and the log."""

from __future__ import annotations

import csv
import json
from dataclasses import replace

import narwhals as nw
import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import log_loss, roc_auc_score
from tests.refusals import refused, says

import fairbound
from fairbound import alternatives, audit, load_dataset
from fairbound.evaluation import Estimate, holm, paired_test
from fairbound.fairness import resolve_measure
from fairbound.studies import read_search
from fairbound.studies.judged import Baseline
from fairbound.studies.lock import content_hash, locked, write_lock
from fairbound.studies.plan import SearchPlan, Tolerance, compared_measures, grids
from fairbound.studies.search import AlternativeSearch, Trained

RATIO = resolve_measure("disparate_impact")


def plan_of(**settings):
    measures = compared_measures(settings.pop("measures", "disparate_impact"))
    given = {
        "bounds": grids(measures, {"disparate_impact": [0.8, 0.95]}),
        "models": ("linear",),
        "choosing_size": 0.3,
        "final_size": 0.3,
    }
    return SearchPlan(measures=measures, **{**given, **settings})


@pytest.fixture(scope="module")
def law():
    data = fairbound.studies.with_sensitive(load_dataset("law"), None)
    return data.take(np.arange(0, 20_000, 5))  # of these rows, a candidate within the tolerance is chosen


@pytest.fixture(scope="module")
def search(law):
    return AlternativeSearch(law, plan_of())


@pytest.fixture(scope="module")
def found(search):
    return search.run()


def test_the_parts_are_all_rows_once(search, law):
    rows = np.concatenate([search.training_rows, search.choosing_rows, search.final_rows])
    assert sorted(rows) == list(range(len(law)))
    assert len(search.choosing_rows) == pytest.approx(0.3 * len(law), abs=2)
    assert len(search.final_rows) == pytest.approx(0.3 * len(law), abs=2)


def test_every_number_of_a_candidate_is_an_independent_one(found, search, law):
    part = law.take(search.choosing_rows)
    X, y = part.frame(), part.y
    free = next(each for each in found.candidates if each.limit is None)
    assert [each.limit for each in found.candidates] == [None, "disparate_impact >= 0.8", "disparate_impact >= 0.95"]
    before = (free.model.predict(X) == law.target_names[1]).astype(int)
    for each in found.candidates:
        decided = (each.model.predict(X) == law.target_names[1]).astype(int)
        score = each.model.predict_proba(X)[:, list(each.model.classes_).index(law.target_names[1])]
        judged = each.judged
        assert judged.rows == len(y)
        assert judged.accuracy.value == pytest.approx((decided == y).mean())
        assert judged.auc.value == pytest.approx(roc_auc_score(y, score))
        assert judged.log_loss == pytest.approx(log_loss(y, score))
        wanted = audit(y, decided, {"race": part.sensitive["race"]}).measure("disparate_impact")
        same = judged.measures["disparate_impact"]
        assert (same.value, same.lower, same.upper) == pytest.approx((wanted.value, wanted.lower, wanted.upper))
        assert judged.changed == (decided != before).sum()
        race = part.sensitive["race"]
        for group in judged.groups:
            inside = race == group.group
            assert group.rows == inside.sum()
            assert group.gained == ((decided == 1) & (before == 0) & inside).sum()
            assert group.lost == ((decided == 0) & (before == 1) & inside).sum()
        only_before = ((before == y) & (decided != y)).sum()
        only_after = ((before != y) & (decided == y)).sum()
        assert (judged.paired.only_first, judged.paired.only_second) == (only_before, only_after)


def test_mcnemar_is_the_exact_binomial_test():
    rng = np.random.default_rng(0)
    first, second = rng.random(300) < 0.7, rng.random(300) < 0.8
    found = paired_test(first, second)
    one, other = (first & ~second).sum(), (second & ~first).sum()
    assert found.p == pytest.approx(min(1.0, 2 * stats.binom.cdf(min(one, other), one + other, 0.5)))
    assert found.difference == pytest.approx(second.mean() - first.mean())
    assert paired_test(first, first).p == 1.0


def test_the_chosen_one_is_within_the_tolerance_and_nearest(found):
    within = [each for each in found.candidates if each.judged.accuracy.value >= found.reference.accuracy.value - 0.005]
    assert {each.name for each in within} == {each.name for each in found.candidates if each.within}
    best = max(each.judged.measures["disparate_impact"].value for each in within)
    assert best > found.reference.measures["disparate_impact"].value
    assert found.chosen.judged.measures["disparate_impact"].value == best
    assert f"Among the {len(found.candidates)} models searched" in found.sentence
    said = float(found.sentence.split("above ")[1].split()[0])
    assert best <= said < best + 1e-4
    assert "0.5 points of accuracy" in found.sentence


def test_no_other_candidate_dominates_an_undominated_one(found):
    points = [(each.judged.accuracy.value, each.judged.measures["disparate_impact"].value) for each in found.candidates]
    wanted = [
        each.name
        for each, (a, m) in zip(found.candidates, points, strict=True)
        if not any((x >= a and z >= m) and (x > a or z > m) for x, z in points)
    ]
    assert [each.name for each in found.undominated] == wanted


def test_the_final_rows_judge_the_chosen_one(found, search, law):
    part = law.take(search.final_rows)
    decided = (found.chosen.model.predict(part.frame()) == law.target_names[1]).astype(int)
    assert found.final["chosen"].accuracy.value == pytest.approx((decided == part.y).mean())
    assert found.final["chosen"].rows == found.final["baseline"].rows == len(part)
    assert f"{len(part):,} final rows" in found.verdict


def test_the_final_rows_have_no_part_in_training_or_choosing(law, found):
    """Other labels in the final rows change nothing but the last judgement."""
    search = AlternativeSearch(law, plan_of())
    y = law.y.copy()
    y[search.final_rows] = 1 - y[search.final_rows]
    other = AlternativeSearch(law, plan_of())
    other.data = replace(law, y=y, raw=law.table)
    again = other.run()
    assert [each.judged for each in again.candidates] == [each.judged for each in found.candidates]
    assert again.chosen.name == found.chosen.name
    assert again.final["chosen"].accuracy.value == pytest.approx(1 - found.final["chosen"].accuracy.value)


def test_the_log_is_complete_and_the_plan_is_locked_first(found, law, tmp_path):
    found.write(tmp_path / "search")
    log = json.loads((tmp_path / "search" / "search.json").read_text(encoding="utf-8"))
    lock = json.loads((tmp_path / "search" / "limits.lock").read_text(encoding="utf-8"))
    assert lock["sha256"] == content_hash(lock["content"]) == log["lock"]["sha256"]
    assert lock["written"] <= log["started"]
    assert lock["content"]["search"]["bounds"] == {"disparate_impact": [0.8, 0.95]}
    assert lock["content"]["search"]["tolerance"] == {"metric": "accuracy", "amount": 0.5}
    assert log["seed"] == 0
    assert log["libraries"]["torch"]
    assert log["data"]["rows"] == len(law)
    assert set(log["parts"]) == {"training", "choosing", "final"}
    assert [each["status"] for each in log["candidates"]] == [each.status for each in found.candidates]
    assert log["sentence"] == found.sentence
    with (tmp_path / "search" / "alternatives.csv").open(encoding="utf-8") as stream:
        lines = list(csv.DictReader(stream))
    assert [line["role"] for line in lines].count("chosen") == 1
    assert lines[0]["role"] == "baseline"
    assert float(lines[1]["accuracy"]) == found.candidates[0].judged.accuracy.value
    assert len(found.to_frame()) == len(lines) == 4
    chosen = fairbound.load(tmp_path / "search" / "model")
    assert (chosen.predict(law.frame()) == found.chosen.model.predict(law.frame())).all()
    assert read_search(tmp_path / "search" / "search.json") == log
    for damage, said in (
        (lambda log: log.pop("sentence"), "`sentence`"),
        (lambda log: log["candidates"][0].pop("judged"), "`judged`.*candidates"),
        (lambda log: log["plan"].update(measures=3), "plan.measures"),
    ):
        edited = json.loads(json.dumps(log))
        damage(edited)
        (tmp_path / "edited.json").write_text(json.dumps(edited))
        with pytest.raises(ValueError, match=rf"edited.json was changed after the search: .*{said}"):
            read_search(tmp_path / "edited.json")
    page = (tmp_path / "search" / "report.html").read_text(encoding="utf-8")
    assert "complian" not in page[: page.index("<script")].lower()
    with refused("exists", error=FileExistsError):
        found.write(tmp_path / "search")


def test_limits_changed_after_the_lock_are_refused(tmp_path):
    write_lock(locked({"limits": ["disparate_impact >= 0.8"]}), tmp_path)
    write_lock(locked({"limits": ["disparate_impact >= 0.8"]}), tmp_path)
    with refused("limits.lock", "changed"):
        write_lock(locked({"limits": ["disparate_impact >= 0.7"]}), tmp_path)


class Rule:
    """A model of someone else, with decisions only."""

    def __init__(self, law):
        self.names = law.target_names

    def predict(self, X):
        return np.where(np.asarray(X["lsat"]) >= 30, self.names[1], self.names[0])


@pytest.mark.parametrize("kind", ["model", "decisions", "codes", "scores"])
def test_baselines_of_each_kind(search, found, law, kind):
    lsat = law.X[:, law.feature_names.index("lsat")]
    given = {
        "model": Baseline("own", model=Rule(law)),
        "decisions": Baseline("own", decisions=np.where(lsat >= 30, law.target_names[1], law.target_names[0])),
        "codes": Baseline("own", decisions=(lsat >= 30).astype(int)),
        "scores": Baseline("own", scores=lsat, threshold=30),
    }[kind]
    search.baseline = given
    try:
        result = search._judge([Trained(each.kind, each.limit, each.model, each.seconds) for each in found.candidates])
    finally:
        search.baseline = None
    part = law.take(search.choosing_rows)
    decided = (lsat[search.choosing_rows] >= 30).astype(int)
    assert result["reference"].accuracy.value == pytest.approx((decided == part.y).mean())
    assert (result["reference"].auc is not None) == (kind == "scores")
    assert result["reference"].log_loss is None
    assert result["reference"].changed == 0


@pytest.mark.parametrize(
    ("text", "inside"), [("accuracy 0.5", True), ("accuracy 0.4", False), ("auc 1", True), ("log_loss 0.05", False)]
)
def test_a_tolerance(text, inside, found):
    reference = replace(found.reference, accuracy=Estimate(0.9, 0, 1), auc=Estimate(0.8, 0, 1), log_loss=0.3)
    judged = replace(reference, accuracy=Estimate(0.895, 0, 1), auc=Estimate(0.795, 0, 1), log_loss=0.36)
    assert Tolerance.parse(text).holds(judged, reference) == inside


def test_what_cannot_be_searched_is_refused(law):
    with refused("within", "'close'", "accuracy 0.5"):
        alternatives(law, within="close")
    with refused("selection_rate"):
        alternatives(law, "selection_rate")
    with refused("bounds="):
        alternatives(law, ["disparate_impact", "equal_opportunity"], bounds=[0.8])
    with refused("choosing_size"):
        alternatives(law, choosing_size=0.6, final_size=0.6)
    with refused("baseline=", "3"):
        alternatives(law, baseline=[0, 1, 1])
    with refused("final_size", "0"):
        alternatives(law, final_size=0)
    with refused("models=", "forst"):
        alternatives(law, models=["linear", "forst"])
    with refused("confidence=", "95"):
        alternatives(law, confidence=95)


def test_a_baseline_that_does_not_fit_is_refused_before_training(law):
    income = np.where(law.X[:, 0] > 0, "high", "low")
    with refused("'high'", "the baseline", repr(law.target), error=ValueError):
        AlternativeSearch(law, plan_of(), Baseline("own", decisions=income))
    with refused("within=", "log_loss", "between 0 and 1", "baseline_score="):
        AlternativeSearch(law, plan_of(within="log_loss 0.1"), Baseline("own", scores=law.X[:, 0]))
    other = Columns(["lsat", "shoe_size"])
    with refused("'shoe_size'", "columns"):
        AlternativeSearch(law, plan_of(), Baseline("own", model=other))


def test_a_baseline_may_use_fewer_columns(search, law):
    few = Columns(["lsat", "ugpa"])
    again = AlternativeSearch(law, plan_of(), Baseline("own", model=few))
    assert few.given == ["lsat", "ugpa"]
    assert again.lock["content"]["baseline"]["name"] == "own"
    decided = again.baseline.decide(again.choosing, again.choosing_rows).decisions
    assert again.lock["content"]["baseline"]["choosing_decisions_sha256"] == content_hash(decided.tolist())
    assert "without limits" in search.lock["content"]["baseline"]["name"]


class Columns:
    """A model of someone else that insists on its own columns."""

    classes_ = ("0", "1")

    def __init__(self, names):
        self.feature_names_in_ = names

    def predict(self, X):
        self.given = list(nw.from_native(X, eager_only=True).columns)
        assert self.given == self.feature_names_in_
        return np.zeros(len(X), dtype=int)


def test_an_improvement_that_the_final_rows_do_not_show_is_called_so(found):
    assert not says(found.verdict, "not")
    swapped = replace(found, final={"baseline": found.final["chosen"], "chosen": found.final["baseline"]})
    assert says(swapped.verdict, "(disparate_impact) is not confirmed on the final rows")
    judged = found.final["chosen"]
    less = replace(judged, accuracy=replace(judged.accuracy, value=judged.accuracy.value - 0.02))
    worse = replace(found, final={**found.final, "chosen": less})
    assert says(worse.verdict, "On the final rows it is not within 0.5 points of accuracy of the baseline.")
    assert "not confirmed" not in worse.verdict


def test_nothing_within_the_tolerance_is_said_once(found):
    outside = replace(
        found,
        candidates=tuple(replace(each, within=False) for each in found.candidates),
        chosen=None,
        final=None,
    )
    assert says(outside.sentence, "none is within 0.5 points of accuracy of the baseline")
    assert says(outside.verdict, "No candidate is within the tolerance")
    assert str(Tolerance("auc", 1.0)) == "1 point of AUC"


def test_two_measures_have_a_grid_each_and_one_model_without_limits(law):
    found = AlternativeSearch(
        law.take(np.arange(0, len(law), 2)),
        plan_of(
            measures=["disparate_impact", "equal_opportunity"],
            bounds={"disparate_impact": (0.9,), "equal_opportunity": (0.05,)},
        ),
    ).run()
    assert [each.limit for each in found.candidates] == [None, "disparate_impact >= 0.9", "equal_opportunity <= 0.05"]
    assert "has an equal_opportunity below" in found.sentence
    assert set(found.reference.measures) == {"disparate_impact", "equal_opportunity"}


def test_a_callback_ends_the_search_with_the_models_trained_so_far(law):
    found = AlternativeSearch(law, plan_of(models=("linear", "mlp:4"))).run(
        lambda row: row["stage"] != "Training without limits"
    )
    assert found.log["interrupted"]
    assert all(each.kind == "linear" for each in found.candidates)


def test_nothing_nearer_is_said_so(law):
    found = AlternativeSearch(law, plan_of(bounds={"disparate_impact": (0.1,)})).run()
    assert found.chosen is None
    assert found.final is None
    assert "No candidate" in found.verdict
    assert "On" in str(found)
    assert found._repr_html_()


def test_p_values_count_the_models_that_could_have_been_the_baseline(found, search, law):
    """The most accurate of the models without limits is the baseline; the choosing rows choose it."""

    class Worse:
        def predict(self, X):
            return np.where(np.arange(len(X)) % 5, law.target_names[1], law.target_names[0])

    free = [Trained(each.kind, None, each.model, each.seconds) for each in found.candidates]
    free[1] = free[1]._replace(model=Worse())
    judged = search._judge(free)["candidates"]
    p_values = [each.judged.paired.p for each in judged]
    assert min(p_values) < 1e-6
    assert [each.adjusted_p for each in judged] == holm(p_values, choices=3)
    assert [each.adjusted_p for each in found.candidates] == holm([each.judged.paired.p for each in found.candidates])
