"""Decodes only the members of an object that a native interpreter reads; most of a workload's text is skipped.

A value of an unexpected type is not an error here. The caller decodes the complete object instead, and the interpreter
reports the problem.
"""

from functools import lru_cache
from typing import Any, Final, TypedDict

import msgspec

from fleethook.model.json import JSON, JSONObject
from fleethook.model.karmada import Operation


class _Meta(TypedDict, total=False):
    name: Any
    namespace: Any
    generation: Any
    labels: Any
    annotations: Any


class _Scalars(TypedDict, total=False):
    replicas: Any
    type: Any
    paused: Any
    updateStrategy: Any


class _Observed(TypedDict, total=False):
    """The members that health and status interpreters read."""

    apiVersion: str
    kind: str
    metadata: _Meta
    spec: _Scalars
    status: Any


class _Container(TypedDict, total=False):
    resources: Any
    restartPolicy: Any


class _PodSpec(TypedDict, total=False):
    containers: list[_Container]
    initContainers: list[_Container]
    nodeSelector: Any
    tolerations: Any
    affinity: Any
    overhead: Any
    resources: Any


class _Template(TypedDict, total=False):
    spec: _PodSpec


class _Replicated(_PodSpec, total=False):
    """The spec of a workload or of a Pod."""

    replicas: Any
    parallelism: Any
    completions: Any
    template: msgspec.Raw


class _Declared(TypedDict, total=False):
    """The members that replica interpreters read."""

    apiVersion: str
    kind: str
    metadata: _Meta
    spec: _Replicated


_MAX_TEMPLATES: Final = 512

_decode_template: Final = msgspec.json.Decoder(_Template).decode
_observed: Final = msgspec.json.Decoder(_Observed)
_DECODERS: Final[dict[Operation, msgspec.json.Decoder[Any]]] = {
    Operation.HEALTH: _observed,
    Operation.STATUS: _observed,
    Operation.REPLICA: msgspec.json.Decoder(_Declared),
}


def decode(raw: msgspec.Raw, operation: Operation) -> JSONObject | None:
    """Return the members of an object that an operation needs; None if the operation needs the complete object."""
    decoder = _DECODERS.get(operation)
    if decoder is None:
        return None
    try:
        document: JSON = decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    found: JSONObject = document
    try:
        return _decode_pod_template(found) if operation is Operation.REPLICA else found
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _decode_pod_template(document: JSONObject) -> JSONObject:
    spec = document.get("spec")
    if spec is not None and "template" in spec:
        spec["template"] = _decode_cached(bytes(spec["template"]))
    return document


# Karmada asks about the same workload many times, and the template is most of its text. Sharing the result is safe:
# native interpreters do not change their arguments.
@lru_cache(maxsize=_MAX_TEMPLATES)
def _decode_cached(text: bytes) -> JSONObject:
    return dict(_decode_template(text))
