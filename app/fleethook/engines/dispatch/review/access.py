"""The right to have reviews of a logical cluster dispatched or explained.

Three kinds of callers have it. A client certificate that a setting names gives it for every cluster. A bearer token
gives it for the clusters that the apiserver permits its user. On a loopback address, every client has it if `is_open`.
"""

import asyncio
import hashlib
import hmac
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

from starlette.types import Scope

from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.registration.paths import split_cluster_path
from fleethook.engines.dispatch.dispatch_settings import DispatchSettings
from fleethook.engines.dispatch.match.selectors_and_decision import NamespaceSource
from fleethook.fair_limits import CallLimit, FairCache, LimitError
from fleethook.model.json import JSON, JSONObject, as_object, as_text, list_texts
from fleethook.model.kcp import is_path
from fleethook.outbound.call_errors_and_failure_log import FailureLog
from fleethook.server.protocol.bodies import RequestError
from fleethook.server.reviews.http_checks import NamedCallers
from fleethook.work.threads_and_gc import Work

_TOKEN_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 - a path
_ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
# The longest wait for an apiserver's answer to one review.
_REVIEW_SECONDS: Final = 5.0

Post = Callable[..., Awaitable[JSON]]
"""Sends a request to the apiserver, as `fleethook.cluster.apiserver_connection.Connection.json` does."""

ACCESS_GROUP: Final = "fleethook.io"
ACCESS_RESOURCE: Final = "clusters"
ACCESS_VERB: Final = "create"
"""A caller needs this verb on ``clusters/<route>`` of the group, with the cluster's name, to ask a route about it."""

MAX_ENTRIES: Final = 10_000
"""Cached answers."""
ALLOWED_SECONDS: Final = 60.0
"""A revoked right has effect after this time at the latest."""
REFUSED_SECONDS: Final = 10.0
"""The apiserver reviews a refused token again after this time, so that a new right has effect soon."""
MAX_REVIEWS: Final = 64
"""Reviews in flight; a single client address has half of them."""


class AccessDecision(NamedTuple):
    """An apiserver's answer about a token."""

    user: str
    """Its user, ``""`` if it is not accepted."""
    allowed: bool = False


class UndecidedError(Exception):
    """The apiserver gave no answer about a token; the caller gets the message."""


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
        live: NamespaceSource,
        *,
        audiences: Sequence[str] = (),
        limit: int = MAX_ENTRIES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare.

        Args:
            post: Posts to the apiserver.
            live: Knows the paths of clusters.
            audiences: A token must be for one of these; for the apiserver's own if there are none.
            limit: The maximum number of cached answers.
            clock: Returns the time in seconds.
        """
        self._post: Final = post
        self._live: Final = live
        self._audiences: Final = tuple(audiences)
        self._secret: Final = secrets.token_bytes(32)
        # Each cluster owns its permissions and its refusals apart, so that a caller with many invalid tokens evicts no
        # permission of another caller.
        self._decisions: Final[FairCache[_Question, tuple[float, AccessDecision]]] = FairCache(limit)
        self._clock: Final = clock
        self._pending: Final[dict[_Question, asyncio.Task[AccessDecision]]] = {}
        self._reviews: Final = CallLimit(MAX_REVIEWS)
        self._failures: Final = FailureLog()

    def find(self, token: str, *, cluster: str, route: str) -> AccessDecision | None:
        """Return the cached answer, None if the apiserver has to be asked; arguments as in `decide`."""
        return self._find(self._make_question(token, cluster, route))

    async def decide(self, token: str, *, cluster: str, route: str, client: str, seconds: float) -> AccessDecision:
        """Return the apiserver's answer, which may come from the cache.

        Args:
            token: The bearer token.
            cluster: The logical cluster, by its name.
            route: The route: ``mutate``, ``validate`` or ``explain``.
            client: The address of the caller; addresses share the reviews in flight.
            seconds: The longest wait.

        Raises:
            UndecidedError: The apiserver gave no answer.
            LimitError: Too many reviews are in flight.
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

    def _find(self, question: _Question) -> AccessDecision | None:
        for is_allowed in (True, False):
            until, decision = self._decisions.get((question.cluster, is_allowed), question) or (0, None)
            if self._clock() < until:
                return decision
        return None

    def _forget(self, question: _Question, done: "asyncio.Task[AccessDecision]") -> None:
        del self._pending[question]
        if not done.cancelled():
            # Marked as retrieved, since every caller may have left.
            done.exception()

    async def _review(self, token: str, question: _Question, client: str) -> AccessDecision:
        try:
            async with self._reviews.hold(client, seconds=_REVIEW_SECONDS):
                decision = await self._ask_apiserver(token, question)
        except (APIError, UnreachableError, ValueError) as error:
            text, reason = "cannot review the access of a caller", str(error).replace(token, "(token)")
            self._failures.note(client, question.cluster, text, cluster=question.cluster, error=reason)
            text = "the apiserver cannot review the token; the log of this server has the reason"
            raise UndecidedError(text) from None
        seconds = ALLOWED_SECONDS if decision.allowed else REFUSED_SECONDS
        self._decisions.put((question.cluster, decision.allowed), question, (self._clock() + seconds, decision))
        return decision

    async def _ask_apiserver(self, token: str, question: _Question) -> AccessDecision:
        scope = self._live.scope(question.cluster)
        user = await self._authenticate(token, scope)
        if user is None:
            return AccessDecision("")
        return AccessDecision(user["user"], allowed=await self._permits(user, scope, question))

    async def _authenticate(self, token: str, scope: str) -> JSONObject | None:
        spec = {"token": token, **({"audiences": [*self._audiences]} if self._audiences else {})}
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
        answer: JSON = None
        try:
            answer = await self._post("POST", scope + _TOKEN_REVIEWS, body=review, timeout=_REVIEW_SECONDS)
        except APIError as error:
            if not (scope and error.code in _NO_CLUSTER):
                raise
            # The answer must not reveal which logical clusters exist. If the named one cannot be asked, root decides
            # whether the token is valid. Without a cluster in the path, kcp answers 500.
            root = self._live.scope(_ROOT)
            answer = await self._post("POST", root + _TOKEN_REVIEWS, body=review, timeout=_REVIEW_SECONDS)
        return read_reviewed_user(answer, self._audiences)

    async def _permits(self, user: JSONObject, scope: str, question: _Question) -> bool:
        attributes = {
            "verb": ACCESS_VERB,
            "group": ACCESS_GROUP,
            "version": "*",
            "resource": ACCESS_RESOURCE,
            "subresource": question.route,
            "name": question.cluster,
        }
        spec = {**user, "resourceAttributes": attributes}
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        try:
            answer = await self._post("POST", scope + _ACCESS_REVIEWS, body=review, timeout=_REVIEW_SECONDS)
        except APIError as error:
            if not (scope and error.code in _NO_CLUSTER):
                raise
            # The same answer as in an existing cluster in which the user has no right.
            text = "cannot review access in a logical cluster"
            self._failures.note(user["user"], question.cluster, text, cluster=question.cluster, error=str(error))
            return False
        return is_allowed(answer)


def read_reviewed_user(answer: JSON, audiences: Sequence[str]) -> JSONObject | None:
    """Return the user in an answered TokenReview, as the spec of a SubjectAccessReview names it.

    None if the token is not accepted or not for one of ``audiences``.
    """
    status = as_object(as_object(answer).get("status"))
    user = as_object(status.get("user"))
    name = as_text(user.get("username"))
    if status.get("authenticated") is not True or not name:
        return None
    # An apiserver without support for audiences returns none. It then accepts only tokens for the apiserver itself.
    if audiences and set(audiences).isdisjoint(list_texts(status.get("audiences"))):
        return None
    extra = {key: list_texts(values) for key, values in as_object(user.get("extra")).items()}
    return {"user": name, "uid": as_text(user.get("uid")), "groups": list_texts(user.get("groups")), "extra": extra}


def is_allowed(answer: JSON) -> bool:
    """Return whether an answered SubjectAccessReview gives the right."""
    status = as_object(as_object(answer).get("status"))
    return status.get("allowed") is True and status.get("denied") is not True


def _read_bearer_token(scope: Scope) -> str:
    """Return the bearer token of a request (RFC 6750 section 2.1), ``""`` if it has none, or more than one."""
    values = [value for name, value in scope["headers"] if name == b"authorization"]
    if len(values) != 1:
        return ""
    scheme, _, token = values[0].decode("latin-1").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


_ROOT: Final = "root"
_NO_CLUSTER: Final = frozenset({403, 404})
"""kcp's answers for a logical cluster that does not exist, or in which this server has no rights."""


_log: Final = logging.getLogger(__name__)


class ClusterAccess:
    """Decides whether a caller may ask a route about a logical cluster."""

    def __init__(self, *, is_open: bool = False, callers: NamedCallers, tokens: Tokens | None, lack: str) -> None:
        """Prepare.

        Args:
            is_open: Whether callers without credentials may ask.
            callers: The callers that may ask about every cluster.
            tokens: Decides about bearer tokens; None without an apiserver.
            lack: The message for a caller without credentials; it names the credentials that are needed.
        """
        self._is_open: Final = is_open
        self._callers: Final = callers
        self._tokens: Final = tokens
        self._lack: Final = lack

    def check_credentials(self, scope: Scope) -> None:
        """Refuse a caller without credentials, before its body is read.

        Raises:
            RequestError: The caller has none (401).
        """
        if self._is_open or self._callers.find(scope) or (self._tokens is not None and _read_bearer_token(scope)):
            return
        raise RequestError(401, "Unauthorized", self._lack)

    def is_authorized(self, scope: Scope, *, cluster: str, route: str) -> bool:
        """Return whether `authorize` permits a request without asking the apiserver; arguments as in `authorize`."""
        if self._is_open or self._callers.find(scope):
            return True
        if self._tokens is None or not (token := _read_bearer_token(scope)):
            return False
        decision = self._tokens.find(token, cluster=cluster, route=route)
        return decision is not None and decision.allowed

    def authorize(self, scope: Scope, *, cluster: str, route: str, seconds: float) -> Work[str]:
        """Return a caller that may ask a route about a cluster; waits only for the apiserver.

        That is the name of its certificate, or the user of its token; ``""`` if callers need no credentials.

        Args:
            scope: The request.
            cluster: The logical cluster, by its name.
            route: ``mutate``, ``validate`` or ``explain``.
            seconds: The longest wait for the apiserver.

        Raises:
            RequestError: The caller has none (401, 403), or the apiserver cannot be asked now (429, 503).
        """
        if name := self._callers.find(scope):
            return name
        if self._is_open:
            return ""
        token = _read_bearer_token(scope)
        if self._tokens is None or not token:
            raise RequestError(401, "Unauthorized", self._lack)
        client = (scope.get("client") or ("",))[0]
        try:
            decision = self._tokens.find(token, cluster=cluster, route=route)
            if decision is None:
                decision = yield self._tokens.decide(
                    token, cluster=cluster, route=route, client=client, seconds=seconds
                )
        except UndecidedError as error:
            raise RequestError(503, "ServiceUnavailable", str(error)) from None
        except LimitError:
            text = "too many callers wait for the apiserver to review their tokens; try again later"
            raise RequestError(429, "TooManyRequests", text) from None
        if decision.allowed:
            return decision.user
        if not decision.user:
            raise RequestError(401, "Unauthorized", "the apiserver does not accept the bearer token")
        # The name of its cluster would reveal that a path exists.
        named = split_cluster_path(scope["path"])[1]
        wanted = "the name of this cluster" if is_path(named) else f"the name {named!r}"
        text = (
            f"user {decision.user!r} may not {route} in logical cluster {named!r}: this needs the verb "
            f"{ACCESS_VERB} on {ACCESS_RESOURCE}/{route} of {ACCESS_GROUP} with {wanted}"
        )
        raise RequestError(403, "Forbidden", text)


def is_open(settings: DispatchSettings) -> bool:
    """Return whether callers without credentials may have reviews dispatched and explained."""
    if settings.client_ca_file is not None or not settings.listens_on_loopback:
        return False
    return settings.dispatch_open == "loopback" or (
        settings.dispatch_open == "manifests" and not settings.follows_cluster
    )


def log_access(settings: DispatchSettings) -> None:
    """Log at start if callers need no credentials, or if no credentials are accepted."""
    fields = {"host": settings.host, "dispatch_open": settings.dispatch_open}
    if is_open(settings):
        _log.warning(
            "reviews of logical clusters are dispatched and explained to callers without credentials, because this "
            "server listens on a loopback address; set dispatch_open: never to require credentials",
            extra={"fields": fields},
        )
    elif not settings.follows_cluster and not settings.dispatch_callers:
        _log.warning(needed_credentials(settings), extra={"fields": fields})


def needed_credentials(settings: DispatchSettings) -> str:
    """Return the message for a caller without credentials."""
    text = "reviews of logical clusters are dispatched and explained to callers with credentials only: "
    certificate = "a client certificate that the setting dispatch_callers names"
    if settings.follows_cluster:
        needed = f"a bearer token that the apiserver accepts, or {certificate}"
        return text + (needed if settings.dispatch_callers else f"{needed} (it names none now)")
    if settings.dispatch_callers:
        return text + certificate
    where = f"listens on {settings.host}"
    if settings.listens_on_loopback:
        where += f", with dispatch_open: {settings.dispatch_open}"
        where += "" if settings.client_ca_file is None else " and client_ca_file"
    return (
        f"{text}this server follows no apiserver that could review a bearer token, names no caller, and {where}. Set "
        "client_ca_file and dispatch_callers, follow an apiserver (--kubeconfig, --in-cluster), or listen on a "
        "loopback address"
    )


def describe_unnamed_caller(scope: Scope) -> str:
    """Return the reason why `/dispatch/…` refuses a caller; it names the holder of the caller's own certificate."""
    refused = "this route answers only callers that the setting dispatch_callers names"
    subject = (scope.get("extensions") or {}).get("tls", {}).get("client_cert_name")
    if subject is None:
        return f"{refused}: show a client certificate"
    return f"{refused}: the client certificate ({subject}) has none of these names"
