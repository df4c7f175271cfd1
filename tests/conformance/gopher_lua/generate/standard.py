"""Random scripts about ``os.date`` and ``os.time``, functions as iterators, calls that fail, and bytes."""

from collections.abc import Iterator
from random import Random
from typing import Final

TRIES: Final = 12
_DIRECTIVES: Final = "aAbBcCdDeEFgGhHIjklmMnOpPqrRsStTuUVwWxXyYzZ%+ "
_TIMES: Final = (
    "0", "-1", "86399", "-86400", "951782400", "1e9", "1709164800", "4102444800", "253402300800", "-62135596801", "1.5", "-1.5",
    "1e15", "-1e15", "2^53", "2^63", "-2^63", "0/0", "1/0", "-1/0", "'5'", "'x'", "nil", "true", "{}",
)  # fmt: skip
_PARTS: Final = ("year", "month", "day", "hour", "min", "sec", "isdst", "wday", "yday")
_VALUES: Final = (
    "0", "1", "2", "12", "13", "28", "29", "31", "60", "100", "366", "-1", "-13", "1.9", "-1.9", "1e10", "-1e6", "'7'", "' 08'",
    "'0'", "'0x1f'", "'x'", "'1.5'", "''", "true", "false", "{}", "0/0",
)  # fmt: skip
_FUNCTIONS: Final = (
    "function(a, b) n = n + 1 if n < 4 then return n, a, b end end",
    "function(...) n = n + 1 if n < 4 then return n, select('#', ...) end end",
    "function() n = n + 1 if n < 3 then return false end end",
    "function() n = n + 1 if n < 5 then return n, 'x', nil, 'y', 'z' end end",
    "function(_, c) n = n + 1 if n < 4 then return (c or 0) + 2 end end",
    "five", "ipairs", "pairs", "tonumber", "5", "nil", "'text'", "{}",
)  # fmt: skip
_STATES: Final = ("", ", 7", ", 7, 8", ", 7, 8, 9", ", nil, 3", ", 'a', 'b', 'c', 'd'")
_FAILING: Final = (
    "error", "error, nil", "error, 'x', 0", "error, {}", "error, 5", "error, false, 0", "error, nil, 0", "assert", "assert, nil",
    "assert, false, 'x'", "assert, false, {}", "assert, false, 5", "assert, 1, 2", "assert, false, nil", "pcall", "pcall, error",
    "pcall, pcall, error", "nil", "5", "ipairs", "ipairs, 5", "ipairs, {}", "tostring", "function() error('x', 0) end",
    "function() error({}) end", "function() return 1, nil, 3 end", "select, '#', 1, nil", "error, 'x', {}",
)  # fmt: skip


class StandardScripts:
    """Draws scripts."""

    def __init__(self, random: Random) -> None:
        self._random: Final = random

    def draw(self, count: int) -> Iterator[tuple[str, str]]:
        """Yield names and scripts; an even number of each subject."""
        subjects = {
            "dates": self._date,
            "times": self._time,
            "iteration": self._iteration,
            "calls": self._call,
            "bytes": self._bytes,
        }
        for number in range(count):
            name = [*subjects][number % len(subjects)]
            lines = "\n".join(f"try(function() {subjects[name]()} end)" for _ in range(TRIES))
            yield f"{name}-{number:04}", f"local n = 0\nlocal function five() return 1, 2, 3, 4, 5 end\n{lines}"

    def _date(self) -> str:
        pieces = [self._random.choice(("%", "%", "%", "x", "!")) + self._random.choice(_DIRECTIVES) for _ in range(5)]
        pattern = self._random.choice(("", "", "!", "!!")) + "".join(pieces)
        at = self._random.choice((*_TIMES, str(self._random.randint(-(10**11), 10**11))))
        if self._random.random() < 0.3:
            start = self._random.choice(("*t", "!*t", "*tx"))
            parts = ", ".join(f"t.{part}" for part in _PARTS)
            return f"local t = os.date('{start}', {at}) out({parts})"
        return f"out(os.date({self._random.choice(('5', 'nil', '{}')) if self._random.random() < 0.05 else repr(pattern)}, {at}))"

    def _time(self) -> str:
        given = {"year": str(self._random.randint(-100, 3000)), "month": str(self._random.randint(1, 12)), "day": "1"}
        for part in self._random.sample(_PARTS, self._random.randint(0, 3)):
            given[part] = self._random.choice(_VALUES)
        for part in self._random.sample(_PARTS, self._random.randint(0, 2)):
            given.pop(part, None)
        table = ", ".join(f"{part} = {value}" for part, value in given.items())
        return (
            f"out(os.time({self._random.choice(('5', repr('x'))) if self._random.random() < 0.05 else f'{{{table}}}'}))"
        )

    def _iteration(self) -> str:
        names = ", ".join(("a", "b", "c")[: self._random.randint(1, 3)])
        function, state = self._random.choice(_FUNCTIONS), self._random.choice(_STATES)
        made = self._random.choice((f"{function}{state}", f"(function() return {function}{state} end)()"))
        return (
            f"n = 0 local most = 0 for {names} in {made} do out({names}) most = most + 1 if most > 6 then break end end"
        )

    def _call(self) -> str:
        failing = self._random.choice(_FAILING)
        call = self._random.choice(
            (
                f"pcall({failing})",
                f"xpcall({failing if failing.startswith('function') else failing.partition(',')[0]}, type)",
                f"pcall(pcall, {failing})",
            )
        )
        # Texts of errors differ.
        return f"local r = {{{call}}} out(#r, r[1], type(r[2]), type(r[3]))"

    def _bytes(self) -> str:
        text = "".join(
            f"\\{self._random.choice((0, 65, 127, 128, 195, 169, 226, 130, 172, 255))}"
            for _ in range(self._random.randint(0, 6))
        )
        return f"local s = '{text}' out(s:reverse(), #s:reverse(), s:reverse():byte(1, -1))"
