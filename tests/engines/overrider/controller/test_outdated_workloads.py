"""Tests of workloads without an override that lack members of their template."""

from typing import Any

from tests.builders import entry, image, patch
from tests.engines.overrider.running import Fleet

# A sidecar: the override does not cover the template's image.
SIDE = [patch("add", "/spec/template/spec/containers/-", {"name": "side", "image": "busybox:1"})]

POOLS = ("hangzhou", "beijing")

MINUTE = 60.0


async def test_an_outdated_workload_without_override_has_its_owner_nudged() -> None:
    """Its write was refused, too, because the webhook reviews all workloads of a node pool."""
    fleet = Fleet()
    subject = fleet.subject(pools=POOLS)
    fleet.override(entry("elsewhere", patches=SIDE))
    fleet.edit_template(subject, tag="9")
    async with fleet.leader():
        await fleet.wait_for(lambda: fleet.nudges(subject))
        assert fleet.server.writes == {subject: 1}
        fleet.owner_writes(*POOLS, tag="9")
        await fleet.wait(60 * MINUTE)
        assert fleet.server.writes == {subject: 1}


def mirror(document: dict[str, Any]) -> dict[str, Any]:
    """Another webhook, which replaces images by those of a mirror."""
    for container in document["spec"]["template"]["spec"]["containers"]:
        container["image"] = "mirror.local/" + container["image"].removeprefix("mirror.local/")
    return document


async def test_an_owner_whose_writes_are_changed_by_another_webhook_is_not_nudged() -> None:
    fleet = Fleet()
    fleet.server.after.append(mirror)
    subject = fleet.subject(pools=POOLS)
    fleet.override(entry("elsewhere", patches=SIDE))
    fleet.owner_writes(*POOLS, tag="1.0")
    async with fleet.leader():
        await fleet.wait(60 * MINUTE)
        assert not fleet.server.writes
        assert sum(fleet.server.dry_runs.values()) == 2
        # The dry run shows whether the owner could write the template.
        fleet.edit_template(subject, tag="9")
        await fleet.wait_for(lambda: fleet.nudges(subject), seconds=11 * MINUTE)


async def test_a_later_edit_of_another_client_causes_no_nudge() -> None:
    fleet = Fleet()
    fleet.subject(pools=POOLS)
    fleet.override(entry("elsewhere", patches=SIDE))
    for name in POOLS:
        label = {"metadata": {"labels": {"apps.openyurt.io/controller-revision-hash": "demo-1"}}}
        fleet.server.edit(fleet.path(pool_name=name), label)
    containers = [{"name": "nginx", "image": "edited:1"}]
    fleet.server.edit(fleet.path(), {"spec": {"template": {"spec": {"containers": containers}}}})
    async with fleet.leader():
        await fleet.wait(60 * MINUTE)
        assert not fleet.server.writes


async def test_an_override_that_hides_an_edit_of_the_template_leaves_no_other_pool_behind() -> None:
    """The webhook was away, so both writes were refused. The entry replaces the image, so its workload looks current."""
    fleet = Fleet()
    subject = fleet.subject(pools=POOLS)
    fleet.override(entry("hangzhou", items=[image("nginx", "nginx:2.0")]))
    async with fleet.leader():
        await fleet.wait_for(lambda: fleet.image() == "nginx:2.0")
    for name in POOLS:
        label = {"metadata": {"labels": {"apps.openyurt.io/controller-revision-hash": "demo-1"}}}
        fleet.server.edit(fleet.path(pool_name=name), label)
    fleet.edit_template(subject, tag="9")
    before = dict(fleet.server.writes)
    async with fleet.leader():
        await fleet.wait_for(lambda: fleet.nudges(subject))
        # One nudge shows whether the owner has something to write.
        await fleet.wait(60 * MINUTE)
        assert fleet.server.writes == {**before, subject: 1}


async def test_a_subject_without_overrider_is_not_nudged() -> None:
    fleet = Fleet()
    subject = fleet.subject(pools=POOLS)
    fleet.server.delete(fleet.path(pool_name="beijing"))
    fleet.edit_template(subject, tag="9")
    async with fleet.leader():
        await fleet.wait(60 * MINUTE)
        assert not fleet.server.writes
