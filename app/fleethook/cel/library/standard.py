"""The standard functions of CEL (cel-spec, Standard Definitions), with conversions as Go's package strconv has them."""

import math
import re
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from math import isinf, isnan
from typing import Any, Final

from fleethook.cel.values.operators import COMPARISONS, check_int
from fleethook.cel.values.times import (
    HOUR,
    MINUTE,
    SECOND,
    Duration,
    Timestamp,
    find_local_time,
    format_timestamp,
    make_timestamp,
    measure,
    parse_duration,
    parse_timestamp,
)
from fleethook.cel.values.values_and_overloads import MAX_INT, MAX_UINT, MIN_INT, CelType, Function, Uint, get_type

_INT: Final = re.compile(r"[+-]?[0-9]{1,400}", re.ASCII)
_UINT: Final = re.compile(r"[0-9]{1,400}", re.ASCII)
_FLOAT: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)
_NAMED: Final = {
    **dict.fromkeys(("inf", "+inf", "infinity", "+infinity"), float("inf")),
    **dict.fromkeys(("-inf", "-infinity"), float("-inf")),
    "nan": float("nan"),
}
_BOOLS: Final = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}
# An underscore separates two digits.
_BAD_UNDERSCORE: Final = re.compile(r"(?<![0-9])_|_(?![0-9])", re.ASCII)
# The shortest text of a number has an exponent from here on.
_MIN_EXPONENT: Final = 6


def parse_int(text: str) -> int:
    """Return an integer of 64 bits; raises ValueError."""
    value = int(text) if _INT.fullmatch(text) else MAX_INT + 1
    if not MIN_INT <= value <= MAX_INT:
        raise ValueError("type conversion error from 'string' to 'int'")
    return value


def parse_uint(text: str) -> Uint:
    """Return an unsigned integer of 64 bits; raises ValueError."""
    value = int(text) if _UINT.fullmatch(text) else MAX_UINT + 1
    if value > MAX_UINT:
        raise ValueError("type conversion error from 'string' to 'uint'")
    return Uint(value)


def parse_float(text: str) -> float:
    """Return a double; raises ValueError, also for a number out of range."""
    named = _NAMED.get(text.lower()) if len(text) <= 9 else None
    if named is not None:
        return named
    if "_" in text:
        text = "" if _BAD_UNDERSCORE.search(text) else text.replace("_", "")
    value = float(text) if _FLOAT.fullmatch(text) else float("inf")
    if isinf(value):
        raise ValueError("type conversion error from 'string' to 'double'")
    return value


def parse_bool(text: str) -> bool:
    """Return a bool; raises ValueError."""
    if text not in _BOOLS:
        raise ValueError("type conversion error from 'string' to 'bool'")
    return _BOOLS[text]


def format_float(value: float) -> str:
    """Return the shortest text that has the value (Go: FormatFloat with 'g' and -1)."""
    if isnan(value):
        return "NaN"
    if isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    text = "".join(map(str, digits))
    power = len(text) + int(exponent) - 1 if value else 0
    prefix = "-" if sign else ""
    if -4 <= power < _MIN_EXPONENT:
        return prefix + format_plain(abs(value))
    mantissa = text[0] + (f".{text[1:]}" if len(text) > 1 else "")
    return f"{prefix}{mantissa}e{'-' if power < 0 else '+'}{abs(power):02d}"


def format_plain(value: float) -> str:
    """Return the shortest text without an exponent (Go: FormatFloat with 'f' and -1)."""
    text = format(Decimal(repr(value)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _return_unchanged(value: Any) -> Any:
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


_KINDS: Final = ("string", "int", "uint", "bool", "bytes", "double", "timestamp", "duration")
CONVERSION_FUNCTIONS: Final = (
    *(Function("string", (kind,), convert_to_string) for kind in _KINDS),
    *(Function(name, (name,), _return_unchanged) for name in _KINDS if name != "string"),
    Function("dyn", ("dyn",), _return_unchanged),
    Function("type", ("dyn",), get_type),
    Function("bool", ("string",), parse_bool),
    Function("int", ("uint",), lambda value: check_int(int(value))),
    Function("int", ("double",), _truncate),
    Function("int", ("timestamp",), lambda value: value.seconds),
    Function("int", ("duration",), lambda value: value.nanos),
    Function("int", ("string",), parse_int),
    Function("uint", ("int",), _to_uint),
    Function("uint", ("double",), _to_uint),
    Function("uint", ("string",), parse_uint),
    Function("double", ("int",), float),
    Function("double", ("uint",), float),
    Function("double", ("string",), parse_float),
    Function("bytes", ("string",), str.encode),
    Function("timestamp", ("string",), parse_timestamp),
    Function("timestamp", ("int",), lambda value: make_timestamp(value * SECOND)),
    Function("duration", ("string",), parse_duration),
    Function("duration", ("int",), _reject_duration),
)


_GETTERS: Final[dict[str, Callable[[datetime], int]]] = {
    "Month": lambda time: time.month - 1,
    "Date": lambda time: time.day,
    "DayOfMonth": lambda time: time.day - 1,
    "DayOfWeek": lambda time: time.isoweekday() % 7,
    "DayOfYear": lambda time: time.timetuple().tm_yday - 1,
    "Hours": lambda time: time.hour,
    "Minutes": lambda time: time.minute,
    "Seconds": lambda time: time.second,
    "Milliseconds": lambda time: time.microsecond // 1000,
}
_MILLISECOND: Final = 10**6


def _get_part(read: Callable[[datetime], int]) -> Callable[..., int]:
    return lambda time, zone=None: read(find_local_time(time, zone).time)


_DURATIONS: Final[dict[str, Callable[[Duration], int]]] = {
    "getHours": lambda value: int(measure(value, HOUR)),
    "getMinutes": lambda value: int(measure(value, MINUTE)),
    "getSeconds": lambda value: int(measure(value, SECOND)),
    # As in cel-go, the milliseconds of the duration, not those of its last second.
    "getMilliseconds": lambda value: (abs(value.nanos) // _MILLISECOND) * (-1 if value.nanos < 0 else 1),
}
_NUMBERS: Final = ("int", "uint", "double")
_OTHERS: Final = ("bool", "string", "bytes", "timestamp", "duration")
_PAIRS: Final = (
    *((left, right) for left in _NUMBERS for right in _NUMBERS),
    *((type_, type_) for type_ in _OTHERS),
)


STANDARD_FUNCTIONS: Final = (
    *(Function(name, pair, code) for name, code in COMPARISONS.items() for pair in _PAIRS),
    *(Function("size", (type_,), len) for type_ in ("string", "bytes", "list", "map")),
    *(
        Function(f"get{part}", ("timestamp", *zone), _get_part(read))
        for part, read in _GETTERS.items()
        for zone in ((), ("string",))
    ),
    *(
        Function("getFullYear", ("timestamp", *zone), lambda time, name=None: find_local_time(time, name).year)
        for zone in ((), ("string",))
    ),
    *(Function(name, ("duration",), code) for name, code in _DURATIONS.items()),
)
