"""Reports an overrider whose subject does not exist, and suggests the subject that its author probably meant."""

from collections.abc import Iterator
from typing import Final

from fleethook.cluster.store import StoreView
from fleethook.engines.overrider.rules.finding import Finding
from fleethook.engines.overrider.subject.binding import subject_of
from fleethook.engines.overrider.subject.owner import SUBJECT_KINDS
from fleethook.model.formats.spelling import suggestion
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSONObject
from fleethook.model.openyurt import GROUP

# Comparing a name with more names than these takes too long for a suggestion.
_MAX_COMPARED: Final = 1000


def unknown_subject(
    overrider: JSONObject, *, cluster: str, namespace: str, store: StoreView, every_namespace: bool
) -> Finding:
    """Return the finding about an overrider whose subject is not in the store.

    Args:
        overrider: An overrider whose subject is valid.
        cluster: Its logical cluster.
        namespace: Its namespace.
        store: The known subjects.
        every_namespace: Whether the message may name subjects of other namespaces. At admission it must not: the author
            of an overrider may lack the permission to see them.
    """
    kind, name = subject_of(overrider) or ("", "")
    qualified = f"{namespace}/{name}" if namespace else name
    message = f"{kind} {qualified} is not known yet, so nothing could be rendered to check this"
    hint = _suggest_kind(kind, name, cluster=cluster, namespace=namespace, store=store)
    if not hint and every_namespace:
        hint = _suggest_namespace(kind, name, cluster=cluster, namespace=namespace, store=store)
    if not hint:
        names = list(_list_names(GroupKind(GROUP, kind), cluster=cluster, namespace=namespace, store=store))
        hint = suggestion(name, names) if len(names) <= _MAX_COMPARED else ""
    return Finding("unknown-subject", "subject.name", message + hint)


def _suggest_kind(kind: str, name: str, *, cluster: str, namespace: str, store: StoreView) -> str:
    for other in sorted(SUBJECT_KINDS):
        if other.kind != kind and store.get(cluster, other, namespace, name) is not None:
            return f"; {other.kind} {name} exists: did you mean kind {other.kind}?"
    return ""


def _suggest_namespace(kind: str, name: str, *, cluster: str, namespace: str, store: StoreView) -> str:
    namespaces = sorted(
        document["metadata"].get("namespace") or ""
        for document in store.each(cluster, GroupKind(GROUP, kind))
        if document["metadata"]["name"] == name
    )
    if not namespaces:
        return ""
    where = f"namespace {namespaces[0]}" if namespaces[0] else "no namespace"
    own = f"namespace {namespace}" if namespace else "no namespace"
    return f"; {kind} {name} is in {where} and the overrider in {own}: an overrider must be in its subject's namespace"


def _list_names(group_kind: GroupKind, *, cluster: str, namespace: str, store: StoreView) -> Iterator[str]:
    for document in store.each(cluster, group_kind):
        if (document["metadata"].get("namespace") or "") == namespace:
            yield document["metadata"]["name"]
