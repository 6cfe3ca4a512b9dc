"""Tables as files: CSV in the dialects that programs write, Parquet of every type, and both damaged.

A *sound* file says the same as the table, however it is written.  `damage` makes of it what a bad export, a text editor
or a bad disk makes of it; then only the manner of the refusal matters.
"""

from __future__ import annotations

import csv
import datetime as dt
import decimal
import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from tests.fuzz.generators import WORDS, Rng, chance, pick

JOBS = ("cook", "nurse", "smith", "teacher", "Köchin", "x y")
GAPS = ("", "NA", "?", "NaN", "null")


@dataclass(frozen=True)
class Table:
    """The truth about a file: columns of numbers, words and gaps (None), in order."""

    columns: dict[str, list[Any]]

    @property
    def n_rows(self) -> int:
        return len(next(iter(self.columns.values())))


def draw_table(rng: Rng, n: int, *, decided: bool = False) -> Table:
    """Draw applicants: an identifier, inputs, two groups, a label that depends on them, and perhaps decisions."""
    sex = [pick(rng, ["female", "male"]) for _ in range(n)]
    income = np.round(rng.normal([2600.0 if each == "male" else 2200.0 for each in sex], 500.0)).astype(int)
    label = (income + rng.normal(0, 300, n) > 2400).astype(int)
    label[: min(n, 2)] = [0, 1][: min(n, 2)]
    columns: dict[str, list[Any]] = {
        "id": rng.permutation(np.arange(1, n + 1)).tolist(),
        "income": income.tolist(),
        "share": [round(float(value), 3) for value in rng.normal(size=n)],
        "job": [pick(rng, JOBS) for _ in range(n)],
        "sex": sex,
        "region": [pick(rng, ["north", "south", "east"]) for _ in range(n)],
        "approved": label.tolist(),
    }
    for name in ("income", "share", "job"):
        if chance(rng, 0.2):
            columns[name] = [None if chance(rng, 0.1) else value for value in columns[name]]
    if decided:
        columns["decision"] = [value if chance(rng, 0.8) else int(rng.integers(2)) for value in label.tolist()]
    names = list(columns)
    rng.shuffle(names)
    return Table({name: columns[name] for name in names})


@dataclass(frozen=True)
class Written:
    """A file, and what a reader has to be told about it."""

    path: Path
    delimiter: str | None = None
    encoding: str = "utf-8"

    @property
    def options(self) -> dict[str, Any]:
        return {"delimiter": self.delimiter, "encoding": self.encoding}


def write_csv(rng: Rng, table: Table, folder: Path, name: str = "loans") -> Written:
    """Write a table as some program does: delimiter, quotes, line ends, encoding, byte-order mark, empty lines."""
    delimiter = pick(rng, [",", ",", ",", ";", "\t", "|"])
    encoding = pick(rng, ["utf-8", "utf-8", "utf-8-sig", "utf-16", "cp1252", "latin-1"])
    end = pick(rng, ["\n", "\n", "\r\n", "\r"])
    gap = pick(rng, GAPS)
    stream = io.StringIO(newline="")
    quoting = pick(rng, [csv.QUOTE_MINIMAL, csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])
    if end == "\r":  # the writer would not put quotes around a value that holds the other end of a line
        quoting = csv.QUOTE_ALL
    writer = csv.writer(stream, delimiter=delimiter, quoting=quoting, lineterminator=end)
    writer.writerow(table.columns)
    for row in zip(*table.columns.values(), strict=True):
        writer.writerow([gap if value is None else value for value in row])
        if chance(rng, 0.02):
            stream.write(end)
    text = stream.getvalue()
    if chance(rng, 0.2):
        text = text.removesuffix(end)
    suffix = pick(rng, [".tsv", ".csv", ".txt"]) if delimiter == "\t" else pick(rng, [".csv", ".csv", ".txt", ""])
    path = folder / f"{name}{suffix}"
    path.write_bytes(text.encode(encoding))
    told = None if delimiter == "," or suffix == ".tsv" else delimiter
    return Written(path, told, "utf-8" if encoding == "utf-8-sig" else encoding)


NUMBER_TYPES = (pa.int64(), pa.int32(), pa.int16(), pa.uint16(), pa.uint64(), pa.float64(), pa.float32())


def write_parquet(rng: Rng, table: Table, folder: Path, name: str = "loans") -> Written:
    """Write a table in some of the types that hold its values, in some row groups, one of them perhaps empty."""
    arrays = {}
    for column, values in table.columns.items():
        known = [value for value in values if value is not None]
        if all(isinstance(value, str) for value in known):
            kind = pick(rng, [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
        elif all(isinstance(value, int) for value in known):
            fits = [each for each in NUMBER_TYPES if min(known) >= 0 or not pa.types.is_unsigned_integer(each)]
            kind = pick(rng, [*fits, pa.decimal128(20, 2)])
        else:
            kind = pa.float64()
        if pa.types.is_decimal(kind):
            values = [None if value is None else decimal.Decimal(value) for value in values]
        arrays[column] = pa.array(values, type=kind)
    path = folder / f"{name}{pick(rng, ['.parquet', '.parquet', '.pq', ''])}"
    written = pa.table(arrays)
    with parquet.ParquetWriter(path, written.schema, compression=pick(rng, ["snappy", "none", "zstd"])) as writer:
        if chance(rng, 0.1):
            writer.write_table(written.slice(0, 0))
        writer.write_table(written, row_group_size=int(pick(rng, [1 + written.num_rows // 3, 10_000])))
    return Written(path)


def odd_array(rng: Rng, n: int) -> pa.Array:
    """Return a Parquet column of any type that there is."""
    moment = dt.datetime(2020, 1, 1)
    kinds: list[Callable[[], pa.Array]] = [
        lambda: pa.nulls(n),
        lambda: pa.array([2**64 - 1 - place for place in range(n)], type=pa.uint64()),
        lambda: pa.array([2**53 + 1 + place if place % 3 else None for place in range(n)], type=pa.int64()),
        lambda: pa.array([moment] * n, type=pa.timestamp(pick(rng, ["s", "ms", "us", "ns"]))),
        lambda: pa.array([moment.date()] * n, type=pick(rng, [pa.date32(), pa.date64()])),
        lambda: pa.array([moment.time()] * n, type=pa.time64("us")),
        lambda: pa.array([bool(place % 2) for place in range(n)]),
        lambda: pa.array([b"\xff\x00"] * n, type=pick(rng, [pa.binary(), pa.large_binary(), pa.binary(2)])),
        lambda: pa.array([[1, 2]] * n),
        lambda: pa.array([{"a": 1, "b": "x"}] * n),
        lambda: pa.array([[("k", 1)]] * n, type=pa.map_(pa.string(), pa.int64())),
        lambda: pa.array([decimal.Decimal("1.23")] * n, type=pick(rng, [pa.decimal128(38, 10), pa.decimal256(50, 3)])),
        lambda: pa.array([pick(rng, WORDS) for _ in range(n)]).dictionary_encode(),
        lambda: pa.array([float("nan"), float("inf"), None, 1e308, -0.0][:n] + [1.0] * (n - 5)),
        lambda: pa.array([np.float16(1.5)] * n, type=pa.float16()),
        lambda: pa.array([pick(rng, WORDS) for _ in range(n)]),
        lambda: pa.array([dt.timedelta(seconds=place) for place in range(n)]),
    ]
    return pick(rng, kinds)()


ODD_TEXTS = (
    "", '"', '""', '"unclosed', "a,b", "1,5", "1.234,5", "18,000", "$2,174", "007", "+1", "1e3", "1e999",
    "0x10", "1_000", "١٢",
    "NaN", "inf", "-inf", "NULL", "\x00", "\x1b[2J", "=cmd|' /C calc'!A0", "@SUM(1)", "-1+2", "\ufeff",
    "A\u0308", "Ä", "\u2028", "\u0085",
    "\x0b", "x" * 140_000, "9" * 5000, "-", ".", "e", "2020-01-01", "12:30", "true", "TRUE", "Yes", "yes ",
    " yes", "\ud7ff", "🙂", "#N/A",
)  # fmt: skip


def damage(rng: Rng, written: Written) -> Written:
    """Return the file with some bytes, fields or lines changed."""
    content = written.path.read_bytes()
    for _ in range(int(rng.integers(1, 4))):
        content = pick(rng, DAMAGES)(rng, content)
    written.path.write_bytes(content)
    return written


def _replace_field(rng: Rng, content: bytes) -> bytes:
    lines = content.split(b"\n")
    place = int(rng.integers(len(lines)))
    fields = lines[place].split(b",")
    fields[int(rng.integers(len(fields)))] = pick(rng, ODD_TEXTS).encode("utf-8", "surrogatepass")
    lines[place] = b",".join(fields)
    return b"\n".join(lines)


def _replace_in_column(rng: Rng, content: bytes) -> bytes:
    lines = content.split(b"\n")
    column, text = int(rng.integers(7)), pick(rng, ODD_TEXTS).encode("utf-8", "surrogatepass")
    for place in range(1, len(lines)):
        fields = lines[place].split(b",")
        if column < len(fields) and rng.random() < 0.5:
            fields[column] = text
            lines[place] = b",".join(fields)
    return b"\n".join(lines)


def _insert_bytes(rng: Rng, content: bytes) -> bytes:
    place = int(rng.integers(len(content) + 1))
    return content[:place] + rng.bytes(int(rng.integers(1, 6))) + content[place:]


def _cut(rng: Rng, content: bytes) -> bytes:
    return content[: int(rng.integers(len(content) + 1))]


def _repeat_a_line(rng: Rng, content: bytes) -> bytes:
    lines = content.split(b"\n")
    lines.insert(int(rng.integers(len(lines))), pick(rng, lines))
    return b"\n".join(lines)


def _repeat_a_name(rng: Rng, content: bytes) -> bytes:
    return content.replace(
        pick(rng, [b"income", b"id", b"job"]), pick(rng, [b"sex", b"approved", b"", b" ", b"Income"]), 1
    )


def _lengthen_a_line(rng: Rng, content: bytes) -> bytes:
    lines = content.split(b"\n")
    lines[int(rng.integers(len(lines)))] += pick(rng, [b",", b",,,,", b";", b'"', b",extra", b"\r", b"\x00"])
    return b"\n".join(lines)


def _begin_otherwise(rng: Rng, content: bytes) -> bytes:
    return (
        pick(
            rng,
            [b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"PK\x03\x04", b"\x1f\x8b", b"PAR1", b"\n\n", b"#", b"\x00"],
        )
        + content
    )


def _without_mark(rng: Rng, content: bytes) -> bytes:
    return content.decode("latin-1").encode(pick(rng, ["utf-16-le", "utf-16-be", "utf-32", "utf-7"]))


DAMAGES = (
    _replace_field, _replace_field, _replace_field, _replace_in_column, _replace_in_column, _insert_bytes, _cut,
    _repeat_a_line, _repeat_a_name, _lengthen_a_line, _begin_otherwise, _without_mark,
)  # fmt: skip
