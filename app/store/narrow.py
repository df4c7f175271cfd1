"""What is kept of objects that are only looked up or counted.

A decoded Deployment takes about 30 KiB as dictionaries and 1.8 KiB as this struct, and a fleet has tens of thousands
of workloads, so the whole object is kept only where an engine reads it whole.
"""

from typing import Final

import msgspec

from app.model.gvk import GroupKind
from app.model.json import JSONObject

NARROW_KINDS: Final = frozenset(
    {GroupKind("apps", "Deployment"), GroupKind("apps", "StatefulSet"), GroupKind("", "Node")}
)


class Narrow(msgspec.Struct, frozen=True):
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


def narrow(document: JSONObject) -> Narrow:
    """Return the part of ``document`` that is kept."""
    metadata = document["metadata"]
    return Narrow(
        namespace=metadata.get("namespace") or "",
        name=metadata["name"],
        uid=metadata.get("uid") or "",
        resource_version=metadata.get("resourceVersion") or "",
        generation=metadata.get("generation") or 0,
        deleting=bool(metadata.get("deletionTimestamp")),
        labels=metadata.get("labels") or {},
        annotations=metadata.get("annotations") or {},
        owners=tuple(metadata.get("ownerReferences") or ()),
    )
