"""Scripts that mean harm: each ends within its limits, takes no more than it may, and sees nothing.

Each file of hostile/ says how it may end: by which kind of error, or with an answer that then has to be harmless. If
"deadline" comes first, the script has little time.
"""

import asyncio
import math
import threading
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from app.interpret.lua.convert import default_to_object
from app.interpret.lua.lexer import LuaSyntaxError
from app.interpret.lua.runner import Call, Runner
from app.interpret.lua.vm import Limits, LuaError, Machine, Program
from tests.interpret.lua.machines import Looks, program
from tests.waiting import NET

SCRIPTS = sorted((Path(__file__).parent / "hostile").glob("*.lua"))
# Only a script that is to end by time has little of it, counted in looks at the clock: a machine's speed decides nothing.
MOST_LOOKS = 100
SHORT = Limits(seconds=0, instructions=10**12, memory=16 << 20)
LONG = Limits(seconds=NET, instructions=10**12, memory=16 << 20)
DOCUMENT = {"x": {"y": [1, 2, {"z": None}]}, "text": "secret"}
STATUS = Path("/proc/self/status")


def peak() -> int:
    """The most bytes that this process has had since it was last asked to forget."""
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def expected(path: Path) -> list[str]:
    first = path.read_text().splitlines()[0]
    return first.removeprefix("-- expect: ").split()


def test_there_are_enough() -> None:
    assert len(SCRIPTS) >= 40


@pytest.mark.parametrize("path", SCRIPTS, ids=[path.stem for path in SCRIPTS])
def test_hostile(path: Path) -> None:
    late = expected(path)[0] == "deadline"
    clock = Looks(MOST_LOOKS)
    machine = Machine(clock) if late else Machine()
    limits = SHORT if late else LONG
    measures = STATUS.exists()
    if measures:
        forget_peak()
        before = peak()
    try:
        found = machine.call(program(path.read_text(), name=path.stem), "F", [DOCUMENT], results=1, limits=limits)
        kind, text = "answer", repr(default_to_object(found[0]))
    except LuaError as error:
        kind, text = error.kind, str(error)
    except LuaSyntaxError as error:
        kind, text = "script", str(error)
    # Once it is late, nothing of the script runs that could be looked at again.
    assert clock.looks <= MOST_LOOKS + 1
    assert kind in expected(path), text
    for harmless in ("root:", "'found'", "0x", "object at"):
        assert harmless not in text
    assert len(text) < 1300
    if measures:
        # The cap, what one message may be beyond it, and as much for its copy in Python.
        assert peak() - before < limits.memory + (48 << 20)


async def test_requests_go_on_while_slow_scripts_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slow scripts run until the test lets their time be over."""
    over = threading.Event()
    # As long as it goes backwards, a little is left at every look.
    times = count(0, -1)
    clock = lambda: math.inf if over.is_set() else 1e-9 * next(times)  # noqa: E731 - it is passed on
    monkeypatch.setattr("app.interpret.lua.runner.Machine", partial(Machine, clock))
    runner = Runner(Limits(seconds=0, instructions=10**12, memory=16 << 20))
    slow = Program("slow", "slow", program("function F() while true do pcall(string.rep, 'x', 100) end end").text)
    quick = program("function F(a) return a.text end")
    ended: list[str] = []

    async def run_slowly() -> None:
        try:
            returned = runner.run(Call(slow, "F", [DOCUMENT]))
            assert not isinstance(returned, list)
            await returned
        except LuaError as error:
            ended.append(error.kind)

    tasks = [asyncio.create_task(run_slowly()) for _ in range(3)]
    await asyncio.sleep(0)
    for _ in range(200):
        assert runner.run(Call(quick, "F", [DOCUMENT])) == ["secret"]
        await asyncio.sleep(0)
    assert ended == []
    over.set()
    await asyncio.gather(*tasks)
    assert ended == ["deadline"] * 3
    runner.close()
