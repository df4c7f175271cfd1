"""Rules about the pod template and other parts of a workload, its metadata, and duplicates in its lists.

Source: pkg/apis/core/validation and pkg/apis/apps/validation of k8s.io/kubernetes v1.36. A rule gets a struct in stored
form, without the defaults of kube-apiserver and without values of a wrong type. Lists other than those of
`find_duplicates` may repeat a merge key: ``env``, ``ports`` (except names), ``hostAliases`` and ``imagePullSecrets``.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Final

from fleethook.model.formats.names_and_labels import compile_selector, label_key_problem, label_value_problem
from fleethook.model.json import JSON, JSONObject, as_list, as_object, enumerate_objects
from fleethook.workload_schema.container_and_volume_rules import CONTAINER_LISTS, POD_SPEC, check_choice
from fleethook.workload_schema.defaults import find_default
from fleethook.workload_schema.formats_and_messages import FORMATS, Rule, Violation, WorkloadFinding, shown_value
from fleethook.workload_schema.pool_value_marks import as_sample

_ROLLING: Final = ("spec", "strategy", "rollingUpdate")
_PROGRESS_DEADLINE: Final = ("spec", "progressDeadlineSeconds")
_ONLY_LINUX: Final = (
    "allowPrivilegeEscalation", "appArmorProfile", "capabilities", "fsGroup", "fsGroupChangePolicy", "privileged",
    "procMount", "readOnlyRootFilesystem", "runAsGroup", "runAsUser", "seLinuxOptions", "seccompProfile",
    "supplementalGroups", "supplementalGroupsPolicy", "sysctls",
)  # fmt: skip
_ONLY_LINUX_POD: Final = ("hostIPC", "hostPID", "shareProcessNamespace")
_NO_EXECUTE: Final = "NoExecute"
_LISTING: Final = ("In", "NotIn")
_EXISTENCE: Final = ("Exists", "DoesNotExist")
_COMPARING: Final = ("Gt", "Lt")
_MAX_ANNOTATIONS: Final = 256 * 1024


def _check_toleration(toleration: JSONObject) -> Iterator[Violation]:
    key, operator, value = toleration.get("key"), toleration.get("operator", "Equal"), toleration.get("value")
    if not key and operator != "Exists":
        yield Violation(("operator",), "must be Exists if there is no key, which tolerates every taint")
    if "tolerationSeconds" in toleration and toleration.get("effect") != _NO_EXECUTE:
        yield Violation(("effect",), f"must be {_NO_EXECUTE} if tolerationSeconds is set")
    if operator == "Exists" and value:
        yield Violation(("value",), "must be empty if operator is Exists: remove it, or use operator Equal")
    elif operator == "Equal" and isinstance(value, str) and (problem := label_value_problem(as_sample(value))):
        yield Violation(("value",), problem)


def _check_node_selector_term(term: JSONObject) -> Iterator[Violation]:
    for number, requirement in enumerate_objects(term.get("matchExpressions")):
        yield from _check_values(requirement, ("matchExpressions", number, "values"))
    for number, requirement in enumerate_objects(term.get("matchFields")):
        place = ("matchFields", number)
        if requirement.get("operator") not in _LISTING:
            yield Violation((*place, "operator"), "must be In or NotIn for a field of a node")
        elif len(as_list(requirement.get("values"))) != 1:
            yield Violation((*place, "values"), "must have exactly one value for a field of a node")
        if requirement.get("key") != "metadata.name":
            yield Violation((*place, "key"), "must be metadata.name, the only field of a node that selects")


def _check_values(requirement: JSONObject, place: tuple[str | int, ...]) -> Iterator[Violation]:
    operator, values = requirement.get("operator"), as_list(requirement.get("values"))
    if operator in _LISTING and not values:
        yield Violation(place, f"must have a value if operator is {operator}", "missing")
    elif operator in _EXISTENCE and values:
        yield Violation(place, f"must be empty if operator is {operator}")
    elif operator in _COMPARING and len(values) != 1:
        yield Violation(place, f"must have exactly one value if operator is {operator}")


def _check_label_requirement(requirement: JSONObject) -> Iterator[Violation]:
    if requirement.get("operator") not in (*_LISTING, *_EXISTENCE):
        yield Violation(("operator",), f"must be one of {', '.join((*_LISTING, *_EXISTENCE))}")
    yield from _check_values(requirement, ("values",))


def _check_spread(constraint: JSONObject) -> Iterator[Violation]:
    if "minDomains" in constraint and constraint.get("whenUnsatisfiable") != "DoNotSchedule":
        yield Violation(("minDomains",), "may only be set if whenUnsatisfiable is DoNotSchedule")
    if constraint.get("matchLabelKeys") and "labelSelector" not in constraint:
        yield Violation(("matchLabelKeys",), "may only be set if labelSelector is set")


def check_metadata(metadata: JSONObject) -> Iterator[Violation]:
    """Yield the keys that are no labels or annotations, and annotations that are too long."""
    yield from _check_keys(metadata, "labels")
    annotations = as_object(metadata.get("annotations"))
    for key in annotations:
        # Upstream compares the keys of annotations in lower case.
        if (problem := label_key_problem(as_sample(key.lower()))) is not None:
            yield Violation(("annotations", key), problem)
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items() if isinstance(value, str))
    if size > _MAX_ANNOTATIONS:
        yield Violation(("annotations",), f"must have at most {_MAX_ANNOTATIONS} bytes together, not {size}")


def _check_keys(node: JSONObject, member: str) -> Iterator[Violation]:
    for key in as_object(node.get(member)):
        if (problem := label_key_problem(as_sample(key))) is not None:
            yield Violation((member, key), problem)


def _check_node_selector(pod: JSONObject) -> Iterator[Violation]:
    """Yield the keys of a node selector that are no labels."""
    return _check_keys(pod, "nodeSelector")


def _check_dns_config(config: JSONObject) -> Iterator[Violation]:
    for member, most in (("nameservers", 3), ("searches", 32)):
        count = len(as_list(config.get(member)))
        if count > most:
            yield Violation((member,), f"must have at most {most} elements, not {count}")


def _check_sysctls(context: JSONObject) -> Iterator[Violation]:
    """Yield the sysctls of a pod whose names are repeated."""
    seen: dict[str, int] = {}
    for number, sysctl in enumerate_objects(context.get("sysctls")):
        name = sysctl.get("name")
        if isinstance(name, str) and (first := seen.setdefault(name, number)) != number:
            yield Violation(
                ("sysctls", number, "name"), f"is {shown_value(name)}, which sysctls[{first}] has, too", "duplicate"
            )


def _check_pod(pod: JSONObject) -> Iterator[Violation]:
    restart = pod.get("restartPolicy", "Always")
    if restart in ("Never", "OnFailure"):
        message = f"must be Always, not {restart}: the pods of a Deployment or StatefulSet run until they are deleted"
        yield Violation(("restartPolicy",), message)
    if "activeDeadlineSeconds" in pod:
        yield Violation(("activeDeadlineSeconds",), "may not be set in a Deployment or StatefulSet: remove it")
    if pod.get("ephemeralContainers"):
        yield Violation(("ephemeralContainers",), "may not be set in a template: remove it")
    if pod.get("dnsPolicy") == "None" and not as_object(pod.get("dnsConfig")).get("nameservers"):
        yield Violation(("dnsConfig", "nameservers"), "must have an address if dnsPolicy is None", "missing")
    yield from _check_host_namespaces(pod)


def _check_host_namespaces(pod: JSONObject) -> Iterator[Violation]:
    if pod.get("hostPID") is True and pod.get("shareProcessNamespace") is True:
        yield Violation(("shareProcessNamespace",), "must not be true if hostPID is true")
    if pod.get("hostUsers") is False:
        for name in ("hostPID", "hostIPC", "hostNetwork"):
            if pod.get(name) is True:
                yield Violation((name,), "must not be true if hostUsers is false")


def _check_system(pod: JSONObject) -> Iterator[Violation]:
    """Yield the members that the operating system of the pod does not have."""
    name = as_object(pod.get("os")).get("name")
    if name not in ("linux", "windows"):
        return
    contexts: list[tuple[tuple[str | int, ...], JSONObject]] = [
        (("securityContext",), pod.get("securityContext") or {})
    ]
    for list_name in CONTAINER_LISTS:
        for number, container in enumerate_objects(pod.get(list_name)):
            contexts.append(((list_name, number, "securityContext"), container.get("securityContext") or {}))
    foreign = ("windowsOptions",) if name == "linux" else _ONLY_LINUX
    if name == "windows":
        contexts.append(((), {member: pod[member] for member in _ONLY_LINUX_POD if pod.get(member)}))
    for place, context in contexts:
        for member in context if place == () else (one for one in foreign if one in context):
            yield Violation((*place, member), f"may not be set for a pod of {name}: remove it")


def _check_host_ports(pod: JSONObject) -> Iterator[Violation]:
    is_host = pod.get("hostNetwork") is True
    seen: dict[tuple[JSON, ...], str] = {}
    for number, container in enumerate_objects(pod.get("containers")):
        for position, port in enumerate_objects(container.get("ports")):
            place, host_port = ("containers", number, "ports", position, "hostPort"), port.get("hostPort")
            if not isinstance(host_port, int):
                continue
            if is_host and host_port != port.get("containerPort"):
                message = f"must be equal to containerPort if hostNetwork is true, not {host_port}"
                yield Violation(place, message)
            here = f"containers[{number}].ports[{position}]"
            earlier = seen.setdefault((port.get("protocol", "TCP"), port.get("hostIP", ""), host_port), here)
            if earlier != here:
                yield Violation(place, f"is {host_port}, which {earlier} has, too", "duplicate")


def _check_deployment(spec: JSONObject) -> Iterator[Violation]:
    ready, deadline = (
        spec.get("minReadySeconds", 0),
        spec.get("progressDeadlineSeconds", find_default(_PROGRESS_DEADLINE)),
    )
    if isinstance(ready, int) and isinstance(deadline, int) and deadline <= ready:
        member = "progressDeadlineSeconds" if "progressDeadlineSeconds" in spec else "minReadySeconds"
        than = "more than minReadySeconds" if member != "minReadySeconds" else "less than progressDeadlineSeconds"
        message = f"must be {than}: progressDeadlineSeconds is {deadline}, minReadySeconds {ready}"
        yield Violation((member,), message)
    yield from _check_rolling_update(as_object(spec.get("strategy")))
    pod = as_object(as_object(spec.get("template")).get("spec"))
    for name in ("hostname", "subdomain"):
        text = pod.get(name)
        if isinstance(text, str) and (problem := FORMATS["label"](as_sample(text))) is not None:
            yield Violation((*POD_SPEC, name), f"{problem}, not {shown_value(text)}")


def _check_rolling_update(strategy: Mapping[str, JSON]) -> Iterator[Violation]:
    if strategy.get("type", "RollingUpdate") != "RollingUpdate":
        return
    rolling = {**find_default(_ROLLING), **as_object(strategy.get("rollingUpdate"))}
    surge, unavailable = (_read_number(rolling[name]) for name in ("maxSurge", "maxUnavailable"))
    place = ("strategy", "rollingUpdate", "maxUnavailable")
    if surge == unavailable == 0:
        yield Violation(place, "must not be 0 if maxSurge is 0: then no pod can be replaced")
    text = rolling["maxUnavailable"]
    if isinstance(text, str) and unavailable is not None and unavailable > 100:
        yield Violation(place, f"must be at most 100%, not {text}")


def _read_number(value: JSON) -> int | None:
    """Return an int-or-string value without its percent sign, None if it is neither."""
    digits = value.removesuffix("%") if isinstance(value, str) else ""
    # More digits are no valid percentage either, and Python refuses to parse thousands.
    return int(digits[:9]) if digits.isascii() and digits.isdecimal() else value if isinstance(value, int) else None


def _check_selector(spec: JSONObject) -> Iterator[Violation]:
    selector = spec.get("selector")
    labels = as_object(as_object(as_object(spec.get("template")).get("metadata")).get("labels"))
    if isinstance(selector, dict) and not compile_selector(selector)(labels):
        yield Violation(("template", "metadata", "labels"), "must have the labels that spec.selector selects")


_POD_SPEC: Final = "/spec/template/spec"
IN_POD: Final = (
    ("volumes", ("name",)),
    ("resourceClaims", ("name",)),
    ("schedulingGates", ("name",)),
    ("topologySpreadConstraints", ("topologyKey", "whenUnsatisfiable")),
)
_IN_CONTAINER: Final = (
    ("ports", ("name",)),
    ("resizePolicy", ("resourceName",)),
    ("volumeDevices", ("devicePath",)),
    ("volumeMounts", ("mountPath",)),
)


def find_duplicates(workload: JSONObject) -> Iterator[WorkloadFinding]:
    """Yield a finding for each element of the pod template whose identity an earlier element has."""
    pod_spec = as_object(as_object(as_object(workload.get("spec")).get("template")).get("spec"))
    yield from _find_repeated([(_POD_SPEC, pod_spec, name) for name in CONTAINER_LISTS], ("name",))
    for name, keys in IN_POD:
        yield from _find_repeated([(_POD_SPEC, pod_spec, name)], keys)
    for list_name in CONTAINER_LISTS:
        for pointer, container in _list_elements(_POD_SPEC, pod_spec, list_name):
            for name, keys in _IN_CONTAINER:
                yield from _find_repeated([(pointer, container, name)], keys)


_List = tuple[str, JSON, str]
"""The pointer of an object, the object, and the name of a list in it."""


def _find_repeated(lists: list[_List], keys: tuple[str, ...]) -> Iterator[WorkloadFinding]:
    first: dict[tuple[JSON, ...], str] = {}
    for pointer, element in (found for where in lists for found in _list_elements(*where)):
        identity = tuple(element.get(key) for key in keys)
        if not all(isinstance(value, str) for value in identity):
            continue  # An optional member, or one with a wrong type, which has its own finding.
        earlier = first.setdefault(identity, pointer)
        if earlier != pointer:
            identifying = ", ".join(f"{key} {json.dumps(value)}" for key, value in zip(keys, identity, strict=True))
            yield WorkloadFinding(
                pointer, "duplicate", f"{earlier} has the same {identifying}: rename or remove one of them"
            )


def _list_elements(pointer: str, node: JSON, name: str) -> Iterator[tuple[str, JSONObject]]:
    for index, element in enumerate(as_list(as_object(node).get(name))):
        if isinstance(element, dict):
            yield f"{pointer}/{name}/{index}", element


POD_RULES: Final[Mapping[str, tuple[Rule, ...]]] = {
    "apps.v1.DeploymentSpec": (_check_deployment, _check_selector),
    "apps.v1.StatefulSetSpec": (_check_selector,),
    "core.v1.NodeSelectorTerm": (_check_node_selector_term,),
    "core.v1.PodDNSConfig": (_check_dns_config,),
    "core.v1.PodOS": (check_choice("name", ("linux", "windows")),),
    "core.v1.PodSecurityContext": (_check_sysctls,),
    "core.v1.PodSpec": (_check_node_selector, _check_pod, _check_system, _check_host_ports),
    "core.v1.Toleration": (_check_toleration,),
    "core.v1.TopologySpreadConstraint": (_check_spread,),
    "meta.v1.LabelSelector": (lambda selector: _check_keys(selector, "matchLabels"),),
    "meta.v1.LabelSelectorRequirement": (_check_label_requirement,),
    "meta.v1.ObjectMeta": (check_metadata,),
}
"""The rules about pods and workloads by the name of the struct that they get."""
