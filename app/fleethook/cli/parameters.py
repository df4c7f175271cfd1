"""Declares options and arguments of commands in their signatures, and converts the words of a command line to values.

``Annotated[Path | None, Option("--config", help="…")]`` declares one option; a NamedTuple with such members declares
several, and the command gets the tuple.
"""

import types
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

from fleethook.cli.exit_codes import fail

# By name, because pathlib is slow to import, and `--version` needs none.
_METAVARS: Final = {"Path": "PATH", "int": "NUMBER", "float": "NUMBER"}
_SWITCHES: Final = {"true": True, "false": False}


class Option:
    """The declaration of an option.

    Args:
        names: Its names; without them, one is made of the parameter's name.
        help: The effect of the option.
        metavar: The word for its value, instead of one for its type.
        minimum: The least number.
        maximum: The largest number.
    """

    def __init__(
        self,
        *names: str,
        help: str,  # noqa: A002 - the usual name in such libraries
        metavar: str = "",
        minimum: float | None = None,
        maximum: float | None = None,
    ) -> None:
        self.names: Final = names
        self.help: Final = help
        self.metavar: Final = metavar
        self.minimum: Final = minimum
        self.maximum: Final = maximum


class Argument(Option):
    """The declaration of a positional argument. A list takes all further arguments."""


class Parameter(NamedTuple):
    """An option or an argument of a command.

    Attributes:
        name: Name of the function's parameter.
        flags: Names of the option; empty for an argument.
        negative: The option for False of a switch that is on by default, otherwise ``""``.
        declared: The declaration.
        type: Type of a value.
        is_list: Whether it may be repeated.
        is_required: Whether it has no default.
        default: The default.
    """

    name: str
    flags: tuple[str, ...]
    negative: str
    declared: Option
    type: type
    is_list: bool
    is_required: bool
    default: Any

    @property
    def is_argument(self) -> bool:
        """Whether it is a positional argument."""
        return isinstance(self.declared, Argument)

    @property
    def metavar(self) -> str:
        """The word for its value."""
        if self.declared.metavar:
            return self.declared.metavar
        if self.is_argument:
            return self.name.upper()
        if issubclass(self.type, StrEnum):
            return f"[{'|'.join(self.type)}]"
        return _METAVARS.get(self.type.__name__, "TEXT")

    @property
    def usage(self) -> str:
        """Return its names and the word for its value, as the help shows them."""
        if not self.flags:
            return self.metavar
        names = sorted(self.flags, key=len) + ([self.negative] if self.negative else [])
        return ", ".join(names) + ("" if self.type is bool else f" {self.metavar}")

    @property
    def description(self) -> str:
        """Return its effect, and its default if that is not obvious."""
        if self.is_required and self.flags:
            return f"{self.declared.help} [required]"
        obvious = self.default is None or self.default == "" or self.type is bool or self.is_list
        return self.declared.help if obvious else f"{self.declared.help} [default: {self.default}]"

    def convert(self, text: str, shown: str) -> Any:
        """Return the value of a word; exits with a message, with the name ``shown``, if it has none."""
        if issubclass(self.type, StrEnum):
            if text not in [*self.type]:
                fail(f"{shown}: {text!r} is none of {', '.join(self.type)}")
            return self.type(text)
        if self.type is bool:
            return _SWITCHES[text] if text in _SWITCHES else fail(f"{shown}: {text!r} is neither true nor false")
        if self.type in (int, float):
            return self._convert_number(text, shown)
        convert: Callable[[str], Any] = self.type
        return convert(text)

    def _convert_number(self, text: str, shown: str) -> float:
        try:
            number: float = int(text) if self.type is int else float(text)
        except ValueError:
            fail(f"{shown}: {text!r} is not a {'whole ' if self.type is int else ''}number")
        least, most = self.declared.minimum, self.declared.maximum
        # A number that is not comparable, NaN, is no number.
        if number != number or (least is not None and number < least) or (most is not None and number > most):  # noqa: PLR0124
            fail(f"{shown}: {text} is out of range: it must be {_describe_range(least, most)}")
        return number


def _describe_range(least: float | None, most: float | None) -> str:
    limits = (("at least", least), ("at most", most))
    return " and ".join(f"{word} {limit:g}" for word, limit in limits if limit is not None) or "finite"


def list_parameters(command: Callable[..., None]) -> list[Parameter]:
    """Return the parameters of a command; a group's members take the place of the group."""
    return [one for _, members in _read(command) for one in members]


def call(command: Callable[..., None], values: Mapping[str, Any]) -> None:
    """Call a command with values by the names of parameters. A parameter without one has its default."""
    given = {}
    for name, members in _read(command):
        present = {one.name: values.get(one.name, one.default) for one in members}
        group = command.__annotations__[name]
        given[name] = group(**present) if hasattr(group, "_fields") else present[name]
    command(**given)


def _read(command: Callable[..., None]) -> Iterator[tuple[str, list[Parameter]]]:
    """Yield each parameter of a function with its option, or the options of its group."""
    code = command.__code__
    positional = code.co_varnames[: code.co_argcount]
    values = command.__defaults__ or ()
    defaults = {**dict(zip(reversed(positional), reversed(values), strict=False)), **(command.__kwdefaults__ or {})}
    for name, annotation in command.__annotations__.items():
        if name == "return":
            continue
        if fields := getattr(annotation, "_fields", None):
            members = annotation.__annotations__
            yield name, [read_parameter(field, members[field], annotation._field_defaults) for field in fields]
        else:
            yield name, [read_parameter(name, annotation, defaults)]


def read_parameter(name: str, annotation: Any, defaults: Mapping[str, Any]) -> Parameter:
    """Return the parameter of an annotation; it is required unless there is a default of its name."""
    declared: Option = annotation.__metadata__[0]
    kind, default = annotation.__origin__, defaults.get(name)
    if isinstance(kind, types.UnionType):
        (kind,) = (one for one in kind.__args__ if one is not types.NoneType)
    is_list = getattr(kind, "__origin__", None) is list
    kind = kind.__args__[0] if is_list else kind
    flag = f"--{name.replace('_', '-')}"
    negative = f"--no-{flag[2:]}" if kind is bool and default is True else ""
    flags = () if isinstance(declared, Argument) else declared.names or (flag,)
    return Parameter(name, flags, negative, declared, kind, is_list, name not in defaults, default)
