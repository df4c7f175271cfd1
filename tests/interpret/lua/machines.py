"""Calling a function of a script, as the layers do."""

from typing import Any

from app.interpret.lua.rules import known_globals
from app.interpret.lua.script import read
from app.interpret.lua.vm import Limits, Machine, Program

LONG = Limits(seconds=10, instructions=10**9)
SHORT = Limits(seconds=0.3, instructions=50_000_000, memory=16 << 20)


def program(source: str, *, name: str = "script") -> Program:
    script = read(source)
    return Program(source, name, script.runnable, bool(script.assigned & known_globals()) or "_G" in source)


def call(source: str, *documents: Any, results: int = 1, machine: Machine | None = None, limits: Limits = LONG) -> Any:
    """What ``F`` of a script returns: the value, or a list of several."""
    made = machine or Machine()
    found = made.call(program(source), "F", documents, results=results, limits=limits, references=documents)
    return found[0] if results == 1 else found


def value(expression: str, *documents: Any, **rest: Any) -> Any:
    """What an expression is, with ``a`` and ``b`` as the documents."""
    return call(f"function F(a, b) return {expression} end", *documents, **rest)
