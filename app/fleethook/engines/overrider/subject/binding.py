"""Finds the YurtAppOverriders that are bound to a subject."""

from collections.abc import Iterable
from typing import Final

from fleethook.cluster.kubernetes.resources import FieldSelection
from fleethook.cluster.store import Index, ObjectKey, StoreView
from fleethook.model.gvk import GroupKind, parse_api_version
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.model.openyurt import API_VERSION, GROUP, YURT_APP_OVERRIDER

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


def find_binding(cluster: str, overrider: JSONObject) -> Binding | None:
    """Return the key of the subject that an overrider names, None if its group is not OpenYurt's."""
    subject = subject_of(overrider)
    if subject is None:
        return None
    kind, name = subject
    return Binding(cluster, GroupKind(GROUP, kind), overrider["metadata"].get("namespace") or "", name)


def _find_subject_keys(_cluster: str, overrider: JSONObject) -> Iterable[SubjectKey]:
    subject = subject_of(overrider)
    return [(overrider["metadata"].get("namespace") or "", *subject)] if subject else []


OVERRIDERS_BY_SUBJECT: Final = Index("overriders_by_subject", YURT_APP_OVERRIDER, _find_subject_keys)
INDEXES: Final = (OVERRIDERS_BY_SUBJECT,)


def select_overriders(namespace: str, kind: str, name: str) -> FieldSelection:
    """Return the selection of the overriders that are bound to a subject, for a list request."""
    fields = (("subject.kind", kind), ("subject.name", name))
    return FieldSelection(OVERRIDERS_BY_SUBJECT, (namespace, kind, name), namespace, fields)


def overriders_of(
    store: StoreView, *, cluster: str, namespace: str, group_kind: GroupKind, name: str
) -> tuple[JSONObject, ...]:
    """Return the overriders that are bound to a subject, the effective one first.

    Validation admits one overrider for each subject, but two concurrent creates can pass it. Then the older overrider
    stays in effect, so the later one changes nothing. The name decides between overriders of the same age.
    """
    found = store.find(OVERRIDERS_BY_SUBJECT, cluster, (namespace, group_kind.kind, name))
    return found if len(found) < 2 else tuple(sorted(found, key=_sort_by_age))


def effective_overrider(overriders: Iterable[JSONObject]) -> JSONObject | None:
    """Return the overrider that is in effect among those that are bound to one subject."""
    return min(overriders, key=_sort_by_age, default=None)


def _sort_by_age(overrider: JSONObject) -> tuple[bool, str, str]:
    metadata = overrider["metadata"]
    created: JSON = metadata.get("creationTimestamp")
    return (not created, str(created or ""), str(metadata.get("name") or ""))
