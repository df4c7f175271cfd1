"""Functions that expressions call: each row has the types of the arguments and the code of one or more overloads.

The checker uses ``declarations.txt``. At run time, `OverloadResolver` selects the code by the types of the arguments,
as cel-go does.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from fleethook.cel.values.values import NO_SUCH_OVERLOAD, get_kind, get_type

# cel-go's traits of values refuse these without a name, as they do operators.
_UNNAMED: Final = frozenset({"contains", "endsWith", "matches", "startsWith"})


class Function(NamedTuple):
    """One overload of a function. For a member, the first of ``types`` is the receiver."""

    name: str
    types: tuple[str, ...]
    code: Callable[..., Any]


class OverloadResolver:
    """All overloads of one function. Calling it calls the first overload that accepts the types of the arguments."""

    __slots__ = ("_found", "_functions")

    def __init__(self, functions: Sequence[Function]) -> None:
        self._functions: Final = functions
        self._found: dict[tuple[type, ...], Callable[..., Any]] = {}

    def __call__(self, *arguments: Any) -> Any:
        """Call the matching overload; raises TypeError if no overload accepts the arguments."""
        types = tuple(map(type, arguments))
        code = self._found.get(types)
        if code is None:
            code = self._found[types] = self._find(arguments)
        return code(*arguments)

    def _find(self, arguments: Sequence[Any]) -> Callable[..., Any]:
        kinds = [get_kind(type(argument)) for argument in arguments]
        for function in self._functions:
            if len(function.types) == len(kinds) and all(map(_accepts, function.types, kinds)):
                return function.code
        name = self._functions[0].name
        if name in _UNNAMED or "_" in name:
            raise TypeError(NO_SUCH_OVERLOAD)
        shown = ", ".join(get_type(argument).name for argument in arguments)
        raise TypeError(f"{NO_SUCH_OVERLOAD}: {name}" if name == "size" else f"{NO_SUCH_OVERLOAD}: {name}({shown})")


def _accepts(parameter: str, kind: str) -> bool:
    """Return whether a parameter accepts values of a kind."""
    return parameter in ("dyn", kind)


def build_resolvers(functions: Iterable[Function]) -> dict[str, OverloadResolver]:
    """Return an `OverloadResolver` for each function, by the function's name."""
    named: dict[str, list[Function]] = {}
    for function in functions:
        named.setdefault(function.name, []).append(function)
    return {name: OverloadResolver(overloads) for name, overloads in named.items()}


def can_parse(parse: Callable[[str], object], text: str) -> bool:
    """Return whether ``parse`` accepts ``text`` without a ValueError."""
    try:
        parse(text)
    except ValueError:
        return False
    return True
