"""Applies the patches of webhooks within limits, in a thread if the work is large.

An estimate of the work selects the thread, never a clock. Both ways give the same result.
"""

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from fleethook.engines.dispatch.call.admission_review import WebhookResponse, check_patch_type, decode_patch
from fleethook.engines.dispatch.dispatch_errors import CallingError, internal
from fleethook.engines.dispatch.match.equivalent_resources import is_builtin
from fleethook.engines.dispatch.match.rules import restore_annotation
from fleethook.model.gvk import GroupVersionKind, GroupVersionResource
from fleethook.model.json import JSON, JSONObject, count_values, decode_bytes
from fleethook.patch import apply, diff
from fleethook.patch.diff import identical, text_size
from fleethook.patch.pointer import LIMITS
from fleethook.work.turns import Worker
from fleethook.workload_schema.schema_defaults import set_schema_defaults

Types = Mapping[str, Mapping[str, str]]
"""Go structs by names such as ``apps/v1.DeploymentSpec``, with the types of their members, such as ``[]v1.Container``.

A name that is not that of a struct, such as ``v1.Protocol``, is a string.
"""

# RFC 3339 with a colon in the zone, as Go's time.Parse reads it.
_SECOND, _ZONE = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", r"(?:Z|[+-]\d\d:\d\d)"
_TIMES: Final = {
    "Time": (re.compile(rf"{_SECOND}(?:[.,]\d+)?{_ZONE}", re.ASCII), "2006-01-02T15:04:05Z07:00"),
    "MicroTime": (re.compile(rf"{_SECOND}[.,]\d{{6}}{_ZONE}", re.ASCII), "2006-01-02T15:04:05.000000Z07:00"),
}
_QUANTITY: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?", re.ASCII)
_STRING, _BOOL, _MAP, _BYTES = "string", "bool", "map[string]", "[]uint8"
_METADATA: Final = "meta/v1.ObjectMeta"
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
    return next(_check(metadata, _METADATA, "metadata", _load_types(), ""), "")


def explain_wrong_member(document: JSONObject, api_version: str, kind: str) -> str:
    """Return the first member of an object of a built-in kind that does not fit its type, ``""`` if all do.

    Args:
        document: The object.
        api_version: Its version before the patch.
        kind: Its kind before the patch.
    """
    types = _load_types()
    members = types.get(f"{api_version}.{kind}", {})
    found = (
        problem
        for name, value in document.items()
        if name in members
        for problem in _check(value, members[name], name, types, kind)
    )
    return next(found, "")


# msgspec describes a type at its first use. In two threads at once, this crashes the process.
_decode_types: Final = msgspec.json.Decoder(dict[str, dict[str, str]]).decode


@functools.cache
def _load_types() -> Types:
    """Return all structs of built-in kinds from ``api_types.json``, which has the members by their type."""
    text = Path(__file__).with_name("api_types.json").read_bytes()
    return {
        struct: {member: type_ for type_, members in types.items() for member in members.split()}
        for struct, types in _decode_types(text).items()
    }


def _check(value: JSON, type_: str, path: str, types: Types, struct: str) -> Iterator[str]:
    """Yield the values that do not fit a type. Null is the zero value, and unknown members are dropped."""
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
    if type_ in (_BOOL, "float64"):
        fits = isinstance(value, bool) if type_ == _BOOL else _NAMES[type(value)] == "number"
        return None if fits else _describe(value, type_, where)
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
    if isinstance(value, str | int | float) and not isinstance(value, bool) and _QUANTITY.fullmatch(str(value)):
        return None
    return "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


def _describe(value: JSON, type_: str, where: str) -> str:
    name = _NAMES[type(value)]
    shown = f"{name} {value}" if name == "number" and type_ in _INTEGERS else name
    # Go names a type by its package, which is the version.
    prefix, _, struct = type_.rpartition("]")
    named = struct.rpartition("/")[2]
    text = f"{prefix}]{named}" if prefix else named
    return f"json: cannot unmarshal {shown} into Go struct field {where} of type {text}"


_T = TypeVar("_T")
# The largest patch, in bytes, that is applied on the event loop: about 600 operations, 5 ms.
_SHORT_PATCH: Final = 16 * 1024
# The largest object, in values, that is patched and compared on the event loop. A large Deployment has 1,000 values;
# a comparison of 10,000 takes 2 ms.
_SMALL_OBJECT: Final = 10_000
# kube-apiserver accepts bodies of 3 MiB (k8s.io/apiserver pkg/server/config.go: MaxRequestBodyBytes).
_MAX_OBJECT: Final = 3 * 1024 * 1024
# As many members have at least 5 bytes each.
_MAX_DEFAULTS: Final = _MAX_OBJECT // 5


class PatchedObject(NamedTuple):
    """A patched object."""

    object: JSON
    operations: list[JSON]
    """The operations of the patch, an empty list without a patch."""
    changed: bool
    misfit: str = ""
    """The member that does not fit its type after the patch, ``""`` if all of the metadata and of built-in kinds do."""


def patch_object(document: JSON, answer: WebhookResponse) -> PatchedObject:
    """Apply a webhook's patch to an object.

    Args:
        document: The object.
        answer: The webhook's answer.

    Raises:
        ReviewError: The patch cannot be decoded, or its type is unknown.
        PatchError: The patch does not apply, or exceeds a limit.
    """
    LIMITS.check_size(len(answer.patch))
    operations = decode_patch(answer)
    if not operations or document is None:
        # As in an apiserver, the type of the patch is not checked without an object.
        return PatchedObject(document, operations, changed=False)
    check_patch_type(answer)
    patched = apply(document, operations, dialect="kubernetes", limits=LIMITS)
    misfit = ""
    if isinstance(patched, dict) and isinstance(document, dict):
        api_version, kind = str(document.get("apiVersion")), str(document.get("kind"))
        misfit = explain_wrong_member(patched, api_version, kind) or explain_wrong_metadata(patched)
    return PatchedObject(patched, operations, changed=not identical(patched, document), misfit=misfit)


def check_patched(hook: str, patched: PatchedObject, resource: GroupVersionResource, kind: GroupVersionKind) -> None:
    """Refuse a patch of nothing, or one that yields an object that does not fit its types, as kube-apiserver does.

    kube-apiserver decodes the object. It does not decode the metadata of custom resources, and later drops the members
    that do not fit. Here that is a failure of the webhook, so that no part of a patch is lost silently.

    Args:
        hook: The name of the webhook.
        patched: The patched object.
        resource: The resource of the request.
        kind: The kind of the object before the patch.

    Raises:
        StatusError: The request is refused.
        CallingError: The webhook has failed.
    """
    if not patched.operations:
        return
    if patched.object is None:
        text = "attempted to modify the object, which is not supported for this operation"
        raise internal(f'admission webhook "{hook}" {text}')
    if not isinstance(patched.object, dict):
        raise internal(f'the patch of admission webhook "{hook}" replaces the object by another JSON type')
    builtin = is_builtin(resource.group, resource.resource)
    problem = explain_wrong_kind(patched.object, kind, is_builtin=builtin) or (patched.misfit if builtin else "")
    text = "yields an object that does not fit its types: "
    if problem:
        raise internal(f'the patch of admission webhook "{hook}" {text}{problem}')
    if patched.misfit:
        raise CallingError(hook, f"its patch {text}{patched.misfit}")


def diff_response(sent: JSON, patched: JSON) -> list[JSONObject]:
    """Return the patch from the object that the client sent to the object after all webhooks."""
    return diff(sent, restore_annotation(patched, sent))


def set_object_defaults(document: JSON, schema: Mapping[str, JSON]) -> JSON:
    """Return an object with the defaults of its schema; raises StatusError if they exceed the limits of an object."""
    try:
        made = set_schema_defaults(document, schema, max_members=_MAX_DEFAULTS)
    except ValueError as error:
        raise internal(f"the defaults of the object cannot be set: {error}") from None
    if text_size(made, _MAX_OBJECT) > _MAX_OBJECT:
        raise internal(f"the object has more than {_MAX_OBJECT} bytes with its defaults")
    return made


class Patcher:
    """Patches and compares the objects of one request."""

    def __init__(self, worker: Worker, cluster: str) -> None:
        """Initialize the patcher.

        Args:
            worker: Runs long work in a thread.
            cluster: The cluster of the request, for fair scheduling.
        """
        self._worker: Final = worker
        self._cluster: Final = cluster

    async def patch(self, document: JSON, answer: WebhookResponse) -> PatchedObject:
        """Apply a webhook's patch to an object; raises as `patch_object` does."""
        if not answer.patch:
            return PatchedObject(document, [], changed=False)
        return await self._run(document, len(answer.patch), patch_object, document, answer)

    async def set_defaults(self, document: JSON, schema: Mapping[str, JSON]) -> JSON:
        """Return an object with the defaults of its schema; raises as `set_object_defaults` does."""
        return await self._run(document, 0, set_object_defaults, document, schema)

    async def differ(self, one: JSON, other: JSON) -> bool:
        """Return whether two objects differ."""
        return not await self._run(one, 0, identical, one, other)

    async def diff_response(self, sent: JSON, patched: JSON) -> list[JSONObject]:
        """Return the patch of the response, as the function `diff_response` does."""
        return await self._run(patched, 0, diff_response, sent, patched)

    async def _run(self, document: JSON, size: int, function: Callable[..., _T], *arguments: Any) -> _T:
        if size <= _SHORT_PATCH and count_values(document, limit=_SMALL_OBJECT) <= _SMALL_OBJECT:
            return function(*arguments)
        return await self._worker.run(self._cluster, function, *arguments)
