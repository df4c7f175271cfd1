"""Conversions between types (cel-go: ConvertToType of common/types)."""

import math
from typing import Any, Final

from fleethook.cel.functions import Function
from fleethook.cel.values.numbers import format_float, format_plain, parse_bool, parse_float, parse_int, parse_uint
from fleethook.cel.values.times import (
    SECOND,
    Duration,
    Timestamp,
    format_timestamp,
    make_timestamp,
    measure,
    parse_duration,
    parse_timestamp,
)
from fleethook.cel.values.values import MAX_INT, MAX_UINT, MIN_INT, CelType, Uint, get_type


def _return_unchanged(value: Any) -> Any:
    return value


def _check_int(value: int) -> int:
    if not MIN_INT <= value <= MAX_INT:
        raise OverflowError("integer overflow")
    return value


def _truncate(value: float) -> int:
    # The smallest integer is out of range as a double, as in cel-go.
    if not math.isfinite(value) or not float(MIN_INT) < value < float(MAX_INT):
        raise OverflowError("integer overflow")
    return int(value)


def _to_uint(value: float) -> Uint:
    if not math.isfinite(value) or not 0 <= value < float(2**64) or value > MAX_UINT:
        raise OverflowError("unsigned integer overflow")
    return Uint(int(value))


def _decode(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise ValueError("invalid UTF-8 in bytes, cannot convert to string") from None


def _reject_duration(_value: int) -> Duration:
    # cel-go declares this conversion without implementing it.
    raise ValueError("type conversion error from 'int' to 'google.protobuf.Duration'")


def format_duration(value: Duration) -> str:
    """Return a duration in seconds, such as ``1.5s``."""
    seconds = measure(value, SECOND)
    text = format_plain(abs(seconds))
    return f"{'-' if seconds < 0 else ''}{text}s"


_TO_STRING: Final[dict[type, Any]] = {
    str: _return_unchanged,
    int: str,
    Uint: str,
    bool: lambda value: "true" if value else "false",
    bytes: _decode,
    float: format_float,
    Timestamp: format_timestamp,
    Duration: format_duration,
}


def convert_to_string(value: Any) -> str:
    """Return a scalar or a type as a string; raises ValueError."""
    if isinstance(value, CelType):
        return value.name
    return str(_TO_STRING[type(value)](value))


def _convert(name: str, type_: str, code: Any) -> Function:
    return Function(name, (type_,), code)


_KINDS: Final = ("string", "int", "uint", "bool", "bytes", "double", "timestamp", "duration")
CONVERSION_FUNCTIONS: Final = (
    *(_convert("string", kind, convert_to_string) for kind in _KINDS),
    *(_convert(name, name, _return_unchanged) for name in _KINDS if name != "string"),
    _convert("dyn", "dyn", _return_unchanged),
    _convert("type", "dyn", get_type),
    _convert("bool", "string", parse_bool),
    _convert("int", "uint", lambda value: _check_int(int(value))),
    _convert("int", "double", _truncate),
    _convert("int", "timestamp", lambda value: value.seconds),
    _convert("int", "duration", lambda value: value.nanos),
    _convert("int", "string", parse_int),
    _convert("uint", "int", _to_uint),
    _convert("uint", "double", _to_uint),
    _convert("uint", "string", parse_uint),
    _convert("double", "int", float),
    _convert("double", "uint", float),
    _convert("double", "string", parse_float),
    _convert("bytes", "string", str.encode),
    _convert("timestamp", "string", parse_timestamp),
    _convert("timestamp", "int", lambda value: make_timestamp(value * SECOND)),
    _convert("duration", "string", parse_duration),
    _convert("duration", "int", _reject_duration),
)
