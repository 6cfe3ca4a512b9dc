"""The output of a command: tables or one JSON object, progress, the standard streams, and its files and folders.

Standard output contains only the result.  Progress goes to standard error: a changing line on a terminal, one line per
stage elsewhere.  Colours follow NO_COLOR and the terminal.
"""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from fairbound._errors import Message, render
from fairbound._files import CONTENT, draft_beside, existing_file, publish, resolved
from fairbound._words import did_you_mean, escaped_json, visible
from fairbound.cli.program import CLOSED_PIPE, Terminated, option_name

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status

    from fairbound.estimator import ConstrainedClassifier

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
    _status: Status | None = field(default=None, init=False, repr=False)

    @property
    def silent(self) -> bool:
        """Whether no text and no tables are printed."""
        return self.json or self.quiet

    def console(self, *, error: bool = False) -> Console:
        """Return a console on standard output, or on standard error."""
        from rich.console import Console

        return Console(file=sys.stderr if error else sys.stdout, highlight=False, markup=False, emoji=False)

    def text(self, text: str = "", style: str = "") -> None:
        """Print text without markup or line breaks of its own; control characters are shown as escapes."""
        if not self.silent:
            from rich.text import Text

            with _standard_output():
                shown = visible(render(text, option_name), keep="\n")
                self.console().print(Text(shown, style=style), soft_wrap=True)

    def table(self, title: str, header: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> None:
        """Print a table with aligned columns; its first `left` columns are words, the others numbers."""
        if self.silent:
            return
        from rich.cells import cell_len
        from rich.text import Text

        lines = [tuple(map(visible, line)) for line in (header, *rows)]
        widths = [max(cell_len(line[place]) for line in lines) for place in range(len(header))]
        written = Text().append(visible(title), style="bold")
        for number, line in enumerate(lines):
            text = Text("\n ", style="dim" if number == 0 else "")
            for place, (cell, width) in enumerate(zip(line, widths, strict=True)):
                gap = " " * (width - cell_len(cell))
                text.append(" " if place == 0 else "  ")
                if place >= left:
                    text.append(gap)
                text.append(cell, style=STYLES.get(cell, "") if number else "")
                if place < left:
                    text.append(gap)
            text.rstrip()
            written.append_text(text)
        with _standard_output():
            self.console().print(written, soft_wrap=True)

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


# --- standard streams and Ctrl-C -------------------------------------------------------------------------------------

# * If the reader of a pipe closes it (`fairbound ... | head -1`), the program ends with the exit code for a closed
#   pipe, whichever library was writing.  rich and click would end with 1, which means that a limit is not kept.
# * A character that the encoding lacks is shown by its number, as in \xe9, so that printing never fails.
# * The first Ctrl-C or SIGTERM ends training at the next step with the best model found, and does not stop writing.
#   The second one ends the program at once.


class _Descriptor(io.FileIO):
    """The lowest layer of a stream, through which every byte of the process passes."""

    def __init__(self, descriptor: int, name: str) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self._said, self._gone = name, False

    def write(self, data: Any, /) -> int:
        """Write, or end the program; further output is dropped."""
        if self._gone:
            return len(data)
        try:
            return super().write(data)
        except BrokenPipeError:
            self._gone = True
            raise SystemExit(CLOSED_PIPE) from None
        except OSError as error:
            self._gone = True
            raise OSError(error.errno, error.strerror, self._said) from None


@contextmanager
def guarded_streams() -> Iterator[None]:
    """Replace the two streams within the context; flush them at its end."""
    before = sys.stdout, sys.stderr
    sys.stdout = _guarded(sys.stdout, "standard output")
    sys.stderr = _guarded(sys.stderr, "standard error")
    try:
        yield
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            sys.stdout, sys.stderr = before


def _guarded(stream: Any, name: str) -> Any:
    if stream is None:  # the process was started with it closed
        return open(os.devnull, "w", encoding="utf-8")  # it lives as long as the process
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError, AttributeError):
        return stream  # a notebook or a test has put something else there
    stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(_Descriptor(descriptor, name)),
        encoding=stream.encoding,
        errors="backslashreplace",
        line_buffering=stream.line_buffering,
    )


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


# --- files and folders -----------------------------------------------------------------------------------------------

# Inputs must exist, and an output appears complete or not at all.  Commands check that the output can be written before
# they compute anything.  `fairbound._files` has the mechanism.


def existing_rows(path: str) -> None:
    """Raise an error unless a file, or a folder of Parquet files, exists."""
    if not (Path(path).is_dir() and any(Path(path).rglob("*.parquet"))):
        existing_file(path)


def check_source(source: str, *, folders: bool = False) -> None:
    """Raise an error if a file does not exist, before slow imports; a bare word may name a data set.

    With `folders`, a folder of Parquet files is also accepted.
    """
    path = Path(source)
    if folders and path.is_dir() and any(path.rglob("*.parquet")):
        return
    if path.is_dir():  # a run may have been written to a folder of the same name
        from fairbound.data import DATASETS

        if source in DATASETS:
            return
    if path.exists() or path.suffix or len(path.parts) > 1:
        existing_file(source)


def load_model(path: str) -> ConstrainedClassifier:
    """Read a model from the folder of a run, or from its own folder."""
    folder = Path(path)
    if not folder.is_dir():
        beside = [each.name for each in folder.parent.iterdir() if each.is_dir()] if folder.parent.is_dir() else []
        raise FileNotFoundError(
            f"There is no folder {path}.{did_you_mean(folder.name, beside)} Give the folder that train has written."
        )
    from fairbound import load
    from fairbound.studies import MODEL_FOLDER

    inner = folder / MODEL_FOLDER
    place = inner if inner.is_dir() else folder
    if not (place / "model.json").is_file():
        raise FileNotFoundError(f"{place} has no model.json; give the folder that train has written.")
    return load(place)


def refuse_existing(path: Path, option: str = "--out") -> None:
    """Raise an error if the output exists already."""
    if path.exists() or path.is_symlink():
        raise FileExistsError(f"{path} exists already ({option}); name another place, or remove it first.")


@contextmanager
def fresh_folder(path: str | os.PathLike[str], *, replace: bool = False) -> Iterator[Path]:
    """Yield a folder to fill.  It appears at `path` if all goes well, and is removed otherwise.

    With `replace`, the files of a study in a folder that is there are replaced; all others stay.
    """
    from fairbound.studies import STUDY_FILES

    final = Path(path)
    if not replace:
        refuse_existing(final)
    with draft_beside(final, f"{final} (--out)") as draft:
        folder = draft / CONTENT
        folder.mkdir()
        yield folder
        if not replace:
            refuse_existing(final)  # it may have been created meanwhile
        publish(folder, final, replace=replace, ours=STUDY_FILES)


@contextmanager
def fresh_file(path: str | os.PathLike[str], *, replace: bool = False) -> Iterator[Path]:
    """Yield a file to write.  It appears at `path` if all goes well; `replace` allows to replace a file."""
    final = Path(path)
    if not replace:
        refuse_existing(final)
    elif final.is_dir():
        raise IsADirectoryError(f"{final} is a folder (--out); give the path of a file.")
    final = resolved(final)
    with draft_beside(final, f"{final} (--out)") as draft:
        file = draft / final.name
        yield file
        if not replace:
            refuse_existing(final)
        publish(file, final, replace=replace)
