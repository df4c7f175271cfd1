"""Finds the workloads of a subject: the indexes of a workload store, and the node pool and hash of one workload."""

from typing import Final

from fleethook.cluster.store import Index
from fleethook.cluster.store.store import PartialObject
from fleethook.engines.overrider.render.undo import RENDERED_ANNOTATION
from fleethook.engines.overrider.subject.binding import Binding
from fleethook.engines.overrider.subject.owner import SUBJECT_KINDS, find_owner_in
from fleethook.model.gvk import GroupKind, parse_api_version
from fleethook.model.openyurt import POOL_NAME_LABEL


def binding_of(workload: PartialObject, cluster: str) -> Binding | None:
    """Return the subject that owns a workload, None if no overrider can apply to the workload."""
    owner = find_owner_in(workload.owners)
    return None if owner is None else Binding(cluster, owner.group_kind, workload.namespace, owner.name)


def owner_version(workload: PartialObject) -> str:
    """Return the API version in the owner reference of a workload, ``""`` if no overrider can apply to the workload."""
    owner = find_owner_in(workload.owners)
    return "" if owner is None else owner.api_version


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


_KINDS: Final = ("Deployment", "StatefulSet")
WORKLOAD_INDEXES: Final = {
    kind: Index(f"{kind}_by_binding", GroupKind("apps", kind), _find_binding_keys) for kind in _KINDS
}
RENDERED_INDEXES: Final = {
    kind: Index(f"rendered_{kind}", GroupKind("apps", kind), _find_rendered_keys) for kind in _KINDS
}
"""The workloads that have the annotation of a render, by subject."""
OTHER_VERSION_INDEXES: Final = {
    kind: Index(f"{kind}_of_other_version", GroupKind("apps", kind), _find_other_version_keys) for kind in _KINDS
}
"""The workloads whose owner reference names an unknown version of a subject."""


def pool_of(workload: PartialObject) -> str:
    """Return the node pool of a workload, ``""`` if it has none."""
    pool = workload.labels.get(POOL_NAME_LABEL)
    return pool if isinstance(pool, str) else ""


def hash_of(workload: PartialObject) -> str:
    """Return the hash in the annotation of a workload, ``""`` if it was never rendered."""
    return str(workload.annotations.get(RENDERED_ANNOTATION) or "")
