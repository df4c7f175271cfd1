"""Tests of the controller against an apiserver in memory: number and time of its writes, status and events."""

import asyncio
import copy
from typing import Any

import pytest

from tests.builders import entry, image, patch
from tests.engines.overrider.running import Fleet

TO_2 = [image("nginx", "nginx:2.0")]
TO_3 = [image("nginx", "nginx:3.0")]
MINUTE = 60.0


def pod_spec(document: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = document["spec"]["template"]["spec"]
    return spec


async def test_an_overrider_needs_one_write_and_one_status() -> None:
    fleet = Fleet()
    fleet.subject(pools=("hangzhou", "beijing"))
    async with fleet.leader():
        rule = fleet.override(entry("hangzhou", items=TO_2))
        await fleet.wait_for(lambda: fleet.condition() == ("True", "AllRendered", "1 of 1 workloads"))
        await fleet.wait(10 * MINUTE)
        assert fleet.server.writes == {fleet.path(): 1}
        assert fleet.server.statuses == {rule: 1}
        assert [reason for reason, _ in fleet.server.events] == ["SubjectFound", "AllRendered"]


async def test_an_overrider_is_bound_when_its_subject_is_created() -> None:
    fleet = Fleet()
    async with fleet.leader():
        fleet.override(entry("*", items=TO_2))
        await fleet.wait_for(lambda: fleet.condition("Bound")[1] == "SubjectNotFound")
        fleet.subject()
        await fleet.wait_for(lambda: fleet.status().get("summary") == "1/1")
        assert fleet.condition("Bound")[1] == "SubjectFound"


async def test_nothing_is_written_before_the_webhook_is_registered() -> None:
    fleet = Fleet()
    fleet.registered = asyncio.Event()
    fleet.subject()
    rule = fleet.override(entry("*", items=TO_2))
    async with fleet.leader():
        assert not fleet.server.writes
        fleet.registered.set()
        await fleet.wait_for(lambda: fleet.image() == "nginx:2.0")
        assert fleet.server.writes == {fleet.path(): 1}
        assert rule in fleet.server.statuses


async def test_an_edit_without_a_leader_is_found_while_its_subject_is_reconciled() -> None:
    first = Fleet()
    first.subject()
    first.override(entry("*", items=TO_2))
    async with first.leader():
        await first.wait_for(lambda: first.image() == "nginx:2.0")
    document = first.server[first.path()]
    pod_spec(document)["containers"][0]["image"] = "edited:1"
    first.server.put(document)
    fleet = Fleet(first.server)
    fleet.conflict, fleet.server.held = "so that the status is written", asyncio.Event()
    async with fleet.leader() as controller:
        # The comparison of all workloads ends while the first reconciliation writes the status.
        await fleet.wait_for(lambda: controller.handlers.resyncs == 1)
        fleet.server.held.set()
        await fleet.wait_for(lambda: fleet.image() == "nginx:2.0")


async def test_a_failed_registration_does_not_stop_the_controller(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fleet = Fleet()
    fleet.registered = asyncio.Event()
    fleet.subject()
    fleet.override(entry("*", items=TO_2))
    async with fleet.leader(owner_seconds=0.01):
        await asyncio.wait_for(wait_for_write(fleet), 30)
    assert "not registered within" in caplog.text


async def wait_for_write(fleet: Fleet) -> None:
    while not fleet.server.writes:
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("late", [True, False])
async def test_the_event_of_its_own_write_queues_nothing(late: bool) -> None:
    fleet = Fleet()
    fleet.subject()
    fleet.server.webhook, fleet.server.late = False, late
    async with fleet.leader() as controller:
        before = controller.reconciled
        fleet.override(entry("*", items=TO_2))
        await fleet.settle()
        assert fleet.condition()[1] == "NotRendered"
        looked = controller.reconciled
        assert looked == before + 1
        for number in range(10):
            await fleet.wait(MINUTE)
            assert controller.reconciled == looked + fleet.server.writes[fleet.path()] - 1 + (number == 9)


async def test_many_conflicts_do_not_delay_an_edit() -> None:
    fleet = Fleet()
    fighting = [f"fight{number}" for number in range(40)]
    for name in [*fighting, "calm"]:
        fleet.subject(name)

    def revert(path: str) -> None:
        if "fight" in path:
            document = copy.deepcopy(fleet.server[path])
            pod_spec(document)["containers"][0]["image"] = "theirs:1"
            fleet.server.put(document)

    async with fleet.leader():
        fleet.server.stored.append(revert)
        for name in fighting:
            fleet.override(entry("*", items=TO_2), subject=name)
        await fleet.wait(10)
        for number in range(5):
            items = [image("nginx", f"nginx:{number}")]
            fleet.override(entry("*", items=items), subject="calm")
            await fleet.wait_for(lambda wanted=f"nginx:{number}": fleet.image("calm") == wanted, seconds=2)
            await fleet.wait(9)
        assert max(fleet.server.writes[fleet.path(name)] for name in fighting) <= 5


async def test_an_overrider_that_does_not_fit_is_reported_without_a_write() -> None:
    fleet = Fleet()
    fleet.subject()
    async with fleet.leader():
        fleet.override(entry("*", patches=[patch("remove", "/spec/paused")]))
        await fleet.wait(5 * MINUTE)
        assert fleet.condition()[:2] == ("False", "NotRendered")
        assert "member 'paused' does not exist" in fleet.condition()[2]
        assert not fleet.server.writes


async def test_a_condition_reports_openyurts_own_renderer() -> None:
    fleet = Fleet()
    fleet.subject()
    fleet.conflict = "webhook mutate.apps.v1.deployment of yurt-manager renders, too"
    async with fleet.leader():
        fleet.override(entry("*", items=TO_2))
        await fleet.wait_for(lambda: fleet.condition("Conflict") == ("True", "OpenYurtInterferes", fleet.conflict))
        fleet.conflict = ""
        fleet.override(entry("*", items=TO_3))
        await fleet.wait_for(lambda: fleet.image() == "nginx:3.0")
        await fleet.settle()
        assert fleet.condition("Conflict") == ("", "", "")
