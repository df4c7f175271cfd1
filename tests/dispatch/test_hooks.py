"""The matchCondition that keeps an apiserver from calling the webhooks that fleethook dispatches to."""

from typing import Any

import pytest

from app.dispatch.hooks import DISPATCH_ONLY
from app.dispatch.lint.lint import lint
from tests.dispatch.builders import configuration, review, store_of, webhook
from tests.dispatch.conftest import Front
from tests.dispatch.webhook_server import Webhooks, allow, hook


@pytest.mark.parametrize(
    ("condition", "called"),
    [
        ({"name": DISPATCH_ONLY, "expression": "false"}, True),
        ({"name": DISPATCH_ONLY, "expression": " false\n"}, True),
        ({"name": DISPATCH_ONLY, "expression": "1 > 2"}, False),
        ({"name": "never", "expression": "false"}, False),
    ],
)
async def test_only_a_false_condition_of_that_name_is_left_out(
    front: Front, server: Webhooks, condition: Any, called: bool
) -> None:
    server.answers["/w"] = allow
    made = configuration("ws1", "validating", hook(server, "/w", matchConditions=[condition]))
    assert (await front.dispatch(store_of(made), review(), cluster="ws1")).response.allowed
    assert bool(server.calls) is called


async def test_other_conditions_of_the_webhook_count(front: Front, server: Webhooks) -> None:
    conditions = [{"name": DISPATCH_ONLY, "expression": "false"}, {"name": "deletion", "expression": "object == null"}]
    made = configuration("ws1", "validating", hook(server, "/w", matchConditions=conditions))
    assert (await front.dispatch(store_of(made), review(), cluster="ws1")).response.allowed
    assert server.calls == []


def test_lint_finds_nothing_wrong_with_it() -> None:
    condition = {"name": DISPATCH_ONLY, "expression": "false"}
    made = configuration("ws1", "validating", webhook(matchConditions=[condition]))
    assert "condition-false" not in [one.code for one in lint(store_of(made))]
