"""The routes below ``/clusters/{cluster}``."""

import asyncio
import base64
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from fleethook.app import Fleethook, create_app
from fleethook.engines.dispatch.review.cluster_endpoint import RequestQuota
from fleethook.fair_limits import LimitError
from fleethook.patch import apply
from fleethook.server.protocol.bodies import BodyBudget, BodyCharge
from fleethook.server.protocol.connections import Connections
from fleethook.server.reviews.http_checks import CONNECTION, EXTENSION
from fleethook.settings import Settings
from tests.asgi_client import Answer, call
from tests.engines.dispatch.builders import binding, configuration, export, review, webhook, widget, workspace
from tests.engines.dispatch.webhook_server import Webhooks, allow, deny, patch, webhooks
from tests.waiting import until, with_patience_async

BOUND = (binding("ws3", "ws1", "widgets.example.org"), export("ws1", "widgets.example.org"))


@pytest.fixture
def lines() -> list[dict[str, Any]]:
    return []


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Webhooks]:
    async with webhooks(tmp_path) as made:
        yield made


@pytest.fixture
async def app(lines: list[dict[str, Any]], server: Webhooks) -> AsyncIterator[Fleethook]:
    made = create_app(Settings(body_limit=200_000), log=lambda line: lines.append(json.loads(line)))
    hook = webhook(clientConfig=server.client_config("/w"))
    for document in (
        *BOUND, configuration("ws1", "mutating", hook), configuration("ws1", "validating", hook),
    ):  # fmt: skip
        made.store.put(document)
    async with made.router.lifespan_context(made):
        yield made


async def ask(app: Fleethook, path: str, made: Any = None, **rest: Any) -> Any:
    return await call(app, path, json.dumps(made or review()).encode(), **rest)


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
async def test_a_review_is_answered_in_the_version_that_asked(app: Fleethook, server: Webhooks, version: str) -> None:
    server.answers["/w"] = deny("too large", code=403, reason="Forbidden")
    made = {**review(), "apiVersion": f"admission.k8s.io/{version}"}
    answer = (await ask(app, "/clusters/ws3/validate", made)).json()
    message = 'admission webhook "w.example.org" denied the request: too large'
    status = {"status": "Failure", "message": message, "reason": "Forbidden", "code": 403}
    assert answer == {
        "apiVersion": f"admission.k8s.io/{version}",
        "kind": "AdmissionReview",
        "response": {"uid": "u-1", "allowed": False, "status": status},
    }


async def test_the_mutating_chain_is_answered_as_one_patch(app: Fleethook, server: Webhooks) -> None:
    server.answers["/w"] = patch({"op": "add", "path": "/spec/colour", "value": "red"}, warnings=["careful"])
    response = (await ask(app, "/clusters/ws3/mutate")).json()["response"]
    assert response["allowed"] is True
    assert response["patchType"] == "JSONPatch"
    assert apply(widget(), json.loads(base64.b64decode(response["patch"]))) == widget(colour="red")
    assert response["warnings"] == ["careful"]
    called = {"configuration": "hooks", "webhook": "w.example.org", "mutated": True}
    annotations = response["auditAnnotations"]
    assert json.loads(annotations["mutation.webhook.admission.k8s.io/round_0_index_0"]) == called


async def test_explaining_lists_the_webhooks_and_calls_none(app: Fleethook, server: Webhooks) -> None:
    found = (await ask(app, "/clusters/ws3/explain")).json()
    assert (found["cluster"], found["owner"]["cluster"], found["owner"]["case"]) == ("ws3", "ws1", "bound")
    assert [one["decision"] for one in (*found["mutating"], *found["validating"])] == ["call", "call"]
    assert server.calls == []


async def test_a_cluster_may_be_named_by_its_path(app: Fleethook, server: Webhooks) -> None:
    server.answers["/w"] = allow
    for one in (workspace("root", "org", "1abc"), workspace("1abc", "team", "ws3")):
        app.store.put(one)
    await ask(app, "/clusters/root:org:team/validate")
    assert server.calls[0].object["metadata"]["annotations"] == {"kcp.io/cluster": "ws3"}


@pytest.mark.parametrize("cluster", ["*", "", "Upper", "a/b", "{cluster}", "a:", "../x"])
async def test_a_path_without_a_single_cluster_is_not_found(app: Fleethook, server: Webhooks, cluster: str) -> None:
    answer = await ask(app, f"/clusters/{cluster}/validate")
    assert answer.status == 404
    assert server.calls == []


async def test_another_verb_is_not_found(app: Fleethook) -> None:
    assert (await ask(app, "/clusters/ws3/explode")).status == 404


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}'])
@pytest.mark.parametrize("verb", ["mutate", "validate", "explain"])
async def test_a_body_without_a_review_is_a_bad_request(app: Fleethook, body: bytes, verb: str) -> None:
    answer = await call(app, f"/clusters/ws3/{verb}", body)
    assert (answer.status, answer.json()["kind"]) == (400, "Status")


@pytest.mark.parametrize("verb", ["mutate", "validate"])
async def test_a_review_that_cannot_be_read_is_refused_with_its_uid(app: Fleethook, verb: str) -> None:
    made = review(operation="GUESS")
    response = (await ask(app, f"/clusters/ws3/{verb}", made)).json()["response"]
    assert (response["uid"], response["allowed"], response["status"]["code"]) == ("u-1", False, 400)


@pytest.mark.parametrize(
    ("broken", "text"),
    [
        ({"metadata": []}, "request.object.metadata is not an object"),
        ({"metadata": {"annotations": "x"}}, "request.object.metadata.annotations is not an object"),
    ],
)
async def test_an_object_with_invalid_metadata_is_refused(app: Fleethook, broken: Any, text: str) -> None:
    made = review()
    made["request"]["object"] = {**widget(), **broken}
    response = (await ask(app, "/clusters/ws3/validate", made)).json()["response"]
    assert (response["allowed"], response["status"]["message"]) == (False, text)
    assert (await ask(app, "/clusters/ws3/explain", made)).status == 400


async def test_a_defect_is_answered_to_the_uid_and_logged(app: Fleethook, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("fleethook.engines.dispatch.dispatcher.find_owner", broken)
    status = (await ask(app, "/clusters/ws3/validate")).json()["response"]["status"]
    assert status["message"] == "fleethook failed to answer; its log has the reason under uid u-1"


async def test_a_log_line_names_the_owner_and_the_number_of_webhooks(
    app: Fleethook, server: Webhooks, lines: list[dict[str, Any]]
) -> None:
    server.answers["/w"] = allow
    await ask(app, "/clusters/ws3/validate")
    (line,) = lines
    expected = {
        "route": "/clusters/{cluster}/validate", "cluster": "ws3", "owner": "ws1", "ownerCase": "bound", "hooks": 1,
        "uid": "u-1", "allowed": True, "operation": "CREATE", "name": "b",
    }  # fmt: skip
    assert {name: line[name] for name in expected} == expected


async def test_webhook_calls_carry_the_callers_timeout(app: Fleethook, server: Webhooks) -> None:
    server.answers["/w"] = allow

    async def told(_: float) -> str:
        await ask(app, "/clusters/ws3/validate", query=b"timeout=3s")
        return server.calls[-1].query

    # It is less where the machine took a second before the webhook was asked.
    assert await with_patience_async(told, lambda told: told == "timeout=3s") == "timeout=3s"


async def test_a_request_waits_until_the_objects_are_read(app: Fleethook, server: Webhooks) -> None:
    server.answers["/w"] = allow
    app.engines["dispatch"].synced.clear()
    asked = asyncio.create_task(ask(app, "/clusters/ws3/validate"))
    await asyncio.sleep(0)
    assert not asked.done()
    app.engines["dispatch"].synced.set()
    assert (await asked).json()["response"]["allowed"] is True


async def test_a_request_that_cannot_wait_longer_for_the_objects_is_refused(app: Fleethook, server: Webhooks) -> None:
    app.engines["dispatch"].synced.clear()
    answer = (await ask(app, "/clusters/ws3/validate", query=b"timeout=50ms")).json()["response"]
    status = answer["status"]
    assert (answer["allowed"], status["code"], status["reason"]) == (False, 403, "Forbidden")
    assert status["message"] == 'widgets.example.org "b" is forbidden: not yet ready to handle request'
    assert (await ask(app, "/clusters/ws3/explain", query=b"timeout=50ms")).status == 503
    assert server.calls == []


@pytest.mark.parametrize("verb", ["mutate", "validate"])
async def test_a_webhook_that_passes_reviews_on_to_fleethook_is_called_once(
    app: Fleethook, server: Webhooks, verb: str
) -> None:
    """Under an address that the server does not know, through a proxy that keeps headers."""

    async def pass_on(_: Any) -> Any:
        headers = {"content-type": "application/json", **server.headers[-1]}
        inner = await call(app, f"/clusters/ws3/{verb}", json.dumps(server.calls[-1].review).encode(), headers=headers)
        return inner.json()["response"]

    server.answers["/w"] = pass_on
    response = (await ask(app, f"/clusters/ws3/{verb}")).json()["response"]
    assert server.paths == ["/w"]
    assert not response["allowed"]
    message = response["status"]["message"]
    assert message.startswith('admission webhook "w.example.org" denied the request: fleethook dispatched this review')


class SlowCaller:
    """A caller that sends a large review in two pieces, the second one when it may."""

    def __init__(self, app: Fleethook, path: str, connections: Connections, accepted: socket.socket) -> None:
        self.app, self.path = app, path
        self.connection = connections.admit(accepted, ("10.0.0.1", 1))
        document = {**widget(), "text": "x" * 100_000}
        document["metadata"]["annotations"] = {"kcp.io/cluster": "ws3"}
        self.body = json.dumps(review(document)).encode()
        self.is_read = False
        self.may_finish = asyncio.Event()
        self.answer = asyncio.create_task(self.ask())

    async def ask(self) -> Answer:
        return await call(
            self._receive_pieces, self.path, self.body[:1000], self.body[1000:],
            extensions={EXTENSION: {CONNECTION: self.connection, "names": frozenset({"kcp"})}},
        )  # fmt: skip

    async def _receive_pieces(self, scope: Any, receive: Any, send: Any) -> None:
        async def receive_slowly() -> Any:
            if self.is_read:
                await self.may_finish.wait()
            self.is_read = True
            return await receive()

        await self.app(scope, receive_slowly, send)


async def test_large_reviews_count_to_their_cluster_before_they_are_read(server: Webhooks) -> None:
    server.answers["/w"] = allow
    app = create_app(Settings(max_connections=2), log=None)
    for document in (*BOUND, configuration("ws1", "validating", webhook(clientConfig=server.client_config("/w")))):
        app.store.put(document)
    ours, theirs = socket.socketpair()
    async with app.router.lifespan_context(app):
        with ours, theirs:
            connections = Connections(10)
            clusters = ("ws3", "ws3", "ws3", "ws3", "ws4")
            callers = [SlowCaller(app, f"/clusters/{name}/validate", connections, ours) for name in clusters]
            first, beyond, leaving, waiting, other = callers
            await until(lambda: first.is_read and beyond.is_read and other.is_read, what="bodies are read")
            await until(lambda: app.bodies.total > 0, what="their first pieces are charged")
            assert [caller.connection.client for caller in callers] == [f"logical cluster {name}" for name in clusters]
            assert app.engines["dispatch"].requests.in_flight == {"ws3": 1, "ws4": 1}
            free = app.bodies.limit - app.bodies.total
            assert not app.bodies.take("logical cluster ws3", free)
            assert app.bodies.take("10.0.0.1", free), "nothing counts to the address"
            app.bodies.release("10.0.0.1", free)
            assert not leaving.is_read
            assert not waiting.is_read
            connections.remove(leaving.connection)
            assert (await leaving.answer).status == 0, "its wait has ended with its connection"
            beyond.may_finish.set()
            await until(lambda: waiting.is_read, what="the next one has its turn")
            assert [(await beyond.answer).json()["response"]["status"]["code"]] == [429]
            for caller in (first, waiting, other):
                caller.may_finish.set()
            assert (await first.answer).json()["response"]["allowed"]
            assert (await other.answer).json()["response"]["uid"] == "u-1"
            await waiting.answer
    assert app.engines["dispatch"].requests.in_flight == {}
    assert app.bodies.total == 0


async def test_few_large_reviews_are_read_before_their_cluster_is_known(server: Webhooks, tmp_path: Path) -> None:
    server.answers["/w"] = allow
    settings = Settings(max_connections=1, dispatch_callers=["kcp"], client_ca_file=tmp_path / "ca.crt")
    app = create_app(settings, log=None)
    for document in (*BOUND, configuration("ws1", "validating", webhook(clientConfig=server.client_config("/w")))):
        app.store.put(document)
    ours, theirs = socket.socketpair()
    async with app.router.lifespan_context(app):
        with ours, theirs:
            connections = Connections(10)
            callers = [SlowCaller(app, "/dispatch/validate", connections, ours) for _ in range(2)]
            server.hold.clear()
            await until(lambda: callers[0].is_read, what="the first body is read")
            await asyncio.sleep(0)
            assert not callers[1].is_read
            assert callers[0].connection.client == "10.0.0.1"
            callers[0].may_finish.set()
            await until(lambda: callers[1].is_read, what="the second body is read, once the first cluster is known")
            assert callers[0].connection.client == "logical cluster ws3"
            assert not callers[0].answer.done()
            server.hold.set()
            callers[1].may_finish.set()
            assert (await callers[0].answer).json()["response"]["allowed"]
            await callers[1].answer


def test_a_quota_forgets_consumers_without_requests() -> None:
    quota = RequestQuota(2)
    with quota.hold("ws2"):
        with (
            quota.hold("ws3"),
            pytest.raises(LimitError, match=r"1 requests of logical cluster ws2 .* max_connections"),
            quota.hold("ws2"),
        ):
            pass
        assert quota.in_flight == {"ws2": 1}
    with pytest.raises(ZeroDivisionError), quota.hold("ws2"):
        _ = 1 / 0
    assert quota.in_flight == {}


@pytest.mark.parametrize("consumers", [1, 2, 4])
def test_consumers_share_the_requests_and_leave_room_for_the_next_one(consumers: int) -> None:
    quota = RequestQuota(10)
    with contextlib.ExitStack() as held:
        for _ in range(10):
            for number in range(consumers):
                with contextlib.suppress(LimitError):
                    held.enter_context(quota.hold(f"ws{number}"))
        assert max(quota.in_flight.values()) - min(quota.in_flight.values()) <= 1
        assert sum(quota.in_flight.values()) in (5, 7, 8, 9)
        with quota.hold("next"):
            pass


def test_bodies_count_to_the_consumer_and_leave_room_for_the_next_one() -> None:
    budget, quota = BodyBudget(1000), RequestQuota(100)
    charges = [BodyCharge(budget, "10.0.0.1") for _ in range(5)]
    with contextlib.ExitStack() as held:
        for charge in charges[:4]:
            assert charge.take(200)
            if charge is not charges[3]:
                held.enter_context(quota.hold("ws2", charge, size=200))
            else:
                with pytest.raises(LimitError, match="ws2 hold its share of body_memory"):
                    held.enter_context(quota.hold("ws2", charge, size=200))
                charge.give_back()
        assert charges[4].take(200), "the address of all tenants holds nothing, so the next body has room"
        held.enter_context(quota.hold("ws3", charges[4], size=200))
        # A body that is not charged yet needs room for all that it may be decoded to.
        with pytest.raises(LimitError), quota.hold("ws3", BodyCharge(budget, "10.0.0.1"), size=200):
            pass
    for charge in charges:
        charge.give_back()
    assert budget.total == 0
