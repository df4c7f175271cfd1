"""Rules about containers and volumes of a workload, and the members of structs that exclude each other.

Source: pkg/apis/core/validation of k8s.io/kubernetes v1.36. A rule gets a struct in stored form, without the defaults
of kube-apiserver and without values of a wrong type. tests/conformance/workload_rules.yaml has a workload for each
choice, with the answer of kube-apiserver.
"""

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final, NamedTuple

from fleethook.model.formats.names_and_labels import label_key_problem
from fleethook.model.formats.quantity import Quantity
from fleethook.model.json import JSON, JSONObject, as_list, as_object, enumerate_objects
from fleethook.workload_schema.defaults import find_default
from fleethook.workload_schema.formats_and_messages import Rule, Violation, shown_value
from fleethook.workload_schema.go_structs import load_structs
from fleethook.workload_schema.pool_value_marks import as_sample

CONTAINER_LISTS: Final = ("initContainers", "containers")
POD_SPEC: Final = ("template", "spec")
_STANDARD_RESOURCES: Final = ("cpu", "memory", "ephemeral-storage")
_HUGE_PAGES: Final = "hugepages-"
_NATIVE: Final = "kubernetes.io/"
_POD_PATHS: Final = ("metadata.name", "metadata.namespace", "metadata.uid")
_ENV_PATHS: Final = (
    *_POD_PATHS, "spec.nodeName", "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP",
    "status.podIPs",
)  # fmt: skip
_FILE_PATHS: Final = (*_POD_PATHS, "metadata.labels", "metadata.annotations")
_SUBSCRIPT: Final = re.compile(r"metadata\.(labels|annotations)\['.*'\]")
_CONTAINER_RESOURCES: Final = tuple(
    f"{kind}.{name}" for kind in ("limits", "requests") for name in ("cpu", "memory", "ephemeral-storage")
)
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_HOOKS: Final = ("postStart", "preStop")
_GRACE_PERIOD: Final = ("spec", *POD_SPEC, "terminationGracePeriodSeconds")


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


def _check_containers(pod: JSONObject) -> Iterator[Violation]:
    for list_name in CONTAINER_LISTS:
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


def _check_volumes(spec: JSONObject) -> Iterator[Violation]:
    """Yield a violation for each mount and device whose volume does not exist, or is no block volume."""
    templates = [as_object(claim.get("metadata")) for _, claim in enumerate_objects(spec.get("volumeClaimTemplates"))]
    claims = frozenset(template.get("name") for template in templates)
    pod = as_object(as_object(spec.get("template")).get("spec"))
    volumes = {volume.get("name"): volume for _, volume in enumerate_objects(pod.get("volumes"))}
    known = [name for name in (*volumes, *sorted(claims, key=str)) if isinstance(name, str)]
    for list_name in CONTAINER_LISTS:
        for number, container in enumerate_objects(pod.get(list_name)):
            for member in ("volumeMounts", "volumeDevices"):
                for position, mount in enumerate_objects(container.get(member)):
                    name, place = mount.get("name"), (*POD_SPEC, list_name, number, member, position, "name")
                    if isinstance(name, str) and name not in known:
                        others = f"; there are {', '.join(known)}" if known else ""
                        yield Violation(place, f"the pod has no volume {json.dumps(name)}{others}")
                    elif member == "volumeDevices" and name not in claims and not _is_claim(volumes.get(name, {})):
                        yield Violation(place, "must name a volume with a persistentVolumeClaim or ephemeral source")


def _is_claim(volume: JSONObject) -> bool:
    return "persistentVolumeClaim" in volume or "ephemeral" in volume


def _check_resources(container: JSONObject) -> Iterator[Violation]:
    resources = as_object(container.get("resources"))
    limits, requests = as_object(resources.get("limits")), as_object(resources.get("requests"))
    for kind, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            for message in _check_amount(name, read_quantity(amount)):
                yield Violation(("resources", kind, name), message)
    for name, amount in requests.items():
        if (problem := _compare_with_limit(name, amount, limits)) is not None:
            yield Violation(("resources", "requests", name), problem)
    named = (*limits, *requests)
    if any(name.startswith(_HUGE_PAGES) for name in named) and not {"cpu", "memory"}.intersection(named):
        yield Violation(("resources",), "must have cpu or memory, too, because it has huge pages")


def _check_amount(name: str, amount: Quantity | None) -> Iterator[str]:
    if "/" not in name and name not in _STANDARD_RESOURCES and not name.startswith(_HUGE_PAGES):
        known = ", ".join((*_STANDARD_RESOURCES, f"{_HUGE_PAGES}SIZE"))
        yield f"is not a resource of containers: there are {known} and names with a domain such as example.com/device"
    elif "/" in name and _NATIVE not in name and (name.startswith("requests.") or label_key_problem(as_sample(name))):
        yield "is not the name of an extended resource: write it as in example.com/device"
    if amount is not None and amount.value < 0:
        yield f"must not be negative, and is {amount}"
    elif amount is not None and _is_extended(name) and amount.value.denominator != 1:
        yield f"must be a whole number, not {amount}"


def _is_extended(name: str) -> bool:
    return "/" in name and _NATIVE not in name


def _compare_with_limit(name: str, amount: JSON, limits: Mapping[str, JSON]) -> str | None:
    """Return the problem of a request, compared with the limit of the same resource."""
    is_exclusive = _is_extended(name) or name.startswith(_HUGE_PAGES)
    if name not in limits:
        return f"must have an equal limit, because {name} cannot be shared" if is_exclusive else None
    requested, limit = read_quantity(amount), read_quantity(limits[name])
    if requested is None or limit is None:
        return None
    if is_exclusive and requested != limit:
        return f"must be equal to the limit of {limit}, not {requested}, because {name} cannot be shared"
    return f"must be at most the limit of {limit}, not {requested}" if requested > limit else None


def read_quantity(value: JSON) -> Quantity | None:
    """Return a quantity, None if the value is none."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    try:
        return Quantity.parse(value)
    except ValueError:
        return None


def _check_security_context(context: JSONObject) -> Iterator[Violation]:
    if context.get("allowPrivilegeEscalation") is not False:
        return
    place = ("allowPrivilegeEscalation",)
    if context.get("privileged") is True:
        yield Violation(place, "must not be false if privileged is true: remove one of them")
    if "CAP_SYS_ADMIN" in as_list(as_object(context.get("capabilities")).get("add")):
        yield Violation(place, "must not be false if capabilities.add has CAP_SYS_ADMIN")


def _check_mount(mount: JSONObject) -> Iterator[Violation]:
    if mount.get("recursiveReadOnly") not in ("Enabled", "IfPossible"):
        return
    if not mount.get("readOnly"):
        yield Violation(("recursiveReadOnly",), "may only be set if readOnly is true")
    if mount.get("mountPropagation", "None") != "None":
        yield Violation(("recursiveReadOnly",), "may only be set if mountPropagation is None")


def _check_env_source(source: JSONObject) -> Iterator[Violation]:
    yield from _check_field_path(source, _ENV_PATHS)
    yield from _check_resource(source)


def _check_downward_file(file: JSONObject) -> Iterator[Violation]:
    yield from _check_field_path(file, _FILE_PATHS)
    yield from _check_resource(file)
    if "resourceFieldRef" in file and not as_object(file["resourceFieldRef"]).get("containerName"):
        yield Violation(("resourceFieldRef", "containerName"), "is required: set it", "missing")


def _check_field_path(node: JSONObject, known: tuple[str, ...]) -> Iterator[Violation]:
    path = as_object(node.get("fieldRef")).get("fieldPath")
    if isinstance(path, str) and path not in known and _SUBSCRIPT.fullmatch(path) is None:
        others = f"{', '.join(known)}, metadata.labels['KEY'] and metadata.annotations['KEY']"
        yield Violation(("fieldRef", "fieldPath"), f"must be one of {others}, not {shown_value(path)}")


def _check_resource(node: JSONObject) -> Iterator[Violation]:
    name = as_object(node.get("resourceFieldRef")).get("resource")
    if not isinstance(name, str) or name in _CONTAINER_RESOURCES or name.partition(".")[2].startswith(_HUGE_PAGES):
        return
    known = ", ".join(_CONTAINER_RESOURCES)
    yield Violation(("resourceFieldRef", "resource"), f"must be one of {known}, not {shown_value(name)}")


def _check_claim(claim: JSONObject) -> Iterator[Violation]:
    modes = as_list(claim.get("accessModes"))
    if "ReadWriteOncePod" in modes and len(set(map(str, modes))) > 1:
        yield Violation(("accessModes",), "must not have ReadWriteOncePod together with another mode")
    place = ("resources", "requests", "storage")
    requests = as_object(as_object(claim.get("resources")).get("requests"))
    amount = read_quantity(requests.get("storage"))
    if "storage" not in requests:
        yield Violation(place, "is required: set it", "missing")
    elif amount is not None and amount.value <= 0:
        yield Violation(place, f"must be more than 0, not {amount}")


def _check_empty_dir(source: JSONObject) -> Iterator[Violation]:
    limit = read_quantity(source.get("sizeLimit"))
    if limit is not None and limit.value < 0:
        yield Violation(("sizeLimit",), f"must not be negative, and is {limit}")


def _check_projected_files(source: JSONObject) -> Iterator[Violation]:
    """Yield a violation for each path of a file that an earlier source has."""
    seen: dict[str, int] = {}
    for number, projection in enumerate_objects(source.get("sources")):
        for kind in ("secret", "configMap", "downwardAPI"):
            for position, item in enumerate_objects(as_object(projection.get(kind)).get("items")):
                path = item.get("path")
                if isinstance(path, str) and seen.setdefault(path, number) != number:
                    place = ("sources", number, kind, "items", position, "path")
                    yield Violation(place, f"is {shown_value(path)}, which sources[{seen[path]}] has, too", "duplicate")


def check_choice(member: str, known: tuple[str, ...]) -> Rule:
    """Return the rule that a member has one of the known values."""

    def check(node: JSONObject) -> Iterator[Violation]:
        value = node.get(member)
        if isinstance(value, str) and value not in known:
            yield Violation((member,), f"must be one of {', '.join(known)}, not {shown_value(value)}")

    return check


def _check_fibre_channel(source: JSONObject) -> Iterator[Violation]:
    names = [name for name in ("targetWWNs", "wwids") if source.get(name)]
    if len(names) != 1:
        yield Violation(("targetWWNs",), "must have exactly one of targetWWNs and wwids")
    elif names == ["targetWWNs"] and "lun" not in source:
        yield Violation(("lun",), "is required with targetWWNs: set it", "missing")


class ExclusiveMembers(NamedTuple):
    """The members of a struct that exclude each other."""

    members: frozenset[str]
    needed: bool
    """Whether kube-apiserver refuses a struct without any of them."""


class Discriminated(NamedTuple):
    """A member that is allowed only with certain values of another one, such as ``type``."""

    discriminator: str
    member: str
    values: frozenset[str]
    """The values of the discriminator that allow the member."""
    needed: bool
    """Whether these values need the member."""


_KEYED_SOURCES: Final = frozenset({"configMapKeyRef", "fieldRef", "fileKeyRef", "resourceFieldRef", "secretKeyRef"})
_CHOICES: Final[Mapping[str, ExclusiveMembers]] = {
    "core.v1.DownwardAPIVolumeFile": ExclusiveMembers(frozenset({"fieldRef", "resourceFieldRef"}), needed=True),
    "core.v1.EnvFromSource": ExclusiveMembers(frozenset({"configMapRef", "secretRef"}), needed=True),
    "core.v1.EnvVar": ExclusiveMembers(frozenset({"value", "valueFrom"}), needed=False),
    "core.v1.EnvVarSource": ExclusiveMembers(_KEYED_SOURCES, needed=True),
    "core.v1.LifecycleHandler": ExclusiveMembers(frozenset({"exec", "httpGet", "sleep", "tcpSocket"}), needed=True),
    "core.v1.PodResourceClaim": ExclusiveMembers(
        frozenset({"resourceClaimName", "resourceClaimTemplateName"}), needed=True
    ),
    "core.v1.Probe": ExclusiveMembers(frozenset({"exec", "grpc", "httpGet", "tcpSocket"}), needed=True),
    "core.v1.VolumeMount": ExclusiveMembers(frozenset({"subPath", "subPathExpr"}), needed=False),
}
_LOCALHOST: Final = Discriminated("type", "localhostProfile", frozenset({"Localhost"}), needed=True)
_ROLLING: Final = Discriminated("type", "rollingUpdate", frozenset({"RollingUpdate", ""}), needed=False)
DISCRIMINATED: Final[Mapping[str, Discriminated]] = {
    "apps.v1.DeploymentStrategy": _ROLLING,
    "apps.v1.StatefulSetUpdateStrategy": _ROLLING,
    "core.v1.AppArmorProfile": _LOCALHOST,
    "core.v1.SeccompProfile": _LOCALHOST,
}


@cache
def load_choices() -> Mapping[str, ExclusiveMembers]:
    """Return the choices by the names of their structs; each struct has one at most."""
    structs = load_structs()
    sources = frozenset(structs["core.v1.Volume"]) - {"name"}
    projections = frozenset(structs["core.v1.VolumeProjection"])
    return {
        **_CHOICES,
        "core.v1.Volume": ExclusiveMembers(sources, needed=False),
        "core.v1.VolumeProjection": ExclusiveMembers(projections, needed=False),
    }


def find_conflicts(choice: ExclusiveMembers, node: JSONObject) -> Iterator[Violation]:
    """Yield the violation of a choice.

    Args:
        choice: The choice of the struct.
        node: The struct, without members that are empty.
    """
    given = [name for name in node if name in choice.members]
    if len(given) > 1:
        advice = "remove one of them" if len(given) == 2 else f"keep one of {', '.join(given)}"
        yield Violation((given[1],), f"may not be set together with {given[0]}: {advice}")
    elif choice.needed and not given:
        yield Violation((), f"must have one of {', '.join(sorted(choice.members))}")


def find_disallowed(rule: Discriminated, node: JSONObject) -> Iterator[Violation]:
    """Yield the violation of a rule about a discriminator.

    Args:
        rule: The rule of the struct.
        node: The struct, without members that are empty.
    """
    value, wanted = node.get(rule.discriminator, ""), " or ".join(sorted(rule.values - {""}))
    if rule.member in node and value not in rule.values:
        yield Violation((rule.member,), f"may only be set if {rule.discriminator} is {wanted}, not {value}")
    elif rule.needed and rule.member not in node and value in rule.values:
        yield Violation((rule.member,), f"is required if {rule.discriminator} is {wanted}")


CONTAINER_RULES: Final[Mapping[str, tuple[Rule, ...]]] = {
    "apps.v1.DeploymentSpec": (_check_volumes,),
    "apps.v1.StatefulSetSpec": (_check_volumes,),
    "core.v1.Container": (_check_resources, _check_container),
    "core.v1.ContainerResizePolicy": (
        check_choice("resourceName", ("cpu", "memory")),
        check_choice("restartPolicy", ("NotRequired", "RestartContainer")),
    ),
    "core.v1.DownwardAPIVolumeFile": (_check_downward_file,),
    "core.v1.EmptyDirVolumeSource": (_check_empty_dir,),
    "core.v1.EnvVarSource": (_check_env_source,),
    "core.v1.FCVolumeSource": (_check_fibre_channel,),
    "core.v1.PersistentVolumeClaimSpec": (_check_claim,),
    "core.v1.PodSpec": (_check_containers,),
    "core.v1.ProjectedVolumeSource": (_check_projected_files,),
    "core.v1.SecurityContext": (_check_security_context,),
    "core.v1.VolumeMount": (_check_mount,),
}
"""The rules about containers and volumes by the name of the struct that they get."""
