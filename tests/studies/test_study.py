"""`fairbound.study`: what `fairbound train` and `fairbound frontier` do, in Python."""

from __future__ import annotations

import json
import re
import warnings
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from tests.refusals import refused

import fairbound
from fairbound import Base, Dataset, Groups, audit, load, load_dataset, make_disparate_data
from fairbound._errors import ForecastWarning
from fairbound._json import plain
from fairbound.cli.program import make_program
from fairbound.data import read_table
from fairbound.estimator import TableEncoder
from fairbound.persistence import ModelFileError
from fairbound.studies import STUDY_FILES, Study, StudySettings
from fairbound.studies.fit_notes import collected_warnings

LIMIT = "disparate_impact >= 0.8"


@pytest.fixture(scope="module")
def data() -> Dataset:
    return make_disparate_data(600, base_rates={"a": 0.6, "b": 0.4}, seed=1).dataset


@pytest.fixture(scope="module")
def found(data: Dataset) -> Study:
    return fairbound.study(data, LIMIT)


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def without_time(found: Any) -> Any:
    """Return the same without what differs from run to run: the command, the time, the place, and durations."""
    if isinstance(found, dict):
        moving = {"command", "created", "written", "seconds", "files"}
        return {key: without_time(value) for key, value in found.items() if key not in moving}
    return [without_time(each) for each in found] if isinstance(found, list) else found


def test_held_out_rows_have_the_scores_of_the_model(found):
    part = found.held_out
    place = list(found.after.classes_).index(found.positive)
    score = found.after.predict_proba(part.X)[:, place]
    alone = audit(part.y, found.after.predict(part.X), part.sensitive, score=score, pos_label=found.positive)
    assert found.summary.held_out.after.scores.to_dict() == alone.to_dict()["scores"]
    assert found.summary.training.after.scores is None  # the model was fitted to them


@pytest.mark.parametrize("model", ["linear", "boosted"])
def test_earlier_decisions_that_a_limit_names_are_no_inputs(data, model):
    table = {**data.table.show(), "old": data.y, "group": next(iter(data.sensitive.values())), "label": data.y}
    rows = read_table(pa.table(table), target="label", sensitive="group")
    found = fairbound.study(rows, "changed <= 40% from old", model=model)
    assert found.summary.training.limits[0].after.kept
    assert "old" not in found.after.feature_names_in_
    assert (found.after.predict(rows.frame()) == found.after.predict(data.frame())).all()


def test_a_saved_model_finds_its_columns_in_a_larger_table(found, tmp_path):
    """A run's model refused in Python the table that `fairbound predict` takes, since that has a label and an id."""
    found.write(tmp_path / "run")
    part = found.held_out
    columns = {name: part.data.table.show()[name] for name in reversed(part.data.schema)}
    table = {"id": np.arange(len(part)), **columns, part.data.target: part.y}
    model = load(tmp_path / "run" / "model")
    assert (model.predict(table) == found.after.predict(part.X)).all()
    first = next(iter(part.data.schema))
    with refused(f"X lacks the column {first!r}", "the model needs"):
        model.predict({name: values for name, values in table.items() if name != first})
    with refused("model.json", f"give {tmp_path / 'run' / 'model'}", error=ModelFileError):
        load(tmp_path / "run")


def test_one_line_writes_what_the_command_writes(tmp_path):
    found = fairbound.study(load_dataset("law"), ["disparate_impact >= 0.9"])
    found.write(tmp_path / "python")
    arguments = ["train", "law", "--require", "disparate_impact >= 0.9", "--out", str(tmp_path / "command"), "--quiet"]
    with pytest.raises(SystemExit) as stop:
        make_program()(arguments, prog_name="fairbound")
    assert stop.value.code == (0 if found.kept else 1)
    names = {each.name for each in (tmp_path / "command").iterdir()}
    assert names == {each.name for each in (tmp_path / "python").iterdir()}
    one, other = (without_time(read(tmp_path / place / "summary.json")) for place in ("python", "command"))
    assert one == other
    assert read(tmp_path / "python" / "summary.json")["reproduction"]["command"] == (
        "fairbound.study(data, ['disparate_impact >= 0.9'])"
    )


def test_it_has_both_models_their_rows_and_the_summary(found):
    assert (len(found.training), len(found.held_out), found.calibration) == (480, 120, None)
    assert not found.before.result_.limits
    assert found.result is found.after.result_
    assert found.result.kept
    assert found.kept == found.summary.held_out.limits[0].after.kept
    before, after = (
        {group: np.mean(model.predict(found.training.X)[found.training.sensitive["group"] == group] == "1")
         for group in "ab"}
        for model in (found.before, found.after)
    )  # fmt: skip
    reached = found.summary.training.limits[0]
    assert reached.before.value == pytest.approx(min(before.values()) / max(before.values()), abs=1e-12)
    assert reached.after.value == pytest.approx(min(after.values()) / max(after.values()), abs=1e-12)
    assert reached.before.value < 0.8 <= reached.after.value + 1e-12


def test_the_rows_of_each_part_are_encoded_once_for_all_models(data, monkeypatch):
    encoded: Counter[int] = Counter()
    encode = TableEncoder.encode

    def counted(self: TableEncoder, inputs: Any) -> Any:
        encoded[inputs.n_rows] += 1
        return encode(self, inputs)

    monkeypatch.setattr(TableEncoder, "encode", counted)
    swept = fairbound.study(data, LIMIT, bounds=[0.7])
    assert [model.bound for model in swept.frontier] == [0.7, 0.8]
    assert swept.summary.model.inputs
    assert encoded == {480: 1, 120: 1}
    for model in (swept.before, *(each.classifier for each in swept.frontier)):
        for part in (swept.training, swept.held_out):
            assert model.predict(part.X).tolist() == model.predict(part.inputs).tolist()


def test_it_prints_as_a_page(found):
    assert re.fullmatch(r"<Study of 'planted': disparate_impact >= 0\.8; \w+>", repr(found))
    text = str(found)
    for words in ("480 for training, 120 held out", "no limit", "with limits", "selection rate", LIMIT, "kept"):
        assert words in text
    html = found._repr_html_()
    assert "<table" in html
    assert "disparate_impact &gt;= 0.8" in html


def test_the_folder_has_the_model_and_is_replaced_only_when_asked(found, tmp_path):
    place = tmp_path / "run"
    found.write(place)
    assert {each.name for each in place.iterdir()} == {each.split("/")[0] for each in STUDY_FILES} - {
        "frontier.csv",
        "models",
    }
    assert read(place / "summary.json")["kept"] is found.kept
    assert read(place / "summary.json") == plain(found.summary)
    model = load(place / "model")
    assert (model.predict(found.held_out.X) == found.after.predict(found.held_out.X)).all()
    with pytest.raises(FileExistsError, match="overwrite=True replaces a study"):
        found.write(place)
    (place / "old").write_text("")
    found.write(place, overwrite=True)
    assert (place / "old").exists()  # only files of a study are replaced
    other = tmp_path / "mine"
    other.mkdir()
    (other / "letter.txt").write_text("dear")
    with pytest.raises(FileExistsError, match="is not a study"):
        found.write(other, overwrite=True)
    assert (other / "letter.txt").read_text() == "dear"
    assert {each.name for each in tmp_path.iterdir()} == {"run", "mine"}


def test_every_model_of_a_frontier_has_figures_of_its_own(data, tmp_path):
    found = fairbound.study(data, [LIMIT, "selection_rate <= 0.9"], bounds=[0.95, 0.6])
    assert [point.bound for point in found.frontier] == [0.6, 0.8, 0.95]
    assert found.after is found.frontier[1].classifier
    assert [str(limit) for limit in found.limits] == [LIMIT, "selection_rate <= 0.9"]
    found.write(tmp_path / "run")
    points = read(tmp_path / "run" / "summary.json")["frontier"]
    for point, line in zip(found.frontier, points, strict=True):
        saved = load(tmp_path / "run" / "models" / f"{point.bound:g}")
        assert saved.result_.limits[0].limit == f"disparate_impact >= {point.bound:g}"
        assert saved.result_.limits[0].reached == line["training"]["value"]
        assert saved.result_.accuracy == pytest.approx(line["training"]["accuracy"]["value"], abs=1e-12)
        assert saved.result_.status.value == line["status"]
    assert "points for the next 0.01" in str(found)
    found.write(tmp_path / "lean", models=False)
    assert not (tmp_path / "lean" / "models").exists()


def rows_with_bends(n: int, bent: bool) -> Dataset:
    """Return rows whose label is linear in the inputs, or depends on the product of two of them."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(n, 3))
    signal = X[:, 0] * X[:, 1] if bent else X[:, 0] + 0.5 * X[:, 1]
    y = (signal + 0.5 * rng.normal(size=n) > 0).astype(int)
    return Dataset("made up", X, y, {"group": np.where(rng.random(n) < 0.5, "a", "b")}, ["p", "q", "r"])


@pytest.mark.parametrize(
    ("bent", "rows", "model"), [(True, 3000, "boosted"), (False, 3000, "linear"), (True, 900, "linear")]
)
def test_the_model_is_chosen_by_its_loss_on_rows_that_it_has_not_seen(bent, rows, model):
    study = fairbound.study(rows_with_bends(rows, bent))
    assert study.settings.model == model
    assert (study.after.base_ is not None) == (model == "boosted")
    [reason] = [note for note in study.summary.notes if note.startswith("Model: ")]
    if rows < 2000:
        assert "not tried" in reason
    else:
        assert ("boosted trees, chosen" in reason) == (model == "boosted")
    assert study.summary.reproduction["model"] == model
    assert "model=" not in study.command  # it repeats the choice


def test_the_losses_of_the_choice_are_those_of_scikit_learn(data):
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import log_loss

    from fairbound.studies.model_choice import unseen_losses
    from fairbound.studies.parts import Part

    rows = Part.of(data)
    trial = fairbound.ConstrainedClassifier(base=Base(LogisticRegression(), cv=3, ensemble=True), random_state=0)
    losses = unseen_losses(trial, rows.inputs, rows.y, None)
    scores = trial.fit(rows.inputs, rows.y).base_score_
    assert losses.mean() == pytest.approx(log_loss(rows.y, 1 / (1 + np.exp(-scores))), abs=1e-12)


def test_without_limits_there_is_one_model(data):
    found = fairbound.study(data, test_size=0)
    assert (found.before, found.held_out, found.limits) == (None, None, ())
    assert found.kept
    assert "with limits" not in str(found)


def test_rows_of_ones_own_are_held_out(data):
    parts = data.split(0.25, scale=False)
    found = fairbound.study(parts.train, LIMIT, held_out=parts.test)
    assert (len(found.training), len(found.held_out)) == (len(parts.train), len(parts.test))


def test_all_sensitive_columns_count_and_a_known_data_set_has_a_first_one(data):
    rng = np.random.default_rng(0)
    groups = {**data.sensitive, "side": rng.choice(["left", "right"], len(data))}
    both = Dataset("mine", data.X, data.y, groups, data.feature_names)
    assert list(fairbound.study(both, LIMIT).data.sensitive) == ["group", "side"]
    assert list(fairbound.study(both, LIMIT, sensitive="side").data.sensitive) == ["side"]
    assert list(fairbound.study(load_dataset("law"), sensitive=["sex"], test_size=0.5).data.sensitive) == ["sex"]


@pytest.mark.parametrize("stage", ["Training without limits", "Training under the limits"])
def test_a_callback_sees_each_stage_and_ends_training(data, stage):
    seen = []

    def callback(row):
        seen.append(row["stage"])
        return row["stage"] == stage and row["phase"] != "free"

    found = fairbound.study(data, LIMIT, callback=callback)
    assert set(seen) == {"Training without limits", "Training under the limits"}
    assert found.interrupted == (stage == "Training under the limits")  # without limits there is only the free phase


def test_a_stage_yields_the_callback_of_its_fits(data):
    seen = []

    @contextmanager
    def stage(name):
        yield lambda row: seen.append((name, row["phase"]))
        seen.append((name, "end"))

    found = Study(data, StudySettings.build(LIMIT, None, model="linear")).run(stage=stage)
    assert [name for name, phase in seen if phase == "end"] == ["Training without limits", "Training under the limits"]
    assert {phase for name, phase in seen if name == "Training without limits"} == {"free", "end"}
    assert not found.interrupted


def test_an_end_before_the_limits_leaves_the_model_without_them(data):
    found = fairbound.study(data, LIMIT, callback=lambda row: True)
    assert (found.interrupted, found.before, found.limits) == (True, None, ())
    assert found.summary.limits == ()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"test_size": 1}, "test_size=1 must be"),
        ({"model": "oak"}, "model='oak' must be"),
        ({"model": 3}, "model=3 must be"),
        ({"groups": "eech"}, "Did you mean 'each'"),
        ({"groups": "both", "training": -1}, "training=-1 must be"),
        ({"confidence": 95}, "confidence=95 must be"),
        ({"limits": (), "confidence": 0.9}, "needs at least one limit"),
        ({"confidence": 0.9, "bounds": [0.9]}, "bounds="),
        ({"limits": (), "bounds": [0.9]}, "bounds= needs a limit"),
        ({"limits": "selection_rate >= 0.1", "bounds": [0.2]}, "a group's own rate"),
        ({"limits": "0.8 <= disparate_impact <= 1.2 against a", "bounds": [0.9]}, "one bound"),
        ({"bounds": [1.5]}, "between 0 and 1"),
    ],
)
def test_bad_settings_are_said_before_any_rows_are_looked_at(settings, words):
    given = {"limits": LIMIT, **settings}
    with pytest.raises(ValueError, match=words):
        StudySettings.build(given.pop("limits"), given.pop("bounds", None), **given)


@pytest.mark.parametrize(
    ("change", "settings", "words"),
    [
        ({}, {"limits": "disparate_impact(race) >= 0.8"}, "Name it with sensitive="),
        ({}, {"limits": "disparate_impact(a) >= 0.8"}, r"\[a\]"),
        ({}, {"groups": Groups(min_size=10_000)}, r"Groups\(small='merge'\)"),
        ({"weight": 1.0}, {"confidence": 0.9}, "tests on rows of equal weight"),
        ({}, {"limits": "covariance <= 0.1", "confidence": 0.9}, "covariance <= 0.1 cannot be certified"),
        ({"sensitive": "race"}, {}, "race"),
    ],
)
def test_settings_that_do_not_suit_the_data(data, change, settings, words):
    weight = np.full(len(data), change["weight"]) if "weight" in change else None
    rows = Dataset("mine", data.X, data.y, data.sensitive, data.feature_names, weight=weight)
    given = {"limits": LIMIT, **settings}
    with pytest.raises(ValueError, match=words):
        fairbound.study(rows, given.pop("limits"), sensitive=change.get("sensitive"), **given)


def test_anything_but_a_data_set_is_no_data():
    with pytest.raises(TypeError, match="must be a Dataset"):
        fairbound.study([[1.0]], LIMIT)


@pytest.mark.parametrize(
    "model",
    ["boosted", pytest.param("forest", marks=pytest.mark.slow), pytest.param("lightgbm", marks=pytest.mark.slow)],
)
def test_trees_are_counted_on_rows_that_they_have_not_seen(data, model, tmp_path):
    if model == "lightgbm":
        pytest.importorskip("lightgbm")
    found = fairbound.study(data, "demographic_parity <= 0.15", model=model)
    record = found.result
    summary = found.summary
    assert summary.training.accuracy.after.value == pytest.approx(record.accuracy, abs=1e-12)
    assert summary.training.limits[0].after.value == pytest.approx(record.limits[0].reached, abs=1e-12)
    assert record.kept
    assert summary.model.kind == "importances"
    notes = " ".join(summary.notes)
    for said in (record.base.name, "a model that had not seen it", "The base alone", next(iter(record.base.moved))):
        assert said in notes
    found.write(tmp_path / "out")
    read = load(tmp_path / "out" / "model")
    assert (read.predict_proba(found.held_out.X) == found.after.predict_proba(found.held_out.X)).all()
    assert record.base.name in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert record.base.name in (tmp_path / "out" / "model-card.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("settings", [{}, {"bounds": [0.2, 0.3]}, {"confidence": 0.9}])
def test_the_base_of_a_study_is_cross_fitted_once(data, settings, monkeypatch):
    fits, fit = [], HistGradientBoostingClassifier.fit

    def counted(self, X, y, **options):
        fits.append(len(y))
        return fit(self.set_params(max_iter=5), X, y, **options)

    monkeypatch.setattr(HistGradientBoostingClassifier, "fit", counted)
    found = fairbound.study(data, "demographic_parity <= 0.3", model="boosted", **settings)
    assert len(fits) == 6  # five folds, and once all rows
    assert (found.after.base_score_ == found.before.base_score_).all()
    assert "a model that had not seen it" in found.result.base.scored
    assert isinstance(found.after.base, HistGradientBoostingClassifier)


def test_an_unknown_model_names_the_known_ones(data):
    with pytest.raises(ValueError, match=r"model='trees'.*linear, boosted, lightgbm, forest, or mlp:"):
        fairbound.study(data, model="trees")


def test_a_study_takes_the_number_of_categories_of_its_data(tmp_path):
    rng = np.random.default_rng(0)
    rows = [f"{rng.integers(2)},{rng.choice(list('ab'))},{rng.choice(list('pqrstuvw'))}" for _ in range(200)]
    (tmp_path / "jobs.csv").write_text("y,g,job\n" + "\n".join(rows))
    data = fairbound.read_table(tmp_path / "jobs.csv", target="y", sensitive="g", max_categories=3)
    (column,) = fairbound.study(data, model="linear").after.encoder_.columns_
    assert len(column.words) == 2  # and one for all others


def test_a_forecast_is_no_error_where_warnings_are():
    """With PYTHONWARNINGS=error, version 0.2 ended by its own warning, after training."""

    def warned(*_args, **_kwargs):
        warnings.warn("poor", ForecastWarning, stacklevel=2)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with collected_warnings() as texts:
            warned()
    assert texts == []


def test_a_study_counts_strata_and_leaves_out_columns_of_limits_as_its_fits_do(tmp_path):
    rng = np.random.default_rng(0)
    n = 800
    x, group, grade = rng.normal(size=n), rng.choice(["a", "b"], n), rng.choice(["low", "below"], n)  # both end alike
    y = (x + 0.8 * (grade == "low") + 0.4 * (group == "a") + rng.normal(size=n) > 0.5).astype(int)
    lines = [
        "x,group,grade,old,gain,y",
        *(f"{a},{b},{c},{int(a > 0)},{3 * d - 1},{d}" for a, b, c, d in zip(x, group, grade, y, strict=True)),
    ]
    (tmp_path / "rows.csv").write_text("\n".join(lines))
    rows = fairbound.read_table(tmp_path / "rows.csv", target="y", sensitive="group")
    limits = [
        "disparate_impact >= 0.9 within grade",
        "demographic_parity <= 0.2 against b within grade",
        "selection_rate[a] <= 0.9 within grade",
        "changed <= 40% from old",
    ]
    found = fairbound.study(rows, limits, objective="profit(gain)")
    for limit, counted in zip(found.result.limits, found.summary.training.limits, strict=True):
        assert counted.after.value == pytest.approx(limit.reached, abs=1e-12)
        assert counted.after.kept
    assert found.before.encoded_names_ == found.after.encoded_names_ == ["x", "grade=below", "grade=low"]
