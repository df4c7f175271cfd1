"""The subject that an overrider names and nobody knows: what to say, and what was probably meant."""

from collections.abc import Iterator
from typing import Final

from app.model.gvk import GroupKind
from app.model.json import JSONObject
from app.model.openyurt import GROUP
from app.model.spelling import suggestion
from app.overrider.binding import subject_of
from app.overrider.finding import Finding
from app.overrider.owner import SUBJECT_KINDS
from app.store import StoreView

# Comparing a name with more than these takes longer than a suggestion is worth.
_MAX_COMPARED: Final = 1000


def unknown_subject(
    overrider: JSONObject, *, cluster: str, namespace: str, store: StoreView, every_namespace: bool
) -> Finding:
    """Return the finding about an overrider whose subject is not in the store.

    Args:
        overrider: An overrider whose subject has the right shape.
        cluster: Its logical cluster.
        namespace: Its namespace.
        store: The known subjects.
        every_namespace: Whether subjects of other namespaces may be named in the message. Admission must not: the
            author of an overrider may have no right to know them.
    """
    kind, name = subject_of(overrider) or ("", "")
    qualified = f"{namespace}/{name}" if namespace else name
    message = f"{kind} {qualified} is not known yet, so nothing could be rendered to check this"
    hint = _other_kind(kind, name, cluster=cluster, namespace=namespace, store=store)
    if not hint and every_namespace:
        hint = _other_namespace(kind, name, cluster=cluster, namespace=namespace, store=store)
    if not hint:
        names = list(_names(GroupKind(GROUP, kind), cluster=cluster, namespace=namespace, store=store))
        hint = suggestion(name, names) if len(names) <= _MAX_COMPARED else ""
    return Finding("unknown-subject", "subject.name", message + hint)


def _other_kind(kind: str, name: str, *, cluster: str, namespace: str, store: StoreView) -> str:
    for other in sorted(SUBJECT_KINDS):
        if other.kind != kind and store.get(cluster, other, namespace, name) is not None:
            return f"; {other.kind} {name} exists: did you mean kind {other.kind}?"
    return ""


def _other_namespace(kind: str, name: str, *, cluster: str, namespace: str, store: StoreView) -> str:
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


def _names(group_kind: GroupKind, *, cluster: str, namespace: str, store: StoreView) -> Iterator[str]:
    for document in store.each(cluster, group_kind):
        if (document["metadata"].get("namespace") or "") == namespace:
            yield document["metadata"]["name"]
