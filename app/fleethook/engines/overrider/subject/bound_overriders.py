"""Finds the YurtAppOverriders that are bound to a subject, and reads them from the apiserver."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from fleethook.cluster.kubernetes.watched_resources import FieldSelection
from fleethook.cluster.store import Index, StoreView
from fleethook.engines.overrider.subject.workload_owner import Binding
from fleethook.model.gvk import GroupKind, parse_api_version
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.model.openyurt import API_VERSION, GROUP, YURT_APP_OVERRIDER

if TYPE_CHECKING:
    # Commands that render files need no apiserver.
    from fleethook.cluster.kubernetes.kubernetes_source_and_live_reads import LiveSource


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


def _find_subject_keys(_cluster: str, overrider: JSONObject) -> Iterable[tuple[str, str, str]]:
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


def warn_about_ignored(overriders: Sequence[JSONObject]) -> tuple[str, ...]:
    """Return a warning if several overriders are bound to one subject; the first one is in effect."""
    if len(overriders) < 2:
        return ()
    names = [overrider["metadata"]["name"] for overrider in overriders]
    return (f"YurtAppOverrider {names[0]} is in effect; {', '.join(names[1:])} for the same subject is ignored",)


async def read_overriders(subject: Binding, *, store: StoreView, live: "LiveSource") -> None:
    """Read the overriders of a subject into the store; raises APIError, UnreachableError.

    A subject has one overrider, so a known one that still exists makes a list unnecessary. etcd answers a read by name
    at once. kube-apiserver answers a list from its watch cache, after the next progress notification of etcd, which it
    requests every 100 ms (k8s.io/apiserver, pkg/storage/cacher/progress, since Kubernetes 1.31).

    Two concurrent creates can pass validation. If they have the same creationTimestamp, and the later one has the
    smaller name, it is in effect. A review within the delay of the watch then uses the other one, and the controller
    renders the workload again.
    """
    if known := _find_names(subject, store):
        cluster, _, namespace, _ = subject
        for name in known:
            await live.read_one(YURT_APP_OVERRIDER, cluster=cluster, namespace=namespace, name=name)
        if _find_names(subject, store) == known:
            return
    await live.read_selected(
        select_overriders(subject.namespace, subject.group_kind.kind, subject.name), cluster=subject.cluster
    )


def _find_names(subject: Binding, store: StoreView) -> list[str]:
    return [one["metadata"]["name"] for one in overriders_of(store, subject)]
