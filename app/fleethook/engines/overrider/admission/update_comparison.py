"""Compares both objects of an update by their JSON text, without decoding them.

kube-apiserver encodes both objects with the same encoder, so equal members have equal bytes. If equal members have
different bytes all the same, they count as changed. That costs a comparison or a read, and the answer does not change.
"""

from typing import Final, NamedTuple

import msgspec

from fleethook.model.admission import AdmissionRequest
from fleethook.model.json import JSONObject
from fleethook.model.openyurt import POOL_PATCH_ANNOTATION, REVISION_LABEL

_ABSENT: Final = msgspec.Raw(b"")


class _Labels(msgspec.Struct, rename={"revision": REVISION_LABEL}):
    revision: msgspec.Raw = _ABSENT


class _PoolPatch(msgspec.Struct, rename={"pool_patch": POOL_PATCH_ANNOTATION}):
    pool_patch: msgspec.Raw = _ABSENT


class _Metadata(msgspec.Struct):
    labels: _Labels | None = None
    annotations: _PoolPatch | None = None


class _Workload(msgspec.Struct):
    metadata: _Metadata | None = None
    spec: msgspec.Raw = _ABSENT


class _Members(msgspec.Struct):
    metadata: msgspec.Raw = _ABSENT
    spec: msgspec.Raw = _ABSENT


class _Overrider(msgspec.Struct):
    subject: msgspec.Raw = _ABSENT
    entries: msgspec.Raw = _ABSENT


_decode_workload: Final = msgspec.json.Decoder(_Workload).decode
_decode_members: Final = msgspec.json.Decoder(_Members).decode
_decode_overrider: Final = msgspec.json.Decoder(_Overrider).decode


class WorkloadChange(NamedTuple):
    """The members of a workload that an update changes. Objects of an unexpected shape count as changed."""

    spec: bool
    revision: bool
    """Whether OpenYurt's controller may have written another template.

    The controllers name the revision of the template in a label, and the patch of the node pool, which is no part of
    the revision, in an annotation.
    """


UNKNOWN_CHANGE: Final = WorkloadChange(spec=True, revision=True)


def compare_workload(request: AdmissionRequest) -> WorkloadChange:
    """Return the members of a workload that an update changes."""
    try:
        before, after = _decode_workload(request.old_object_raw), _decode_workload(request.object_raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return UNKNOWN_CHANGE
    is_same = bytes(before.spec) == bytes(after.spec)
    return WorkloadChange(spec=not is_same, revision=_read_revision(before) != _read_revision(after))


def stored_members(request: AdmissionRequest) -> JSONObject:
    """Return the stored values of those members among ``metadata`` and ``spec`` that an update may change."""
    try:
        before, after = _decode_members(request.old_object_raw), _decode_members(request.object_raw)
        pairs = {"metadata": (before.metadata, after.metadata), "spec": (before.spec, after.spec)}
        changed = {name: known for name, (known, now) in pairs.items() if bytes(known) != bytes(now)}
        return {name: msgspec.json.decode(known) if bytes(known) else {} for name, known in changed.items()}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}


def changes_overrider(request: AdmissionRequest) -> bool:
    """Return whether an update of an overrider changes its subject or its entries."""
    try:
        before, after = _decode_overrider(request.old_object_raw), _decode_overrider(request.object_raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return True
    return bytes(before.subject) != bytes(after.subject) or bytes(before.entries) != bytes(after.entries)


def _read_revision(workload: _Workload) -> tuple[bytes, bytes]:
    metadata = workload.metadata or _Metadata()
    label = metadata.labels.revision if metadata.labels else _ABSENT
    annotation = metadata.annotations.pool_patch if metadata.annotations else _ABSENT
    return bytes(label), bytes(annotation)
