"""The faults of an object that a rule has changed: the parts that kube-apiserver refuses or drops. For tests of rules.

Known are the schemas of Deployments, StatefulSets and Pods, their immutable members, and the metadata of all kinds.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, get_args

from fleethook.model.admission import AdmissionRequest
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.patch import apply
from fleethook.workload_schema.check import check_workload
from fleethook.workload_schema.go_structs import Kind

POD: Final = GroupKind("", "Pod")
_TEMPLATE: Final = "/spec/template"
_DEPLOYMENT: Final[JSONObject] = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}}
_EVERY_POD: Final[JSONObject] = {}
# Members of a Pod that a template of a Deployment may not have, or not with these values.
_RESTARTS: Final = ("Never", "OnFailure")
_ONLY_PODS: Final = ("activeDeadlineSeconds", "ephemeralContainers")

# pkg/apis/apps/validation and pkg/apis/core/validation of k8s.io/kubernetes v1.36: ValidateDeploymentUpdate,
# ValidateStatefulSetUpdate and ValidatePodUpdate. Members of ``spec`` that an UPDATE may change; None for all others.
_IMMUTABLE: Final[Mapping[GroupKind, frozenset[str]]] = {GroupKind("apps", "Deployment"): frozenset({"selector"})}
_MUTABLE: Final[Mapping[GroupKind, frozenset[str]]] = {
    GroupKind("apps", "StatefulSet"): frozenset(
        {
            "minReadySeconds", "ordinals", "persistentVolumeClaimRetentionPolicy", "replicas", "revisionHistoryLimit",
            "template", "updateStrategy",
        }
    ),
    POD: frozenset(
        {
            "activeDeadlineSeconds", "containers", "ephemeralContainers", "initContainers", "schedulingGates",
            "terminationGracePeriodSeconds", "tolerations",
        }
    ),
}  # fmt: skip
_GATED: Final = frozenset({"affinity", "nodeSelector"})
"""Members of a Pod that may change as long as it has scheduling gates."""
_CONTAINERS: Final = ("containers", "initContainers")


def list_added_faults(request: AdmissionRequest, patch: Sequence[JSONObject]) -> list[str]:
    """Return the faults that a patch adds to the object of a request, with their JSON pointers."""
    found = find_faults(request, dict(as_object(apply(request.object, patch))))
    # The author of the object may have made mistakes, too.
    present = set(find_faults(request, dict(as_object(request.object)))) if found else set()
    return [one for one in found if one not in present]


def find_faults(request: AdmissionRequest, document: JSONObject) -> list[str]:
    """Return the faults of an object that the request of a review would store."""
    kind = GroupKind(request.kind.group, request.kind.kind)
    found = [str(one) for one in _check_built_in(kind, document)]
    old = as_object(request.old_object)
    return [*found, *_find_immutable(kind, document, old)] if old else found


def _check_built_in(kind: GroupKind, document: JSONObject) -> Iterator[Any]:
    if kind == POD:
        yield from _check_pod(document)
    elif kind.group == "apps" and kind.kind in get_args(Kind):
        name: Any = kind.kind
        yield from check_workload(document, name)
    else:
        found = check_workload({**_DEPLOYMENT, "metadata": document.get("metadata")}, "Deployment")
        yield from (one for one in found if one.pointer.startswith("/metadata"))


def _check_pod(pod: JSONObject) -> Iterator[Any]:
    """Yield the findings about a Pod as those about the template of a Deployment."""
    for one in check_workload(_wrap_pod(pod), "Deployment"):
        if one.pointer.startswith(_TEMPLATE):
            yield one._replace(pointer=one.pointer.removeprefix(_TEMPLATE))


def _is_no_template(pod: JSONObject) -> bool:
    """Return whether a pod has members that the template of a Deployment may not have, or not with their values."""
    spec = as_object(pod.get("spec"))
    return spec.get("restartPolicy") in _RESTARTS or any(name in spec for name in _ONLY_PODS)


def _wrap_pod(pod: JSONObject) -> JSONObject:
    """Return a Deployment with the template that describes a Pod."""
    template: JSONObject = {"spec": {}, **pod}
    for name in ("apiVersion", "kind", "status"):
        template.pop(name, None)
    spec = template["spec"]
    if _is_no_template(pod) and isinstance(spec, dict):
        template["spec"] = {name: value for name, value in spec.items() if name not in _ONLY_PODS}
        if spec.get("restartPolicy") in _RESTARTS:
            template["spec"]["restartPolicy"] = "Always"
    return {**_DEPLOYMENT, "spec": {"selector": _EVERY_POD, "template": template}}


def _find_immutable(kind: GroupKind, document: JSONObject, old: Mapping[str, JSON]) -> Iterator[str]:
    after, before = as_object(document.get("spec")), as_object(old.get("spec"))
    changed = sorted(name for name in after.keys() | before.keys() if after.get(name) != before.get(name))
    if kind in _IMMUTABLE:
        fixed = [name for name in changed if name in _IMMUTABLE[kind]]
    elif kind in _MUTABLE:
        allowed = _MUTABLE[kind] | (_GATED if kind == POD and before.get("schedulingGates") else frozenset())
        fixed = [name for name in changed if name not in allowed]
    else:
        return
    for name in fixed:
        yield f"/spec/{name}: may not change in an UPDATE"
    if kind == POD:
        yield from _find_immutable_containers(after, before)


def _find_immutable_containers(after: Mapping[str, JSON], before: Mapping[str, JSON]) -> Iterator[str]:
    """Yield the members of containers that an UPDATE may not change: all except the image."""
    for list_name in _CONTAINERS:
        new, former = ([*map(as_object, one.get(list_name) or ())] for one in (after, before))
        if len(new) != len(former):
            yield f"/spec/{list_name}: an UPDATE may neither add nor remove a container"
            continue
        for number, (one, other) in enumerate(zip(new, former, strict=True)):
            for name in sorted(one.keys() | other.keys()):
                if name != "image" and one.get(name) != other.get(name):
                    yield f"/spec/{list_name}/{number}/{name}: may not change in an UPDATE"
