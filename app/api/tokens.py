"""Bearer tokens of callers, which an apiserver reviews: their user (TokenReview) and its right (SubjectAccessReview).

A token is sent to the apiserver only. Caches hold a keyed hash of it, and no message has it.
"""

import asyncio
import hashlib
import hmac
import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from app.api.expiring import ExpiringCache
from app.dispatch.cel.access_check import AccessQuestion
from app.dispatch.live_lookups import LiveSource, Post, build_access_review
from app.kube.errors import APIError, UnreachableError
from app.model.json import JSON, JSONObject, as_object
from app.outbound.call_slots import CallSlots, FullError, Quotas

_log: Final = logging.getLogger(__name__)

ACCESS_GROUP: Final = "fleethook.io"
ACCESS_RESOURCE: Final = "clusters"
ACCESS_VERB: Final = "create"
"""To ask a route about a cluster takes this verb on ``clusters/<route>`` of the group, with the cluster's name."""

_AUTHENTICATION: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
_AUTHORIZATION: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_SECONDS: Final = 5.0
MAX_ENTRIES: Final = 10_000
"""Answers that are kept, of each kind."""
REFUSED_SECONDS: Final = 10.0
"""A token that was refused is asked about again after this time, so that a new right is seen soon."""
# Reviews under way: for one client address and one cluster, for one client address, for all.
_QUOTAS: Final = Quotas(connections=8, calls=32, total=128)


class Decision(NamedTuple):
    """An apiserver's answer about a token."""

    user: str
    """Its user, ``""`` if it is not accepted."""
    allowed: bool = False


class UndecidedError(Exception):
    """The apiserver gave no answer about a token; the text is for the caller."""


class BusyError(Exception):
    """Too many reviews of tokens are under way."""


class _User(NamedTuple):
    name: str
    uid: str
    groups: tuple[str, ...]
    extra: tuple[tuple[str, tuple[str, ...]], ...]


class _Asked(NamedTuple):
    """A question about a token; ``digest`` stands for it wherever something is kept."""

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
            seconds: How long an answer is used that allows something.
            audiences: One of these a token must be for; the apiserver's own if there are none.
            limit: How many answers are kept, of each kind.
            clock: Returns the time in seconds.
        """
        self._post: Final = post
        self._live: Final = live
        self._seconds: Final = seconds
        self._audiences: Final = tuple(audiences)
        self._secret: Final = secrets.token_bytes(32)
        self._users: Final[ExpiringCache[bytes, _User]] = ExpiringCache(limit, clock=clock)
        self._allowed: Final[ExpiringCache[_Asked, Decision]] = ExpiringCache(limit, clock=clock)
        # Apart, so that a caller with many invalid tokens evicts no answer of another caller.
        self._refused: Final[ExpiringCache[_Asked, Decision]] = ExpiringCache(limit, clock=clock)
        self._pending: Final[dict[_Asked, asyncio.Task[Decision]]] = {}
        self._slots: Final = CallSlots(_QUOTAS)

    async def decide(self, token: str, *, cluster: str, route: str, client: str, seconds: float) -> Decision:
        """Return the apiserver's answer, which may come from the cache.

        Args:
            token: The bearer token.
            cluster: The logical cluster, by its name.
            route: The route: ``mutate``, ``validate`` or ``explain``.
            client: The address of the caller, among which reviews under way are shared.
            seconds: How long to wait.

        Raises:
            UndecidedError: The apiserver gave no answer.
            BusyError: Too many reviews are under way.
        """
        asked = _Asked(hmac.digest(self._secret, token.encode(), hashlib.sha256), cluster, route)
        known = self._allowed.get(cluster, asked) or self._refused.get(cluster, asked)
        if known is not None:
            return known
        pending = self._pending.get(asked)
        if pending is None:
            pending = asyncio.create_task(self._review(token, asked, client), name=f"access to {cluster}")
            pending.add_done_callback(lambda done: self._ended(asked, done))
            self._pending[asked] = pending
        try:
            # One caller that leaves does not end a review that others wait for, too.
            async with asyncio.timeout(seconds):
                return await asyncio.shield(pending)
        except TimeoutError:
            raise UndecidedError("the apiserver did not answer in time whether the token permits this") from None

    def _ended(self, asked: _Asked, done: "asyncio.Task[Decision]") -> None:
        del self._pending[asked]
        if not done.cancelled():
            # Marked as seen: every caller may have left before.
            done.exception()

    async def _review(self, token: str, asked: _Asked, client: str) -> Decision:
        try:
            async with self._slots.hold(client, asked.cluster, seconds=_SECONDS):
                decision = await self._asked_of_apiserver(token, asked)
        except FullError as error:
            raise BusyError from error
        except (APIError, UnreachableError, ValueError) as error:
            _log.warning(
                "access of a caller cannot be reviewed",
                extra={"fields": {"cluster": asked.cluster, "error": str(error).replace(token, "(token)")}},
            )
            text = "the apiserver cannot be asked whether the token permits this; the log of this server has the reason"
            raise UndecidedError(text) from None
        cache, seconds = (self._allowed, self._seconds) if decision.allowed else (self._refused, REFUSED_SECONDS)
        cache.put(asked.cluster, asked, decision, seconds=min(seconds, self._seconds))
        return decision

    async def _asked_of_apiserver(self, token: str, asked: _Asked) -> Decision:
        scope = self._live.scope(asked.cluster)
        user = self._users.get(scope, asked.digest)
        if user is None:
            user = await self._authenticate(token, scope)
            if user is None:
                return Decision("")
            self._users.put(scope, asked.digest, user, seconds=self._seconds)
        return Decision(user.name, allowed=await self._permits(user, scope, asked))

    async def _authenticate(self, token: str, scope: str) -> _User | None:
        spec: JSONObject = {"token": token}
        if self._audiences:
            spec["audiences"] = list(self._audiences)
        review: JSONObject = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
        answer: JSON = None
        try:
            answer = await self._post("POST", scope + _AUTHENTICATION, body=review, timeout=_SECONDS)
        except APIError as error:
            if not (scope and error.code in _NO_CLUSTER):
                raise
            # The answer must not tell callers which logical clusters exist. Where the named one cannot be asked, the
            # cluster of the server's own credentials says whether the token is valid.
            answer = await self._post("POST", _AUTHENTICATION, body=review, timeout=_SECONDS)
        return self._user_of(as_object(as_object(answer).get("status")))

    def _user_of(self, status: Mapping[str, Any]) -> _User | None:
        """Return the user in the status of a TokenReview, None if the token is not accepted."""
        user = as_object(status.get("user"))
        name = user.get("username")
        if status.get("authenticated") is not True or not isinstance(name, str) or not name:
            return None
        # An apiserver that does not know audiences names none: the token is for the apiserver itself then.
        if self._audiences and not set(self._audiences) & set(_texts(status.get("audiences"))):
            return None
        extra = tuple(sorted((key, _texts(values)) for key, values in as_object(user.get("extra")).items()))
        return _User(name, str(user.get("uid") or ""), _texts(user.get("groups")), extra)

    async def _permits(self, user: _User, scope: str, asked: _Asked) -> bool:
        question = AccessQuestion(
            user.name,
            ACCESS_VERB,
            uid=user.uid,
            groups=user.groups,
            extra=user.extra,
            group=ACCESS_GROUP,
            resource=ACCESS_RESOURCE,
            subresource=asked.route,
            name=asked.cluster,
        )
        try:
            answer = await self._post(
                "POST", scope + _AUTHORIZATION, body=build_access_review(question), timeout=_SECONDS
            )
        except APIError as error:
            if not (scope and error.code in _NO_CLUSTER):
                raise
            # The same answer as in an existing cluster in which the user has no right.
            _log.warning(
                "access in a logical cluster cannot be reviewed",
                extra={"fields": {"cluster": asked.cluster, "error": str(error)}},
            )
            return False
        status = as_object(as_object(answer).get("status"))
        return status.get("allowed") is True and status.get("denied") is not True


_NO_CLUSTER: Final = frozenset({403, 404})
"""How kcp answers for a logical cluster that does not exist, or in which this server has no rights."""


def _texts(value: JSON) -> tuple[str, ...]:
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else ()
