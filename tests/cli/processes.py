"""The program as a process of its own: started, stopped at some moment, and what is left of it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairbound.cli import main


def environment(**settings: str) -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "NO_COLOR": "1", **settings}


def start(arguments: Sequence[Any], folder: Path, *, program: str = "", **settings: Any) -> subprocess.Popen[bytes]:
    """Start the program in a folder, or another one that calls it."""
    what = ["-c", program] if program else ["-m", "fairbound"]
    command = [sys.executable, *what, *map(os.fspath, arguments)]
    options: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": environment(), **settings}
    return subprocess.Popen(command, cwd=folder, **options)


def call(arguments: Sequence[Any], folder: Path, **settings: Any) -> subprocess.CompletedProcess[bytes]:
    """Run the program to its end."""
    with start(arguments, folder, **settings) as process:
        stdout, stderr = process.communicate()
    return subprocess.CompletedProcess([], process.returncode, stdout, stderr)


def stopped(arguments: Sequence[Any], folder: Path, number: signal.Signals, seconds: float) -> int:
    """Start the program, send it a signal after some seconds, and return how it ended."""
    with start(arguments, folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(number)
            return process.wait()


def _run(arguments: Sequence[Any], folder: Path) -> None:
    os.chdir(folder)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    code: Any = 70
    try:
        main([str(each) for each in arguments])
    except SystemExit as end:
        code = end.code
    finally:
        os._exit(code if isinstance(code, int) else 70)


def killed(arguments: Sequence[Any], folder: Path, seconds: float = float("inf")) -> int:
    """Run the program in a forked process, kill it after some seconds of processor time, and return how it ended.

    All modules are there, so the moments of the kills are those of the work itself, on a busy machine, too.
    """
    process = multiprocessing.get_context("fork").Process(target=_run, args=(arguments, folder))
    process.start()
    stat = Path(f"/proc/{process.pid}/stat")
    while process.is_alive() and seconds < float("inf"):
        fields = stat.read_text().rpartition(")")[2].split()
        if (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") >= seconds:
            process.kill()
            break
        time.sleep(0.003)
    process.join()
    assert process.exitcode is not None
    return process.exitcode


def wait_for(path: Path, pattern: str, process: subprocess.Popen[bytes]) -> Path:
    """Wait until a process has made something, and return it."""
    while process.poll() is None:
        found = sorted(path.glob(pattern))
        if found:
            return found[0]
        time.sleep(0.005)
    raise AssertionError(f"the process ended with {process.returncode} before there was {pattern}")
