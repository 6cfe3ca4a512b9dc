"""Messages that name arguments, the errors that carry them, and the warning classes of this package.

Python users write `target="y"`, users of the command line `--target y`.  So a message keeps its arguments as parts, and
the code that shows it chooses their names.  The template of a message has

    {fact}              a value, as in `str.format`; `{fact!r}` and `{fact:,}` work as there
    {target=}           the argument `target`
    {positive=fact}     the argument with a value
    {download=False}    the argument with a fixed value, any Python literal

Only the template is searched for arguments.  Text of the user, such as a column called "target=", is a fact, and no
fact is ever changed.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from string import Formatter
from typing import Any, Self

NameOf = Callable[..., str]
"""Returns an argument as its reader writes it: `name_of("target")`, or with a value `name_of("target", "y")`."""


def python_name(argument: str, *value: Any) -> str:
    """Return an argument as Python users write it; one with a dot is in a record.

    >>> python_name("target"), python_name("positive", ["yes", "Yes"]), python_name("groups.small", "warn")
    ('target=', "positive=['yes', 'Yes']", "groups=Groups(small='warn')")
    """
    name, dot, inner = argument.partition(".")
    if dot:
        return f"{name}={name.title()}({inner}={repr(value[0]) if value else '...'})"
    return f"{argument}={value[0]!r}" if value else f"{argument}="


class Message(str):
    """A text that names arguments as Python users write them; `render` returns it with other names.

    Attributes
    ----------
    template : str
    facts : dict
        The values in the template.  A fact may be a message, or an error with one: it is rendered with the same names.

    Examples
    --------
    >>> message = Message("Column {column!r} is never {word!r} ({positive=}).", column="target=", word="yes")
    >>> print(message)
    Column 'target=' is never 'yes' (positive=).
    >>> print(message.render(lambda argument, *value: f"--{argument}"))
    Column 'target=' is never 'yes' (--positive).
    """

    template: str
    facts: dict[str, Any]

    def __new__(cls, template: str, /, **facts: Any) -> Message:
        """Fill the template; a fact that is missing raises `KeyError`."""
        message = super().__new__(cls, _filled(template, facts, python_name))
        message.template, message.facts = template, facts
        return message

    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, Any]]:  # messages travel between processes
        return (self.template,), self.facts

    @property
    def arguments(self) -> tuple[str, ...]:
        """The arguments that the message names, in order."""
        return tuple(dict.fromkeys(_arguments(self)))

    def render(self, name_of: NameOf) -> str:
        """Return the text with the names that `name_of` gives."""
        return _filled(self.template, self.facts, name_of)


def argument(name: str, *value: Any) -> Message:
    """Return an argument, with or without a value, as a part of a message.

    >>> argument("target"), argument("target", "y")
    ('target=', "target='y'")
    """
    return Message(f"{{{name}=value}}", value=value[0]) if value else Message(f"{{{name}=}}")


class InputError(ValueError):
    """An argument, a file or a combination of them cannot be used.

    Parameters
    ----------
    problem : str
        What is wrong, as a template: which argument, which value, and what is allowed.
    remedy : str
        What to do, as a template.
    facts
        The values in both.

    Attributes
    ----------
    problem, remedy : Message
    facts : dict

    Examples
    --------
    >>> raise InputError("{test_size=value} must be above 0 and below 1.", "Leave it out for 0.2.", value=2)
    Traceback (most recent call last):
    fairbound._errors.InputError: test_size=2 must be above 0 and below 1. Leave it out for 0.2.
    """

    def __init__(self, problem: str, remedy: str = "", /, **facts: Any) -> None:
        self.problem, self.remedy = Message(problem, **facts), Message(remedy, **facts)
        self.facts: Mapping[str, Any] = facts
        super().__init__(Message(f"{problem} {remedy}".strip(), **facts))

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (type(self), self.problem.template, self.remedy.template, dict(self.facts))

    @property
    def arguments(self) -> tuple[str, ...]:
        """The arguments that the error names, in order; the first is usually the wrong one."""
        return tuple(dict.fromkeys((*self.problem.arguments, *self.remedy.arguments)))

    def with_facts(self, **facts: Any) -> Self:
        """Return the error with some facts replaced; for example, a caller that reads a file adds its name and row."""
        return type(self)(self.problem.template, self.remedy.template, **{**self.facts, **facts})


def _rebuilt(kind: type[InputError], problem: str, remedy: str, facts: Mapping[str, Any]) -> InputError:
    return kind(problem, remedy, **facts)


class InputTypeError(InputError, TypeError):
    """An argument is of a type that cannot be used."""


def bad_value(name: str, value: Any, allowed: str, remedy: str = "") -> InputError:
    """Return the error of an argument whose value is not allowed.

    >>> print(bad_value("test_size", 2, "a share above 0 and below 1"))
    test_size=2 must be a share above 0 and below 1.
    """
    return InputError(
        "{argument} must be {allowed}.", remedy, argument=argument(name, value), value=value, allowed=allowed
    )


def both_given(one: Message, other: Message, what: str, remedy: str = "Leave one of them out.") -> InputError:
    """Return the error of two arguments that each say the same thing in its own way.

    >>> print(both_given(argument("base"), argument("base_score"), "how rows are scored"))
    base= and base_score= are both given, and each says how rows are scored. Leave one of them out.
    """
    return InputError(
        "{one} and {other} are both given, and each says {what}.", remedy, one=one, other=other, what=what
    )


def two_classes_only(stated: str, count: int, remedy: str = "") -> InputError:
    """Return the error of something that needs two classes.

    >>> print(two_classes_only(argument("pos_label", 1), 3))
    pos_label=1 needs two classes, but there are 3.
    """
    return InputError("{stated} needs two classes, but there are {count}.", remedy, stated=stated, count=count)


def together(processes: Any) -> AbstractContextManager[None]:
    """Return a context in which an error in one process ends all processes; `processes` may be None."""
    return nullcontext() if processes is None else processes.together()


def as_reported(error: Exception) -> Exception:
    """Mark an error that all processes raise; the first process prints it, so the others need not."""
    error.__dict__["reported"] = True
    return error


def is_reported(error: BaseException) -> bool:
    """Return whether another process prints this error."""
    return bool(error.__dict__.get("reported"))


def message_of(error: BaseException) -> str:
    """Return the message of an error or a warning, as a `Message` if it has one."""
    first = error.args[0] if error.args else None
    return first if isinstance(first, Message) else str(error)


def render(text: object, name_of: NameOf) -> str:
    """Return a `Message` with the argument names that `name_of` gives; return any other text unchanged."""
    if isinstance(text, BaseException):
        text = message_of(text)
    return text.render(name_of) if isinstance(text, Message) else str(text)


def _filled(template: str, facts: Mapping[str, Any], name_of: NameOf) -> str:
    formatter, written = Formatter(), []
    for literal, field, specification, conversion in formatter.parse(template):
        written.append(literal)
        if field is None:
            continue
        name, sign, value = field.partition("=")
        if sign:
            written.append(name_of(name, *_value(value, facts)))
        else:
            fact = facts[name]
            if conversion is None and isinstance(fact, Message | BaseException):
                fact = render(fact, name_of)
            written.append(format(formatter.convert_field(fact, conversion), specification or ""))
    return "".join(written)


def _value(written: str, facts: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the value of an argument as a tuple of one; an empty tuple if there is no value."""
    if not written:
        return ()
    return (facts[written],) if written in facts else (ast.literal_eval(written),)


def _arguments(message: Message) -> Iterator[str]:
    for _, field, _, conversion in Formatter().parse(message.template):
        name, sign, _ = (field or "").partition("=")
        fact = message.facts.get(name)
        if sign:
            yield name
        elif conversion is None and isinstance(fact, Message | BaseException):
            inner = message_of(fact) if isinstance(fact, BaseException) else fact
            yield from _arguments(inner) if isinstance(inner, Message) else ()


class LimitWarning(UserWarning):
    """A limit is not kept, is hardly meaningful, or does not cover every group."""


class ForecastWarning(UserWarning):
    """The limits are kept on the training rows, but are clearly more likely to break on new rows than to hold."""


class PositiveLabelWarning(UserWarning):
    """A limit depends on which of two labels is the positive one, and `pos_label` was not given."""


class InputScaleWarning(UserWarning):
    """The input columns of a network have very different scales, and are not scaled automatically."""


class JournalWarning(UserWarning):
    """The journal of a run cannot be written any further, so the run can be resumed from an earlier solve only."""


class SmallGroupWarning(LimitWarning):
    """Small groups were left out of the limits; the result of the fit lists them."""


def missing_extra(what: str, packages: str, extra: str) -> ImportError:
    """Return the error for a feature whose packages are not installed.

    >>> print(missing_extra("Reading Parquet files needs", "pyarrow", "data"))
    Reading Parquet files needs pyarrow: run pip install ".[data]" in the folder of fairbound's source code.
    """
    return ImportError(f'{what} {packages}: run pip install ".[{extra}]" in the folder of fairbound\'s source code.')


def import_extra(name: str, what: str, extra: str) -> Any:
    """Return a module of an extra; the error, if it is not installed, says `what` needs it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise missing_extra(what, name.partition(".")[0], extra) from error


def need_torch(what: str) -> None:
    """Raise an error that names the extra if torch is not installed; `what` begins the sentence."""
    import_extra("torch", what, "torch")
