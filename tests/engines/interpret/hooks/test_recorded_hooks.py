"""The webhooks of interpreters with recorded answers."""

import json
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from fleethook.cluster.store import Store
from fleethook.engines.interpret.chain import IgnoredError
from fleethook.engines.interpret.hooks.recorded_hooks import RecordedHookLayer
from fleethook.engines.interpret.hooks.webhook_layer import INDEXES
from fleethook.interpret.typed_members import InterpretError
from fleethook.model.karmada import Operation
from fleethook.outbound.client import HookClient
from fleethook.recordings.format import Call
from fleethook.recordings.replay.recorded_calls import ReviewCalls, current_calls, find_current

HOOK: Any = SimpleNamespace(uid="hooks/health")
QUESTION: Any = SimpleNamespace(operation=Operation.HEALTH)
KEY = f"{Operation.HEALTH.value}/hooks/health"


async def ask(**members: Any) -> Any:
    layer = RecordedHookLayer(Store(INDEXES), HookClient(allow_private=False), observe=lambda *_: None)
    calls = [Call(kind="webhook", name="health", key=KEY, cluster="", configuration="hooks", **members)]
    current_calls.set(ReviewCalls(calls if members else ()))
    return await layer._ask(HOOK, QUESTION)


def raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(value).encode())


async def test_a_webhook_answers_as_recorded() -> None:
    assert (await ask(answer=raw({"healthy": True}))).healthy is True
    assert find_current().missing == {}


@pytest.mark.parametrize(
    ("members", "error", "code"),
    [
        ({"error": "gone", "failure": {"ignored": True}}, IgnoredError, None),
        ({"error": "gone", "failure": {"code": 404}}, InterpretError, 404),
        ({"error": "gone"}, InterpretError, 500),
    ],
)
async def test_a_webhook_fails_as_recorded(members: dict[str, Any], error: type[Exception], code: int | None) -> None:
    with pytest.raises(error, match="gone") as raised:
        await ask(**members)
    assert getattr(raised.value, "code", None) == code


@pytest.mark.parametrize("members", [{}, {"answer": raw({"unknown": 1})}])
async def test_a_call_without_a_usable_answer_is_missing(members: dict[str, Any]) -> None:
    with pytest.raises(InterpretError, match="was not recorded"):
        await ask(**members)
    assert [str(one) for one in cast("ReviewCalls", find_current()).missing] == ["webhook hooks/health"]
