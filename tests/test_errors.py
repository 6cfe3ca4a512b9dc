"""Messages keep their arguments as parts: Python and the command line each show their own names, and change no text."""

from __future__ import annotations

import ast
import copy
import pickle
import re
import warnings
from pathlib import Path
from string import Formatter

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fairbound
from fairbound._errors import InputError, InputTypeError, Message, argument, bad_value, message_of, python_name, render
from fairbound.cli.endings import sentence_of
from fairbound.cli.names import OPTIONS, option_name
from fairbound.cli.program import make_program
from fairbound.data import read_table

make_program()  # the commands enter their options
PACKAGE = Path(fairbound.__file__).parent
ARGUMENT = re.compile(r"\b[a-z_]+=")
OPTION = re.compile(r"--[a-z]")
VALUES = ("yes", "Yes.", "it's", "", ["a", "b c"], ("x",), 0.9, 3, True, None)
FLAGS = {
    ("download", False): "--no-download",
    ("drop_unlabelled", True): "--drop-unlabelled",
    ("groups.no_group_worse", True): "--no-group-worse",
}


@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_both_renderings_of_an_argument_are_well_formed(name):
    for value in ((), *((value,) for value in VALUES)):
        mentioned = argument(name, *value)
        for error in (
            InputError("{mentioned} cannot be used.", "Leave it out.", mentioned=mentioned),
            InputError("Leave out {mentioned}.", mentioned=Message("{mentioned}", mentioned=mentioned)),
        ):
            assert python_name(name, *value) in str(error)
            assert not OPTION.search(str(error))
            assert f"{OPTIONS[name]}" in sentence_of(error)
            assert not ARGUMENT.search(sentence_of(error))
            assert error.arguments == (name,)


@pytest.mark.parametrize(("name", "value"), FLAGS)
def test_flags_stand_for_an_argument_with_its_value(name, value):
    error = InputError("{mentioned} forbids it.", mentioned=argument(name, value))
    assert str(error) == f"{python_name(name, value)} forbids it."
    assert sentence_of(error) == f"{FLAGS[name, value]} forbids it."


def test_every_option_exists():
    from typer.main import get_command

    from fairbound.cli.program import make_program

    def options(command):
        yield from (name for each in command.params for name in each.opts)
        for inner in getattr(command, "commands", {}).values():
            yield from options(inner)

    assert {*OPTIONS.values(), *FLAGS.values()} <= set(options(get_command(make_program())))


def test_an_argument_that_the_command_line_lacks_is_named_in_words():
    error = InputError("{warm_start=True} does not work with {confidence=}.")
    assert str(error) == "warm_start=True does not work with confidence=."
    assert sentence_of(error) == "warm start True does not work with --confidence."


@given(text=st.text(st.sampled_from("target=positive='[]{}()!:. -\n%s"), max_size=30))
def test_the_text_of_the_user_is_never_changed(text):
    error = InputError(
        "{text} of {text!r} is not {value}; see {target=}.", text=text, value=Message("{text}", text=text)
    )
    assert str(error) == f"{text} of {text!r} is not {text}; see target=."
    assert render(error, option_name) == f"{text} of {text!r} is not {text}; see --target."


@pytest.mark.parametrize(
    "column", ["target=", "positive='yes'", "{target=}", "test_size is 2", "download=False", "--x"]
)
def test_a_column_may_be_called_like_an_argument(column, tmp_path):
    path = tmp_path / "loans.csv"
    path.write_text(f'a,"{column}"\n1,\n2,\n')
    with pytest.raises(InputError) as caught:
        read_table(path, target="a", positive="1")
    assert f"Column {column!r} of loans.csv" in str(caught.value)
    assert f"Column {column!r} of loans.csv" in sentence_of(caught.value)
    assert caught.value.facts["column"] == column
    assert "ignore=" in caught.value.remedy
    assert "--ignore" in sentence_of(caught.value)


def test_a_value_is_shown_as_one_would_type_it():
    assert option_name("positive", ["yes", "it's"]) == """--positive 'yes' --positive 'it'"'"'s'"""
    assert option_name("ignore", [""]) == "--ignore ''"
    assert option_name("test_size", 0.9) == "--test 0.9"


def test_a_message_in_an_error_of_another_kind_or_a_warning_keeps_its_parts():
    message = Message("name the folder with {data_dir=}")
    outer = FileNotFoundError(
        Message("{reason}, or {message}", reason=OSError(Message("{download=False}")), message=message)
    )
    assert str(outer) == "download=False, or name the folder with data_dir="
    assert render(outer, option_name) == "--no-download, or name the folder with --data-dir"
    with pytest.warns(UserWarning, match="data_dir=") as caught:
        warnings.warn(UserWarning(message), stacklevel=1)
    assert render(caught[0].message, option_name) == "name the folder with --data-dir"
    assert message_of(ValueError("a", "b")) == "('a', 'b')"


@pytest.mark.parametrize("kind", [InputError, InputTypeError])
def test_errors_travel_between_processes(kind):
    error = kind("{sensitive=value} must be text, not {kind}.", "See {target=}.", value=[3], kind="a number")
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(other) is kind
        assert str(other) == str(error)
        assert (other.facts, other.arguments) == (error.facts, ("sensitive", "target"))
        assert sentence_of(other) == "--sensitive 3 must be text, not a number. See --target."
    message = pickle.loads(pickle.dumps(Message("{target=}")))
    assert message.render(option_name) == "--target"


def test_parts_of_an_error():
    error = bad_value("confidence", 2, "below 1", "Leave out {confidence=}.")
    assert isinstance(error, ValueError)
    assert isinstance(InputTypeError("{target=}"), TypeError)
    assert (error.arguments, error.facts["value"], error.facts["allowed"]) == (("confidence",), 2, "below 1")
    assert error.remedy == "Leave out confidence=."
    assert str(error.with_facts(allowed="above 0")) == "confidence=2 must be above 0. Leave out confidence=."


def templates() -> list[tuple[str, list[ast.expr], set[str]]]:
    """Return the templates in the source, with the names of their facts."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name)):
                continue
            if call.func.id in ("InputError", "InputTypeError", "Message") and path.name != "_errors.py":
                place = f"{path.relative_to(PACKAGE)}:{call.lineno}"
                found.append((place, call.args, {each.arg for each in call.keywords}))
    return found


def test_every_template_in_the_source_has_its_facts():
    checked = 0
    for place, parts, facts in templates():
        for part in parts:
            if not (isinstance(part, ast.Constant) and isinstance(part.value, str)):
                assert isinstance(part, ast.Name), f"{place}: a template is fixed text; what varies is a fact"
                continue
            checked += 1
            assert not OPTION.search(part.value), f"{place} names an option"
            for _, field, _, _ in Formatter().parse(part.value):
                name, sign, value = (field or "").partition("=")
                needed = value if sign else name
                literal = sign and (not value or not value.isidentifier() or value in ("True", "False", "None"))
                assert literal or not needed or needed in facts, f"{place}: {field} has no fact"
    assert checked > 50
