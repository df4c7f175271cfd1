"""Additions of other clients and webhooks to workloads keep value and position, under an overrider and after it."""

import contextlib
import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.builders import container, entry, image, patch
from tests.e2e.cluster import ControlPlane
from tests.e2e.fleet import run_registered_server
from tests.e2e.foreign_webhook import foreign_webhook
from tests.e2e.openyurt import V1_5, V1Alpha1
from tests.e2e.scenario import BEIJING, Scenario, describe, scenario, subject_of
from tests.waiting import wait_for

JSONObject = dict[str, Any]
PODS = "/spec/template/spec"
NGINX = f"{PODS}/containers/0"
RESTARTED = "kubectl.kubernetes.io/restartedAt"

DNS = [
    {"name": "dns", "containerPort": 53, "protocol": "UDP"},
    {"name": "dns-tcp", "containerPort": 53, "protocol": "TCP"},
]
TOLERATIONS = [
    {"key": "a", "operator": "Exists", "effect": "NoSchedule"},
    {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 7},
]


def add_members(workload: JSONObject) -> JSONObject:
    """Add the typical additions of service meshes, policies and users, if missing."""
    made = copy.deepcopy(workload)
    made["metadata"].setdefault("annotations", {})["team.example.com/owner"] = "a"
    template = made["spec"]["template"]
    template["metadata"].setdefault("annotations", {})[RESTARTED] = "2026-01-01T00:00:00Z"
    pods = template["spec"]
    _put(pods, "containers", {"name": "mesh", "image": "mesh:1", "env": [{"name": "Z"}, {"name": "A"}]}, first=True)
    _put(pods, "initContainers", {"name": "mesh-init", "image": "mesh:1"}, first=True)
    _put(pods, "volumes", {"name": "mesh-certs", "emptyDir": {"medium": "Memory"}}, first=True)
    nginx = next(one for one in pods["containers"] if one["name"] == "nginx")
    _put(nginx, "env", {"name": "ZONE", "value": "z"}, first=True)
    _put(nginx, "env", {"name": "MESH", "value": "on"})
    _put(nginx, "volumeMounts", {"name": "mesh-certs", "mountPath": "/certs"})
    for port in DNS:
        _put(nginx, "ports", port)
    present = pods.setdefault("tolerations", [])
    present += [one for one in TOLERATIONS if one not in present]
    pods.setdefault("nodeSelector", {})["disk"] = "ssd"
    return made


def _put(target: JSONObject, member: str, element: JSONObject, *, first: bool = False) -> None:
    elements = target.setdefault(member, [])
    if not any(one["name"] == element["name"] for one in elements):
        elements.insert(0 if first else len(elements), copy.deepcopy(element))


LISTS = {
    "env": [{"name": "MODE", "value": "a"}],
    "ports": [{"name": "web", "containerPort": 80}],
    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
}
FULL = {
    "containers": [container(**LISTS)],
    "initContainers": [{"name": "setup", "image": "setup:1"}],
    "volumes": [{"name": "data", "emptyDir": {}}],
    "tolerations": [{"key": "own", "operator": "Exists"}],
    "nodeSelector": {"arch": "arm64"},
}
BARE = {"containers": [container()]}
# One of each, appended or set under its key.
ADDED = (
    (f"{PODS}/containers/-", {"name": "side", "image": "side:1"}),
    (f"{PODS}/initContainers/-", {"name": "side-init", "image": "side:1"}),
    (f"{PODS}/volumes/-", {"name": "side-data", "emptyDir": {}}),
    (f"{PODS}/tolerations/-", {"key": "side", "operator": "Exists"}),
    (f"{PODS}/nodeSelector/side", "yes"),
    (f"{NGINX}/env/-", {"name": "SIDE", "value": "yes"}),
    (f"{NGINX}/ports/-", {"name": "side", "containerPort": 81}),
    (f"{NGINX}/volumeMounts/-", {"name": "side-data", "mountPath": "/side"}),
    ("/spec/template/metadata/annotations/side", "yes"),
)


def build_entry(additions: tuple[tuple[str, Any], ...]) -> JSONObject:
    return entry(
        "*", items=[image("nginx", "nginx:2.0")], patches=[patch("add", path, value) for path, value in additions]
    )


def without_override(spec: JSONObject) -> JSONObject:
    """Remove the additions of `ADDED` and the image item; everything else keeps its position."""
    made = copy.deepcopy(spec)
    notes = made["template"]["metadata"].get("annotations", {})
    if notes.pop("side", None) and not notes:
        del made["template"]["metadata"]["annotations"]
    pods = made["template"]["spec"]
    nginx = next(one for one in pods["containers"] if one["name"] == "nginx")
    assert nginx["image"] == "nginx:2.0"
    nginx["image"] = "nginx:1.0"
    for target in (pods, nginx):
        for member, value in list(target.items()):
            kept = value
            if isinstance(value, list):
                kept = [one for one in value if not _is_override(one)]
            elif member == "nodeSelector":
                kept = {name: inner for name, inner in value.items() if name != "side"}
            target[member] = kept
            if not kept and kept != value:
                del target[member]
    return made


def _is_override(element: Any) -> bool:
    return isinstance(element, dict) and any(
        str(element.get(name, "")).lower().startswith("side") for name in ("name", "key")
    )


@pytest.fixture(scope="module")
def _server(plane: ControlPlane, crds: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with run_registered_server(plane, tmp_path_factory.mktemp("foreign")):
        yield


Make = Callable[[JSONObject], Scenario]


@pytest.fixture(params=["webhook", "client"])
def make(
    request: pytest.FixtureRequest, plane: ControlPlane, _server: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Make]:
    """Create a subject to whose workload a webhook or a client adds members: at each write, or once."""
    by_webhook = request.param == "webhook"
    with contextlib.ExitStack() as stack:
        demo = stack.enter_context(scenario(plane.api(), release=V1_5))

        def made(pods: JSONObject) -> Scenario:
            demo.api.create(V1Alpha1().path(demo.namespace), subject_of("demo", demo.namespace, pods, BEIJING))
            wait_for(lambda: demo.controller.has_settled("demo"), what="OpenYurt's controller creates the workload")
            if not by_webhook:
                demo.api.replace(demo.workload_path(BEIJING), add_members(demo.workloads()[BEIJING]))
            return demo

        if by_webhook:
            stack.enter_context(
                foreign_webhook(plane.api(), tmp_path_factory.mktemp("rival"), demo.namespace, add_members)
            )
        yield made


def workload(demo: Scenario) -> JSONObject:
    return demo.workloads()[BEIJING]


def assert_same(found: JSONObject, wanted: JSONObject) -> None:
    assert found == wanted, describe(found, wanted)


def override(demo: Scenario, additions: tuple[tuple[str, Any], ...]) -> JSONObject:
    """Override, and return the spec without the overrides."""
    demo.override(build_entry(additions))
    wait_for(demo.rendered, what="the status says that the overrider is in effect")
    return without_override(workload(demo)["spec"])


def annotations(demo: Scenario) -> JSONObject:
    """Return the annotations of a workload that no controller uses internally."""
    found = workload(demo)["metadata"]["annotations"]
    return {key: value for key, value in found.items() if "fleethook.io/" not in key and key != "LastOverrideTime"}


def stop(demo: Scenario) -> None:
    generation = workload(demo)["metadata"]["generation"]
    demo.stop_overriding()
    wait_for(lambda: workload(demo)["metadata"]["generation"] > generation, what="the workload is restored")


@pytest.mark.parametrize("pods", [FULL, BARE], ids=["template-has-the-lists", "template-lacks-the-lists"])
def test_additions_of_others_stay_beside_an_overriders(make: Make, pods: JSONObject) -> None:
    demo = make(pods)
    before, kept = workload(demo)["spec"], annotations(demo)
    assert_same(override(demo, ADDED), before)
    assert annotations(demo) == kept
    side = [one["name"] for one in workload(demo)["spec"]["template"]["spec"]["containers"]]
    assert side.count("side") == 1
    stop(demo)
    assert_same(workload(demo)["spec"], before)
    assert annotations(demo) == kept


def test_a_foreign_container_with_the_same_name_is_an_error(make: Make) -> None:
    demo = make(BARE)
    before = workload(demo)["spec"]
    demo.override(entry("*", patches=[patch("add", f"{PODS}/containers/-", {"name": "mesh", "image": "ours:1"})]))
    wait_for(lambda: "mesh" in json.dumps(demo.status()), what="the status names the container")
    assert not demo.rendered()
    assert_same(workload(demo)["spec"], before)
