"""Which YurtAppOverrider is bound to a subject."""

from collections.abc import Iterable
from typing import Final

from app.model.gvk import GroupKind, parse_api_version
from app.model.json import JSON, JSONObject, as_object
from app.model.openyurt import API_VERSION, GROUP, YURT_APP_OVERRIDER
from app.store import Index, ObjectKey, StoreView
from app.store.sources.kubernetes.field_selection import FieldSelection

Binding = ObjectKey
"""The key of a subject, which identifies its overriders and its workloads."""

SubjectKey = tuple[str, str, str]
"""Namespace, subject kind and subject name."""


def subject_of(overrider: JSONObject) -> tuple[str, str] | None:
    """Return kind and name of the subject that ``overrider`` names, or None if it names none of OpenYurt's.

    Only the group of ``subject.apiVersion`` counts, and a missing one means this API: upstream compared the text with
    the owner reference, so an overrider without it never matched anything, silently.
    """
    subject = as_object(overrider.get("subject"))
    api_version, kind, name = subject.get("apiVersion") or API_VERSION, subject.get("kind"), subject.get("name")
    if not isinstance(api_version, str) or not isinstance(kind, str) or not isinstance(name, str):
        return None
    if parse_api_version(api_version)[0] != GROUP:
        return None
    return kind, name


def _find_subject_keys(_cluster: str, overrider: JSONObject) -> Iterable[SubjectKey]:
    subject = subject_of(overrider)
    return [(overrider["metadata"].get("namespace") or "", *subject)] if subject else []


OVERRIDERS_BY_SUBJECT: Final = Index("overriders_by_subject", YURT_APP_OVERRIDER, _find_subject_keys)


def select_overriders(namespace: str, kind: str, name: str) -> FieldSelection:
    """Return the selection of the overriders bound to a subject; all others of the namespace do not matter to it."""
    fields = (("subject.kind", kind), ("subject.name", name))
    return FieldSelection(OVERRIDERS_BY_SUBJECT, (namespace, kind, name), namespace, fields)


def overriders_of(
    store: StoreView, *, cluster: str, namespace: str, group_kind: GroupKind, name: str
) -> tuple[JSONObject, ...]:
    """Return the overriders bound to a subject, the effective one first.

    Validation admits one overrider a subject, but two creates can race past it; then the older one stays in effect,
    so that a late intruder changes nothing, and the name decides between equally old ones.
    """
    found = store.find(OVERRIDERS_BY_SUBJECT, cluster, (namespace, group_kind.kind, name))
    return found if len(found) < 2 else tuple(sorted(found, key=_sort_by_age))


def _sort_by_age(overrider: JSONObject) -> tuple[bool, str, str]:
    metadata = overrider["metadata"]
    created: JSON = metadata.get("creationTimestamp")
    return (not created, str(created or ""), metadata["name"])
