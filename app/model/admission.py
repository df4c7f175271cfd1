"""AdmissionReview, ``admission.k8s.io/v1`` and ``v1beta1``, and the verdict a handler returns.

The two versions share one shape; they differ only in what a dispatcher demands of the answer, so one set of types
serves both and the answer repeats the ``apiVersion`` that asked (k8s.io/api/admission).

``object`` and ``oldObject`` stay undecoded bytes until a handler asks: an UPDATE review carries the workload twice and
most handlers need one of them.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Final, Literal

import msgspec

from app.model.desired import Desired
from app.model.gvk import GroupKind
from app.model.json import JSON, JSONObject, as_object
from app.model.kcp import CLUSTER_ANNOTATION, cluster_of

API_VERSIONS: Final = ("admission.k8s.io/v1", "admission.k8s.io/v1beta1")
KIND: Final = "AdmissionReview"

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
AdmissionAPIVersion = Literal["admission.k8s.io/v1", "admission.k8s.io/v1beta1"]


# Bytes of an object that may be decoded in part first and as a whole later.
_MAX_DECODED_TWICE: Final = 32 * 1024
_NULL: Final = msgspec.Raw(b"null")
_decode = msgspec.json.Decoder().decode
_decode_desired = msgspec.json.Decoder(Desired).decode


def _null() -> msgspec.Raw:
    # A factory and not a default: a schema has to write defaults down, and cannot write this type.
    return _NULL


MAX_NAME: Final = 1024
"""Characters of a name in a review: of an object, a kind, a resource or the review itself. Names of Kubernetes have 253
at most; each of these is repeated in messages and in answers."""
Name = Annotated[str, msgspec.Meta(max_length=MAX_NAME)]


class Kind(msgspec.Struct, frozen=True):
    """``metav1.GroupVersionKind`` as a review carries it."""

    group: Name = ""
    version: Name = ""
    kind: Name = ""


class Resource(msgspec.Struct, frozen=True):
    """``metav1.GroupVersionResource`` as a review carries it."""

    group: Name = ""
    version: Name = ""
    resource: Name = ""


class AdmissionRequest(msgspec.Struct, rename="camel", dict=True):
    """The request half of a review; fields as in k8s.io/api/admission/v1."""

    uid: Annotated[str, msgspec.Meta(max_length=MAX_NAME, description="Identifies this call; the answer repeats it.")]
    operation: Operation
    kind: Kind = Kind()
    resource: Resource = Resource()
    sub_resource: Name = ""
    request_kind: Kind | None = None
    request_resource: Resource | None = None
    request_sub_resource: Name = ""
    name: Name = ""
    namespace: Name = ""
    user_info: msgspec.Raw = msgspec.field(default_factory=_null)
    object_raw: msgspec.Raw = msgspec.field(default_factory=_null, name="object")
    old_object_raw: msgspec.Raw = msgspec.field(default_factory=_null, name="oldObject")
    dry_run: bool | None = None
    options: msgspec.Raw = msgspec.field(default_factory=_null)

    @cached_property
    def object(self) -> JSON:
        """The object under review, decoded on first use; None on DELETE. Raises msgspec.DecodeError."""
        return _decode(self.object_raw)

    @cached_property
    def desired_object(self) -> JSON:
        """The same without what nobody asks for: status and managed fields, a good fifth of an object's text."""
        if "object" in self.__dict__ or len(self.object_raw) > _MAX_DECODED_TWICE:
            return self.object
        try:
            return _decode_desired(self.object_raw)
        except msgspec.ValidationError:
            return self.object

    @cached_property
    def old_object(self) -> JSON:
        """The stored object, decoded on first use; None on CREATE. Raises msgspec.DecodeError."""
        return _decode(self.old_object_raw)

    @cached_property
    def user(self) -> JSON:
        """The user who asks, decoded on first use. Raises msgspec.DecodeError."""
        return _decode(self.user_info)

    @cached_property
    def decoded_options(self) -> JSON:
        """The options of the operation, decoded on first use. Raises msgspec.DecodeError."""
        return _decode(self.options)

    @property
    def size(self) -> int:
        """The bytes of everything in it that may be large."""
        return sum(map(len, (self.object_raw, self.old_object_raw, self.options, self.user_info)))


class StatusCause(msgspec.Struct, frozen=True, omit_defaults=True):
    """One finding of a rejected object: ``metav1.StatusCause``."""

    field: Annotated[str, msgspec.Meta(description="Where: a path such as entries[0].patches[1].path.")] = ""
    message: str = ""
    reason: str = ""


class StatusDetails(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """``metav1.StatusDetails``."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[StatusCause, ...] = ()
    retry_after_seconds: int = 0


class Status(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """``metav1.Status``, the result of an answer and the body of an HTTP error."""

    api_version: str = ""
    kind: str = ""
    status: str = ""
    message: str = ""
    reason: str = ""
    details: StatusDetails | None = None
    code: int = 0


class AdmissionResponse(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The response half of a review; ``patch`` holds JSON Patch text, base64 on the wire."""

    uid: str
    allowed: bool
    status: Status | None = None
    patch: bytes | None = None
    patch_type: Literal["JSONPatch"] | None = None
    audit_annotations: dict[str, str] | None = None
    warnings: list[str] | None = None


class AdmissionReview(msgspec.Struct, rename="camel", omit_defaults=True):
    """The envelope, in both directions."""

    api_version: AdmissionAPIVersion
    kind: Literal["AdmissionReview"]
    request: AdmissionRequest | None = None
    response: AdmissionResponse | None = None


class Response(msgspec.Struct, frozen=True):
    """What a handler decides: a value, encoded by the HTTP edge, printed by the CLI, compared by tests."""

    allowed: bool
    patch: Sequence[JSONObject] = ()
    warnings: tuple[str, ...] = ()
    code: int = 0
    reason: str = ""
    message: str = ""
    causes: tuple[StatusCause, ...] = ()
    audit_annotations: dict[str, str] | None = None
    status: Status | None = None
    """The whole status of somebody else's denial, instead of one that is made of the members above."""


_CLUSTER_BYTES: Final = CLUSTER_ANNOTATION.encode()
_ALLOWED: Final = Response(allowed=True)


def allowed(*, warnings: Sequence[str] = ()) -> Response:
    """Admit the object as it is."""
    return Response(allowed=True, warnings=tuple(warnings)) if warnings else _ALLOWED


def patched(operations: Sequence[JSONObject], *, warnings: Sequence[str] = ()) -> Response:
    """Admit the object with these RFC 6902 operations applied to it."""
    return Response(allowed=True, patch=operations, warnings=tuple(warnings))


def denied(message: str, *, warnings: Sequence[str] = ()) -> Response:
    """Refuse the object: 403 Forbidden, the code controller-runtime's ``Denied`` gives."""
    return Response(allowed=False, code=403, reason="Forbidden", message=message, warnings=tuple(warnings))


def errored(message: str, *, code: int = 400, reason: str = "BadRequest") -> Response:
    """Refuse because the review itself cannot be answered, not because a rule says no."""
    return Response(allowed=False, code=code, reason=reason, message=message)


def invalid(message: str, causes: Sequence[StatusCause], *, warnings: Sequence[str] = ()) -> Response:
    """Refuse with every finding: 422 Invalid, as the apiserver answers for its own validation."""
    return Response(
        allowed=False, code=422, reason="Invalid", message=message, causes=tuple(causes), warnings=tuple(warnings)
    )


def cluster_conflict(request: AdmissionRequest) -> str:
    """Return the message that an update is of objects of two logical clusters, ``""`` if it is not.

    The annotation says which cluster an object belongs to. Otherwise a user who may write an object could have it
    answered from the objects of another cluster.
    """
    if request.operation != "UPDATE":
        return ""
    cluster = _cluster_named_by(request.desired_object)
    stored = _cluster_named_by(request.old_object) if cluster or _CLUSTER_BYTES in bytes(request.old_object_raw) else ""
    if cluster == stored:
        return ""
    return (
        f"request.object is of logical cluster {cluster!r} and request.oldObject of {stored!r} "
        f"(annotation {CLUSTER_ANNOTATION}): an update cannot move an object; leave the annotation as it is stored"
    )


def _cluster_named_by(document: JSON) -> str:
    return cluster_of(document) if isinstance(document, dict) else ""


# RFC 1123 subdomains, which names of custom resources are: k8s.io/apimachinery/pkg/util/validation.
_MAX_NAME_LENGTH: Final = 253


def not_for_review(request: AdmissionRequest, kinds: Sequence[GroupKind]) -> Response | None:
    """Return the answer to a review of something else than one of ``kinds`` that is written; None if it is one."""
    group_kind = GroupKind(request.kind.group, request.kind.kind)
    if group_kind not in kinds:
        known = " or ".join(one.kind for one in kinds)
        return errored(f"expected a {known} but got a {group_kind.kind or 'nothing'}")
    if request.operation not in ("CREATE", "UPDATE") or request.sub_resource:
        return allowed()
    metadata = as_object(request.object).get("metadata")
    if not isinstance(metadata, dict):
        return errored("request.object is not an object with metadata")
    for member in ("name", "generateName", "namespace"):
        # Messages print names; a text or object of 8 MiB in place of one holds the event loop for up to 2 s.
        value = metadata.get(member) or ""
        if not isinstance(value, str) or len(value) > _MAX_NAME_LENGTH:
            text = f"/metadata/{member} must be text of at most {_MAX_NAME_LENGTH} characters"
            return errored(f"request.object: {text}")
    # Who removes a finalizer shall not have to mend the rest first.
    return allowed() if metadata.get("deletionTimestamp") else None
