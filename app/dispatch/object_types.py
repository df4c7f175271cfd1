"""Checks that a patched object still fits the types of the API: its kind, and the members of ObjectMeta.

kube-apiserver decodes the object after each patch (k8s.io/apiserver v0.36
pkg/admission/plugin/webhook/mutating/dispatcher.go). The texts are those of Go's ``encoding/json``.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from app.model.gvk import GroupVersionKind
from app.model.json import JSON, JSONObject

# RFC 3339 with a colon in the zone, as Go's time.Parse reads it.
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:\d\d)", re.ASCII)
_STRING, _BOOL, _INT, _TIMESTAMP, _MAP, _STRINGS = "string", "bool", "int64", "Time", "map[string]string", "[]string"
_OWNER_REFERENCE: Final = {
    "apiVersion": _STRING, "kind": _STRING, "name": _STRING, "uid": "types.UID", "controller": _BOOL,
    "blockOwnerDeletion": _BOOL,
}  # fmt: skip
_MANAGED_FIELDS: Final = {
    "manager": _STRING, "operation": "v1.ManagedFieldsOperationType", "apiVersion": _STRING, "time": _TIMESTAMP,
    "fieldsType": _STRING, "subresource": _STRING,
}  # fmt: skip
_META: Final = {
    "name": _STRING, "generateName": _STRING, "namespace": _STRING, "selfLink": _STRING, "uid": "types.UID",
    "resourceVersion": _STRING, "generation": _INT, "creationTimestamp": _TIMESTAMP, "deletionTimestamp": _TIMESTAMP,
    "deletionGracePeriodSeconds": _INT, "labels": _MAP, "annotations": _MAP, "finalizers": _STRINGS,
    "ownerReferences": "[]v1.OwnerReference", "managedFields": "[]v1.ManagedFieldsEntry",
}  # fmt: skip
_ELEMENTS: Final = {"ownerReferences": ("OwnerReference", _OWNER_REFERENCE),
                    "managedFields": ("ManagedFieldsEntry", _MANAGED_FIELDS)}  # fmt: skip
_NAMES: Final = {dict: "object", list: "array", str: "string", bool: "bool", int: "number", float: "number"}


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
    if metadata is None:
        return ""
    if not isinstance(metadata, dict):
        return f"json: cannot unmarshal {_NAMES[type(metadata)]} into Go struct field .metadata of type v1.ObjectMeta"
    return next(_find_misfits(metadata, _META, "ObjectMeta.metadata"), "")


def _find_misfits(members: JSONObject, types: Mapping[str, str], where: str) -> Iterator[str]:
    for name, value in members.items():
        # Null is the zero value. Unknown members are dropped.
        if name in types and value is not None:
            yield from _check(value, types[name], f"{where}.{name}")


def _check(value: JSON, type_: str, where: str) -> Iterator[str]:
    if type_ == _TIMESTAMP:
        if isinstance(value, str) and not _TIME.fullmatch(value):
            yield f'parsing time "{value[:80]}" of {where} as "2006-01-02T15:04:05Z07:00" failed'
        elif not isinstance(value, str):
            yield _describe(value, _STRING, where)
    elif type_ == _MAP:
        yield from _check_values(value.values() if isinstance(value, dict) else None, value, type_, where)
    elif type_ == _STRINGS:
        yield from _check_values(value if isinstance(value, list) else None, value, type_, where)
    elif type_.startswith("[]"):
        yield from _check_structs(value, type_, where)
    elif type_ == _INT:
        if isinstance(value, bool) or not isinstance(value, int):
            yield _describe(value, type_, where)
    elif not isinstance(value, bool if type_ == _BOOL else str):
        yield _describe(value, type_, where)


def _check_values(values: Iterable[JSON] | None, value: JSON, type_: str, where: str) -> Iterator[str]:
    if values is None:
        yield _describe(value, type_, where)
        return
    yield from (_describe(one, _STRING, where) for one in values if not isinstance(one, str | None))


def _check_structs(value: JSON, type_: str, where: str) -> Iterator[str]:
    if not isinstance(value, list):
        yield _describe(value, type_, where)
        return
    member = where.rpartition(".")[2]
    struct, types = _ELEMENTS[member]
    for element in value:
        if isinstance(element, dict):
            yield from _find_misfits(element, types, f"{struct}.metadata.{member}")
        elif element is not None:
            yield _describe(element, type_.removeprefix("[]"), where)


def _describe(value: JSON, type_: str, where: str) -> str:
    name = _NAMES[type(value)]
    shown = f"{name} {value}" if isinstance(value, float) else name
    return f"json: cannot unmarshal {shown} into Go struct field {where} of type {type_}"
