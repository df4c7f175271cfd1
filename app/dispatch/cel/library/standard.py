"""The standard functions of CEL (cel-spec, Standard Definitions).

cel-cpp's type checker knows their signatures, so ``FUNCTIONS`` is not in `library.DECLARED`.
"""

import math
from datetime import datetime, timedelta
from typing import Any, Final

from app.dispatch.cel.cel_cpp import delegate
from app.dispatch.cel.functions import Function
from app.dispatch.cel.values import MAX_INT, MAX_UINT, MIN_INT, Uint, get_type

_GETTERS: Final = ("FullYear", "Month", "Date", "DayOfMonth", "DayOfWeek", "DayOfYear")
_CLOCK_GETTERS: Final = ("Hours", "Minutes", "Seconds", "Milliseconds")
_BOOLS: Final = {
    **dict.fromkeys(("1", "t", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "false", "FALSE", "False"), False),
}


def _return_unchanged(value: Any) -> Any:
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


def _build_conversion(name: str, type_: str, code: Any) -> Function:
    return Function(name, (type_,), name if name == "string" else "dyn", code, member=False)


def _count_seconds(value: datetime) -> int:
    return int(value.timestamp() // 1)


_DURATIONS: Final = {
    "getHours": timedelta(hours=1),
    "getMinutes": timedelta(minutes=1),
    "getSeconds": timedelta(seconds=1),
    # As in cel-go, the milliseconds of the duration. cel-cpp returns those of its last second only.
    "getMilliseconds": timedelta(milliseconds=1),
}


def _count_whole(unit: timedelta) -> Any:
    return lambda value: (abs(value) // unit) * (-1 if value < timedelta() else 1)


# Kubernetes adds overloads such as string(ip). cel-cpp does not allow that for its own functions, so all overloads of
# `string` are declared.
TO_STRING: Final = (
    _build_conversion("string", "string", _return_unchanged),
    _build_conversion("string", "int", str),
    _build_conversion("string", "uint", str),
    _build_conversion("string", "bool", lambda value: "true" if value else "false"),
    _build_conversion("string", "bytes", _parse_bytes),
    _build_conversion("string", "double", delegate("string(a)")),
    *(_build_conversion("string", type_, delegate(f"string({type_}(a))")) for type_ in ("timestamp", "duration")),
)
FUNCTIONS: Final = (
    *(_build_conversion("size", type_, len) for type_ in ("string", "bytes", "list", "map")),
    *(
        _build_conversion(name, name, _return_unchanged)
        for name in ("bool", "int", "uint", "double", "bytes", "timestamp", "duration")
    ),
    _build_conversion("dyn", "dyn", _return_unchanged),
    _build_conversion("type", "dyn", get_type),
    _build_conversion("bool", "string", _parse_bool),
    _build_conversion("int", "uint", _to_int),
    _build_conversion("int", "double", _to_int),
    _build_conversion("int", "timestamp", _count_seconds),
    _build_conversion("int", "string", delegate("int(a)")),
    _build_conversion("uint", "int", _to_uint),
    _build_conversion("uint", "double", _to_uint),
    _build_conversion("uint", "string", delegate("uint(a)")),
    _build_conversion("double", "int", float),
    _build_conversion("double", "uint", float),
    _build_conversion("double", "string", delegate("double(a)")),
    _build_conversion("bytes", "string", str.encode),
    _build_conversion("timestamp", "string", delegate("timestamp(a)")),
    _build_conversion("timestamp", "int", delegate("timestamp(a)")),
    _build_conversion("duration", "string", delegate("duration(a)")),
    *(
        Function(f"get{part}", ("timestamp", *zone), "int", delegate(f"timestamp(a).get{part}({'b' if zone else ''})"))
        for part in (*_GETTERS, *_CLOCK_GETTERS)
        for zone in ((), ("string",))
    ),
    *(Function(name, ("duration",), "int", _count_whole(unit)) for name, unit in _DURATIONS.items()),
    Function("contains", ("string", "string"), "bool", lambda text, part: part in text),
    Function("startsWith", ("string", "string"), "bool", str.startswith),
    Function("endsWith", ("string", "string"), "bool", str.endswith),
)
