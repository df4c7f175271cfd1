"""Random subjects, overriders and changes of other writers, for tests of properties."""

import copy
from typing import Any

from hypothesis import strategies as st

from tests.builders import (
    container,
    entry,
    overrider,
    patch,
    pod_template,
    pool,
    tweak,
    workload,
    yurt_app_set,
    yurt_app_set_v1beta1,
)
from tests.hypothesis_profiles import examples

SPEC = "/spec/template/spec"

EXAMPLES = examples(80)
"""The number of random worlds for each property: few in each run, thousands by hand after a change of the engine."""
NAMES = st.sampled_from(["a", "b", "c", "d"])
SCALARS = st.sampled_from(["1", "x", "{{nodepool}}", "", "long value"])


def named(values: Any) -> Any:
    return st.lists(values, max_size=3, unique_by=lambda one: one["name"])


ENV = named(
    st.one_of(
        st.builds(lambda n, v: {"name": n.upper(), "value": v}, NAMES, SCALARS),
        st.builds(lambda n: {"name": n.upper(), "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}, NAMES),
    )
)
PORTS = st.lists(
    st.builds(
        lambda p, u: {"containerPort": p, "protocol": u}, st.sampled_from([53, 80]), st.sampled_from(["TCP", "UDP"])
    ),
    max_size=3,
    unique_by=lambda one: (one["containerPort"], one["protocol"]),
)
VOLUMES = named(
    st.builds(
        lambda n, source: {"name": f"v-{n}", **source},
        NAMES,
        st.sampled_from([{"emptyDir": {}}, {"hostPath": {"path": "/d"}}, {"configMap": {"name": "cm"}}]),
    )
)
TOLERATIONS = st.lists(
    st.builds(
        lambda k, e: {"key": k, "operator": "Exists", "effect": e}, NAMES, st.sampled_from(["NoSchedule", "NoExecute"])
    ),
    max_size=2,
    unique_by=lambda one: (one["key"], one["effect"]),
)
STRINGS = st.dictionaries(NAMES, SCALARS, max_size=2)


def compact(value: Any) -> Any:
    """Remove empty members, as an apiserver does."""
    if isinstance(value, dict):
        made = {name: compact(inner) for name, inner in value.items()}
        return {
            name: inner for name, inner in made.items() if inner not in ([], {}, "") or name in ("emptyDir", "value")
        }
    return [compact(inner) for inner in value] if isinstance(value, list) else value


def containers(prefix: str, *, least: int) -> Any:
    made = st.builds(
        lambda n, env, ports, args: container(f"{prefix}{n}", f"{n}:1", env=env, ports=ports, args=args),
        NAMES,
        ENV,
        PORTS,
        st.lists(SCALARS.filter(bool), max_size=2),
    )
    return st.lists(made, min_size=least, max_size=3, unique_by=lambda one: one["name"])


POD_SPECS = st.builds(
    lambda main, init, volumes, tolerations, selector: compact(
        {
            "containers": main, "initContainers": init, "volumes": volumes, "tolerations": tolerations,
            "nodeSelector": selector,
        }
    ),
    containers("m-", least=1), containers("i-", least=0), VOLUMES, TOLERATIONS, STRINGS,
)  # fmt: skip
POOL_PATCHES = st.sampled_from(
    [
        None,
        {"spec": {"template": {"spec": {"containers": [{"name": "m-a", "image": "patched:1"}, container("z-pool")]}}}},
        {"spec": {"template": {"spec": {"volumes": [{"name": "v-pool", "emptyDir": {}}], "hostNetwork": True}}}},
        {"spec": {"template": {"spec": {"containers": [{"name": "m-b", "$patch": "delete"}]}}}},
    ]
)


def template_of(spec: Any, annotations: Any) -> dict[str, Any]:
    return {
        **pod_template(),
        "metadata": compact({"labels": {"app": "demo"}, "annotations": annotations}),
        "spec": spec,
    }


ALPHA_SUBJECTS = st.builds(
    lambda spec, annotations, own: yurt_app_set(
        pools=[pool("hangzhou", **({"patch": own} if own else {}))], template=template_of(spec, annotations)
    ),
    POD_SPECS, STRINGS, POOL_PATCHES,
)  # fmt: skip

# Some of the paths are in no template. Then OpenYurt's controller writes no workload, and none is rendered.
TWEAK_PATCHES = st.sampled_from(
    [
        patch("add", f"{SPEC}/containers/0/args", ["tweaked"]),
        patch("add", f"{SPEC}/containers/-", container("z-tweak", "z:1")),
        patch("remove", f"{SPEC}/containers/0"),
        patch("replace", f"{SPEC}/containers/0/name", "m-{{nodepool-name}}"),
        patch("add", f"{SPEC}/volumes", [{"name": "v-{{nodepool-name}}", "emptyDir": {}}]),
        patch("add", f"{SPEC}/nodeSelector/zone", "{{nodepool-name}}"),
        patch("add", "/metadata/annotations/{{nodepool-name}}", "a path is no value"),
        patch("add", "/spec/template/metadata/labels/tweaked", "{{nodepool-name}}"),
        patch("add", "/spec/minReadySeconds", 5),
    ]
)
TWEAKS = st.lists(
    st.builds(
        lambda replicas, image, patches, selector: tweak(
            "hangzhou",
            selector=selector,
            **compact({"replicas": replicas, "containerImages": image, "patches": patches}),
        ),
        st.sampled_from([None, 3]),
        st.sampled_from([[], [{"name": "m-a", "targetImage": "tweaked:1"}]]),
        st.lists(TWEAK_PATCHES, max_size=2),
        st.sampled_from([None, {}, {"matchLabels": {"region": "east"}}]),
    ),
    max_size=2,
)
BETA_SUBJECTS = st.builds(
    lambda spec, annotations, tweaks: yurt_app_set_v1beta1(
        pools=["hangzhou"], tweaks=copy.deepcopy(tweaks), template=template_of(spec, annotations)
    ),
    POD_SPECS, STRINGS, TWEAKS,
)  # fmt: skip
SUBJECTS = st.one_of(ALPHA_SUBJECTS, BETA_SUBJECTS)

CONTAINER_PATHS = st.sampled_from(
    [
        "containers/0",
        "containers/1",
        "initContainers/0",
        "containers/[name=m-a]",
        "containers/[name=m-b]",
        "containers/[name=z-pool]",
    ]
)


def container_patches(path: str) -> Any:
    base = f"{SPEC}/{path}"
    return st.sampled_from(
        [
            patch("replace", f"{base}/image", "new:{{nodepool}}"),
            patch("add", f"{base}/workingDir", "/w"),
            patch("add", f"{base}/args/-", "appended"),
            patch("add", f"{base}/args", ["all"]),
            patch("remove", f"{base}/args"),
            patch("add", f"{base}/env/-", {"name": "ADDED", "value": "1"}),
            patch("add", f"{base}/env/0", {"name": "FIRST", "value": "1"}),
            patch("add", f"{base}/env/[name=A]", {"value": "named"}),
            patch("remove", f"{base}/env/[name=A]"),
            patch("add", f"{base}/env", [{"name": "B", "value": "whole"}]),
            patch("add", f"{base}/ports/-", {"containerPort": 53, "protocol": "UDP"}),
            patch("add", f"{base}/resources", {"limits": {"cpu": "1"}}),
            patch("remove", base),
        ]
    )


POD_PATCHES = st.sampled_from(
    [
        patch("add", f"{SPEC}/containers/-", container("n-last", "l:1")),
        patch("add", f"{SPEC}/containers/0", container("n-first", "f:1")),
        patch("add", f"{SPEC}/initContainers/-", container("n-init", "i:1")),
        patch("add", f"{SPEC}/volumes/-", {"name": "v-new", "hostPath": {"path": "/n"}}),
        patch("add", f"{SPEC}/volumes", [{"name": "v-a", "emptyDir": {}}]),
        patch("replace", f"{SPEC}/volumes/0", {"name": "v-a", "emptyDir": {}}),
        patch("remove", f"{SPEC}/volumes/0"),
        patch("add", f"{SPEC}/tolerations", [{"key": "n", "operator": "Exists"}]),
        patch("add", f"{SPEC}/tolerations/-", {"key": "n", "operator": "Exists"}),
        patch("add", f"{SPEC}/nodeSelector", {"zone": "z"}),
        patch("add", f"{SPEC}/nodeSelector/zone", "z"),
        patch("remove", f"{SPEC}/nodeSelector"),
        patch("add", "/spec/template/metadata/annotations/note", "n"),
        patch("add", "/spec/template/metadata/annotations", {"note": "n"}),
        patch("add", "/metadata/annotations", {"note": "n"}),
        patch("add", "/spec/strategy", {"type": "Recreate"}),
        patch("replace", "/spec/replicas", 7),
        patch("add", f"{SPEC}/securityContext", {"runAsUser": 1}),
    ]
)
ITEMS = st.sampled_from(
    [
        {"image": {"containerName": "m-a", "imageClaim": "item:1"}},
        {"replicas": 5},
    ]
)
PATCHES = st.one_of(POD_PATCHES, CONTAINER_PATHS.flatmap(container_patches))
OVERRIDERS = st.lists(
    st.builds(
        lambda items, patches: entry("*", items=copy.deepcopy(items), patches=copy.deepcopy(patches)),
        st.lists(ITEMS, max_size=2),
        st.lists(PATCHES, max_size=4),
    ),
    min_size=1,
    max_size=2,
).map(lambda entries: overrider(*entries))


def can_exist(bare: dict[str, Any]) -> bool:
    """Whether an apiserver accepts a workload: tweaks may leave two elements of a name, or a variable with two values."""
    pods = bare["spec"]["template"]["spec"]
    made = [*pods.get("containers", []), *pods.get("initContainers", [])]
    two_values = any("value" in one and "valueFrom" in one for each in made for one in each.get("env", []))
    names = [[one["name"] for one in elements] for elements in (made, pods.get("volumes", []))]
    are_unique = all(len(set(each)) == len(each) for each in names)
    return are_unique and not two_values and all(len(volume) <= 2 for volume in pods.get("volumes", []))


class Foreign:
    """Additions of other writers to a workload, never to a member that a template or an overrider names."""

    def __init__(self, draw: Any) -> None:
        self._draw = draw

    def _insert(self, elements: list[Any], element: dict[str, Any]) -> None:
        elements.insert(self._draw(st.integers(0, len(elements))), element)

    def add(self, document: dict[str, Any]) -> None:
        """Add foreign elements to ``document`` at random places."""
        pods = document["spec"]["template"]["spec"]
        self._insert(
            pods.setdefault("containers", []), container("f-sidecar", "f:1", env=[{"name": "F", "value": "1"}])
        )
        self._insert(pods.setdefault("initContainers", []), container("f-init", "f:1"))
        self._insert(pods.setdefault("volumes", []), {"name": "f-volume", "emptyDir": {"sizeLimit": "1Gi"}})
        self._insert(pods.setdefault("tolerations", []), {"key": "f", "operator": "Exists"})
        for element in pods["containers"]:
            self._insert(element.setdefault("env", []), {"name": "F_ENV", "value": "1"})
            self._insert(element.setdefault("ports", []), {"containerPort": 9999, "protocol": "UDP"})
            element["imagePullPolicy"] = "IfNotPresent"
        pods.setdefault("nodeSelector", {})["f"] = "1"
        pods["securityContext"] = {"fsGroup": 3}
        pods["restartPolicy"] = "Always"
        document["metadata"].setdefault("annotations", {})["f"] = "1"
        template = document["spec"]["template"].setdefault("metadata", {})
        template.setdefault("annotations", {})["kubectl.kubernetes.io/restartedAt"] = "now"
        document["spec"]["strategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}}
        document["spec"]["progressDeadlineSeconds"] = 600


def is_foreign(element: Any) -> bool:
    return isinstance(element, dict) and (
        str(element.get("name", "")).startswith(("f-", "F_ENV"))
        or element.get("key") == "f"
        or element.get("containerPort") == 9999
    )


def foreign_parts(value: Any, path: str = "") -> list[tuple[str, Any]]:
    """Return every foreign element with its path of names, in order."""
    found: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        for name, inner in sorted(value.items()):
            if name in ("f", "kubectl.kubernetes.io/restartedAt", "fsGroup", "imagePullPolicy", "restartPolicy"):
                found.append((f"{path}/{name}", inner))
            else:
                found += foreign_parts(inner, f"{path}/{name}")
    elif isinstance(value, list):
        for element in value:
            name = element.get("name", "") if isinstance(element, dict) else ""
            if is_foreign(element):
                found.append((path, element))
            else:
                found += foreign_parts(element, f"{path}/{name}")
    return found


def stored_by_owner(bare: dict[str, Any]) -> dict[str, Any]:
    """The workload as its owner's controller wrote it: the members of the template, with a name."""
    document = copy.deepcopy(workload())
    document["spec"] = {"replicas": 1, **copy.deepcopy(bare["spec"])}
    document["metadata"]["ownerReferences"] = copy.deepcopy(bare["metadata"]["ownerReferences"])
    document["metadata"]["labels"] = dict(bare["metadata"]["labels"])
    document["metadata"]["annotations"] = dict(bare["metadata"].get("annotations") or {})
    return document
