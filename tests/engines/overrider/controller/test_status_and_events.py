"""Tests of the statuses and events that the controller writes, against an apiserver in memory."""

from datetime import UTC, datetime

from fleethook.cluster.api_errors import APIError
from fleethook.engines.overrider.controller.overrider_conditions import rendered
from fleethook.engines.overrider.controller.overrider_controller import OverriderController
from fleethook.engines.overrider.controller.status_and_events import build_status
from fleethook.engines.overrider.controller.workload_decision import Decision, Result
from fleethook.engines.overrider.subject.workload_owner import Binding
from fleethook.model.openyurt import YURT_APP_SET
from tests.builders import entry, image, overrider
from tests.engines.overrider.controller.test_openyurt_renderer_and_definition import OURS, upstream
from tests.engines.overrider.running import Fleet

NOW = datetime(2026, 6, 1, tzinfo=UTC)
SUBJECT = Binding("", YURT_APP_SET, "default", "demo")
RULE = overrider(entry("*"), generation=3)


def result(pool: str, hash_: str = "abc", error: str = "") -> Result:
    return Result(pool, "Deployment", f"demo-{pool}-x", hash_, 2, Decision(problem=error))


def test_the_status_lists_failures_first_and_not_more_than_fits() -> None:
    results = [result(f"p{number:04}") for number in range(1_500)] + [result("z", error="no"), result("n", "")]
    status = build_status(RULE, (rendered(results),), results, former={}, now=NOW)
    assert (status["observedGeneration"], status["summary"], len(status["pools"])) == (3, "1500/1501", 1_000)
    assert status["pools"][0] == {
        "pool": "z", "kind": "Deployment", "workload": "demo-z-x", "hash": "abc", "observedGeneration": 2, "error": "no",
    }  # fmt: skip
    assert status["pools"][1]["pool"] == "p0000"


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


MISSING = APIError(404, "NotFound", 'yurtappoverriders.apps.openyurt.io "demo" not found')
"""kube-apiserver's answer for a deleted object, and for a status subresource that the definition does not have."""


async def test_events_report_a_status_that_cannot_be_stored() -> None:
    fleet = Fleet()
    fleet.subject()
    asked = []

    def refuse(_method: str, path: str) -> APIError | None:
        if not path.endswith("/status"):
            return None
        asked.append(path)
        return MISSING

    fleet.server.refuse = refuse
    async with fleet.leader() as controller:
        fleet.override(entry("*", items=TO_2))
        await fleet.wait(MINUTE)
        times = len(asked)
        await reconcile_again(fleet, controller)
        assert [reason for reason, _ in fleet.server.events] == ["SubjectFound", "AllRendered"]
        assert len(asked) == times


async def test_no_event_is_about_a_deleted_overrider() -> None:
    fleet = Fleet()
    fleet.subject()
    fleet.server.refuse = lambda method, path: (
        MISSING if path.endswith("/status") or (method == "GET" and path == fleet.rule()) else None
    )
    async with fleet.leader():
        fleet.override(entry("*", items=TO_2))
        await fleet.wait(MINUTE)
        assert fleet.server.events == []


async def test_the_status_follows_within_seconds_if_a_definition_with_one_is_installed() -> None:
    """The apiserver serves the status a moment after the definition has changed."""
    fleet = Fleet()
    fleet.subject()
    fleet.conflict = "the installed definition drops status"
    fleet.objects.put(upstream())
    fleet.server.refuse = lambda _method, path: MISSING if path.endswith("/status") else None
    async with fleet.leader():
        fleet.override(entry("*", items=TO_2))
        await fleet.wait(MINUTE)
        fleet.conflict = ""
        fleet.objects.put(OURS)
        await fleet.wait(1)
        assert fleet.status() == {}
        fleet.server.refuse = lambda _method, _path: None
        await fleet.wait(5)
        assert fleet.status()["summary"] == "1/1"
