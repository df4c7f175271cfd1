"""Functions of texts: cel-go's ext.Strings in version 2, and conversions to text.

cel-cpp has them all. They are declared here because it lets nobody add an overload to a function of its own, and
Kubernetes adds ``string(ip)`` and ``list.indexOf``; and ``replace`` and ``join`` have code here because their results
may be many times larger than what they are given.
"""

from collections.abc import Sequence
from typing import Final

from app.dispatch.cel.functions import Function
from app.dispatch.cel.run import CURRENT, cost_of_text

_CONVERTIBLE: Final = ("string", "int", "uint", "double", "bool", "bytes", "timestamp", "duration")


def _replace(text: str, old: str, new: str, limit: int = -1) -> str:
    found = text.count(old)
    times = found if limit < 0 else min(found, limit)
    CURRENT.get().charge(cost_of_text(len(text) + max(0, len(new) - len(old)) * times))
    return text.replace(old, new, times)


def _join(texts: Sequence[str], separator: str = "") -> str:
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("no such overload")
    CURRENT.get().charge(cost_of_text(sum(map(len, texts)) + len(separator) * max(0, len(texts) - 1)))
    return separator.join(texts)


def _native(name: str, *types: str, returns: str = "string") -> Function:
    return Function(name, types, returns, None)


FUNCTIONS: Final = (
    *(Function("string", (type_,), "string", None, member=False) for type_ in _CONVERTIBLE),
    Function("strings.quote", ("string",), "string", None, member=False),
    _native("charAt", "string", "int"),
    _native("format", "string", "list<dyn>"),
    _native("lowerAscii", "string"),
    _native("upperAscii", "string"),
    _native("trim", "string"),
    _native("split", "string", "string", returns="list<string>"),
    _native("split", "string", "string", "int", returns="list<string>"),
    _native("substring", "string", "int"),
    _native("substring", "string", "int", "int"),
    Function("replace", ("string", "string", "string"), "string", _replace),
    Function("replace", ("string", "string", "string", "int"), "string", _replace),
    Function("join", ("list<string>",), "string", _join),
    Function("join", ("list<string>", "string"), "string", _join),
)
