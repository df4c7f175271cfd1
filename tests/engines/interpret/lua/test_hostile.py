"""Hostile scripts: each ends within its limits and cannot reach the host.

The first line of each file in hostile/ lists the allowed outcomes: kinds of errors, or ``answer`` for a harmless answer.
If ``deadline`` comes first, the test gives the script little time.
"""

import asyncio
import math
import threading
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from fleethook.engines.interpret.lua.lua_documents import default_to_object
from fleethook.engines.interpret.lua.lua_machine import LoadedScript, LuaError, Machine, ScriptLimits
from fleethook.engines.interpret.lua.script_layer_and_runner import Runner, ScriptCall
from fleethook.engines.interpret.lua.script_scanner_and_rewriter import LuaSyntaxError
from tests.engines.interpret.lua.machines import CountingClock, program
from tests.waiting import NET

SCRIPTS = sorted((Path(__file__).parent / "hostile").glob("*.lua"))
# Time is counted in readings of the clock, so that the machine's speed does not matter.
MAX_READINGS = 100
SHORT = ScriptLimits(seconds=0, instructions=10**12, memory=16 << 20)
LONG = ScriptLimits(seconds=NET, instructions=10**12, memory=16 << 20)
DOCUMENT = {"x": {"y": [1, 2, {"z": None}]}, "text": "secret"}
STATUS = Path("/proc/self/status")


def read_peak() -> int:
    """Return the peak memory of this process in bytes, since the last `reset_peak`."""
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def read_outcomes(path: Path) -> list[str]:
    first = path.read_text().splitlines()[0]
    return first.removeprefix("-- expect: ").split()


def test_suite_has_enough_hostile_scripts() -> None:
    assert len(SCRIPTS) >= 40


@pytest.mark.parametrize("path", SCRIPTS, ids=[path.stem for path in SCRIPTS])
def test_hostile_script_ends_within_its_limits(path: Path) -> None:
    late = read_outcomes(path)[0] == "deadline"
    clock = CountingClock(MAX_READINGS)
    machine = Machine(clock) if late else Machine()
    limits = SHORT if late else LONG
    measures = STATUS.exists()
    if measures:
        reset_peak()
        before = read_peak()
    try:
        found = machine.call(program(path.read_text(), name=path.stem), "F", [DOCUMENT], results=1, limits=limits)
        kind, text = "answer", repr(default_to_object(found[0]))
    except LuaError as error:
        kind, text = error.kind, str(error)
    except LuaSyntaxError as error:
        kind, text = "script", str(error)
    # After the deadline the script does not run, so the machine does not read the clock again.
    assert clock.readings <= MAX_READINGS + 1
    assert kind in read_outcomes(path), text
    for harmless in ("root:", "'found'", "0x", "object at"):
        assert harmless not in text
    assert len(text) < 1300
    if measures:
        # The limit, the slack for one message of the host, and the same for the copy of the message in Python.
        assert read_peak() - before < limits.memory + (48 << 20)


async def test_event_loop_continues_while_slow_scripts_run() -> None:
    """Slow scripts run until the test makes the clock pass their deadline."""
    over = threading.Event()
    # The clock runs backwards, so the deadline is ahead at every reading.
    times = count(0, -1)
    clock = lambda: math.inf if over.is_set() else 1e-9 * next(times)  # noqa: E731 - it is passed on
    limits = ScriptLimits(seconds=0, instructions=10**12, memory=16 << 20)
    runner = Runner(limits, make_machine=partial(Machine, clock))
    slow = LoadedScript("slow", "slow", program("function F() while true do pcall(string.rep, 'x', 100) end end").text)
    quick = program("function F(a) return a.text end")
    ended: list[str] = []

    async def run_slowly() -> None:
        try:
            returned = runner.run(ScriptCall(slow, "F", [DOCUMENT]))
            assert not isinstance(returned, list)
            await returned
        except LuaError as error:
            ended.append(error.kind)

    tasks = [asyncio.create_task(run_slowly()) for _ in range(3)]
    await asyncio.sleep(0)
    for _ in range(200):
        assert runner.run(ScriptCall(quick, "F", [DOCUMENT])) == ["secret"]
        await asyncio.sleep(0)
    assert ended == []
    over.set()
    await asyncio.gather(*tasks)
    assert ended == ["deadline"] * 3
    runner.close()
