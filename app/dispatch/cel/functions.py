"""Functions that Kubernetes adds to CEL: one row says how expressions see a function and what it does.

A function has two names. Expressions are checked against the declared one, with its generic types. cel-cpp finds the
code at run time by the kinds of the arguments, knows no "any" there, and lets nobody add to a function of its own; so
the code is registered under a private name, once for every combination of kinds, and ``syntax`` renames the calls.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from typing import Any, Final, NamedTuple, TypeAlias

from cel_expr_python import cel
from google.protobuf.message import Message

_T: Final = cel.Type
_SCALARS: Final = {
    "string": _T.STRING,
    "bytes": _T.BYTES,
    "int": _T.INT,
    "uint": _T.UINT,
    "double": _T.DOUBLE,
    "bool": _T.BOOL,
    "duration": _T.DURATION,
    "timestamp": _T.TIMESTAMP,
    "null": _T.NULL,
}
# What has a meaning in a signature.
_SPECIAL: Final = re.compile(r"[.<>]")
_LIST: Final = _T.List(_T.DYN)
_MAP: Final = _T.Map(_T.DYN, _T.DYN)
KINDS: Final = (*_SCALARS.values(), _LIST, _MAP)


class Function(NamedTuple):
    """One overload. ``types`` are its parameters, the first one the receiver of a member.

    Without ``code`` it is cel-cpp's own, and only declared.
    """

    name: str
    types: tuple[str, ...]
    returns: str
    code: Callable[..., Any] | None
    member: bool = True

    @property
    def overload(self) -> str:
        """The name of the overload in checked expressions."""
        return ":".join((private_name(self.name), "member" if self.member else "function", *self.types))

    @property
    def optional(self) -> bool:
        """Whether expressions get an optional: the code answers nothing then by an empty value."""
        return self.returns.startswith("optional_type<")


class _Row(NamedTuple):
    """The code of a function for one combination of kinds."""

    function: Function
    types: tuple[cel.Type, ...]
    code: Callable[..., Any]


_Overloads: TypeAlias = dict[tuple[str, ...], list[_Row]]


def private_name(name: str) -> str:
    """Return the name that the code of a function is registered under."""
    return f"kubernetes.{name}"


def declarations(functions: Iterable[Function]) -> str:
    """Return the ``functions`` member of an environment's configuration, which is YAML."""
    named: dict[str, list[Function]] = {}
    for function in functions:
        named.setdefault(function.name, []).append(function)
    return "functions:\n" + "".join(_declaration(name, overloads) for name, overloads in named.items())


def _declaration(name: str, overloads: list[Function]) -> str:
    rows = "".join(
        f"  - id: '{function.overload}'\n    signature: '{_signature(function)}'\n    return: '{function.returns}'\n"
        for function in overloads
    )
    return f'- name: "{name}"\n  overloads:\n{rows}'


def _signature(function: Function) -> str:
    if not function.member:
        # A dot would part a receiver from its member.
        name = _SPECIAL.sub(r"\\\g<0>", function.name)
        return f"{name}({','.join(function.types)})"
    receiver, *parameters = function.types
    return f"{receiver}.{function.name}({','.join(parameters)})"


def implementations(functions: Iterable[Function]) -> Iterator[cel.FunctionDecl]:
    """Yield the functions that have code: each under its own name, and all of one name together.

    A call whose overload the check has settled goes to the former, which knows what it returns; one with dynamic
    arguments to the latter, where cel-cpp chooses by the kinds of the arguments. To cel-cpp all messages are of one
    kind, so what is a quantity and what an address is told apart here.
    """
    named: dict[str, _Overloads] = {}
    for function in functions:
        if function.code is None:
            continue
        for name in (function.overload, private_name(function.name)):
            by_kinds = named.setdefault(name, {})
            for types in product(*(_types(type_) for type_ in function.types)):
                kinds = tuple("message" if type_.is_message() else type_.name() for type_ in types)
                by_kinds.setdefault(kinds, []).append(_Row(function, types, function.code))
    for name, by_kinds in named.items():
        yield cel.FunctionDecl(name, [_overload(name, kinds, rows) for kinds, rows in by_kinds.items()])


def _overload(name: str, kinds: tuple[str, ...], rows: list[_Row]) -> cel.Overload:
    returned = {row.function.returns for row in rows}
    return cel.Overload(
        f"{name}({','.join(kinds)})",
        return_type=_returned(rows[0].function.returns) if len(returned) == 1 else _T.DYN,
        parameters=list(rows[0].types),
        is_member=False,
        impl=_by_message(rows) if "message" in kinds else rows[0].code,
    )


def _by_message(rows: list[_Row]) -> Callable[..., Any]:
    """Return code that calls the function whose message types the arguments have."""
    coded = {tuple(type_ for type_ in row.function.types if _is_message(type_)): row.code for row in reversed(rows)}

    def call(*arguments: Any) -> Any:
        types = tuple(value.DESCRIPTOR.full_name for value in arguments if isinstance(value, Message))
        code = coded.get(types)
        if code is None:
            raise TypeError("no such overload")
        return code(*arguments)

    return call


def _is_message(type_: str) -> bool:
    return type_.startswith(("kubernetes.", "net."))


def _types(type_: str) -> tuple[cel.Type, ...]:
    if type_ in _SCALARS:
        return (_SCALARS[type_],)
    if type_.startswith("list<"):
        return (_LIST,)
    if type_.startswith("map<"):
        return (_MAP,)
    if type_ == "dyn" or type_.startswith("~"):
        return KINDS
    return (_T(type_),)


def _returned(type_: str) -> cel.Type:
    type_ = type_.removeprefix("optional_type<").removesuffix(">") if type_.startswith("optional_type<") else type_
    if type_ == "dyn" or type_.startswith("~"):
        return _T.DYN
    return _types(type_)[0]
