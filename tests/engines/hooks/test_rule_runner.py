import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import pytest

from fleethook.admission import Denied, mutate, validate
from fleethook.admission.objects import find_among
from fleethook.admission.rule import build_request
from fleethook.engines.hooks.hooks_settings import HooksSettings
from fleethook.engines.hooks.rule_runner import MAX_WAITING, RuleRunner
from fleethook.model.admission import Response
from tests.waiting import until

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "n"}}
REQUEST = build_request(POD, None, operation="CREATE")
NOTHING = find_among(())


@pytest.fixture
async def runner() -> AsyncIterator[RuleRunner]:
    made = RuleRunner(HooksSettings(hook_threads=2, hook_settings={"team": "web"}))
    yield made
    made.close()


def ask(runner: RuleRunner, rule: Any) -> asyncio.Task[Response]:
    return asyncio.create_task(runner.answer(rule, REQUEST, NOTHING))


@validate("v1", "Pod")
def names_its_thread(settings: Any) -> None:
    raise Denied(f"{threading.current_thread().name} {settings['team']}")


async def test_a_plain_function_runs_in_a_thread(runner: RuleRunner) -> None:
    assert (await ask(runner, names_its_thread)).message.startswith("rules")
    assert (await ask(runner, names_its_thread)).message.endswith("web")


async def test_a_coroutine_runs_in_the_loop_of_its_rule(runner: RuleRunner) -> None:
    loops = []

    @validate("v1", "Pod")
    async def remembers() -> None:
        loops.append(asyncio.get_running_loop())

    assert (await ask(runner, remembers)).allowed
    assert (await ask(runner, remembers)).allowed
    assert loops[0] is loops[1] is not asyncio.get_running_loop()


@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_a_hanging_rule_times_out_and_delays_no_other(runner: RuleRunner, kind: str) -> None:
    release = threading.Event()

    def hangs() -> None:
        release.wait()

    async def hangs_too() -> None:
        release.wait()

    rule = validate("v1", "Pod", timeout=1)(hangs if kind == "plain" else hangs_too)
    try:
        waiting = [ask(runner, rule) for _ in range(3)]
        assert (await ask(runner, names_its_thread)).code == 403
        answers = await asyncio.gather(*waiting)
        assert [one.code for one in answers] == [500] * 3
        assert answers[0].message.endswith("no answer after 1 s")
        assert (await ask(runner, names_its_thread)).code == 403
    finally:
        release.set()


async def test_calls_of_a_hanging_rule_are_limited(runner: RuleRunner) -> None:
    release, started = threading.Event(), threading.Event()

    @validate("v1", "Pod", failure_policy="Ignore", timeout=30)
    def hangs() -> None:
        started.set()
        release.wait()

    try:
        waiting = [ask(runner, hangs) for _ in range(MAX_WAITING)]
        await until(started.is_set)
        answer = await ask(runner, hangs)
        assert answer.allowed
        assert answer.warnings[0].endswith(f"{MAX_WAITING} calls of the rule run or wait already")
    finally:
        release.set()
    assert all(one.allowed and not one.warnings for one in await asyncio.gather(*waiting))
    assert (await ask(runner, hangs)).warnings == ()


def change(document: Any) -> None:
    document.spec.replicas = "two"
    document.spec.template.spec.containers[0].imagePulPolicy = "Always"


async def change_async(document: Any) -> None:
    change(document)


@pytest.mark.parametrize("function", [change, change_async])
async def test_an_invalid_result_is_a_failure_with_pointers(runner: RuleRunner, function: Any) -> None:
    containers = [{"name": "a", "image": "a", "imagePullPolicy": "Sometimes"}]
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": spec}
    rule: Any = mutate("apps/v1", "Deployment", failure_policy="Fail")(function)
    answer = await runner.answer(rule, build_request(deployment, None, operation="CREATE"), NOTHING)
    assert (answer.allowed, answer.code) == (False, 500)
    assert "test_rule_runner.py:" in answer.message
    assert "its changes are invalid: /spec/replicas: " in answer.message
    assert "/spec/template/spec/containers/0/imagePulPolicy: " in answer.message
    # This mistake is not that of the rule.
    assert "Sometimes" not in answer.message


def take_first_step(work: Coroutine[Any, Any, Response]) -> Response | None:
    """Return the answer of a call that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as end:
        answer: Response = end.value
        return answer
    work.close()
    return None


@pytest.mark.parametrize(
    ("expression", "size", "inline"),
    [
        ("object.kind == 'Pod'", 1, True),
        ("object.kind == 'Deployment'", 1, True),
        ("object.kind == 'Pod'", 40_000, False),
        ("object.metadata.annotations.all(a, object.metadata.annotations.all(b, a != '' && b != ''))", 60, False),
        ("object.spec.missing == 1", 1, False),
    ],
)
async def test_an_expression_of_low_cost_needs_no_thread(
    runner: RuleRunner, expression: str, size: int, *, inline: bool
) -> None:
    @validate("v1", "Pod", expression=expression, message="refused")
    def decides() -> None:
        pass

    rule: Any = decides
    annotations = {f"a{number}": "b" for number in range(size)}
    pod = POD | {"metadata": {"name": "a", "namespace": "n", "annotations": annotations}}
    request = build_request(pod, None, operation="CREATE")
    assert (take_first_step(runner.answer(rule, request, NOTHING)) is not None) == inline
    assert await runner.answer(rule, request, NOTHING) == rule.answer(request)
