"""Parquet files as a source of rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from fairbound._errors import InputError
from fairbound.data.arrow import common_type, import_pyarrow
from fairbound.data.batches import BLOCK_ROWS, Batches, check_distinct


@dataclass(frozen=True, eq=False, kw_only=True)
class ParquetFiles(Batches):
    """A Parquet file, or all Parquet files of a folder in the order of their names."""

    paths: tuple[Path, ...]

    @classmethod
    def open(cls, path: Path) -> ParquetFiles:
        """Check that the files have the same columns."""
        paths = parquet_files(path)
        with _opened(paths[0]) as first:
            names = first.schema_arrow.names
        n_rows = 0
        for each in paths:
            with _opened(each) as file:
                n_rows += file.metadata.num_rows
                others = file.schema_arrow.names
            if others != names:
                odd = [*(set(others) ^ set(names)), *others][0]
                raise ValueError(
                    f"{each.name} has other columns than {paths[0].name}, or another order ({odd!r}); give all files "
                    "of a folder the same columns."
                )
        check_distinct(names, path.name)
        if not n_rows:
            raise ValueError(f"{path.name} has no row; give at least one.")
        return cls(place=path.name, names=tuple(names), paths=paths, n_rows=n_rows)

    @cached_property
    def _schemas(self) -> list[Any]:
        found = []
        for path in self.paths:
            with _opened(path) as file:
                found.append(file.schema_arrow)
        return found

    @cached_property
    def _kinds(self) -> dict[str, Any]:
        return {name: common_type([each.field(name).type for each in self._schemas]) for name in self.names}

    def kind(self, name: str) -> Any:
        """Return the type of a column that holds the values of all files."""
        if self._kinds[name] is None:
            known = {
                str(schema.field(name).type): path.name for schema, path in zip(self._schemas, self.paths, strict=True)
            }
            raise InputError(
                "Column {column!r} of {place} has different types: {known}.",
                "Write all files of a folder with the same types, or leave the column out with {ignore=}.",
                column=name,
                place=self.place,
                known=", ".join(f"{kind} in {file}" for kind, file in known.items()),
            )
        return self._kinds[name]

    def stored(self, columns: Sequence[str]) -> Iterator[tuple[int, Any]]:
        """Yield batches of each row group that has rows of this process."""
        pa = import_pyarrow()
        (begin, end), first = self.own, 0
        kinds = {name: self.kind(name) for name in columns}
        for path in self.paths:
            with _opened(path) as file:
                for group in range(file.num_row_groups):
                    rows, place = file.metadata.row_group(group).num_rows, first
                    own = first < end and first + rows > begin
                    for batch in file.iter_batches(BLOCK_ROWS, [group], list(columns)) if own else ():
                        table = pa.Table.from_batches([batch]).select(list(columns))  # it also reads "a.b" for "a"
                        table.validate(full=True)  # damaged pages may have invalid text, or codes without a value
                        yield place, _with_types(table, kinds)
                        place += table.num_rows
                    first += rows


def _with_types(table: Any, kinds: Mapping[str, Any]) -> Any:
    for place, field_ in enumerate(table.schema):
        if field_.type != kinds[field_.name]:  # beside fractions, large integers are rounded, as in text files
            column = table.column(place).cast(kinds[field_.name], safe=False)
            table = table.set_column(place, field_.name, column)
    return table


def parquet_files(path: Path) -> tuple[Path, ...]:
    """Return the Parquet files of a path, in the order of their names: the file itself, or those of a folder."""
    if path.is_dir():
        return tuple(
            sorted(each for each in path.rglob("*.parquet") if each.is_file() and not each.name.startswith((".", "_")))
        )
    return (path,)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    pa = import_pyarrow("Reading Parquet files needs")
    from pyarrow.parquet import ParquetFile

    try:
        with path.open("rb") as stream, ParquetFile(stream) as file:  # pyarrow cannot open paths that are not UTF-8
            yield file
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(f"{path.name} is not a Parquet file that can be read ({reason}); write it again.") from error
