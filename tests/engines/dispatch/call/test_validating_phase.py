"""The validating phase: all webhooks at once, all denials."""

import asyncio
from typing import Any

from tests.engines.dispatch.builders import configuration, review, store_of
from tests.engines.dispatch.conftest import Front
from tests.engines.dispatch.webhook_server import Webhooks, allow, hook


async def test_warnings_and_audit_annotations_of_denials_are_returned(front: Front, server: Webhooks) -> None:
    server.answers["/1"] = lambda _: {"allowed": True, "warnings": ["one", "both"], "auditAnnotations": {"k": "v"}}
    server.answers["/2"] = lambda _: {
        "allowed": False,
        "warnings": ["both", "two"],
        "auditAnnotations": {"bad key": "v"},
    }
    hooks = (hook(server, "/1", "1.example.org"), hook(server, "/2", "2.example.org"))
    store = store_of(configuration("ws1", "validating", *hooks))
    response = (await front.dispatch(store, review(), cluster="ws1")).response
    assert response.warnings == ("one", "both", "two")
    assert response.audit_annotations == {"1.example.org/k": "v"}


async def test_no_webhook_is_called_after_the_deadline(front: Front, server: Webhooks) -> None:
    store = store_of(configuration("ws1", "validating", hook(server, "/w", failurePolicy="Ignore")))
    response = (await front.dispatch(store, review(), cluster="ws1", seconds=0)).response
    assert (response.allowed, response.code, response.reason) == (False, 504, "Timeout")
    assert server.calls == []


async def test_all_denials_are_reported_in_the_order_of_the_webhooks(front: Front, server: Webhooks) -> None:
    """The last webhook answers first."""
    done = asyncio.Event()

    async def slow(_: Any) -> Any:
        await done.wait()
        return {"allowed": False, "status": {"message": "slow", "code": 422, "reason": "Invalid"}}

    def quick(_: Any) -> Any:
        done.set()
        return {"allowed": False, "status": {"message": "quick", "code": 409, "reason": "Conflict"}}

    server.answers.update({"/slow": slow, "/quick": quick, "/fine": allow})
    store = store_of(
        configuration(
            "ws1", "validating", hook(server, "/slow", "slow.example.org"), hook(server, "/fine", "fine.example.org"),
            hook(server, "/quick", "quick.example.org"),
        )
    )  # fmt: skip
    response = (await front.dispatch(store, review(), cluster="ws1")).response
    assert (response.code, response.reason) == (422, "Invalid")
    assert response.message == 'admission webhook "slow.example.org" denied the request: slow'
    (cause,) = response.status.details.causes
    assert cause.message == 'admission webhook "quick.example.org" denied the request: quick'
    assert cause.reason == "Conflict"
    assert len(server.calls) == 3
