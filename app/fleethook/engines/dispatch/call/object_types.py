"""Checks that a patched object still fits the types of the API: its kind, its metadata, and members of built-in kinds.

kube-apiserver decodes the object after each patch (k8s.io/apiserver v0.36
pkg/admission/plugin/webhook/mutating/dispatcher.go). The texts are those of Go's ``encoding/json``.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from fleethook.model.gvk import GroupVersionKind
from fleethook.model.json import JSON, JSONObject, decode_bytes

Types = Mapping[str, Mapping[str, str]]
"""Go structs by names such as ``core.v1.PodSpec``, with the types of their members, such as ``[]core.v1.Container``."""
LoadTypes = Callable[[], Types]

# RFC 3339 with a colon in the zone, as Go's time.Parse reads it.
_SECOND, _ZONE = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", r"(?:Z|[+-]\d\d:\d\d)"
_TIMES: Final = {
    "Time": (re.compile(rf"{_SECOND}(?:[.,]\d+)?{_ZONE}", re.ASCII), "2006-01-02T15:04:05Z07:00"),
    "MicroTime": (re.compile(rf"{_SECOND}[.,]\d{{6}}{_ZONE}", re.ASCII), "2006-01-02T15:04:05.000000Z07:00"),
}
_QUANTITY: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?", re.ASCII)
_STRING, _BOOL, _TIMESTAMP, _MAP = "string", "bool", "Time", "map[string]"
_METADATA: Final = "meta.v1.ObjectMeta"
_META_TYPES: Final[Types] = {
    _METADATA: {
        "name": _STRING, "generateName": _STRING, "namespace": _STRING, "selfLink": _STRING, "uid": "types.UID",
        "resourceVersion": _STRING, "generation": "int64", "creationTimestamp": _TIMESTAMP,
        "deletionTimestamp": _TIMESTAMP, "deletionGracePeriodSeconds": "int64", "labels": "map[string]string",
        "annotations": "map[string]string", "finalizers": "[]string", "ownerReferences": "[]meta.v1.OwnerReference",
        "managedFields": "[]meta.v1.ManagedFieldsEntry",
    },
    "meta.v1.OwnerReference": {
        "apiVersion": _STRING, "kind": _STRING, "name": _STRING, "uid": "types.UID", "controller": _BOOL,
        "blockOwnerDeletion": _BOOL,
    },
    "meta.v1.ManagedFieldsEntry": {
        "manager": _STRING, "operation": "v1.ManagedFieldsOperationType", "apiVersion": _STRING, "time": _TIMESTAMP,
        "fieldsType": _STRING, "subresource": _STRING,
    },
}  # fmt: skip
_STRINGS: Final = "[]string"
# Kinds that kcp serves in each workspace; no other part of fleethook has their types.
_OTHER_TYPES: Final[Types] = {
    "v1.PolicyRule": dict.fromkeys(("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs"), _STRINGS),
    "v1.Subject": dict.fromkeys(("kind", "apiGroup", "name", "namespace"), _STRING),
    "v1.RoleRef": dict.fromkeys(("apiGroup", "kind", "name"), _STRING),
    "v1.NamespaceSpec": {"finalizers": "[]v1.FinalizerName"},
    "v1.ObjectReference": {
        **dict.fromkeys(("kind", "namespace", "name", "apiVersion", "resourceVersion", "fieldPath"), _STRING),
        "uid": "types.UID",
    },
    "v1.LocalObjectReference": {"name": _STRING},
    "v1.LeaseSpec": {
        **dict.fromkeys(("leaseDurationSeconds", "leaseTransitions"), "int32"), "holderIdentity": _STRING,
        **dict.fromkeys(("acquireTime", "renewTime"), "MicroTime"),
    },
    "v1.ServiceSpec": {
        **dict.fromkeys(("clusterIPs", "externalIPs", "loadBalancerSourceRanges"), _STRINGS),
        **dict.fromkeys(("clusterIP", "loadBalancerIP", "externalName", "loadBalancerClass"), _STRING),
        **dict.fromkeys(("publishNotReadyAddresses", "allocateLoadBalancerNodePorts"), _BOOL),
        "ports": "[]v1.ServicePort", "selector": "map[string]string", "type": "v1.ServiceType",
        "healthCheckNodePort": "int32",
    },
    "v1.ServicePort": {
        "name": _STRING, "protocol": "v1.Protocol", "appProtocol": _STRING, "port": "int32",
        "targetPort": "IntOrString", "nodePort": "int32",
    },
}  # fmt: skip
_RULES: Final = ("rules", "[]v1.PolicyRule")
_BINDING: Final = (("subjects", "[]v1.Subject"), ("roleRef", "v1.RoleRef"))
_RBAC: Final = "rbac.authorization.k8s.io/v1"
_BYTES: Final = "[]uint8"
_SELECTOR, _TEMPLATE = ("spec.selector", "meta.v1.LabelSelector"), ("spec.template", "core.v1.PodTemplateSpec")
# The members of built-in kinds whose types are known, by their paths (k8s.io/api v0.36).
_MEMBERS: Final[Mapping[tuple[str, str], tuple[tuple[str, str], ...]]] = {
    ("apps/v1", "Deployment"): (("spec", "apps.v1.DeploymentSpec"), ("status", "apps.v1.DeploymentStatus")),
    ("apps/v1", "StatefulSet"): (("spec", "apps.v1.StatefulSetSpec"), ("status", "apps.v1.StatefulSetStatus")),
    ("apps/v1", "DaemonSet"): (_SELECTOR, _TEMPLATE, ("spec.minReadySeconds", "int32")),
    ("apps/v1", "ReplicaSet"): (_SELECTOR, _TEMPLATE, ("spec.replicas", "int32"), ("spec.minReadySeconds", "int32")),
    ("batch/v1", "Job"): (
        _SELECTOR, _TEMPLATE, ("spec.parallelism", "int32"), ("spec.completions", "int32"),
        ("spec.backoffLimit", "int32"), ("spec.activeDeadlineSeconds", "int64"), ("spec.suspend", _BOOL),
    ),
    ("batch/v1", "CronJob"): (
        ("spec.jobTemplate.metadata", _METADATA), ("spec.jobTemplate.spec.template", "core.v1.PodTemplateSpec"),
        ("spec.schedule", _STRING), ("spec.suspend", _BOOL),
    ),
    ("v1", "Pod"): (("spec", "core.v1.PodSpec"),),
    ("v1", "PodTemplate"): (("template", "core.v1.PodTemplateSpec"),),
    ("v1", "ReplicationController"): (_TEMPLATE, ("spec.selector", "map[string]string"), ("spec.replicas", "int32")),
    ("v1", "PersistentVolumeClaim"): (
        ("spec", "core.v1.PersistentVolumeClaimSpec"), ("status", "core.v1.PersistentVolumeClaimStatus"),
    ),
    ("v1", "ConfigMap"): (("data", "map[string]string"), ("binaryData", f"{_MAP}{_BYTES}"), ("immutable", _BOOL)),
    ("v1", "Secret"): (
        ("data", f"{_MAP}{_BYTES}"), ("stringData", "map[string]string"), ("immutable", _BOOL),
        ("type", "v1.SecretType"),
    ),
    (_RBAC, "Role"): (_RULES,),
    (_RBAC, "ClusterRole"): (_RULES,),
    (_RBAC, "RoleBinding"): _BINDING,
    (_RBAC, "ClusterRoleBinding"): _BINDING,
    ("v1", "Namespace"): (("spec", "v1.NamespaceSpec"),),
    ("v1", "Service"): (("spec", "v1.ServiceSpec"),),
    ("v1", "ServiceAccount"): (
        ("secrets", "[]v1.ObjectReference"), ("imagePullSecrets", "[]v1.LocalObjectReference"),
        ("automountServiceAccountToken", _BOOL),
    ),
    ("coordination.k8s.io/v1", "Lease"): (("spec", "v1.LeaseSpec"),),
}  # fmt: skip
_NAMES: Final = {dict: "object", list: "array", str: "string", bool: "bool", int: "number", float: "number"}
_INTEGERS: Final = {
    **{name: range(-(2 ** (bits - 1)), 2 ** (bits - 1)) for name, bits in (("int32", 32), ("int64", 64))},
    "uint8": range(256),
}


def explain_wrong_kind(document: JSONObject, kind: GroupVersionKind, *, is_builtin: bool) -> str:
    """Return why an apiserver cannot decode an object as a kind, ``""`` if it can.

    Args:
        document: The object.
        kind: Its kind before the patch.
        is_builtin: Whether the apiserver has a Go type for the kind. Such an object may lack its kind.
    """
    found, version = document.get("kind"), document.get("apiVersion")
    for name, value in (("kind", found), ("apiVersion", version)):
        if not isinstance(value, str | None):
            text = f"json: cannot unmarshal {_NAMES[type(value)]} into Go struct field .{name} of type string"
            return f"couldn't get version/kind; json parse error: {text}"
    if is_builtin:
        is_same = (found or kind.kind, version or kind.api_version) == (kind.kind, kind.api_version)
        return "" if is_same else f'no kind "{found}" is registered for version "{version}"'
    if not found:
        return "Object 'Kind' is missing"
    if version != kind.api_version:
        shown = f"{version or '/'}, Kind={found}"
        return f'{shown} is unstructured and is not suitable for converting to "{kind.api_version}"'
    return "" if isinstance(document.get("metadata", {}), dict) else "system metadata was not initialized"


def explain_wrong_metadata(document: JSONObject) -> str:
    """Return the first member of an object's metadata that does not fit its type, ``""`` if all do."""
    metadata = document.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        return _describe(metadata, "v1.ObjectMeta", ".metadata")
    return next(_check(metadata, _METADATA, "metadata", _META_TYPES, ""), "")


def explain_wrong_member(document: JSONObject, api_version: str, kind: str, load_types: LoadTypes) -> str:
    """Return the first member of an object of a built-in kind that does not fit its type, ``""`` if none is known.

    Args:
        document: The object.
        api_version: Its version before the patch.
        kind: Its kind before the patch.
        load_types: Returns the Go types of built-in kinds.
    """
    members = _MEMBERS.get((api_version, kind), ())
    loaded = load_types() if members else {}
    types = {**loaded, **_META_TYPES, **_OTHER_TYPES}
    for path, type_ in members if loaded else ():
        value: JSON = document
        names = path.split(".")
        for depth, name in enumerate(names):
            if value is None:
                break
            if not isinstance(value, dict):
                where = f"{_name_struct(kind, names[: depth - 1])}.{'.'.join(names[:depth])}"
                return _describe(value, f"v1.{_name_struct(kind, names[:depth])}", where)
            value = value.get(name)
        if problem := next(_check(value, type_, path, types, _name_struct(kind, names[:-1])), ""):
            return problem
    return ""


def _name_struct(kind: str, names: Sequence[str]) -> str:
    """Return the Go struct at a path that leads to a member of `_MEMBERS`."""
    if not names:
        return kind
    if names[-1] == "jobTemplate":
        return "JobTemplateSpec"
    return f"{kind}Spec" if len(names) == 1 else "JobSpec"


def _check(value: JSON, type_: str, path: str, types: Types, struct: str) -> Iterator[str]:
    """Yield the values that do not fit a type. Null is the zero value, and unknown members are dropped."""
    type_ = type_.removeprefix("*")
    where = f"{struct}.{path}"
    if value is None:
        return
    if type_ in types:
        yield from _check_struct(value, type_, path, types, struct)
    elif type_.startswith("[]") and not (type_ == _BYTES and isinstance(value, str)):
        if not isinstance(value, list):
            yield _describe(value, type_, where)
            return
        for element in value:
            yield from _check(element, type_[2:], path, types, struct)
    elif type_.startswith(_MAP) or type_ == "ResourceList":
        if not isinstance(value, dict):
            yield _describe(value, "v1.ResourceList" if type_ == "ResourceList" else type_, where)
            return
        inner = "Quantity" if type_ == "ResourceList" else type_.removeprefix(_MAP)
        for element in value.values():
            yield from _check(element, inner, path, types, struct)
    elif (problem := _explain_scalar(value, type_, where)) is not None:
        yield problem


def _check_struct(value: JSON, type_: str, path: str, types: Types, struct: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield _describe(value, type_, f"{struct}.{path}")
        return
    members = types[type_]
    for name, inner in value.items():
        if name in members:
            yield from _check(inner, members[name], f"{path}.{name}", types, type_.rpartition(".")[2])


def _explain_scalar(value: JSON, type_: str, where: str) -> str | None:
    """Return why a value does not fit a type without members, None if it does."""
    if type_ in _INTEGERS:
        fits = isinstance(value, int) and not isinstance(value, bool) and value in _INTEGERS[type_]
        return None if fits else _describe(value, type_, where)
    if type_ == _BOOL:
        return None if isinstance(value, bool) else _describe(value, type_, where)
    if type_ in ("Quantity", _BYTES):
        return _explain_quantity(value) if type_ == "Quantity" else _explain_base64(value)
    if type_ == "IntOrString" and not isinstance(value, str):
        return _explain_scalar(value, "int32", where)
    if type_ in _TIMES and isinstance(value, str):
        pattern, layout = _TIMES[type_]
        return None if pattern.fullmatch(value) else f'parsing time "{value[:80]}" of {where} as "{layout}" failed'
    # Raw is any JSON; all other types are strings.
    is_text = isinstance(value, str) or type_ == "Raw"
    return None if is_text else _describe(value, _STRING if type_ in _TIMES else type_, where)


def _explain_base64(text: JSON) -> str | None:
    try:
        decode_bytes(text)
    except ValueError:
        return "illegal base64 data"
    return None


def _explain_quantity(value: JSON) -> str | None:
    if isinstance(value, str | int | float) and not isinstance(value, bool) and _QUANTITY.fullmatch(str(value) or "0"):
        return None
    return "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


def _describe(value: JSON, type_: str, where: str) -> str:
    name = _NAMES[type(value)]
    shown = f"{name} {value}" if name == "number" and (isinstance(value, float) or abs(value) >= 2**31) else name
    # Go names a type by its package, which is the version.
    prefix, _, struct = type_.rpartition("]")
    named = ".".join(struct.split(".")[-2:])
    text = f"{prefix}]{named}" if prefix else named
    return f"json: cannot unmarshal {shown} into Go struct field {where} of type {text}"
