"""The names in expressions: variables, types, functions and their overloads, as kube-apiserver declares them."""

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Final, NamedTuple

from fleethook.cel.check.types import (
    ANY,
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    UINT,
    Type,
    list_parameters,
    make_list,
    make_map,
    make_optional,
    make_type,
    make_wrapper,
    parse_type,
    parse_types,
)


class Overload(NamedTuple):
    """A signature of a function; the receiver of a member is its first argument."""

    name: str
    member: bool
    arguments: tuple[Type, ...]
    result: Type
    parameters: tuple[Type, ...]


@cache
def read_functions() -> Mapping[str, tuple[Overload, ...]]:
    """Return the overloads of each function; ``declarations.txt`` has them."""
    text = (resources.files(__package__) / "declarations.txt").read_text(encoding="utf-8")
    found: dict[str, list[Overload]] = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            function, overload = _read_overload(line)
            found.setdefault(function, []).append(overload)
    return {function: tuple(overloads) for function, overloads in found.items()}


def _read_overload(line: str) -> tuple[str, Overload]:
    name, _, signature = line.partition(" ")
    function, _, rest = signature.partition("(")
    arguments, _, result = rest.rpartition(") -> ")
    types = parse_types(arguments)
    parameters = tuple(dict.fromkeys(list_parameters((*types, parse_type(result)))))
    overload = Overload(name, function.startswith("."), types, parse_type(result), parameters)
    return function.removeprefix(".") if overload.member else function, overload


def _struct(name: str) -> Type:
    return Type("struct", name)


_REQUEST: Final = _struct("kubernetes.AdmissionRequest")
_USER: Final = _struct("kubernetes.UserInfo")
_KIND: Final = _struct("kubernetes.GroupVersionKind")
_RESOURCE: Final = _struct("kubernetes.GroupVersionResource")
_NAMESPACE: Final = _struct("kubernetes.Namespace")
_NAMESPACE_METADATA: Final = _struct("kubernetes.NamespaceMetadata")
_NAMESPACE_SPEC: Final = _struct("kubernetes.NamespaceSpec")
_NAMESPACE_STATUS: Final = _struct("kubernetes.NamespaceStatus")
_NAMESPACE_CONDITION: Final = _struct("kubernetes.NamespaceCondition")
_TEXTS: Final = make_map(STRING, STRING)

# k8s.io/apiserver/pkg/admission/plugin/cel/compile.go: BuildRequestType, BuildNamespaceType.
FIELDS: Final[Mapping[str, Mapping[str, Type]]] = {
    _KIND.name: dict.fromkeys(("group", "version", "kind"), STRING),
    _RESOURCE.name: dict.fromkeys(("group", "version", "resource"), STRING),
    _USER.name: {
        "username": STRING, "uid": STRING, "groups": make_list(STRING), "extra": make_map(STRING, make_list(STRING)),
    },
    _REQUEST.name: {
        "kind": _KIND, "resource": _RESOURCE, "subResource": STRING, "requestKind": _KIND,
        "requestResource": _RESOURCE, "requestSubResource": STRING, "name": STRING, "namespace": STRING,
        "operation": STRING, "userInfo": _USER, "dryRun": BOOL, "options": DYN,
    },
    _NAMESPACE.name: {"metadata": _NAMESPACE_METADATA, "spec": _NAMESPACE_SPEC, "status": _NAMESPACE_STATUS},
    _NAMESPACE_SPEC.name: {"finalizers": make_list(STRING)},
    _NAMESPACE_STATUS.name: {"conditions": make_list(_NAMESPACE_CONDITION), "phase": STRING},
    _NAMESPACE_CONDITION.name: {
        "status": STRING, "type": STRING, "lastTransitionTime": TIMESTAMP, "message": STRING, "reason": STRING,
    },
    _NAMESPACE_METADATA.name: {
        "name": STRING, "generateName": STRING, "namespace": STRING, "labels": _TEXTS, "annotations": _TEXTS,
        "UID": STRING, "creationTimestamp": TIMESTAMP, "deletionGracePeriodSeconds": INT,
        "deletionTimestamp": TIMESTAMP, "generation": INT, "resourceVersion": STRING, "finalizers": make_list(STRING),
    },
    "google.protobuf.Timestamp": {"seconds": INT, "nanos": INT},
    "google.protobuf.Duration": {"seconds": INT, "nanos": INT},
    "google.protobuf.Struct": {"fields": make_map(STRING, DYN)},
    "google.protobuf.ListValue": {"values": make_list(DYN)},
    "google.protobuf.Value": {
        "null_value": INT, "number_value": DOUBLE, "string_value": STRING, "bool_value": BOOL,
        "struct_value": make_map(STRING, DYN), "list_value": make_list(DYN),
    },
    "google.protobuf.Any": {"type_url": STRING, "value": BYTES},
    "google.protobuf.Empty": {},
    **{
        f"google.protobuf.{name}Value": {"value": type_}
        for name, type_ in (
            ("Bool", BOOL), ("Bytes", BYTES), ("Double", DOUBLE), ("Float", DOUBLE), ("Int32", INT), ("Int64", INT),
            ("String", STRING), ("UInt32", UINT), ("UInt64", UINT),
        )
    },
}  # fmt: skip
"""The fields of messages, by the message's name."""

_MESSAGES: Final = {
    **{name: _struct(name) for name in FIELDS},
    **{
        name: make_wrapper(fields["value"])
        for name, fields in FIELDS.items()
        if name.startswith("google.protobuf.") and list(fields) == ["value"]
    },
    "google.protobuf.Timestamp": TIMESTAMP,
    "google.protobuf.Duration": DURATION,
    "google.protobuf.Struct": make_map(STRING, DYN),
    "google.protobuf.ListValue": make_list(DYN),
    "google.protobuf.Value": DYN,
    "google.protobuf.Any": ANY,
}
_A: Final = Type("param", "A")
_B: Final = Type("param", "B")
TYPES: Final[Mapping[str, Type]] = {
    **{one.name: one for one in (BOOL, BYTES, DOUBLE, INT, NULL, STRING, UINT)},
    "list": make_list(_A),
    "map": make_map(_A, _B),
    "type": Type("type", "type"),
    "optional_type": make_optional(_A),
    **{name: Type("opaque", name) for name in ("net.IP", "net.CIDR")},
    # The planner knows these two by the names of their messages only.
    "timestamp": TIMESTAMP,
    "duration": DURATION,
    **_MESSAGES,
}
"""The types that expressions can name."""

_AUTHORIZER: Final = "kubernetes.authorization.Authorizer"
IDENTS: Final[Mapping[str, Type]] = {
    **{name: make_type(one) for name, one in TYPES.items()},
    "google.protobuf.NullValue": INT,
    "google.protobuf.NullValue.NULL_VALUE": INT,
    "object": DYN,
    "oldObject": DYN,
    "namespaceObject": _NAMESPACE,
    "request": _REQUEST,
    "authorizer": Type("opaque", _AUTHORIZER),
    "authorizer.requestResource": Type("opaque", "kubernetes.authorization.ResourceCheck"),
}
"""The types of all names that are no functions; the type of a type's name is ``type(T)``."""
