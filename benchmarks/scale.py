"""Time and memory of fits to files of millions of rows, which are streamed.

    python benchmarks/scale.py 1 5 20 --folder FOLDER        (millions of rows, 10 columns)

Planted rows are written in parts of 500,000 to Parquet files, once.  Each size is fitted in a process of its own under
`disparate_impact >= 0.9`.  Printed for each size, in seconds of processor time and for each million rows: learning the
encoding (which reads the file), writing the encoded rows (which reads it again), solving, and counting the decisions;
and the peak of anonymous memory, which leaves out mapped files.  Results are kept in FOLDER/scale.json.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

PART = 500_000
COLUMNS = 10


def write_rows(folder: Path, millions: float) -> None:
    """Write planted rows in parts: two groups of different size, of which one has lower inputs."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    weights = np.random.default_rng(1).normal(size=COLUMNS)
    for part in range(round(millions * 1e6 / PART)):
        path = folder / f"part-{part:05d}.parquet"
        if path.exists():
            continue
        draw = np.random.default_rng([2, part])
        group = draw.random(PART) < 0.4
        X = draw.normal(size=(PART, COLUMNS)) - 0.3 * group[:, None]
        label = X @ weights + draw.logistic(size=PART) * 2.0 > 0.3
        columns = {f"x{place}": X[:, place] for place in range(COLUMNS)}
        table = pa.table({**columns, "group": np.where(group, "b", "a"), "label": label.astype(np.int64)})
        fresh = path.with_suffix(".tmp")
        pq.write_table(table, fresh)
        fresh.replace(path)


class MemoryWatch:
    """Samples the anonymous memory of this process, and keeps the peak."""

    def __init__(self) -> None:
        self.peak = 0
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> MemoryWatch:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.done.set()
        self.thread.join()

    def _watch(self) -> None:
        while not self.done.wait(0.02):
            status = Path("/proc/self/status").read_text()
            line = next(line for line in status.splitlines() if line.startswith("RssAnon"))
            self.peak = max(self.peak, int(line.split()[1]) * 1024)


def measure(folder: str, scratch: str, send: Any) -> None:
    """Fit to the files of a folder, and send the figures."""
    from fairbound import ConstrainedClassifier
    from fairbound.data import TableStream
    from fairbound.estimator.file_fits import FileFitting
    from fairbound.estimator.file_rows import FileColumns, FileRows
    from fairbound.estimator.prepared import PreparedRows
    from fairbound.training import Passes

    classifier = ConstrainedClassifier("disparate_impact >= 0.9")
    figures: dict[str, Any] = {}
    last = time.process_time(), time.perf_counter()

    def lap(name: str) -> None:
        nonlocal last
        now = time.process_time(), time.perf_counter()
        figures[name], figures[f"{name}, wall"] = now[0] - last[0], now[1] - last[1]
        figures[f"{name}, peak GB"] = watch.peak / 1e9
        last = now

    with MemoryWatch() as watch:
        rows = FileRows(TableStream.open(folder), FileColumns(target="label", sensitive=("group",)))
        lap("learning")
        prepared = PreparedRows(rows, Path(scratch), classifier)
        lap("writing")
        fitting = FileFitting(classifier, prepared, Passes())
        record = fitting.train()
        lap("training")
    figures |= {
        "solving": record.seconds,
        "rows": len(rows),
        "passes": record.passes,
        "value_passes": record.value_passes,
        "accuracy": record.accuracy,
        "reached": record.limits[0].reached,
        "kept": record.kept,
        "peak": watch.peak,
    }
    send.send(figures)


def main() -> None:
    """Write the rows, measure each size, and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("millions", type=float, nargs="+")
    parser.add_argument("--folder", type=Path, required=True)
    options = parser.parse_args()
    kept = options.folder / "scale.json"
    results = json.loads(kept.read_text()) if kept.exists() else {}
    for millions in options.millions:
        data = options.folder / f"rows-{millions:g}"
        write_rows(data, millions)
        scratch = options.folder / "scratch"
        scratch.mkdir(exist_ok=True)
        receive, send = multiprocessing.Pipe(duplex=False)
        process = multiprocessing.get_context("spawn").Process(target=measure, args=(str(data), str(scratch), send))
        process.start()
        send.close()
        try:
            results[f"{millions:g}"] = receive.recv()
        finally:
            process.join()
            for each in scratch.rglob("*"):
                if each.is_file():
                    each.unlink()
            for each in scratch.iterdir():
                each.rmdir()
        kept.write_text(json.dumps(results, indent=1))
    stages = ("learning", "writing", "training")
    print("millions  " + "  ".join(f"{stage:>9}" for stage in stages) + "   s per million  passes  peak GB  kept")
    for millions, found in sorted(results.items(), key=lambda item: float(item[0])):
        each = [found[stage] / float(millions) for stage in stages]
        print(
            f"{millions:>8}  "
            + "  ".join(f"{found[stage]:9.1f}" for stage in stages)
            + f"   {sum(each):13.2f}  {found['passes'] + found['value_passes']:6d}  {found['peak'] / 1e9:7.2f}  "
            + f"{found['reached']:.4f} {found['kept']}"
        )


if __name__ == "__main__":
    main()
