"""Answering interpreter reviews: ``ExploreReview`` and ``ResourceInterpreterContext`` on any of their routes."""

import logging
import time
from collections.abc import Awaitable
from functools import partial
from typing import Final, NamedTuple
from urllib.parse import parse_qs

from starlette.types import Scope

from app.api.bodies import BodyBudget
from app.api.codec import encode_error
from app.api.endpoint import MAX_ON_LOOP, Answer, Endpoint
from app.api.logs import LogSink, encode_line, milliseconds, shortened, stamp
from app.api.metrics import Metrics
from app.control.turns import Executor
from app.interpret.access import InterpretError
from app.interpret.chain import Chain, ChainError, Explained, Step
from app.interpret.codec import DecodedReview, decode_review, encode_answer, encode_failure, read_question
from app.interpret.question import Question
from app.model.envelope import BadReviewError

_log: Final = logging.getLogger(__name__)


class _Review(NamedTuple):
    """A review that is being answered."""

    asked: DecodedReview
    request_id: str
    started: float
    """Seconds of `time.perf_counter`."""
    explain: bool


class InterpretEndpoint(Endpoint):
    """One interpreter route: its chain answers in the shape that asked."""

    max_at_once = MAX_ON_LOOP

    def __init__(
        self,
        path: str,
        chain: Chain,
        *,
        metrics: Metrics,
        body_limit: int,
        log: LogSink | None,
        known_clients_only: bool = False,
        worker: Executor | None = None,
        bodies: BodyBudget | None = None,
    ) -> None:
        super().__init__(
            path,
            metrics=metrics,
            body_limit=body_limit,
            known_clients_only=known_clients_only,
            worker=worker,
            bodies=bodies,
        )
        self._chain: Final = chain
        self._log: Final = log

    def _begin(self, body: bytes, request_id: str, scope: Scope) -> Answer | Awaitable[Answer]:
        started = time.perf_counter()
        explain = b"explain" in scope["query_string"] and _wants_explanation(scope)
        if len(body) > MAX_ON_LOOP:
            return self._answer_large(body, request_id, started, explain=explain)
        try:
            asked = decode_review(body)
        except BadReviewError as error:
            return self._refuse(error, request_id, started)
        review = _Review(asked, request_id or asked.uid, started, explain)
        question: Question | None = None
        try:
            question = read_question(asked, built_in=self._chain.built_in)
            explained = self._chain.begin(question)
        except Exception as error:  # noqa: BLE001 - as for admission: a defect is answered, too, to its uid
            return self._fail(review, question, error)
        if isinstance(explained, Explained):
            return self._succeed(review, question, explained)
        return self._wait(review, question, explained)

    async def _answer_large(self, body: bytes, request_id: str, started: float, *, explain: bool) -> Answer:
        """Answer a review that takes long, with the work on its bytes in a thread."""
        try:
            asked = await self._off_loop(decode_review, body)
        except BadReviewError as error:
            return self._refuse(error, request_id, started)
        review = _Review(asked, request_id or asked.uid, started, explain)
        question: Question | None = None
        steps: tuple[Step, ...] = ()
        try:
            # The chain is not asked in a thread, as the store may change its rules meanwhile.
            decode = partial(read_question, asked, built_in=lambda _kind, _operation: False)
            question = (await self._off_loop(decode))._replace(large=True)
            explained = await self._chain.answer(question, off_loop=self._off_loop)
            steps = explained.steps
            shown = steps if explain else None
            answer = await self._off_loop(encode_answer, asked, question, explained.answer, shown)
        except Exception as error:  # noqa: BLE001 - as above
            return self._fail(review, question, error, steps)
        self._record(review, question, steps, None)
        return 200, answer

    def _refuse(self, error: BadReviewError, request_id: str, started: float) -> Answer:
        seconds = time.perf_counter() - started
        self._metrics.reviewed(self._path, "", "malformed", seconds=seconds, request_id=request_id)
        return 400, encode_error(400, "BadRequest", str(error))

    async def _wait(self, review: "_Review", question: Question, waiting: Awaitable[Explained]) -> Answer:
        try:
            explained = await waiting
        except Exception as error:  # noqa: BLE001 - as above
            return self._fail(review, question, error)
        return self._succeed(review, question, explained)

    def _succeed(self, review: "_Review", question: Question, explained: Explained) -> Answer:
        steps = explained.steps
        try:
            answer = encode_answer(review.asked, question, explained.answer, steps if review.explain else None)
        except Exception as error:  # noqa: BLE001 - as above
            return self._fail(review, question, error, steps)
        self._record(review, question, steps, None)
        return 200, answer

    def _fail(
        self, review: "_Review", question: Question | None, error: Exception, steps: tuple[Step, ...] = ()
    ) -> Answer:
        if isinstance(error, InterpretError):
            problem = error
            steps = error.steps if isinstance(error, ChainError) else ()
        elif isinstance(error, RecursionError):
            problem = InterpretError("the object is nested too deep")
        else:
            uid = review.asked.uid
            _log.error("interpreter failed", exc_info=error, extra={"fields": {"route": self._path, "uid": uid}})
            problem = InterpretError(f"fleethook failed to answer; its log has the reason under uid {uid}", code=500)
        answer = encode_failure(review.asked, problem, steps if review.explain else None)
        self._record(review, question, steps, problem)
        return 200, answer

    def _record(
        self, review: "_Review", question: Question | None, steps: tuple[Step, ...], problem: InterpretError | None
    ) -> None:
        operation = "" if question is None else question.operation.value
        outcome = "answered" if problem is None else "errored"
        seconds = time.perf_counter() - review.started
        self._metrics.reviewed(self._path, operation, outcome, seconds=seconds, request_id=review.request_id)
        if self._log is not None:
            fields = self._fields(review.asked, question, steps, problem)
            fields["requestId"] = shortened(review.request_id)
            fields["ms"] = milliseconds(seconds)
            self._log(encode_line(fields))

    def _fields(
        self, asked: DecodedReview, question: Question | None, steps: tuple[Step, ...], problem: InterpretError | None
    ) -> dict[str, object]:
        request = asked.request
        fields: dict[str, object] = {
            "ts": stamp(), "level": "info", "msg": "interpret",
            "route": self._path, "uid": shortened(asked.uid), "successful": problem is None,
        }  # fmt: skip
        if question is not None:
            group, version, kind = question.kind
            fields["gvk"] = shortened(f"{group}/{version}/{kind}")
            fields["operation"] = question.operation.value
        if steps and steps[-1].hook:
            fields["layer"], fields["hook"] = steps[-1].layer, steps[-1].hook
        if request is not None:
            fields["namespace"], fields["name"] = shortened(request.namespace), shortened(request.name)
        if problem is not None:
            fields["message"] = shortened(str(problem))
        return fields


def _wants_explanation(scope: Scope) -> bool:
    query = parse_qs(scope["query_string"].decode("latin-1"))
    return query.get("explain", ["0"])[-1] not in ("", "0", "false")
