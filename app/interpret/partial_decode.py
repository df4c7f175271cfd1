"""Decoding of an object no more than a native interpreter reads: most of a workload's text is skipped.

A value of another type than is expected here is no error: then the whole object is decoded, and the interpreter says
what is wrong with it.
"""

from functools import lru_cache
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
    template: msgspec.Raw


class _Declared(TypedDict, total=False):
    """What a replica count, and what each replica asks for, are read from."""

    apiVersion: str
    kind: str
    metadata: _Meta
    spec: _Replicated


_TEMPLATES: Final = 512

_decode_template: Final = msgspec.json.Decoder(_Template).decode
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
    try:
        return _with_template(found) if operation is Operation.REPLICA else found
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _with_template(document: JSONObject) -> JSONObject:
    spec = document.get("spec")
    if spec is not None and "template" in spec:
        spec["template"] = _template(bytes(spec["template"]))
    return document


# The same workload is asked about again and again, and its template is nearly all of its text. Nobody changes what is
# decoded here: interpreters that are built in change nothing that they are given.
@lru_cache(maxsize=_TEMPLATES)
def _template(text: bytes) -> JSONObject:
    return dict(_decode_template(text))
