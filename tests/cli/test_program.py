"""The program as a whole: help, habits of arguments, exit codes, what it imports."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys

import pytest

import fairbound as package
from fairbound.cli import main
from fairbound.cli.endings import Guard, sentence_of
from fairbound.cli.output import Interruptible
from fairbound.cli.program import make_program

COMMANDS = [
    [],
    ["train"],
    ["predict"],
    ["alternatives"],
    ["audit"],
    ["certify"],
    ["monitor"],
    ["frontier"],
    ["report"],
    ["data"],
    ["data", "list"],
    ["data", "describe"],
    ["data", "fetch"],
    ["demo"],
    ["reproduce"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_of_every_command(fairbound, command):
    for flag in ("--help", "-h"):
        shown = fairbound(*command, flag)
        assert shown.code == 0
        assert shown.stderr == ""
        assert shown.stdout.startswith(f"Usage: {' '.join(['fairbound', *command])} ")


@pytest.mark.parametrize(("given", "used"), [(None, "PASSIVE"), ("ACTIVE", "ACTIVE")])
def test_threads_do_not_spin_unless_asked_to(given, used, monkeypatch, capsys):
    monkeypatch.setenv("OMP_WAIT_POLICY", given or "")  # so that it is put back afterwards
    if given is None:
        monkeypatch.delenv("OMP_WAIT_POLICY")
    with pytest.raises(SystemExit):
        main(["--version"])
    assert os.environ["OMP_WAIT_POLICY"] == used


def test_the_list_of_commands_is_complete():
    groups = {group.name: group.typer_instance for group in make_program().registered_groups}
    found = [[command.name] for command in make_program().registered_commands]
    found += [[name, each.name] for name, group in groups.items() for each in group.registered_commands]
    assert sorted(map(str, found)) == sorted(str(command) for command in COMMANDS if command not in ([], ["data"]))


def test_the_version(fairbound):
    assert fairbound("--version").stdout == f"fairbound {package.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["trian"], "No such command 'trian'. Did you mean 'train'? See fairbound --help."),
        (["audit"], "Missing argument 'FILE'"),
        (["audit", "x.csv", "--predicton", "p"], "No such option"),
        (["audit", "x.csv", "--target", "y"], "Missing option '--sensitive'"),
        (["data", "fetch", "acsincome", "--year", "soon"], "Invalid value for '--year'"),
    ],
)
def test_wrong_arguments_are_one_sentence(fairbound, arguments, words):
    refused = fairbound(*arguments)
    assert refused.code == 2
    assert refused.stdout == ""
    assert words in refused.sentence
    assert "--help" in refused.sentence


def test_several_values_of_an_option_in_a_row(fairbound, decisions):
    given = ["--target", "approved", "--prediction", "decision", "--positive", "yes", "--json"]
    row = fairbound("audit", decisions, "--sensitive", "sex", "region", *given)
    repeated = fairbound("audit", decisions, "--sensitive", "sex", "--sensitive=region", *given)
    assert row.code == 0
    assert row.stdout == repeated.stdout
    assert '"region"' in row.stdout


def test_errors_of_the_system_name_the_file():
    assert sentence_of(PermissionError(13, "Permission denied", "a.csv")) == "Cannot use a.csv: permission denied."
    assert sentence_of(ValueError("two\n  lines")) == "two lines."


def test_a_defect_is_not_taken_for_a_limit_that_is_not_kept(capsys):
    with pytest.raises(SystemExit) as ended, Guard():
        {}["missing"]
    assert ended.value.code == 70
    assert "KeyError" in capsys.readouterr().err


def test_an_interrupt_says_that_nothing_was_written(capsys):
    with pytest.raises(SystemExit) as ended, Guard():
        raise KeyboardInterrupt
    assert ended.value.code == 130
    assert capsys.readouterr().err == "fairbound: Interrupted; unfinished output was removed.\n"


def test_a_signal_in_the_middle_of_a_line_to_stderr_is_no_defect(monkeypatch):
    """A write to stderr in a handler raised "reentrant call" if the program was just writing there: exit code 70."""

    class Busy(io.StringIO):
        def flush(self) -> None:
            raise RuntimeError("reentrant call inside <_io.BufferedWriter name=2>")

    with Interruptible() as interrupt:
        monkeypatch.setattr(sys, "stderr", Busy())
        signal.raise_signal(signal.SIGTERM)
        assert interrupt.asked({})
    assert interrupt.word == "Terminated"


def test_the_traceback_can_be_asked_for(capsys, monkeypatch):
    monkeypatch.setenv("FAIRBOUND_TRACEBACK", "1")
    with pytest.raises(SystemExit) as ended, Guard():
        raise ValueError("wrong")
    assert ended.value.code == 2
    assert "Traceback" in capsys.readouterr().err


def run(*arguments: str, **settings) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "NO_COLOR": "1"}
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=environment, check=False, **settings
    )


WHAT_IS_LOADED = """
import sys
from fairbound.cli import main
from fairbound.cli.output import Interruptible
try:
    main(sys.argv[1:])
except SystemExit as ended:
    heavy = {"torch", "sklearn", "scipy", "pandas", "numpy"} & set(sys.modules)
    sys.stderr.write(f"{ended.code} {sorted(heavy)}")
"""


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--help"], 0),
        (["train", "--help"], 0),
        (["--version"], 0),
        (["audit", "--nonsense"], 2),
        (["train", "absent.csv", "--out", "run"], 2),
        (["train", "law", "--out", "."], 2),
        (["data", "describe", "absent.csv"], 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_help_and_wrong_arguments_need_neither_torch_nor_numpy(arguments, code):
    assert run("-c", WHAT_IS_LOADED, *arguments).stderr.endswith(f"{code} []")


def test_data_are_listed_without_torch():
    shown = run("-c", WHAT_IS_LOADED, "data", "list")
    assert shown.returncode == 0
    assert "torch" not in shown.stderr


def test_without_the_extra_one_sentence():
    shown = run("-c", "import sys; sys.modules['typer'] = None; from fairbound.cli import main; main(['--help'])")
    assert (shown.returncode, shown.stdout) == (2, "")
    assert shown.stderr.startswith('fairbound: The command line needs typer and rich: run pip install ".[cli]" in ')


def test_a_reader_that_leaves_early_gets_no_traceback():
    with subprocess.Popen(
        [sys.executable, "-m", "fairbound", "data", "list", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 141


def test_a_signal_before_a_command_has_begun_keeps_its_exit_code():
    def interrupted() -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
        except KeyboardInterrupt as error:  # as typer does
            raise SystemExit(130) from error

    with pytest.raises(SystemExit) as ended, Guard():
        interrupted()
    assert ended.value.code == 143
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.parametrize(
    "given",
    [
        "{file} --sensitive sex age --bands age 25,40 --target y",
        "--sensitive sex age {file} --bands age 25,40 --target y",
        "--bands age 25,40 {file} --sensitive sex age --target y",
        "--sensitive sex age --bands age 25,40 --target y {file}",
        "--bands age 25,40 --sensitive sex age --target=y {file}",
        "--target y {file} --sensitive sex --sensitive age --bands age=25,40",
        "--sensitive sex age --bands age 25,40 --target y -- {file}",
    ],
)
def test_the_file_may_stand_anywhere(fairbound, tmp_path, given):
    rows = ["age,sex,race,y", *(f"{20 + i % 30},{'mf'[i % 2]},{'abc'[i % 3]},{i // 2 % 2}" for i in range(60))]
    (tmp_path / "people.csv").write_text("\n".join(rows))
    found = fairbound("data", "describe", "--json", *given.format(file="people.csv").split())
    assert found.code == 0, found.stderr
    groups = {each["sensitive"]: list(each["groups"]) for each in json.loads(found.stdout)["by"]}
    assert groups == {"sex": ["f", "m"], "age": ["25 to below 40", "40 and above", "below 25"]}
