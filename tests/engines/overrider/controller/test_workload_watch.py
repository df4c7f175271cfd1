"""The first comparisons of a new leader, and the answers to its writes."""

from collections.abc import AsyncIterator
from typing import Any

from fleethook.cluster.store import ObjectKey
from fleethook.model.gvk import GroupKind
from tests.builders import entry, image, patch
from tests.engines.overrider.running import Fleet, prune_misspelled

TO_2 = [image("nginx", "nginx:2.0")]
KEY = ObjectKey("", GroupKind("apps", "Deployment"), "default", "demo-hangzhou-x")


async def test_a_new_leader_reconciles_each_subject_before_and_after_it_has_compared_all_workloads() -> None:
    fleet = Fleet()
    for name in ("demo", "other"):
        fleet.subject(name)
    async with fleet.leader():
        for name in ("demo", "other"):
            fleet.override(entry("*", items=TO_2), subject=name)
        await fleet.wait_for(lambda: fleet.condition(subject="other")[1] == "AllRendered")
    fleet.server.late = True
    async with fleet.leader() as again:
        await fleet.wait(30)
        assert (again.reconciled, again.handlers.resyncs) == (4, 1)
        await fleet.wait(600)
        assert (again.reconciled, again.handlers.resyncs) == (6, 2)


async def test_a_new_leader_reports_no_success_before_it_knows_the_lost_values() -> None:
    fleet = Fleet()
    fleet.server.after.append(prune_misspelled)
    fleet.subject()
    async with fleet.leader():
        fleet.override(entry("*", items=TO_2, patches=[patch("add", "/spec/template/spec/hostNetwrok", True)]))
        await fleet.wait_for(lambda: fleet.condition()[1] == "FieldsNotKept")
    events, statuses = list(fleet.server.events), dict(fleet.server.statuses)
    fleet.server.late = True
    async with fleet.leader() as again:
        await fleet.wait(30)
        assert again.handlers.resyncs == 1
    assert (fleet.server.events, fleet.server.statuses) == (events, statuses)
    assert fleet.condition()[1] == "FieldsNotKept"


async def test_a_new_leader_reverts_changes_made_without_a_leader() -> None:
    fleet = Fleet()
    fleet.subject()
    async with fleet.leader():
        fleet.override(entry("*", items=TO_2))
        await fleet.wait_for(lambda: fleet.condition()[1] == "AllRendered")
    containers = [{"name": "nginx", "image": "theirs:1"}]
    fleet.server.edit(fleet.path(), {"spec": {"template": {"spec": {"containers": containers}}}}, review=False)
    fleet.server.late = True
    async with fleet.leader():
        await fleet.wait_for(lambda: fleet.image() == "nginx:2.0", seconds=60)


async def test_a_version_older_than_the_watch_is_not_compared(monkeypatch: Any) -> None:
    fleet = Fleet()
    fleet.subject()
    async with fleet.leader() as controller:
        fleet.override(entry("*", items=TO_2))
        await fleet.wait_for(lambda: fleet.condition()[1] == "AllRendered")
        known, stale = controller.workloads, fleet.server[fleet.path()]
        stale["metadata"]["resourceVersion"] = "3"
        stale["spec"]["template"]["spec"]["containers"][0]["image"] = "theirs:1"

        async def read_all() -> AsyncIterator[tuple[ObjectKey, Any]]:
            yield KEY, stale

        monkeypatch.setattr(known.client, "read_all", read_all)
        assert [key async for key, _ in known.look_at_all()] == [KEY]
        assert known.drifts.find(KEY) is None
