"""Whatever a file holds, reading it runs no code and raises our error, or gives a model that works."""

from __future__ import annotations

import copy
import hashlib
import json
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.estimator.helpers import quick, toy

from fairbound import ModelFileError, load


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
        (lambda path: shutil.rmtree(path), "does not exist: give the folder that save"),
        (lambda path: (path / "model.json").unlink(), "model.json cannot be read"),
        (lambda path: (path / "weights.safetensors").unlink(), "weights.safetensors cannot be read"),
        (lambda path: (path / "model.json").write_bytes(b""), "model.json is damaged: it is not JSON"),
        (lambda path: (path / "model.json").write_text("{}"), "is not a model of fairbound"),
        (lambda path: (path / "model.json").write_text("[1]"), "is not a model of fairbound"),
        (lambda path: (path / "model.json").write_bytes(b"\xff\xfe\x00"), "is damaged: it is not JSON"),
        (lambda path: (path / "model.json").write_text("[" * 100_000), "100,000 values in 100,000 bytes"),
        (lambda path: (path / "model.json").write_text("[" * 30), "nested more than 20 levels deep"),
        (lambda path: (path / "weights.safetensors").write_bytes(b"x" * 40), "checksum is not the one in model.json"),
        (lambda path: write(path, {**read(path), "version": 2}), "version 2 of the format, .* reads up to 1: update"),
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
            "NaN is no number of JSON",
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
    with pytest.raises(ModelFileError, match="what it says makes no model"):
        load(copied)
