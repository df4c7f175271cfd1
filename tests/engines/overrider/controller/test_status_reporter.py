"""Tests of the statuses and events that the controller writes, against an apiserver in memory."""

import pytest

from fleethook.cluster.api_errors import APIError
from fleethook.engines.overrider.controller.controller import OverriderController
from tests.builders import entry, image
from tests.engines.overrider.running import Fleet

TO_2 = [image("nginx", "nginx:2.0")]

MINUTE = 60.0


async def test_a_status_is_not_written_again_before_its_event_arrives() -> None:
    fleet = Fleet()
    fleet.subject()
    async with fleet.leader() as controller:
        # From the write of the workload on, so before the write of the status.
        fleet.server.stored.append(lambda _: fleet.server.silent.add("yurtappoverriders"))
        rule = fleet.override(entry("*", items=TO_2))
        await fleet.wait(MINUTE)
        looked = controller.reconciled
        fleet.server.edit(fleet.path(), {"metadata": {"annotations": {"fleethook.io/rendered": None}}}, review=False)
        await fleet.wait(MINUTE)
        assert controller.reconciled > looked
        assert fleet.server.statuses[rule] == 1


async def reconcile_again(fleet: Fleet, controller: OverriderController) -> None:
    """Queue the subject and wait until it is reconciled without a change."""
    looked = controller.reconciled
    await fleet.wait(11 * MINUTE)
    assert controller.reconciled > looked


async def test_a_status_is_written_once_if_the_apiserver_drops_fields_of_it() -> None:
    """OpenYurt's own CustomResourceDefinition of YurtAppOverriders has other fields."""
    fleet = Fleet()
    fleet.subject()
    fleet.server.drops.update({"conditions", "pools"})
    async with fleet.leader() as controller:
        rule = fleet.override(entry("*", items=TO_2))
        await fleet.wait(MINUTE)
        await reconcile_again(fleet, controller)
        assert fleet.server.statuses == {rule: 1}
        assert [reason for reason, _ in fleet.server.events] == ["SubjectFound", "AllRendered"]
        fleet.override(entry("elsewhere", items=TO_2))
        await fleet.wait(MINUTE)
        assert fleet.server.statuses == {rule: 2}
        assert [reason for reason, _ in fleet.server.events[2:]] == ["Reverted", "NoWorkloads"]


@pytest.mark.parametrize(
    ("message", "events"),
    [
        ("the server could not find the requested resource", ["SubjectFound", "AllRendered"]),
        ('yurtappoverriders.apps.openyurt.io "demo" not found', []),
    ],
)
async def test_events_report_a_status_that_cannot_be_stored(message: str, events: list[str]) -> None:
    fleet = Fleet()
    fleet.subject()
    asked = []

    def refuse(_method: str, path: str, _dry: bool) -> APIError | None:
        if not path.endswith("/status"):
            return None
        asked.append(path)
        return APIError(404, "NotFound", message)

    fleet.server.refuse = refuse
    async with fleet.leader() as controller:
        fleet.override(entry("*", items=TO_2))
        await fleet.wait(MINUTE)
        times = len(asked)
        await reconcile_again(fleet, controller)
        assert [reason for reason, _ in fleet.server.events] == events
        assert (len(asked) == times) is bool(events)
