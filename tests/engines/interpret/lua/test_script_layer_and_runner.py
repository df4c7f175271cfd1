"""The places where scripts run: on the event loop, or on threads."""

import asyncio
import contextlib
import threading
from typing import Any

import pytest

from fleethook.engines.interpret.interpreter_chain import Handler
from fleethook.engines.interpret.lua.customization_rules_and_configmap import CustomizationRule, read_customization
from fleethook.engines.interpret.lua.kube_library import FUNCTIONS
from fleethook.engines.interpret.lua.lua_machine import LuaError, Machine, ScriptLimits
from fleethook.engines.interpret.lua.script_layer_and_runner import (
    SCRIPT_LIMITS,
    LuaLayer,
    Runner,
    ScriptCall,
    index_rules,
)
from fleethook.interpret.interpreter import Answer, InterpretError, Question
from fleethook.model.gvk import GroupVersionKind
from fleethook.model.karmada import Operation
from tests.engines.interpret.lua.customization_objects import customization
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


FOO_IN_LAYER = GroupVersionKind("example.com", "v1", "Foo")
OBJECT = {"apiVersion": "example.com/v1", "kind": "Foo", "spec": {"size": 1}}
SCRIPTS = {
    Operation.REPLICA: ("replicaResource", "function GetReplicas(o) {}  end"),
    Operation.RETAIN: ("retention", "function Retain(o, r) {} end"),
    Operation.REVISE_REPLICA: ("replicaRevision", "function ReviseReplica(o, n) {} end"),
    Operation.STATUS: ("statusReflection", "function ReflectStatus(o) {} end"),
    Operation.AGGREGATE_STATUS: ("statusAggregation", "function AggregateStatus(o, items) {} end"),
    Operation.HEALTH: ("healthInterpretation", "function InterpretHealth(o) {} end"),
    Operation.DEPENDENCY: ("dependencyInterpretation", "function GetDependencies(o) {} end"),
}


def rules_of(name: str, operation: Operation, body: str) -> list[CustomizationRule]:
    member, script = SCRIPTS[operation]
    found = read_customization(customization(name, **{member: script.replace("{}", body)}))
    assert not found.problems
    return list(found.rules)


def handler_of(runner: Runner, operation: Operation, *bodies: str, observed: Any = lambda *_: None) -> Handler:
    rules = [rule for number, body in enumerate(bodies) for rule in rules_of(f"foo-{number}", operation, body)]
    layer = LuaLayer("lua", lambda: index_rules(rules), runner, observe=observed)
    found = layer.find(Question(operation, FOO_IN_LAYER, OBJECT))
    assert found is not None
    return found


async def ask(runner: Runner, operation: Operation, *bodies: str, **members: Any) -> Answer:
    answer = handler_of(runner, operation, *bodies).answer(Question(operation, FOO_IN_LAYER, OBJECT, **members))
    found: Answer = answer if isinstance(answer, Answer) else await answer
    return found


@pytest.mark.parametrize(
    ("operation", "body", "text"),
    [
        (Operation.STATUS, "return 7", "foo-0/statusReflection:1: ReflectStatus returned a number, expected an object"),
        (Operation.RETAIN, "\nreturn 'text'", "foo-0/retention:2: Retain returned a string, expected an object"),
        (Operation.REPLICA, "return", "foo-0/replicaResource:1: GetReplicas returned nil, expected a number"),
        (Operation.REPLICA, "return true", "GetReplicas returned a boolean, expected a number"),
        (Operation.REPLICA, "return {}", "GetReplicas returned an empty table, expected a number"),
        (Operation.REPLICA, "return {a = 1}", "GetReplicas returned an object, expected a number"),
        (Operation.REPLICA, "return 1, 'x'", "GetReplicas, second, returned a string, expected an object"),
        # The function ends at any of these lines, so that its own line is named.
        (Operation.HEALTH, "\nif o.x then return true end", "foo-0/healthInterpretation:1: InterpretHealth returned nil"),
        (Operation.HEALTH, "\nif o.x then return true end\nreturn {}",
         "foo-0/healthInterpretation:1: InterpretHealth returned an empty table, expected true or false"),
    ],
)  # fmt: skip
async def test_a_result_of_a_wrong_type_names_the_script_and_its_line(
    runner: Runner, operation: Operation, body: str, text: str
) -> None:
    with pytest.raises(InterpretError) as caught:
        await ask(runner, operation, body)
    assert text in str(caught.value)


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize(("body", "outcome"), [("return true", "answered"), ("error('no')", "script")])
async def test_each_call_is_observed_once_with_its_outcome(
    runner: Runner, body: str, outcome: str, *, large: bool
) -> None:
    seen: list[tuple[str, str]] = []

    def observe(source: str, how: str, _seconds: float) -> None:
        seen.append((source, how))

    handler = handler_of(runner, Operation.HEALTH, body, observed=observe)
    error = contextlib.nullcontext() if outcome == "answered" else pytest.raises(LuaError, match="no")
    with error:
        answer = handler.answer(Question(Operation.HEALTH, FOO_IN_LAYER, OBJECT, large=large))
        assert isinstance(answer, Answer) is not large
        if not isinstance(answer, Answer):
            await answer
    assert seen == [("ResourceInterpreterCustomization foo-0", outcome)]
