"""Bearer tokens of callers, which an apiserver reviews: their user (TokenReview) and its right (SubjectAccessReview).

A token is sent to the apiserver only. Caches hold a keyed hash of it, and no message has it.
"""

import asyncio
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from fleethook.cel.evaluation import AccessQuestion
from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.engines.dispatch.call.live_lookups import LiveSource, Post, build_access_review
from fleethook.engines.dispatch.review.token_review import (
    ACCESS_REVIEWS,
    REVIEW_SECONDS,
    TOKEN_REVIEWS,
    ReviewedUser,
    build_token_review,
    is_allowed,
    read_reviewed_user,
)
from fleethook.fairness.expiring_cache import ExpiringCache
from fleethook.model.json import JSON
from fleethook.outbound.call_slots import CallSlots, FullError, Quotas
from fleethook.outbound.failure_log import FailureLog

ACCESS_GROUP: Final = "fleethook.io"
ACCESS_RESOURCE: Final = "clusters"
ACCESS_VERB: Final = "create"
"""A caller needs this verb on ``clusters/<route>`` of the group, with the cluster's name, to ask a route about it."""

MAX_ENTRIES: Final = 10_000
"""Cached answers of each kind."""
REFUSED_SECONDS: Final = 10.0
"""The apiserver reviews a refused token again after this time, so that a new right has effect soon."""
# Reviews in flight: for one client address and one cluster, for one client address, for all.
_QUOTAS: Final = Quotas(connections=8, calls=32, total=128)


class Decision(NamedTuple):
    """An apiserver's answer about a token."""

    user: str
    """Its user, ``""`` if it is not accepted."""
    allowed: bool = False


class UndecidedError(Exception):
    """The apiserver gave no answer about a token; the caller gets the message."""


class BusyError(Exception):
    """Too many reviews of tokens are in flight."""


class _Question(NamedTuple):
    """A question about a token; caches hold ``digest`` instead of the token."""

    digest: bytes
    cluster: str
    route: str


class Tokens:
    """Decides whether the user of a token may ask a route about a logical cluster."""

    def __init__(
        self,
        post: Post,
        live: LiveSource,
        *,
        seconds: float,
        audiences: Sequence[str] = (),
        limit: int = MAX_ENTRIES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare.

        Args:
            post: Posts to the apiserver.
            live: Knows the paths of clusters.
            seconds: The lifetime of a positive answer.
            audiences: A token must be for one of these; for the apiserver's own if there are none.
            limit: The maximum number of cached answers of each kind.
            clock: Returns the time in seconds.
        """
        self._post: Final = post
        self._live: Final = live
        self._seconds: Final = seconds
        self._audiences: Final = tuple(audiences)
        self._secret: Final = secrets.token_bytes(32)
        self._users: Final[ExpiringCache[bytes, ReviewedUser]] = ExpiringCache(limit, clock=clock)
        self._allowed: Final[ExpiringCache[_Question, Decision]] = ExpiringCache(limit, clock=clock)
        # Apart, so that a caller with many invalid tokens evicts no answer of another caller.
        self._refused: Final[ExpiringCache[_Question, Decision]] = ExpiringCache(limit, clock=clock)
        self._pending: Final[dict[_Question, asyncio.Task[Decision]]] = {}
        self._slots: Final = CallSlots(_QUOTAS)
        self._failures: Final = FailureLog()

    def find(self, token: str, *, cluster: str, route: str) -> Decision | None:
        """Return the cached answer, None if the apiserver has to be asked; arguments as in `decide`."""
        return self._find(self._make_question(token, cluster, route))

    async def decide(self, token: str, *, cluster: str, route: str, client: str, seconds: float) -> Decision:
        """Return the apiserver's answer, which may come from the cache.

        Args:
            token: The bearer token.
            cluster: The logical cluster, by its name.
            route: The route: ``mutate``, ``validate`` or ``explain``.
            client: The address of the caller; addresses share the reviews in flight.
            seconds: The longest wait.

        Raises:
            UndecidedError: The apiserver gave no answer.
            BusyError: Too many reviews are in flight.
        """
        question = self._make_question(token, cluster, route)
        if (known := self._find(question)) is not None:
            return known
        pending = self._pending.get(question)
        if pending is None:
            pending = asyncio.create_task(self._review(token, question, client), name=f"access to {cluster}")
            pending.add_done_callback(lambda done: self._forget(question, done))
            self._pending[question] = pending
        try:
            # A caller that leaves must not end a review for which other callers wait, too.
            async with asyncio.timeout(seconds):
                return await asyncio.shield(pending)
        except TimeoutError:
            raise UndecidedError("the apiserver did not review the token in time") from None

    def _make_question(self, token: str, cluster: str, route: str) -> _Question:
        return _Question(hmac.digest(self._secret, token.encode(), hashlib.sha256), cluster, route)

    def _find(self, question: _Question) -> Decision | None:
        return self._allowed.get(question.cluster, question) or self._refused.get(question.cluster, question)

    def _forget(self, question: _Question, done: "asyncio.Task[Decision]") -> None:
        del self._pending[question]
        if not done.cancelled():
            # Marked as retrieved, since every caller may have left.
            done.exception()

    async def _review(self, token: str, question: _Question, client: str) -> Decision:
        try:
            async with self._slots.hold(client, question.cluster, seconds=REVIEW_SECONDS):
                decision = await self._ask_apiserver(token, question)
        except FullError as error:
            raise BusyError from error
        except (APIError, UnreachableError, ValueError) as error:
            text, reason = "cannot review the access of a caller", str(error).replace(token, "(token)")
            self._failures.note(client, question.cluster, text, cluster=question.cluster, error=reason)
            text = "the apiserver cannot review the token; the log of this server has the reason"
            raise UndecidedError(text) from None
        cache, seconds = (self._allowed, self._seconds) if decision.allowed else (self._refused, REFUSED_SECONDS)
        cache.put(question.cluster, question, decision, seconds=min(seconds, self._seconds))
        return decision

    async def _ask_apiserver(self, token: str, question: _Question) -> Decision:
        scope = self._live.scope(question.cluster)
        user = self._users.get(scope, question.digest)
        if user is None:
            user = await self._authenticate(token, scope)
            if user is None:
                return Decision("")
            self._users.put(scope, question.digest, user, seconds=self._seconds)
        return Decision(user.name, allowed=await self._permits(user, scope, question))

    async def _authenticate(self, token: str, scope: str) -> ReviewedUser | None:
        review = build_token_review(token, self._audiences)
        answer: JSON = None
        try:
            answer = await self._post("POST", scope + TOKEN_REVIEWS, body=review, timeout=REVIEW_SECONDS)
        except APIError as error:
            if not (scope and error.code in _NO_CLUSTER):
                raise
            # The answer must not reveal which logical clusters exist. If the named cluster cannot be asked, the cluster
            # of the server's own credentials decides whether the token is valid.
            answer = await self._post("POST", TOKEN_REVIEWS, body=review, timeout=REVIEW_SECONDS)
        return read_reviewed_user(answer, self._audiences)

    async def _permits(self, user: ReviewedUser, scope: str, question: _Question) -> bool:
        access = AccessQuestion(
            user.name,
            ACCESS_VERB,
            uid=user.uid,
            groups=user.groups,
            extra=user.extra,
            group=ACCESS_GROUP,
            resource=ACCESS_RESOURCE,
            subresource=question.route,
            name=question.cluster,
        )
        try:
            answer = await self._post(
                "POST", scope + ACCESS_REVIEWS, body=build_access_review(access), timeout=REVIEW_SECONDS
            )
        except APIError as error:
            if not (scope and error.code in _NO_CLUSTER):
                raise
            # The same answer as in an existing cluster in which the user has no right.
            text = "cannot review access in a logical cluster"
            self._failures.note(user.name, question.cluster, text, cluster=question.cluster, error=str(error))
            return False
        return is_allowed(answer)


_NO_CLUSTER: Final = frozenset({403, 404})
"""kcp's answers for a logical cluster that does not exist, or in which this server has no rights."""
