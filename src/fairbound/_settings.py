"""Settings: each is declared once, as a field of a dataclass or a parameter, with its default, check and help.

The check is in the type: a `Literal` lists the choices, a `Range` says which numbers are allowed.  The help is the
entry in the section "Parameters" of the docstring.  A `Settings` record checks itself.  Estimator, studies and searches
take such records; the command line makes its options from the same declarations.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, MISSING, dataclass, fields, is_dataclass, replace
from functools import cache
from numbers import Integral, Real
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar, Union, get_args, get_origin, get_type_hints

from fairbound._errors import InputError, argument, bad_value
from fairbound._words import did_you_mean

_ENTRY = re.compile(r"^(\w+(?:, \w+)*) : (.*)\n((?:    .*\n?|\n)*)", re.MULTILINE)
_NAMES = {int: "a whole number", float: "a number", bool: "True or False", str: "text"}


@dataclass(frozen=True)
class Range:
    """The numbers that a setting may have."""

    _: KW_ONLY
    least: float | None = None
    above: float | None = None
    most: float | None = None
    below: float | None = None

    def __contains__(self, value: Any) -> bool:
        return (
            (self.least is None or value >= self.least)
            and (self.above is None or value > self.above)
            and (self.most is None or value <= self.most)
            and (self.below is None or value < self.below)
        )

    def __str__(self) -> str:
        words = {"of at least": self.least, "above": self.above, "at most": self.most, "below": self.below}
        return " and ".join(f"{word} {value:g}" for word, value in words.items() if value is not None)


@dataclass(frozen=True)
class Shell:
    """How the command line takes a setting that has another type in Python; without a type it does not take it."""

    kind: Any = None
    shown: str = ""


Count = Annotated[int, Range(least=1)]
Seed = Annotated[int, Range(least=0), Shell(int)]
Share = Annotated[float, Range(above=0, below=1), Shell(float, "SHARE")]
Level = Annotated[float, Range(least=0.5, below=1)]
IN_PYTHON = Shell()


@dataclass(frozen=True)
class Declared:
    """What is declared about a setting: its name, type, default, and what the docstring says.

    The name of a setting in a record within others has a prefix, as in "groups.small".
    """

    name: str
    kind: Any
    default: Any = MISSING
    shown: str = ""
    help: str = ""

    @property
    def _members(self) -> list[tuple[Any, Range | None]]:
        return list(_members(self.kind))

    @property
    def choices(self) -> tuple[Any, ...]:
        """The allowed words, if the type lists them."""
        return tuple(word for kind, _ in self._members if get_origin(kind) is Literal for word in get_args(kind))

    @property
    def record(self) -> type[Settings] | None:
        """The class of the record that this setting is, if it is one."""
        kinds = (kind for kind, _ in self._members)
        return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Settings)), None)

    @property
    def shell(self) -> Shell:
        """How the command line takes the setting."""
        marks = getattr(self.kind, "__metadata__", ())
        plain = [kind for kind, _ in self._members if kind in _NAMES]
        kind = str if self.choices and self.choices != (True, False) else plain[0] if plain else self.kind
        return next((mark for mark in marks if isinstance(mark, Shell)), Shell(kind))

    @property
    def range(self) -> Range:
        """The allowed numbers."""
        return next((each for _, each in self._members if each is not None), Range())

    def check(self, value: Any, name: str = "") -> None:
        """Raise an error if a value is not allowed."""
        name = name or self.name
        if value is self.default or any(_fits(value, *each) for each in self._members):
            return
        allowed = [
            f"{_NAMES.get(kind, getattr(kind, '__name__', kind))} {'' if numbers is None else numbers}".strip()
            for kind, numbers in self._members
            if get_origin(kind) is not Literal and kind is not types.NoneType
        ]
        if self.choices and not allowed:
            raise InputError(
                "{given} must be one of {known}.{near}",
                given=argument(name, value),
                known=", ".join(map(str, self.choices)),
                near=did_you_mean(value, map(str, self.choices)),
            )
        raise bad_value(name, value, " or ".join([*map(str, self.choices), *allowed]))

    def read(self, text: Any) -> Any:
        """Return the text of an option as the number it stands for, if numbers are allowed."""
        kind = next((kind for kind, _ in self._members if kind in (int, float)), None)
        try:
            return text if kind is None or not isinstance(text, str) else kind(text)
        except ValueError:
            return text


def _members(kind: Any, numbers: Range | None = None) -> Iterator[tuple[Any, Range | None]]:
    """Yield the types that a value may have, each with the allowed numbers."""
    if get_origin(kind) is Annotated:
        numbers = next((mark for mark in kind.__metadata__ if isinstance(mark, Range)), numbers)
        yield from _members(get_args(kind)[0], numbers)
    elif get_origin(kind) in (Union, types.UnionType):
        for each in get_args(kind):
            yield from _members(each, numbers)
    else:
        yield kind, numbers


def _fits(value: Any, kind: Any, numbers: Range | None) -> bool:
    if get_origin(kind) is Literal:
        return isinstance(value, str | bool) and value in get_args(kind)
    if kind is Any:
        return True
    if kind is bool:
        return type(value).__name__ in ("bool", "bool_")  # also those of numpy
    if kind in (int, float):
        number = isinstance(value, Integral if kind is int else Real) and not isinstance(value, bool)
        return number and (numbers is None or value in numbers)
    return isinstance(value, get_origin(kind) or kind)


def settings_of(declared: Any) -> Iterator[Declared]:
    """Return the settings of a dataclass, or the parameters of a function, in their order."""
    if is_dataclass(declared):
        given = {each.name: each.default for each in fields(declared) if each.init}
        kinds = getattr(declared, "__mro__", ())
        texts = [inspect.cleandoc(vars(each).get("__doc__") or "") for each in reversed(kinds)]
    else:
        parameters = inspect.signature(declared).parameters
        given = {name: MISSING if each.default is each.empty else each.default for name, each in parameters.items()}
        texts = [inspect.getdoc(declared) or ""]
    entries = {
        name: (shown, " ".join(text.split()))
        for each in texts
        for names, shown, text in _ENTRY.findall(each)
        for name in names.split(", ")
    }
    hints = get_type_hints(declared, include_extras=True)
    for name, default in given.items():
        yield Declared(name, hints[name], default, *entries.get(name, ()))


def declared_settings(kind: Any) -> dict[str, Declared]:
    """Return the settings of a dataclass by name."""
    return _declared(kind)


@cache
def _declared(kind: Any) -> dict[str, Declared]:
    return {each.name: each for each in settings_of(kind)}


def check_settings(record: Any, name_of: Callable[[Declared], str] = lambda each: each.name) -> None:
    """Check each setting of a dataclass."""
    for each in declared_settings(type(record)).values():
        value = getattr(record, each.name)
        if each.record is None:
            each.check(value, name_of(each))
        elif value is not None:
            each.record.of(value)


@dataclass(frozen=True, repr=False)
class Settings:
    """A record of settings: a parameter of an estimator with parameters of its own, as scikit-learn has them.

    In place of a record, a plain value stands for the record with this value in its first field.
    """

    place: ClassVar[str] = ""  # the parameter that the record is

    @classmethod
    def of(cls, value: Any) -> Self:
        """Return a value as a record."""
        return value if isinstance(value, cls) else cls(value)  # type: ignore[call-arg]  # of its first field

    @classmethod
    def full_name(cls, declared: Declared) -> str:
        """Return the name of a setting in messages, as in "groups.small"; the first one has that of the record."""
        first = next(iter(declared_settings(cls)))
        if not cls.place:
            return declared.name
        return cls.place if declared.name == first else f"{cls.place}.{declared.name}"

    def __post_init__(self) -> None:
        for name, declared in declared_settings(type(self)).items():
            if declared.record is not None:
                object.__setattr__(self, name, declared.record.of(getattr(self, name)))
        check_settings(self, self.full_name)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings by name, and with `deep` the parameters of values that have some."""
        found = {name: getattr(self, name) for name in declared_settings(type(self))}
        return {**found, **nested_parameters(found)} if deep else found

    def set_params(self, **params: Any) -> Self:
        """Return the record with some settings changed; the record itself never changes."""
        found = self
        for key, value in params.items():
            name, nested, rest = key.partition("__")
            check_parameter(name, declared_settings(type(self)), self)
            inner = getattr(found, name).set_params(**{rest: value}) if nested else value
            found = replace(found, **{name: inner})
        return found

    def changed(self) -> dict[str, Any]:
        """Return the settings that differ from their default."""
        known = declared_settings(type(self))
        return {name: value for name, value in vars(self).items() if repr(value) != repr(known[name].default)}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.changed().items())})"


def nested_parameters(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of those values that have some, as `base__n_estimators`."""
    return {
        f"{name}__{key}": inner
        for name, value in params.items()
        if hasattr(value, "get_params") and not isinstance(value, type)
        for key, inner in value.get_params().items()
    }


def check_parameter(name: str, known: Iterable[str], owner: Any) -> None:
    """Raise an error for the name of a parameter that the owner does not have."""
    known = list(known)
    if name not in known:
        raise ValueError(
            f"Invalid parameter {name!r} for {type(owner).__name__}: it has {', '.join(known)}."
            f"{did_you_mean(name, known)}"
        )


Function = TypeVar("Function", bound=Callable[..., Any])


def takes(kind: type) -> Callable[[Function], Function]:
    """Return a decorator that gives the signature of a function the settings of a dataclass, for its `**settings`."""

    def decorate(function: Function) -> Function:
        own = inspect.signature(function)
        stated = [each for each in own.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
        further = [
            inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=each.kind)
            for each in settings_of(kind)
            if each.name not in own.parameters
        ]
        signature = own.replace(parameters=[*stated, *further])
        function.__signature__ = signature  # type: ignore[attr-defined]  # `help` and editors read it
        return function

    return decorate
