"""matchConditions decide before the call of a webhook."""

from typing import Any

import pytest

from tests.engines.dispatch.builders import configuration, review, store_of, widget
from tests.engines.dispatch.conftest import Front
from tests.engines.dispatch.webhook_server import Webhooks, allow, hook


async def test_conditions_decide_before_the_call(front: Front, server: Webhooks) -> None:
    server.answers["/w"] = allow
    conditions = [{"name": "large", "expression": "object.spec.size > 10"}]
    store = store_of(configuration("ws1", "validating", hook(server, "/w", matchConditions=conditions)))
    await front.dispatch(store, review(widget(size=10)), cluster="ws1")
    assert server.calls == []
    await front.dispatch(store, review(widget(size=11)), cluster="ws1")
    assert server.paths == ["/w"]


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
async def test_condition_errors_follow_the_failure_policy(front: Front, server: Webhooks, policy: Any) -> None:
    conditions = [{"name": "large", "expression": "object.spec.missing > 10"}]
    hooks = hook(server, "/w", matchConditions=conditions, failurePolicy=policy)
    store = store_of(configuration("ws1", "validating", hooks))
    response = (await front.dispatch(store, review(), cluster="ws1")).response
    assert response.allowed is (policy == "Ignore")
    assert server.calls == []
    if policy == "Fail":
        assert response.code == 403
        expected = "widgets.example.org \"b\" is forbidden: expression 'object.spec.missing > 10' resulted in error:"
        assert response.message.startswith(expected)


async def test_without_an_authorizer_its_variable_is_missing(front: Front, server: Webhooks) -> None:
    conditions = [{"name": "may", "expression": "authorizer.path('/x').check('get').allowed()"}]
    store = store_of(configuration("ws1", "validating", hook(server, "/w", matchConditions=conditions)))
    response = (await front.dispatch(store, review(), cluster="ws1")).response
    assert (response.allowed, response.code) == (False, 403)
    assert "no such attribute(s): authorizer" in response.message
