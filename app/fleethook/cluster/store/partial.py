"""Partial copies of objects that engines only look up or count.

A decoded Deployment takes about 30 KiB as dictionaries and 1.1 KiB as this struct, and a fleet has tens of thousands
of workloads. The store keeps complete objects only of the kinds whose spec an engine reads.
"""

from collections import OrderedDict
from sys import intern
from typing import Final

import msgspec

from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSON, JSONObject, as_object

PARTIAL_KINDS: Final = frozenset(
    {GroupKind("apps", "Deployment"), GroupKind("apps", "StatefulSet"), GroupKind("", "Node")}
)

MAX_OWNERS: Final = 20_000
"""Owners whose references are shared between their workloads; the oldest one is dropped first."""


class PartialObject(msgspec.Struct, frozen=True, gc=False):
    """Identity, labels, annotations and owners of an object."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    generation: int
    deleting: bool
    labels: dict[str, str]
    annotations: dict[str, str]
    owners: tuple[JSONObject, ...]


class PartialBuilder:
    """Builds partial copies that share equal strings and owners.

    The workloads of a subject have the same owner, and nearly the same labels and annotations: 1.3 KiB of 2.4 KiB.
    """

    def __init__(self) -> None:
        """Start without owners to share."""
        self._owners: Final[OrderedDict[tuple[str, ...], tuple[JSONObject, ...]]] = OrderedDict()

    def build(self, document: JSONObject) -> PartialObject:
        """Return the partial copy of ``document``."""
        metadata = document["metadata"]
        return PartialObject(
            namespace=_intern(metadata.get("namespace") or ""),
            name=metadata["name"],
            uid=metadata.get("uid") or "",
            resource_version=metadata.get("resourceVersion") or "",
            generation=metadata.get("generation") or 0,
            deleting=bool(metadata.get("deletionTimestamp")),
            labels=_intern_texts(metadata.get("labels") or {}),
            annotations=_intern_texts(metadata.get("annotations") or {}),
            owners=self._share_owners(tuple(metadata.get("ownerReferences") or ())),
        )

    def _share_owners(self, owners: tuple[JSONObject, ...]) -> tuple[JSONObject, ...]:
        key = tuple(str(as_object(owner).get("uid")) for owner in owners)
        known = self._owners.get(key)
        if known == owners:
            return known
        self._owners[key] = owners
        if len(self._owners) > MAX_OWNERS:
            self._owners.popitem(last=False)
        return owners


def _intern_texts(texts: JSON) -> dict[str, str]:
    # An object from a manifest was validated by no apiserver: its labels may be of any type.
    return {_intern(name): _intern(text) for name, text in as_object(texts).items()}


def _intern(text: JSON) -> str:
    # CPython frees an interned string with its last reference.
    if isinstance(text, str):
        return intern(text)
    kept: str = text  # of another type, from a manifest
    return kept
