"""The functions of the language itself (cel-spec, Standard Definitions), by the types of their arguments.

cel-cpp knows their signatures, so these rows are not declared to it.
"""

import math
from datetime import datetime, timedelta
from typing import Any, Final

from app.dispatch.cel.cel_cpp import native
from app.dispatch.cel.functions import Function
from app.dispatch.cel.values import MAX_INT, MAX_UINT, MIN_INT, Uint, type_of

_GETTERS: Final = ("FullYear", "Month", "Date", "DayOfMonth", "DayOfWeek", "DayOfYear")
_CLOCK_GETTERS: Final = ("Hours", "Minutes", "Seconds", "Milliseconds")
_BOOLS: Final = {
    **dict.fromkeys(("1", "t", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "false", "FALSE", "False"), False),
}


def _same(value: Any) -> Any:
    return value


def _to_int(value: float) -> int:
    if not math.isfinite(value) or not MIN_INT <= value <= MAX_INT:
        raise OverflowError("integer overflow")
    return int(value)


def _to_uint(value: float) -> Uint:
    if not math.isfinite(value) or not 0 <= value <= MAX_UINT:
        raise OverflowError("unsigned integer overflow")
    return Uint(value)


def _parse_bool(text: str) -> bool:
    if text not in _BOOLS:
        raise ValueError("type conversion error from 'string' to 'bool'")
    return _BOOLS[text]


def _parse_bytes(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise ValueError("invalid UTF-8 in bytes, cannot convert to string") from None


def _function(name: str, type_: str, code: Any) -> Function:
    return Function(name, (type_,), name if name == "string" else "dyn", code, member=False)


def _seconds(value: datetime) -> int:
    return int(value.timestamp() // 1)


_DURATIONS: Final = {
    "getHours": timedelta(hours=1),
    "getMinutes": timedelta(minutes=1),
    "getSeconds": timedelta(seconds=1),
    # All of them, as in cel-go, and not only the rest of a second as in cel-cpp.
    "getMilliseconds": timedelta(milliseconds=1),
}


def _whole(unit: timedelta) -> Any:
    return lambda value: (abs(value) // unit) * (-1 if value < timedelta() else 1)


# cel-cpp lets nobody add an overload to a function of its own, and Kubernetes adds `string(ip)`: so these are declared.
TO_STRING: Final = (
    _function("string", "string", _same),
    _function("string", "int", str),
    _function("string", "uint", str),
    _function("string", "bool", lambda value: "true" if value else "false"),
    _function("string", "bytes", _parse_bytes),
    _function("string", "double", native("string(a)")),
    *(_function("string", type_, native(f"string({type_}(a))")) for type_ in ("timestamp", "duration")),
)
FUNCTIONS: Final = (
    *(_function("size", type_, len) for type_ in ("string", "bytes", "list", "map")),
    *(_function(name, name, _same) for name in ("bool", "int", "uint", "double", "bytes", "timestamp", "duration")),
    _function("dyn", "dyn", _same),
    _function("type", "dyn", type_of),
    _function("bool", "string", _parse_bool),
    _function("int", "uint", _to_int),
    _function("int", "double", _to_int),
    _function("int", "timestamp", _seconds),
    _function("int", "string", native("int(a)")),
    _function("uint", "int", _to_uint),
    _function("uint", "double", _to_uint),
    _function("uint", "string", native("uint(a)")),
    _function("double", "int", float),
    _function("double", "uint", float),
    _function("double", "string", native("double(a)")),
    _function("bytes", "string", str.encode),
    _function("timestamp", "string", native("timestamp(a)")),
    _function("timestamp", "int", native("timestamp(a)")),
    _function("duration", "string", native("duration(a)")),
    *(
        Function(f"get{part}", ("timestamp", *zone), "int", native(f"timestamp(a).get{part}({'b' if zone else ''})"))
        for part in (*_GETTERS, *_CLOCK_GETTERS)
        for zone in ((), ("string",))
    ),
    *(Function(name, ("duration",), "int", _whole(unit)) for name, unit in _DURATIONS.items()),
    Function("contains", ("string", "string"), "bool", lambda text, part: part in text),
    Function("startsWith", ("string", "string"), "bool", str.startswith),
    Function("endsWith", ("string", "string"), "bool", str.endswith),
)
