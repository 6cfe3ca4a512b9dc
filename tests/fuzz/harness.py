"""The fuzz suite: random input on every surface, judged by an independent recomputation.

Each surface has a test file, and each test a function of one case.  `make test` runs a bounded share of the cases and
`make test-slow` 100,000 of them.  The cases are numbered, and a number always draws the same case, so a red run comes
from a change and not from the draw.

More cases     FAIRBOUND_FUZZ_CASES=1000000 make test-slow PYTEST_ARGS=tests/fuzz      (the surfaces keep their shares)
Other cases    FAIRBOUND_FUZZ_SEED=7 ...
One case       FAIRBOUND_FUZZ_ONLY=audit:0:123 .venv/bin/python -m pytest tests/fuzz/test_audit.py
               (surface, seed and number, as a failure prints them)

A case fails if

* it raises anything but a `ValueError`, `TypeError`, `OSError` or `ImportError` with a message, raised on purpose: by a
  `raise` statement of fairbound, or of scikit-learn's own validation where the estimator follows its contract;
* it warns of anything but what is documented (`LimitWarning`);
* it does not end;
* a result holds a NaN, or differs from the recomputation (`oracle`).

`generators` has what is drawn: rows, labels, groups, weights and limits; `files` writes tables as CSV and Parquet.
"""

from __future__ import annotations

import dis
import os
import signal
import traceback
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import numpy as np
import pytest
import sklearn

import fairbound

TOTAL = 100_000
"""Cases of all surfaces together that `make test-slow` runs; the numbers given to `cases` add up to it."""

PARTS = 4
SHOWN = 8
"""Failures that are collected before a test gives up, one of each cause."""

EXPECTED = (ValueError, TypeError, OSError, ImportError)
PACKAGE = Path(fairbound.__file__).parent
VALIDATION = Path(sklearn.__file__).parent / "utils"

CPU_SECONDS, WALL_SECONDS = 30.0, 300.0
"""When a case counts as a hang: far beyond what any of them takes, also on a busy machine."""


class WrongError(AssertionError):
    """A result that differs from the recomputation, or that nobody should see."""


class Hang(BaseException):
    """A case that does not end."""


@dataclass(frozen=True)
class Cases:
    """The numbers of the cases of one surface that one test runs."""

    surface: str
    numbers: range

    def run(self, case: Callable[[np.random.Generator], None]) -> None:
        """Run every case; fail with one example of each cause."""
        seed, numbers = int(os.environ.get("FAIRBOUND_FUZZ_SEED", "0")), self.numbers
        only = os.environ.get("FAIRBOUND_FUZZ_ONLY")
        if only is not None:
            surface, wanted, number = only.split(":")
            if surface != self.surface:
                pytest.skip(f"FAIRBOUND_FUZZ_ONLY names a case of {surface}")
            seed, numbers = int(wanted), range(int(number), int(number) + 1)
        found: dict[str, tuple[str, list[int]]] = {}
        for number in numbers:
            rng = np.random.default_rng([zlib.crc32(self.surface.encode()), seed, number])
            cause, report = _judge(case, rng)
            if cause:
                found.setdefault(cause, (report, []))[1].append(number)
                if len(found) >= SHOWN:
                    break
        if found:
            lines = [
                f"{len(places)} of {len(numbers)} cases, first "
                f"FAIRBOUND_FUZZ_ONLY={self.surface}:{seed}:{places[0]}\n{report}"
                for report, places in found.values()
            ]
            pytest.fail("\n\n".join(lines), pytrace=False)


def cases(surface: str, few: int, many: int) -> pytest.MarkDecorator:
    """Parametrize a test by its cases: `few` in `make test`, and `many` other ones in `make test-slow`, in parts."""
    wanted = os.environ.get("FAIRBOUND_FUZZ_CASES")
    many = many if wanted is None else max(1, round(many * int(wanted) / TOTAL))
    edges = np.linspace(few, few + many, PARTS + 1).astype(int).tolist()
    slow = [
        pytest.param(Cases(surface, range(*edges[part : part + 2])), id=f"part-{part + 1}", marks=pytest.mark.slow)
        for part in range(PARTS)
    ]
    return pytest.mark.parametrize("cases", [pytest.param(Cases(surface, range(few)), id="share"), *slow])


def _judge(case: Callable[[np.random.Generator], None], rng: np.random.Generator) -> tuple[str, str]:
    """Run one case; return the cause of its failure, by which failures are grouped, and a report, or nothing."""
    try:
        with _alarm(), warnings.catch_warnings():
            warnings.simplefilter("error")
            case(rng)
    except WrongError as error:
        where = traceback.extract_tb(error.__traceback__)[1]
        return f"{where.filename}:{where.lineno}", f"wrong: {error}"
    except (Exception, Hang) as error:  # noqa: BLE001  # whatever a case raises is what is looked for
        last = traceback.extract_tb(error.__traceback__)[-1]
        cause = f"{type(error).__name__} {last.filename}:{last.lineno}"
        return cause, "".join(traceback.format_exception(error, limit=-5, chain=False))
    return "", ""


@contextmanager
def _alarm() -> Iterator[None]:
    """Raise `Hang` in what takes too long, by the processor's clock or by that on the wall."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise Hang(f"no end after {CPU_SECONDS:g} s of work or {WALL_SECONDS:g} s of waiting")

    timers = ((signal.SIGPROF, signal.ITIMER_PROF, CPU_SECONDS), (signal.SIGALRM, signal.ITIMER_REAL, WALL_SECONDS))
    before = [signal.signal(number, ring) for number, _, _ in timers]
    try:
        for _, timer, seconds in timers:
            signal.setitimer(timer, seconds)
        yield
    finally:
        for (number, timer, _), handler in zip(timers, before, strict=True):
            signal.setitimer(timer, 0.0)
            signal.signal(number, handler)


def attempt(function: Callable[..., Any], *arguments: Any, sklearn_too: bool = False, **options: Any) -> Any:
    """Return what a call returns, or the error with which it was refused as it should be; raise any other error."""
    try:
        return function(*arguments, **options)
    except EXPECTED as error:
        check_refusal(error, sklearn_too=sklearn_too)
        return Refused(str(error))


@dataclass(frozen=True)
class Refused:
    """The sentence with which a call was refused."""

    sentence: str


def check_refusal(error: BaseException, *, sklearn_too: bool = False) -> None:
    """Raise the error again unless it is one of ours: of an expected kind, with a message, and raised on purpose."""
    of_the_system = isinstance(error, OSError) and error.errno is not None  # such as a name that is too long
    said = isinstance(error, EXPECTED) and str(error).strip()
    if not said or not (of_the_system or _on_purpose(error.__traceback__, sklearn_too)):
        raise error


def _on_purpose(trace: TracebackType | None, sklearn_too: bool) -> bool:
    """Tell whether the innermost frame is fairbound's and stands at a `raise`: `float("x")` there would be raw."""
    assert trace is not None
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    place = Path(code.co_filename)
    ours = place.is_relative_to(PACKAGE) or (sklearn_too and place.is_relative_to(VALIDATION))
    return ours and code.co_code[trace.tb_lasti] == dis.opmap["RAISE_VARARGS"]


def expect(truth: bool, *said: object) -> None:
    """Fail the case unless it is true; the words say what differs."""
    if not truth:
        raise WrongError(" ".join(str(each) for each in said))


def expect_close(found: Any, wanted: Any, *said: object, tolerance: float = 1e-9) -> None:
    """Fail the case unless two numbers agree, or both are None."""
    if found is None or wanted is None:
        expect(found is None and wanted is None, *said, "is", found, "and not", wanted)
        return
    expect(found == found, *said, "is NaN")
    same = found == wanted or abs(found - wanted) <= tolerance * max(1.0, abs(wanted))
    expect(bool(same), *said, "is", repr(found), "and not", repr(wanted))
