"""Tests of converging one workload: lost values, defaults, conflicts and refused writes, against an apiserver in memory."""

from typing import Any

from fleethook.cluster.api_errors import APIError
from fleethook.cluster.store import ObjectKey
from fleethook.engines.overrider.controller.openyurt_renderer_and_definition import MUTATING_CONFIGURATION
from tests.builders import entry, image, patch
from tests.engines.overrider.running import Fleet, pod_spec, prune_misspelled

TO_2 = [image("nginx", "nginx:2.0")]


SPEC = "/spec/template/spec"

MINUTE = 60.0


def drop_empty(document: dict[str, Any]) -> dict[str, Any]:
    """Drop two empty members as an apiserver does. They represent any member that fleethook does not expect to be dropped."""
    for name in ("emptyOne", "emptyOther"):
        pod_spec(document).pop(name, None)
    return document


async def test_an_unknown_field_is_reported_and_requested_once() -> None:
    fleet = Fleet()
    fleet.server.after.append(prune_misspelled)
    fleet.subject()
    async with fleet.leader():
        fleet.override(entry("*", items=TO_2, patches=[patch("add", f"{SPEC}/hostNetwrok", True)]))
        await fleet.wait_for(lambda: fleet.condition()[1] == "FieldsNotKept")
        await fleet.wait(5 * MINUTE)
        assert fleet.server.writes[fleet.path()] == 1
        assert fleet.condition()[2] == (
            "0 of 1 workloads; demo-hangzhou-x in hangzhou: the apiserver did not keep /spec/template/spec/hostNetwrok: "
            "check the path for a misspelled field, and whether another webhook changes it"
        )
        assert fleet.image() == "nginx:2.0"


async def test_empty_values_that_are_not_stored_are_no_drift() -> None:
    fleet = Fleet()
    fleet.server.after.append(drop_empty)
    # An apiserver stores the workload without them.
    fleet.subject(emptyOne=False)
    fleet.server.put(fleet.workload("demo", "hangzhou"))
    async with fleet.leader():
        fleet.override(entry("*", items=TO_2, patches=[patch("add", f"{SPEC}/emptyOther", "")]))
        await fleet.wait_for(lambda: fleet.condition()[1] == "AllRendered")
        await fleet.wait(5 * MINUTE)
        assert fleet.server.writes[fleet.path()] == 1
        assert fleet.condition() == (
            "True", "AllRendered",
            f"1 of 1 workloads; defaults and empty values stored otherwise than requested: {SPEC}/emptyOne, {SPEC}/emptyOther",
        )  # fmt: skip


async def test_lost_values_are_not_requested_again_when_pods_become_ready() -> None:
    """Each pod changes the status of its workload many times."""
    fleet = Fleet()
    fleet.server.after.append(prune_misspelled)
    fleet.subject()
    async with fleet.leader() as controller:
        fleet.override(entry("*", items=TO_2, patches=[patch("add", f"{SPEC}/hostNetwrok", True)]))
        await fleet.wait_for(lambda: fleet.condition()[1] == "FieldsNotKept")
        await fleet.wait(1)
        looked = controller.reconciled
        for ready in range(20):
            fleet.server.edit(fleet.path(), {"status": {"readyReplicas": ready}}, review=False)
            await fleet.wait(1)
        assert fleet.server.writes[fleet.path()] == 1
        assert controller.reconciled == looked


async def test_an_edit_before_the_answer_to_a_write_that_lost_values_is_repaired() -> None:
    fleet = Fleet()
    fleet.server.after.append(prune_misspelled)
    fleet.server.late = True
    edits = [{"spec": {"template": {"spec": {"containers": [{"name": "nginx", "image": "edited:9"}]}}}}]
    fleet.server.stored.append(lambda path: fleet.server.edit(path, edits.pop(), review=False) if edits else None)
    fleet.subject()
    async with fleet.leader():
        fleet.override(entry("*", items=TO_2, patches=[patch("add", f"{SPEC}/hostNetwrok", True)]))
        await fleet.wait(MINUTE)
        assert (edits, fleet.image(), fleet.condition()[1]) == ([], "nginx:2.0", "FieldsNotKept")


async def test_an_unavailable_webhook_causes_four_writes_in_the_first_minute() -> None:
    fleet = Fleet()
    fleet.subject()
    async with fleet.leader():
        fleet.server.webhook = False
        fleet.override(entry("*", items=TO_2))
        await fleet.wait(MINUTE)
        assert 3 <= fleet.server.writes[fleet.path()] <= 5
        assert fleet.condition()[:2] == ("False", "NotRendered")
        assert "check that the webhook is registered" in fleet.condition()[2]
        fleet.server.webhook = True
        await fleet.wait_for(lambda: fleet.condition()[1] == "AllRendered", seconds=5 * MINUTE)


async def test_a_drift_is_repaired_although_another_webhook_changes_each_write() -> None:
    fleet = Fleet()

    def mirror(document: dict[str, Any]) -> dict[str, Any]:
        container = pod_spec(document)["containers"][0]
        container["image"] = "mirror.local/" + container["image"].removeprefix("mirror.local/")
        return document

    fleet.server.after.append(mirror)
    fleet.subject()
    async with fleet.leader():
        fleet.override(entry("*", items=TO_2))
        await fleet.wait(5 * MINUTE)
        assert (fleet.image(), fleet.server.writes[fleet.path()]) == ("mirror.local/nginx:2.0", 1)
        containers = [{"name": "nginx", "image": "edited:9"}]
        fleet.server.edit(fleet.path(), {"spec": {"template": {"spec": {"containers": containers}}}}, review=False)
        await fleet.wait(5 * MINUTE)
        assert (fleet.image(), fleet.server.writes[fleet.path()]) == ("mirror.local/nginx:2.0", 2)


async def test_the_controller_does_not_fight_a_webhook_that_undoes_renders() -> None:
    fleet = Fleet()
    fleet.subject()

    def undo(document: dict[str, Any]) -> dict[str, Any]:
        pod_spec(document)["containers"][0]["image"] = "theirs:1"
        return document

    fleet.server.after.append(undo)
    async with fleet.leader():
        fleet.override(entry("*", items=TO_2))
        await fleet.wait(5 * MINUTE)
        assert fleet.server.writes[fleet.path()] == 1
        assert fleet.condition()[:2] == ("False", "FieldsNotKept")
        fleet.server.after.clear()
        other = ObjectKey("", MUTATING_CONFIGURATION, "", "other")
        for webhooks in ([{"name": "undo.example.com"}], []):
            fleet.objects.put(
                {
                    "apiVersion": "admissionregistration.k8s.io/v1",
                    "kind": other.group_kind.kind,
                    "metadata": {"name": other.name},
                    "webhooks": webhooks,
                }
            )
        await fleet.wait_for(lambda: fleet.condition()[1] == "AllRendered", seconds=5)


async def test_a_scale_is_undone_and_names_the_scaler_and_the_remedy() -> None:
    fleet = Fleet()
    fleet.subject()
    owners = [
        {"manager": "fleethook", "time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:spec": {"f:template": {}}}},
        {"manager": "kubectl", "subresource": "scale", "time": "2026-01-02T00:00:00Z", "fieldsV1": {"f:spec": {"f:replicas": {}}}},
    ]  # fmt: skip

    def scale(replicas: int) -> None:
        fleet.server.edit(
            fleet.path(), {"metadata": {"managedFields": owners}, "spec": {"replicas": replicas}}, review=False
        )

    def text(replicas: int) -> str:
        return (
            f"kubectl (scale) set {replicas} replicas, and YurtAppOverrider demo sets 5 in entries[0].items[0]: to leave the "
            "number to kubectl (scale), write `leave: [replicas]` there instead"
        )

    async with fleet.leader():
        fleet.override(entry("*", items=[{"replicas": 5}]))
        await fleet.wait_for(lambda: fleet.condition()[1] == "AllRendered")
        for replicas in (7, 8):
            scale(replicas)
            await fleet.wait(1)
            problem = f"0 of 1 workloads; demo-hangzhou-x in hangzhou: {text(replicas)}"
            assert fleet.condition() == ("False", "NotRendered", problem)
            await fleet.wait_for(lambda: fleet.server[fleet.path()]["spec"]["replicas"] == 5)
        assert [message for reason, message in fleet.server.events if reason == "ScaleUndone"] == [text(7), text(8)]


async def test_a_refused_write_is_retried_with_backoff_and_reported() -> None:
    fleet = Fleet()
    fleet.subject()
    async with fleet.leader():
        refused = []

        def refuse(method: str, path: str) -> APIError | None:
            if method == "PATCH" and "deployments" in path:
                refused.append(path)
                return APIError(403, "Forbidden", "no")
            return None

        fleet.server.refuse = refuse
        fleet.override(entry("*", items=TO_2))
        await fleet.wait(MINUTE)
        assert 3 <= len(refused) <= 5
        assert fleet.condition()[2].endswith("the write failed: 403 Forbidden: no")


async def test_a_deleted_overrider_is_undone_and_forgotten() -> None:
    fleet = Fleet()
    fleet.server.after.append(prune_misspelled)
    fleet.subject()
    async with fleet.leader() as controller:
        rule = fleet.override(entry("*", items=TO_2, patches=[patch("add", f"{SPEC}/hostNetwrok", True)]))
        await fleet.wait_for(lambda: fleet.condition()[1] == "FieldsNotKept")
        fleet.server.delete(rule)
        await fleet.wait_for(lambda: fleet.image() == "nginx:1.0", seconds=2)
        assert ("Reverted", "reverted to their template: demo-hangzhou-x in hangzhou") in fleet.server.events
        assert len(controller.workloads.drifts.unstored) == 0
