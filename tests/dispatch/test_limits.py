"""The limits of one request, and the answer of a server that has no room for a call."""

import asyncio
import time
from typing import Any

import pytest

from app.dispatch.call import Deadline
from app.dispatch.dispatcher import DispatchResult
from app.dispatch.explain import explain
from app.dispatch.hooks import Phase
from app.dispatch.limits import RequestLimits
from app.outbound.breaker import FAILURES
from app.outbound.client import HookClient, Parties
from app.outbound.slots import Quotas
from tests.dispatch.builders import binding, configuration, export, request_of, review, store_of
from tests.dispatch.conftest import Front
from tests.dispatch.webhook_server import Webhooks, allow, deny, hook, label
from tests.waiting import NET, until

PHASES: tuple[Phase, ...] = ("mutating", "validating")
POLICIES = ("Fail", "Ignore")


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("phase", PHASES)
async def test_a_request_for_too_many_webhooks_is_refused_by_the_name_of_the_limit(
    front: Front, server: Webhooks, phase: Phase, policy: str
) -> None:
    server.answers["/w"] = allow
    limits = RequestLimits(webhooks=3)
    for count, allowed in ((3, True), (4, False)):
        server.calls.clear()
        hooks = [hook(server, "/w", f"w{number}.example.org", failurePolicy=policy) for number in range(count)]
        store = store_of(configuration("ws2", phase, *hooks))
        response = (await front.dispatch(store, review(), cluster="ws2", phase=phase, limits=limits)).response
        assert response.allowed is allowed
    assert (response.code, response.message) == (
        403,
        (
            'widgets.example.org "b" is forbidden: it matches more than 3 webhooks, the limit of one request '
            "(setting dispatch_request_webhooks)"
        ),
    )
    assert len(server.calls) == (0 if phase == "validating" else 3)


async def test_a_webhook_that_is_called_again_counts_again(front: Front, server: Webhooks) -> None:
    server.answers["/first"] = label("seen")
    server.answers["/second"] = label("changed")
    hooks = (
        hook(server, "/first", "first.example.org", reinvocationPolicy="IfNeeded"),
        hook(server, "/second", "second.example.org"),
    )
    store = store_of(configuration("ws2", "mutating", *hooks))
    for limit, allowed in ((3, True), (2, False)):
        limits = RequestLimits(webhooks=limit)
        found = await front.dispatch(store, review(), cluster="ws2", phase="mutating", limits=limits)
        assert found.response.allowed is allowed


def asking(server: Webhooks, number: int, questions: int, policy: str) -> Any:
    conditions = [
        {"name": f"c{one}", "expression": f"authorizer.path('/{number}/{one}').check('get').allowed()"}
        for one in range(questions)
    ]
    return hook(server, "/w", f"w{number}.example.org", failurePolicy=policy, matchConditions=conditions)


class Apiserver:
    """Answers SubjectAccessReviews, and counts them."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.most = 0
        self.open = 0
        self.answering = asyncio.Event()
        self.answering.set()

    async def post(self, _method: str, path: str, **_: Any) -> Any:
        self.asked.append(path)
        self.open += 1
        self.most = max(self.most, self.open)
        await self.answering.wait()
        await asyncio.sleep(0)
        self.open -= 1
        return {"status": {"allowed": True}}

    def scope(self, cluster: str) -> str:
        return f"/clusters/{cluster}"

    async def read_one(self, *_: Any, **__: Any) -> None:
        return


async def dispatch(front: Front, apiserver: Apiserver, *hooks: Any, **rest: Any) -> DispatchResult:
    store = store_of(configuration("ws2", "validating", *hooks))
    return await front.dispatch(store, review(), cluster="ws2", post=apiserver.post, live=apiserver, **rest)


@pytest.mark.parametrize("policy", POLICIES)
async def test_a_request_with_too_many_access_reviews_is_refused_by_the_name_of_the_limit(
    front: Front, server: Webhooks, policy: str
) -> None:
    server.answers["/w"] = allow
    hooks = [asking(server, number, 2, policy) for number in range(32)]
    apiserver = Apiserver()
    assert (await dispatch(front, apiserver, *hooks)).response.allowed
    assert len(apiserver.asked) == 64
    assert apiserver.most <= 8
    server.calls.clear()
    found = await dispatch(front, apiserver, *hooks, asking(server, 32, 2, policy))
    assert (found.response.allowed, found.response.code) == (False, 403)
    assert found.response.message == (
        'widgets.example.org "b" is forbidden: its matchConditions ask the authorizer more than 64 questions, which is '
        "the limit (setting dispatch_request_access_reviews)"
    )
    assert len(apiserver.asked) == 128
    assert server.calls == []


async def test_access_reviews_of_one_consumer_leave_room_for_another_one(front: Front, server: Webhooks) -> None:
    server.answers["/w"] = allow
    apiserver = Apiserver()
    apiserver.answering.clear()
    store = store_of(*(configuration(name, "validating", asking(server, 1, 2, "Fail")) for name in ("ws2", "ws3")))
    dispatcher = front.dispatcher(store, post=apiserver.post, live=apiserver)

    async def ask(cluster: str) -> DispatchResult:
        return await front.dispatch_by(dispatcher, review(), cluster=cluster)

    attacking = [asyncio.create_task(ask("ws2")) for _ in range(20)]
    await until(lambda: len(apiserver.asked) == 8)
    victim = asyncio.create_task(ask("ws3"))
    await until(lambda: len(apiserver.asked) == 10)
    assert apiserver.asked[-2:] == ["/clusters/ws3/apis/authorization.k8s.io/v1/subjectaccessreviews"] * 2
    apiserver.answering.set()
    assert (await victim).response.allowed
    assert all(found.response.allowed for found in await asyncio.gather(*attacking))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("phase", PHASES)
async def test_a_call_without_room_refuses_the_request_whatever_the_policy(
    server: Webhooks, phase: Phase, policy: str
) -> None:
    server.answers["/w"] = deny("the webhook's own verdict")
    server.hold.clear()
    store = store_of(configuration("ws2", phase, hook(server, "/w", failurePolicy=policy)))
    async with HookClient(allow_private=True, quotas=Quotas(connections=1)) as client:
        front = Front(client)
        first = asyncio.create_task(front.dispatch(store, review(), cluster="ws2", phase=phase, seconds=NET))
        await until(lambda: server.calls)
        response = (await front.dispatch(store, review(), cluster="ws2", phase=phase, seconds=0.2)).response
        assert (response.allowed, response.code, response.reason) == (False, 429, "TooManyRequests")
        assert response.message == (
            'admission webhook "w.example.org" was not called: failed to call webhook: '
            f'Post "https://127.0.0.1:{server.port}/w?timeout=1s": this server calls it 1 times at once for logical '
            "cluster 'ws2', which is the limit (setting dispatch_workspace_connections); try again later"
        )
        server.hold.set()
        assert "the webhook's own verdict" in (await first).response.message


@pytest.mark.parametrize("phase", PHASES)
async def test_a_callers_short_time_does_not_get_it_past_a_webhook_that_ignores_failures(
    front: Front, server: Webhooks, phase: Phase
) -> None:
    server.answers["/w"] = deny("too late")
    server.hold.clear()
    store = store_of(configuration("ws2", phase, hook(server, "/w", failurePolicy="Ignore")))
    for _ in range(FAILURES + 1):
        # By a clock that stands still the request never runs out of time: it is the call that was cut short.
        found = await front.dispatch(store, review(), cluster="ws2", phase=phase, seconds=0.1, clock=lambda: 0.0)
        assert (found.response.allowed, found.response.code, found.response.reason) == (False, 504, "Timeout")
    server.hold.set()
    response = (await front.dispatch(store, review(), cluster="ws2", phase=phase)).response
    assert "too late" in response.message, "five short times say nothing against the webhook"


def shared(server: Webhooks, *, seconds: int = 30, **members: Any) -> Any:
    hooks = [hook(server, "/w", timeoutSeconds=seconds, **members)]
    bindings = [binding(cluster, "ws1", "widgets.example.org") for cluster in ("ws2", "ws3")]
    return store_of(export("ws1", "widgets.example.org"), configuration("ws1", "validating", *hooks), *bindings)


async def open_breaker(front: Front, server: Webhooks, policy: str) -> None:
    """Have a webhook that may take a second give no answer: one that may take longer has the same breaker."""
    store = shared(server, seconds=1, failurePolicy=policy)
    server.hold.clear()
    (found,) = (
        await front.dispatcher(store).find_target(request_of(review()), cluster="ws2", phase="validating")
    ).relevant
    assert found.hook.endpoint
    for _ in range(FAILURES):
        await front.dispatch(store, review(), cluster="ws2")
    assert front.client.is_silent(found.hook.endpoint, Parties("ws1", "ws2"))
    server.hold.set()


async def test_an_open_breaker_never_admits_what_the_webhook_denies(front: Front, server: Webhooks) -> None:
    server.answers["/w"] = deny("forbidden")
    store = shared(server, failurePolicy="Ignore")
    await open_breaker(front, server, "Ignore")
    made = [front.dispatch(store, review(), cluster=cluster) for _ in range(10) for cluster in ("ws2", "ws3")]
    responses = [found.response for found in await asyncio.gather(*made)]
    assert [response.allowed for response in responses] == [False] * 20
    assert all("forbidden" in response.message for response in responses)


async def test_an_open_breaker_refuses_only_beside_a_call_that_tries_again(front: Front, server: Webhooks) -> None:
    server.answers["/w"] = allow
    store = shared(server, failurePolicy="Fail")
    await open_breaker(front, server, "Fail")
    for _ in range(3):
        assert (await front.dispatch(store, review(), cluster="ws2")).response.allowed
    await open_breaker(front, server, "Fail")
    made = [front.dispatch(store, review(), cluster="ws3") for _ in range(5)]
    assert all(found.response.allowed for found in await asyncio.gather(*made))


@pytest.mark.parametrize(
    ("policy", "text"),
    [("Fail", "other requests are refused at once"), ("Ignore", "it is called all the same")],
)
async def test_explaining_says_that_a_breaker_is_open_and_what_that_means(
    front: Front, server: Webhooks, policy: str, text: str
) -> None:
    server.answers["/w"] = allow
    store = shared(server, failurePolicy=policy)
    await open_breaker(front, server, policy)
    dispatcher, deadline = front.dispatcher(store), Deadline(time.monotonic() + NET)
    notes = {
        cluster: (await explain(dispatcher, request_of(review()), cluster=cluster, deadline=deadline))
        .validating[0]
        .notes
        for cluster in ("ws2", "ws3")
    }
    assert notes["ws3"] == ()
    assert text in notes["ws2"][0]
    assert f"failurePolicy {policy}" in notes["ws2"][0]


async def test_explaining_says_that_a_request_goes_to_too_many_webhooks(front: Front, server: Webhooks) -> None:
    hooks = [hook(server, "/w", f"w{number}.example.org") for number in range(4)]
    store = store_of(configuration("ws2", "validating", *hooks))
    deadline = Deadline(time.monotonic() + NET)
    text = (
        "the request is refused in the validating phase: it matches more than 3 webhooks, the limit of one request "
        "(setting dispatch_request_webhooks)"
    )
    for limit, notes in ((4, ()), (3, (text,))):
        dispatcher = front.dispatcher(store, limits=RequestLimits(webhooks=limit))
        found = await explain(dispatcher, request_of(review()), cluster="ws2", deadline=deadline)
        assert found.notes == notes
