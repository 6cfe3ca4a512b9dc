"""Names of arguments of the library as options of the command line."""

from __future__ import annotations

import shlex
from typing import Any

OPTIONS: dict[str, str] = {}
"""The option for each argument that commands have; they enter it."""

OTHERS = {
    "choosing_size": "--choosing",
    "final_size": "--final",
    "form": "--format",
    "groups.min_size": "--min-group-size",
    "groups.small": "--small-groups",
    "jobs": "--jobs -j",
    "limits": "--require --limit",
    "listed": "--list",
    "loss.regularizers": "--regularizer",
    "measures": "--measure",
    "out": "--out -o",
    "quiet": "--quiet -q",
    "surrogates": "--surrogate",
    "training": "--epochs",
}
"""Options that are not called as the argument."""

SYNONYMS = {
    **dict.fromkeys(("by", "sensitive_columns", "sensitive_features"), "sensitive"),
    "base": "model",
    "constraints": "require",
    "pos_label": "positive",
    "sample_weight": "weight",
    "test_size": "test",
    "y": "target",
}
"""Arguments of the library whose values come from the option of another argument."""


def names_of(argument: str) -> list[str]:
    """Return the names of the option of an argument, the long one first."""
    return OTHERS.get(argument, f"--{argument.rpartition('.')[2].replace('_', '-')}").split()


def option_name(argument: str, *value: Any) -> str:
    """Return an argument of the library as the option that a user types.

    >>> from fairbound.cli.program import make_program
    >>> program = make_program()
    >>> option_name("target"), option_name("test_size", 0.9), option_name("positive", ["yes", "Yes."])
    ('--target', '--test 0.9', "--positive 'yes' --positive 'Yes.'")
    >>> option_name("drop_unlabelled", True), option_name("download", False)
    ('--drop-unlabelled', '--no-download')
    """
    flag = f"no_{argument}" if value[:1] == (False,) else argument
    option = OPTIONS.get(flag) or OPTIONS.get(SYNONYMS.get(argument, argument))
    if option is None:  # the command sets this argument itself
        return argument.replace("_", " ") + "".join(f" {each}" for each in value)
    if not value or isinstance(value[0], bool):
        return option
    several = value[0] if isinstance(value[0], list | tuple) else value
    return " ".join(f"{option} {_typed(each)}" for each in several)


def _typed(value: Any) -> str:
    """Return a value as a user types it.  Text is always quoted, because a full stop may follow it."""
    if isinstance(value, dict):  # bands: the name of a column and its cuts
        return " ".join(f"{name} {','.join(map(str, cuts))}" for name, cuts in value.items())
    if not isinstance(value, str):
        return str(value)
    safe = shlex.quote(value)
    return f"'{value}'" if safe == value else safe
