"""The users of a console on other addresses than loopback: their tokens, client certificates and rights.

An apiserver decides about tokens and rights.
"""

import asyncio
import hashlib
import hmac
import logging
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from fleethook.cel.evaluation import AccessQuestion
from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.console.users.local_access import AccessError, User
from fleethook.console.users.sessions import Sessions
from fleethook.fairness.cache import ExpiringCache
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSON, JSONObject
from fleethook.outbound.call_limits import CallSlots, FullError, Quotas
from fleethook.server.callers import (
    ACCESS_REVIEWS,
    REVIEW_SECONDS,
    TOKEN_REVIEWS,
    Post,
    bearer_token,
    build_access_review,
    build_token_review,
    is_allowed,
    read_reviewed_user,
)

EXTENSION: Final = "fleethook.console-user"
"""The ASGI extension with the user of a client certificate: its member ``user`` is a `User`."""
AUTHENTICATED_GROUP: Final = "system:authenticated"
"""kube-apiserver adds this group to every authenticated user."""


def read_certificate_user(certificate: Mapping[str, Any] | None) -> User | None:
    """Return the user that a certificate names, None if it has no common name.

    Args:
        certificate: A verified certificate from ``ssl.SSLObject.getpeercert()``; None or empty without one.
    """
    pairs = [pair for rdn in (certificate or {}).get("subject", ()) for pair in rdn]
    # Go takes the last of several common names.
    name = next((value for key, value in reversed(pairs) if key == "commonName"), "")
    if not name:
        return None
    groups = tuple(value for key, value in pairs if key == "organizationName")
    return User(name, groups=(*groups, AUTHENTICATED_GROUP))


def find_certificate_user(scope: Scope) -> User | None:
    """Return the user of the client certificate of a request, None without one."""
    user: User | None = (scope.get("extensions") or {}).get(EXTENSION, {}).get("user")
    return user


class CertificateProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol; it adds the user of the client certificate to each request."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Read the certificate. OpenSSL returns verified certificates only: TLS ends the handshake of any other."""
        super().connection_made(transport)
        secured = transport.get_extra_info("ssl_object")
        self._user = None if secured is None else read_certificate_user(secured.getpeercert())

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        if self._user is not None:
            self.scope["extensions"] = {EXTENSION: {"user": self._user}}


_log: Final = logging.getLogger(__name__)

CACHE_SECONDS: Final = 30.0
"""A removed right or token has effect after this time."""
REFUSED_SECONDS: Final = 5.0
"""A new right has effect after this time."""
MAX_ENTRIES: Final = 10_000
"""Cached answers of each kind."""
# Reviews in flight: for one client address and one kind of review, for one client address, for all.
_QUOTAS: Final = Quotas(connections=8, calls=16, total=32)

LACK: Final = (
    "this console needs credentials: sign in with a bearer token, send `Authorization: Bearer …`, or present a client "
    "certificate if --client-ca-file is set"
)
_SILENCE: Final = "the apiserver cannot check your access now; try again, or look into the log of the console"
_REFUSED_TOKEN: Final = "the apiserver does not accept the bearer token; it may have expired"  # noqa: S105 - a message

FindResource = Callable[[GroupKind], str | None]
"""Returns the resource of a kind (``yurtappsets``), None for a kind that the console does not read."""


class ApiserverAuthorizer:
    """Asks the apiserver by TokenReview and SubjectAccessReview. Without an answer, it refuses the request."""

    needs_credentials: Final = True
    limits_kinds: Final = True

    def __init__(
        self,
        post: Post,
        find_resource: FindResource,
        *,
        limit: int = MAX_ENTRIES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare.

        Args:
            post: Posts to the apiserver.
            find_resource: Names the resources of kinds.
            limit: The most cached answers of each kind.
            clock: Returns the time in seconds.
        """
        self._post: Final = post
        self._find_resource: Final = find_resource
        self.sessions = Sessions(clock=clock)
        self.opens_by_address = False
        self._secret: Final = secrets.token_bytes(32)
        self._users: Final[ExpiringCache[bytes, User]] = ExpiringCache(limit, clock=clock)
        self._rights: Final[ExpiringCache[AccessQuestion, bool]] = ExpiringCache(limit, clock=clock)
        self._slots: Final = CallSlots(_QUOTAS)

    async def authenticate(self, request: Request) -> User:
        """Return the user of a request: of its bearer token, else of its session, else of its client certificate.

        A refused token is an error even beside a certificate. The certificate may be that of a proxy, whose rights the
        proxy's users must not get.

        Raises:
            AccessError: The request has no valid credentials (401), or the apiserver gives no answer (503).
        """
        token = bearer_token(request.scope)
        if not token and "authorization" in request.headers:
            raise AccessError(401, "the header Authorization needs the form `Bearer TOKEN`, once")
        token = token or self.sessions.find_token(request)
        if token:
            return await self.review_token(token, client=request.client.host if request.client else "")
        if (user := find_certificate_user(request.scope)) is not None:
            return user
        raise AccessError(401, LACK)

    async def review_token(self, token: str, *, client: str) -> User:
        """Return the user of a token.

        Args:
            token: The bearer token; caches hold a keyed hash of it.
            client: The address of the client; the clients share the reviews in flight.

        Raises:
            AccessError: The token is not accepted (401), or the apiserver gives no answer (503).
        """
        digest = hmac.digest(self._secret, token.encode(), hashlib.sha256)
        if (known := self._users.get("", digest)) is not None:
            return known
        answer = await self._ask(TOKEN_REVIEWS, build_token_review(token, ()), asker=client, token=token)
        found = read_reviewed_user(answer, ())
        if found is None:
            raise AccessError(401, _REFUSED_TOKEN)
        user = User(*found)
        self._users.put("", digest, user, seconds=CACHE_SECONDS)
        return user

    async def permits(self, user: User, group_kind: GroupKind, namespace: str) -> bool:
        """Return whether a user may get objects of a kind, as `Authorizer` describes."""
        resource = self._find_resource(group_kind)
        if resource is None:
            return False
        question = AccessQuestion(
            user.name,
            "get",
            uid=user.uid,
            groups=user.groups,
            extra=user.extra,
            group=group_kind.group,
            resource=resource,
            namespace=namespace,
        )
        if (known := self._rights.get(user.name, question)) is not None:
            return known
        answer = await self._ask(ACCESS_REVIEWS, build_access_review(question), asker=user.name)
        allowed = is_allowed(answer)
        self._rights.put(user.name, question, allowed, seconds=CACHE_SECONDS if allowed else REFUSED_SECONDS)
        return allowed

    async def _ask(self, path: str, review: JSONObject, *, asker: str, token: str = "") -> JSON:
        try:
            async with asyncio.timeout(2 * REVIEW_SECONDS), self._slots.hold(asker, path, seconds=REVIEW_SECONDS):
                return await self._post("POST", path, body=review, timeout=REVIEW_SECONDS)
        except FullError:
            raise AccessError(503, "too many requests wait for the apiserver; try again later") from None
        except (APIError, UnreachableError, TimeoutError, ValueError) as error:
            text = str(error) or type(error).__name__
            reason = text.replace(token, "(token)") if token else text
            _log.warning("cannot check the access of a user", extra={"fields": {"path": path, "error": reason}})
            raise AccessError(503, _SILENCE) from None
