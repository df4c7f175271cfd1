"""Answering reviews for a logical cluster: ``/clusters/{cluster}/mutate``, ``validate`` and ``explain``."""

import asyncio
import contextlib
import time
from abc import abstractmethod
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
from starlette.types import Scope

from app.api.access import ClusterAccess, Grant
from app.api.bodies import BodyBudget
from app.api.body import RequestError
from app.api.codec import Decoded, decode_review, encode_response
from app.api.edge import failed, log_fields
from app.api.endpoint import MAX_ON_LOOP, Answer, Endpoint
from app.api.logs import LogSink, encode_line
from app.api.metrics import Metrics
from app.api.quota import FullQuotaError, RequestQuota
from app.api.timeout import budget
from app.control.turns import Executor
from app.dispatch.call import Deadline
from app.dispatch.dispatcher import Dispatcher, DispatchResult
from app.dispatch.errors import StatusError, forbidden
from app.dispatch.explain import Explanation, explain
from app.dispatch.hooks import PHASES, Phase
from app.dispatch.workspace_paths import resolve_cluster
from app.model.admission import AdmissionRequest, Response, errored
from app.model.envelope import BadReviewError
from app.model.kcp import is_cluster
from app.outbound.hops import HEADER, was_dispatched
from app.store import StoreView

# k8s.io/apiserver waits so long for webhook configurations to be read (research 1.6).
_SYNC_SECONDS: Final = 10.0
# RFC 5842, section 7.2.
_LOOP_DETECTED: Final = 508
_RETURNED: Final = (
    f"fleethook dispatched this review before (header {HEADER}), so it would ask the same webhooks again: the webhook "
    "that sent it here passes reviews on to fleethook, or is fleethook itself; remove it from the webhook configuration"
)
_UNAUTHORIZED: Final = {401: "unauthenticated", 403: "forbidden"}
# Webhooks of an explanation that are encoded at once: about 2 ms.
_ENCODED_PER_TURN: Final = 500


class Standing(NamedTuple):
    """What dispatching answers from, and whether it can."""

    dispatcher: Dispatcher
    store: StoreView
    synced: asyncio.Event
    stale: Callable[[], str]
    """Says what of the objects has not been heard of for too long, ``""`` if nothing is."""
    access: ClusterAccess
    quota: RequestQuota


class Asked(NamedTuple):
    """A review, and the facts of its request that the answer depends on."""

    review: Decoded
    request: AdmissionRequest
    cluster: str
    deadline: Deadline
    returned: bool
    """Whether dispatching has caused the request."""


class _Request(NamedTuple):
    """A request whose caller may ask about a cluster."""

    id: str
    cluster: str
    caller: str
    started: float


class ClusterEndpoint(Endpoint):
    """A route below ``/clusters/{cluster}``."""

    def __init__(
        self,
        path: str,
        *,
        standing: Standing,
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
        self._standing: Final = standing
        self._log: Final = log
        self._verb: Final = path.rpartition("/")[2]

    def _check_caller(self, scope: Scope) -> None:
        self._standing.access.check_credentials(scope)

    def _begin(self, body: bytes, request_id: str, scope: Scope) -> Awaitable[Answer]:
        return self._answer(body, request_id, scope)

    async def _answer(self, body: bytes, request_id: str, scope: Scope) -> Answer:
        started = time.perf_counter()
        deadline = Deadline(time.monotonic() + budget(scope["query_string"]))
        cluster = self._addressed(scope)
        grant = await self._authorize(scope, cluster, deadline)
        made = _Request(request_id, cluster, grant.caller, started)
        try:
            review = decode_review(body) if len(body) <= MAX_ON_LOOP else await self._off_loop(_decode_whole, body)
        except BadReviewError as error:
            seconds = time.perf_counter() - started
            self._metrics.reviewed(self._path, "", "malformed", seconds=seconds, request_id=request_id)
            raise RequestError(400, "BadRequest", str(error)) from error
        if review.request is None:
            response = errored(f"the review cannot be read: {review.problem}")
            self._record(review, made, DispatchResult(response, None))
            return 200, encode_response(response, uid=review.uid, api_version=review.api_version)
        asked = Asked(review, review.request, cluster, deadline, was_dispatched(scope["headers"]))
        dispatched, answer = await self._decide(asked)
        self._record(review, made, dispatched)
        return 200, answer

    def _addressed(self, scope: Scope) -> str:
        """Return the logical cluster that the path of a request names; raises RequestError."""
        return resolve_cluster(self._standing.store, _cluster(scope))

    async def _authorize(self, scope: Scope, cluster: str, deadline: Deadline) -> Grant:
        access, started = self._standing.access, time.perf_counter()
        try:
            return await access.authorize(scope, cluster=cluster, route=self._verb, seconds=deadline.remaining)
        except RequestError as error:
            outcome = _UNAUTHORIZED.get(error.code, "errored")
            seconds = time.perf_counter() - started
            self._metrics.reviewed(self._path, "", outcome, seconds=seconds, request_id="")
            raise

    async def _decide(self, asked: Asked) -> tuple[DispatchResult, bytes]:
        """Return how a review was answered, and the answer, within the quota of its cluster."""
        started, cluster, standing = time.perf_counter(), asked.cluster, self._standing
        consumers, is_known = self._metrics.consumers, standing.store.knows(cluster)
        try:
            with standing.quota.hold(cluster):
                dispatched, answer = await self._decide_within_quota(asked)
        except FullQuotaError:
            consumers.refused(cluster, is_known=is_known)
            dispatched, answer = _beyond_quota(asked, standing.quota.limit)
        outcome, seconds = _outcome(dispatched.response), time.perf_counter() - started
        consumers.answered(cluster, self._verb, outcome, seconds=seconds, is_known=is_known)
        return dispatched, answer

    @abstractmethod
    async def _decide_within_quota(self, asked: Asked) -> tuple[DispatchResult, bytes]:
        """Return how a review was answered, and the answer."""

    async def _not_ready(self, asked: Asked) -> str:
        """Wait until the objects are read, and return why they cannot be answered from."""
        standing = self._standing
        if not standing.synced.is_set():
            try:
                async with asyncio.timeout(min(_SYNC_SECONDS, asked.deadline.remaining)):
                    await standing.synced.wait()
            except TimeoutError:
                return "not yet ready to handle request"
        stale = standing.stale()
        return f"not ready to handle request: {stale}" if stale else ""

    def _record(self, review: Decoded, made: _Request, dispatched: DispatchResult) -> None:
        response, target = dispatched
        seconds = time.perf_counter() - made.started
        operation = review.request.operation if review.request else ""
        request_id = made.id or review.uid
        self._metrics.reviewed(self._path, operation, _outcome(response), seconds=seconds, request_id=request_id)
        if self._log is None:
            return
        line = log_fields(self._path, review, response, seconds=seconds, request_id=request_id)
        if made.cluster:
            # A route without a cluster in its path has it from the objects, as the line has already.
            line.cluster = made.cluster
        if made.caller:
            line.caller = made.caller
        if target is not None:
            line.owner, line.owner_case = target.ownership.cluster, target.ownership.status
            if target.ownership.problem:
                line.owner_problem = target.ownership.problem
            line.hooks = len(target.relevant)
        self._log(encode_line(line))


def _decode_whole(body: bytes) -> Decoded:
    """Return the request in a body, its objects decoded as well; raises BadReviewError."""
    review = decode_review(body)
    # An object that is no JSON is an error where it is needed.
    with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        if (request := review.request) is not None:
            _ = request.object, request.old_object, request.user, request.decoded_options
    return review


def _cluster(scope: Scope) -> str:
    cluster: str = scope.get("path_params", {}).get("cluster", "")
    if not is_cluster(cluster):
        raise RequestError(404, "NotFound", f"{cluster!r} is not the name or the path of a logical cluster")
    return cluster


def _beyond_quota(asked: Asked, limit: int) -> tuple[DispatchResult, bytes]:
    """Return the answer to a request beyond the quota of its cluster: a refusal, whatever the failurePolicy."""
    text = (
        f"{limit} requests of logical cluster {asked.cluster} are being answered, which is the limit (setting "
        "dispatch_workspace_requests); try again later"
    )
    response, review = errored(text, code=429, reason="TooManyRequests"), asked.review
    return DispatchResult(response, None), encode_response(response, uid=review.uid, api_version=review.api_version)


def _outcome(response: Response) -> str:
    if response.allowed:
        return "patched" if response.patch else "allowed"
    return "denied" if response.code < 500 else "errored"


class DispatchEndpoint(ClusterEndpoint):
    """Asks the webhooks of one phase."""

    def __init__(self, path: str, *, phase: Phase, vouched: bool = False, **rest: Any) -> None:
        """Prepare.

        Args:
            path: Of the route.
            phase: Of admission.
            vouched: As `app.dispatch.schema_owner.find_owner` has it.
            rest: As `ClusterEndpoint` has it.
        """
        super().__init__(path, **rest)
        self._phase: Final = phase
        self._vouched: Final = vouched

    async def _decide_within_quota(self, asked: Asked) -> tuple[DispatchResult, bytes]:
        review, request, cluster, deadline, returned = asked
        problem = "" if returned else await self._not_ready(asked)
        dispatched: DispatchResult
        try:
            if returned:
                dispatched = DispatchResult(errored(_RETURNED, code=_LOOP_DETECTED, reason="LoopDetected"), None)
            elif problem:
                group, resource = request.resource.group, request.resource.resource
                error = forbidden(f"{resource}.{group}" if group else resource, request.name, problem)
                dispatched = DispatchResult(refusal(error), None)
            else:
                dispatcher = self._standing.dispatcher
                dispatched = await dispatcher.dispatch(
                    request, cluster=cluster, phase=self._phase, deadline=deadline, vouched=self._vouched
                )
        except Exception as error:  # noqa: BLE001 - answered, whatever it is
            dispatched = DispatchResult(failed(error, route=self._path, uid=review.uid), None)
        encode = partial(encode_response, dispatched.response, uid=review.uid, api_version=review.api_version)
        answer = encode() if request.size <= MAX_ON_LOOP else await self._off_loop(encode)
        return dispatched, answer


class ExplainEndpoint(ClusterEndpoint):
    """Says which webhooks would be asked, and why the others would not."""

    async def _decide_within_quota(self, asked: Asked) -> tuple[DispatchResult, bytes]:
        problem = await self._not_ready(asked)
        response = Response(allowed=True)
        try:
            if problem:
                raise RequestError(503, "ServiceUnavailable", problem)
            explained = await explain(
                self._standing.dispatcher, asked.request, cluster=asked.cluster, deadline=asked.deadline
            )
            return DispatchResult(response, None), await self._encode(explained, asked.cluster)
        except StatusError as error:
            raise RequestError(error.status.code, error.status.reason, str(error)) from error
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise RequestError(400, "BadRequest", failed(error, route=self._path, uid="").message) from error

    async def _encode(self, explained: Explanation, cluster: str) -> bytes:
        """Return an explanation as JSON; one of thousands of webhooks is encoded in turns with other clusters."""
        turns = self._standing.dispatcher.turns
        phases: dict[str, msgspec.Raw] = {}
        for phase in PHASES:
            hooks, parts = getattr(explained, phase), list[bytes]()
            for start in range(0, len(hooks), _ENCODED_PER_TURN):
                parts.append(msgspec.json.encode(hooks[start : start + _ENCODED_PER_TURN])[1:-1])
                if len(hooks) > _ENCODED_PER_TURN:
                    await turns.pause(cluster)
            phases[phase] = msgspec.Raw(b"[" + b",".join(parts) + b"]")
        return msgspec.json.encode(msgspec.structs.replace(explained, **phases))


def refusal(error: StatusError) -> Response:
    """Return the answer that refuses a request with a status."""
    status = error.status
    return Response(allowed=False, code=status.code, reason=status.reason, message=status.message, status=status)
