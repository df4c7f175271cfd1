"""SubjectAccessReviews and namespaces are read while a request waits."""

import asyncio
from typing import Any

import pytest

from fleethook.cel.evaluation import AccessDecision, AccessQuestion
from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.engines.dispatch.call.live_lookups import (
    authorize,
    build_access_review,
    build_token_review,
    is_allowed,
    read_namespace,
    read_reviewed_user,
)
from fleethook.engines.dispatch.dispatch_errors import StatusError
from fleethook.engines.dispatch.dispatcher import DispatchResult
from fleethook.outbound.call_limits import CallSlots, Quotas
from tests.engines.dispatch.access_reviews import Apiserver, authorizer_hook
from tests.engines.dispatch.builders import configuration, review, store_of
from tests.engines.dispatch.conftest import Front
from tests.engines.dispatch.webhook_server import Webhooks, allow
from tests.waiting import until

ALICE = {"username": "alice", "uid": "7", "groups": ["devs"], "extra": {"b": ["2"], "a": ["1"]}}


def test_a_review_has_the_audiences_only_if_there_are_some() -> None:
    assert build_token_review("t", ())["spec"] == {"token": "t"}
    assert build_token_review("t", ["x"])["spec"] == {"token": "t", "audiences": ["x"]}


def test_the_user_has_all_that_the_apiserver_says_about_it() -> None:
    user = read_reviewed_user({"status": {"authenticated": True, "user": ALICE}}, ())
    assert user == ("alice", "7", ("devs",), (("a", ("1",)), ("b", ("2",))))


@pytest.mark.parametrize(
    "status", [{}, {"user": ALICE}, {"authenticated": "true", "user": ALICE}, {"authenticated": True, "user": {}}]
)
def test_an_answer_without_an_authenticated_user_accepts_no_token(status: Any) -> None:
    assert read_reviewed_user({"status": status}, ()) is None


def test_a_token_for_another_audience_is_not_accepted() -> None:
    answer: Any = {"status": {"authenticated": True, "user": ALICE, "audiences": ["other"]}}
    assert read_reviewed_user(answer, ["wanted"]) is None
    assert read_reviewed_user(answer, ["other"]) is not None


def test_a_right_needs_an_answer_that_allows_and_does_not_deny() -> None:
    assert is_allowed({"status": {"allowed": True}})
    for status in [{}, {"allowed": "true"}, {"allowed": True, "denied": True}, {"allowed": False}]:
        assert not is_allowed({"status": status})


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
