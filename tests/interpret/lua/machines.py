"""Calling a function of a script, as the layers do."""

from typing import Any, Final

from app.interpret.lua.parser import parse_script
from app.interpret.lua.rules import known_globals
from app.interpret.lua.vm import Limits, Machine, Program
from tests.waiting import NET

LONG = Limits(seconds=NET, instructions=10**9)
# Time ends what these limits are for: no machine executes so many instructions in it.
SHORT = Limits(seconds=0.3, instructions=10**12, memory=16 << 20)


class Looks:
    """A clock that counts how often it is looked at: what it limits ends after the same work on every machine.

    A machine looks at its clock after every thousand instructions once the seconds of a limit are over by the clock of
    the process; so the limit is to be of 0 seconds.
    """

    # Seconds that are left at each look: so few that the next thousand instructions are looked at, too.
    _LEFT: Final = 1e-9

    def __init__(self, most: int) -> None:
        self.most = most
        self.looks = -1  # the first look is when the call begins

    def __call__(self) -> float:
        self.looks += 1
        if self.looks == 0:
            return 0.0
        return -self._LEFT if self.looks <= self.most else 1.0


def program(source: str, *, name: str = "script") -> Program:
    script = parse_script(source)
    return Program(source, name, script.runnable, bool(script.assigned & known_globals()) or "_G" in source)


def call(source: str, *documents: Any, results: int = 1, machine: Machine | None = None, limits: Limits = LONG) -> Any:
    """What ``F`` of a script returns: the value, or a list of several."""
    made = machine or Machine()
    found = made.call(program(source), "F", documents, results=results, limits=limits, references=documents)
    return found[0] if results == 1 else found


def value(expression: str, *documents: Any, **rest: Any) -> Any:
    """What an expression is, with ``a`` and ``b`` as the documents."""
    return call(f"function F(a, b) return {expression} end", *documents, **rest)
