"""ONNX: one file with the preprocessing inside, whose decisions in onnxruntime are ours."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.preprocessing import StandardScaler
from tests.conftest import absent
from tests.estimator.helpers import quick, toy
from torch import nn

import fairbound
from fairbound import Dataset, load_dataset
from fairbound.estimator import TableEncoder
from fairbound.persistence.onnx_export import OUTPUTS, metadata

try:
    import onnxruntime
except ImportError:
    onnxruntime = None


@pytest.fixture(autouse=True)
def runtime():
    if onnxruntime is None:
        absent('needs onnxruntime: pip install ".[onnx]"')


def run(path, X):
    """Outputs of onnxruntime for a table or a matrix."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    feed = {}
    for each in session.get_inputs():
        if each.name == "X":
            feed["X"] = np.asarray(X, dtype=np.float64)
        elif "string" in each.type:
            values = X[each.name].astype(object)
            feed[each.name] = values.where(values.notna(), "").to_numpy(dtype=object)[:, None]
        else:
            feed[each.name] = X[each.name].to_numpy(dtype=np.float64, na_value=np.nan)[:, None]
    return session.run(["label", "probabilities", "margin"], feed)


def agree(clf, path, X, *, digits=1e-9):
    label, p, margin = run(path, X)
    expected = clf.decision_function(X)
    assert np.allclose(margin, expected, rtol=digits, atol=digits)
    assert np.allclose(p, clf.predict_proba(X), rtol=0, atol=digits)
    near = np.abs(expected) if expected.ndim == 1 else np.diff(np.sort(expected, axis=1)[:, -2:])[:, 0]
    far = near >= 1e-6
    assert far.mean() > 0.99
    assert (np.asarray(label)[far] == clf.predict(X)[far]).all()


def test_decisions_on_real_data(limited, tmp_path):
    full: Dataset = load_dataset("law")
    limited.to_onnx(tmp_path / "law.onnx")
    agree(limited, tmp_path / "law.onnx", full.frame())


def test_a_matrix_of_numbers_with_gaps(network, law, tmp_path):
    network.to_onnx(tmp_path / "net.onnx")
    X = np.array(law.X)
    X[::5, 2] = np.nan
    agree(network, tmp_path / "net.onnx", X)


def words(n=300):
    X, y, group = toy(n)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "u": X[:, 0],
            "code": rng.integers(0, 5, n).astype(float),
            "job": rng.choice(["cook", "nurse", "smith", "tailor"], n, p=[0.5, 0.3, 0.15, 0.05]),
            "owner": rng.choice([True, False], n),
        }
    )
    frame.loc[::9, "u"] = np.nan
    frame.loc[::11, "job"] = None
    frame.loc[::13, "code"] = np.nan
    return frame, y, group


@pytest.mark.parametrize("recalibrated", [False, True])
@pytest.mark.parametrize(
    "params",
    [
        {"encoder": TableEncoder(categorical=["code", "owner"], max_categories=3)},
        {"pos_label": 0, "threshold": 0.3, "hidden": (4,)},
        {"hidden": lambda i, o: nn.Sequential(nn.Linear(i, 3), nn.Tanh(), nn.Linear(3, 3), nn.SiLU(), nn.Linear(3, 2))},
        {"encoder": TableEncoder(scale=False)},
    ],
)
def test_words_codes_and_missing_values(params, recalibrated, tmp_path):
    X, y, group = words()
    clf = quick("demographic_parity <= 0.5", **params).fit(X, y, sensitive_features=group)
    if recalibrated:
        clf.recalibrate(X, y)
    clf.to_onnx(tmp_path / "model.onnx")
    new = X.copy()
    new.loc[:5, "job"] = "baker"  # never seen
    new.loc[:5, "code"] = 77.0
    agree(clf, tmp_path / "model.onnx", new)


@pytest.mark.parametrize("recalibrated", [False, True])
def test_several_classes(recalibrated, tmp_path):
    X, _, _ = toy(300)
    y = np.array(["low", "mid", "top"])[np.digitize(X[:, 0], [0.0, 1.5])]
    clf = quick(hidden=(5,)).fit(X, y)
    if recalibrated:
        clf.recalibrate(X, y)
    clf.to_onnx(tmp_path / "model.onnx")
    agree(clf, tmp_path / "model.onnx", X)


def test_the_groups_are_no_inputs(tmp_path):
    X, y, group = words()
    clf = quick("demographic_parity <= 0.5", sensitive_columns="sex").fit(X.assign(sex=group), y)
    clf.to_onnx(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    assert [each.name for each in session.get_inputs()] == ["u", "code", "job", "owner"]
    agree(clf, tmp_path / "model.onnx", X)


class Own(nn.Module):
    """A network that only torch's own exporter can write."""

    def __init__(self, n_inputs, n_outputs):
        super().__init__()
        self.first, self.last = nn.Linear(n_inputs, n_inputs), nn.Linear(n_inputs, n_outputs)

    def forward(self, x):
        return self.last(x + torch.relu(self.first(x)))


@pytest.mark.slow  # torch's exporter takes a few seconds
def test_a_network_of_any_kind(tmp_path):
    X, y, _ = toy()
    clf = quick(hidden=Own).fit(X, y)
    clf.to_onnx(tmp_path / "model.onnx")
    agree(clf, tmp_path / "model.onnx", X)


@pytest.mark.slow
def test_an_operator_that_the_runtime_has_in_single_precision_only(tmp_path):
    X, y, _ = toy()
    clf = quick(hidden=lambda i, o: nn.Sequential(nn.Linear(i, 3), nn.GELU(), nn.Linear(3, o)))
    clf.fit(X, y)
    with pytest.warns(UserWarning, match="operator .*double precision"):
        clf.to_onnx(tmp_path / "model.onnx")
    agree(clf, tmp_path / "model.onnx", X, digits=1e-4)


def test_the_file_describes_itself(tmp_path):
    X, y, group = words()
    clf = quick("demographic_parity <= 0.5", pos_label=0).fit(X, y, sensitive_features=group)
    clf.to_onnx(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    meta = session.get_modelmeta()
    assert meta.producer_name == "fairbound"
    assert "demographic_parity <= 0.5" in meta.description
    found = meta.custom_metadata_map
    assert found["fairbound_version"] == fairbound.__version__
    assert json.loads(found["inputs"]) == ["u", "code", "job", "owner"]
    assert list(json.loads(found["outputs"])) == [each.name for each in session.get_outputs()]
    assert (json.loads(found["classes"]), json.loads(found["positive_class"])) == ([0, 1], 0)
    (limit,) = json.loads(found["limits"])
    assert limit["reached"] == clf.result_.limits[0].reached
    assert limit["kept"] is clf.result_.kept
    onnx = pytest.importorskip("onnx")
    model = onnx.load(tmp_path / "model.onnx")
    assert model.producer_version == fairbound.__version__
    said = {each.name: each.doc_string for each in (*model.graph.input, *model.graph.output)}
    assert "NaN if missing" in said["u"]
    assert "empty if missing" in said["job"]
    assert all(said.values())


def test_the_page_names_every_entry(limited, tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "any_model.md").read_text(encoding="utf-8")
    assert [name for name in (*metadata(limited), *OUTPUTS) if f"`{name}`" not in page] == []


def test_a_file_of_somebody_else_is_replaced_on_request_only(tmp_path):
    X, y, _ = toy()
    clf = quick().fit(X, y)
    path = tmp_path / "notes.txt"
    path.write_text("producer: fairbound")
    with pytest.raises(FileExistsError, match=r"notes.txt exists.*overwrite=True"):
        clf.to_onnx(path)
    assert path.read_text() == "producer: fairbound"
    clf.to_onnx(path, overwrite=True)
    (tmp_path / "link").symlink_to(path)
    clf.to_onnx(tmp_path / "link")  # ours is replaced, and the link stays
    assert (tmp_path / "link").is_symlink()
    agree(clf, path, X)
    with pytest.raises(IsADirectoryError, match="is a folder"):
        clf.to_onnx(tmp_path, overwrite=True)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["link", "notes.txt"]


def test_what_cannot_be_written(tmp_path, monkeypatch):
    X, y, _ = toy()
    clf = quick(encoder=StandardScaler()).fit(X, y)
    with pytest.raises(ValueError, match=r"StandardScaler\(...\).*ONNX"):
        clf.to_onnx(tmp_path / "model.onnx")
    table = pd.DataFrame({"margin": X[:, 0], "word": np.where(X[:, 1] > 0, "up", "down")})
    with pytest.raises(ValueError, match=r"'margin'.*ONNX"):
        quick().fit(table, y).to_onnx(tmp_path / "model.onnx")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r'onnx.*pip install "\.\[onnx\]"'):
        quick().fit(X, y).to_onnx(tmp_path / "model.onnx")


def test_empty_and_missing_text_are_refused(tmp_path):
    """ONNX has one value for both; version 0.2 decided 54 of 95 rows with empty text differently, without a word."""
    X, y, group = words()
    X.loc[::5, "job"] = ""
    both = quick("demographic_parity <= 0.5").fit(X, y, sensitive_features=group)
    with pytest.raises(ValueError, match=r"'job' had empty and missing text.*train again"):
        both.to_onnx(tmp_path / "model.onnx")
    empty = X.fillna({"job": ""})
    clf = quick("demographic_parity <= 0.5").fit(empty, y, sensitive_features=group)
    clf.to_onnx(tmp_path / "model.onnx")
    agree(clf, tmp_path / "model.onnx", empty)
