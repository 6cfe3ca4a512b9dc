"""Tables as DataFrames of three libraries, and without any of them."""

from __future__ import annotations

import subprocess
import sys

import narwhals as nw
import numpy as np
import pandas as pd
import pytest

from fairbound.data import load_dataset
from fairbound.data.table import LIBRARIES, installed_backend, make_frame

COLUMNS = {
    "count": np.array([1, 2, 3]),
    "size": np.array([0.5, np.nan, 1.5]),
    "word": np.array(["b", None, "a"], dtype=object),
    "name": np.array(["x", "y", "x"]),
}


@pytest.mark.parametrize("backend", LIBRARIES)
def test_each_library_gets_the_same_columns(backend):
    frame = nw.from_native(make_frame(COLUMNS, backend), eager_only=True)
    assert frame.implementation.value == backend
    assert dict(frame.schema) == {"count": nw.Int64, "size": nw.Float64, "word": nw.Categorical, "name": nw.Categorical}
    assert frame["count"].to_list() == [1, 2, 3]
    assert frame["word"].cast(nw.String).to_list() == ["b", None, "a"] or pd.isna(frame["word"].to_list()[1])
    assert frame["word"].is_null().to_list() == [False, True, False]
    assert frame["name"].to_list() == ["x", "y", "x"]
    assert np.isnan(frame["size"].to_numpy()[1])


@pytest.mark.parametrize("backend", LIBRARIES)
def test_law_as_a_frame(backend):
    law = load_dataset("law")
    frame = nw.from_native(law.frame(sensitive=True, target=True, backend=backend), eager_only=True)
    assert frame.columns == [*law.table.columns, "race", "sex", "pass_bar"]
    np.testing.assert_array_equal(frame["lsat"].to_numpy(), law.X[:, law.feature_names.index("lsat")])
    assert frame["race"].to_list() == law.sensitive["race"].tolist()
    assert [word == "passed the bar" for word in frame["pass_bar"].to_list()] == law.y.astype(bool).tolist()
    assert (np.array(frame["fulltime"].to_list()) == "part-time").sum() == law.X[:, 6].sum()


def test_by_default_neither_groups_nor_label_are_in_the_frame():
    frame = load_dataset("law").frame()
    assert isinstance(frame, pd.DataFrame)
    assert not {"race", "sex", "male", "pass_bar"} & set(frame.columns)
    assert list(frame.select_dtypes("category").columns) == list(load_dataset("law").categorical) == ["fulltime"]


def test_sensitive_columns_that_are_inputs_are_there_once():
    data = load_dataset("law", sensitive_as_input=True)
    assert list(data.frame().columns)[-2:] == ["race", "sex"]
    assert list(data.frame(sensitive=True).columns) == list(data.frame().columns)
    assert data.categorical == ("fulltime", "race", "sex")


def test_unknown_library():
    with pytest.raises(ValueError, match=r"backend is 'spark'.*'pandas', 'polars', 'pyarrow'"):
        make_frame(COLUMNS, "spark")


def test_without_any_of_the_libraries():
    program = f"""
import sys
sys.modules.update(dict.fromkeys({[*LIBRARIES, "pooch"]}))  # makes imports fail as if they were not installed
from fairbound.data import Dataset, read_table
data = Dataset("toy", [[1.0], [2.0]], [0, 1], {{"sex": ["f", "m"]}}, ["x"])
print(data, data.X.tolist())
makers = [lambda each=each: data.frame(backend=each) for each in {list(LIBRARIES)}]
for make in [*makers, lambda: read_table({__file__!r}, target="x")]:
    try:
        make()
    except ImportError as error:
        print(error)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    first, *others, last = run.stdout.splitlines()
    assert first == "Dataset 'toy': 2 rows, 1 feature, sensitive: sex [[1.0], [2.0]]"
    assert len(others) == 3
    for backend, line in zip(LIBRARIES, others, strict=True):
        assert line.startswith(f"A table of {backend} needs {backend}: pip install {backend}.")
    assert last.startswith("Reading text files needs pyarrow")


def test_without_a_choice_the_first_library_that_is_installed_is_taken(monkeypatch):
    for installed, chosen in ((("polars", "pandas"), "pandas"), (("pyarrow",), "pyarrow"), ((), "dict")):
        monkeypatch.setattr("fairbound.data.table.find_spec", lambda name, there=installed: name in there or None)
        assert installed_backend() == chosen
        frame = make_frame(COLUMNS)
        assert type(frame).__module__.split(".")[0] == {"dict": "builtins"}.get(chosen, chosen)


def test_a_dictionary_has_the_columns_themselves():
    assert make_frame(COLUMNS, "dict") == COLUMNS
