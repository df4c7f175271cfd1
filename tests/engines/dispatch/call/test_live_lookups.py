"""SubjectAccessReviews and namespaces are read while a request waits."""

import asyncio
from typing import Any

import pytest

from fleethook.cel.evaluation import AccessDecision, AccessQuestion
from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.engines.dispatch.call.live_lookups import authorize, read_namespace
from fleethook.engines.dispatch.dispatch_errors import StatusError
from fleethook.engines.dispatch.dispatcher import DispatchResult
from fleethook.outbound.call_limits import CallSlots, Quotas
from fleethook.server.callers import build_access_review
from tests.engines.dispatch.access_reviews import Apiserver, authorizer_hook
from tests.engines.dispatch.builders import configuration, review, store_of
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
