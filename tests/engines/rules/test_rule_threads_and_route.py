import asyncio
import threading
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from fleethook.admission import Denied, validate
from fleethook.admission.rule_in_tests import build_request
from fleethook.admission.store_parameter import find_among
from fleethook.engines.rules.rule_threads_and_route import MAX_OF_WORKSPACE, MAX_WAITING, THREADS, RuleRunner
from fleethook.model.admission import AdmissionRequest, Response
from tests.waiting import until

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "n"}}
REQUEST = build_request(POD, None, operation="CREATE")
UPDATE = build_request({**POD, "spec": {"nodeName": "a"}}, POD, operation="UPDATE")
NOTHING = find_among(())


@contextmanager
def running(rule: Any) -> Iterator[RuleRunner]:
    made = RuleRunner(rule, {"team": "web"})
    try:
        yield made
    finally:
        made.close()


def ask(runner: RuleRunner) -> asyncio.Task[Response]:
    async def answer() -> Response:
        return await take(runner.answer(REQUEST, NOTHING))

    return asyncio.create_task(answer())


async def take(answer: Response | Awaitable[Response]) -> Response:
    return answer if isinstance(answer, Response) else await answer


def names_its_thread(settings: Any) -> None:
    raise Denied(f"{threading.current_thread().name} {settings['team']}")


def make_request(size: int) -> AdmissionRequest:
    metadata = {"name": "a", "namespace": "n", "annotations": {"a": "b" * size}}
    return build_request(POD | {"metadata": metadata}, None, operation="CREATE")


async def test_a_plain_function_runs_in_a_thread_and_the_loop_does_not_wait() -> None:
    with running(validate("v1", "Pod")(names_its_thread)) as runner:
        answer = runner.answer(REQUEST, NOTHING)
        assert not isinstance(answer, Response)
        assert (await answer).message == "rule-names-its-thread_0 web"


@pytest.mark.parametrize(("size", "at_once"), [(1, True), (40_000, False)])
async def test_the_loop_calls_an_inline_function_about_a_small_object(size: int, *, at_once: bool) -> None:
    with running(validate("v1", "Pod", inline=True)(names_its_thread)) as runner:
        answer = runner.answer(make_request(size), NOTHING)
        assert isinstance(answer, Response) == at_once
        name = threading.current_thread().name if at_once else "rule-names-its-thread_0"
        assert (await take(answer)).message == f"{name} web"


async def test_a_coroutine_runs_in_the_loop_of_its_rule() -> None:
    loops = []

    @validate("v1", "Pod")
    async def remembers() -> None:
        loops.append(asyncio.get_running_loop())

    with running(remembers) as runner:
        assert (await ask(runner)).allowed
        assert (await ask(runner)).allowed
    assert loops[0] is loops[1] is not asyncio.get_running_loop()


async def test_a_rule_that_stops_its_loop_gets_another_one() -> None:
    @validate("v1", "Pod", timeout=1)
    async def stops() -> None:
        loops.append(asyncio.get_running_loop())
        if len(loops) == 1:
            loops[0].stop()
            await asyncio.sleep(3600)

    loops: list[asyncio.AbstractEventLoop] = []
    with running(stops) as runner:
        assert (await ask(runner)).code == 500
        await until(loops[0].is_closed)
        assert (await ask(runner)).allowed


@pytest.mark.parametrize("is_async", [False, True], ids=["function", "coroutine"])
async def test_a_hanging_rule_times_out_and_delays_no_other(*, is_async: bool) -> None:
    release = threading.Event()

    def hangs() -> None:
        release.wait()

    async def hangs_too() -> None:
        release.wait()

    try:
        with (
            running(validate("v1", "Pod", timeout=1)(hangs_too if is_async else hangs)) as hanging,
            running(validate("v1", "Pod")(names_its_thread)) as other,
        ):
            waiting = [ask(hanging) for _ in range(THREADS + 1)]
            assert (await ask(other)).code == 403
            answers = await asyncio.gather(*waiting)
            assert [one.code for one in answers] == [500] * len(waiting)
            assert answers[0].message.endswith("no answer after 1 s")
    finally:
        release.set()


@pytest.mark.parametrize(("policy", "code"), [("Fail", 400), ("Ignore", 0)])
async def test_the_failure_policy_decides_about_a_request_that_is_not_for_the_rule(policy: Any, code: int) -> None:
    with running(validate("v1", "Pod", on="CREATE", failure_policy=policy)(names_its_thread)) as runner:
        answer = await take(runner.answer(UPDATE, NOTHING))
    text = "the rule names-its-thread does not decide about this request: the operation is UPDATE, not CREATE"
    assert (answer.code, answer.allowed) == (code, policy == "Ignore")
    assert (answer.warnings[0] if answer.allowed else answer.message).endswith(text)


@pytest.mark.parametrize("is_async", [False, True], ids=["function", "coroutine"])
async def test_a_refusal_stands_if_there_is_no_time_to_ask_about_the_stored_object(*, is_async: bool) -> None:
    release, calls = threading.Event(), list[str]()

    def refuses(request: Any) -> None:
        calls.append(request.operation)
        if request.operation == "CREATE":
            release.wait()
        raise Denied("no")

    async def refuses_too(request: Any) -> None:
        calls.append(request.operation)
        if request.operation == "CREATE":
            await asyncio.get_running_loop().run_in_executor(None, release.wait)
        raise Denied("no")

    rule = validate("v1", "Pod", failure_policy="Ignore", timeout=1)(refuses_too if is_async else refuses)
    with running(rule) as runner:
        try:
            answer = await take(runner.answer(UPDATE, NOTHING))
            assert (answer.message, answer.code) == ("no", 403)
        finally:
            release.set()
        assert (await ask(runner)).message == "no"
        assert calls == ["UPDATE", "CREATE", "CREATE"], "after the answer, the rule is not asked about the update"


async def test_the_loop_asks_an_inline_rule_once() -> None:
    threads = []

    def refuses(_pod: Any) -> None:
        threads.append(threading.current_thread())
        raise Denied("no")

    with running(validate("v1", "Pod", inline=True)(refuses)) as runner:
        assert (await take(runner.answer(UPDATE, NOTHING))).allowed
    assert (threads[0], threading.main_thread() in threads[1:]) == (threading.main_thread(), False)
    assert len(threads) > 1


@pytest.mark.parametrize("is_async", [False, True], ids=["function", "coroutine"])
async def test_calls_of_a_hanging_rule_are_limited(*, is_async: bool) -> None:
    release, started = threading.Event(), threading.Event()

    def hang() -> None:
        started.set()
        release.wait()

    async def hang_async() -> None:
        hang()

    hangs = validate("v1", "Pod", failure_policy="Ignore", timeout=30)(hang_async if is_async else hang)
    with running(hangs) as runner:
        try:
            waiting = [ask(runner) for _ in range(MAX_WAITING)]
            await until(started.is_set)
            answer = await ask(runner)
            assert answer.allowed
            assert answer.warnings[0].endswith(f"{MAX_WAITING} calls of the rule run or wait already")
        finally:
            release.set()
        assert all(one.allowed and not one.warnings for one in await asyncio.gather(*waiting))
        assert (await ask(runner)).warnings == ()


@pytest.mark.parametrize("is_async", [False, True], ids=["function", "coroutine"])
async def test_the_threads_of_a_replaced_rule_end_after_its_calls(*, is_async: bool) -> None:
    release, started = threading.Event(), threading.Event()
    threads = []

    def decide() -> None:
        threads.append(threading.current_thread())
        started.set()
        release.wait()
        raise Denied("no")

    async def decide_async() -> None:
        decide()

    with running(validate("v1", "Pod", timeout=30)(decide_async if is_async else decide)) as runner:
        last = ask(runner)
        await until(started.is_set)
    del runner
    release.set()
    assert (await last).message == "no"
    del last
    await until(lambda: not threads[0].is_alive())


async def test_a_workspace_that_floods_a_rule_leaves_threads_and_room_to_others() -> None:
    held = threading.Event()

    def waits(request: Any) -> None:
        if request.cluster == "loud":
            held.wait()

    with running(validate("v1", "Pod")(waits)) as runner:
        flood = [
            asyncio.ensure_future(take(runner.answer(REQUEST, NOTHING._replace(cluster="loud"))))
            for _ in range(MAX_OF_WORKSPACE)
        ]
        await until(lambda: runner._waiting == MAX_OF_WORKSPACE)
        try:
            more = await take(runner.answer(REQUEST, NOTHING._replace(cluster="loud")))
            assert "50 calls of the rule for this workspace run or wait already" in more.message
            assert (await take(runner.answer(REQUEST, NOTHING._replace(cluster="quiet")))).allowed
        finally:
            held.set()
        assert all(one.allowed for one in await asyncio.gather(*flood))
