"""Leader election on a fake clock; tests/e2e/test_lease.py has a real kube-apiserver and several candidates."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest

from fleethook.cluster.api_errors import UnreachableError
from fleethook.cluster.apiserver_connection import Connection
from fleethook.cluster.leader_election import LeaderElector, LeaseName, LeaseTiming, find_namespace
from fleethook.settings import Settings
from tests.cluster.object_server import ObjectServer
from tests.waiting import until
from tests.work.clock import FakeClock

LEASE = LeaseName("fleet", "fleethook")
TIMING = LeaseTiming(lease_duration=15.0, renew_deadline=10.0, retry_period=0.001)


class Candidate:
    """A candidate with an API server and a clock of its own."""

    def __init__(self, server: ObjectServer, identity: str = "a") -> None:
        self.server, self.clock = server, FakeClock()
        self.elector = LeaderElector(
            cast("Connection", server), LEASE, identity, timing=TIMING, clock=lambda: self.clock.now
        )

    @contextlib.asynccontextmanager
    async def run(self) -> AsyncIterator["asyncio.Task[None]"]:
        task = asyncio.create_task(self.elector.run(asyncio.Event().wait))  # type: ignore[arg-type]
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def attempt(self, count: int = 3) -> None:
        """Wait for further attempts."""
        enough = len(self.server.requests) + 2 * count
        await until(lambda: len(self.server.requests) >= enough)


def hold(server: ObjectServer, holder: str, *, seconds: int = 15, renewed: str = "1") -> None:
    spec = {"holderIdentity": holder, "leaseDurationSeconds": seconds, "leaseTransitions": 4, "renewTime": renewed}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": LEASE.name}, "spec": spec}
    server.store(LEASE.path, lease)


def read_spec(server: ObjectServer) -> Any:
    return server.objects[LEASE.path]["spec"]


async def test_a_missing_lease_is_created_and_released() -> None:
    candidate = Candidate(ObjectServer())
    async with candidate.run():
        await until(lambda: candidate.elector.leading)
        spec = read_spec(candidate.server)
        assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == ("a", 15, 1)
    assert not candidate.elector.leading
    spec = read_spec(candidate.server)
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("", 1)


async def test_a_lease_expires_by_the_clock_of_the_candidate() -> None:
    """The times in the Lease do not count, only the time since the candidate saw it change."""
    candidate = Candidate(ObjectServer())
    hold(candidate.server, "other", renewed="2000-01-01T00:00:00.000000Z")
    async with candidate.run():
        await candidate.attempt()
        candidate.clock.now += 15.0
        await candidate.attempt()
        hold(candidate.server, "other", renewed="2000-01-01T00:00:01.000000Z")
        await candidate.attempt()
        candidate.clock.now += 15.0
        await candidate.attempt()
        assert not candidate.elector.leading
        candidate.clock.now += 0.1
        await until(lambda: candidate.elector.leading)
    assert read_spec(candidate.server)["leaseTransitions"] == 5


async def test_a_leader_without_renewals_stops_after_the_deadline() -> None:
    candidate = Candidate(ObjectServer())
    async with candidate.run():
        await until(lambda: candidate.elector.leading)
        candidate.server.error = UnreachableError("connection refused")
        await candidate.attempt()
        candidate.clock.now += 10.0
        await candidate.attempt()
        assert candidate.elector.leading
        candidate.clock.now += 0.1
        await until(lambda: not candidate.elector.leading)


async def test_a_leader_stops_when_another_candidate_holds_the_lease() -> None:
    candidate = Candidate(ObjectServer())
    async with candidate.run():
        await until(lambda: candidate.elector.leading)
        hold(candidate.server, "other")
        await until(lambda: not candidate.elector.leading)
    assert read_spec(candidate.server)["holderIdentity"] == "other"


async def test_of_two_writers_the_first_one_leads(caplog: pytest.LogCaptureFixture) -> None:
    candidate = Candidate(ObjectServer())
    candidate.server.before_write.append(lambda: hold(candidate.server, "other"))
    async with candidate.run():
        await candidate.attempt()
        assert not candidate.elector.leading
    assert read_spec(candidate.server)["holderIdentity"] == "other"
    assert caplog.messages == []  # A conflict is no problem worth a warning.


async def test_an_error_of_the_leader_ends_the_candidate_and_releases_the_lease() -> None:
    async def fail() -> None:
        raise ValueError("defect")

    candidate = Candidate(ObjectServer())
    with pytest.raises(ValueError, match="defect"):
        await candidate.elector.run(fail)
    assert read_spec(candidate.server)["holderIdentity"] == ""


@pytest.mark.parametrize(
    ("fields", "namespace"),
    [
        ({"namespace": "given", "in_cluster": True, "service": "of-service/s"}, "given"),
        ({"in_cluster": True, "service": "of-service/s"}, "of-pod"),
        ({"kubeconfig": "k", "service": "of-service/s", "cert_secret": "of-secret/s"}, "of-service"),
        ({"kubeconfig": "k", "cert_secret": "of-secret/s"}, "of-secret"),
        ({"kubeconfig": "k"}, "kube-system"),
    ],
)
def test_the_namespace_of_the_lease_has_an_order_of_origins(
    fields: dict[str, Any], namespace: str, tmp_path: Path
) -> None:
    pod = tmp_path / "namespace"
    pod.write_text("of-pod\n")
    assert find_namespace(Settings(**fields), pod_file=pod) == namespace


def test_without_the_file_of_a_pod_the_service_counts(tmp_path: Path) -> None:
    settings = Settings(in_cluster=True, service="of-service/s")
    assert find_namespace(settings, pod_file=tmp_path / "none") == "of-service"
