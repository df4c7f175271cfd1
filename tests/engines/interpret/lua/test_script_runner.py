"""The places where scripts run: on the event loop, or on threads."""

import asyncio
import threading
from typing import Any

import pytest

from fleethook.engines.interpret.lua.lua_machine import FUNCTIONS, LuaError, Machine, ScriptLimits
from fleethook.engines.interpret.lua.script_runner import SCRIPT_LIMITS, Runner, ScriptCall
from fleethook.interpret.typed_fields import InterpretError
from tests.engines.interpret.lua.machines import program

QUICK = program("function F(a) return a.x end")
# More than the limits of the event loop.
SLOW = program("function F(a) for i = 1, 300000 do end return a.x end")
WRONG = program("function F(a) error('no') end")
ENDLESS = program("function F(a) while true do end end")


def make_call(script: Any) -> ScriptCall:
    return ScriptCall(script, "F", [{"x": 7}])


@pytest.fixture
def runner() -> Any:
    made = Runner(SCRIPT_LIMITS._replace(seconds=5))
    yield made
    made.close()


async def test_fast_script_runs_on_the_event_loop(runner: Runner) -> None:
    assert runner.run(make_call(QUICK)) == [7]
    with pytest.raises(LuaError, match="no"):
        runner.run(make_call(WRONG))


async def test_slow_script_is_restarted_on_a_thread(runner: Runner) -> None:
    for _ in range(3):
        returned = runner.run(make_call(SLOW))
        assert not isinstance(returned, list)
        assert await returned == [7]
    assert any(thread.name.startswith("lua") for thread in threading.enumerate())
    assert runner.run(make_call(QUICK)) == [7]


async def test_slow_script_is_retried_on_the_event_loop() -> None:
    tried: list[ScriptLimits] = []

    class Counting(Machine):
        def call(self, *given: Any, limits: ScriptLimits, **rest: Any) -> Any:
            tried.append(limits)
            return super().call(*given, limits=limits, **rest)

    runner = Runner(SCRIPT_LIMITS._replace(seconds=5), calls_until_retry=2, make_machine=Counting)
    for _ in range(4):
        assert await runner.run(make_call(SLOW)) == [7]  # type: ignore[misc]
    runner.close()
    at_once = [limits is not runner.limits for limits in tried]
    # Event loop, then a thread; two calls on a thread; event loop again, then a thread.
    assert at_once == [True, False, False, False, True, False]


async def test_endless_script_fails_at_its_full_limits() -> None:
    runner = Runner(SCRIPT_LIMITS._replace(seconds=0.2, instructions=10**9))
    with pytest.raises(LuaError, match=r"took more than 0\.2 s") as caught:
        await runner.run(make_call(ENDLESS))  # type: ignore[misc]
    assert caught.value.code == 504
    runner.close()


@pytest.mark.parametrize(("limit", "is_shared"), [("max_waiting", False), ("max_waiting_each", True)])
async def test_too_many_calls_fail_with_503(limit: str, *, is_shared: bool) -> None:
    limits: dict[str, Any] = {limit: 2}
    runner = Runner(SCRIPT_LIMITS._replace(seconds=5), **limits)
    runner._slow[SLOW.id] = 50
    tasks = [asyncio.ensure_future(runner.run(make_call(SLOW))) for _ in range(2)]  # type: ignore[arg-type]
    await asyncio.sleep(0)
    with pytest.raises(InterpretError, match="try again later") as caught:
        await runner.run(make_call(SLOW))  # type: ignore[misc]
    assert caught.value.code == 503
    other = program("function F(a) for i = 1, 300001 do end return a.x end")
    runner._slow[other.id] = 50
    if is_shared:
        tasks.append(asyncio.ensure_future(runner.run(make_call(other))))  # type: ignore[arg-type]
    else:
        with pytest.raises(InterpretError, match="try again later"):
            await runner.run(make_call(other))  # type: ignore[misc]
    assert await asyncio.gather(*tasks) == [[7]] * len(tasks)
    assert await runner.run(make_call(SLOW)) == [7]  # type: ignore[misc]
    runner.close()


async def test_machines_are_reused_unless_a_call_reached_a_limit(runner: Runner) -> None:
    runner.run(make_call(QUICK))
    [machine] = runner._idle
    with pytest.raises(LuaError):
        runner.run(make_call(WRONG))
    assert runner._idle == [machine]
    assert await runner.run(make_call(SLOW)) == [7]  # type: ignore[misc]
    assert machine not in runner._idle


def test_a_machine_is_discarded_after_an_unexpected_error(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("unexpected")

    runner.prepare()
    monkeypatch.setitem(FUNCTIONS, "resourceAdd", fail)
    with pytest.raises(RuntimeError, match="unexpected"):
        runner.run(make_call(program("function F(a) return require('kube').resourceAdd('1', '2') end")))
    assert runner._idle == []
