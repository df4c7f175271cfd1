"""AdmissionReview, ``admission.k8s.io/v1`` and ``v1beta1``, and the response of a handler.

The two versions have the same fields and differ only in the rules for responses. One set of types serves both, and the
response repeats the ``apiVersion`` of the request (k8s.io/api/admission).

``object`` and ``oldObject`` stay undecoded bytes until a handler needs them: an UPDATE review carries the workload
twice, and most handlers need one of them. Decoding no more of a workload than the user desires takes a fifth less time,
and equal pod templates are decoded once (`fleethook.model.pod_template_cache`).
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Final, Literal, TypedDict

import msgspec

from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.model.kcp import CLUSTER_ANNOTATION, cluster_of
from fleethook.model.pod_template_cache import decode_template


class DesiredMeta(TypedDict, total=False):
    """``metav1.ObjectMeta`` but for its managed fields. Fields that are not named here are not decoded."""

    name: Any
    generateName: Any
    namespace: Any
    selfLink: Any
    uid: Any
    resourceVersion: Any
    generation: Any
    creationTimestamp: Any
    deletionTimestamp: Any
    deletionGracePeriodSeconds: Any
    labels: Any
    annotations: Any
    ownerReferences: Any
    finalizers: Any


class PartiallyDecoded(TypedDict, total=False):
    """An object with a spec whose members are still text."""

    apiVersion: Any
    kind: Any
    metadata: DesiredMeta
    spec: dict[str, msgspec.Raw]


__all__ = [
    "AdmissionRequest",
    "AdmissionResponse",
    "AdmissionReview",
    "Kind",
    "Resource",
    "Status",
    "StatusCause",
    "StatusDetails",
]

API_VERSIONS: Final = ("admission.k8s.io/v1", "admission.k8s.io/v1beta1")
KIND: Final = "AdmissionReview"

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
AdmissionAPIVersion = Literal["admission.k8s.io/v1", "admission.k8s.io/v1beta1"]


# Maximum bytes of an object that may be decoded partially first and completely later.
_MAX_DECODED_TWICE: Final = 32 * 1024
_NULL: Final = msgspec.Raw(b"null")
_decode = msgspec.json.Decoder().decode
_decode_partially = msgspec.json.Decoder(PartiallyDecoded).decode


def _null() -> msgspec.Raw:
    # A factory instead of a default: a JSON Schema contains defaults, and cannot express this type.
    return _NULL


MAX_NAME: Final = 1024
"""Maximum characters of a name in a review: of an object, a kind, a resource or the review itself. Kubernetes limits
names to 253 characters. Messages and responses repeat these names."""
Name = Annotated[str, msgspec.Meta(max_length=MAX_NAME)]


class Kind(msgspec.Struct, frozen=True):
    """``metav1.GroupVersionKind`` of a review."""

    group: Name = ""
    version: Name = ""
    kind: Name = ""


class Resource(msgspec.Struct, frozen=True):
    """``metav1.GroupVersionResource`` of a review."""

    group: Name = ""
    version: Name = ""
    resource: Name = ""


def _encode(document: JSON) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(document))


class _Decoded:
    """A field of a request, decoded on first use; raises msgspec.DecodeError.

    In Python 3.11, `functools.cached_property` takes a lock, and twice the time.
    """

    def __init__(self, name: str, raw: str) -> None:
        self._name: Final = name
        self._raw: Final = raw

    def __get__(self, request: "AdmissionRequest", _type: type) -> JSON:
        value = vars(request)[self._name] = _decode(getattr(request, self._raw))
        return value


class AdmissionRequest(msgspec.Struct, rename="camel", dict=True):
    """The request of a review; fields as in k8s.io/api/admission/v1."""

    uid: Annotated[str, msgspec.Meta(max_length=MAX_NAME, description="Identifies this call; the response repeats it.")]
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

    object = _Decoded("object", "object_raw")
    """The object under review; None on DELETE."""
    old_object = _Decoded("old_object", "old_object_raw")
    """The stored object; None on CREATE."""
    user = _Decoded("user", "user_info")
    """The requesting user."""
    decoded_options = _Decoded("decoded_options", "options")
    """The options of the operation."""

    @cached_property
    def desired_object(self) -> JSON:
        """The object without status and managed fields, which no handler needs: about a fifth of its text.

        Objects of other reviews may share its ``spec.template``.
        """
        if "object" in self.__dict__ or len(self.object_raw) > _MAX_DECODED_TWICE:
            return self.object
        try:
            document: JSON = _decode_partially(self.object_raw)
        except msgspec.ValidationError:
            return self.object
        if (spec := document.get("spec")) is not None:
            document["spec"] = self._decode_spec(spec, cluster=cluster_of(document))
        return document

    def _decode_spec(self, members: dict[str, msgspec.Raw], *, cluster: str) -> JSONObject:
        template = members.get("template")
        if template is None:
            return dict(zip(members, map(_decode, members.values()), strict=True))
        # The member keeps its place.
        members["template"] = _NULL
        spec = dict(zip(members, map(_decode, members.values()), strict=True))
        spec["template"] = decode_template(template, cluster=cluster, namespace=self.namespace)
        return spec

    @property
    def known_metadata(self) -> Mapping[str, JSON]:
        """The metadata of the object, or a part of it, as far as it was decoded."""
        found = self.__dict__
        document = found.get("desired_object") or found.get("object")
        if not document and self.operation == "DELETE":
            document = found.get("old_object")
        metadata = document.get("metadata") if isinstance(document, dict) else None
        return as_object(metadata)

    def with_objects(self, new: JSON, old: JSON) -> "AdmissionRequest":
        """Return the request with other objects, which need not be decoded."""
        shown = msgspec.structs.replace(self, object_raw=_encode(new), old_object_raw=_encode(old))
        vars(shown).update(object=new, old_object=old)
        return shown

    @cached_property
    def unread(self) -> list[str]:
        """Reasons why current objects could not be read for this review; its preparation adds them."""
        return []

    @property
    def size(self) -> int:
        """The bytes of the fields that may be large."""
        return len(self.object_raw) + len(self.old_object_raw) + len(self.options) + len(self.user_info)


class StatusCause(msgspec.Struct, frozen=True, omit_defaults=True):
    """One cause of a rejection: ``metav1.StatusCause``."""

    field: Annotated[str, msgspec.Meta(description="Path of the field, such as entries[0].patches[1].path.")] = ""
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
    """``metav1.Status``, the result of a response and the body of an HTTP error."""

    api_version: str = ""
    kind: str = ""
    status: str = ""
    message: str = ""
    reason: str = ""
    details: StatusDetails | None = None
    code: int = 0


class AdmissionResponse(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The response of a review; ``patch`` is the text of a JSON Patch, base64 in JSON."""

    uid: str
    allowed: bool
    status: Status | None = None
    patch: bytes | None = None
    patch_type: Literal["JSONPatch"] | None = None
    audit_annotations: dict[str, str] | None = None
    warnings: list[str] | None = None


class AdmissionReview(msgspec.Struct, rename="camel", omit_defaults=True):
    """The envelope of requests and responses."""

    api_version: AdmissionAPIVersion
    kind: Literal["AdmissionReview"]
    request: AdmissionRequest | None = None
    response: AdmissionResponse | None = None


class Response(msgspec.Struct, frozen=True):
    """The decision of a handler: the HTTP edge encodes it, the CLI prints it, and tests compare it."""

    allowed: bool
    patch: Sequence[JSONObject] = ()
    warnings: tuple[str, ...] = ()
    code: int = 0
    reason: str = ""
    message: str = ""
    causes: tuple[StatusCause, ...] = ()
    audit_annotations: dict[str, str] | None = None
    status: Status | None = None
    """The complete Status of another webhook's denial; it replaces a Status of the fields above."""


_CLUSTER_BYTES: Final = CLUSTER_ANNOTATION.encode()
ALLOWED: Final = Response(allowed=True)
"""The most frequent response."""


def allowed(*, warnings: Sequence[str] = ()) -> Response:
    """Admit the object unchanged."""
    return Response(allowed=True, warnings=tuple(warnings)) if warnings else ALLOWED


def patched(operations: Sequence[JSONObject], *, warnings: Sequence[str] = ()) -> Response:
    """Admit the object with these RFC 6902 operations."""
    return Response(allowed=True, patch=operations, warnings=tuple(warnings))


def denied(message: str, *, warnings: Sequence[str] = ()) -> Response:
    """Refuse the object with 403 Forbidden, like ``Denied`` of controller-runtime."""
    return Response(allowed=False, code=403, reason="Forbidden", message=message, warnings=tuple(warnings))


def errored(message: str, *, code: int = 400, reason: str = "BadRequest") -> Response:
    """Refuse because the review cannot be handled, not because a rule forbids the object."""
    return Response(allowed=False, code=code, reason=reason, message=message)


def invalid(message: str, causes: Sequence[StatusCause], *, warnings: Sequence[str] = ()) -> Response:
    """Refuse with all findings: 422 Invalid, like the validation of kube-apiserver."""
    return Response(
        allowed=False, code=422, reason="Invalid", message=message, causes=tuple(causes), warnings=tuple(warnings)
    )


def cluster_conflict(request: AdmissionRequest, *, restored: bool = False) -> str:
    """Return an error message if an update has objects of two logical clusters, else ``""``.

    The annotation decides about the cluster of an object. Without this check, a user could change the annotation and
    read the objects of another cluster through the response.

    Args:
        request: The request.
        restored: Whether the stored object names the cluster if the updated one does not. kcp restores the annotation
            after admission (k8s.io/apiserver, pkg/registry/generic/registry/store_kcp.go in kcp-dev/kubernetes).
    """
    if request.operation != "UPDATE":
        return ""
    cluster = _read_cluster(request.desired_object)
    if restored and not cluster:
        return ""
    stored = _read_cluster(request.old_object) if cluster or _CLUSTER_BYTES in bytes(request.old_object_raw) else ""
    if cluster == stored:
        return ""
    return (
        f"request.object is in logical cluster {cluster!r} and request.oldObject in {stored!r} "
        f"(annotation {CLUSTER_ANNOTATION}): an update cannot move an object; do not change the annotation"
    )


def read_cluster(request: AdmissionRequest) -> str:
    """Return the logical cluster in the annotation of the object or of the stored object, ``""`` outside kcp."""
    if _CLUSTER_BYTES not in bytes(request.object_raw) and _CLUSTER_BYTES not in bytes(request.old_object_raw):
        return ""
    return _read_cluster(request.object) or _read_cluster(request.old_object)


def _read_cluster(document: JSON) -> str:
    return cluster_of(document) if isinstance(document, dict) else ""


# DNS1123SubdomainMaxLength of k8s.io/apimachinery/pkg/util/validation, for names of custom resources.
_MAX_NAME_LENGTH: Final = 253


def not_for_review(request: AdmissionRequest, kinds: Sequence[GroupKind]) -> Response | None:
    """Return the response to a review that is no CREATE or UPDATE of one of ``kinds``, None if it is one."""
    group_kind = GroupKind(request.kind.group, request.kind.kind)
    if group_kind not in kinds:
        known = " or ".join(kind.kind for kind in kinds)
        return errored(f"expected a {known} but got a {group_kind.kind or 'nothing'}")
    if request.operation not in ("CREATE", "UPDATE") or request.sub_resource:
        return allowed()
    metadata = as_object(request.object).get("metadata")
    if not isinstance(metadata, dict):
        return errored("request.object is not an object with metadata")
    for member in ("name", "generateName", "namespace"):
        # Messages print names, and printing a value of 8 MiB would block the event loop for up to 2 s.
        value = metadata.get(member) or ""
        if not isinstance(value, str) or len(value) > _MAX_NAME_LENGTH:
            text = f"/metadata/{member} must be text of at most {_MAX_NAME_LENGTH} characters"
            return errored(f"request.object: {text}")
    # Rules must not prevent a client from removing a finalizer.
    return allowed() if metadata.get("deletionTimestamp") else None
