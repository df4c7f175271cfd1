"""Items and patches, as they apply to a reviewed workload."""

import copy
from typing import Any

import pytest

from fleethook.engines.overrider.entries.steps_and_limits import ITEMS, item_effect
from tests.builders import (
    container,
    entry,
    image,
    images,
    overrider,
    patch,
    pod_spec,
    pod_template,
    rendered,
    workload,
    yurt_app_set,
)


def test_inside_an_entry_items_come_before_patches() -> None:
    both = entry(
        "*",
        items=[image("nginx", "nginx-item"), {"replicas": 5}],
        patches=[patch("replace", "/spec/template/spec/containers/0/image", "nginx-patch")],
    )
    result = rendered(workload(), yurt_app_set(), overrider(both))
    assert (images(result), result["spec"]["replicas"]) == ({"nginx": "nginx-patch"}, 5)


def test_an_image_item_reaches_containers_and_init_containers_of_its_name() -> None:
    template = pod_template(
        containers=[container("c"), container("d")], initContainers=[container("c"), container("i")]
    )
    rule = overrider(entry("*", items=[image("c", "new")]))
    result = rendered(workload(template=template), yurt_app_set(template=template), rule)
    assert [c["image"] for c in pod_spec(result)["containers"]] == ["new", "nginx:1.0"]
    assert [c["image"] for c in pod_spec(result)["initContainers"]] == ["new", "nginx:1.0"]


def test_the_pool_token_is_replaced_in_values_paths_and_images() -> None:
    rule = overrider(
        entry(
            "*",
            items=[image("nginx", "reg.{{nodepool}}.local/nginx")],
            patches=[
                patch("add", "/metadata/annotations/{{nodepool}}", "x"),
                patch("add", "/spec/template/spec/nodeSelector", {"{{nodepool}}": "in-{{nodepool}}"}),
            ],
        )
    )
    result = rendered(workload(), yurt_app_set(), rule)
    assert images(result) == {"nginx": "reg.hangzhou.local/nginx"}
    assert result["metadata"]["annotations"]["hangzhou"] == "x"
    assert pod_spec(result)["nodeSelector"] == {"hangzhou": "in-hangzhou"}


def test_remove_removes_and_replace_replaces_without_merging() -> None:
    template = pod_template(nodeSelector={"a": "b"}, containers=[container(args=["x"])])
    rule = overrider(
        entry(
            "*",
            patches=[
                patch("remove", "/spec/template/spec/containers/0/args"),
                patch("replace", "/spec/template/spec/nodeSelector", {"z": "1"}),
            ],
        )
    )
    result = rendered(workload(template=template), yurt_app_set(template=template), rule)
    assert "args" not in pod_spec(result)["containers"][0]
    assert pod_spec(result)["nodeSelector"] == {"z": "1"}


def test_removing_a_list_element_leaks_nothing_into_its_neighbour() -> None:
    first = container("c0", args=["--a"], env=[{"name": "E", "value": "1"}])
    template = pod_template(containers=[first, container("c1", "i1")])
    rule = overrider(entry("*", patches=[patch("remove", "/spec/template/spec/containers/0")]))
    result = rendered(workload(template=template), yurt_app_set(template=template), rule)
    assert pod_spec(result)["containers"] == [{"name": "c1", "image": "i1"}]


def test_null_unsets_a_member() -> None:
    template = pod_template(containers=[container(env=[{"name": "E", "value": "1"}])])
    rule = overrider(entry("*", patches=[patch("replace", "/spec/template/spec/containers/0/env", None)]))
    result = rendered(workload(template=template), yurt_app_set(template=template), rule)
    assert "env" not in pod_spec(result)["containers"][0]


POD = pod_template(
    containers=[container("app", env=[{"name": "OLD", "value": "1"}])],
    nodeSelector={"disk": "ssd"},
    volumes=[{"name": "data", "emptyDir": {}}],
)
APP = "/spec/template/spec/containers/[name=app]"
SPEC = "/spec/template/spec"
# The table of docs/overriders.md.
FIELDS: dict[str, tuple[str, Any, tuple[str, ...], Any]] = {
    "env": (f"{APP}/env/[name=SITE]", {"value": "{{nodepool}}"}, ("containers", "env"), [
        {"name": "OLD", "value": "1"}, {"name": "SITE", "value": "hangzhou"},
    ]),
    "a former variable": (f"{APP}/env/[name=OLD]", {"value": "2"}, ("containers", "env"), [
        {"name": "OLD", "value": "2"},
    ]),
    "args": (f"{APP}/args", ["-v"], ("containers", "args"), ["-v"]),
    "resources": (f"{APP}/resources/limits", {"cpu": "1"}, ("containers", "resources"), {"limits": {"cpu": "1"}}),
    "volumeMounts": (f"{APP}/volumeMounts/[mountPath=~1data]", {"name": "data"}, ("containers", "volumeMounts"), [
        {"mountPath": "/data", "name": "data"},
    ]),
    "volumes": (f"{SPEC}/volumes/[name=data]", {"hostPath": {"path": "/d"}}, ("volumes",), [{"name": "data", "hostPath": {"path": "/d"}}]),
    "nodeSelector": (f"{SPEC}/nodeSelector/zone", "b", ("nodeSelector",), {"disk": "ssd", "zone": "b"}),
    "tolerations": (f"{SPEC}/tolerations/-", {"operator": "Exists"}, ("tolerations",), [{"operator": "Exists"}]),
}  # fmt: skip


@pytest.mark.parametrize("name", FIELDS)
def test_a_patch_changes_any_field(name: str) -> None:
    path, value, place, wanted = FIELDS[name]
    found: Any = pod_spec(
        rendered(
            workload(template=POD),
            yurt_app_set(template=POD),
            overrider(entry("*", patches=[patch("add", path, value)])),
        )
    )
    for member in place:
        found = found[member][0] if member == "containers" else found[member]
    assert found == wanted


WITH_ITEMS: dict[str, Any] = {
    "spec": {
        "replicas": 2,
        "template": {
            "spec": {
                "containers": [{"name": "app", "image": "app:1", "args": ["-v"]}, {"name": "side", "image": "side:1"}],
                "initContainers": [{"name": "app", "image": "init:1"}],
            },
        },
    },
}
IN_APP = {"containerName": "app"}


def expect_workload(**changes: Any) -> dict[str, Any]:
    """Return the workload with replaced members, each named by its path: `template__spec__containers`."""
    made = copy.deepcopy(WITH_ITEMS)
    for path, value in changes.items():
        *parents, last = path.split("__")
        place: Any = made["spec"]
        for name in parents:
            place = place[int(name) if name.isdigit() else name]
        place[last] = value
    return made


CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "image": (
        {"image": {**IN_APP, "imageClaim": "app:2"}},
        expect_workload(template__spec__containers__0__image="app:2", template__spec__initContainers__0__image="app:2"),
    ),
    "replicas": ({"replicas": 5}, expect_workload(replicas=5)),
    "initialReplicas": ({"initialReplicas": 5}, expect_workload(replicas=5)),
    "leave": ({"leave": ["replicas"]}, expect_workload()),
}


def test_every_item_has_a_case() -> None:
    assert sorted(CASES) == sorted(ITEMS)


@pytest.mark.parametrize("name", CASES)
def test_an_item_changes_only_its_member(name: str) -> None:
    item, wanted = CASES[name]
    before = copy.deepcopy(WITH_ITEMS)
    effect = item_effect(item)
    assert effect is not None
    assert effect.apply(before) == wanted
    assert before == WITH_ITEMS
