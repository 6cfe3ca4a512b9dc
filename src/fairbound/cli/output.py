"""The output of a command: tables or one JSON object, progress, the standard streams, and its files and folders.

Standard output contains only the result.  Progress goes to standard error: a changing line on a terminal, one line per
stage elsewhere.  Colours follow NO_COLOR and the terminal.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from fairbound._errors import Message, render
from fairbound._escapes import escaped_json, visible
from fairbound._files import draft_beside, existing_file, fresh_folder, publish
from fairbound._words import did_you_mean
from fairbound.cli.endings import Terminated
from fairbound.cli.names import option_name

if TYPE_CHECKING:
    from rich.console import Console

    from fairbound._text_tables import TextTable

STYLES = {
    "kept": "green",
    "PASS": "green",
    "NOT KEPT": "bold red",
    "FAIL": "bold red",
    "INCONCLUSIVE": "yellow",
    "NOT CERTIFIABLE": "yellow",
}


@dataclass
class Output:
    """The output of a command.

    Parameters
    ----------
    json : bool
        Print one JSON object instead of tables.
    quiet : bool
        Print neither tables nor progress.
    """

    json: bool = False
    quiet: bool = False
    command: str = ""  # as it was given
    _status: Any = field(default=None, init=False, repr=False)

    @property
    def silent(self) -> bool:
        """Whether no text and no tables are printed."""
        return self.json or self.quiet

    def console(self, *, error: bool = False, width: int | None = None) -> Console:
        """Return a console on standard output, or on standard error."""
        from rich.console import Console

        stream = sys.stderr if error else sys.stdout
        return Console(file=stream, highlight=False, markup=False, emoji=False, width=width)

    def text(self, text: str = "", style: str = "") -> None:
        """Print text without markup or line breaks of its own; control characters are shown as escapes."""
        if not self.silent:
            from rich.text import Text

            with _standard_output():
                shown = visible(render(text, option_name), keep="\n")
                self.console().print(Text(shown, style=style), soft_wrap=True)

    def notes(self, notes: Iterable[str]) -> None:
        """Print notes, a line for each."""
        for note in notes:
            self.text(f"Note: {note}")

    def tables(self, *tables: TextTable) -> None:
        """Print tables with aligned columns, and an empty line between two."""
        if self.silent:
            return
        from rich.table import Table
        from rich.text import Text

        console = self.console(width=10_000)
        for number, each in enumerate(tables):
            grid = Table(box=None, padding=(0, 0, 0, 2), header_style="dim")
            for place, name in enumerate(each.header):
                grid.add_column(Text(visible(name)), justify="left" if place < each.left else "right", no_wrap=True)
            for row in each.rows:
                grid.add_row(*(Text(visible(cell), style=STYLES.get(cell, "")) for cell in row))
            with console.capture() as lines:
                console.print(grid)
            shown = re.sub(r" +((?:\x1b\[0m)?)$", r"\1", lines.get(), flags=re.MULTILINE)
            self.text(f"\n{each.title}" if number else each.title, style="bold")
            with _standard_output():
                console.file.write(shown)
                console.file.flush()

    def result(self, content: Mapping[str, Any]) -> None:
        """Print the JSON object, with `--json`."""
        if self.json:
            content = _with_options(content)
            text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
            try:
                text.encode(sys.stdout.encoding or "utf-8")
            except UnicodeEncodeError:  # JSON escapes characters that the encoding lacks
                text = json.dumps(content, indent=2, allow_nan=False)
            with _standard_output():
                sys.stdout.write(f"{escaped_json(text)}\n")
                sys.stdout.flush()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Show that a stage is running."""
        if self.quiet:
            yield
            return
        console, name = self.console(error=True), visible(name)
        if not console.is_terminal:
            console.file.write(f"{name} ...\n")
            console.file.flush()
            yield
            return
        with console.status(name) as status:
            self._status = status
            try:
                yield
            finally:
                self._status = None

    def rows(self, name: str, done: int, total: int) -> None:
        """Show the number of rows that a pass has read; `total` is 0 if it is not known."""
        self.update(f"{name}: {done:,}{f' of {total:,}' if total else ''} rows")

    def update(self, text: str) -> None:
        """Show the progress of the stage on a terminal."""
        if self._status is not None:
            self._status.update(visible(text))


def _with_options(value: Any) -> Any:
    """Return a value for JSON, with the arguments in its messages shown as options."""
    if isinstance(value, Mapping):
        return {name: _with_options(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_with_options(entry) for entry in value]
    return value.render(option_name) if isinstance(value, Message) else value


@contextmanager
def _standard_output() -> Iterator[None]:
    """If writing to standard output fails, for example on a full disk, name it in the error."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, "standard output") from error


@contextmanager
def settled_streams() -> Iterator[None]:
    r"""Prepare the standard streams, and settle them at the end.

    A character that the encoding lacks is shown by its number, as in \xe9.  A stream that cannot be written leads
    nowhere from then on, so that the exit code is that of the error.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # the process was started with it closed
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
        if hasattr(getattr(sys, name), "reconfigure"):
            getattr(sys, name).reconfigure(errors="backslashreplace")
    try:
        yield
        with _standard_output():
            sys.stdout.flush()
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:
                with open(os.devnull, "w", encoding="utf-8") as nowhere:
                    os.dup2(nowhere.fileno(), stream.fileno())


class Interruptible:
    """A context that only records the first Ctrl-C or SIGTERM.  A callback of training reads it with `asked`.

    >>> with Interruptible() as interrupt:
    ...     interrupt.asked({"phase": "free"})
    False
    """

    def __init__(self, said: str = "Stopping at the next step") -> None:
        self.number: int | None = None
        self.said = said
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interruptible:
        # Only the main thread can handle signals; elsewhere an interrupt works as usual.
        if threading.current_thread() is threading.main_thread():
            self._before = {each: signal.signal(each, self._note) for each in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def asked(self, row: dict[str, Any]) -> bool:  # noqa: ARG002  # the form of a callback of training
        """Return whether training must end."""
        return self.number is not None

    @property
    def exception(self) -> KeyboardInterrupt:
        """The exception that corresponds to the signal."""
        return Terminated() if self.number == signal.SIGTERM else KeyboardInterrupt()

    @property
    def word(self) -> str:
        """One word for the effect of the signal on the run."""
        return "Terminated" if self.number == signal.SIGTERM else "Interrupted"

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.number is not None:
            before = self._before[number]
            if callable(before):
                before(number, frame)
            raise KeyboardInterrupt
        self.number = number
        again = "press Ctrl-C again to leave at once" if number == signal.SIGINT else "a second signal ends it at once"
        with suppress(RuntimeError):  # "reentrant call": the signal came in the middle of another line to stderr
            sys.stderr.write(f"\nfairbound: {self.said}; {again}.\n")
            sys.stderr.flush()


@contextmanager
def finishing(output: Output) -> Iterator[None]:
    """Show that a run is being evaluated and written; the first Ctrl-C does not stop that."""
    with output.stage("Evaluating and writing the report"), Interruptible("Writing what is finished"):
        yield


def existing_rows(path: str) -> None:
    """Raise an error unless a file, or a folder of Parquet files, exists."""
    if not (Path(path).is_dir() and any(Path(path).rglob("*.parquet"))):
        existing_file(path)


def check_source(source: str) -> None:
    """Raise an error if a file does not exist, before slow imports; a bare word may name a data set."""
    path = Path(source)
    if path.is_file() or path.suffix or len(path.parts) > 1:
        existing_rows(source)


def existing_run(path: str) -> Path:
    """Return the folder of a run, or a file in it; the error for one that does not exist offers the nearest name."""
    run = Path(path)
    if not run.exists():
        beside = [each.name for each in run.parent.iterdir()] if run.parent.is_dir() else []
        raise FileNotFoundError(f"There is no folder {path}.{did_you_mean(run.name, beside)}")
    return run


def load_model(path: str, *, numbers: bool = False) -> Any:
    """Read a classifier, or with `numbers` a regression, too, from the folder of a run, or from its own folder."""
    from fairbound import load
    from fairbound.studies import MODEL_FOLDER

    folder = existing_run(path)
    inner = folder / MODEL_FOLDER
    found = load(inner if inner.is_dir() else file_of_run(path, "model.json", "train").parent)
    if not (numbers or hasattr(found, "classes_")):
        raise ValueError(f"{path} predicts numbers, and this command needs decisions; give a classifier.")
    return found


def file_of_run(run: str, name: str, command: str) -> Path:
    """Return the file of this name in the folder of a run, or the file that is given itself."""
    folder = existing_run(run)
    path = folder / name if folder.is_dir() else folder
    if not path.is_file():
        raise FileNotFoundError(f"{run} has no {name}; give a folder that {command} has written.")
    return path


def refuse_existing(path: Path, option: str = "--out") -> None:
    """Raise an error if the output exists already."""
    if path.exists() or path.is_symlink():
        raise FileExistsError(f"{path} exists already ({option}); name another place, or remove it first.")


@contextmanager
def out_folder(path: str | os.PathLike[str], *, replace: bool = False) -> Iterator[Path]:
    """Yield a folder to fill, which appears at `path`; with `replace`, the files of a study there are replaced."""
    from fairbound.studies import STUDY_FILES

    final = Path(path)
    if not replace:
        refuse_existing(final)
    with fresh_folder(final, f"{final} (--out)", replace=replace, ours=STUDY_FILES) as folder:
        yield folder


@contextmanager
def out_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a file to write, which appears at `path` if all goes well."""
    final = Path(path)
    refuse_existing(final)
    with draft_beside(final, f"{final} (--out)") as draft:
        yield draft / final.name
        publish(draft / final.name, final)
