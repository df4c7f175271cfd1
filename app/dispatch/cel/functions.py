"""Functions that expressions call: each row has the signature and the code of one overload.

cel-cpp checks expressions against the signatures. At run time, `OverloadResolver` selects the code by the types of the
arguments, as cel-go does.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from app.dispatch.cel.values import NO_SUCH_OVERLOAD, NONE, Optional, get_kind

# Characters with a meaning in a signature.
_SPECIAL: Final = re.compile(r"[.<>]")


class Function(NamedTuple):
    """One overload of a function. For a member, the first of ``types`` is the receiver."""

    name: str
    types: tuple[str, ...]
    returns: str
    code: Callable[..., Any]
    member: bool = True

    @property
    def overload_id(self) -> str:
        """The identifier of the overload in checked expressions."""
        return ":".join((f"kubernetes.{self.name}", "member" if self.member else "function", *self.types))

    @property
    def returns_optional(self) -> bool:
        """Whether expressions get an optional. The code returns an empty value for ``optional.none()``."""
        return self.returns.startswith("optional_type<")


def declare_functions(functions: Iterable[Function]) -> str:
    """Return the ``functions`` section of cel-cpp's configuration of an environment, in YAML."""
    named: dict[str, list[Function]] = {}
    for function in functions:
        named.setdefault(function.name, []).append(function)
    return "functions:\n" + "".join(_declare_overloads(name, overloads) for name, overloads in named.items())


def _declare_overloads(name: str, overloads: list[Function]) -> str:
    rows = "".join(
        f"  - id: '{function.overload_id}'\n"
        f"    signature: '{_format_signature(function)}'\n"
        f"    return: '{function.returns}'\n"
        for function in overloads
    )
    return f'- name: "{name}"\n  overloads:\n{rows}'


def _format_signature(function: Function) -> str:
    if not function.member:
        # An unescaped dot would separate a receiver from its method.
        name = _SPECIAL.sub(r"\\\g<0>", function.name)
        return f"{name}({','.join(function.types)})"
    receiver, *parameters = function.types
    return f"{receiver}.{function.name}({','.join(parameters)})"


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
            code = self._found[types] = self._find(types)
        return code(*arguments)

    def _find(self, types: tuple[type, ...]) -> Callable[..., Any]:
        kinds = tuple(map(get_kind, types))
        for function in self._functions:
            if len(function.types) == len(kinds) and all(map(_accepts, function.types, kinds)):
                return _wrap_optional(function.code) if function.returns_optional else function.code
        raise TypeError(NO_SUCH_OVERLOAD)


def _accepts(parameter: str, kind: str) -> bool:
    """Return whether a parameter accepts values of a kind; the types of elements are not compared."""
    return parameter == "dyn" or parameter.startswith("~") or parameter.partition("<")[0] == kind


def _wrap_optional(code: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Optional:
        value = code(*arguments)
        empty = not value.ByteSize() if hasattr(value, "ByteSize") else not value
        return NONE if empty else Optional(value)

    return call


def build_resolvers(functions: Iterable[Function]) -> dict[str, OverloadResolver]:
    """Return an `OverloadResolver` for each function, by the function's name."""
    named: dict[str, list[Function]] = {}
    for function in functions:
        named.setdefault(function.name, []).append(function)
    return {name: OverloadResolver(overloads) for name, overloads in named.items()}
