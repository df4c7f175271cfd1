"""Builds AdmissionReviews for webhooks, parses their responses, and applies their patches.

Error texts are those of an apiserver (k8s.io/apiserver webhook/request). A large patch is applied in a thread: an
estimate of the work selects the thread, never a clock. Both ways give the same result.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from fleethook.engines.dispatch.attributes_and_cluster_annotation import Attributes, restore_annotation
from fleethook.engines.dispatch.errors_and_deadline import internal
from fleethook.engines.dispatch.match.equivalent_resources import WebhookInvocation, is_builtin
from fleethook.model.admission import KIND, Status
from fleethook.model.formats.text import decode_bytes
from fleethook.model.gvk import GroupVersionKind, GroupVersionResource
from fleethook.model.json import JSON, JSONObject, as_object, count_values
from fleethook.patch import apply, diff
from fleethook.patch.diff import identical, text_size
from fleethook.patch.pointer_and_limits import LIMITS
from fleethook.work.threads_and_gc import Worker
from fleethook.workload_schema.custom_resource_schema import set_schema_defaults
from fleethook.workload_schema.defaults import add_defaults

_GROUP: Final = "admission.k8s.io"
_JSON_PATCH: Final = "JSONPatch"


class ReviewError(ValueError):
    """No review can be sent, or the response is invalid."""


class WebhookResponse(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The response of a webhook."""

    allowed: bool
    patch: bytes = b""
    """The JSON Patch, ``b""`` for none."""
    patch_type: str = ""
    status: Status | None = None
    warnings: tuple[str, ...] = ()
    audit_annotations: dict[str, str] = {}


class _Response(msgspec.Struct, rename="camel"):
    uid: str | None = None
    allowed: bool | None = None
    status: Status | None = None
    patch: str | None = None
    patch_type: str | None = None
    audit_annotations: dict[str, str] | None = None
    warnings: list[str] | None = None


class _Review(msgspec.Struct, rename="camel"):
    api_version: str | None = None
    kind: str | None = None
    response: _Response | None = None


_decode: Final = msgspec.json.Decoder(_Review).decode


def build_review(
    attributes: Attributes, invocation: WebhookInvocation, *, kind: GroupVersionKind, version: str, uid: str
) -> JSONObject:
    """Build the AdmissionReview for a webhook.

    Args:
        attributes: The request, with objects of ``kind``.
        invocation: The resource and subresource that the webhook gets.
        kind: The kind of the objects.
        version: The AdmissionReview version.
        uid: The uid of this call.
    """
    requested_kind, requested_resource, requested_subresource = attributes.requested
    request: JSONObject = {
        "uid": uid,
        "kind": kind._asdict(),
        "resource": invocation.resource._asdict(),
        "requestKind": requested_kind._asdict(),
        "requestResource": requested_resource._asdict(),
        "operation": attributes.operation,
        "userInfo": attributes.user_info or {},
        "object": attributes.object,
        "oldObject": attributes.old_object,
        "dryRun": attributes.dry_run,
        "options": attributes.options,
    }
    optional = {
        "subResource": invocation.subresource,
        "requestSubResource": requested_subresource,
        "name": attributes.name,
        "namespace": attributes.namespace,
    }
    request.update((name, text) for name, text in optional.items() if text)
    return {"apiVersion": f"{_GROUP}/{version}", "kind": KIND, "request": request}


def parse_response(text: bytes, *, uid: str, version: str, mutating: bool) -> WebhookResponse:
    """Parse the response of a webhook.

    Args:
        text: The body of the response.
        uid: The uid of the call.
        version: The AdmissionReview version of the call. As upstream, uid and kind are not verified for v1beta1.
        mutating: Whether the webhook may patch.

    Raises:
        ReviewError: The response is invalid.
        PatchError: The patch is too large.
    """
    try:
        review = _decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ReviewError(f"not an AdmissionReview: {str(error) or 'nested too deep'}") from None
    response = review.response
    if response is None:
        raise ReviewError("webhook response was absent")
    patch = _decode_base64(response, limited=mutating)
    if version == "v1":
        _verify(review, response, uid=uid, mutating=mutating, has_patch=bool(patch))
    patch = patch if mutating else b""
    return WebhookResponse(
        allowed=bool(response.allowed),
        patch=patch,
        patch_type=(_JSON_PATCH if version != "v1" else response.patch_type or "") if patch else "",
        status=response.status,
        warnings=tuple(response.warnings or ()),
        audit_annotations=response.audit_annotations or {},
    )


def _verify(review: _Review, response: _Response, *, uid: str, mutating: bool, has_patch: bool) -> None:
    if (response.uid or "") != uid:
        raise ReviewError(f'expected response.uid="{uid}", got "{response.uid or ""}"')
    if (review.api_version, review.kind) != (f"{_GROUP}/v1", KIND):
        got = f"{review.api_version or ''}, Kind={review.kind or ''}"
        raise ReviewError(f"expected webhook response of {_GROUP}/v1, Kind={KIND}, got {got}")
    patch_type = response.patch_type
    if not mutating:
        if has_patch:
            raise ReviewError("validating webhook may not return response.patch")
        if patch_type is not None:
            raise ReviewError("validating webhook may not return response.patchType")
        return
    if has_patch and patch_type is None:
        raise ReviewError("webhook returned response.patch but not response.patchType")
    if patch_type is not None and not has_patch:
        raise ReviewError("webhook returned response.patchType but not response.patch")
    if patch_type == "":
        raise ReviewError('webhook returned invalid response.patchType of ""')


def _decode_base64(response: _Response, *, limited: bool) -> bytes:
    if not response.patch:
        return b""
    if limited:
        # Checked before decoding: four characters of base64 are three bytes. The patch of a validating webhook is
        # invalid at any size, so its size does not matter.
        LIMITS.check_size(len(response.patch) * 3 // 4 - 2)
    try:
        return decode_bytes(response.patch)
    except ValueError as error:
        raise ReviewError(f"response.patch is not base64: {error}") from None


def decode_patch(answer: WebhookResponse) -> list[JSON]:
    """Return the operations of a webhook's patch, an empty list for no change. The type of the patch is not checked.

    Raises:
        ReviewError: The patch is not a JSON Patch.
    """
    if not answer.patch:
        return []
    try:
        operations: JSON = msgspec.json.decode(answer.patch)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        reason = str(error) or "nested too deep"
        raise ReviewError(f"received undecodable patch in webhook response: invalid character: {reason}") from None
    if operations is None:
        return []
    if not isinstance(operations, list) or not all(
        operation is None or isinstance(operation, dict) for operation in operations
    ):
        raise ReviewError("received undecodable patch in webhook response: not an array of operations")
    return [as_object(operation) for operation in operations]


def check_patch_type(answer: WebhookResponse) -> None:
    """Raise ReviewError if a patch has an unknown type."""
    if answer.patch_type != _JSON_PATCH:
        raise ReviewError(f'unsupported patch type "{answer.patch_type}"')


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
    return PatchedObject(patched, operations, changed=not identical(patched, document))


def check_patched(webhook: str, patched: PatchedObject, resource: GroupVersionResource, kind: GroupVersionKind) -> None:
    """Refuse a patch of nothing, or one that yields an object of another kind, as kube-apiserver does.

    kube-apiserver decodes the answer next, and refuses members that do not fit their types.

    Args:
        webhook: The name of the webhook.
        patched: The patched object.
        resource: The resource of the request.
        kind: The kind of the object before the patch.

    Raises:
        StatusError: The request is refused.
    """
    if not patched.operations:
        return
    if patched.object is None:
        text = "attempted to modify the object, which is not supported for this operation"
        raise internal(f'admission webhook "{webhook}" {text}')
    if not isinstance(patched.object, dict):
        raise internal(f'the patch of admission webhook "{webhook}" replaces the object by another JSON type')
    problem = explain_wrong_kind(patched.object, kind, is_builtin=is_builtin(resource.group, resource.resource))
    if problem:
        text = "yields an object that does not fit its types: "
        raise internal(f'the patch of admission webhook "{webhook}" {text}{problem}')


def diff_response(sent: JSON, patched: JSON) -> list[JSONObject]:
    """Return the patch from the object that the client sent to the object after all webhooks."""
    return diff(sent, restore_annotation(patched, sent))


def set_object_defaults(document: JSON, schema: Mapping[str, JSON] | None) -> JSON:
    """Return an object with the defaults of its schema, None for those of a built-in kind.

    Raises StatusError if they exceed the limits of an object.
    """
    if schema is None:
        return add_defaults(document) if isinstance(document, dict) else document
    try:
        made = set_schema_defaults(document, schema, max_members=_MAX_DEFAULTS)
    except ValueError as error:
        raise internal(f"the defaults of the object cannot be set: {error}") from None
    # Most objects lack no default, and to measure one of 5 KB takes 40 µs.
    if made != document and text_size(made, _MAX_OBJECT) > _MAX_OBJECT:
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

    async def set_defaults(self, document: JSON, schema: Mapping[str, JSON] | None) -> JSON:
        """Return an object with its defaults, as `set_object_defaults` does."""
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
