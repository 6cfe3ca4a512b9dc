"""`load_dataset`: load a data set of the catalogue by name, unchanged or prepared as in the paper's experiments."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Literal, overload

import numpy as np

from fairbound._errors import InputError
from fairbound._words import lookup
from fairbound.data.arrays import Arrays
from fairbound.data.catalogue import DATASETS, CatalogueEntry
from fairbound.data.census import census_source
from fairbound.data.dataset import Dataset, Split
from fairbound.data.files import Place
from fairbound.data.paper import paper_split
from fairbound.data.schema import Categorical, decode
from fairbound.data.table import Table

STATE, YEAR = "CA", 2018  # those of the paper


@overload
def load_dataset(
    name: str,
    *,
    protocol: Literal["default"] = ...,
    state: str | Sequence[str] | None = ...,
    year: int | None = ...,
    sensitive_as_input: bool = ...,
    data_dir: str | os.PathLike[str] | None = ...,
    download: bool = ...,
    progress: bool | None = ...,
) -> Dataset: ...
@overload
def load_dataset(
    name: str,
    *,
    protocol: Literal["paper"],
    state: str | Sequence[str] | None = ...,
    year: int | None = ...,
    sensitive_as_input: bool = ...,
    data_dir: str | os.PathLike[str] | None = ...,
    download: bool = ...,
    progress: bool | None = ...,
) -> Split: ...
def load_dataset(
    name: str,
    *,
    protocol: str = "default",
    state: str | Sequence[str] | None = None,
    year: int | None = None,
    sensitive_as_input: bool = False,
    data_dir: str | os.PathLike[str] | None = None,
    download: bool = True,
    progress: bool | None = None,
) -> Dataset | Split:
    """Load a data set by name.

    Parameters
    ----------
    name : str
        `"law"` (shipped), `"dutch"`, `"adult"` and `"acsincome"` (downloaded once), `"acsincome_us"` (a sample, from a
        folder); see `DATASETS`.
    protocol : {"default", "paper"}
        `"default"`: all rows, with one-hot categories, unscaled numbers (`Dataset.split` scales them), and the
        favourable outcome as label 1. `"paper"`: the two parts of the paper's experiments.
    state : str or sequence of str, optional
        For `"acsincome"`: one or several states by their two letters, such as `"CA"`.
    year : int, optional
        For `"acsincome"`: the year of the survey, from 2014 on. Without state and year it is California 2018: a sample
        if the data folder has it, else all rows.
    sensitive_as_input : bool
        Whether the sensitive columns are also inputs. In the paper's protocol they always are.
    data_dir : path, optional
        Folder to look at first; by default the environment variable FAIRBOUND_DATA.
    download : bool
        Whether a file that is neither there nor in the user's cache may be downloaded to the cache.
    progress : bool, optional
        Whether to show the progress of a download on standard error; by default on a terminal.

    Returns
    -------
    Dataset or Split
        All rows by default; the training and the test part for `protocol="paper"`.

    Raises
    ------
    ValueError
        If the name, the protocol, the state or the year is unknown, or the file is not the known one (SHA-256).
    FileNotFoundError
        If the file is not found and cannot be downloaded; the message says which file to put where.

    Examples
    --------
    >>> law = load_dataset("law")
    >>> law
    Dataset 'law': 20,798 rows, 9 features, sensitive: race, sex
    >>> train, test = law.split(test_size=0.2, random_state=0)
    >>> len(train), len(test)
    (16638, 4160)
    >>> load_dataset("law", protocol="paper").train
    Dataset 'law': 16,638 rows, 11 features, sensitive: race
    """
    lookup(DATASETS, name, "data set")
    if protocol not in ("default", "paper"):
        raise ValueError(f"protocol is {protocol!r}; give 'default' or 'paper'.")
    if name != "acsincome" and not (state is None and year is None):
        raise InputError("{state=} and {year=} are for 'acsincome' only, not for the data set {name!r}.", name=name)
    place = Place(data_dir, download, progress)
    name, sources = _sources(name, state, year, place)
    source = sources[0]
    if protocol == "paper":
        if source.paper is None or len(sources) > 1:
            known = ", ".join(known for known, other in DATASETS.items() if other.paper)
            raise ValueError(f"Data set {name!r} is not one of the paper's; protocol='paper' is for {known}.")
        return paper_split(name, source, source.paper, source.read(place))
    return _default_dataset(name, sources, _concatenate([each.read(place) for each in sources]), sensitive_as_input)


def _sources(name: str, state: str | Sequence[str] | None, year: int | None, place: Place) -> tuple[str, list[Any]]:
    """Return the name of the data set and its sources, one for each state."""
    sample = DATASETS[name]
    if name != "acsincome" or (state is None and year is None and place.has(sample.file)):
        return name, [sample]
    given = STATE if state is None else state
    states = [given] if isinstance(given, str) or not isinstance(given, Sequence) else list(given)
    if not states:
        raise InputError("{state=} is empty.", "Give at least one state.")
    year = YEAR if year is None else year
    sources = [census_source(each, year) for each in states]
    letters = [each.lower() for each in states]
    if len(set(letters)) < len(letters):
        raise InputError("{state=} names a state twice: {states}.", "Name each once.", states=", ".join(states))
    return "_".join([name, *(letters if len(letters) < 4 else [f"{len(letters)}_states"]), str(year)]), sources


def _concatenate(parts: list[Arrays]) -> Arrays:
    return {column: np.concatenate([part[column] for part in parts]) for column in parts[0]}


def _default_dataset(name: str, sources: list[CatalogueEntry], columns: Arrays, sensitive_as_input: bool) -> Dataset:
    source = sources[0]
    schema = list(source.inputs)
    if sensitive_as_input:
        schema += [Categorical(each.name, each.labels) for each in source.sensitive]
        columns = columns | {each.name: columns[each.column] for each in source.sensitive}
    words: dict[str, Any] = {
        "target_names": source.target_names,
        "description": "\n".join(each.description for each in sources),
        "target": source.target,
    }
    sensitive = {each.name: decode(each.column, columns[each.column], each.labels) for each in source.sensitive}
    return Dataset.from_table(name, Table(schema, columns), columns[source.target].astype(np.int64), sensitive, **words)
