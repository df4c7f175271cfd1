"""The faults of an object that a rule has changed: the parts that kube-apiserver refuses or drops. For tests of rules.

Known are the schemas of built-in kinds and of given CustomResourceDefinitions, the rules about metadata, and the
immutable members of some kinds.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from fleethook.api_schema import NO_DEFINITIONS, Definitions, check_object
from fleethook.model.admission import AdmissionRequest
from fleethook.model.formats.names_and_labels import label_key_problem, label_value_problem
from fleethook.model.gvk import GroupKind, is_built_in
from fleethook.model.json import ABSENT, JSON, JSONObject, as_object, as_text, enumerate_objects, list_texts
from fleethook.patch.pointer_and_limits import escape
from fleethook.patch.pointer_and_limits import format_tokens as format_pointer
from fleethook.workload_schema.custom_resource_schema import OWN_MEMBERS
from fleethook.workload_schema.defaults import set_defaults
from fleethook.workload_schema.pod_and_workload_rules import check_metadata

POD: Final = GroupKind("", "Pod")

# pkg/apis/{apps,batch,core}/validation of k8s.io/kubernetes v1.36: ValidateDeploymentUpdate, ValidateStatefulSetUpdate,
# ValidateJobUpdate (the template of a suspended Job aside), ValidatePodUpdate and so on. Members of ``spec`` that an
# UPDATE may change; None for all others.
_IMMUTABLE: Final[Mapping[GroupKind, frozenset[str]]] = {
    GroupKind("apps", kind): frozenset({"selector"}) for kind in ("DaemonSet", "Deployment", "ReplicaSet")
}
_MUTABLE: Final[Mapping[GroupKind, frozenset[str]]] = {
    GroupKind("apps", "StatefulSet"): frozenset(
        {
            "minReadySeconds", "ordinals", "persistentVolumeClaimRetentionPolicy", "replicas", "revisionHistoryLimit",
            "template", "updateStrategy",
        }
    ),
    GroupKind("batch", "Job"): frozenset(
        {
            "activeDeadlineSeconds", "backoffLimit", "completions", "parallelism", "suspend", "ttlSecondsAfterFinished",
        }
    ),
    GroupKind("", "PersistentVolumeClaim"): frozenset({"resources", "volumeAttributesClassName", "volumeName"}),
    POD: frozenset(
        {
            "activeDeadlineSeconds", "containers", "ephemeralContainers", "initContainers", "schedulingGates",
            "terminationGracePeriodSeconds", "tolerations",
        }
    ),
}  # fmt: skip
_GATED: Final = frozenset({"affinity", "nodeSelector"})
"""Members of a Pod that may change as long as it has scheduling gates."""
TOLERATED: Final = ("is not a field of", "not null")
"""Parts of faults of objects that kube-apiserver admits, without the member or with an empty value for null."""
_CONTAINERS: Final = ("containers", "initContainers")


def list_added_faults(
    request: AdmissionRequest, changed: JSONObject, definitions: Definitions = NO_DEFINITIONS
) -> list[str]:
    """Return the faults that a change adds to the object of a request, with their places.

    kube-apiserver refuses the object for all except those of `TOLERATED`.
    """
    faults = find_faults(request, changed, definitions, request.object)
    # The author of the object may have made mistakes, too.
    present = set(find_faults(request, request.object, definitions)) if faults else set()
    return [one for one in faults if one not in present]


def find_faults(
    request: AdmissionRequest, document: JSONObject, definitions: Definitions = NO_DEFINITIONS, former: JSON = None
) -> list[str]:
    """Return the faults of an object that the request of a review would store, except in parts of a former object."""
    kind = GroupKind(request.kind.group, request.kind.kind)
    metadata, old = as_object(document.get("metadata")), as_object(request.old_object)
    own: JSONObject = {name: document[name] for name in OWN_MEMBERS if name in document}
    found = _check_members({**_omit_shared(document, former), **own}, definitions)
    return [
        *found,
        *_check_metadata(kind, metadata),
        *(_find_immutable(kind, set_defaults(document), set_defaults(dict(old))) if old else ()),
    ]


def _omit_shared(value: JSON, former: JSON) -> JSON:
    """Return a value without the members that are those of the former value: most of the object."""
    if isinstance(value, dict) and isinstance(former, dict):
        changed = {name: one for name, one in value.items() if one is not former.get(name, ABSENT)}
        return {name: _omit_shared(one, former.get(name)) for name, one in changed.items()}
    if isinstance(value, list) and isinstance(former, list) and len(value) == len(former):
        return [_omit_shared(one, other) for one, other in zip(value, former, strict=True)]
    return value


def _check_members(document: JSONObject, definitions: Definitions) -> Iterator[str]:
    """Yield the faults by the schema of a kind."""
    for finding in check_object(document, definitions, is_request=True):
        if finding.code != "unknown-kind":
            separator = " " if finding.code == "unknown-field" else ": "
            yield f"{finding.field}{separator}{finding.message}"


# k8s.io/apimachinery v0.36, pkg/api/validation/objectmeta.go, and ValidateObjectMeta in pkg/apis/core/validation.
_OF_OWNER: Final = ("apiVersion", "kind", "name", "uid")
_STANDARD_FINALIZERS: Final = ("kubernetes", "orphan", "foregroundDeletion")


def _check_metadata(kind: GroupKind, metadata: Mapping[str, JSON]) -> Iterator[str]:
    """Yield the faults of labels, annotations, owners and finalizers."""
    for name, value in as_object(metadata.get("labels")).items():
        if problem := label_value_problem(as_text(value)):
            yield f"/metadata/labels/{escape(name)}: {problem}"
    for violation in check_metadata(dict(metadata)):
        yield f"{format_pointer(('metadata', *map(str, violation.tokens)))}: {violation.message}"
    yield from _check_owners(metadata)
    yield from _check_finalizers(kind, list_texts(metadata.get("finalizers")))


def _check_owners(metadata: Mapping[str, JSON]) -> Iterator[str]:
    owners = [*enumerate_objects(metadata.get("ownerReferences"))]
    for index, owner in owners:
        for member in _OF_OWNER:
            if not owner.get(member):
                yield f"/metadata/ownerReferences/{index}/{member}: is required: set it"
        version = as_text(owner.get("apiVersion"))
        if version.count("/") > 1 or version.endswith("/"):
            yield f"/metadata/ownerReferences/{index}/apiVersion: must be a group and a version, such as apps/v1"
        if (owner.get("apiVersion"), owner.get("kind")) == ("v1", "Event"):
            yield f"/metadata/ownerReferences/{index}: an Event owns nothing"
    if sum(owner.get("controller") is True for _, owner in owners) > 1:
        yield "/metadata/ownerReferences: only one owner may be the controller"


def _check_finalizers(kind: GroupKind, finalizers: Sequence[str]) -> Iterator[str]:
    if {"orphan", "foregroundDeletion"} <= {*finalizers}:
        yield "/metadata/finalizers: orphan and foregroundDeletion exclude each other"
    for index, name in enumerate(finalizers):
        if problem := label_key_problem(name):
            yield f"/metadata/finalizers/{index}: {problem}"
        elif "/" not in name and is_built_in(kind.group) and name not in _STANDARD_FINALIZERS:
            yield f"/metadata/finalizers/{index}: {name!r} is no standard finalizer: prefix it with a domain and '/'"


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
