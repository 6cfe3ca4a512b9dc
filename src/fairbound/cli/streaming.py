"""Commands on files that do not fit in memory: detect them, and read them in parts."""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairbound._errors import argument, together
from fairbound.cli.output import Output

if TYPE_CHECKING:
    from fairbound.cli.decisions import JudgedOptions
    from fairbound.cli.options import ReadingOptions
    from fairbound.data import Batches
    from fairbound.evaluation import Repeats
    from fairbound.studies import StreamedStudy, StudySettings
    from fairbound.training import Processes

BYTES_PER_VALUE = 300
"""Bytes of memory per value of a table in a study, which has several copies as objects, text and numbers."""

BYTES_PER_CHARACTER = 50
"""Bytes of memory per byte of a text file."""

_UNITS = {"": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12, "kib": 2**10, "mib": 2**20, "gib": 2**30}


TIME_OUT = timedelta(minutes=30)
"""If another process does not answer for this time, a run ends."""


@contextmanager
def shared_run() -> Iterator[Processes | None]:
    """Join the processes that a launcher such as torchrun has started, and yield them; None without a launcher."""
    if not {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} <= set(os.environ):
        yield None
        return
    import torch
    import torch.distributed as dist

    from fairbound.training import Processes

    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo", timeout=TIME_OUT)
    try:
        yield Processes.present()
    finally:
        dist.destroy_process_group()


def refuse_launcher(command: str) -> None:
    """Raise an error if a launcher has started several processes of a command that runs in one."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1 and "RANK" in os.environ:
        raise ValueError(
            f"fairbound {command} runs in one process, but several were started; start it without torchrun."
        )


def own_output(processes: Processes | None, out: Path, output: Output, scratch: ExitStack) -> tuple[Path, Output]:
    """Return the folder and the output of this process; all but the first write to a temporary folder, silently."""
    if processes is None or not processes.rank:
        return out, output
    return Path(scratch.enter_context(tempfile.TemporaryDirectory())) / "out", Output(False, True)


def parse_memory(stated: str | None) -> int:
    """Return a size in bytes; without one, half of the memory of the machine.

    >>> parse_memory("2GB"), parse_memory("500 mb")
    (2000000000, 500000000)
    """
    if stated is None:
        return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2) if hasattr(os, "sysconf") else 2**62
    found = re.fullmatch(r"\s*(\d*\.?\d+)\s*([a-z]*)\s*", stated.lower())
    if found is None or found[2] not in _UNITS:
        raise ValueError(f"--memory is {stated!r}; give a size such as 2GB or 500MB.")
    return int(float(found[1]) * _UNITS[found[2]])


def is_too_large(source: str, budget: int) -> bool:
    """Return whether the rows of a file would take more memory than allowed; a folder of files is always streamed."""
    path = Path(source)
    if path.is_dir():
        return any(path.rglob("*.parquet"))
    if not path.is_file():
        return False  # a known data set
    with path.open("rb") as stream:
        is_parquet = stream.read(4) == b"PAR1"
    if not is_parquet:
        return path.stat().st_size * BYTES_PER_CHARACTER > budget
    from fairbound.data import open_batches

    found = open_batches(path)
    return found.n_rows * len(found.names) * BYTES_PER_VALUE > budget


class RowProgress:
    """Shows the number of rows that a pass has read, the rows per second, and the remaining time."""

    def __init__(self, output: Output) -> None:
        self.output = output
        self.name, self.started, self.shown, self.last = "", 0.0, 0.0, time.perf_counter()

    def __call__(self, name: str, done: int, total: int) -> None:
        """Show the progress of a pass; `total` is 0 if it is not known."""
        now = time.perf_counter()
        if name != self.name:  # the first rows were read since the end of the last pass
            self.name, self.started = name, self.last
        self.last = now
        if now - self.shown < 0.2:
            return
        self.shown = now
        rate = done / max(now - self.started, 1e-9)
        of = f" of {total:,}" if total else ""
        rest = f", {max(total - done, 0) / rate:,.0f} s left" if total else ""
        self.output.update(f"{name}: {done:,}{of} rows, {rate:,.0f} rows/s{rest}")


def count_decisions(path: str, reading: JudgedOptions, output: Output) -> tuple[dict[str, Any], Repeats, Any]:
    """Read the columns of label, decision, groups and weight in parts.

    Return the combinations that occur, their rows, and the mean weight of the rows of each; None if all are equal.
    Rows of weight 0 do not count, so weights of 0 and 1 are equal ones.
    """
    import numpy as np

    from fairbound._errors import Message
    from fairbound._values import check_each_weight, check_range
    from fairbound.data import RowCounts, is_missing
    from fairbound.evaluation import Repeats

    roles = {"target": reading.target, "prediction": reading.prediction}
    named = {role: name for role, name in roles.items() if name is not None}
    names = list(dict.fromkeys((*named.values(), *reading.sensitive)))
    weight, tell = reading.weight, RowProgress(output)
    shown = Message("Column {column!r} ({weight=})", column=weight)
    counts = RowCounts(names)
    squares, lightest, heaviest = np.zeros(0), np.inf, 0.0
    with output.stage(f"Counting {path} in parts"):
        source = _open_decisions(path, reading, named)
        for first, table in source.batches([*names, *(() if weight is None else (weight,))]):
            entries, weights = counts.entries(table), np.ones(table.num_rows)
            if weight is not None:
                given = source.numbers(weight, table.column(weight), first)
                weights = check_each_weight(given, len(given), shown, first=first)
            for part, own in enumerate((weights > 0, weights == 0)):  # rows of weight 0 are listed, but do not count
                counts.add(entries[own], weights[own], part)
            squares = np.pad(squares, (0, len(counts.places) - len(squares)))
            np.add.at(squares, entries, weights**2)
            lightest = min(lightest, float(weights[weights > 0].min(initial=np.inf)))
            heaviest = max(heaviest, float(weights.max()))
            tell("Counting", first + table.num_rows, source.n_rows)
        check_range(lightest, heaviest, shown)
        parts, found = np.nonzero(counts.rows)
        columns = {name: counts.column(position, source)[found] for position, name in enumerate(names)}
    rows, weights = (np.stack(each)[parts, found] for each in (counts.rows, counts.weight))
    if "prediction" in named:
        gaps = is_missing(columns[named["prediction"]])
        if gaps.any():
            raise ValueError(
                f"Column {named['prediction']!r} (--prediction) has no value in {rows[gaps].sum():,} of "
                f"{rows.sum():,} rows; drop the rows without a decision."
            )
    if lightest == heaviest:
        return columns, Repeats(rows), np.where(parts, 0.0, heaviest) if parts.any() else None
    return columns, Repeats(rows, np.where(parts, 0.0, squares[found]) / rows, heaviest), weights / rows


def _open_decisions(path: str, reading: JudgedOptions, named: Mapping[str, str]) -> Batches:
    """Open files of decisions, with the formats of the columns that are used."""
    from fairbound.data import MISSING, open_batches, refuse_probabilities

    source = open_batches(path, delimiter=reading.delimiter, encoding=reading.encoding)
    refuse_probabilities(reading.sensitive, source.names)
    roles = {name: argument("sensitive") for name in reading.sensitive}
    roles |= {name: argument(role) for role, name in named.items()}
    used = roles | ({} if reading.weight is None else {reading.weight: argument("weight")})
    source.check(used)
    return source.learn(
        words=set(roles),
        ignore=[name for name in source.names if name not in used],
        missing=(*MISSING, *(reading.missing or ())),
    )


def stream_study(
    source: str,
    test_file: str | None,
    reading: ReadingOptions,
    settings: StudySettings,
    output: Output,
    out: Path,
    scratch: ExitStack,
    processes: Processes | None = None,
) -> StreamedStudy:
    """Read the files in parts, and show facts about them before training begins.

    The scratch folder is beside the output, and is removed when `scratch` is closed.
    """
    from fairbound.cli.inputs import check_binary, label_and_groups, parse_bands
    from fairbound.cli.studying import show_columns, show_label
    from fairbound.data import MISSING, Source
    from fairbound.estimator import checked, prepared_rows
    from fairbound.studies import StreamedStudy, check_streamed

    with together(processes):
        target, sensitive = label_and_groups(Path(source).name, reading)
        check_streamed(settings)
    place = out.absolute().parent
    while not place.exists():
        place = place.parent
    rows, held_out = (
        Source(
            file,
            positive=reading.positive or None,
            negative=reading.negative or None,
            bands=parse_bands(reading.bands),
            categorical=list(reading.categorical or ()),
            ignore=list(reading.ignore or ()),
            drop_unlabelled=reading.drop_unlabelled,
            missing=(*MISSING, *(reading.missing or ())),
            decimal=reading.decimal,
            delimiter=reading.delimiter,
            encoding=reading.encoding,
            scratch=place,
        )
        for file in (source, test_file)
    )
    params = checked(settings.classifier((), None, None, max_categories=reading.max_categories).set_params(base=None))
    with output.stage(f"Reading {source} in parts"):
        with together(processes):
            roles = rows.roles(target, sensitive, reading.weight, max_categories=reading.max_categories)
        prepared = scratch.enter_context(
            prepared_rows(
                rows,
                roles,
                params,
                held_out=None if test_file is None else held_out,
                test_size=settings.test_size if test_file is None else 0.0,
                seed=settings.seed,
                tell=RowProgress(output),
                processes=processes,
            )
        )
        study = StreamedStudy(prepared, settings, source)
    with together(processes):
        check_binary(prepared.rows.classes, target, reading.positive, reading.multiclass)
    output.text(study.describe())
    show_label(output, study.data)
    show_columns(output, study.data)
    return study
