import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fleethook.admission import Denied, mutate, validate
from fleethook.admission.invocation import find_among
from fleethook.admission.rule import build_request
from fleethook.admission.rules_file import load_rules
from fleethook.engines.hooks import rule_runner
from fleethook.engines.hooks.hooks_settings import HooksSettings
from fleethook.engines.hooks.result_check import find_faults
from fleethook.engines.hooks.rule_runner import CALLS_WITHOUT_PATIENCE, MAX_WAITING, RuleRunner
from fleethook.model.admission import Response
from tests.waiting import until

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "n"}}
REQUEST = build_request(POD, None, operation="CREATE")
NOTHING = find_among(())


@contextmanager
def running(**options: Any) -> Iterator[RuleRunner]:
    made = RuleRunner(HooksSettings(hook_threads=2, hook_settings={"team": "web"}), **options)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
async def runner() -> AsyncIterator[RuleRunner]:
    with running() as made:
        yield made


def ask(runner: RuleRunner, rule: Any) -> asyncio.Task[Response]:
    async def answer() -> Response:
        return await take(runner.answer(rule, REQUEST, NOTHING))

    return asyncio.create_task(answer())


async def take(answer: Response | Awaitable[Response]) -> Response:
    return answer if isinstance(answer, Response) else await answer


@validate("v1", "Pod")
def names_its_thread(settings: Any) -> None:
    raise Denied(f"{threading.current_thread().name} {settings['team']}")


async def test_a_plain_function_runs_in_a_thread(runner: RuleRunner) -> None:
    assert (await ask(runner, names_its_thread)).message.startswith("rules")
    assert (await ask(runner, names_its_thread)).message.endswith("web")


async def test_a_short_function_is_answered_at_once() -> None:
    rule: Any = names_its_thread
    with running(patience=60) as runner:
        answer = runner.answer(rule, REQUEST, NOTHING)
        assert isinstance(answer, Response)
        assert answer.message.startswith("rules")


async def test_the_loop_does_not_wait_for_a_rule_after_it_has_waited_in_vain() -> None:
    release = threading.Event()

    @validate("v1", "Pod", timeout=30)
    def waits() -> None:
        release.wait()

    rule: Any = waits
    with running(patience=0.0001) as runner:
        first = runner.answer(rule, REQUEST, NOTHING)
        assert not isinstance(first, Response)
        runner._patience = 60  # type: ignore[misc]
        release.set()
        assert (await take(first)).allowed
        for _ in range(CALLS_WITHOUT_PATIENCE):
            answer = runner.answer(rule, REQUEST, NOTHING)
            assert not isinstance(answer, Response)
            assert (await take(answer)).allowed
        assert isinstance(runner.answer(rule, REQUEST, NOTHING), Response)


async def test_the_loop_does_not_wait_for_a_rule_about_a_large_object() -> None:
    metadata = {"name": "a", "namespace": "n", "annotations": {"a": "b" * 40_000}}
    request = build_request(POD | {"metadata": metadata}, None, operation="CREATE")
    rule: Any = names_its_thread
    with running(patience=60) as runner:
        answer = runner.answer(rule, request, NOTHING)
        assert not isinstance(answer, Response)
        assert (await answer).code == 403


SHORT = """
from fleethook.admission import mutate

@mutate("apps/v1", "Deployment", failure_policy="Fail")
def rule(pod):
    pod.metadata.setdefault("labels", {})["team"] = "web"
    if pod.metadata.name == "faulty":
        pod.spec = {"replicas": "two"}
    if pod.metadata.name == "long":
        for number in range(500):
            pod.metadata.labels[f"team-{number}"] = "web-or-database"
"""


@pytest.mark.parametrize(
    ("name", "size", "at_once"), [("a", 1, True), ("faulty", 1, False), ("long", 1, False), ("a", 9_000, False)]
)
async def test_a_short_rule_needs_no_thread(tmp_path: Path, name: str, size: int, *, at_once: bool) -> None:
    """Except for a large object, one that the rule makes large, and one with faults: their checks take long."""
    (tmp_path / "rules.py").write_text(SHORT)
    rule = load_rules([tmp_path / "rules.py"])[0]
    metadata = {"name": name, "namespace": "n", "annotations": {"a": "b" * size}}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata}
    request = build_request(deployment, None, operation="CREATE")
    with running(patience=0) as runner:
        answer = runner.answer(rule, request, NOTHING)
        assert isinstance(answer, Response) == at_once
        taken = await take(answer)
        assert taken == runner._call(rule, request, NOTHING)
        assert taken.allowed == (name != "faulty")


async def test_a_coroutine_runs_in_the_loop_of_its_rule(runner: RuleRunner) -> None:
    loops = []

    @validate("v1", "Pod")
    async def remembers() -> None:
        loops.append(asyncio.get_running_loop())

    assert (await ask(runner, remembers)).allowed
    assert (await ask(runner, remembers)).allowed
    assert loops[0] is loops[1] is not asyncio.get_running_loop()


async def test_a_rule_that_stops_its_loop_gets_another_one() -> None:
    @validate("v1", "Pod")
    async def stops(settings: Any) -> None:
        if not stopped:
            stopped.append(threading.current_thread())
            asyncio.get_running_loop().stop()
            await asyncio.sleep(3600)

    stopped: list[threading.Thread] = []
    with running() as runner:
        assert (await ask(runner, stops)).code == 500
        await until(lambda: not stopped[0].is_alive())
        assert (await ask(runner, stops)).allowed
        stopped.clear()
        assert (await ask(runner, stops)).code == 500


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


@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_another_version_of_a_hanging_rule_answers(kind: str) -> None:
    release = threading.Event()

    def decides(settings: Any) -> None:
        if not release.is_set():
            release.wait()
        raise Denied("no")

    async def decides_too(settings: Any) -> None:
        decides(settings)

    def make(function: Any) -> Any:
        return validate("v1", "Pod", name="decides", timeout=30)(function)

    def repaired(settings: Any) -> None:
        raise Denied("repaired")

    async def repaired_too(settings: Any) -> None:
        repaired(settings)

    with running() as runner:
        former = make(decides if kind == "plain" else decides_too)
        hanging = ask(runner, former)
        await until(lambda: runner._worker.count(former.lane) or former.lane in runner._loops)
        runner.forget(former)
        assert (await ask(runner, make(repaired if kind == "plain" else repaired_too))).message == "repaired"
        release.set()
        assert (await hanging).message == "no"


async def test_the_loop_of_a_replaced_rule_ends() -> None:
    @validate("v1", "Pod", timeout=1)
    async def names_its_loop() -> None:
        raise Denied(threading.current_thread().name)

    with running() as runner:
        name = (await ask(runner, names_its_loop)).message
        runner.forget(names_its_loop)  # type: ignore[arg-type]
        await until(lambda: name not in [one.name for one in threading.enumerate()])
        assert (await ask(runner, names_its_loop)).code == 403


@pytest.mark.parametrize("is_async", [False, True], ids=["function", "coroutine"])
async def test_calls_of_a_hanging_rule_are_limited(runner: RuleRunner, *, is_async: bool) -> None:
    release, started = threading.Event(), threading.Event()

    def hang() -> None:
        started.set()
        release.wait()

    async def hang_async() -> None:
        hang()

    hangs: Any = validate("v1", "Pod", failure_policy="Ignore", timeout=30)(hang_async if is_async else hang)
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


IMMUTABLE = """
from fleethook.admission import mutate

@mutate("v1", "Pod", on="UPDATE", failure_policy="Fail")
def short(pod):
    pod.spec.hostNetwork = True

@mutate("v1", "Pod", on="UPDATE", failure_policy="Fail")
def long(pod):
    with open(__file__):
        pod.spec.hostNetwork = True
"""


@pytest.mark.parametrize("name", ["short", "long"])
async def test_a_change_of_an_immutable_field_is_a_failure(runner: RuleRunner, tmp_path: Path, name: str) -> None:
    (tmp_path / "rules.py").write_text(IMMUTABLE)
    rule = next(one for one in load_rules([tmp_path / "rules.py"]) if one.name == name)
    pod = {**POD, "spec": {"containers": [{"name": "a", "image": "a"}]}}
    answer = await take(runner.answer(rule, build_request(pod, pod, operation="UPDATE"), NOTHING))
    assert (answer.allowed, answer.code) == (False, 500)
    assert "its changes are invalid: /spec/hostNetwork: " in answer.message


@pytest.mark.parametrize("function", [change, change_async])
async def test_an_invalid_result_is_a_failure_with_pointers(
    runner: RuleRunner, function: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event loop does not check the result: that takes long for a large object."""

    def find(*arguments: Any) -> list[str]:
        assert threading.current_thread() is not of_loop
        return find_faults(*arguments)

    of_loop = threading.current_thread()
    monkeypatch.setattr(rule_runner, "find_faults", find)
    containers = [{"name": "a", "image": "a", "imagePullPolicy": "Sometimes"}]
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": spec}
    rule: Any = mutate("apps/v1", "Deployment", failure_policy="Fail")(function)
    answer = await take(runner.answer(rule, build_request(deployment, None, operation="CREATE"), NOTHING))
    assert (answer.allowed, answer.code) == (False, 500)
    assert "test_rule_runner.py:" in answer.message
    assert "its changes are invalid: /spec/replicas: " in answer.message
    assert "/spec/template/spec/containers/0/imagePulPolicy: " in answer.message
    # This mistake is not that of the rule.
    assert "Sometimes" not in answer.message


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
async def test_an_expression_of_low_cost_needs_no_thread(expression: str, size: int, *, inline: bool) -> None:
    @validate("v1", "Pod", expression=expression, message="refused")
    def decides() -> None:
        pass

    rule: Any = decides
    annotations = {f"a{number}": "b" for number in range(size)}
    pod = POD | {"metadata": {"name": "a", "namespace": "n", "annotations": annotations}}
    request = build_request(pod, None, operation="CREATE")
    with running(patience=0) as runner:
        answer = runner.answer(rule, request, NOTHING)
        assert isinstance(answer, Response) == inline
        assert await take(answer) == rule.answer(request)
