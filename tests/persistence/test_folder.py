"""Models on disk: save here, load elsewhere, the same to the last bit; nothing but ours is overwritten or believed."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import StandardScaler
from tests.estimator.helpers import quick, toy
from torch import nn

import fairbound
from fairbound import Constraint, DemographicParity, DisparateImpact, Measure, ModelFileError, load, rate_limit
from fairbound.estimator import TableEncoder
from fairbound.fairness import Sigmoid
from fairbound.fairness.rates import selection_rate


def names(folder):
    return sorted(entry.name for entry in folder.iterdir())


class OwnNetwork(nn.Module):
    def __init__(self, n_inputs=3, n_outputs=1):
        super().__init__()
        self.norm, self.last = nn.LayerNorm(n_inputs), nn.Linear(n_inputs, n_outputs)

    def forward(self, x):
        return self.last(torch.tanh(self.norm(x)))


def table(n=300):
    X, y, group = toy(n)
    frame = pd.DataFrame({"u": X[:, 0], "code": np.arange(n) % 4, "job": np.where(X[:, 1] > 0, "cook", "nurse")})
    frame.loc[::9, "u"] = np.nan
    frame.loc[::11, "job"] = None
    return frame, y, group


CASES = {
    "linear": {},
    "network": {"hidden": (5, 3)},
    "first class positive": {"pos_label": 0, "threshold": 0.6},
    "codes": {"encoder": TableEncoder(categorical=["code"], max_categories=3)},
    "own encoder": {"encoder": TableEncoder(scale=False, max_categories=2)},
    "plain network": {
        "hidden": lambda i, o: nn.Sequential(nn.Linear(i, 4), nn.ELU(0.5), nn.Linear(4, 3), nn.GELU(), nn.Linear(3, o))
    },
}


@pytest.mark.parametrize("params", CASES.values(), ids=CASES)
@pytest.mark.parametrize("recalibrated", [False, True])
def test_what_is_loaded_is_what_was_saved(params, recalibrated, tmp_path):
    X, y, group = table()
    clf = quick("demographic_parity <= 0.4", **params).fit(X, y, sensitive_features={"sex": group})
    if recalibrated:
        clf.recalibrate(X, y)
    clf.save(tmp_path / "model")
    read = load(tmp_path / "model")
    for method in ("predict", "predict_proba", "decision_function"):
        assert (getattr(read, method)(X) == getattr(clf, method)(X)).all()
    assert read.result_ == clf.result_
    assert str(read.result_) == str(clf.result_)
    assert (read.classes_ == clf.classes_).all()
    assert read.classes_.dtype == clf.classes_.dtype
    assert read.encoded_names_ == clf.encoded_names_
    assert (read.feature_names_in_ == clf.feature_names_in_).all()
    assert read.calibration_ == clf.calibration_
    names = set(clf.get_params(deep=False)) - {"hidden", "encoder", "constraints"}
    assert {name: read.get_params()[name] for name in names} == {name: clf.get_params()[name] for name in names}
    assert list(read.constraints) == [DemographicParity(0.4)]
    if not callable(params.get("hidden")):
        again = read.fit(X, y, sensitive_features={"sex": group})  # it can be trained on
        assert again.result_.limits[0].reached <= 0.4


def test_another_process_predicts_the_same(tmp_path):
    X, y, group = table()
    clf = quick("demographic_parity <= 0.4", hidden=(6,)).fit(X, y, sensitive_features=group)
    clf.save(tmp_path / "model")
    X.to_pickle(tmp_path / "rows.pickle")
    program = f"""
import sys, numpy as np, pandas as pd
from fairbound import load
clf = load({str(tmp_path / "model")!r})
np.save({str(tmp_path / "found.npy")!r}, clf.predict_proba(pd.read_pickle({str(tmp_path / "rows.pickle")!r})))
"""
    subprocess.run([sys.executable, "-c", program], check=True)
    assert (np.load(tmp_path / "found.npy") == clf.predict_proba(X)).all()


@pytest.mark.parametrize("labels", [["no", "yes"], [False, True], [1.0, 2.0], [3, 9], ["a", "b", "c"]])
@pytest.mark.parametrize("objects", [False, True])
def test_labels_keep_their_type(labels, objects, tmp_path):
    X, y, _ = toy(150)
    given = np.array(labels)[np.arange(len(y)) % len(labels)]
    if objects and given.dtype.kind == "U":
        given = given.astype(object)
    clf = quick().fit(X, given)
    clf.save(tmp_path / "model")
    read = load(tmp_path / "model")
    assert read.predict(X).dtype == clf.predict(X).dtype
    assert (read.predict(X) == clf.predict(X)).all()
    assert read.pos_label_ == clf.pos_label_


def test_parameters_that_are_arrays_are_written(tmp_path):
    X, y, group = toy(100)
    table = pd.DataFrame(X.round(), columns=["u", "v", "w"]).assign(sex=group)
    clf = quick(
        "disparate_impact >= 0.1",
        encoder=TableEncoder(categorical=np.array(["v"])),
        sensitive_columns=np.array(["sex"]),
    )
    clf.fit(table, y).save(tmp_path / "model")
    read = load(tmp_path / "model")
    assert (read.encoder.categorical, read.sensitive_columns) == (["v"], ["sex"])
    assert (read.predict_proba(table) == clf.predict_proba(table)).all()


def test_limits_are_kept_with_all_that_they_say(tmp_path):
    X, y, group = toy()
    limits = [
        DisparateImpact(0.5, surrogate=Sigmoid(scale=30.0), margin="logit"),
        DisparateImpact((0.3, None), reference="a", columns=("sex",)),
        rate_limit("selection_rate", group="b", upper=0.95),
        DisparateImpact(0.4, surrogate="tanh"),
    ]
    clf = quick(limits).fit(X, y, sensitive_features={"sex": group})
    clf.save(tmp_path / "model")
    assert load(tmp_path / "model").constraints == limits


def test_a_limit_of_ones_own_measure_is_kept_as_text(tmp_path):
    X, y, group = toy()
    own = Measure("my_gap", (selection_rate,), "difference")
    clf = quick(Constraint(0.4, measure=own)).fit(X, y, sensitive_features=group)
    clf.save(tmp_path / "model")
    read = load(tmp_path / "model")
    assert (read.predict(X) == clf.predict(X)).all()
    assert read.constraints == ["my_gap <= 0.4"]
    with pytest.raises(ValueError, match="Unknown measure 'my_gap'"):  # rather than train without the limit
        read.fit(X, y, sensitive_features=group)


def test_a_network_of_ones_own_code_is_asked_for(tmp_path):
    X, y, _ = toy()
    clf = quick(hidden=OwnNetwork).fit(X, y)
    clf.save(tmp_path / "model")
    with pytest.raises(ModelFileError, match=r"a network of your own \(.*OwnNetwork\).*load\(path, module=...\)"):
        load(tmp_path / "model")
    for module in (OwnNetwork(), OwnNetwork):
        assert (load(tmp_path / "model", module=module).predict_proba(X) == clf.predict_proba(X)).all()
    with pytest.raises(ModelFileError, match="not fit the module"):
        load(tmp_path / "model", module=nn.Linear(3, 1))


def test_code_that_is_not_ours_is_not_written(tmp_path):
    X, y, _ = toy()
    clf = quick(encoder=StandardScaler()).fit(X, y)
    with pytest.raises(ValueError, match=r"StandardScaler\(...\).*no code.*Pipeline"):
        clf.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()
    with pytest.raises(NotFittedError):
        quick().save(tmp_path / "model")


@pytest.mark.parametrize("unit", ["ns", "us", "D"])
def test_labels_that_are_dates_are_not_written(tmp_path, unit):
    X, y, _ = toy()
    dates = np.array(["2020-01-01", "2021-01-01"], dtype=f"datetime64[{unit}]")[y]
    with pytest.raises(ValueError, match=r"label .*2020-01-01.* cannot be written to a file: use words or numbers"):
        quick().fit(X, dates).save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_model_replaces_a_model_and_nothing_else(tmp_path):
    X, y, _ = toy()
    first, second = quick().fit(X, y), quick(hidden=(2,)).fit(X, y)
    first.save(tmp_path / "deep" / "model")
    second.save(str(tmp_path / "deep" / "model"))
    assert load(tmp_path / "deep" / "model").hidden == (2,)
    assert [entry.name for entry in (tmp_path / "deep").iterdir()] == ["model"]  # nothing is left lying about
    assert names(tmp_path / "deep" / "model") == ["model.json"]


@pytest.fixture(scope="module")
def model():
    X, y, _ = toy()
    return quick().fit(X, y)


def test_what_is_not_ours_is_replaced_on_request_only(model, tmp_path):
    text, foreign = tmp_path / "notes.txt", tmp_path / "foreign"
    text.write_text("remember")
    foreign.mkdir()
    (foreign / "model.json").write_text('{"format": "of somebody else"}')
    for place, word in ((text, "is a file"), (foreign, "'model.json'")):
        with pytest.raises(FileExistsError, match=f"{word}.*overwrite=True"):
            model.save(place)
    assert text.read_text() == "remember"
    for place in (text, foreign):
        model.save(place, overwrite=True)
        assert names(place) == ["model.json"]
        load(place)


def test_other_files_of_a_folder_stay(model, tmp_path):
    letters = tmp_path / "letters"
    (letters / "photos").mkdir(parents=True)
    (letters / "to_mother.txt").write_text("Dear Mother,")
    for _ in range(2):
        model.save(letters, overwrite=True)
        assert names(letters) == ["model.json", "photos", "to_mother.txt"]
    assert (letters / "to_mother.txt").read_text() == "Dear Mother,"
    load(letters)


def test_an_empty_folder_and_a_damaged_model_are_free(model, tmp_path):
    (tmp_path / "model").mkdir()
    model.save(tmp_path / "model")
    (tmp_path / "model" / "model.json").write_bytes(b'{"format":"fairbound-model","model"')
    model.save(tmp_path / "model")
    load(tmp_path / "model")


@pytest.mark.parametrize("there", [True, False])
def test_a_link_stays_a_link(model, there, tmp_path):
    if there:
        model.save(tmp_path / "versions" / "one")
    (tmp_path / "versions").mkdir(exist_ok=True)
    (tmp_path / "current").symlink_to(tmp_path / "versions" / "one")
    X, y, _ = toy()
    quick(hidden=(2,)).fit(X, y).save(tmp_path / "current")
    assert (tmp_path / "current").is_symlink()
    assert load(tmp_path / "versions" / "one").hidden == (2,)
    assert names(tmp_path) == ["current", "versions"]
    assert names(tmp_path / "versions") == ["one"]


SWAPPED_OVER_AND_OVER = """
import sys
from fairbound import load
for _ in range(300):
    load(sys.argv[1])
"""


def test_a_reader_finds_one_model_or_the_other_while_it_is_replaced(model, tmp_path):
    X, y, _ = toy()
    other = quick(hidden=(2,)).fit(X, y)
    model.save(tmp_path / "model")
    command = [sys.executable, "-c", SWAPPED_OVER_AND_OVER, tmp_path / "model"]
    replaced = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as reader:
        while reader.poll() is None:
            (other, model)[replaced % 2].save(tmp_path / "model")
            replaced += 1
        assert (reader.stderr.read(), reader.returncode) == (b"", 0)
    assert replaced > 10
    assert names(tmp_path) == ["model"]


@pytest.mark.parametrize("limit", [100, 3000])
def test_a_disk_that_is_full_leaves_the_old_model_and_nothing_else(model, limit, tmp_path):
    resource = pytest.importorskip("resource")
    model.save(tmp_path / "model")
    before = (tmp_path / "model" / "model.json").read_bytes()
    X, y, _ = toy()
    larger = quick(hidden=(20,)).fit(X, y)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        with pytest.raises(OSError, match="model"):
            larger.save(tmp_path / "model")
        with pytest.raises(OSError, match="fresh"):
            larger.save(tmp_path / "fresh")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (tmp_path / "model" / "model.json").read_bytes() == before
    assert names(tmp_path) == ["model"]


def test_the_file_is_readable_and_says_what_it_is(tmp_path):
    X, y, group = toy()
    clf = quick("disparate_impact >= 0.5").fit(X, y, sensitive_features=group)
    clf.save(tmp_path / "model")
    document = json.loads((tmp_path / "model" / "model.json").read_text())
    assert document["format"] == "fairbound-model"
    assert document["version"] == 1
    assert document["written_by"]["fairbound"] == fairbound.__version__
    assert set(document["written_by"]) == {"fairbound", "numpy"}
    assert document["model"]["result"]["limits"][0]["limit"] == "disparate_impact >= 0.5"
