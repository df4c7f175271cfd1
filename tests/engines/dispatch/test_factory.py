"""Dispatchers are built with and without an apiserver."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from fleethook.cel.evaluation import AccessDecision, AccessQuestion
from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.store import Store
from fleethook.engines.dispatch.call.call import Deadline
from fleethook.engines.dispatch.call.call_trace import ACCESS_REVIEW, encode_failure, name_question
from fleethook.engines.dispatch.dispatch_errors import StatusError, too_many_requests
from fleethook.engines.dispatch.dispatcher import NAMESPACE, Dependencies, DispatchResult
from fleethook.engines.dispatch.factory import answer_from_records, authorize, build_offline_dispatcher, read_namespace
from fleethook.outbound.call_limits import CallSlots, Quotas
from fleethook.recordings.recording_format import Call
from fleethook.recordings.replay.recorded_calls import CallName, ReviewCalls, current_calls, find_current
from fleethook.server.callers import build_access_review
from tests.engines.dispatch.access_reviews import Apiserver, authorizer_hook
from tests.engines.dispatch.builders import WIDGETS, configuration, definition, request_of, review, store_of, webhook
from tests.engines.dispatch.conftest import Front
from tests.engines.dispatch.webhook_server import Webhooks, allow
from tests.waiting import until


async def test_access_reviews_of_one_consumer_do_not_block_another_consumer(front: Front, server: Webhooks) -> None:
    server.answers["/w"] = allow
    apiserver = Apiserver()
    apiserver.answering.clear()
    store = store_of(
        *(configuration(name, "validating", authorizer_hook(server, 1, 2, "Fail")) for name in ("ws2", "ws3"))
    )
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


QUESTION = AccessQuestion(user="alice", groups=("devs",), verb="get", path="/healthz")


@pytest.mark.parametrize(("cluster", "where"), [("ws2", "logical cluster ws2"), ("", "the cluster")])
async def test_failed_questions_are_errors_of_the_condition(cluster: str, where: str) -> None:
    async def post(*_: Any, **__: Any) -> Any:
        raise UnreachableError("connection refused")

    slots = CallSlots(Quotas(connections=8, calls=8, total=64))
    decisions = await authorize(cluster, frozenset({QUESTION}), post=post, live=Apiserver(), slots=slots)
    text = f"failed to ask the authorizer of {where}: connection refused"
    assert decisions[QUESTION] == AccessDecision(allowed=False, reason="", error=text)


def test_access_reviews_have_the_attributes_of_the_question() -> None:
    assert build_access_review(QUESTION)["spec"] == {
        "user": "alice", "uid": "", "groups": ["devs"], "extra": {},
        "nonResourceAttributes": {"path": "/healthz", "verb": "get"},
    }  # fmt: skip
    selecting = QUESTION._replace(path="", resource="pods", namespace="n", label_selector="a=b")
    assert build_access_review(selecting)["spec"]["resourceAttributes"] == {
        "verb": "get", "group": "", "version": "*", "resource": "pods", "subresource": "", "namespace": "n",
        "name": "", "labelSelector": {"rawSelector": "a=b"},
    }  # fmt: skip


async def test_an_unreadable_namespace_is_an_internal_error() -> None:
    class Forbidding(Apiserver):
        async def read_one(self, *_: Any, **__: Any) -> None:
            raise APIError(403, "Forbidden", "no")

    with pytest.raises(StatusError, match="failed to read namespace n of logical cluster ws2: 403 Forbidden: no"):
        await read_namespace("ws2", "n", live=Forbidding())


V2 = [{**WIDGETS, "apiVersions": ["v2"]}]


async def dispatch_offline(*documents: dict[str, Any]) -> DispatchResult:
    dispatcher = build_offline_dispatcher(store_of(*documents))
    deadline = Deadline(30.0, lambda: 0.0)
    return await dispatcher.dispatch(request_of(review()), cluster="ws1", phase="validating", deadline=deadline)


async def test_offline_dispatchers_admit_requests_without_webhooks() -> None:
    other = webhook(rules=[{**WIDGETS, "resources": ["gadgets"]}])
    assert (await dispatch_offline(configuration("ws1", "validating", other))).response.allowed


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
async def test_offline_dispatchers_call_no_webhook(policy: str) -> None:
    response = (await dispatch_offline(configuration("ws1", "validating", webhook(failurePolicy=policy)))).response
    assert (response.code, response.message) == (500, "Internal error occurred: webhooks are not called offline")


async def test_offline_dispatchers_refuse_conversions_by_webhook() -> None:
    conversion = {
        "strategy": "Webhook",
        "webhook": {"clientConfig": {"url": "https://localhost/c"}, "conversionReviewVersions": ["v1"]},
    }
    versions = definition("ws1", "widgets.example.org", "v1", "v2", conversion=conversion)
    response = (await dispatch_offline(versions, configuration("ws1", "validating", webhook(rules=V2)))).response
    assert response.message.endswith("needs a conversion webhook, which is not called here")


RECORDED_QUESTION = AccessQuestion("ann", "get", resource="pods")
OTHER = AccessQuestion("ann", "list", resource="pods")


def access(question: AccessQuestion = RECORDED_QUESTION, **members: Any) -> Call:
    return Call(kind="read", name=ACCESS_REVIEW, key=name_question(question), cluster="ws3", **members)


def raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(value).encode())


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def dependencies(store: Store) -> Iterator[Dependencies]:
    token = current_calls.set(None)
    unused: Any = None
    yield answer_from_records(store, Dependencies(call_webhook=unused, convert=unused))
    current_calls.reset(token)


async def authorize_recorded(dependencies: Dependencies, *calls: Call, questions: Any = (RECORDED_QUESTION,)) -> Any:
    current_calls.set(ReviewCalls(calls))
    assert dependencies.authorize is not None
    return await dependencies.authorize("ws3", frozenset(questions))


async def test_the_authorizer_decides_as_recorded(dependencies: Dependencies) -> None:
    recorded = access(answer=raw({"allowed": True, "reason": "role", "error": ""}))
    found = await authorize_recorded(
        dependencies, access(OTHER, answer=raw({"allowed": False})), recorded, questions=(RECORDED_QUESTION, OTHER)
    )
    assert found == {RECORDED_QUESTION: AccessDecision(True, "role", ""), OTHER: AccessDecision(False)}
    assert find_current().missing == {}


async def test_a_question_that_was_not_asked_is_missing(dependencies: Dependencies) -> None:
    found = await authorize_recorded(dependencies, access(OTHER, answer=raw({"allowed": True})))
    assert found[RECORDED_QUESTION].allowed is False
    (name,) = find_current().missing
    assert name.kind == "read"
    assert '"resource":"pods"' in name.name


async def test_a_question_of_another_cluster_is_missing(dependencies: Dependencies) -> None:
    elsewhere = msgspec.structs.replace(access(answer=raw({"allowed": True})), cluster="ws4")
    assert (await authorize_recorded(dependencies, elsewhere))[RECORDED_QUESTION].allowed is False
    assert find_current().missing


async def test_a_refused_question_is_refused_again(dependencies: Dependencies) -> None:
    error = too_many_requests("too many")
    with pytest.raises(StatusError, match="too many") as raised:
        await authorize_recorded(dependencies, access(error=str(error), failure=encode_failure(error)))
    assert raised.value.status.code == 429


async def test_a_namespace_of_the_record_is_stored_until_the_end_of_the_review(
    dependencies: Dependencies, store: Store
) -> None:
    current_calls.set(ReviewCalls([Call(kind="read", name="Namespace", key="default", cluster="ws3", answer=raw({"labels": {"a": "b"}}))]))  # fmt: skip
    assert dependencies.read_namespace is not None
    await dependencies.read_namespace("ws3", "default")
    stored: Any = store.get("ws3", NAMESPACE, "", "default")
    assert stored["metadata"]["labels"] == {"a": "b"}
    for finish in find_current().after:
        finish()
    assert store.get("ws3", NAMESPACE, "", "default") is None
    with pytest.raises(StatusError):
        await dependencies.read_namespace("ws3", "default")
    assert find_current().missing == {CallName("read", "", "Namespace default"): "too few recorded answers"}


@pytest.mark.parametrize("answer", [msgspec.UNSET, raw([])])
async def test_a_call_without_a_usable_answer_is_no_permission(dependencies: Dependencies, answer: Any) -> None:
    assert (await authorize_recorded(dependencies, access(answer=answer)))[RECORDED_QUESTION].allowed is False
