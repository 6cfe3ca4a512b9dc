"""Settings: each is declared once, as a field of a dataclass or a parameter, with its default, check and help.

The check is in the type: a `Literal` lists the choices, `at_least` a least value.  The help is the entry in the section
"Parameters" of the docstring.  Estimator, studies and searches check their settings with `check_settings`; the command
line makes its options from the same declarations.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Iterator
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from fairbound._errors import InputError, argument, bad_value
from fairbound._words import did_you_mean

_ENTRY = re.compile(r"^(\w+) : (.*)\n((?:    .*\n?|\n)*)", re.MULTILINE)


def at_least(least: float, default: Any = MISSING) -> Any:
    """Return the field of a setting with a least value."""
    return field(default=default, metadata={"least": least})


@dataclass(frozen=True)
class Declared:
    """What is declared about a setting: its name, type, default, and what the docstring says."""

    name: str
    kind: Any
    default: Any = MISSING
    least: float | None = None
    shown: str = ""
    help: str = ""

    @property
    def choices(self) -> tuple[Any, ...]:
        """The allowed values, if the type lists them."""
        several = get_args(self.kind) if get_origin(self.kind) in (Union, types.UnionType) else (self.kind,)
        return tuple(value for each in several if get_origin(each) is Literal for value in get_args(each))

    def check(self, value: Any, name: str = "") -> None:
        """Raise an error if a value is none of the choices, or too small."""
        if value is None or value is self.default:
            return
        if self.choices and not (isinstance(value, str | bool) and value in self.choices):
            raise InputError(
                "{given} must be one of {known}.{near}",
                given=argument(name or self.name, value),
                known=", ".join(map(str, self.choices)),
                near=did_you_mean(value, map(str, self.choices)),
            )
        if self.least is not None and not (isinstance(value, int | float) and value >= self.least):
            raise bad_value(name or self.name, value, f"a number of at least {self.least:g}")


def settings_of(declared: Any) -> Iterator[Declared]:
    """Return the settings of a dataclass, or the parameters of a function, in their order."""
    if isinstance(declared, type):
        given = {each.name: each for each in fields(declared)}
        texts = [inspect.cleandoc(vars(each).get("__doc__") or "") for each in reversed(declared.__mro__)]
    else:
        parameters = inspect.signature(declared).parameters
        stated = {name: each.default for name, each in parameters.items()}
        given = {
            name: each
            if isinstance(each, Field)
            else field(default=MISSING if each is inspect.Parameter.empty else each)
            for name, each in stated.items()
        }
        texts = [inspect.getdoc(declared) or ""]
    entries = {name: (shown, " ".join(text.split())) for each in texts for name, shown, text in _ENTRY.findall(each)}
    hints = get_type_hints(declared)
    for name, each in given.items():
        yield Declared(name, hints[name], each.default, each.metadata.get("least"), *entries.get(name, ()))


def check_settings(record: Any, within: str = "") -> None:
    """Check each setting of a dataclass; `within` is the setting that the record belongs to."""
    for each in settings_of(type(record)):
        each.check(getattr(record, each.name), f"{within}.{each.name}" if within else "")
