"""Finds the YurtAppSet or YurtAppDaemon that owns a workload."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSON
from fleethook.model.openyurt import SUBJECT_KINDS, SUBJECT_VERSIONS

__all__ = ["SUBJECT_KINDS", "Owner", "find_owner", "find_owner_in"]

# Precomputed, because every change of a workload needs several look-ups.
_KINDS: Final = {
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
    references = metadata.get("ownerReferences")
    return find_owner_in(references) if isinstance(references, list) else None


def find_owner_in(references: Sequence[JSON]) -> Owner | None:
    """Return the subject that `find_owner` returns, for the owner references of a workload."""
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
    group_kind = _KINDS.get((api_version, kind))
    if group_kind is None:
        return None
    uid = reference.get("uid")
    return Owner(group_kind, name, uid if isinstance(uid, str) else "", api_version)
