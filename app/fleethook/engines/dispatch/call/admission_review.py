"""Builds AdmissionReviews for webhooks and parses their responses (k8s.io/apiserver webhook/request).

Error texts are those of an apiserver, and so are the limits of warnings (pkg/endpoints/filters/warning.go).
"""

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from fleethook.engines.dispatch.dispatch_errors import RejectedError, denial
from fleethook.engines.dispatch.match.rules import Attributes, WebhookInvocation
from fleethook.model.admission import API_VERSIONS, KIND, Status
from fleethook.model.gvk import GroupVersionKind
from fleethook.model.json import JSON, JSONObject, as_object, decode_bytes
from fleethook.patch.pointer import LIMITS

_GROUP: Final = "admission.k8s.io"
_KNOWN: Final = tuple(version.partition("/")[2] for version in API_VERSIONS)
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

    def denial(self, name: str) -> RejectedError:
        """Return the denial of the webhook with that name."""
        return denial(name, self.status)


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


def choose_review_version(accepted: tuple[str, ...]) -> str:
    """Return the AdmissionReview version for a webhook: the first accepted version that is known.

    Raises:
        ReviewError: No accepted version is known.
    """
    for version in accepted:
        if version in _KNOWN:
            return version
    raise ReviewError("webhook does not accept known AdmissionReview versions (v1, v1beta1)")


def build_review(
    attributes: Attributes, invocation: WebhookInvocation, *, kind: GroupVersionKind, version: str, uid: str
) -> JSONObject:
    """Build the AdmissionReview for a webhook.

    Args:
        attributes: The request, with objects of ``kind``.
        invocation: The resource and subresource that the webhook gets.
        kind: The kind of the objects.
        version: The AdmissionReview version (`choose_review_version`).
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
    if not isinstance(operations, list) or not all(one is None or isinstance(one, dict) for one in operations):
        raise ReviewError("received undecodable patch in webhook response: not an array of operations")
    return [as_object(one) for one in operations]


def check_patch_type(answer: WebhookResponse) -> None:
    """Raise ReviewError if a patch has an unknown type."""
    if answer.patch_type != _JSON_PATCH:
        raise ReviewError(f'unsupported patch type "{answer.patch_type}"')


def build_condition_request(attributes: Attributes, *, kind: GroupVersionKind) -> JSONObject:
    """Return the variable ``request`` of matchConditions.

    As in an apiserver, ``kind`` is the matched kind, but ``resource`` is the requested resource (`Match` in
    k8s.io/apiserver pkg/admission/plugin/webhook/matchconditions). The AdmissionReview has the matched resource.
    """
    requested_kind, requested_resource, requested_subresource = attributes.requested
    return {
        "kind": kind._asdict(),
        "resource": attributes.resource._asdict(),
        "subResource": attributes.subresource,
        "requestKind": requested_kind._asdict(),
        "requestResource": requested_resource._asdict(),
        "requestSubResource": requested_subresource,
        "name": attributes.name,
        "namespace": attributes.namespace,
        "operation": attributes.operation,
        "userInfo": attributes.user_info or {},
        "dryRun": attributes.dry_run,
        "options": attributes.options,
    }


# The limit of all warnings in characters, and the limit of each warning if they exceed the first one.
_MAX_CHARACTERS: Final = 4096
_MAX_TRUNCATED: Final = 256
# A pattern, not a loop: a text may have 8 MiB, and a loop takes 1 us for 10 characters.
_UNPRINTABLE: Final = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")


def limit_warnings(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the warnings for a client: without duplicates, empty texts and control characters.

    Up to 4,096 characters are returned in full. Otherwise each warning is truncated to 256 characters, and the first
    ones that fit are returned.
    """
    kept = list(dict.fromkeys(clean for text in texts if (clean := _remove_unprintable(text))))
    if sum(map(len, kept)) <= _MAX_CHARACTERS:
        return tuple(kept)
    remaining, found = _MAX_CHARACTERS, []
    for text in dict.fromkeys(text[:_MAX_TRUNCATED] for text in kept):
        if len(text) > remaining:
            break
        remaining -= len(text)
        found.append(text)
    return tuple(found)


def _remove_unprintable(text: str) -> str:
    # UTF-8 cannot encode surrogates, and a header must be UTF-8.
    return _UNPRINTABLE.sub("", text)
