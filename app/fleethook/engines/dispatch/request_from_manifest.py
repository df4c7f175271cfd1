"""Plans the request to explain: the request of a review, or the one that a client would send with a manifest.

An apiserver refuses some requests before it asks a webhook.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple, cast

import msgspec

from fleethook.api_schema import check_object, load_served
from fleethook.cluster.store import Store
from fleethook.engines.dispatch.attributes_and_cluster_annotation import read_claimed_cluster
from fleethook.engines.dispatch.match.equivalent_resources import (
    SCALE,
    find_definition,
    find_equivalents,
    is_namespaced,
)
from fleethook.engines.dispatch.resource_of_manifest import DestinationError, choose_destination, needs_metadata
from fleethook.engines.dispatch.schema_owner_and_cluster_paths import find_owner
from fleethook.model.admission import API_VERSIONS, KIND, AdmissionRequest, Kind, Resource
from fleethook.model.admission import Operation as SentOperation
from fleethook.model.gvk import GroupKind, GroupVersionKind, gvk_of, parse_api_version
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.model.kcp import CLUSTER_ANNOTATION
from fleethook.server.reviews.review_codec import BadReviewError, decode_review
from fleethook.workload_schema.admission_objects import show_request
from fleethook.workload_schema.custom_resource_schema import CustomVersion, find_version
from fleethook.workload_schema.defaults import knows_defaults, set_defaults

_UID: Final = "00000000-0000-0000-0000-000000000000"
NAMESPACE: Final = GroupVersionKind("", "v1", "Namespace")


class InputRequestError(ValueError):
    """No request can be made of a document; the text names the document, the reason and the remedy."""


class RequestOperation(StrEnum):
    """Operations of admission requests."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    CONNECT = "CONNECT"
    DELETECOLLECTION = "DELETECOLLECTION"
    """A DELETE whose request has no name: kube-apiserver sends one for each object of a collection."""


class RequestOptions(NamedTuple):
    """Properties of the request that the command line sets.

    Attributes:
        operation: The operation, None for that of the review, or the usual one: CREATE, or the only one of a
            subresource.
        user: The user info, empty for that of the review.
        old: The stored object, None for that of the review.
        dry_run: Whether it is a dry run; False for the value of the review.
        default_cluster: Logical cluster of objects that name none, None if each must name it.
        resource: The resource that manifests are sent to, as ``[PLURAL[.VERSION][.GROUP]][/SUBRESOURCE]``; ``""`` for
            the one of their kind.
    """

    operation: RequestOperation | None
    user: JSONObject
    old: JSON
    dry_run: bool
    default_cluster: str | None = None
    resource: str = ""


class InputDocument(NamedTuple):
    """An object or a review that the command reads.

    Attributes:
        document: The object or review.
        place: ``FILE:LINE``.
        cluster: Its logical cluster, None if neither the options nor the object name it.
    """

    document: JSONObject
    place: str
    cluster: str | None


class InputRequest(NamedTuple):
    """A request to explain.

    Attributes:
        request: The request as mutating webhooks get it.
        validating: The request as validating webhooks get it: a new object has a name and a uid.
        cluster: Logical cluster that it is made in.
        source: The document that it comes from.
        notes: Guessed parts of the request, and reasons why no apiserver sends it to admission.
        has_defaults: Whether its objects have all defaults of their kind; None for a review, whose objects are those
            of an apiserver.
        version: The version of a custom resource, None for a review, for a built-in kind and without definition.
    """

    request: AdmissionRequest
    validating: AdmissionRequest
    cluster: str
    source: InputDocument
    notes: tuple[str, ...] = ()
    has_defaults: bool | None = None
    version: CustomVersion | None = None

    @property
    def subject(self) -> str:
        """Kind, namespace and name of the object."""
        request = self.validating
        # The request of a deleted collection has no name.
        name = request.name or as_object(as_object(request.old_object).get("metadata")).get("name") or ""
        is_namespaced = request.namespace and request.kind != Kind(*NAMESPACE)
        return f"{request.kind.kind} {f'{request.namespace}/{name}' if is_namespaced else name}"


def is_review(document: Mapping[str, JSON]) -> bool:
    """Return whether a document is an AdmissionReview."""
    return document["kind"] == KIND and document["apiVersion"] in API_VERSIONS


def find_problem(document: JSON) -> str:
    """Return the reason why a document is neither an object nor a review, ``""`` if it is one."""
    kind, api_version = as_object(document).get("kind"), as_object(document).get("apiVersion")
    if not (isinstance(kind, str) and kind and isinstance(api_version, str) and api_version):
        return "apiVersion and kind are required"
    if is_review(as_object(document)):
        return ""
    metadata = as_object(document).get("metadata")
    if metadata is None and not needs_metadata(GroupKind(parse_api_version(api_version)[0], kind)):
        return ""
    if not isinstance(metadata, dict):
        return "metadata is required"
    texts = (metadata.get(member) for member in ("name", "generateName", "namespace"))
    return "" if all(text is None or isinstance(text, str) for text in texts) else "name and namespace must be text"


def make_input_request(store: Store, source: InputDocument, options: RequestOptions) -> InputRequest:
    """Return the request to explain.

    Raises PlanError if the review is invalid, the cluster is unknown, or the resource is unclear.

    The document has no problem by `find_problem`.
    """
    is_collection = options.operation is RequestOperation.DELETECOLLECTION
    if is_collection:
        options = options._replace(operation=RequestOperation.DELETE)
    if is_review(source.document):
        planned = _read_review(source, options)
    else:
        planned = _make_request(store, source, _require_cluster(source, options), options)
    if not is_collection:
        return planned
    return planned._replace(
        request=msgspec.structs.replace(planned.request, name=""),
        validating=msgspec.structs.replace(planned.validating, name=""),
    )


def _require_cluster(source: InputDocument, options: RequestOptions) -> str:
    if source.cluster is None and options.default_cluster is not None:
        return options.default_cluster
    if source.cluster is None:
        raise InputRequestError(
            f"{source.place}: the logical cluster is unknown: add the annotation {CLUSTER_ANNOTATION}, or "
            "give --cluster NAME ('' for the objects without this annotation)"
        )
    return source.cluster


def _read_review(source: InputDocument, options: RequestOptions) -> InputRequest:
    """Return the request of a review, changed by the options."""
    try:
        review = decode_review(msgspec.json.encode(source.document))
    except BadReviewError as error:
        raise InputRequestError(f"{source.place}: {error}") from None
    request = review.request
    if request is None:
        raise InputRequestError(f"{source.place}: the review cannot be read: {review.problem}")
    changes: dict[str, Any] = {}
    if options.operation is not None or options.old is not None:
        operation = options.operation or RequestOperation(request.operation)
        new, old = map(_encode, _make_objects(operation, request.object, options.old or request.old_object))
        changes = {"operation": operation.value, "object_raw": new, "old_object_raw": old}
        changes["options"] = _make_options(operation)
    if options.user:
        changes["user_info"] = _encode(options.user)
    if options.dry_run:
        changes["dry_run"] = True
    claimed = read_claimed_cluster(request) or None
    cluster = _require_cluster(source if source.cluster is not None else source._replace(cluster=claimed), options)
    changed = msgspec.structs.replace(request, **changes)
    return InputRequest(changed, changed, cluster, source)


def _encode(value: JSON) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def _make_objects(operation: RequestOperation, document: JSON, old: JSON) -> tuple[JSON, JSON]:
    """Return object and oldObject as kube-apiserver sets them for an operation."""
    new = None if operation is RequestOperation.DELETE else document or old
    before = old or document if operation in (RequestOperation.UPDATE, RequestOperation.DELETE) else None
    return new, before


def _make_options(operation: RequestOperation) -> msgspec.Raw:
    has_no_options = operation is RequestOperation.CONNECT
    return _encode(None if has_no_options else {"apiVersion": "meta.k8s.io/v1", "kind": f"{operation.title()}Options"})


def _make_request(store: Store, source: InputDocument, cluster: str, options: RequestOptions) -> InputRequest:
    """Return the request that a client would send with a manifest."""
    own = gvk_of(source.document)
    try:
        chosen = choose_destination(
            store, cluster=cluster, kind=own, resource=options.resource, operation=options.operation or ""
        )
    except DestinationError as error:
        raise InputRequestError(f"{source.place}: {error}") from None
    resource, subresource = chosen.destination
    operation = RequestOperation(chosen.operation)
    schema = find_owner(store, cluster=cluster, group=resource.group, resource=resource.resource).schema
    in_namespace = is_namespaced(
        store, cluster=cluster, group=resource.group, resource=resource.resource, schema=schema
    )
    document = _set_namespace(source.document) if in_namespace else source.document
    metadata = document.get("metadata") or {}
    same = find_equivalents(store, cluster=cluster, resource=resource, subresource=subresource, kind=own, schema=schema)
    kind = next((equivalent.kind for equivalent in same if equivalent.resource == resource and equivalent.kind), own)
    if kind.group_kind == own.group_kind:
        kind = own
    else:
        replicas = as_object(set_defaults(document).get("spec")).get("replicas")
        spec = {"spec": {"replicas": replicas}} if kind == SCALE and replicas is not None else {}
        document = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": _keep_names(metadata), **spec}
    if operation is RequestOperation.CONNECT:
        # The options of CONNECT, such as PodExecOptions, have no metadata.
        document = {name: value for name, value in document.items() if name != "metadata"}
    definition = find_definition(
        store, cluster=cluster, group=resource.group, resource=resource.resource, schema=schema
    )
    # The kind of a subresource, such as Scale, has a schema of its own.
    is_its_kind = kind == own and kind.group == resource.group
    version = find_version(definition, own.version) if definition is not None and is_its_kind else None
    name, namespace = metadata.get("name") or "", metadata.get("namespace") or ""
    request = AdmissionRequest(
        uid=_UID,
        operation=cast("SentOperation", operation.value),
        kind=Kind(*kind),
        resource=Resource(*resource),
        sub_resource=subresource,
        name=name,
        # A request about a Namespace carries that Namespace's own name, but not a generated one.
        namespace=name if own == NAMESPACE else namespace if in_namespace is not False else "",
        user_info=_encode(options.user),
        dry_run=options.dry_run,
        options=_make_options(operation),
    )
    stored = _set_namespace(options.old) if in_namespace and options.old else options.old
    sent = request.with_objects(*_make_objects(operation, document, stored))
    shown = [show_request(sent, version, validating=validating) for validating in (False, True)]
    notes = chosen.notes
    if subresource and not name:
        notes += (f"{own.kind} names no object, so the request has no name: set metadata.name to that of the object",)
    has_defaults = version is not None or knows_defaults({"apiVersion": kind.api_version, "kind": kind.kind})
    return InputRequest(shown[0], shown[1], cluster, source, notes, has_defaults, version)


def _set_namespace(document: JSONObject) -> JSONObject:
    """Return an object with the namespace that kubectl sets if the manifest names none."""
    metadata = document.get("metadata") or {}
    return document if metadata.get("namespace") else {**document, "metadata": {**metadata, "namespace": "default"}}


def _keep_names(metadata: JSONObject) -> JSONObject:
    """Return the metadata of the object sent to a subresource with its own kind, such as Scale."""
    return {member: metadata[member] for member in ("name", "namespace") if metadata.get(member)}


_UNDELETABLE: Final = ("default", "kube-system", "kube-public")
_CONFIG_MAP: Final = {"apiVersion": "v1", "kind": "ConfigMap"}


def find_refusal(store: Store, planned: InputRequest, *, is_live: bool) -> str:
    """Return why an apiserver refuses a request before it asks a webhook; a review has passed these checks.

    kcp has the same admission plugin NamespaceLifecycle (pkg/admission/namespacelifecycle).
    """
    request, namespace = planned.request, planned.request.namespace
    document = planned.source.document
    if is_review(document):
        return ""
    # An apiserver cannot decode wrong types of built-in kinds, and of metadata. `find_violation` checks the rest.
    is_built_in = gvk_of(document).group in load_served().built_in
    decoded = document if is_built_in else {**_CONFIG_MAP, "metadata": document.get("metadata")}
    for one in check_object(decoded) if request.operation in ("CREATE", "UPDATE") else ():
        if one.code == "invalid":
            return f"{one.field}: {one.message}"
    if request.kind == Kind(*NAMESPACE):
        is_deleted = request.operation == "DELETE" and not request.sub_resource and request.name in _UNDELETABLE
        return f"namespace {request.name} may not be deleted" if is_deleted else ""
    written = request.operation in ("CREATE", "UPDATE") and request.kind.group != "authorization.k8s.io"
    known = {key.name for key in store.keys(NAMESPACE.group_kind) if key.cluster == planned.cluster} if is_live else ()
    if not (written and namespace and known) or namespace in known:
        return ""
    return f"namespace {namespace} of {planned.cluster or 'the cluster'} does not exist"
