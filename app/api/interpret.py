"""Answering interpreter reviews: ``ExploreReview`` and ``ResourceInterpreterContext`` on any of their routes."""

import logging
import time
from functools import partial
from typing import Final
from urllib.parse import parse_qs

from starlette.types import Scope

from app.api.bodies import BodyBudget
from app.api.codec import encode_error
from app.api.endpoint import MAX_ON_LOOP, Endpoint
from app.api.logs import LogSink, encode_line, shortened, stamp
from app.api.metrics import Metrics
from app.control.turns import Executor
from app.interpret.access import InterpretError
from app.interpret.chain import Chain, ChainError, Step
from app.interpret.codec import Asked, decode_review, encode_answer, encode_failure, question_of
from app.interpret.question import Question
from app.model.envelope import BadReviewError

_log: Final = logging.getLogger(__name__)


class InterpretEndpoint(Endpoint):
    """One interpreter route: its chain answers in the shape that asked."""

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

    async def _answer(self, body: bytes, request_id: str, scope: Scope) -> tuple[int, bytes]:
        started = time.perf_counter()
        is_large = len(body) > MAX_ON_LOOP
        try:
            asked = await self._off_loop(decode_review, body) if is_large else decode_review(body)
        except BadReviewError as error:
            seconds = time.perf_counter() - started
            self._metrics.reviewed(self._path, "", "malformed", seconds=seconds, request_id=request_id)
            return 400, encode_error(400, "BadRequest", str(error))
        explain = b"explain" in scope["query_string"] and _wants_explanation(scope)
        question: Question | None = None
        steps: tuple[Step, ...] = ()
        problem: InterpretError | None = None
        try:
            if not is_large:
                question = question_of(asked, built_in=self._chain.built_in)
                explained = await self._chain.answer(question)
                steps = explained.steps
                answer = encode_answer(asked, question, explained.answer, steps if explain else None)
            else:
                # The chain is not asked in a thread, as the store may change its rules meanwhile.
                decode = partial(question_of, asked, built_in=lambda _kind, _operation: False)
                question = (await self._off_loop(decode))._replace(large=True)
                explained = await self._chain.answer(question, off_loop=self._off_loop)
                steps = explained.steps
                shown = steps if explain else None
                answer = await self._off_loop(encode_answer, asked, question, explained.answer, shown)
        except InterpretError as error:
            problem = error
            steps = error.steps if isinstance(error, ChainError) else ()
        except RecursionError:
            problem = InterpretError("the object is nested too deep")
        except Exception:  # noqa: BLE001 - as for admission: a defect is answered, too, to its uid
            _log.exception("interpreter failed", extra={"fields": {"route": self._path, "uid": asked.uid}})
            problem = InterpretError(
                f"fleethook failed to answer; its log has the reason under uid {asked.uid}", code=500
            )
        if problem is not None:
            answer = encode_failure(asked, problem, steps if explain else None)
        operation = "" if question is None else question.operation.value
        outcome = "answered" if problem is None else "errored"
        seconds = time.perf_counter() - started
        self._metrics.reviewed(self._path, operation, outcome, seconds=seconds, request_id=request_id or asked.uid)
        if self._log is not None:
            fields = self._fields(asked, question, steps, problem)
            fields["requestId"] = shortened(request_id or asked.uid)
            fields["ms"] = round(seconds * 1000, 3)
            self._log(encode_line(fields))
        return 200, answer

    def _fields(
        self, asked: Asked, question: Question | None, steps: tuple[Step, ...], problem: InterpretError | None
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
