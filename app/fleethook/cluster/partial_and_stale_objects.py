"""The partial copies of some objects in the store, and when the objects of a source are too old to answer from them.

Of kinds that engines only look up or count, the store has partial copies. A decoded Deployment takes about 30 KiB as
dictionaries and 1.1 KiB as such a struct, and a fleet has tens of thousands of workloads.
"""

from collections import OrderedDict
from sys import intern
from typing import Final, NamedTuple

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
            namespace=intern_text(metadata.get("namespace") or ""),
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
    return {intern_text(name): intern_text(text) for name, text in as_object(texts).items()}


def intern_text(text: JSON) -> str:
    """Return the same string object for equal strings."""
    # CPython frees an interned string with its last reference.
    if isinstance(text, str):
        return intern(text)
    kept: str = text  # of another type, from a manifest
    return kept


STALE_SECONDS: Final = 180.0
"""Without an answer from the apiserver, until objects are stale. An unchanged resource gets a bookmark each minute."""


class PartState(NamedTuple):
    """The state of one part of a source: a directory or a resource."""

    name: str
    synced: bool
    """Whether the store has held all objects of this part, or the server is known not to serve it."""
    detail: str
    """The current problem or peculiarity, ``""`` if there is none."""
    age: float | None
    """Seconds since the store was last known to equal this part, None before the first time."""
    failing: bool
    """Whether reading fails at the moment; the store then holds the last good state."""
    refused: bool = False
    """Whether it was never read because the server failed each time: other replicas could not read it either."""
    needed: bool = True
    """Whether any response depends on it."""

    @property
    def is_stale(self) -> bool:
        """Whether the apiserver has not answered for a long time."""
        return self.age is not None and self.age > STALE_SECONDS

    @property
    def stale_detail(self) -> str:
        """`detail`, after the seconds without an answer of the apiserver."""
        staleness = f"no update from the apiserver for {self.age:.0f} s, answering from the last known objects"
        return f"{staleness}: {self.detail}" if self.detail else staleness


class StaleError(Exception):
    """The objects that the answer depends on cannot be read now, so the caller has to retry."""
