"""`load_dataset`: a data set of the catalogue by name, for users or as the paper's experiments had it."""

from __future__ import annotations

import os
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from fairbound._registry import lookup
from fairbound.data.catalogue import DATASETS, SensitiveColumn, Source
from fairbound.data.columns import Categorical, decode
from fairbound.data.dataset import Dataset, Split
from fairbound.data.files import Table, read_table
from fairbound.data.paper import paper_split


@overload
def load_dataset(
    name: str,
    *,
    protocol: Literal["default"] = ...,
    data_dir: str | os.PathLike[str] | None = ...,
    sensitive_as_input: bool = ...,
) -> Dataset: ...
@overload
def load_dataset(
    name: str,
    *,
    protocol: Literal["paper"],
    data_dir: str | os.PathLike[str] | None = ...,
    sensitive_as_input: bool = ...,
) -> Split: ...
def load_dataset(
    name: str,
    *,
    protocol: str = "default",
    data_dir: str | os.PathLike[str] | None = None,
    sensitive_as_input: bool = False,
) -> Dataset | Split:
    """Load a data set by name.

    Parameters
    ----------
    name : str
        `"law"` (shipped), or `"dutch"`, `"acsincome"`, `"acsincome_us"` (from a folder); see `DATASETS`.
    protocol : {"default", "paper"}
        `"default"`: categoricals one-hot, numbers as they stand (`Dataset.split` scales them), the favourable outcome
        as label 1, all rows. `"paper"`: the two parts as in the paper's experiments (see `fairbound.data.paper`).
    data_dir : path, optional
        Folder with the files that are not shipped; by default the environment variable FAIRBOUND_DATA.
    sensitive_as_input : bool
        Whether the sensitive columns are among the inputs, too. The paper's protocol has its own always there.

    Returns
    -------
    Dataset or Split
        All rows by default; the training and the test part for `protocol="paper"`.

    Raises
    ------
    ValueError
        If the name or the protocol is unknown, or the file is not the known one (SHA-256).
    FileNotFoundError
        If the file is not at hand; the message says which file to put where.

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
    source = lookup(DATASETS, name, "data set")
    if protocol not in ("default", "paper"):
        raise ValueError(f"protocol is {protocol!r}; give 'default' or 'paper'.")
    if protocol == "paper":
        if source.paper is None:
            known = ", ".join(known for known, other in DATASETS.items() if other.paper)
            raise ValueError(f"Data set {name!r} is not one of the paper's; protocol='paper' is for {known}.")
        return paper_split(name, source, source.paper, read_table(source.file, data_dir))
    return _for_users(name, source, read_table(source.file, data_dir), sensitive_as_input)


def _for_users(name: str, source: Source, table: Table, sensitive_as_input: bool) -> Dataset:
    encoded = [column.encode(table[column.name]) for column in source.inputs]
    if sensitive_as_input:
        encoded += [Categorical(column.name, column.labels).encode(table[column.column]) for column in source.sensitive]
    return Dataset(
        name=name,
        X=np.concatenate([matrix for matrix, _ in encoded], axis=1),
        y=table[source.target].astype(np.int64),
        sensitive={column.name: _words(column, table) for column in source.sensitive},
        feature_names=[name for _, names in encoded for name in names],
        target_names=source.target_names,
        description=source.description,
    )


def _words(sensitive: SensitiveColumn, table: Table) -> NDArray[Any]:
    return decode(sensitive.column, table[sensitive.column], sensitive.labels)
