"""Whatever a file holds, reading it runs no code and raises our error, or gives a model that works."""

from __future__ import annotations

import json
import shutil
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.estimator.helpers import quick, toy
from tests.persistence.mutations import DOCUMENT, Mutations, seal, unsealed

from fairbound import ConstrainedClassifier, LimitWarning, ModelFileError, load
from fairbound.persistence.folder import StoredArray, store


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    X, y, group = toy(200)
    table = np.column_stack([X.astype(object), np.where(X[:, 1] > 0, "cook", "nurse")])
    clf = quick("disparate_impact >= 0.5", hidden=(3,), sensitive_columns=None)
    clf.fit(table, y, sensitive_features=group).recalibrate(table, y)
    path = tmp_path_factory.mktemp("saved") / "model"
    clf.save(path)
    return path


@pytest.fixture
def copied(saved, tmp_path) -> Path:
    return shutil.copytree(saved, tmp_path / "model")


def forge(path: Path, change: Callable[[dict], object], data: bytes | None = None, **header) -> None:
    """Change a model, with a checksum that fits, as a forger would."""
    model, weights = unsealed(path / DOCUMENT)
    change(model)
    (path / DOCUMENT).write_bytes(seal(model, weights if data is None else data, **header))


def rewritten(old: bytes, new: bytes) -> Callable[[Path], object]:
    return lambda path: (path / DOCUMENT).write_bytes((path / DOCUMENT).read_bytes().replace(old, new))


def as_bytes(data: bytes) -> Callable[[Path], object]:
    return lambda path: (path / DOCUMENT).write_bytes(data)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (shutil.rmtree, "does not exist"),
        (lambda path: (path / DOCUMENT).unlink(), "model.json cannot be read"),
        (as_bytes(b""), "model.json is damaged: Input data was truncated"),
        (as_bytes(b"{}"), "is not a model of fairbound"),
        (as_bytes(b"[1]"), "is damaged: Expected `object`, got `array`"),
        (as_bytes(b"\xff\xfe\x00"), "is damaged: JSON is malformed"),
        (as_bytes(b'{"format":"fairbound-model","version":' + b"[" * 100_000), "nested too deeply"),
        (lambda path: forge(path, dict, version=2), "version 2 of the format, .* reads up to 1: install a newer"),
        (lambda path: forge(path, dict, version="x"), "damaged: Expected `int`, got `str`"),
        (lambda path: forge(path, dict, format="pickle"), "its format is not 'fairbound-model'"),
        (lambda path: forge(path, dict.clear), "do not form a model .Object missing required field `params`"),
        (lambda path: forge(path, lambda model: model.update(code="os.system")), "contains unknown field `code`"),
        (rewritten(b'"threshold": 0.5', b'"threshold": 0.6'), "its checksum does not fit"),
        (rewritten(b'"threshold": 0.5', b'"threshold": NaN'), "JSON is malformed"),
        (rewritten(b'"data":"', b'"data":"?'), "Invalid base64 encoded string"),
    ],
)
def test_damage_is_said_in_one_sentence(damage, words, copied):
    damage(copied)
    with pytest.raises(ModelFileError, match=words) as error:
        load(copied)
    assert "\n" not in str(error.value)


def test_a_file_that_is_no_folder(tmp_path):
    (tmp_path / "model").write_text("hello")
    with pytest.raises(ModelFileError, match="is not a folder"):
        load(tmp_path / "model")


FAST = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])


@FAST
@given(data=st.data())
def test_bytes_that_changed_or_are_missing(data, copied, saved):
    original = (saved / DOCUMENT).read_bytes()
    place = data.draw(st.integers(0, len(original) - 1))
    changed = original[:place]
    if data.draw(st.booleans()):
        changed += bytes([original[place] ^ data.draw(st.integers(1, 255))]) + original[place + 1 :]
    (copied / DOCUMENT).write_bytes(changed)
    try:
        load(copied)
    except ModelFileError:
        return
    one, other = json.loads(changed), json.loads(original)  # only who wrote it is not in the checksum
    assert {**one, "written_by": None} == {**other, "written_by": None}


@pytest.mark.parametrize("threshold", [0, 1.0, -3.0])
def test_a_recalibration_has_a_threshold_between_0_and_1(threshold, copied):
    forge(copied, lambda model: model["calibration"].update(threshold=threshold))
    with pytest.raises(ModelFileError, match="the threshold of the recalibration is"):
        load(copied)


WRONG = {
    "constraints": [3, "x", [3]],
    "hidden": [3, "many", -1, ["a"], [0.5], [True], None, "os.system"],
    "base": [None, "os.system"],
    "objective": ["fairness", 1, None],
    "loss": [
        "os.system",
        3,
        None,
        *(
            {"function": "hinge", "l2": "auto", "class_weight": None, "regularizers": [], **each}
            for each in (
                {"function": "os.system"},
                {"l2": -1},
                {"class_weight": [["a", "b"]]},
                {"regularizers": [{"kind": "L2", "of": 3}]},
                {"regularizers": [{"kind": "Linear"}]},
            )
        ),
    ],
    "threshold": [0, 1, "half", None],
    "pos_label": [{}, {"a": 1}],
    "margin": [0, 1, "wide"],
    "confidence": [0.1, "sure", {"level": 1.2}, {"calibration_size": 0.3}],
    "sensitive_columns": [{}, [{}]],
    "groups": ["all", {"combine": "all"}, {"min_size": 0}, {"small": 3}, {"unknown": 1}],
    "encoder": ["none", 3, {"categorical": 3, "max_categories": 50, "scale": True}],
    "training": ["os.system", {"epochs": -1}, {"device": [3]}, {"distributed": "yes"}, {"warm_start": 0.5}],
    "random_state": ["x", 0.5, []],
    "callbacks": [[]],
    "verbose": [-1, "loud"],
}


def test_every_parameter_has_wrong_values():
    assert set(WRONG) == set(ConstrainedClassifier().get_params(deep=False))


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WRONG.items() for value in values])
def test_a_parameter_of_the_wrong_type_is_refused(name, value, copied):
    forge(copied, lambda model: model["params"].update({name: value}))
    with pytest.raises(ModelFileError, match=r"model\.json"):
        load(copied)


@pytest.mark.parametrize(
    "arrays",
    [
        {},
        {"0.weight": np.zeros((3, 5))},
        {
            "0.weight": np.zeros((3, 4), dtype=np.float32),
            "0.bias": np.zeros(3, dtype=np.float32),
            "2.weight": np.zeros((1, 3), dtype=np.float32),
            "2.bias": np.zeros(1, dtype=np.float32),
        },
        {"0.weight": np.full((3, 5), np.nan)},
    ],
)
def test_weights_that_do_not_fit(arrays, copied):
    stored, data = store(arrays)
    claims = [{name: getattr(each, name) for name in StoredArray.__struct_fields__} for each in stored]
    forge(copied, lambda model: model.update(arrays=claims), data)
    with pytest.raises(ModelFileError, match="its values do not form a model"):
        load(copied)


@pytest.fixture(scope="module")
def originals(saved, tmp_path_factory) -> list[Path]:
    """Return saved models of several kinds: two classes, several classes, one with a certificate."""
    X, y, group = toy(300)
    several = quick().fit(X, np.array(["low", "mid", "top"])[np.digitize(X[:, 0], [0.0, 1.5])])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LimitWarning)
        certified = quick("disparate_impact >= 0.3", confidence=0.9, random_state=0)
        certified.fit(X, y, sensitive_features={"sex": group})
    paths = [saved]
    for name, clf in (("several", several), ("certified", certified)):
        paths.append(tmp_path_factory.mktemp("originals") / name)
        clf.save(paths[-1])
    return paths


def outcome(path: Path) -> str:
    """Load and use a model: it is refused by our exception, or all that a user may do with it works."""
    said = ""
    try:
        clf = load(path)
    except ModelFileError as error:
        said = str(error)
    if said:
        assert "\n" not in said
        assert len(said) < 1000
        return "refused"
    shown = (str(clf.result_), repr(clf.result_), clf.result_._repr_html_(), repr(clf), clf._repr_html_())
    assert all(shown)
    clf.result_.to_json(allow_nan=False)
    if clf.certificate_ is not None:
        assert str(clf.certificate_)
        clf.certificate_.to_json()
    rows: list[list[object]] = [[0.1, 0.2, 0.3, "cook"], [None, 5.0, -1.0, None], [1e300, -1e300, 0.0, "x"]]
    X = np.array([row[: clf.n_features_in_] for row in rows], dtype=object)
    X = X if clf.n_features_in_ == 4 else np.array([[0.1, 0.2, 0.3], [np.nan, 5.0, -1.0], [1e300, -1e300, 0.0]])
    said = ""
    try:
        p = clf.predict_proba(X)
        clf.predict(X)
    except ValueError as error:
        said = str(error)
    if said:
        assert any(word in said for word in ("X ", "Column ", "features")), said
        return "refused the rows"
    assert np.isfinite(p).all()
    return "worked"


def attack(originals: list[Path], folder: Path, seeds: range) -> Counter[str]:
    mutations = [Mutations(path) for path in originals]
    found: Counter[str] = Counter()
    for seed in seeds:
        said = mutations[seed % len(mutations)].write(seed, folder)
        try:
            found[outcome(folder)] += 1
        except Exception as error:
            raise AssertionError(f"seed {seed}, {said}: {type(error).__name__}: {error}") from error
    return found


@pytest.mark.slow
def test_300_mutated_models(originals, tmp_path):
    found = attack(originals, tmp_path, range(300))
    assert found["refused"] > 150
    assert found["worked"] > 10


@pytest.mark.slow
def test_10000_mutated_models(originals, tmp_path):
    resource = pytest.importorskip("resource")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = attack(originals, tmp_path, range(1000, 11_000))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    sys.stderr.write(f"{dict(found)}, {grown / 1024:.0f} MB more than before\n")
    assert sum(found.values()) == 10_000
    assert grown < 200 * 1024  # kilobytes
