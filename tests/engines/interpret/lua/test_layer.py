"""The layer that asks scripts: choosing rules, arguments, answers and outcomes."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from fleethook.engines.interpret.chain import Handler
from fleethook.engines.interpret.lua.customizations import LuaLayer, index_rules
from fleethook.engines.interpret.lua.rules import Rule, read_customization
from fleethook.engines.interpret.lua.runner import Runner
from fleethook.engines.interpret.lua.vm import LuaError
from fleethook.interpret.question import Answer, Question
from fleethook.interpret.typed_members import InterpretError
from fleethook.model.gvk import GroupVersionKind
from fleethook.model.karmada import Operation
from tests.engines.interpret.lua.customization_objects import customization

FOO = GroupVersionKind("example.com", "v1", "Foo")
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


@pytest.fixture
def runner() -> Iterator[Runner]:
    made = Runner()
    yield made
    made.close()


def rules_of(name: str, operation: Operation, body: str) -> list[Rule]:
    member, script = SCRIPTS[operation]
    found = read_customization(customization(name, **{member: script.replace("{}", body)}))
    assert not found.problems
    return list(found.rules)


def handler_of(runner: Runner, operation: Operation, *bodies: str, observed: Any = lambda *_: None) -> Handler:
    rules = [rule for number, body in enumerate(bodies) for rule in rules_of(f"foo-{number}", operation, body)]
    layer = LuaLayer("lua", lambda: index_rules(rules), runner, observe=observed)
    found = layer.find(Question(operation, FOO, OBJECT))
    assert found is not None
    return found


async def ask(runner: Runner, operation: Operation, *bodies: str, **members: Any) -> Answer:
    answer = handler_of(runner, operation, *bodies).answer(Question(operation, FOO, OBJECT, **members))
    found: Answer = answer if isinstance(answer, Answer) else await answer
    return found


def test_the_first_rule_of_an_operation_counts_and_all_of_dependencies() -> None:
    health = [*rules_of("a", Operation.HEALTH, "return true"), *rules_of("b", Operation.HEALTH, "return false")]
    lists = [*rules_of("a", Operation.DEPENDENCY, "return {}"), *rules_of("b", Operation.DEPENDENCY, "return {}")]
    assert index_rules([*health, *lists]) == {
        (FOO, Operation.HEALTH): (health[0],),
        (FOO, Operation.DEPENDENCY): tuple(lists),
    }


def test_a_layer_knows_only_kinds_and_operations_with_scripts(runner: Runner) -> None:
    rules = index_rules(rules_of("a", Operation.HEALTH, "return true"))
    layer = LuaLayer("lua", lambda: rules, runner, observe=lambda *_: None)
    assert layer.knows(FOO, Operation.HEALTH)
    assert not layer.knows(FOO, Operation.STATUS)
    assert list(layer.answers()) == [(FOO, Operation.HEALTH)]
    assert layer.find(Question(Operation.STATUS, FOO, OBJECT)) is None


@pytest.mark.parametrize(
    ("operation", "body", "members", "expected"),
    [
        (Operation.HEALTH, "return o.spec.size == 1", {}, Answer(healthy=True)),
        (Operation.REPLICA, "return 5 / 2, nil", {}, Answer(replicas=2)),
        (Operation.REPLICA, "return 2, {}", {}, Answer(replicas=2)),
        (Operation.STATUS, "return {size = o.spec.size}", {}, Answer(status={"size": 1})),
        (Operation.REVISE_REPLICA, "o.spec.size = n return o", {"replicas": 7},
         Answer(object={**OBJECT, "spec": {"size": 7}})),
        (Operation.RETAIN, "o.spec.size = r.spec.size return o", {"observed": {"spec": {"size": 9}}},
         Answer(object={**OBJECT, "spec": {"size": 9}})),
        (Operation.AGGREGATE_STATUS, "o.spec.size = #items return o", {"items": [{}, {}]},
         Answer(object={**OBJECT, "spec": {"size": 2}})),
        (Operation.AGGREGATE_STATUS, "o.spec.size = items == nil and 8 or 0 return o", {},
         Answer(object={**OBJECT, "spec": {"size": 8}})),
    ],
)  # fmt: skip
async def test_scripts_get_the_arguments_of_their_operation(
    runner: Runner, operation: Operation, body: str, members: Any, expected: Answer
) -> None:
    assert await ask(runner, operation, body, **members) == expected


async def test_dependencies_of_all_scripts_are_united(runner: Runner) -> None:
    bodies = ("return {{kind = 'A'}}", "return {}", "return {{kind = 'B'}}")
    assert (await ask(runner, Operation.DEPENDENCY, *bodies)).dependencies == [{"kind": "A"}, {"kind": "B"}]
    called = handler_of(runner, Operation.DEPENDENCY, *bodies)
    sources = "ResourceInterpreterCustomization foo-0, ResourceInterpreterCustomization foo-1"
    assert called.hook.startswith(sources)


@pytest.mark.parametrize(("operation", "body"), [(Operation.STATUS, "return 7"), (Operation.RETAIN, "return 'text'")])
async def test_a_result_of_a_wrong_type_names_the_script(runner: Runner, operation: Operation, body: str) -> None:
    with pytest.raises(InterpretError, match="ResourceInterpreterCustomization foo-0: "):
        await ask(runner, operation, body)


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
        answer = handler.answer(Question(Operation.HEALTH, FOO, OBJECT, large=large))
        assert isinstance(answer, Answer) is not large
        if not isinstance(answer, Answer):
            await answer
    assert seen == [("ResourceInterpreterCustomization foo-0", outcome)]
