"""Reads of an apiserver with recorded answers."""

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from fleethook.cel.evaluation import AccessDecision, AccessQuestion
from fleethook.cluster.store import Store
from fleethook.engines.dispatch.call.call_trace import ACCESS_REVIEW, encode_failure, name_question
from fleethook.engines.dispatch.dispatch_errors import StatusError, too_many_requests
from fleethook.engines.dispatch.dispatcher import NAMESPACE, Dependencies
from fleethook.engines.dispatch.factory import answer_from_records
from fleethook.recordings.format import Call
from fleethook.recordings.replay.recorded_calls import CallName, ReviewCalls, current_calls, find_current

QUESTION = AccessQuestion("ann", "get", resource="pods")
OTHER = AccessQuestion("ann", "list", resource="pods")


def access(question: AccessQuestion = QUESTION, **members: Any) -> Call:
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


async def authorize(dependencies: Dependencies, *calls: Call, questions: Any = (QUESTION,)) -> Any:
    current_calls.set(ReviewCalls(calls))
    assert dependencies.authorize is not None
    return await dependencies.authorize("ws3", frozenset(questions))


async def test_the_authorizer_decides_as_recorded(dependencies: Dependencies) -> None:
    recorded = access(answer=raw({"allowed": True, "reason": "role", "error": ""}))
    found = await authorize(
        dependencies, access(OTHER, answer=raw({"allowed": False})), recorded, questions=(QUESTION, OTHER)
    )
    assert found == {QUESTION: AccessDecision(True, "role", ""), OTHER: AccessDecision(False)}
    assert find_current().missing == {}


async def test_a_question_that_was_not_asked_is_missing(dependencies: Dependencies) -> None:
    found = await authorize(dependencies, access(OTHER, answer=raw({"allowed": True})))
    assert found[QUESTION].allowed is False
    (name,) = find_current().missing
    assert name.kind == "read"
    assert '"resource":"pods"' in name.name


async def test_a_question_of_another_cluster_is_missing(dependencies: Dependencies) -> None:
    elsewhere = msgspec.structs.replace(access(answer=raw({"allowed": True})), cluster="ws4")
    assert (await authorize(dependencies, elsewhere))[QUESTION].allowed is False
    assert find_current().missing


async def test_a_refused_question_is_refused_again(dependencies: Dependencies) -> None:
    error = too_many_requests("too many")
    with pytest.raises(StatusError, match="too many") as raised:
        await authorize(dependencies, access(error=str(error), failure=encode_failure(error)))
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
    assert find_current().missing == {CallName("read", "", "Namespace default"): "it has too few recorded answers"}


@pytest.mark.parametrize("answer", [msgspec.UNSET, raw([])])
async def test_a_call_without_a_usable_answer_is_no_permission(dependencies: Dependencies, answer: Any) -> None:
    assert (await authorize(dependencies, access(answer=answer)))[QUESTION].allowed is False
