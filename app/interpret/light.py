"""Decoding of an object no more than a native interpreter reads: most of a workload's text is skipped.

A value of another type than is expected here is no error: then the whole object is decoded, and the interpreter says
what is wrong with it.
"""

from typing import Any, Final, TypedDict

import msgspec

from app.model.json import JSON, JSONObject
from app.model.karmada import Operation


class _Meta(TypedDict, total=False):
    name: Any
    namespace: Any
    generation: Any
    labels: Any
    annotations: Any


class _Scalars(TypedDict, total=False):
    replicas: Any
    type: Any


class _Observed(TypedDict, total=False):
    """What health and status are read from."""

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
    """The spec of a workload, or of a Pod."""

    replicas: Any
    parallelism: Any
    completions: Any
    template: _Template


class _Declared(TypedDict, total=False):
    """What a replica count, and what each replica asks for, are read from."""

    apiVersion: str
    kind: str
    metadata: _Meta
    spec: _Replicated


_observed: Final = msgspec.json.Decoder(_Observed)
_DECODERS: Final[dict[Operation, msgspec.json.Decoder[Any]]] = {
    Operation.HEALTH: _observed,
    Operation.STATUS: _observed,
    Operation.REPLICA: msgspec.json.Decoder(_Declared),
}


def decode(raw: msgspec.Raw, operation: Operation) -> JSONObject | None:
    """Return what an operation needs of an object, None where it has to be decoded whole."""
    decoder = _DECODERS.get(operation)
    if decoder is None:
        return None
    try:
        document: JSON = decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    found: JSONObject = document
    return found
