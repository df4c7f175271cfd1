"""Tests of the watch of policies, against an apiserver in memory; tests/e2e/test_policy_modes.py has a real one."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from fleethook.engines.overrider.policies.compilation import COMPILED_LABEL
from fleethook.engines.overrider.policies.policy_watch import PolicyWatch
from fleethook.lifetime import run_in_background
from tests.engines.overrider.policy_server import API, SERVED, PolicyServer
from tests.waiting import until

POLICY = f"{API}/mutatingadmissionpolicies/p"
BINDING = f"{API}/mutatingadmissionpolicybindings/b"


def document(name: str, **spec: Any) -> dict[str, Any]:
    kind = "MutatingAdmissionPolicyBinding" if name == "b" else "MutatingAdmissionPolicy"
    metadata = {"name": name, "labels": {COMPILED_LABEL: "u-1"}}
    return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec}


class Watching:
    def __init__(self) -> None:
        self.server = PolicyServer()
        self.watch = PolicyWatch(self.server, absent_seconds=0.01)
        self.changed: list[str] = []
        self.lists = 0

    def count(self) -> None:
        self.lists += 1


@contextlib.asynccontextmanager
async def watching() -> AsyncIterator[Watching]:
    at = Watching()
    ended: list[str] = []
    run = at.watch.run(changed=at.changed.append, listed=at.count)
    async with run_in_background(run, name="policies", ended=ended.append):
        yield at
    assert ended == []


async def test_nothing_is_requested_before_the_first_read() -> None:
    async with watching() as at:
        await at.server.apply(POLICY, document("p"))
        for _ in range(20):
            await asyncio.sleep(0)
        assert (at.lists, at.changed) == (0, [])
        assert await at.watch.read() == ""
        assert at.lists == 2
        assert at.changed == ["u-1"]
        assert at.watch.count_places() == {"u-1": 1}


async def test_only_policies_count_and_bindings_do_not() -> None:
    async with watching() as at:
        await at.server.apply(BINDING, document("b"))
        await at.watch.read()
        assert at.changed == ["u-1"]
        assert at.watch.count_places() == {}


async def test_a_written_object_is_known_at_once_until_it_is_deleted_or_its_spec_changes() -> None:
    async with watching() as at:
        await at.watch.read()
        version = at.watch.learn("MutatingAdmissionPolicy", await at.server.apply(POLICY, document("p")))
        assert at.watch.has([version])
        await at.server.apply(POLICY, document("p", failurePolicy="Fail"))
        await until(lambda: not at.watch.has([version]))
        again = at.watch.learn("MutatingAdmissionPolicy", await at.server.apply(POLICY, document("p")))
        assert at.watch.has([again])
        assert not at.watch.has([version, again])
        at.server.remove(POLICY)
        await until(lambda: not at.watch.has([again]))


async def test_an_apiserver_without_policies_is_asked_again() -> None:
    async with watching() as at:
        at.server.serve(SERVED[0])
        assert await at.watch.read() == ""
        assert not at.watch.is_served
        at.server.serve(*SERVED)
        await until(lambda: at.watch.is_served)
        await at.server.apply(BINDING, document("b"))
        await until(lambda: at.changed == ["u-1"])
        at.server.serve()
        await until(lambda: not at.watch.is_served)


async def test_an_apiserver_that_does_not_serve_them_is_reported_like_a_list() -> None:
    async with watching() as at:
        at.server.serve()
        await at.watch.read()
        assert at.lists == 2


async def test_without_the_right_to_list_the_problem_is_returned() -> None:
    async with watching() as at:
        at.server.lists_refused = True
        assert "forbidden" in await at.watch.read()
        at.server.lists_refused = False
        await until(lambda: at.lists == 2)
        assert await at.watch.read() == ""
