"""Time and memory of fits to files of millions of rows, which are streamed, and of fits to a million rows in memory.

    python benchmarks/scale.py 1 5 20 100 --folder FOLDER           (millions of rows, 10 columns)
    python benchmarks/scale.py 1 5 --margin --folder FOLDER         (the same with a margin for new rows)
    python benchmarks/scale.py 5 --processes 2 --folder FOLDER      (the same fit in one process and in two)
    python benchmarks/scale.py 1 --in-memory                        (20 columns, beside scikit-learn)

Planted rows are written in parts of 500,000 to Parquet files, once.  Each size is fitted in a process of its own under
`disparate_impact >= 0.9`.  Printed for each size, in seconds of processor time: reading the files and nothing else,
learning the encoding (which reads the files), writing the encoded rows (which reads them again), and training, with the
count of the decisions at its end; and the peak of anonymous memory, which leaves out mapped files.  100 million rows
take 9 GB of Parquet files and 12 GB of scratch files.  Results are kept in FOLDER/scale.json.

With `--processes`, the groups are spread unevenly: 10% of the rows of every second file are of group b, and 70% of the
others, so that of two processes one has few of them.  The efficiency of P processes is the time of one, divided by P
times the time of each, for training alone: of processor time (summed over the processes), and of wall time.

With `--in-memory`, the time of `ConstrainedClassifier.fit` is divided into that of the solver, that of the forecast for
new rows, which fits a part of the rows again, and the rest: reading and encoding before, and counting after.  Each is
of the fastest of three fits, with one thread.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from fairbound import Training

PART = 500_000
COLUMNS = 10


def write_rows(folder: Path, millions: float, shares: tuple[float, ...] = (0.4,)) -> None:
    """Write planted rows in parts: two groups, of which one has lower inputs; its share differs by part."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    weights = np.random.default_rng(1).normal(size=COLUMNS)
    for part in range(round(millions * 1e6 / PART)):
        path = folder / f"part-{part:05d}.parquet"
        if path.exists():
            continue
        draw = np.random.default_rng([2, part])
        group = draw.random(PART) < shares[part % len(shares)]
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


def measure(folder: str, scratch: str, margin: str | None, send: Any) -> None:
    """Fit to the files of a folder, and send the figures."""
    from fairbound import ConstrainedClassifier
    from fairbound.data import Source, open_batches

    training = Training(forecast=margin is not None)
    classifier = ConstrainedClassifier("disparate_impact >= 0.9", margin=margin, training=training)
    figures: dict[str, Any] = {}
    last = time.process_time(), time.perf_counter()

    def lap(name: str) -> None:
        nonlocal last
        now = time.process_time(), time.perf_counter()
        figures[name], figures[f"{name}, wall"] = now[0] - last[0], now[1] - last[1]
        figures[f"{name}, peak GB"] = watch.peak / 1e9
        last = now

    with MemoryWatch() as watch:
        source = open_batches(folder).learn(words=("label", "group"))
        for _ in source.batches(source.names):
            pass
        lap("reading")
        classifier.fit(Source(folder, scratch=scratch, memory=0), "label", sensitive_features="group")
        lap("fitting")
    record = classifier.result_
    figures |= {
        "solving": record.seconds,
        "rows": record.rows,
        "passes": record.passes,
        "value_passes": record.value_passes,
        "accuracy": record.accuracy,
        "reached": record.limits[0].reached,
        "kept": record.kept,
        "peak": watch.peak,
    }
    send.send(figures)


def work(rank: int, count: int, folder: str, scratch: str, send: Any) -> None:
    """Fit in one of several processes; send the times, and from the first one the parameters and decisions."""
    from datetime import timedelta

    import pyarrow.parquet as pq
    import torch
    import torch.distributed as dist

    from fairbound import ConstrainedClassifier
    from fairbound.data import Source
    from fairbound.training import as_model

    torch.set_num_threads(1)
    group = f"file://{scratch}/group-{count}"
    dist.init_process_group("gloo", init_method=group, rank=rank, world_size=count, timeout=timedelta(minutes=20))
    classifier = ConstrainedClassifier("disparate_impact >= 0.9")
    dist.barrier()
    before = time.process_time(), time.perf_counter()
    classifier.fit(Source(folder, scratch=scratch), "label", sensitive_features="group")
    record = classifier.result_
    figures: dict[str, Any] = {
        "processor": time.process_time() - before[0],
        "wall": time.perf_counter() - before[1],
        "passes": record.passes + record.value_passes,
        "kept": record.kept,
    }
    if rank == 0:
        figures["parameters"] = as_model(classifier.model_).current()
        figures["decisions"] = np.concatenate(
            [classifier.predict(pq.read_table(path)) for path in sorted(Path(folder).glob("*.parquet"))]
        )
    send.send(figures)
    dist.destroy_process_group()


def compare_processes(options: argparse.Namespace) -> None:
    """Fit in one process and in several, in turn, and print the efficiency and the differences.

    The machine may be busy for a while, so each number of processes counts by its quickest turn.
    """
    millions = options.millions[0]
    data = options.folder / f"uneven-{millions:g}"
    write_rows(data, millions, shares=(0.1, 0.7))
    found: dict[int, list[dict[str, Any]]] = {}
    for count in (1, options.processes) * options.turns:
        with tempfile.TemporaryDirectory(dir=options.folder) as scratch:
            pipes = [multiprocessing.Pipe(duplex=False) for _ in range(count)]
            started = [
                multiprocessing.get_context("spawn").Process(target=work, args=(rank, count, str(data), scratch, send))
                for rank, (_, send) in enumerate(pipes)
            ]
            for process in started:
                process.start()
            turn = [receive.recv() for receive, _ in pipes]
            for process in started:
                process.join()
        found[count] = min([turn, found.get(count, turn)], key=lambda ranks: max(each["wall"] for each in ranks))
        for rank, each in enumerate(turn):
            print(
                f"{count} processes, rank {rank}: {each['passes']} passes, "
                f"{each['processor']:.1f} s of processor time, {each['wall']:.1f} s of wall time, kept {each['kept']}"
            )
    (one,), several = found[1], found[options.processes]
    processor = one["processor"] / sum(each["processor"] for each in several)
    wall = one["wall"] / (options.processes * max(each["wall"] for each in several))
    print(f"efficiency: {processor:.2f} of processor time, {wall:.2f} of wall time")
    apart = np.abs(one["parameters"] - several[0]["parameters"]).max()
    others = int((one["decisions"] != several[0]["decisions"]).sum())
    print(f"parameters differ by at most {apart:.1e}; other decisions: {others:,}")


def measure_in_memory(millions: float, limits: str | None, send: Any) -> None:
    """Fit to rows in memory, and send the processor time of the fit, of its solver, and of scikit-learn."""
    from unittest.mock import patch

    import torch
    from sklearn.linear_model import LogisticRegression

    from fairbound import ConstrainedClassifier
    from fairbound.estimator import fitting

    torch.set_num_threads(1)
    draw, rows, columns = np.random.default_rng(3), round(millions * 1e6), 2 * COLUMNS
    group = draw.random(rows) < 0.4
    X = draw.normal(size=(rows, columns)) - 0.3 * group[:, None]
    y = (X @ draw.normal(size=columns) + draw.logistic(size=rows) * 2.0 > 0.3).astype(np.int64)
    groups, spent = np.where(group, "b", "a"), {"solver": 0.0, "forecast": 0.0}

    def timed(name: str, function: Any) -> Any:
        def call(*given: Any, **named: Any) -> Any:
            start = time.process_time()
            found = function(*given, **named)
            spent[name] += time.process_time() - start
            return found

        return call

    taken = []
    solver, forecast = timed("solver", fitting.fit), timed("forecast", fitting.Outlook.tighten)
    with patch.object(fitting, "fit", solver), patch.object(fitting.Outlook, "tighten", forecast):
        for _ in range(3):
            spent, start = dict.fromkeys(spent, 0.0), time.process_time()
            model = ConstrainedClassifier(limits or ()).fit(X, y, sensitive_features=groups)
            taken.append((time.process_time() - start, spent))
    theirs = []
    for _ in range(3):
        start = time.process_time()
        LogisticRegression().fit(X, y)
        theirs.append(time.process_time() - start)
    whole, parts = min(taken, key=lambda each: each[0])
    send.send({"whole": whole, **parts, "sklearn": min(theirs), "reached": [x.reached for x in model.result_.limits]})


def compare_in_memory(millions: float) -> None:
    """Print the time of fits to rows in memory, without a limit and with one."""
    print("limit                     fit  solver  forecast    rest  scikit-learn   ratio")
    for limits in (None, "disparate_impact >= 0.9"):
        receive, send = multiprocessing.Pipe(duplex=False)
        given = (millions, limits, send)
        process = multiprocessing.get_context("spawn").Process(target=measure_in_memory, args=given)
        process.start()
        send.close()
        each = receive.recv()
        process.join()
        rest, ratio = each["whole"] - each["solver"] - each["forecast"], each["whole"] / each["sklearn"]
        print(
            f"{limits or 'none':<24} {each['whole']:5.2f}  {each['solver']:6.2f}  {each['forecast']:8.2f}  {rest:6.2f}"
            f"  {each['sklearn']:12.2f}  {ratio:6.1f}  {each['reached']}"
        )


def main() -> None:
    """Write the rows, measure each size, and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("millions", type=float, nargs="+")
    parser.add_argument("--folder", type=Path, default=Path("scale"))
    parser.add_argument("--processes", type=int)
    parser.add_argument("--turns", type=int, default=3, help="with --processes: how often each number is tried")
    parser.add_argument("--in-memory", action="store_true")
    parser.add_argument("--margin", action="store_const", const="auto", help="with a margin and a forecast")
    options = parser.parse_args()
    if options.in_memory:
        compare_in_memory(options.millions[0])
        return
    if options.processes is not None:
        compare_processes(options)
        return
    kept = options.folder / "scale.json"
    results = json.loads(kept.read_text()) if kept.exists() else {}
    for millions in options.millions:
        data = options.folder / f"rows-{millions:g}"
        write_rows(data, millions)
        scratch = options.folder / "scratch"
        scratch.mkdir(exist_ok=True)
        receive, send = multiprocessing.Pipe(duplex=False)
        given = str(data), str(scratch), options.margin, send
        process = multiprocessing.get_context("spawn").Process(target=measure, args=given)
        process.start()
        send.close()
        try:
            results[f"{millions:g}{' margin' if options.margin else ''}"] = receive.recv()
        finally:
            process.join()
            for each in scratch.rglob("*"):
                if each.is_file():
                    each.unlink()
            for each in scratch.iterdir():
                each.rmdir()
        kept.write_text(json.dumps(results, indent=1))
    stages = ("reading", "fitting")
    heads = "  ".join(f"{stage:>9}" for stage in stages)
    print(f"millions        {heads}   s per million, wall time  passes  peak GB  kept")
    for millions, found in sorted(results.items(), key=lambda item: float(item[0].split()[0])):
        each = [1e6 * found[stage] / found["rows"] for stage in stages[1:]]
        wall = sum(found[f"{stage}, wall"] for stage in stages[1:])
        print(
            f"{millions:<14}  "
            + "  ".join(f"{found[stage]:9.1f}" for stage in stages)
            + f"   {sum(each):13.2f}, {wall:9.1f}  {found['passes'] + found['value_passes']:6d}  "
            + f"{found['peak'] / 1e9:7.2f}  {found['reached']:.4f} {found['kept']}"
        )


if __name__ == "__main__":
    main()
