"""A damaged or forged file: reading it runs no code, and raises our error in one sentence."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.estimator.helpers import quick, toy

from fairbound import ModelFileError, load

DOCUMENT = "model.json"


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


def forge(path: Path, change: Callable[[dict], object], **header) -> None:
    """Change a model, with a checksum that fits, as a forger would."""
    document = json.loads((path / DOCUMENT).read_text())
    change(document["model"])
    text = json.dumps(document["model"])
    checksum = hashlib.sha256(text.encode() + base64.b64decode(document["data"])).hexdigest()
    stated = json.dumps({**document, "model": 0, "sha256": checksum, **header}).replace(
        '"model": 0', f'"model": {text}'
    )
    (path / DOCUMENT).write_text(stated)


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


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("constraints", "[DisparateImpact(bound=3)]"),
        ("constraints", "__import__('os').system('true')"),
        ("hidden", "[print for print in 'ab']"),
        ("loss", "Loss(l2=-1)"),
        ("margin", "'wide'"),
        ("confidence", "Confidence(level=1.2)"),
        ("groups", "Groups(combine='all')"),
        ("training", "Base(classifier=1)"),
        ("random_state", "lambda: 1"),
        ("callbacks", "["),
    ],
)
def test_a_parameter_that_cannot_be_read_is_refused(name, text, copied):
    forge(copied, lambda model: model["params"].update({name: text}))
    with pytest.raises(ModelFileError, match=r"model\.json"):
        load(copied)


def test_only_known_layers_are_made(copied):
    forge(copied, lambda model: model["network"]["layers"][1].update(kind="Module"))
    with pytest.raises(ModelFileError, match=r"do not form a model .*Module"):
        load(copied)


def test_weights_that_claim_more_than_the_file(copied):
    forge(copied, lambda model: model["arrays"][0].update(shape=[2**40]))
    with pytest.raises(ModelFileError, match="its values do not form a model"):
        load(copied)
