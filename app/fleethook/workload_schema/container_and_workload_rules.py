"""Rules about a container, and about the parts of a workload that depend on each other.

Source: pkg/apis/core/validation and pkg/apis/apps/validation of k8s.io/kubernetes v1.36. A rule gets a struct in stored
form, without the defaults of kube-apiserver and without values of a wrong type.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Final

from fleethook.model.formats.names_and_labels import compile_selector
from fleethook.model.json import JSON, JSONObject, as_object, enumerate_objects
from fleethook.workload_schema.defaults import find_default
from fleethook.workload_schema.json_schema import FORMATS, Violation, shown_value
from fleethook.workload_schema.pool_value_marks import as_sample
from fleethook.workload_schema.struct_rules import Rule

_LISTS: Final = ("initContainers", "containers")
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_HOOKS: Final = ("postStart", "preStop")
_POD: Final = ("template", "spec")
_GRACE_PERIOD: Final = ("spec", *_POD, "terminationGracePeriodSeconds")
_ROLLING: Final = ("spec", "strategy", "rollingUpdate")
_PROGRESS_DEADLINE: Final = ("spec", "progressDeadlineSeconds")
_ONLY_LINUX: Final = (
    "allowPrivilegeEscalation", "appArmorProfile", "capabilities", "fsGroup", "fsGroupChangePolicy", "privileged",
    "procMount", "readOnlyRootFilesystem", "runAsGroup", "runAsUser", "seLinuxOptions", "seccompProfile",
    "supplementalGroups", "supplementalGroupsPolicy", "sysctls",
)  # fmt: skip
_ONLY_LINUX_POD: Final = ("hostIPC", "hostPID", "shareProcessNamespace")


def _check_container(container: JSONObject) -> Iterator[Violation]:
    for name in ("livenessProbe", "startupProbe"):
        successes = as_object(container.get(name)).get("successThreshold", 1)
        if isinstance(successes, int) and successes > 1:
            message = f"must be 1, not {successes}: only a readinessProbe may have more"
            yield Violation((name, "successThreshold"), message)
    if "terminationGracePeriodSeconds" in as_object(container.get("readinessProbe")):
        yield Violation(("readinessProbe", "terminationGracePeriodSeconds"), "may not be set for a readinessProbe")
    yield from _check_mounts(container)


def _check_mounts(container: JSONObject) -> Iterator[Violation]:
    """Yield the violations of mounts by themselves, and of those whose volume is a device, too."""
    privileged = as_object(container.get("securityContext")).get("privileged") is True
    devices = [device for _, device in enumerate_objects(container.get("volumeDevices"))]
    names, paths = ({device.get(member) for device in devices} - {None} for member in ("name", "devicePath"))
    for number, mount in enumerate_objects(container.get("volumeMounts")):
        place = ("volumeMounts", number)
        if mount.get("mountPropagation") == "Bidirectional" and not privileged:
            message = "may only be Bidirectional if securityContext.privileged is true"
            yield Violation((*place, "mountPropagation"), message)
        for member, used in (("name", names), ("mountPath", paths)):
            if mount.get(member) in used:
                yield Violation((*place, member), "must not be in volumeDevices, too", "duplicate")


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
    for list_name in _LISTS:
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


def _check_containers(pod: JSONObject) -> Iterator[Violation]:
    for list_name in _LISTS:
        for number, container in enumerate_objects(pod.get(list_name)):
            yield from _check_in_pod(container, pod, (list_name, number))


def _check_in_pod(container: JSONObject, pod: JSONObject, place: tuple[str | int, ...]) -> Iterator[Violation]:
    if place[0] == "initContainers" and container.get("restartPolicy") != "Always":
        for name in (*_PROBES, "lifecycle"):
            if name in container:
                message = "may not be set for an init container, unless its restartPolicy is Always"
                yield Violation((*place, name), message)
    claims = [claim.get("name") for _, claim in enumerate_objects(pod.get("resourceClaims"))]
    for number, claim in enumerate_objects(as_object(container.get("resources")).get("claims")):
        if claim.get("name") not in claims:
            message = f"the pod has no resource claim {shown_value(claim.get('name'))}"
            yield Violation((*place, "resources", "claims", number), message)
    grace = pod.get("terminationGracePeriodSeconds", find_default(_GRACE_PERIOD))
    for hook in _HOOKS:
        sleep = as_object(as_object(container.get("lifecycle")).get(hook)).get("sleep")
        seconds = sleep.get("seconds", 0) if isinstance(sleep, dict) else None
        if isinstance(seconds, int) and isinstance(grace, int) and not 0 <= seconds <= grace:
            message = f"must be from 0 to terminationGracePeriodSeconds, which is {grace}, not {seconds}"
            yield Violation((*place, "lifecycle", hook, "sleep", "seconds"), message)
    if as_object(container.get("securityContext")).get("procMount") == "Unmasked" and pod.get("hostUsers") is not False:
        yield Violation((*place, "securityContext", "procMount"), "may only be Unmasked if hostUsers is false")


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
            yield Violation((*_POD, name), f"{problem}, not {shown_value(text)}")


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


def _check_volumes(spec: JSONObject) -> Iterator[Violation]:
    """Yield a violation for each mount and device whose volume does not exist, or is no block volume."""
    templates = [as_object(claim.get("metadata")) for _, claim in enumerate_objects(spec.get("volumeClaimTemplates"))]
    claims = frozenset(template.get("name") for template in templates)
    pod = as_object(as_object(spec.get("template")).get("spec"))
    volumes = {volume.get("name"): volume for _, volume in enumerate_objects(pod.get("volumes"))}
    known = [name for name in (*volumes, *sorted(claims, key=str)) if isinstance(name, str)]
    for list_name in _LISTS:
        for number, container in enumerate_objects(pod.get(list_name)):
            for member in ("volumeMounts", "volumeDevices"):
                for position, mount in enumerate_objects(container.get(member)):
                    name, place = mount.get("name"), (*_POD, list_name, number, member, position, "name")
                    if isinstance(name, str) and name not in known:
                        others = f"; there are {', '.join(known)}" if known else ""
                        yield Violation(place, f"the pod has no volume {json.dumps(name)}{others}")
                    elif member == "volumeDevices" and name not in claims and not _is_claim(volumes.get(name, {})):
                        yield Violation(place, "must name a volume with a persistentVolumeClaim or ephemeral source")


def _is_claim(volume: JSONObject) -> bool:
    return "persistentVolumeClaim" in volume or "ephemeral" in volume


CONTAINER_RULES: Final[Mapping[str, tuple[Rule, ...]]] = {
    "apps.v1.DeploymentSpec": (_check_deployment, _check_selector, _check_volumes),
    "apps.v1.StatefulSetSpec": (_check_selector, _check_volumes),
    "core.v1.Container": (_check_container,),
    "core.v1.PodSpec": (_check_pod, _check_system, _check_host_ports, _check_containers),
}
"""The rules of a struct by its name."""
