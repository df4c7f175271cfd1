"""Leader election on a real apiserver: at most one leader, after any kind of end."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fleethook.cluster.apiserver_connection import Connection
from fleethook.cluster.leader_election import LeaderElector, LeaseName, LeaseTiming
from tests.e2e.cluster import ControlPlane
from tests.e2e.proxy import run_proxy
from tests.e2e.test_source_faults import config
from tests.waiting import until

# Short, so that another candidate takes over soon.
FAST = LeaseTiming(lease_duration=3.0, renew_deadline=1.5, retry_period=0.1)


class Term:
    """The current leaders, and whether there were ever two."""

    def __init__(self) -> None:
        self.leading: list[str] = []
        self.history: list[str] = []
        self.most = 0

    async def lead(self, identity: str) -> None:
        self.leading.append(identity)
        self.history.append(identity)
        self.most = max(self.most, len(self.leading))
        try:
            await asyncio.Event().wait()
        finally:
            self.leading.remove(identity)


@contextlib.asynccontextmanager
async def candidate(
    kubeconfig: Path, lease: LeaseName, identity: str, term: Term
) -> AsyncIterator["asyncio.Task[None]"]:
    async with Connection(kubeconfig) as connection:
        elector = LeaderElector(connection, lease, identity, timing=FAST)
        task = asyncio.create_task(elector.run(lambda: term.lead(identity)))
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.wait([task])


@pytest.fixture
def lease(namespace: str) -> LeaseName:
    return LeaseName(namespace, "fleethook")


async def test_a_leader_that_is_cut_off_stops_before_the_next_one_starts(plane: ControlPlane, lease: LeaseName) -> None:
    term = Term()
    async with run_proxy(plane.port) as proxy:
        behind = config(plane, "cut-off", proxy.port)
        async with candidate(behind, lease, "cut off", term):
            await until(lambda: term.leading == ["cut off"])
            async with candidate(config(plane, "well", plane.port), lease, "well", term):
                proxy.stall()
                await until(lambda: term.leading == ["well"], what="the other takes over")
                proxy.resume()
                assert term.history[0] == "cut off"
                assert term.most == 1
