"""Dispatchers are built with and without an apiserver."""

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from fleethook.cluster.store import Store
from fleethook.engines.dispatch.dispatcher import Dependencies, DispatchResult
from fleethook.engines.dispatch.errors_and_deadline import Deadline, StatusError
from fleethook.engines.dispatch.match.selectors_and_decision import NAMESPACE
from fleethook.engines.dispatch.offline_dispatcher_and_replay import answer_from_records, build_offline_dispatcher
from fleethook.recordings.recording_format import CallName, RecordedCall
from fleethook.recordings.replay.review_replay import ReviewCalls, current_calls, find_current
from fleethook.work.threads_and_gc import run_work
from tests.engines.dispatch.builders import WIDGETS, configuration, request_of, review, store_of, webhook


async def dispatch_offline(*documents: dict[str, Any]) -> DispatchResult:
    dispatcher = build_offline_dispatcher(store_of(*documents))
    deadline = Deadline(30.0, lambda: 0.0)
    return await run_work(
        dispatcher.dispatch(request_of(review()), cluster="ws1", phase="validating", deadline=deadline)
    )


async def test_offline_dispatchers_admit_requests_without_webhooks() -> None:
    other = webhook(rules=[{**WIDGETS, "resources": ["gadgets"]}])
    assert (await dispatch_offline(configuration("ws1", "validating", other))).response.allowed


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
async def test_offline_dispatchers_call_no_webhook(policy: str) -> None:
    response = (await dispatch_offline(configuration("ws1", "validating", webhook(failurePolicy=policy)))).response
    assert (response.code, response.message) == (500, "Internal error occurred: webhooks are not called offline")


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


async def test_a_namespace_of_the_record_is_stored_until_the_end_of_the_review(
    dependencies: Dependencies, store: Store
) -> None:
    current_calls.set(ReviewCalls([RecordedCall(kind="read", name="Namespace", key="default", cluster="ws3", answer=raw({"labels": {"a": "b"}}))]))  # fmt: skip
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
