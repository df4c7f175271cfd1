"""Finds the subject that owns a workload, and its workloads, also those that have lost their owner: the orphans.

Orphans are workloads of node pools that no controller of OpenYurt manages any more. An upgrade from OpenYurt 1.4
releases every workload of a YurtAppSet. The controllers of 1.5 and later find workloads by a label that 1.4 does not
set. They remove the owner reference from all other workloads and create replacements. A released workload keeps running
with its overrides, beside its replacement. So does a workload whose owner is gone, or whose owner no longer has its
node pool, until a user deletes the workload.

The controller reports orphans that were rendered; its message has the command that lists all.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from fleethook.cluster.partial_and_stale_objects import PartialObject
from fleethook.cluster.store import Index, ObjectKey
from fleethook.engines.overrider.render.undo_and_annotations import RENDERED_ANNOTATION
from fleethook.model.gvk import GroupKind, parse_api_version
from fleethook.model.json import JSON, JSONObject, as_list, as_text
from fleethook.model.openyurt import (
    POOL_NAME_LABEL,
    REF_APP_SET_LABEL,
    SUBJECT_KINDS,
    SUBJECT_VERSIONS,
    YURT_APP_SET,
)

# Precomputed, because every change of a workload needs several look-ups.
_OWNER_KINDS: Final = {
    (f"{kind.group}/{version}", kind.kind): kind for kind, versions in SUBJECT_VERSIONS.items() for version in versions
}


class Owner(NamedTuple):
    """The owner reference to a subject."""

    group_kind: GroupKind
    name: str
    uid: str
    api_version: str
    """The API version of the reference. A workload is rendered only from a subject of the same version."""


def find_owner(metadata: Mapping[str, JSON]) -> Owner | None:
    """Return the subject that owns a workload, or None if no overrider can apply to it.

    The controlling owner reference wins at any index. OpenYurt reads only the first reference (v1.5,
    pkg/yurtmanager/webhook/deploymentrender/v1alpha1/deploymentrender_default.go). Unknown versions are ignored.

    Args:
        metadata: The workload's metadata, which may have any shape.
    """
    return find_owner_in(as_list(metadata.get("ownerReferences")))


def find_owner_in(references: Sequence[JSON]) -> Owner | None:
    """Return the subject that `find_owner` returns, for the owner references of a workload."""
    first = None
    for reference in references:
        owner = _subject_of(reference)
        if owner is not None and reference.get("controller") is True:
            return owner
        first = first or owner
    return first


def _subject_of(reference: JSON) -> Owner | None:
    if not isinstance(reference, dict):
        return None
    api_version, kind, name = reference.get("apiVersion"), reference.get("kind"), reference.get("name")
    if not (isinstance(api_version, str) and isinstance(kind, str) and isinstance(name, str) and name):
        return None
    group_kind = _OWNER_KINDS.get((api_version, kind))
    if group_kind is None:
        return None
    uid = reference.get("uid")
    return Owner(group_kind, name, uid if isinstance(uid, str) else "", api_version)


def describe_other_version(owner: Owner, subject: JSONObject) -> str:
    """Return the message that an owner reference has another API version than the stored subject."""
    name = f"{owner.group_kind.kind} {subject['metadata'].get('namespace') or 'default'}/{owner.name}"
    return (
        f"its owner reference names {owner.api_version}, but {name} is read as {subject['apiVersion']}: after "
        "an upgrade, OpenYurt creates new workloads and abandons this one"
    )


Binding = ObjectKey
"""The key of a subject, which identifies its overriders and its workloads."""


def binding_of(workload: PartialObject, cluster: str) -> Binding | None:
    """Return the subject that owns a workload, None if no overrider can apply to the workload."""
    owner = find_owner_in(workload.owners)
    return None if owner is None else Binding(cluster, owner.group_kind, workload.namespace, owner.name)


def pool_of(workload: PartialObject) -> str:
    """Return the node pool of a workload, ``""`` if it has none."""
    return as_text(workload.labels.get(POOL_NAME_LABEL))


def hash_of(workload: PartialObject) -> str:
    """Return the hash in the annotation of a workload, ``""`` if it was never rendered."""
    return str(workload.annotations.get(RENDERED_ANNOTATION) or "")


class Orphan(NamedTuple):
    """A rendered workload without an owner that manages it."""

    key: ObjectKey
    pool: str

    def __str__(self) -> str:
        return f"{self.key.group_kind.kind} {self.key.name} in {self.pool}"


def is_orphan(workload: PartialObject) -> bool:
    """Return whether a workload was rendered and has lost its owner. One that is being deleted does not count."""
    of_pool = bool(hash_of(workload)) and bool(pool_of(workload)) and not workload.deleting
    return of_pool and not any(_is_owner(reference) for reference in workload.owners)


def is_former(owner: Owner, subject: JSONObject | None) -> bool:
    """Return whether the owner of a workload is gone: there is no subject of its name, or one with another uid."""
    if subject is None:
        return True
    uid = subject["metadata"].get("uid")
    return bool(uid and owner.uid and uid != owner.uid)


def _is_owner(reference: JSONObject) -> bool:
    if reference.get("controller") is True:
        return True
    group, _ = parse_api_version(str(reference.get("apiVersion") or ""))
    return GroupKind(group, str(reference.get("kind"))) in SUBJECT_KINDS


def _former_owner(workload: PartialObject) -> str:
    """Return the name of the subject that generated a workload's name, ``""`` if the apiserver truncated a long name.

    OpenYurt generates names from ``SUBJECT-POOL-`` (v1.7.0, getWorkloadPrefix in
    pkg/yurtmanager/controller/yurtappset/workloadmanager/util.go; 1.4 does the same).
    """
    if label := workload.labels.get(REF_APP_SET_LABEL):
        return label
    name, _, rest = workload.name.rpartition(f"-{pool_of(workload)}-")
    return name if "-" not in rest else ""


def former_bindings(cluster: str, workload: PartialObject) -> list[Binding]:
    """Return the subjects that may have owned an orphan, none if its name was truncated."""
    subject = _former_owner(workload) if is_orphan(workload) else ""
    if not subject:
        return []
    kinds = [YURT_APP_SET] if workload.labels.get(REF_APP_SET_LABEL) else sorted(SUBJECT_KINDS)
    return [Binding(cluster, kind, workload.namespace, subject) for kind in kinds]


ORPHAN_INDEXES: Final = {
    kind: Index(f"{kind}_orphans", GroupKind("apps", kind), former_bindings) for kind in ("Deployment", "StatefulSet")
}
"""The orphans, by the subjects that may have owned them."""


def _find_binding_keys(cluster: str, workload: PartialObject) -> list[Binding]:
    binding = binding_of(workload, cluster)
    return [] if binding is None else [binding]


def _find_rendered_keys(cluster: str, workload: PartialObject) -> list[Binding]:
    return _find_binding_keys(cluster, workload) if hash_of(workload) else []


def _find_other_version_keys(cluster: str, workload: PartialObject) -> list[Binding]:
    if binding_of(workload, cluster) is not None:
        return []
    owners = [(reference, str(reference.get("apiVersion") or "")) for reference in workload.owners]
    kinds = (
        (reference, GroupKind(parse_api_version(version)[0], reference.get("kind", "")))
        for reference, version in owners
    )
    return [
        Binding(cluster, kind, workload.namespace, str(reference.get("name")))
        for reference, kind in kinds
        if kind in SUBJECT_KINDS
    ]


_WORKLOAD_KINDS: Final = ("Deployment", "StatefulSet")


WORKLOAD_INDEXES: Final = {
    kind: Index(f"{kind}_by_binding", GroupKind("apps", kind), _find_binding_keys) for kind in _WORKLOAD_KINDS
}


RENDERED_INDEXES: Final = {
    kind: Index(f"rendered_{kind}", GroupKind("apps", kind), _find_rendered_keys) for kind in _WORKLOAD_KINDS
}
"""The workloads that have the annotation of a render, by subject."""


OTHER_VERSION_INDEXES: Final = {
    kind: Index(f"{kind}_of_other_version", GroupKind("apps", kind), _find_other_version_keys)
    for kind in _WORKLOAD_KINDS
}
"""The workloads whose owner reference names an unknown version of a subject."""
