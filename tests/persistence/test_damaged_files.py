"""Whatever a file holds, reading it runs no code and raises our error, or gives a model that works."""

from __future__ import annotations

import copy
import hashlib
import json
import pickle
import shutil
import sys
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.estimator.helpers import quick, toy
from tests.persistence.mutations import Mutations

from fairbound import ConstrainedClassifier, LimitWarning, ModelFileError, load


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


def write(path: Path, document: dict) -> None:
    """Write a document with a checksum that fits, as a forger would."""
    document.pop("sha256", None)
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    document["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    (path / "model.json").write_text(json.dumps(document))


def read(path: Path) -> dict:
    return json.loads((path / "model.json").read_text())


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda path: shutil.rmtree(path), "does not exist"),
        (lambda path: (path / "model.json").unlink(), "model.json cannot be read"),
        (lambda path: (path / "weights.safetensors").unlink(), "weights.safetensors cannot be read"),
        (lambda path: (path / "model.json").write_bytes(b""), "model.json is damaged: it is not JSON"),
        (lambda path: (path / "model.json").write_text("{}"), "is not a model of fairbound"),
        (lambda path: (path / "model.json").write_text("[1]"), "is not a model of fairbound"),
        (lambda path: (path / "model.json").write_bytes(b"\xff\xfe\x00"), "is damaged: it is not JSON"),
        (lambda path: (path / "model.json").write_text("[" * 100_000), "it is not JSON .maximum recursion depth"),
        (lambda path: (path / "weights.safetensors").write_bytes(b"x" * 40), "checksum is not the one in model.json"),
        (
            lambda path: write(path, {**read(path), "version": 2}),
            "version 2 of the format, .* reads up to 1: install a newer version",
        ),
        (lambda path: write(path, {**read(path), "version": "x"}), "damaged: it has no version"),
        (lambda path: write(path, {**read(path), "format": "pickle"}), "its format is not 'fairbound-model'"),
        (lambda path: write(path, {**read(path), "model": 3}), "damaged: it has no model"),
        (
            lambda path: (path / "model.json").write_text(
                (path / "model.json").read_text().replace('"threshold": 0.5', '"threshold": 0.6')
            ),
            "its checksum does not fit",
        ),
        (
            lambda path: (path / "model.json").write_text(
                (path / "model.json").read_text().replace('"threshold": 0.5', '"threshold": NaN')
            ),
            "NaN is not a number in JSON",
        ),
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


class Bomb:
    """Would run code if it were unpickled."""

    exploded = False

    def __reduce__(self):
        return (setattr, (Bomb, "exploded", True))


@pytest.mark.parametrize("name", ["model.json", "weights.safetensors"])
def test_a_pickle_is_never_opened(name, copied):
    data = pickle.dumps(Bomb())
    (copied / name).write_bytes(data)
    if name == "weights.safetensors":
        document = read(copied)
        document["weights"]["sha256"] = hashlib.sha256(data).hexdigest()
        write(copied, document)
    with pytest.raises(ModelFileError):
        load(copied)
    assert not Bomb.exploded


FAST = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])


@FAST
@given(data=st.data(), name=st.sampled_from(["model.json", "weights.safetensors"]))
def test_bytes_that_changed_or_are_missing(data, name, copied, saved):
    original = (saved / name).read_bytes()
    place = data.draw(st.integers(0, len(original) - 1))
    if data.draw(st.booleans()):
        changed = original[:place]
    else:
        changed = original[:place] + bytes([original[place] ^ data.draw(st.integers(1, 255))]) + original[place + 1 :]
    (copied / name).write_bytes(changed)
    try:
        load(copied)
    except ModelFileError:
        pass
    else:  # white space of JSON may change without changing what it says
        assert json.loads(changed) == json.loads(original)
    (copied / name).write_bytes(original)


def places(value, path=()):
    """Every place in a document."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in items:
        yield from places(entry, (*path, key))


WILD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**30), 10**30),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
    st.sampled_from(["os.system", "__import__('os')", "../../etc/passwd", "builtins.eval", "Linear", "O", "V8"]),
    st.lists(st.integers(-3, 3), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)


@pytest.mark.parametrize("threshold", [0, 1.0, -3.0])
def test_a_recalibration_has_a_threshold_between_0_and_1(threshold, copied, saved):
    document = copy.deepcopy(read(saved))
    document["model"]["calibration"]["threshold"] = threshold
    write(copied, document)
    with pytest.raises(ModelFileError, match="the threshold of the recalibration is"):
        load(copied)


WRONG = {
    "hidden": [3, "many", -1, ["a"], [0.5], [True], None],
    "objective": ["fairness", 1, None],
    "solver": ["best", []],
    "batch_size": [0, 2.5, "large"],
    "epochs": [0, 2.5, "many"],
    "early_stopping": [1.5, "yes", None],
    "constraint_share": [0, 1.5, "third"],
    "loss": ["os.system", 3, None],
    "regularizers": ["l2", [3], [{"kind": "Linear"}], [{"kind": "L2", "weight": -1}], [{"kind": "L2", "of": 3}]],
    "class_weight": ["double", 3, [3], [["a", "b"]]],
    "threshold": [0, 1, "half", None],
    "l2": [-1, "x", None],
    "margin": [0, 1, "wide"],
    "no_group_worse": [2, None],
    "pos_label": [{}, {"a": 1}],
    "confidence": [0.1, 1, "sure"],
    "calibration_size": [0, 1.5, None],
    "sensitive_columns": [{}, [{}]],
    "sensitive_as_input": [1.5, "yes", None],
    "groups": ["all", None],
    "missing_groups": ["drop", 0],
    "small_groups": ["drop", 0],
    "min_group_size": [0, 2.5, "ten"],
    "constraint_weight": ["double", 3, None],
    "preprocessing": ["none", 3, {"categorical": 3, "max_categories": 50, "scale": True}],
    "categorical": ["job", 3, {}, [{}]],
    "max_categories": [1, 2.5, "many"],
    "warm_start": ["no", 0.5],
    "random_state": ["x", 0.5, []],
    "device": [3, [], {}],
    "forecast": [1.5, "yes", None],
    "distributed": ["yes", 1, None],
    "verbose": [-1, "loud"],
    "module": [None, "os.system"],
    "base": [None, "os.system"],
    "cv": [5, "prefit"],
    "ensemble": [True],
    "correction": ["groups"],
    "callbacks": [[]],
    "effort": [None],
    "constraints": [3, "x", [3]],
}


def test_every_parameter_has_wrong_values():
    assert set(WRONG) == set(ConstrainedClassifier().get_params(deep=False))


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WRONG.items() for value in values])
def test_a_parameter_of_the_wrong_type_is_refused(name, value, copied, saved):
    document = copy.deepcopy(read(saved))
    document["model"]["params"][name] = value
    write(copied, document)
    with pytest.raises(ModelFileError, match=r"model\.json"):
        load(copied)


@FAST
@given(data=st.data(), value=WILD, remove=st.booleans())
def test_documents_forged_with_the_right_checksum(data, value, remove, copied, saved):
    document = copy.deepcopy(read(saved))
    known = [place for place in places(document["model"]) if place and "history" not in place]
    *way, key = data.draw(st.sampled_from(known))
    inner = document["model"]
    for step in way:
        inner = inner[step]
    if remove:
        del inner[key]
    else:
        inner[key] = value
    write(copied, document)
    try:
        clf = load(copied)
    except ModelFileError:
        return
    # What is accepted must work, or complain about the rows in a sentence.
    X = np.array([[0.1, 0.2, 0.3, "cook"], [None, 5.0, -1.0, None]], dtype=object)
    said = ""
    try:
        p = clf.predict_proba(X)
    except ValueError as error:
        said = str(error)
    else:
        assert np.isfinite(p).all()
    assert not said or "X " in said or "features" in said


@pytest.mark.parametrize(
    "tensors",
    [
        {},
        {"0.weight": torch.zeros(3, 5, dtype=torch.float64)},
        {
            "0.weight": torch.zeros(3, 4),
            "0.bias": torch.zeros(3),
            "2.weight": torch.zeros(1, 3),
            "2.bias": torch.zeros(1),
        },
        {"0.weight": torch.full((3, 5), torch.nan, dtype=torch.float64)},
    ],
)
def test_tensors_that_do_not_fit(tensors, copied):
    data = safetensors.torch.save(tensors)
    (copied / "weights.safetensors").write_bytes(data)
    document = read(copied)
    document["weights"]["sha256"] = hashlib.sha256(data).hexdigest()
    write(copied, document)
    with pytest.raises(ModelFileError, match="its values do not form a model"):
        load(copied)


# --- mutations: one thing wrong in each of many files ---------------------------------------------------------------


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
        assert "X " in said or "features" in said, said
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
