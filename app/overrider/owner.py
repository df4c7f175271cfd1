"""Which YurtAppSet or YurtAppDaemon a workload belongs to."""

from collections.abc import Mapping
from typing import NamedTuple

from app.model.gvk import GroupKind, parse_api_version
from app.model.json import JSON
from app.model.openyurt import SUBJECT_API_VERSIONS, SUBJECT_KINDS

__all__ = ["SUBJECT_KINDS", "Owner", "find_owner"]


class Owner(NamedTuple):
    """The owner reference that makes a workload renderable."""

    group_kind: GroupKind
    name: str
    uid: str


def find_owner(metadata: Mapping[str, JSON]) -> Owner | None:
    """Return the subject that owns a workload, or None if no overrider can apply to it.

    The controlling owner reference wins, wherever it is in the list; upstream read element 0 only
    (deploymentrender_default.go). Owners of other versions are left alone: a v1beta1 YurtAppSet renders its own tweaks
    and has no topology to render from.

    Args:
        metadata: The workload's metadata, as sent; nothing about its shape is taken for granted.
    """
    references = metadata.get("ownerReferences")
    if not isinstance(references, list):
        return None
    owners = [(reference, owner) for reference in references if (owner := _subject_of(reference))]
    for reference, owner in owners:
        if reference.get("controller") is True:
            return owner
    return owners[0][1] if owners else None


def _subject_of(reference: JSON) -> Owner | None:
    if not isinstance(reference, dict):
        return None
    api_version, kind, name = reference.get("apiVersion"), reference.get("kind"), reference.get("name")
    if not (isinstance(api_version, str) and isinstance(kind, str) and isinstance(name, str) and name):
        return None
    group_kind = GroupKind(parse_api_version(api_version)[0], kind)
    if api_version not in SUBJECT_API_VERSIONS or group_kind not in SUBJECT_KINDS:
        return None
    uid = reference.get("uid")
    return Owner(group_kind, name, uid if isinstance(uid, str) else "")
