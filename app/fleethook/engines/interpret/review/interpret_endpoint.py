"""Answering interpreter reviews: ``ExploreReview`` and ``ResourceInterpreterContext`` on any of their routes."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs

import msgspec
from starlette.types import Scope

from fleethook.engines.interpret.chain import Chain, ChainError, ChainStep, Explained
from fleethook.engines.interpret.review.codec import (
    DecodedReview,
    decode_review,
    encode_answer,
    encode_failure,
    read_question,
)
from fleethook.interpret.interpreter import Question
from fleethook.interpret.typed_members import InterpretError
from fleethook.model.karmada import InterpretRequest
from fleethook.server.log_format import InterpretLine, cut_text, milliseconds, stamp
from fleethook.server.reviews.endpoint import MAX_ON_LOOP
from fleethook.server.reviews.recording import AskedCall
from fleethook.server.reviews.review_endpoint import Problem, Received, ReviewEndpoint, explain_failure
from fleethook.work.threads import Work


class Interpreted(NamedTuple):
    """The result of a review; ``problem`` is None if there is an answer."""

    question: Question | None
    steps: tuple[ChainStep, ...]
    problem: InterpretError | None
    calls: tuple[AskedCall, ...] = ()


class InterpretEndpoint(ReviewEndpoint[DecodedReview, InterpretRequest, bool, Interpreted]):
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

    def _decode(self, body: bytes) -> DecodedReview:
        return decode_review(body)

    def _decide(
        self, received: Received[DecodedReview, bool], request: InterpretRequest
    ) -> Work[tuple[Interpreted, bytes]]:
        del request
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

    def _read_large(self, received: Received[DecodedReview, bool]) -> Work[Question]:
        # The chain does not run in a thread, because the store may change its rules meanwhile.
        question: Question = yield self._off_loop(read_question, received.review)
        return question._replace(large=True)

    def _find_problem(self, error: Exception, uid: str) -> InterpretError:
        if isinstance(error, InterpretError):
            return error
        message, code, _reason = explain_failure(error, route=self._path, uid=uid)
        return InterpretError(message, code=code)

    def _refuse(self, received: Received[DecodedReview, bool], problem: Problem) -> tuple[Interpreted, bytes]:
        error = InterpretError(problem.message, code=problem.code)
        return _encode_failure(received, Interpreted(None, (), error), error)

    def _classify(self, review: DecodedReview, verdict: Interpreted) -> tuple[str, str]:
        del review
        operation = "" if verdict.question is None else verdict.question.operation.value
        return operation, "answered" if verdict.problem is None else "errored"

    def _list_calls(self, verdict: Interpreted) -> Sequence[AskedCall]:
        return verdict.calls

    def _describe(
        self, received: Received[DecodedReview, bool], verdict: Interpreted, *, seconds: float
    ) -> InterpretLine:
        return make_interpret_line(
            self._path, received.review, verdict, seconds=seconds, request_id=received.request_id
        )


def _encode_failure(
    received: Received[DecodedReview, bool], verdict: Interpreted, problem: InterpretError
) -> tuple[Interpreted, bytes]:
    return verdict, encode_failure(received.review, problem, verdict.steps if received.call else None)


def _wants_explanation(scope: Scope) -> bool:
    query = parse_qs(scope["query_string"].decode("latin-1"))
    return query.get("explain", ["0"])[-1] not in ("", "0", "false")


# A member of a log line that is left out.
_UNSET: Final[str | msgspec.UnsetType] = msgspec.UNSET


def make_interpret_line(
    path: str, review: DecodedReview, verdict: Interpreted, *, seconds: float, request_id: str
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
        stamp(), "info", "interpret", path, cut_text(review.uid), verdict.problem is None,
        gvk, operation, layer, hook, namespace, name, message, cut_text(request_id), milliseconds(seconds),
    )  # fmt: skip
