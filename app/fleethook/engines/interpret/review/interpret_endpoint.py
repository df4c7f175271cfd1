"""Decodes, answers and encodes interpreter reviews of both shapes, on any of their routes.

The shapes are ``ExploreReview`` and ``ResourceInterpreterContext``.
"""

import base64
import time
from collections.abc import Coroutine, Sequence
from typing import Any, Final, NamedTuple, cast
from urllib.parse import parse_qs

import msgspec
from starlette.types import Scope

from fleethook.engines.interpret.interpreter_chain import Chain, ChainError, ChainStep, Explained
from fleethook.engines.interpret.review.answer_validation import MAX_REPLICAS
from fleethook.interpret.interpreter import Answer, InterpretError, Question
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
from fleethook.server.log import InterpretLine, cut_text, format_time
from fleethook.server.reviews.records_and_traces import AskedCall
from fleethook.server.reviews.review_codec import BadReviewError, ReviewProblem, explain_failure, salvage
from fleethook.server.reviews.review_endpoint import MAX_ON_LOOP, Received, ReviewEndpoint
from fleethook.work.threads_and_gc import Work, begin

KINDS: Final = (EXPLORE_REVIEW, INTERPRETER_CONTEXT)

_EXPECTED: Final = f"a review of {API_VERSION}: {' or '.join(KINDS)}"

_review: Final = msgspec.json.Decoder(InterpretReview)
_decode: Final = msgspec.json.decode
_encode: Final = msgspec.json.Encoder().encode


class InterpreterReview(NamedTuple):
    """A review with a uid to answer to; ``problem`` is set if its request cannot be read."""

    uid: str
    kind: str
    """The kind of the review; the answer has the same."""
    request: InterpretRequest | None
    problem: str


def decode_review(body: bytes) -> InterpreterReview:
    """Return the request in ``body``.

    Raises:
        BadReviewError: The body is not JSON, is not a review, or has no uid to answer to.
    """
    try:
        review = _review.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        uid, document, problem = salvage(body, error, fits=_is_review, expected=_EXPECTED)
        return InterpreterReview(uid, document["kind"], None, problem)
    if review.kind not in KINDS or review.api_version != API_VERSION:
        raise BadReviewError(f"the body is not {_EXPECTED}")
    if review.request is None or not review.request.uid:
        raise BadReviewError(f"the {review.kind} has no request with a uid to answer to")
    return InterpreterReview(review.request.uid, review.kind, review.request, "")


def _is_review(document: JSONObject) -> bool:
    return document.get("kind") in KINDS and document.get("apiVersion") == API_VERSION


def read_question(asked: InterpreterReview) -> Question:
    """Return the question of a review; raises InterpretError with the name of a malformed member."""
    request = asked.request
    if request is None:
        raise InterpretError(f"the review cannot be read: {asked.problem}", code=400)
    operation = operation_named(request.operation)
    if operation is None:
        known = ", ".join(sorted(proposed_name(one) if asked.kind == EXPLORE_REVIEW else one for one in Operation))
        raise InterpretError(f"request.operation {request.operation!r} is unknown: use one of {known}", code=400)
    said = GroupVersionKind(request.kind.group, request.kind.version, request.kind.kind)
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
    return Question(operation, kind, document, observed, replicas or 0, items)


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


def _require_same_kind(said: GroupVersionKind, document: JSONObject) -> GroupVersionKind:
    """Return the kind of the object; raises InterpretError if the request has another one."""
    api_version, kind = document.get("apiVersion"), document.get("kind")
    if not isinstance(api_version, str) or not isinstance(kind, str):
        if api_version is None and kind is None and said.kind:
            return said
        raise InterpretError("request.object has no apiVersion and kind", code=400)
    found = GroupVersionKind(*parse_api_version(api_version), kind)
    if said.kind and said != found:
        raise InterpretError(f"request.kind is {'/'.join(said)}, but request.object is {'/'.join(found)}", code=400)
    return found


def encode_answer(
    asked: InterpreterReview, question: Question, answer: Answer, steps: tuple[ChainStep, ...] | None
) -> bytes:
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


def encode_failure(asked: InterpreterReview, error: InterpretError, steps: tuple[ChainStep, ...] | None) -> bytes:
    """Return the answer to a review that failed.

    ResourceInterpreterContext reports a failure in ``status``. ExploreReview has no member for it, so fleethook adds
    ``successful``, ``message`` and ``code``.
    """
    response: JSONObject = {"uid": asked.uid, "successful": False}
    reason = {"message": str(error), "code": error.code}
    response |= {"status": reason} if asked.kind == INTERPRETER_CONTEXT else reason
    return _encode_response(asked, response, steps)


def _encode_response(asked: InterpreterReview, response: JSONObject, steps: tuple[ChainStep, ...] | None) -> bytes:
    answer: JSONObject = {"apiVersion": API_VERSION, "kind": asked.kind, "response": response}
    if steps is not None:
        answer["explanation"] = [step._asdict() for step in steps]
    return _encode(answer)


class Interpreted(NamedTuple):
    """The result of a review; ``problem`` is None if there is an answer."""

    question: Question | None
    steps: tuple[ChainStep, ...]
    problem: InterpretError | None
    calls: tuple[AskedCall, ...] = ()


class InterpretEndpoint(ReviewEndpoint[InterpreterReview, InterpretRequest, bool, Interpreted]):
    """One interpreter route: its chain answers in the shape of the review.

    An HTTP request has one relevant fact: whether its caller asks for the list of the layers that were asked.
    """

    max_at_once = MAX_ON_LOOP

    def __init__(self, path: str, chain: Chain, **rest: Any) -> None:
        """Prepare.

        Args:
            path: The path of the route.
            chain: Answers the questions.
            rest: As in `ReviewEndpoint`.
        """
        super().__init__(path, **rest)
        self._chain: Final = chain

    def _inspect(self, scope: Scope) -> bool:
        return b"explain" in scope["query_string"] and _wants_explanation(scope)

    def _decode(self, body: bytes) -> InterpreterReview:
        return decode_review(body)

    def _decide(
        self, received: Received[InterpreterReview, bool], request: InterpretRequest
    ) -> tuple[Interpreted, bytes] | Coroutine[Any, Any, tuple[Interpreted, bytes]]:
        del request
        return begin(self._interpret(received))

    def _interpret(self, received: Received[InterpreterReview, bool]) -> Work[tuple[Interpreted, bytes]]:
        review, explain = received.review, received.call
        question: Question | None = None
        steps: tuple[ChainStep, ...] = ()
        calls: tuple[AskedCall, ...] = ()
        try:
            is_large = received.is_large
            if is_large:
                question = yield from self._read_large(received)
            else:
                question = read_question(review)
            explained = self._chain.begin(question, off_loop=self._off_loop if is_large else None)
            if not isinstance(explained, Explained):
                explained = yield explained
            steps, calls = explained.steps, explained.calls
            shown = steps if explain else None
            if is_large:
                answer: bytes = yield self._off_loop(encode_answer, review, question, explained.answer, shown)
            else:
                answer = encode_answer(review, question, explained.answer, shown)
        except Exception as error:  # noqa: BLE001 - every failure needs an answer with the uid
            problem = self._find_problem(error, review.uid)
            if isinstance(problem, ChainError):
                steps, calls = problem.steps, problem.calls
            return _encode_failure(received, Interpreted(question, steps, problem, calls), problem)
        return Interpreted(question, steps, None, calls), answer

    def _read_large(self, received: Received[InterpreterReview, bool]) -> Work[Question]:
        # The chain does not run in a thread, because the store may change its rules meanwhile.
        question: Question = yield self._off_loop(read_question, received.review)
        return question._replace(large=True)

    def _find_problem(self, error: Exception, uid: str) -> InterpretError:
        if isinstance(error, InterpretError):
            return error
        message, code, _reason = explain_failure(error, route=self._path, uid=uid)
        return InterpretError(message, code=code)

    def _refuse(self, received: Received[InterpreterReview, bool], problem: ReviewProblem) -> tuple[Interpreted, bytes]:
        error = InterpretError(problem.message, code=problem.code)
        return _encode_failure(received, Interpreted(None, (), error), error)

    def _classify(self, review: InterpreterReview, verdict: Interpreted) -> tuple[str, str]:
        del review
        operation = "" if verdict.question is None else verdict.question.operation.value
        return operation, "answered" if verdict.problem is None else "errored"

    def _list_calls(self, verdict: Interpreted) -> Sequence[AskedCall]:
        return verdict.calls

    def _describe(
        self, received: Received[InterpreterReview, bool], verdict: Interpreted, *, seconds: float
    ) -> InterpretLine:
        return make_interpret_line(
            self._path, received.review, verdict, seconds=seconds, request_id=received.request_id
        )


def _encode_failure(
    received: Received[InterpreterReview, bool], verdict: Interpreted, problem: InterpretError
) -> tuple[Interpreted, bytes]:
    return verdict, encode_failure(received.review, problem, verdict.steps if received.call else None)


def _wants_explanation(scope: Scope) -> bool:
    query = parse_qs(scope["query_string"].decode("latin-1"))
    return query.get("explain", ["0"])[-1] not in ("", "0", "false")


# A member of a log line that is left out.
_UNSET: Final[str | msgspec.UnsetType] = msgspec.UNSET


def make_interpret_line(
    path: str, review: InterpreterReview, verdict: Interpreted, *, seconds: float, request_id: str
) -> InterpretLine:
    """Return the line about an answered interpreter review.

    Args:
        path: The path of the route.
        review: The review.
        verdict: Its result.
        seconds: From the review to its answer.
        request_id: The id of the request.
    """
    gvk = operation = layer = hook = namespace = name = message = _UNSET
    if (question := verdict.question) is not None:
        gvk, operation = cut_text("/".join(question.kind)), question.operation.value
    if verdict.steps and verdict.steps[-1].hook:
        layer, hook = verdict.steps[-1].layer, verdict.steps[-1].hook
    if (request := review.request) is not None:
        namespace, name = cut_text(request.namespace), cut_text(request.name)
    if verdict.problem is not None:
        message = cut_text(str(verdict.problem))
    # By position, because setting members one by one takes 25 % more time.
    return InterpretLine(
        format_time(time.time()), "info", "interpret", path, cut_text(review.uid), verdict.problem is None,
        gvk, operation, layer, hook, namespace, name, message, cut_text(request_id), round(1e6 * seconds) / 1000,
    )  # fmt: skip
