"""Finds the subject that owns a workload, its workloads, and the YurtAppOverriders that are bound to it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from fleethook.cluster.kubernetes.watched_resources import FieldSelection
from fleethook.cluster.partial_and_stale_objects import PartialObject
from fleethook.cluster.store import Index, ObjectKey, StoreView
from fleethook.engines.overrider.render.undo_and_annotations import RENDERED_ANNOTATION
from fleethook.model.gvk import GroupKind, parse_api_version
from fleethook.model.json import JSON, JSONObject, as_list, as_object, as_text
from fleethook.model.openyurt import (
    API_VERSION,
    GROUP,
    POOL_NAME_LABEL,
    SUBJECT_KINDS,
    SUBJECT_VERSIONS,
    YURT_APP_OVERRIDER,
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


def describe_other_version(owner: Owner, subject: JSONObject) -> str:
    """Return the message that an owner reference has another API version than the stored subject."""
    name = f"{owner.group_kind.kind} {subject['metadata'].get('namespace') or 'default'}/{owner.name}"
    return (
        f"its owner reference names {owner.api_version}, but {name} is read as {subject['apiVersion']}: after "
        "an upgrade, OpenYurt creates new workloads and abandons this one"
    )


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


Binding = ObjectKey
"""The key of a subject, which identifies its overriders and its workloads."""

SubjectKey = tuple[str, str, str]
"""Namespace, subject kind and subject name."""


def subject_of(overrider: JSONObject) -> tuple[str, str] | None:
    """Return kind and name of the subject that ``overrider`` names, None if its group is not OpenYurt's.

    Only the group of ``subject.apiVersion`` counts, and a missing version means this group. OpenYurt's webhook
    (v1.4, deploymentrender_default.go) compares the text with the owner reference, so there an overrider without a
    version silently never matches.
    """
    subject = as_object(overrider.get("subject"))
    api_version, kind, name = subject.get("apiVersion") or API_VERSION, subject.get("kind"), subject.get("name")
    if not isinstance(api_version, str) or not isinstance(kind, str) or not isinstance(name, str):
        return None
    if parse_api_version(api_version)[0] != GROUP:
        return None
    return kind, name


def find_binding(cluster: str, overrider: JSONObject, *, namespace: str = "") -> Binding | None:
    """Return the key of the subject that an overrider names, None if its group is not OpenYurt's.

    Args:
        cluster: The logical cluster of the overrider.
        overrider: The overrider.
        namespace: Its namespace, if its metadata may lack it.
    """
    subject = subject_of(overrider)
    if subject is None:
        return None
    kind, name = subject
    return Binding(
        cluster, GroupKind(GROUP, kind), namespace or as_object(overrider.get("metadata")).get("namespace") or "", name
    )


def _find_subject_keys(_cluster: str, overrider: JSONObject) -> Iterable[SubjectKey]:
    subject = subject_of(overrider)
    return [(overrider["metadata"].get("namespace") or "", *subject)] if subject else []


OVERRIDERS_BY_SUBJECT: Final = Index("overriders_by_subject", YURT_APP_OVERRIDER, _find_subject_keys)
INDEXES: Final = (OVERRIDERS_BY_SUBJECT,)


def select_overriders(namespace: str, kind: str, name: str) -> FieldSelection:
    """Return the selection of the overriders that are bound to a subject, for a list request."""
    fields = (("subject.kind", kind), ("subject.name", name))
    return FieldSelection(OVERRIDERS_BY_SUBJECT, (namespace, kind, name), namespace, fields)


def overriders_of(store: StoreView, binding: Binding) -> tuple[JSONObject, ...]:
    """Return the overriders that are bound to a subject, the effective one first.

    Validation admits one overrider for each subject, but two concurrent creates can pass it. Then the older overrider
    stays in effect, so the later one changes nothing. The name decides between overriders of the same age.
    """
    cluster, group_kind, namespace, name = binding
    overriders = store.find(OVERRIDERS_BY_SUBJECT, cluster, (namespace, group_kind.kind, name))
    return overriders if len(overriders) < 2 else tuple(sorted(overriders, key=_sort_by_age))


def effective_overrider(overriders: Iterable[JSONObject]) -> JSONObject | None:
    """Return the overrider that is in effect among those that are bound to one subject."""
    return min(overriders, key=_sort_by_age, default=None)


def _sort_by_age(overrider: JSONObject) -> tuple[bool, str, str]:
    metadata = overrider["metadata"]
    created: JSON = metadata.get("creationTimestamp")
    return (not created, str(created or ""), str(metadata.get("name") or ""))


def binding_of(workload: PartialObject, cluster: str) -> Binding | None:
    """Return the subject that owns a workload, None if no overrider can apply to the workload."""
    owner = find_owner_in(workload.owners)
    return None if owner is None else Binding(cluster, owner.group_kind, workload.namespace, owner.name)


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


def pool_of(workload: PartialObject) -> str:
    """Return the node pool of a workload, ``""`` if it has none."""
    return as_text(workload.labels.get(POOL_NAME_LABEL))


def hash_of(workload: PartialObject) -> str:
    """Return the hash in the annotation of a workload, ``""`` if it was never rendered."""
    return str(workload.annotations.get(RENDERED_ANNOTATION) or "")


def warn_about_ignored(overriders: Sequence[JSONObject]) -> tuple[str, ...]:
    """Return a warning if several overriders are bound to one subject; the first one is in effect."""
    if len(overriders) < 2:
        return ()
    names = [overrider["metadata"]["name"] for overrider in overriders]
    return (f"YurtAppOverrider {names[0]} is in effect; {', '.join(names[1:])} for the same subject is ignored",)
