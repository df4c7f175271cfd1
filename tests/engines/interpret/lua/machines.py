"""Calls functions of scripts as the Lua layers do."""

from typing import Any, Final

from fleethook.engines.interpret.lua.customization_rules_and_configmap import known_globals
from fleethook.engines.interpret.lua.lua_machine import LoadedScript, Machine, ScriptLimits
from fleethook.engines.interpret.lua.script_layer_and_runner import SCRIPT_LIMITS
from fleethook.engines.interpret.lua.script_parser import parse_script
from tests.waiting import NET

LONG = SCRIPT_LIMITS._replace(seconds=NET, instructions=10**9)
# Calls with these limits end by time: no machine executes so many instructions in 0.3 s.
SHORT = ScriptLimits(seconds=0.3, instructions=10**12, memory=16 << 20)


class CountingClock:
    """A clock that advances by the number of its readings, so a call ends after the same work on every machine.

    Once the process clock has passed the limit, a machine reads its clock after every thousand instructions. So the
    limit must be 0 seconds.
    """

    # Seconds until the deadline at each reading: so few that the machine reads again after a thousand instructions.
    _LEFT: Final = 1e-9

    def __init__(self, max_readings: int) -> None:
        self.max_readings = max_readings
        self.readings = -1  # the first reading is at the start of the call

    def __call__(self) -> float:
        self.readings += 1
        if self.readings == 0:
            return 0.0
        return -self._LEFT if self.readings <= self.max_readings else 1.0


def program(source: str, *, name: str = "script") -> LoadedScript:
    script = parse_script(source)
    return LoadedScript(source, name, script.runnable, bool(script.assigned & known_globals()) or "_G" in source)


def call(
    source: str, *documents: Any, results: int = 1, machine: Machine | None = None, limits: ScriptLimits = LONG
) -> Any:
    """Return the result of ``F`` of a script, or the list of its results."""
    made = machine or Machine()
    found = made.call(program(source), "F", documents, results=results, limits=limits, references=documents)
    return found[0] if results == 1 else found


def value(expression: str, *documents: Any, **rest: Any) -> Any:
    """Return the value of an expression with the documents ``a`` and ``b``."""
    return call(f"function F(a, b) return {expression} end", *documents, **rest)
