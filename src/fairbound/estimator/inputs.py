"""Read inputs of any kind by column: arrays, sparse matrices, DataFrames, and dictionaries of columns.

DataFrames are those of pandas, polars and pyarrow.

A column is read in one of two ways.  The same values give the same result from any kind of table:

    numbers   float64; True is 1; a missing value is NaN; infinity raises an error
    words     the distinct values as text, and the place of each row's; a whole number has no decimal point, so 1, 1.0
              and "1" are the same word; a missing value is None

A column is numbers if it has a numerical type, or if all its Python objects are numbers.  Any other column is words.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from numbers import Real
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import check_array

from fairbound._errors import InputError, InputTypeError
from fairbound._mapped import map_array
from fairbound._sharing import gathered
from fairbound._values import as_objects, as_values, has_infinity, with_gaps
from fairbound._words import did_you_mean, listed
from fairbound.data import Dataset, as_word, is_missing
from fairbound.estimator.columns import NUMBERS, Floats, Words
from fairbound.estimator.feature_names import column_names

LARGEST_WHOLE = 2**53
"""A float holds every whole number up to this one."""

BLOCK_ROWS = 2**16
"""Rows of a block of which statistics are computed, and that is encoded at once."""

DENSE_NUMBERS = 2**29
"""Largest number of entries of a sparse matrix that is made dense: 4 GiB."""

MOST_COLUMNS = 2**20
"""Most columns of a sparse matrix; a column that has a name and a weight needs about a kilobyte."""


@dataclass(frozen=True, eq=False)
class Inputs:
    """The columns of X.  Make it with `read_inputs`.

    Attributes
    ----------
    native : Any
        X as given: a table, an array, or a sparse matrix by rows.
    names : tuple of str, or None
        The names of the columns, if all are text.
    n_rows, n_columns : int
    encoded : dict, or None
        Cache of the encoded rows, only of the last encoding; created by `share_inputs`.
    folder : Path, or None
        Where encoded rows are written to files, because they may not fit in memory.
    first : int
        The number of the first row, for messages.
    """

    native: Any
    names: tuple[str, ...] | None
    n_rows: int
    n_columns: int
    encoded: dict[Hashable, Floats] | None = None
    folder: Path | None = None
    first: int = 0

    def by_blocks(self, encode: Callable[[Inputs], Floats]) -> Floats:
        """Return the encoded rows; those of files block by block, in a file."""
        if self.folder is None:
            return encode(self)
        found: Floats | None = None
        for rows in self.blocks():
            part = dense(encode(self.take(rows)))
            if found is None:
                found = map_array((self.n_rows, part.shape[1]), np.float64, self.folder)
            found[rows] = part
        assert found is not None
        return found

    def blocks(self) -> Iterator[slice]:
        """Yield the rows in blocks of `BLOCK_ROWS`: sums of blocks are the same, wherever the rows are."""
        for start in range(0, self.n_rows, BLOCK_ROWS):
            yield slice(start, min(start + BLOCK_ROWS, self.n_rows))

    def encoded_once(self, encoding: Hashable, encode: Callable[[Inputs], Floats]) -> Floats:
        """Return the encoded rows.  Shared inputs are encoded once, as long as the encoding stays the same."""
        if self.encoded is None:
            return encode(self)
        if encoding not in self.encoded:
            self.encoded.clear()  # one matrix at a time: it may be large
            self.encoded[encoding] = encode(self)
        return self.encoded[encoding]

    def label(self, position: int) -> str:
        """Return the name of a column for a message."""
        return repr(self.names[position]) if self.names else f"number {position}"

    def position(self, column: Hashable, said: str) -> int:
        """Return the position of a column, by its name or number.  The error for an unknown name offers the nearest."""
        if isinstance(column, str):
            return find_name(column, self.names, said)
        if not isinstance(column, int | np.integer) or isinstance(column, bool):
            raise InputTypeError(
                "{argument} has {column!r}.",
                "Give the name of a column, or its number from 0.",
                argument=said,
                column=column,
            )
        if not 0 <= int(column) < self.n_columns:
            raise InputError(
                "{argument} has {column!r}, but X has {count} columns, numbered from 0.",
                argument=said,
                column=column,
                count=self.n_columns,
            )
        return int(column)

    def positions(self, columns: Any, said: str) -> list[int]:
        """Return the positions of one column or several; none for None."""
        one = isinstance(columns, str | int | np.integer)
        return [self.position(each, said) for each in ([columns] if one else columns if columns is not None else ())]

    @property
    def names_or_numbers(self) -> Sequence[str]:
        """Return the names of the columns, or x0, x1, ..."""
        return self.names or [f"x{position}" for position in range(self.n_columns)]

    def named_values(self, positions: Iterable[int]) -> dict[str, NDArray[Any]]:
        """Return the values of some columns by name."""
        return {self.names_or_numbers[each]: self.values(each) for each in positions}

    def is_numeric(self, position: int) -> bool:
        """Return whether a column has a numerical type, or Python objects that are all numbers."""
        if not self._is_table:
            if self.native.dtype.kind != "O":
                return bool(self.native.dtype.kind in "fiub")
            return _all_numbers(self.native[:, position].tolist())
        kind = self._column(position).dtype
        if kind.is_numeric() or kind == nw.Boolean:
            return True
        return bool(kind == nw.Object) and _all_numbers(self._column(position).to_list())

    def values(self, position: int) -> NDArray[Any]:
        """Return the values of a column as they are."""
        if not self._is_table:
            return self._entries(position)
        return as_objects(self._column(position).to_list())

    def numbers(self, position: int) -> Floats:
        """Read a column as numbers."""
        if not self._is_table:
            values = self._entries(position)
            found = values.astype(np.float64) if values.dtype.kind in "fiub" else None
        else:
            column = self._column(position)
            plain = column.dtype.is_numeric() or column.dtype == nw.Boolean
            if column.dtype.is_integer():
                found = _floats(column)
            else:
                found = np.asarray(column.cast(nw.Float64()).to_numpy(), dtype=np.float64) if plain else None
        if found is None:
            found = self._parsed(position)
        self._check_finite(found, position)
        return found

    def words(self, position: int) -> Words:
        """Read a column as words."""
        kind = None if not self._is_table else self._column(position).dtype
        if kind is not None and (kind.is_temporal() or kind.is_nested()):
            raise TypeError(
                f"Column {self.label(position)} of X holds {kind}: argument must be a string or a number; convert it "
                "to numbers or categories, for example a date to its year."
            )
        codes, given = self._distinct(position)
        words: list[str | None] = []
        for place, value in enumerate(given):
            if value is None:
                words.append(None)
                continue
            if not isinstance(value, str | Real | Decimal | np.generic):
                raise TypeError(
                    f"X has {value!r} in column {self.label(position)}, row {self.row(codes == place)}: argument must "
                    "be a string or a number, one value for each row and column."
                )
            if isinstance(value, Real | Decimal) and math.isinf(_as_number(value) or 0.0):
                raise self._infinity(position, int((codes == place).argmax()))
            words.append(as_word(value))
        return Words(codes, words, given)

    def _distinct(self, position: int) -> tuple[NDArray[np.intp], list[Any]]:
        """Return the distinct values of a column, None for missing ones, and the place of each row's value."""
        native = self._column(position).to_native() if self._is_table else None
        if str(getattr(native, "type", "")).startswith("dictionary"):  # of pyarrow
            whole = native.unify_dictionaries().combine_chunks()  # type: ignore[union-attr]
            whole = whole.combine_chunks() if hasattr(whole, "chunks") else whole
            known = whole.dictionary.to_pylist()
            codes = np.asarray(whole.indices.fill_null(len(known)), dtype=np.intp)
            return codes, [*known, None]
        values = self.values(position)
        if values.dtype.kind in "iufb" and not is_missing(values).any():
            found, codes = np.unique(values, return_inverse=True)
            return codes, found.tolist()
        values = values.astype(object)
        values[is_missing(values)] = None
        places: dict[Any, int] = {}
        codes = np.empty(len(values), dtype=np.intp)
        distinct: list[Any] = []
        for row, value in enumerate(values.tolist()):
            key = value if type(value) is str else (type(value), value)  # True == 1, but they are different words
            try:
                place = places.setdefault(key, len(places))
            except TypeError:  # unhashable
                place = places.setdefault(id(value), len(places))
            if place == len(distinct):
                distinct.append(value)
            codes[row] = place
        return codes, distinct

    def row(self, wrong: NDArray[np.bool_]) -> int:
        """Return the number of the first wrong row, for a message."""
        return self.first + int(wrong.argmax())

    def is_rounded(self, position: int) -> bool:
        """Return whether a column has whole numbers that a float cannot hold."""
        if not self._is_table:
            if self.native.dtype.kind == "f":
                return False
            return _beyond_floats(self.stored(position)[0] if self.is_sparse else self.native[:, position])
        column = self._column(position)
        return column.dtype.is_integer() and _beyond_floats(column.drop_nulls().to_numpy())

    def matrix(self) -> Any:
        """Return X as one matrix, dense or sparse by rows, if it has numbers only, else None.

        It may be X itself: do not write into it.
        """
        if self._is_table or self.native.dtype.kind not in "fiub":
            return None
        found = (sparse.csr_array(self.native) if self.is_sparse else self.native).astype(np.float64, copy=False)
        if has_infinity(found.data if self.is_sparse else found):
            self._check_finite(dense(found))
        return found

    @property
    def is_sparse(self) -> bool:
        """Return whether X is a sparse matrix."""
        return bool(sparse.issparse(self.native))

    @cached_property
    def _by_column(self) -> Any:
        return self.native.tocsc()

    def stored(self, position: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the values of a column of a sparse matrix that are stored, and their rows; all others are 0."""
        held = self._by_column
        part = slice(held.indptr[position], held.indptr[position + 1])
        return held.data[part], held.indices[part]

    def _entries(self, position: int) -> NDArray[Any]:
        """Return the values of a column of an array or a sparse matrix."""
        if not self.is_sparse:
            found: NDArray[Any] = self.native[:, position]
            return found
        values, rows = self.stored(position)
        found = np.zeros(self.n_rows, values.dtype)
        found[rows] = values
        return found

    def take(self, rows: NDArray[Any] | slice) -> Inputs:
        """Return some of the rows."""
        if not self._is_table:
            part = self.native[rows]
        else:
            frame = self._frame
            part = (frame[rows] if isinstance(rows, slice) else frame[np.asarray(rows).tolist()]).to_native()
        if isinstance(rows, slice):
            chosen = range(self.n_rows)[rows]
            return Inputs(part, self.names, len(chosen), self.n_columns, first=self.first + chosen.start)
        return Inputs(part, self.names, len(rows), self.n_columns, folder=self.folder)

    def joined(self, processes: Any) -> Inputs:
        """Return the rows of all processes, in memory."""
        if processes is None:
            return self
        parts = gathered(self.native, processes)
        if self._is_table:
            whole = nw.concat([nw.from_native(part, eager_only=True) for part in parts]).to_native()
        else:
            whole = sparse.vstack(parts, format="csr") if self.is_sparse else np.concatenate(parts)
        return Inputs(whole, self.names, whole.shape[0], self.n_columns)

    def without(self, positions: Sequence[int]) -> Inputs:
        """Return the inputs without some of the columns."""
        return self.select([position for position in range(self.n_columns) if position not in set(positions)])

    def select(self, positions: Sequence[int]) -> Inputs:
        """Return the inputs with the columns at these positions, in this order."""
        kept = list(positions)
        if kept == list(range(self.n_columns)):
            return self
        part = self.native[:, kept] if not self._is_table else self._frame[:, kept].to_native()
        names = tuple(self.names[position] for position in kept) if self.names else None
        return Inputs(part, names, self.n_rows, len(kept), folder=self.folder)

    @property
    def _is_table(self) -> bool:
        return not (isinstance(self.native, np.ndarray) or self.is_sparse)

    @cached_property
    def _frame(self) -> nw.DataFrame[Any]:
        return nw.from_native(self.native, eager_only=True)

    def _column(self, position: int) -> nw.Series[Any]:
        return self._frame[:, position]

    def _parsed(self, position: int) -> Floats:
        """Return numbers from a column of another type: objects, categories of numbers, or text.

        If a column of a file has one word among numbers, libraries read the whole column as text.  So numbers are also
        parsed from text, and the error names that word.
        """
        values = self.values(position)
        missing = is_missing(values)
        found = np.full(self.n_rows, np.nan)
        for row, (value, gap) in enumerate(zip(values.tolist(), missing.tolist(), strict=True)):
            if gap or (isinstance(value, str) and NUMBERS.is_missing(value.strip())):
                continue
            number = _as_number(value)
            if number is None:
                raise InputError(
                    "Column {column} has {value!r} in row {row} of {place}, where numbers are expected.",
                    "Give numbers, or name the column in {categorical=} when fitting.",
                    column=self.label(position),
                    value=value,
                    row=self.first + row,
                    place="X",
                )
            found[row] = number
        return found

    def _check_finite(self, found: Floats, position: int | None = None) -> None:
        if has_infinity(found):
            place = np.argwhere(np.isinf(found))[0].tolist()
            raise self._infinity(place[1] if position is None else position, place[0])

    def _infinity(self, position: int, row: int) -> ValueError:
        return ValueError(
            f"X contains infinity in column {self.label(position)}, row {self.first + row}: give finite numbers, or "
            "NaN where a value is missing."
        )


def read_inputs(X: Any) -> Inputs:
    """Read X, of any supported kind.

    >>> read_inputs([[1.0, 2.0], [3.0, 4.0]]).numbers(1)
    array([2., 4.])
    """
    if isinstance(X, Inputs):
        return X
    if isinstance(X, Dataset):
        raise TypeError("X is a Dataset, which also holds labels and groups: give its inputs, data.frame() or data.X.")
    if nw.dependencies.is_into_dataframe(X) or isinstance(X, nw.DataFrame):
        try:
            frame = nw.from_native(_without_sparse_columns(X), eager_only=True)
        except nw.exceptions.DuplicateError as error:
            raise ValueError(f"X has several columns of the same name; rename them. {error}") from error
        n_rows, n_columns = frame.shape
        _check_shape(n_rows, n_columns)
        return Inputs(frame.to_native(), column_names(frame.columns), n_rows, n_columns)
    if hasattr(X, "collect") and hasattr(X, "collect_schema"):
        raise TypeError("X is a lazy table: call X.collect() first.")
    if isinstance(X, Mapping) and not sparse.issparse(X):  # one kind of sparse matrix is a dictionary, too
        return _read_columns(X)
    if getattr(X, "ndim", 0) > 2:
        raise ValueError(
            f"X has shape {tuple(X.shape)}, but the estimator takes a table of rows and columns. For images, sequences "
            "and the like, train your network with fairbound.training.fit(problem, X), where problem is a "
            "TrainingProblem."
        )
    X = with_gaps(X)
    if not sparse.issparse(X) and not isinstance(X, np.ndarray) and as_values(X, "X").dtype.kind in "US":
        X = np.asarray(X, dtype=object)  # otherwise numpy would convert numbers in a mixed array to text
    array = check_array(X, accept_sparse="csr", dtype=None, ensure_all_finite=False, input_name="X")
    if array.dtype.kind not in "fiubOUS":
        raise TypeError(f"X has values of type {array.dtype}: give numbers or words.")
    if array.dtype.kind in "US":
        array = array.astype(object)
    if sparse.issparse(array):
        if array.shape[1] > MOST_COLUMNS:
            raise ValueError(
                f"X is sparse with {array.shape[1]:,} columns, but at most {MOST_COLUMNS:,} can be read; keep fewer "
                "(sklearn.feature_selection, TruncatedSVD)."
            )
        array.sum_duplicates()
    return Inputs(array, None, *array.shape)


def find_name(name: str, names: Sequence[str] | None, said: str) -> int:
    """Return the position of a name.  The error for an unknown name offers the nearest."""
    if names is None:
        raise InputError(
            "{argument} names the column {column!r}, but X has no column names.",
            "Pass a table, or numbers from 0.",
            argument=said,
            column=name,
        )
    if name not in names:
        raise InputError(
            "{argument} names the column {column!r}, which X does not have.{near} Columns: {known}.",
            argument=said,
            column=name,
            near=did_you_mean(name, names),
            known=listed(names),
        )
    return names.index(name)


def share_inputs(X: Any, folder: Path | None = None) -> Inputs:
    """Read X for several models.  If their encodings are equal, its rows are encoded only once.

    With a `folder`, they are then written to a file there.
    """
    return replace(read_inputs(X), encoded={}, folder=folder)


def _read_columns(columns: Mapping[Any, Any]) -> Inputs:
    """Read a dictionary of columns as an array with names: of numbers if all columns are, of objects otherwise."""
    arrays = []
    for name, given in columns.items():
        values = with_gaps(given)
        array = np.asarray(values)
        if array.dtype.kind in "US":
            array = np.asarray(values, dtype=object)  # otherwise numpy would convert numbers in a mixed array to text
        if array.ndim != 1:
            raise ValueError(f"Column {name!r} of X has shape {array.shape}; give one value for each row.")
        arrays.append(array)
    lengths = {name: len(array) for name, array in zip(columns, arrays, strict=True)}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"The columns of X have different lengths: {lengths}; give one value for each row.")
    _check_shape(len(arrays[0]) if arrays else 0, len(arrays))
    numbers = all(array.dtype.kind in "fiub" and not _beyond_floats(array) for array in arrays)
    matrix = np.empty((len(arrays[0]), len(arrays)), dtype=np.float64 if numbers else object)
    for position, array in enumerate(arrays):
        matrix[:, position] = array
    return Inputs(matrix, column_names(list(columns)), *matrix.shape)


def _without_sparse_columns(X: Any) -> Any:
    """Return a pandas table with dense columns in place of sparse ones, which narwhals does not know."""
    if not nw.dependencies.is_pandas_dataframe(X):
        return X
    plain = {name: kind.subtype for name, kind in X.dtypes.items() if str(kind).startswith("Sparse[")}
    return X.astype(plain) if plain else X


def _floats(column: nw.Series[Any]) -> Floats:
    """Return whole numbers as floats; some libraries refuse to cast those that a float cannot hold exactly."""
    gaps = column.is_null().to_numpy()
    found = column.fill_null(0).to_numpy() if gaps.any() else column.to_numpy()
    return np.where(gaps, np.nan, np.asarray(found).astype(np.float64))


def _beyond_floats(values: NDArray[Any]) -> bool:
    """Return whether there are whole numbers that a float cannot hold."""
    if values.dtype.kind == "O":
        return any(isinstance(value, int) and abs(value) > LARGEST_WHOLE for value in values.tolist())
    if values.dtype.kind not in "iu" or not values.size:
        return False
    return int(values.max()) > LARGEST_WHOLE or int(values.min()) < -LARGEST_WHOLE


def _as_number(value: Any) -> float | None:
    """Return a value as a number, or None."""
    if isinstance(value, str):
        return NUMBERS.number(value.strip())
    if not isinstance(value, Real | Decimal | np.generic):
        return None
    try:
        return float(value)
    except OverflowError:  # Python's whole numbers have no upper limit
        return -math.inf if isinstance(value, int) and value < 0 else math.inf


def dense(matrix: Any) -> NDArray[Any]:
    """Return a matrix as an array, for what takes no sparse matrix: networks, and most bases."""
    if not sparse.issparse(matrix):
        return matrix
    if math.prod(matrix.shape) > DENSE_NUMBERS:
        raise ValueError(
            f"X is sparse with shape {matrix.shape}, too large for the dense matrix that this model needs; keep fewer "
            "columns (sklearn.feature_selection, TruncatedSVD) or fewer rows, or train a linear model (hidden=())."
        )
    return matrix.toarray()


def _all_numbers(values: list[Any]) -> bool:
    missing = is_missing(as_objects(values))
    return all(
        gap or (isinstance(value, Real | Decimal | np.number) and not isinstance(value, str))
        for value, gap in zip(values, missing.tolist(), strict=True)
    )


def _check_shape(n_rows: int, n_columns: int) -> None:
    if n_columns == 0:
        raise ValueError(f"Found array with 0 feature(s) (shape=({n_rows}, 0)) while a minimum of 1 is required.")
    if n_rows == 0:
        raise ValueError(f"Found array with 0 sample(s) (shape=(0, {n_columns})) while a minimum of 1 is required.")
