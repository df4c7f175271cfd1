"""Dispatchers are built with and without an apiserver."""

from typing import Any

import pytest

from fleethook.engines.dispatch.call.call import Deadline
from fleethook.engines.dispatch.dispatcher import DispatchResult
from fleethook.engines.dispatch.factory import build_offline_dispatcher
from tests.engines.dispatch.builders import WIDGETS, configuration, definition, request_of, review, store_of, webhook

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
