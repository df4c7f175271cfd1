"""The standard functions of CEL without conversions (cel-spec, Standard Definitions)."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from fleethook.cel.functions import Function
from fleethook.cel.values.equality import COMPARISONS
from fleethook.cel.values.times import HOURS, MINUTES, SECOND, Duration, find_local_time, measure

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


def _count_milliseconds(value: Duration) -> int:
    return (abs(value.nanos) // _MILLISECOND) * (-1 if value.nanos < 0 else 1)


_DURATIONS: Final[dict[str, Callable[[Duration], int]]] = {
    "getHours": lambda value: int(measure(value, HOURS)),
    "getMinutes": lambda value: int(measure(value, MINUTES)),
    "getSeconds": lambda value: int(measure(value, SECOND)),
    # As in cel-go, the milliseconds of the duration, not those of its last second.
    "getMilliseconds": _count_milliseconds,
}
_NUMBERS: Final = ("int", "uint", "double")
_OTHERS: Final = ("bool", "string", "bytes", "timestamp", "duration")
_PAIRS: Final = (
    *((left, right) for left in _NUMBERS for right in _NUMBERS),
    *((type_, type_) for type_ in _OTHERS),
)


def _read_size(value: Any) -> int:
    return len(value)


STANDARD_FUNCTIONS: Final = (
    *(Function(name, pair, code) for name, code in COMPARISONS.items() for pair in _PAIRS),
    *(Function("size", (type_,), _read_size) for type_ in ("string", "bytes", "list", "map")),
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
    Function("contains", ("string", "string"), lambda text, part: part in text),
    Function("startsWith", ("string", "string"), str.startswith),
    Function("endsWith", ("string", "string"), str.endswith),
)
