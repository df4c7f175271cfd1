"""Decodes and encodes interpreter reviews of both shapes: ``ExploreReview`` and ``ResourceInterpreterContext``.

For a question that only a native interpreter can answer, this module decodes only the members that the interpreter
reads, because most of a workload's text is its template. If a value has an unexpected type, the module decodes the
complete object, and the interpreter reports the problem.
"""

import base64
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypedDict, cast

import msgspec

from fleethook.engines.interpret.chain import Step
from fleethook.engines.interpret.review.answer_validation import MAX_REPLICAS
from fleethook.interpret.interpreter import Answer, Question
from fleethook.interpret.typed_members import InterpretError
from fleethook.model.gvk import GroupVersionKind, parse_api_version
from fleethook.model.json import JSON, JSONObject
from fleethook.model.karmada import (
    API_VERSION,
    EXPLORE_REVIEW,
    INTERPRETER_CONTEXT,
    PATCHING,
    InterpretRequest,
    InterpretReview,
    Operation,
    operation_named,
    proposed_name,
)
from fleethook.patch import diff
from fleethook.server.reviews.codec import BadReviewError, salvage


class _Meta(TypedDict, total=False):
    name: Any
    namespace: Any
    generation: Any
    labels: Any
    annotations: Any


class _Scalars(TypedDict, total=False):
    replicas: Any
    type: Any
    paused: Any
    updateStrategy: Any


class _Observed(TypedDict, total=False):
    """The members that health and status interpreters read."""

    apiVersion: str
    kind: str
    metadata: _Meta
    spec: _Scalars
    status: Any


class _Container(TypedDict, total=False):
    resources: Any
    restartPolicy: Any


class _PodSpec(TypedDict, total=False):
    containers: list[_Container]
    initContainers: list[_Container]
    nodeSelector: Any
    tolerations: Any
    affinity: Any
    overhead: Any
    resources: Any


class _Template(TypedDict, total=False):
    spec: _PodSpec


class _Replicated(_PodSpec, total=False):
    """The spec of a workload or of a Pod."""

    replicas: Any
    parallelism: Any
    completions: Any
    template: msgspec.Raw


class _Declared(TypedDict, total=False):
    """The members that replica interpreters read."""

    apiVersion: str
    kind: str
    metadata: _Meta
    spec: _Replicated


_MAX_TEMPLATES: Final = 512

_decode_template: Final = msgspec.json.Decoder(_Template).decode
_observed: Final = msgspec.json.Decoder(_Observed)
_DECODERS: Final[dict[Operation, msgspec.json.Decoder[Any]]] = {
    Operation.HEALTH: _observed,
    Operation.STATUS: _observed,
    Operation.REPLICA: msgspec.json.Decoder(_Declared),
}


def decode_partially(raw: msgspec.Raw, operation: Operation) -> JSONObject | None:
    """Return the members of an object that an operation needs; None if the operation needs the complete object."""
    decoder = _DECODERS.get(operation)
    if decoder is None:
        return None
    try:
        document: JSON = decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    found: JSONObject = document
    try:
        return _decode_pod_template(found) if operation is Operation.REPLICA else found
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _decode_pod_template(document: JSONObject) -> JSONObject:
    spec = document.get("spec")
    if spec is not None and "template" in spec:
        spec["template"] = _decode_cached(bytes(spec["template"]))
    return document


# Karmada asks about the same workload many times, and the template is most of its text. Sharing the result is safe:
# native interpreters do not change their arguments.
@lru_cache(maxsize=_MAX_TEMPLATES)
def _decode_cached(text: bytes) -> JSONObject:
    return dict(_decode_template(text))


KINDS: Final = (EXPLORE_REVIEW, INTERPRETER_CONTEXT)

_EXPECTED: Final = f"a review of {API_VERSION}: {' or '.join(KINDS)}"

_review: Final = msgspec.json.Decoder(InterpretReview)
_decode: Final = msgspec.json.decode
_encode: Final = msgspec.json.Encoder().encode


class DecodedReview(NamedTuple):
    """A review with a uid to answer to; ``problem`` is set if its request cannot be read."""

    uid: str
    kind: str
    """The kind of the review; the answer has the same."""
    request: InterpretRequest | None
    problem: str


def decode_review(body: bytes) -> DecodedReview:
    """Return the request in ``body``.

    Raises:
        BadReviewError: The body is not JSON, is not a review, or has no uid to answer to.
    """
    try:
        review = _review.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        uid, document, problem = salvage(body, error, fits=_is_review, expected=_EXPECTED)
        return DecodedReview(uid, document["kind"], None, problem)
    if review.kind not in KINDS or review.api_version != API_VERSION:
        raise BadReviewError(f"the body is not {_EXPECTED}")
    if review.request is None or not review.request.uid:
        raise BadReviewError(f"the {review.kind} has no request with a uid to answer to")
    return DecodedReview(review.request.uid, review.kind, review.request, "")


def _is_review(document: JSONObject) -> bool:
    return document.get("kind") in KINDS and document.get("apiVersion") == API_VERSION


def read_question(asked: DecodedReview, *, built_in: Callable[[GroupVersionKind, Operation], bool]) -> Question:
    """Return the question of a review.

    Args:
        asked: The review.
        built_in: Returns whether only the native layer can be asked about a kind. Then the object may be decoded
            partially.

    Raises:
        InterpretError: The request is malformed; the text names the member.
    """
    request = asked.request
    if request is None:
        raise InterpretError(f"the review cannot be read: {asked.problem}", code=400)
    operation = operation_named(request.operation)
    if operation is None:
        known = ", ".join(sorted(proposed_name(one) if asked.kind == EXPLORE_REVIEW else one for one in Operation))
        raise InterpretError(f"request.operation {request.operation!r} is unknown: use one of {known}", code=400)
    said = GroupVersionKind(request.kind.group, request.kind.version, request.kind.kind)
    is_built_in = bool(said.kind) and built_in(said, operation)
    document = decode_partially(request.object_raw, operation) if is_built_in else None
    if document is None:
        document = _decode_object(request.object_raw, "object")
    observed = None
    if operation is Operation.RETAIN:
        if bytes(request.observed_raw) == b"null":
            raise InterpretError(
                "request.observedObject is missing: Retain needs the object as observed in the member cluster", code=400
            )
        observed = _decode_object(request.observed_raw, "observedObject")
    replicas = request.replicas
    if operation is Operation.REVISE_REPLICA and replicas is None:
        raise InterpretError(
            "request.replicas is missing: ReviseReplica needs the desired number of replicas", code=400
        )
    if replicas is not None and not 0 <= replicas <= MAX_REPLICAS:
        raise InterpretError(
            f"request.replicas is {replicas}, expected a replica count from 0 to {MAX_REPLICAS}", code=400
        )
    items = cast("list[JSONObject] | None", request.aggregated_status)
    kind = _require_same_kind(said, document)
    return Question(operation, kind, document, observed, replicas or 0, items, built_in=is_built_in)


def _decode_object(raw: msgspec.Raw, name: str) -> JSONObject:
    try:
        document: JSON = _decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InterpretError(f"request.{name} is not JSON: {str(error) or type(error).__name__}", code=400) from None
    if not isinstance(document, dict):
        raise InterpretError(f"request.{name} is missing or not an object", code=400)
    metadata = document.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        raise InterpretError(f"request.{name}.metadata is not an object", code=400)
    return document


@lru_cache(maxsize=1024)
def _parse_kind(api_version: str, kind: str) -> GroupVersionKind:
    return GroupVersionKind(*parse_api_version(api_version), kind)


def _require_same_kind(said: GroupVersionKind, document: JSONObject) -> GroupVersionKind:
    """Return the kind of the object; raises InterpretError if the request has another one."""
    api_version, kind = document.get("apiVersion"), document.get("kind")
    if not isinstance(api_version, str) or not isinstance(kind, str):
        if api_version is None and kind is None and said.kind:
            return said
        raise InterpretError("request.object has no apiVersion and kind", code=400)
    found = _parse_kind(api_version, kind)
    if said.kind and said != found:
        raise InterpretError(f"request.kind is {'/'.join(said)}, but request.object is {'/'.join(found)}", code=400)
    return found


def encode_answer(asked: DecodedReview, question: Question, answer: Answer, steps: tuple[Step, ...] | None) -> bytes:
    """Return the answer to a review in the shape of the review, with an explanation unless ``steps`` is None."""
    response: JSONObject = {"uid": asked.uid, "successful": True}
    shipped = asked.kind == INTERPRETER_CONTEXT
    if shipped:
        response["status"] = {"code": 200}
    operation = question.operation
    if operation in PATCHING:
        operations = diff(question.object, answer.object)
        if operations:
            response["patch"] = base64.b64encode(_encode(operations)).decode()
            response["patchType"] = "JSONPatch"
    elif operation is Operation.REPLICA:
        response["replicas"] = answer.replicas
        if answer.requirements:
            response["replicaRequirements"] = answer.requirements
    elif operation is Operation.STATUS:
        # Karmada takes a missing status for a failure, so an object without status has an empty one.
        response["rawStatus" if shipped else "status"] = answer.status or {}
    elif operation is Operation.HEALTH:
        response["healthy"] = answer.healthy
    elif operation is Operation.COMPONENT:
        response["components"] = answer.components
    else:
        response["dependencies"] = answer.dependencies
    return _encode_response(asked, response, steps)


def encode_failure(asked: DecodedReview, error: InterpretError, steps: tuple[Step, ...] | None) -> bytes:
    """Return the answer to a review that failed.

    ResourceInterpreterContext reports a failure in ``status``. ExploreReview has no member for it, so fleethook adds
    ``successful``, ``message`` and ``code``.
    """
    response: JSONObject = {"uid": asked.uid, "successful": False}
    reason = {"message": str(error), "code": error.code}
    response |= {"status": reason} if asked.kind == INTERPRETER_CONTEXT else reason
    return _encode_response(asked, response, steps)


def _encode_response(asked: DecodedReview, response: JSONObject, steps: tuple[Step, ...] | None) -> bytes:
    answer: JSONObject = {"apiVersion": API_VERSION, "kind": asked.kind, "response": response}
    if steps is not None:
        answer["explanation"] = [step._asdict() for step in steps]
    return _encode(answer)
