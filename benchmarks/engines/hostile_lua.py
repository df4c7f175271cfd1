"""The effect of slow scripts on other requests: latencies on the event loop, alone and while hostile scripts run."""

import asyncio
import contextlib
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.engines.lua_scripts import deployment
from fleethook.engines.interpret.lua.lua_machine import LoadedScript, LuaError
from fleethook.engines.interpret.lua.script_layer_and_runner import SCRIPT_LIMITS, Runner, ScriptCall
from fleethook.engines.interpret.lua.script_parser import parse_script

FOLDER = Path(__file__).parents[2] / "tests" / "engines" / "interpret" / "lua" / "hostile"
AT_ONCE = 8
TIMES = 2
ALONE_SECONDS = 3


class Found(NamedTuple):
    """Sorted latencies of requests in seconds, and the outcomes of the hostile scripts."""

    scripts: int
    alone: list[float]
    beside: list[float]
    ended: dict[str, int]


def programs() -> list[LoadedScript]:
    """Return the hostile scripts that the parser accepts; it refuses the others before they run."""
    found = []
    for path in sorted(FOLDER.glob("*.lua")):
        try:
            found.append(LoadedScript(path.stem, path.stem, parse_script(path.read_text()).runnable))
        except ValueError:
            continue
    return found


async def _hostile(runner: Runner, program: LoadedScript, ended: dict[str, int]) -> None:
    try:
        returned = runner.run(ScriptCall(program, "F", [deployment(3)]))
        if not isinstance(returned, list):
            await returned
        kind = "answer"
    except LuaError as error:
        kind = error.kind
    ended[kind] = ended.get(kind, 0) + 1


async def _requests(runner: Runner, until: Callable[[], bool]) -> list[float]:
    quick = LoadedScript("quick", "quick", parse_script("function F(a) return a.spec.replicas end").runnable)
    document = deployment(3)
    latencies = []
    while not until():
        started = time.perf_counter()
        await asyncio.sleep(0)
        runner.run(ScriptCall(quick, "F", [document]))
        latencies.append(time.perf_counter() - started)
        await asyncio.sleep(0.001)
    return sorted(latencies)


async def _feed(runner: Runner, scripts: list[LoadedScript], ended: dict[str, int]) -> None:
    tasks: set[asyncio.Task[Any]] = set()
    for program in scripts * TIMES:
        while len(tasks) >= AT_ONCE:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        task = asyncio.create_task(_hostile(runner, program, ended))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)


class Turns(NamedTuple):
    """Milliseconds of a quick script beside calls of a slow one, and the memory of the process in MiB."""

    calls: int
    latencies: list[float]
    memory: tuple[float, float, float]
    """Before, the maximum meanwhile, and afterwards."""


async def turns(calls: int, seconds: float = 6) -> Turns:
    """Measure a script of some milliseconds while calls of an endless script exceed their deadlines."""
    runner, document = Runner(), {"x": 1}
    quick = _program("quick", "function F(a) for i = 1, 60000 do end return a.x end")
    slow = _program(
        "slow", "function F(a) local t = {} while true do t[#t + 1] = {} if #t > 200000 then t = {} end end end"
    )
    await _run_script(runner, quick, document)
    before, most = _memory(), 0.0
    tasks = [asyncio.create_task(_run_script(runner, slow, document)) for _ in range(calls)]
    latencies: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        started = time.perf_counter()
        await _run_script(runner, quick, document)
        latencies.append((time.perf_counter() - started) * 1e3)
        most = max(most, _memory())
        await asyncio.sleep(0.02)
    await asyncio.gather(*tasks)
    runner.close()
    return Turns(calls, sorted(latencies), (before, most, _memory()))


def _program(name: str, source: str) -> LoadedScript:
    return LoadedScript(name, name, parse_script(source).runnable)


async def _run_script(runner: Runner, program: LoadedScript, document: Any) -> None:
    with contextlib.suppress(LuaError):
        returned = runner.run(ScriptCall(program, "F", [document]))
        if not isinstance(returned, list):
            await returned


def _memory() -> float:
    """Return the resident memory of this process in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / (1 << 20)


async def beside(seconds: float) -> Found:
    """Measure with a deadline of ``seconds`` for each script."""
    scripts, ended = programs(), dict[str, int]()
    runner = Runner(SCRIPT_LIMITS._replace(seconds=seconds))
    end = time.perf_counter() + ALONE_SECONDS
    alone = await _requests(runner, lambda: time.perf_counter() > end)
    feeding = asyncio.create_task(_feed(runner, scripts, ended))
    during = await _requests(runner, feeding.done)
    runner.close()
    return Found(len(scripts), alone, during, ended)
