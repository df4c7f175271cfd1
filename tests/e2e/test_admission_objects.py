"""The objects that kube-apiserver shows to webhooks are those of tests/conformance/admission_objects.yaml."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.admission_objects import list_differences, load, mask
from tests.e2e.cluster import CRDS, WITH_ACCOUNTS, Api, ControlPlane, control_plane, is_established
from tests.e2e.foreign_webhook import recording_webhook
from tests.waiting import wait_for

NAMESPACE = "default"
FILE = load(NAMESPACE)


@pytest.fixture(scope="module")
def user(binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ControlPlane, Api]]:
    """A control plane with kube-apiserver's default admission plugins, and the user whose requests are recorded."""
    with control_plane(binaries, tmp_path_factory.mktemp("objects"), WITH_ACCOUNTS) as plane:
        api = plane.api(plane.authority.issue("recorded", "system:masters"))
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        wait_for(
            lambda: api.call("POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", account)[0] in (201, 409),
            what="the namespace exists",
        )
        for definition in FILE["definitions"]:
            name = definition["metadata"]["name"]
            api.apply(f"{CRDS}/{name}", definition)
            wait_for(lambda name=name: is_established(api, name), what=f"{name} is established")
        yield plane, api


def find_path(api: Api, document: dict[str, Any]) -> tuple[str, bool]:
    """Return the path of the resource of an object, and whether it is namespaced."""
    version = document["apiVersion"]
    base = f"/apis/{version}" if "/" in version else f"/api/{version}"
    (resource,) = [one for one in api[base]["resources"] if one["kind"] == document["kind"] and "/" not in one["name"]]
    inside = f"/namespaces/{NAMESPACE}" if resource["namespaced"] else ""
    return f"{base}{inside}/{resource['name']}", resource["namespaced"]


def send(api: Api, case: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Send the request of a case; return the objects in their namespace."""
    path, namespaced = find_path(api, case["given"])
    namespace = {"namespace": NAMESPACE} if namespaced else {}
    given, stored = (
        None if one is None else {**one, "metadata": {**one["metadata"], **namespace}}
        for one in (case["given"], case.get("stored"))
    )
    assert given is not None
    if stored is None:
        api.call("POST", path, given, dryRun="All")
        return given, None
    version = api.create(path, stored)["metadata"]["resourceVersion"]
    name, subresource = stored["metadata"]["name"], case.get("subresource", "")
    sent = {**given, "metadata": {**given["metadata"], "resourceVersion": version}}
    api.call("PUT", "/".join(filter(None, (path, name, subresource))), sent, dryRun="All")
    return given, stored


def test_webhooks_get_the_recorded_objects(user: tuple[ControlPlane, Api], tmp_path: Path) -> None:
    plane, api = user
    different = []
    with (
        recording_webhook(plane.api(), tmp_path, "recorded", phase="Mutating") as mutating,
        recording_webhook(plane.api(), tmp_path, "recorded") as validating,
    ):
        probe = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "probe"}}

        def is_recorded() -> bool:
            api.call("POST", f"/api/v1/namespaces/{NAMESPACE}/configmaps", probe, dryRun="All")
            return bool(mutating and validating)

        wait_for(is_recorded, what="the webhooks are called")
        for case in FILE["cases"]:
            mutating.clear()
            validating.clear()
            given, stored = send(api, case)
            # The last requests: those before have created the stored object.
            views = [mask(seen[-1]["object"]) for seen in (mutating, validating) if seen]
            found = {"mutating": list_differences(given, views[0])}
            if len(views) > 1:
                found["validating"] = list_differences(*views)
            if stored is not None:
                found["old"] = list_differences(stored, mask(mutating[-1]["oldObject"]))
                api.delete(f"{find_path(api, stored)[0]}/{stored['metadata']['name']}")
            for member, values in found.items():
                # Addresses and ports depend on the cluster.
                for pointer in case.get("unknown", ()):
                    if pointer in values and pointer in case[member]:
                        values[pointer] = case[member][pointer]
            if found != {member: case[member] for member in ("mutating", "validating", "old") if member in case}:
                different.append((case["given"], found))
    assert different == []
