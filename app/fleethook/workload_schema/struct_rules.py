"""Rules about several members of a struct that need no other part of the workload.

Source: pkg/apis/core/validation of k8s.io/kubernetes v1.36. A rule gets a struct in stored form, without the defaults
of kube-apiserver and without values of a wrong type.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from fleethook.model.formats.names_and_labels import label_key_problem, label_value_problem
from fleethook.model.formats.quantity import Quantity
from fleethook.model.json import JSON, JSONObject, as_list, as_object, enumerate_objects
from fleethook.workload_schema.json_schema import Violation, shown_value
from fleethook.workload_schema.pool_value_marks import as_sample

Rule = Callable[[JSONObject], Iterator[Violation]]

_NO_EXECUTE: Final = "NoExecute"
_LISTING: Final = ("In", "NotIn")
_EXISTENCE: Final = ("Exists", "DoesNotExist")
_COMPARING: Final = ("Gt", "Lt")
_MAX_ANNOTATIONS: Final = 256 * 1024
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


def check_node_selector(pod: JSONObject) -> Iterator[Violation]:
    """Yield the keys of a node selector that are no labels."""
    return _check_keys(pod, "nodeSelector")


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


def _check_dns_config(config: JSONObject) -> Iterator[Violation]:
    for member, most in (("nameservers", 3), ("searches", 32)):
        count = len(as_list(config.get(member)))
        if count > most:
            yield Violation((member,), f"must have at most {most} elements, not {count}")


def _check_choice(member: str, known: tuple[str, ...]) -> Rule:
    def check(node: JSONObject) -> Iterator[Violation]:
        value = node.get(member)
        if isinstance(value, str) and value not in known:
            yield Violation((member,), f"must be one of {', '.join(known)}, not {shown_value(value)}")

    return check


def check_sysctls(context: JSONObject) -> Iterator[Violation]:
    """Yield the sysctls of a pod whose names are repeated."""
    seen: dict[str, int] = {}
    for number, sysctl in enumerate_objects(context.get("sysctls")):
        name = sysctl.get("name")
        if isinstance(name, str) and (first := seen.setdefault(name, number)) != number:
            yield Violation(
                ("sysctls", number, "name"), f"is {shown_value(name)}, which sysctls[{first}] has, too", "duplicate"
            )


def _check_fibre_channel(source: JSONObject) -> Iterator[Violation]:
    names = [name for name in ("targetWWNs", "wwids") if source.get(name)]
    if len(names) != 1:
        yield Violation(("targetWWNs",), "must have exactly one of targetWWNs and wwids")
    elif names == ["targetWWNs"] and "lun" not in source:
        yield Violation(("lun",), "is required with targetWWNs: set it", "missing")


STRUCT_RULES: Final[Mapping[str, tuple[Rule, ...]]] = {
    "core.v1.Container": (_check_resources,),
    "core.v1.ContainerResizePolicy": (
        _check_choice("resourceName", ("cpu", "memory")),
        _check_choice("restartPolicy", ("NotRequired", "RestartContainer")),
    ),
    "core.v1.DownwardAPIVolumeFile": (_check_downward_file,),
    "core.v1.EmptyDirVolumeSource": (_check_empty_dir,),
    "core.v1.EnvVarSource": (_check_env_source,),
    "core.v1.FCVolumeSource": (_check_fibre_channel,),
    "core.v1.NodeSelectorTerm": (_check_node_selector_term,),
    "core.v1.PersistentVolumeClaimSpec": (_check_claim,),
    "core.v1.PodDNSConfig": (_check_dns_config,),
    "core.v1.PodOS": (_check_choice("name", ("linux", "windows")),),
    "core.v1.PodSecurityContext": (check_sysctls,),
    "core.v1.PodSpec": (check_node_selector,),
    "core.v1.ProjectedVolumeSource": (_check_projected_files,),
    "core.v1.SecurityContext": (_check_security_context,),
    "core.v1.Toleration": (_check_toleration,),
    "core.v1.TopologySpreadConstraint": (_check_spread,),
    "core.v1.VolumeMount": (_check_mount,),
    "meta.v1.LabelSelector": (lambda selector: _check_keys(selector, "matchLabels"),),
    "meta.v1.LabelSelectorRequirement": (_check_label_requirement,),
    "meta.v1.ObjectMeta": (check_metadata,),
}
"""The rules of a struct by its name."""
