"""Which reads a review asks for; tests/e2e/test_read_your_writes.py has a real apiserver answer them."""

import json
from typing import Any

import msgspec
import pytest

from app.kube.errors import UnreachableError
from app.model.admission import AdmissionRequest
from app.model.gvk import GroupKind
from app.overrider.freshness import StaleError, freshen_overrider, freshen_workload, trigger
from tests.builders import entry, overrider, owner, store_of, workload, yurt_app_set


class Live:
    """Remembers what it was asked; ``progress`` is how far the watch is, ``coming`` how far it gets in time."""

    def __init__(self, progress: int = 100, coming: int = 100, *, readable: bool = True) -> None:
        self.progress, self.coming, self.readable = progress, coming, readable
        self.asked: list[str] = []

    def behind(self, group_kind: GroupKind, resource_version: int) -> bool:
        del group_kind
        return self.progress < resource_version

    async def catch_up(self, group_kind: GroupKind, resource_version: int, *, seconds: float) -> bool:
        del seconds
        self.asked.append(f"wait {group_kind.kind} {resource_version}")
        return self.coming >= resource_version

    async def read_one(self, group_kind: GroupKind, *, cluster: str, namespace: str, name: str) -> None:
        await self._read(f"{cluster}/{namespace}/{group_kind.kind}/{name}")

    async def read_namespace(self, group_kind: GroupKind, *, cluster: str, namespace: str) -> None:
        await self._read(f"{cluster}/{namespace}/{group_kind.kind}")

    async def _read(self, what: str) -> None:
        self.asked.append(what)
        if not self.readable:
            raise UnreachableError("refused")


def request(operation: str, document: Any, **fields: Any) -> AdmissionRequest:
    body = {
        "uid": "u", "operation": operation, "namespace": "default", "object": document,
        "kind": {"group": "apps", "version": "v1", "kind": "Deployment"}, **fields,
    }  # fmt: skip
    return msgspec.json.decode(json.dumps(body), type=AdmissionRequest)


async def asked(operation: str, document: Any, live: Live | None = None, **fields: Any) -> list[str]:
    live = live or Live()
    await freshen_workload(request(operation, document, **fields), store=store_of(yurt_app_set()), live=live)
    return live.asked


def annotated(**annotations: str) -> dict[str, Any]:
    made = workload()
    made["metadata"]["annotations"] = annotations
    return made


def triggered(version: str) -> dict[str, Any]:
    text = trigger("2026-06-01T00:00:00Z", overrider=version)
    return annotated(LastOverrideTime=text)


async def test_a_create_reads_its_subject_and_the_overriders() -> None:
    assert await asked("CREATE", workload()) == ["/default/YurtAppSet/demo", "/default/YurtAppOverrider"]


async def test_in_kcp_they_are_read_in_the_workloads_cluster() -> None:
    made = annotated(**{"kcp.io/cluster": "ws1"})
    assert await asked("CREATE", made) == ["ws1/default/YurtAppSet/demo", "ws1/default/YurtAppOverrider"]


async def test_an_update_reads_nothing_unless_its_subject_is_unknown() -> None:
    assert await asked("UPDATE", workload()) == []
    assert await asked("UPDATE", workload(owners=[owner(name="new")])) == ["/default/YurtAppSet/new"]


@pytest.mark.parametrize("operation", ["DELETE", "CONNECT"])
async def test_other_operations_read_nothing(operation: str) -> None:
    assert await asked(operation, workload()) == []


async def test_what_no_pool_owns_reads_nothing() -> None:
    assert await asked("CREATE", workload(owners=[])) == []
    assert await asked("CREATE", workload(), subResource="scale") == []


async def test_a_trigger_that_was_seen_is_not_waited_for() -> None:
    assert await asked("UPDATE", triggered("100")) == []
    assert await asked("UPDATE", annotated(LastOverrideTime="2026-06-01T00:00:00Z")) == []


async def test_a_trigger_that_was_not_seen_is_waited_for_and_then_read() -> None:
    assert await asked("UPDATE", triggered("101"), Live(coming=101)) == ["wait YurtAppOverrider 101"]
    assert await asked("UPDATE", triggered("101")) == ["wait YurtAppOverrider 101", "/default/YurtAppOverrider"]


async def test_behind_and_unreadable_is_stale() -> None:
    with pytest.raises(StaleError, match="refused"):
        await asked("UPDATE", triggered("101"), Live(readable=False))


async def test_unreadable_but_not_known_to_be_behind_is_the_stores_answer() -> None:
    assert len(await asked("CREATE", workload(), Live(readable=False))) == 2


@pytest.mark.parametrize("text", ["overrider@", "overrider@x", "overrider@" + "9" * 30, ""])
async def test_a_trigger_that_says_nothing_is_no_reason_to_wait(text: str) -> None:
    assert await asked("UPDATE", annotated(LastOverrideTime=text)) == []


async def test_an_overriders_review_reads_its_rivals_and_its_subject() -> None:
    live = Live()
    await freshen_overrider(request("CREATE", overrider(entry("*"))), live=live)
    assert live.asked == ["/default/YurtAppOverrider", "/default/YurtAppSet/demo"]
    live = Live()
    await freshen_overrider(request("CREATE", overrider(subject={"kind": "Pod", "name": "x"})), live=live)
    assert live.asked == ["/default/YurtAppOverrider"]
