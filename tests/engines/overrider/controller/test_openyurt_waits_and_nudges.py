"""Tests of the wait for OpenYurt's controller to write a changed template, and of nudges if it does not."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from fleethook.cluster.api_errors import APIError
from fleethook.engines.overrider.controller.openyurt_waits_and_nudges import OwnerWaits
from fleethook.engines.overrider.controller.subject_state import SubjectState
from fleethook.engines.overrider.subject.workload_owner import Binding
from fleethook.model.openyurt import YURT_APP_SET
from tests.builders import entry, image, overrider, patch, yurt_app_set
from tests.builders import rendered as render_elsewhere
from tests.engines.overrider.running import Fleet

# A sidecar: the override does not cover the template's image.
SIDE = [patch("add", "/spec/template/spec/containers/-", {"name": "side", "image": "busybox:1"})]

POOLS = ("hangzhou", "beijing")

MINUTE = 60.0


REFUSED = [{"type": "PoolUpdated", "status": "False", "reason": "Error"}]


async def test_an_owner_whose_write_was_refused_is_nudged_also_for_a_workload_without_an_override() -> None:
    """The webhook reviews all workloads of a subject, and OpenYurt 1.4 reports the generation of a refused write."""
    fleet = Fleet()
    subject = fleet.subject(pools=POOLS)
    fleet.override(entry("elsewhere", patches=SIDE))
    fleet.edit_template(subject, tag="9")
    fleet.observed(subject, conditions=REFUSED)
    async with fleet.leader():
        await fleet.wait_for(lambda: fleet.nudges(subject))
        assert fleet.server.writes == {subject: 1}
        fleet.owner_writes(*POOLS, tag="9")
        fleet.observed(subject, conditions=[])
        await fleet.wait(60 * MINUTE)
        assert fleet.server.writes == {subject: 1}


async def test_a_subject_without_overrider_is_not_nudged() -> None:
    fleet = Fleet()
    subject = fleet.subject(pools=POOLS)
    fleet.server.delete(fleet.path(pool_name="beijing"))
    fleet.edit_template(subject, tag="9")
    async with fleet.leader():
        await fleet.wait(60 * MINUTE)
        assert not fleet.server.writes


SUBJECT = "/apis/apps.openyurt.io/v1alpha1/namespaces/default/yurtappsets/demo"


async def render_and_wait(fleet: Fleet) -> None:
    fleet.override(entry("hangzhou", patches=SIDE))
    await fleet.wait_for(lambda: fleet.condition()[1] == "AllRendered")
    await fleet.wait(MINUTE)


@pytest.fixture
async def fleet() -> AsyncIterator[Fleet]:
    """A fleet with a leader and an observed subject, whose workload in pool hangzhou is rendered."""
    made = Fleet()
    made.observed(made.subject(pools=POOLS))
    async with made.leader():
        await render_and_wait(made)
        yield made


@pytest.fixture
async def alone() -> Fleet:
    """The same after its leader has ended."""
    made = Fleet()
    made.observed(made.subject(pools=POOLS))
    async with made.leader():
        await render_and_wait(made)
    return made


async def test_a_template_that_its_owner_writes_needs_no_write(fleet: Fleet) -> None:
    fleet.edit_template(SUBJECT, tag="9")
    await fleet.wait(8)
    fleet.owner_writes(*POOLS, tag="9")
    fleet.observed(SUBJECT)
    await fleet.wait(5 * MINUTE)
    assert fleet.server.writes == {fleet.path(): 1}
    assert fleet.condition()[1] == "AllRendered"
    assert fleet.server[fleet.path()]["spec"]["template"]["spec"]["containers"][0]["image"] == "nginx:9"


async def test_the_controller_does_not_wait_after_an_owners_write_without_review(fleet: Fleet) -> None:
    fleet.edit_template(SUBJECT, tag="9")
    fleet.owner_writes(*POOLS, tag="9", review=False)
    fleet.observed(SUBJECT)
    await fleet.wait_for(lambda: fleet.server.writes[fleet.path()] == 2, seconds=2)


async def test_an_owner_that_never_reports_its_generation_is_not_nudged_after_its_writes(fleet: Fleet) -> None:
    """OpenYurt 1.7.0 cannot write the status of a set with StatefulSets."""
    fleet.edit_template(SUBJECT, tag="9")
    await fleet.settle()
    fleet.owner_writes(*POOLS, tag="9")
    await fleet.wait(60 * MINUTE)
    assert fleet.server.writes == {fleet.path(): 1}


async def test_after_a_nudge_without_effect_the_controller_writes_itself(fleet: Fleet) -> None:
    fleet.edit_template(SUBJECT, tag="9")
    await fleet.wait(14)
    assert fleet.condition() == (
        "Unknown", "WaitingForOwner",
        "0 of 1 workloads; demo-hangzhou-x in hangzhou: waiting until the controller of YurtAppSet demo has written the changed template",
    )  # fmt: skip
    assert fleet.nudges(SUBJECT) is None
    await fleet.wait(2)
    nudged = fleet.nudges(SUBJECT)
    assert nudged is not None
    assert fleet.server.writes == {fleet.path(): 1, SUBJECT: 1}
    assert [reason for reason, _ in fleet.server.events].count("OwnerNudged") == 1
    await fleet.wait(11)
    assert fleet.server.writes == {fleet.path(): 2, SUBJECT: 1}
    await fleet.wait(9 * MINUTE)
    assert fleet.server.writes == {fleet.path(): 2, SUBJECT: 1}
    assert fleet.condition()[1] == "AllRendered"


async def test_a_nudge_makes_an_owner_without_retries_write(alone: Fleet) -> None:
    """OpenYurt 1.4 does not retry a write that was refused while fleethook was unavailable."""
    alone.edit_template(SUBJECT, tag="9")
    alone.observed(SUBJECT, conditions=REFUSED)
    async with alone.leader():
        await alone.wait_for(lambda: alone.nudges(SUBJECT))
        alone.owner_writes(*POOLS, tag="9")
        alone.observed(SUBJECT, conditions=[])
        await alone.wait(5 * MINUTE)
        assert alone.server.writes[alone.path()] == 1
        assert alone.condition()[1] == "AllRendered"


async def test_the_controller_waits_for_an_owner_that_retries_after_an_outage(alone: Fleet) -> None:
    alone.edit_template(SUBJECT, tag="9")
    await alone.wait(MINUTE)
    async with alone.leader():
        await alone.wait(3)
        alone.owner_writes(*POOLS, tag="9")
        alone.observed(SUBJECT)
        await alone.wait(5 * MINUTE)
        assert alone.server.writes == {alone.path(): 1}


@pytest.mark.parametrize("late", ["yurtappsets", "yurtappoverriders"])
async def test_a_workload_is_not_rendered_from_inputs_older_than_its_last_render(fleet: Fleet, late: str) -> None:
    """Another replica has rendered it from a template and an overrider that this replica has not received yet."""
    fleet.server.silent.add(late)
    if late == "yurtappsets":
        fleet.edit_template(SUBJECT, tag="9")
        fleet.owner_writes("hangzhou", tag="9", review=False)
    else:
        fleet.override(entry("hangzhou", patches=[], items=[image("nginx", "nginx:9")]))
    inputs = [fleet.server[path] for path in (SUBJECT, fleet.rule())]
    bare = fleet.server[fleet.path()]
    fleet.server.put(render_elsewhere(bare, *inputs))
    await fleet.wait(5 * MINUTE)
    assert fleet.server.writes == {fleet.path(): 1}
    assert fleet.image() == "nginx:9"
    assert fleet.condition()[1] == "AllRendered"


async def test_an_edited_overrider_does_not_wait_for_the_owner(fleet: Fleet) -> None:
    fleet.override(entry("*", patches=SIDE))
    await fleet.wait_for(lambda: fleet.condition()[2] == "2 of 2 workloads", seconds=2)


async def test_a_new_leader_undoes_a_dropped_override_at_once() -> None:
    """The value of the former override is no template that the owner has not written."""
    fleet = Fleet()
    subject = fleet.subject(pools=POOLS)
    fleet.override(entry("hangzhou", items=[image("nginx", "ours:1")], patches=SIDE))
    async with fleet.leader():
        await fleet.wait_for(lambda: fleet.condition()[1] == "AllRendered")
    fleet.override(entry("hangzhou", patches=SIDE))
    async with fleet.leader():
        await fleet.wait_for(lambda: fleet.image() == "nginx:1.0", seconds=2)
        await fleet.wait_for(lambda: fleet.condition()[1] == "AllRendered", seconds=2)
        await fleet.wait(5 * MINUTE)
        assert fleet.nudges(subject) is None


async def test_a_missing_workload_is_reported_and_its_owner_nudged_with_growing_pauses() -> None:
    fleet = Fleet()
    subject = fleet.subject(pools=POOLS)
    fleet.server.delete(fleet.path(pool_name="beijing"))
    async with fleet.leader():
        fleet.override(entry("*", patches=SIDE))
        await fleet.wait_for(lambda: fleet.condition()[0])
        assert fleet.condition() == (
            "Unknown",
            "WorkloadsMissing",
            "1 of 2 workloads; no workload in node pool beijing",
        )
        await fleet.wait(12)
        assert fleet.condition()[:2] == ("False", "WorkloadsMissing")
        nudges = [fleet.nudges(subject)]
        for _ in range(60):
            await fleet.wait(MINUTE)
            if (last := fleet.nudges(subject)) not in nudges:
                nudges.append(last)
        # Resyncs are every ten minutes from the start, so nudges come after at least ten minutes, then twenty, then forty.
        assert nudges == ["2026-06-01T00:00:10Z", "2026-06-01T00:20:00Z", "2026-06-01T00:40:00Z"]
        fleet.server.put(fleet.workload("demo", "beijing"), review=True)
        await fleet.wait(2)
        assert fleet.condition() == ("True", "AllRendered", "2 of 2 workloads")


async def test_a_refused_nudge_is_logged_and_delays_nothing(caplog: pytest.LogCaptureFixture) -> None:
    fleet = Fleet()
    subject = fleet.subject(pools=POOLS)

    def refuse(method: str, path: str) -> APIError | None:
        return APIError(403, "Forbidden", "no") if method == "PATCH" and path == subject else None

    fleet.server.refuse = refuse
    fleet.observed(subject)
    async with fleet.leader():
        await render_and_wait(fleet)
        fleet.edit_template(subject, tag="9")
        await fleet.wait(30)
        assert fleet.server.writes[fleet.path()] == 2
        assert "cannot set annotation fleethook.io/nudged-at: 403 Forbidden: no" in caplog.text


def own_as_v1beta1(document: dict[str, Any]) -> dict[str, Any]:
    document["metadata"]["ownerReferences"][0]["apiVersion"] = "apps.openyurt.io/v1beta1"
    return document


async def test_the_status_reports_workloads_of_a_later_version() -> None:
    fleet = Fleet()
    subject = fleet.subject(pools=())
    fleet.server.edit(subject, {"spec": {"topology": {"pools": [{"name": "hangzhou"}]}}})
    fleet.server.put(own_as_v1beta1(fleet.workload("demo", "hangzhou")))
    async with fleet.leader():
        fleet.override(entry("*", patches=SIDE))
        await fleet.wait(5 * MINUTE)
        assert fleet.condition()[:2] == ("False", "OwnedByOtherVersion")
        assert (
            "the workloads in node pool hangzhou have owner references of another API version" in fleet.condition()[2]
        )
        assert fleet.nudges(subject) is None


async def test_statuses_and_events_are_not_repeated() -> None:
    fleet = Fleet()
    fleet.subject(pools=POOLS)
    async with fleet.leader() as controller:
        await render_and_wait(fleet)
        said, written = list(fleet.server.events), dict(fleet.server.statuses)
        looked = controller.reconciled
        await fleet.wait(60 * MINUTE)
        assert controller.reconciled >= looked + 6
        assert (fleet.server.events, fleet.server.statuses) == (said, written)


async def test_a_reconciliation_that_a_timer_starts_too_early_is_followed_by_another() -> None:
    """The clock of uvloop counts milliseconds."""
    now = [0.0]
    nobody: Any = None
    waits = OwnerWaits(nobody, nobody, nobody, seconds=10.0, interval=600.0, time=lambda: now[0], now=nobody)
    binding = Binding("", YURT_APP_SET, "default", "demo")
    at = SubjectState(binding, (overrider(),), yurt_app_set(), (), ("a",), ("a",), frozenset())
    await waits.nudge_late_owner(at)
    now[0] = 10.049
    await waits.nudge_late_owner(at)
    now[0] = 10.051
    assert (waits.is_late(at), waits.next_time(at)) == (False, 10.05)
