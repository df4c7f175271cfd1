"""The request that ``fleethook explain`` is about: that of a review, or what a client would ask with a manifest."""

from enum import StrEnum
from typing import Any, Final, NamedTuple

import msgspec

from app.api.codec import decode_review
from app.cli.exit_codes import fail
from app.cli.rest_mapping import resource_of
from app.dispatch.attributes import claimed_cluster
from app.dispatch.equivalents import equivalents_of, namespaced
from app.dispatch.owner import find_owner
from app.model.admission import API_VERSIONS, KIND, AdmissionRequest, Kind, Resource
from app.model.envelope import BadReviewError
from app.model.gvk import GroupVersionKind, gvk_of
from app.model.json import JSON, JSONObject
from app.model.kcp import CLUSTER_ANNOTATION
from app.store import Store

_UID: Final = "00000000-0000-0000-0000-000000000000"
NAMESPACE: Final = GroupVersionKind("", "v1", "Namespace")


class Operation(StrEnum):
    """What is done to an object."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    CONNECT = "CONNECT"


class Asked(NamedTuple):
    """What the options say of a request, beyond its object."""

    operation: Operation | None
    subresource: str
    user: JSONObject
    old: JSON
    dry_run: bool


class Subject(NamedTuple):
    """An object or a review, and where it stands."""

    document: JSONObject
    place: str
    cluster: str | None
    """None where neither the options nor the object say it."""


class Question(NamedTuple):
    """A request to explain."""

    request: AdmissionRequest
    cluster: str
    subject: Subject
    guess: str = ""
    """What is taken for granted about it, because nothing says it."""


def is_review(document: JSONObject) -> bool:
    """Return whether a document is an AdmissionReview."""
    return document["kind"] == KIND and document["apiVersion"] in API_VERSIONS


def question_of(store: Store, subject: Subject, asked: Asked) -> Question:
    """Return the request that is asked about; leaves with a message where that cannot be told."""
    if is_review(subject.document):
        return _reviewed(subject, asked)
    return _made(store, subject, _cluster_of(subject), asked)


def _cluster_of(subject: Subject) -> str:
    if subject.cluster is None:
        fail(
            f"{subject.place}: which logical cluster is it in? Give --cluster ('' for a plain cluster), "
            f"or the object the annotation {CLUSTER_ANNOTATION}"
        )
    return subject.cluster


def _reviewed(subject: Subject, asked: Asked) -> Question:
    """Return the request of a review, with what the options say differently."""
    try:
        review = decode_review(msgspec.json.encode(subject.document))
    except BadReviewError as error:
        fail(f"{subject.place}: {error}")
    request = review.request
    if request is None:
        fail(f"{subject.place}: the review cannot be read: {review.problem}")
    changes: dict[str, Any] = {}
    if asked.operation is not None or asked.old is not None:
        operation = asked.operation or Operation(request.operation)
        new, old = _documents(operation, request.object, asked.old or request.old_object)
        changes = {"operation": operation.value, "object_raw": new, "old_object_raw": old}
        changes["options"] = _options(operation)
    if asked.subresource:
        changes["sub_resource"] = asked.subresource
    if asked.user:
        changes["user_info"] = _raw(asked.user)
    if asked.dry_run:
        changes["dry_run"] = True
    claimed = claimed_cluster(request) or None
    cluster = _cluster_of(subject if subject.cluster is not None else subject._replace(cluster=claimed))
    return Question(msgspec.structs.replace(request, **changes), cluster, subject)


def _raw(value: JSON) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def _documents(operation: Operation, document: JSON, old: JSON) -> tuple[msgspec.Raw, msgspec.Raw]:
    """Return object and oldObject as an apiserver fills them in for an operation."""
    new = None if operation is Operation.DELETE else document or old
    before = old or document if operation in (Operation.UPDATE, Operation.DELETE) else None
    return _raw(new), _raw(before)


def _options(operation: Operation) -> msgspec.Raw:
    connects = operation is Operation.CONNECT
    return _raw(None if connects else {"apiVersion": "meta.k8s.io/v1", "kind": f"{operation.title()}Options"})


def _made(store: Store, subject: Subject, cluster: str, asked: Asked) -> Question:
    """Return the request that a client would make with a manifest."""
    document, operation = subject.document, asked.operation or Operation.CREATE
    own = gvk_of(document)
    resource, known = resource_of(store, cluster=cluster, kind=own)
    schema = find_owner(store, cluster=cluster, group=own.group, resource=resource.resource).schema
    inside = namespaced(store, cluster=cluster, group=own.group, resource=resource.resource, schema=schema)
    document = _in_namespace(document) if inside else document
    metadata = document["metadata"]
    same = equivalents_of(
        store, cluster=cluster, resource=resource, subresource=asked.subresource, kind=own, schema=schema
    )
    kind = next((one.kind for one in same if one.resource == resource and one.kind), own)
    new, old = _documents(
        operation, document if kind == own else _stand_in(metadata, kind, operation=operation), asked.old
    )
    name, namespace = metadata.get("name") or "", metadata.get("namespace") or ""
    request = AdmissionRequest(
        uid=_UID,
        operation=operation.value,
        kind=Kind(*kind),
        resource=Resource(*resource),
        sub_resource=asked.subresource,
        name=name,
        # A request about a Namespace carries that Namespace's own name.
        namespace=name if own == NAMESPACE else namespace if inside is not False else "",
        user_info=_raw(asked.user),
        dry_run=asked.dry_run,
        options=_options(operation),
        object_raw=new,
        old_object_raw=old,
    )
    guess = "" if known else f"nothing defines {own.kind}; its resource is taken to be {resource.resource}"
    return Question(request, cluster, subject, guess)


def _in_namespace(document: JSONObject) -> JSONObject:
    """Return an object in the namespace that a client puts it in if it does not say."""
    metadata = document["metadata"]
    return document if metadata.get("namespace") else {**document, "metadata": {**metadata, "namespace": "default"}}


def _stand_in(metadata: JSONObject, kind: GroupVersionKind, *, operation: Operation) -> JSONObject:
    """Return what is sent to a subresource of an object that has a kind of its own, as far as the object tells it."""
    document: JSONObject = {"apiVersion": kind.api_version, "kind": kind.kind}
    named = {member: metadata[member] for member in ("name", "namespace") if metadata.get(member)}
    # Options of a connection have no metadata.
    return document if operation is Operation.CONNECT else {**document, "metadata": named}
