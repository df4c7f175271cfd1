"""Lua interpreters: ours beside gopher-lua as Karmada calls it, beside JSON, and the effect of slow scripts on others."""

import asyncio
import json
import statistics
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.engines import hostile_lua, lua_runtimes
from benchmarks.engines.lua_scripts import SCRIPTS, Script
from benchmarks.engines.measure import Measured, cpu_us, go, pin_to_core, text
from benchmarks.harness.goals import at_least
from benchmarks.harness.section import Context, Section
from benchmarks.harness.tables import table
from fleethook.engines.interpret.lua.lua_machine import LoadedScript, Machine
from fleethook.engines.interpret.lua.script_layer_and_runner import SCRIPT_LIMITS
from fleethook.engines.interpret.lua.script_parser import parse_script

MEASURED = ("app/fleethook/engines/interpret/lua", "app/fleethook/patch")


HOSTILE_SECONDS = 0.5
SLOW_CALLS = (8, 40)
UNIT, CACHED, FRESH = "JSON", "fleethook", "fleethook, no cache"
EACH, ONCE = "compiled each call", "compiled once"

ABOUT = """CPU time of one call, in µs. *Compiled each call* is how Karmada calls gopher-lua; *compiled once* keeps the
compiled script. Both sides take and return decoded objects. Karmada converts complete objects through JSON
text into Lua tables and back; ours opens only the parts that a script reads. *Of JSON* is relative to `json.loads` and `json.dumps` of the same
objects. *No cache* makes a machine and compiles the script for each call."""
BESIDE = """{scripts} hostile scripts run {times} times each, {at_once} at a time, with a deadline of {seconds:g} s. Meanwhile the same event loop
handles a request each millisecond:

{table}

Outcomes of the hostile scripts: {ended}."""


def run(context: Context) -> Section:
    """Measure calls, hostile neighbours and runtimes."""
    found = {script.title: _ways(script) for script in SCRIPTS}
    measured = {title: Measured() for title in found}
    arguments = ("--inputs", str(context.inputs / "lua.json"), "--rounds", "1", "--turn", "300ms")
    for _ in range(context.rounds):
        with pin_to_core(context.server_core):
            for title, ways in found.items():
                for name, way in ways.items():
                    measured[title].add(name, cpu_us(way))
        for line in go(context, "lua", *arguments):
            measured[line["name"]].add(line["way"], line["cpu_ns_per_op"] / 1e3)
    beside = asyncio.run(hostile_lua.beside(HOSTILE_SECONDS))
    turns = [asyncio.run(hostile_lua.turns(calls)) for calls in SLOW_CALLS]
    runtimes = [lua_runtimes.measure(name) for name in lua_runtimes.NAMES]
    figures = {
        "calls": {title: ways.figures() for title, ways in measured.items()},
        "of ours": {
            title: {way: ways.ratio(way, CACHED)._asdict() for way in (EACH, ONCE)} for title, ways in measured.items()
        },
        "p99.9 ms": {"alone": _at(beside.alone, 0.999), "beside hostile scripts": _at(beside.beside, 0.999)},
        "p99 ms beside slow calls": {str(one.calls): one.latencies[int(len(one.latencies) * 0.99)] for one in turns},
    }
    goals = [
        at_least(
            f"Lua, {title}: CPU of gopher-lua as Karmada calls it, relative to ours", 1.5, ways.ratio(EACH, CACHED)
        )
        for title, ways in measured.items()
    ]
    parts = (ABOUT, _calls(measured), _beside(beside), _turns(turns), _runtimes(runtimes))
    return Section("Lua", "\n\n".join(parts), figures | {"goals": goals})


def _ways(script: Script) -> dict[str, Callable[[], Any]]:
    machine, program = Machine(), LoadedScript(script.function, script.function, parse_script(script.source).runnable)
    texts = [json.dumps(one) for one in script.arguments]
    documents = [json.loads(text) for text in texts]  # decoded, so that no value is shared

    def unit() -> None:
        for one in texts:
            json.dumps(json.loads(one))

    def fresh() -> Any:
        made = LoadedScript(script.function, script.function, parse_script(script.source).runnable)
        return Machine().call(made, script.function, documents, results=1, limits=SCRIPT_LIMITS)[0]

    cached = partial(machine.call, program, script.function, documents, results=1, limits=SCRIPT_LIMITS)
    assert cached()[0] == fresh()
    return {UNIT: unit, CACHED: cached, FRESH: fresh}


def _calls(measured: dict[str, Measured]) -> str:
    sizes = {script.title: sum(len(json.dumps(one)) for one in script.arguments) for script in SCRIPTS}
    head = (
        "call", "JSON of it", "fleethook", "of JSON", "no cache", "gopher-lua, compiled each call", "of ours",
        "gopher-lua, compiled once", "of ours",
    )  # fmt: skip
    rows = [
        (
            title, f"{sizes[title]:,} B", ways.text(CACHED), text(ways.ratio(CACHED, UNIT)), ways.text(FRESH),
            ways.text(EACH), f"**{text(ways.ratio(EACH, CACHED))}**", ways.text(ONCE),
            f"**{text(ways.ratio(ONCE, CACHED))}**",
        )
        for title, ways in measured.items()
    ]  # fmt: skip
    return table(head, rows)


def _at(latencies: list[float], part: float) -> float:
    return latencies[min(len(latencies) - 1, int(len(latencies) * part))] * 1e3


def _beside(found: hostile_lua.Found) -> str:
    rows = [
        (
            title, f"{len(one):,}", f"{statistics.median(one) * 1e3:.2f}", f"{_at(one, 0.99):.2f}",
            f"{_at(one, 0.999):.1f}", f"{one[-1] * 1e3:.0f}",
        )
        for title, one in (("alone", found.alone), ("beside them", found.beside))
    ]  # fmt: skip
    return BESIDE.format(
        scripts=found.scripts,
        times=hostile_lua.TIMES,
        at_once=hostile_lua.AT_ONCE,
        seconds=HOSTILE_SECONDS,
        table=table(("", "requests", "p50 ms", "p99 ms", "p99.9 ms", "longest ms"), rows),
        ended=", ".join(f"{kind} {count}" for kind, count in sorted(found.ended.items())),
    )


def _turns(found: list[hostile_lua.Turns]) -> str:
    rows = [
        (
            str(one.calls), f"{len(one.latencies)}", f"{statistics.median(one.latencies):.1f}",
            f"{one.latencies[int(len(one.latencies) * 0.99)]:.1f}", f"{one.latencies[-1]:.0f}",
            " / ".join(f"{value:.0f}" for value in one.memory),
        )
        for one in found
    ]  # fmt: skip
    head = ("slow calls", "quick calls", "p50 ms", "p99 ms", "longest ms", "MiB before / at most / after")
    return "A script of 60,000 steps beside calls of a script that exceeds its deadline of 1 s:\n\n" + table(head, rows)


def _runtimes(found: list[lua_runtimes.Runtime]) -> str:
    head = (
        "runtime", "new machine", "callback", "code", "code under a hook", "integers of 64 bits", "memory limit",
    )  # fmt: skip
    rows = [
        (
            one.name, f"{one.machine:.0f}", f"{one.callback:.2f}", f"{one.code:.0f}", f"{one.hooked:.0f}",
            "yes" if one.exact else "no", "yes" if one.limited else "no",
        )
        for one in found
    ]  # fmt: skip
    return "The runtimes of lupa, in µs of CPU. These figures decided for Lua 5.4:\n\n" + table(head, rows)
